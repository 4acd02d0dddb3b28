"""Ridge regression per location, on its own lags and the auxiliary information."""

import numpy as np
from jaxtyping import Float32, Float64

from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.estimators.base import Estimator
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_ahead, scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.splits import history_steps
from forecaster.windows.scaling import fit_scaler

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # per training window, on standardised inputs
BLOCK = 128  # origins forecast at a time, to bound memory


class Ridge(Estimator):
    """Linear regression with an L2 penalty, for each location and step ahead.

    `ŷ_{t+k} = w · (lags of the location, a_{t+k})`. One penalty for all is chosen on validation.
    """

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and weights [K F N]."""
        inputs = sizes.L + sizes.P + len(CALENDAR_COLUMNS) + sizes.Q
        return {**scale_shapes(sizes), "weights": (sizes.K, inputs, sizes.N)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Solve for every penalty; the one with the lowest validation error is kept."""
        scaler = fit_scaler(data.panel, data.train)
        scaled = scaler.values.apply(data.filled.values)
        truth = scaler.values.apply(data.panel.values)
        horizon = self.recipe.lags.horizon
        views = []
        for origins in (data.windows.train, data.windows.validation):
            inputs = ForecastInputs(
                data.filled, origins, *look_ahead(data.filled, origins, horizon)
            )
            history = history_steps(data.filled, self.recipe.lags, origins)
            targets = origins[:, None] + np.arange(1, horizon + 1)
            views.append((history, scale_ahead(inputs, scaler), targets))
        (past, (aux, local), ahead), (past_v, (aux_v, local_v), ahead_v) = views
        weights, errors = [], np.zeros(len(PENALTIES))
        for n in range(scaled.shape[1]):
            a = np.concatenate([aux, local[..., n]], axis=2)
            w = _solve(scaled[past, n].astype(np.float64), a, truth[ahead, n])  # [penalty K F]
            a_v = np.concatenate([aux_v, local_v[..., n]], axis=2)
            forecasts = _apply(scaled[past_v, n], a_v, w)  # [penalty B K]
            misses = (forecasts - truth[ahead_v, n]) * scaler.values.deviation[n]
            errors += np.nansum(np.square(misses), axis=(1, 2))
            weights.append(w)
        best = int(np.argmin(errors))
        chosen = np.stack([w[best] for w in weights], axis=-1).astype(np.float32)
        penalty = np.array([PENALTIES[best]])
        return FitResult({**scale_arrays(scaler), "weights": chosen, "penalty": penalty})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The weighted sums in the panel's units."""
        scaler = scaler_of(arrays)
        history = history_steps(inputs.panel, self.recipe.lags, inputs.origins)
        auxiliary, local = scale_ahead(inputs, scaler)
        L, P = history.shape[1], auxiliary.shape[2]
        weights, values = arrays["weights"], inputs.panel.values
        forecasts = []
        for start in range(0, len(history), BLOCK):
            rows = slice(start, start + BLOCK)
            past = scaler.values.apply(values[history[rows]])
            y = np.einsum("bln,kln->bkn", past, weights[:, :L])
            y += np.einsum("bkp,kpn->bkn", auxiliary[rows], weights[:, L : L + P])
            y += np.einsum("bkqn,kqn->bkn", local[rows], weights[:, L + P :])
            forecasts.append(scaler.values.undo(y.astype(np.float32)))
        return np.concatenate(forecasts)


def _solve(
    past: Float64[np.ndarray, "B L"],
    auxiliary: Float32[np.ndarray, "B K A"],
    truth: Float32[np.ndarray, "B K"],
) -> Float64[np.ndarray, "penalties K F"]:
    """Return argmin ‖y − Xw‖²/B + λ‖w‖² for every penalty and step ahead, by normal equations."""
    B, K, A = auxiliary.shape
    L = past.shape[1]
    past_gram = past.T @ past
    weights = np.zeros((len(PENALTIES), K, L + A))
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
        for number, penalty in enumerate(PENALTIES):
            weights[number, k] = np.linalg.solve(gram + penalty * np.eye(L + A), moments)
    return weights


def _apply(
    past: Float32[np.ndarray, "B L"],
    auxiliary: Float32[np.ndarray, "B K A"],
    weights: Float64[np.ndarray, "penalties K F"],
) -> Float64[np.ndarray, "penalties B K"]:
    L = past.shape[1]
    y = np.einsum("bl,pkl->pbk", past, weights[:, :, :L], optimize=True)
    return np.asarray(y + np.einsum("bka,pka->pbk", auxiliary, weights[:, :, L:], optimize=True))
