"""Ridge regression per location, on its own lags and the auxiliary information."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.errors import ArtifactError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.step_models import (
    ALL_STEPS,
    ModelInputs,
    model_inputs,
    modelled_steps,
    steps_of_models,
    training_inputs,
)
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.panel.panel import Panel
from forecaster.splits import history_steps
from forecaster.windows.scaling import Scaler, fit_scaler

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # per training window, on standardised inputs
BLOCK = 128  # origins forecast at a time, to bound memory
Examples = tuple[np.ndarray, np.ndarray, np.ndarray]  # past [B L], auxiliary [B S A], truth [B S]


class Ridge(Estimator):
    """Linear regression with an L2 penalty, for each location and step ahead.

    `ŷ_{t+k} = w · (lags of the location, a_{t+k})`. One penalty for all is chosen on validation.
    Beyond 24 steps ahead only some have weights of their own (`step_models`).
    """

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and weights [S F N]; those of long horizons differ by version."""
        inputs = sizes.L + sizes.P + len(CALENDAR_COLUMNS) + sizes.Q
        every = {} if sizes.K > ALL_STEPS else {"weights": (sizes.K, inputs, sizes.N)}
        return {**scale_shapes(sizes), **every}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Solve for every penalty; the one with the lowest validation error is kept."""
        scaler = fit_scaler(data.panel, data.train)
        train, validation = (
            self._examples(data, origins, scaler)
            for origins in (data.windows.train, data.windows.validation)
        )
        weights, errors = [], np.zeros(len(PENALTIES))
        for n in range(len(data.panel.locations)):
            w = _solve(*train(n))  # [penalty S F]
            past, auxiliary, truth = validation(n)
            misses = (_apply(past, auxiliary, w) - truth) * scaler.values.deviation[n]
            errors += np.nansum(np.square(misses), axis=(1, 2))
            weights.append(w)
        best = int(np.argmin(errors))
        chosen = np.stack([w[best] for w in weights], axis=-1).astype(np.float32)
        penalty = np.array([PENALTIES[best]])
        return FitResult({**scale_arrays(scaler), "weights": chosen, "penalty": penalty})

    def learn_validation(self, arrays: Arrays, data: TrainingData) -> dict[str, np.ndarray]:
        """Solve by the chosen penalty for the training and the validation windows together."""
        origins = np.concatenate([data.windows.train, data.windows.validation])
        examples = self._examples(data, origins, scaler_of(arrays))
        penalties = arrays["penalty"].tolist()
        weights = [_solve(*examples(n), penalties)[0] for n in range(len(data.panel.locations))]
        return {"weights": np.stack(weights, axis=-1).astype(np.float32)}

    def _examples(
        self, data: TrainingData, origins: Int64[np.ndarray, " B"], scaler: Scaler
    ) -> Callable[[int], Examples]:
        """The scaled past, auxiliary inputs and targets of some windows, by location."""
        scaled = scaler.values.apply(data.filled.values)
        truth = scaler.values.apply(data.panel.values)
        steps = modelled_steps(self.recipe.lags.horizon)
        past = history_steps(data.filled, self.recipe.lags, origins)
        auxiliary, local = training_inputs(data.filled, origins, steps, scaler)
        ahead = origins[:, None] + np.array(steps)

        def of(n: int) -> Examples:
            covariates = np.concatenate([auxiliary, local[..., n]], axis=2)
            return scaled[past, n].astype(np.float64), covariates, truth[ahead, n]

        return of

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The weighted sums in the panel's units."""
        scaler, weights = scaler_of(arrays), self._weights(arrays)
        horizon, N = self.recipe.lags.horizon, weights.shape[2]
        forecasts = np.empty((len(inputs.origins), horizon, N), dtype=np.float32)
        steps = steps_of_models(len(weights), horizon)
        for coming, w in zip(model_inputs(inputs, scaler, steps), weights, strict=True):
            forecasts[:, coming.columns] = coming.spread(
                self._sum(coming, inputs.panel, scaler, w)
            )
        return forecasts

    def _sum(
        self,
        coming: ModelInputs,
        panel: Panel,
        scaler: Scaler,
        weights: Float32[np.ndarray, "F N"],
    ) -> Float32[np.ndarray, "R N"]:
        """The weighted sums of one model, in the panel's units."""
        history = history_steps(panel, self.recipe.lags, coming.origins)
        L, A = history.shape[1], coming.auxiliary.shape[1]
        blocks = []
        for start in range(0, len(history), BLOCK):
            rows = slice(start, start + BLOCK)
            past = scaler.values.apply(panel.values[history[rows]])
            y = np.einsum("rln,ln->rn", past, weights[:L])
            y += np.einsum("ra,an->rn", coming.auxiliary[rows], weights[L : L + A])
            y += np.einsum("rqn,qn->rn", coming.local[rows], weights[L + A :])
            blocks.append(scaler.values.undo(y.astype(np.float32)))
        return np.concatenate(blocks)

    def check_arrays(self, arrays: Arrays) -> None:
        """Refuse weights that do not fit the steps ahead."""
        steps_of_models(len(self._weights(arrays)), self.recipe.lags.horizon)

    def _weights(self, arrays: Arrays) -> Float32[np.ndarray, "S F N"]:
        """The weights of a run; those that do not fit its inputs are refused."""
        weights, lags = arrays["weights"], self.recipe.lags
        covariates = len(arrays["covariates.mean"]) + len(arrays["local_covariates.mean"])
        needed = lags.length + covariates + len(CALENDAR_COLUMNS), len(arrays["values.mean"])
        if weights.shape[1:] != needed or weights.dtype != np.float32:
            form = f"weights: {weights.dtype} {weights.shape}"
            raise ArtifactError(f"{form}; needed: float32 (steps, {needed[0]}, {needed[1]})")
        return weights


def _solve(
    past: Float64[np.ndarray, "B L"],
    auxiliary: Float32[np.ndarray, "B K A"],
    truth: Float32[np.ndarray, "B K"],
    penalties: Sequence[float] = PENALTIES,
) -> Float64[np.ndarray, "penalties K F"]:
    """Return argmin ‖y − Xw‖²/B + λ‖w‖² for every penalty and step ahead, by normal equations."""
    B, K, A = auxiliary.shape
    L = past.shape[1]
    past_gram = past.T @ past
    weights = np.zeros((len(penalties), K, L + A))
    for k in range(K):
        observed = np.isfinite(truth[:, k])
        count = int(observed.sum())
        if not count:
            continue
        complete = count == B
        X = past if complete else past[observed]
        a, y = auxiliary[observed, k].astype(np.float64), truth[observed, k].astype(np.float64)
        cross = X.T @ a
        gram = np.block([[past_gram if complete else X.T @ X, cross], [cross.T, a.T @ a]]) / count
        moments = np.concatenate([X.T @ y, a.T @ y]) / count
        for number, penalty in enumerate(penalties):
            weights[number, k] = np.linalg.solve(gram + penalty * np.eye(L + A), moments)
    return weights


def _apply(
    past: Float64[np.ndarray, "B L"],
    auxiliary: Float32[np.ndarray, "B K A"],
    weights: Float64[np.ndarray, "penalties K F"],
) -> Float64[np.ndarray, "penalties B K"]:
    L = past.shape[1]
    y = np.einsum("bl,pkl->pbk", past, weights[:, :, :L], optimize=True)
    return np.asarray(y + np.einsum("bka,pka->pbk", auxiliary, weights[:, :, L:], optimize=True))
