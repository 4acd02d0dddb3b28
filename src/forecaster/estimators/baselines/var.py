"""Vector autoregression: all locations on their last steps and the auxiliary information."""

import logging
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float32, Int64
from numpy.lib.stride_tricks import sliding_window_view

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.errors import ArtifactError, DataError, count_of, name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.least_squares import Factor, eliminate, measure, roll_out
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import scale_ahead, scale_arrays, scale_shapes, scaler_of
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.metrics import score
from forecaster.panel.panel import Panel
from forecaster.splits import is_whole
from forecaster.windows.scaling import Scaler, fit_scaler

E = TypeVar("E", bound="VAR")
MAX_CHOOSING = 1_000  # validation windows that the order rests on, spread evenly
MAX_COLUMNS = 16_384  # of orders above 1: products of so many columns take 2 GiB
log = logging.getLogger(__name__)


class VAR(Estimator):
    """Vector autoregression with exogenous terms (Eq. 8); later steps by recursion.

    `x̂_{t+1} = A_1 x_t + … + A_p x_{t−p+1} + B a_{t+1}`.

    Differs: a begins with a constant. The order p, 0 to `lags.recent`, is chosen on validation.
    Columns that are linear combinations of others, such as the last weekday, get weight 0 and are
    named in the run. Local covariates are left out: Eq. 8 gives every location a weight for every
    column, so Q of them would be N·Q columns more.
    """

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Return the shapes of scales and order; the order decides that of the weights."""
        return {**scale_shapes(replace(sizes, Q=0)), "order": (1,)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Return the weights of the best order, and the scales they rest on."""
        panel = _without_local(data.filled)
        scaler = fit_scaler(_without_local(data.panel), data.train)
        highest = _highest(panel, self.recipe.lags.recent)
        steps = _targets(data, highest)
        known = _auxiliary(_inputs_at(panel, steps - 1, 1), scaler)[:, 0]
        factor = eliminate(measure(scaler.values.apply(panel.values), known, steps, highest))
        solutions = [
            factor.solve(len(_columns(panel, order))).astype(np.float32)
            for order in range(highest + 1)
        ]
        errors = _validate(solutions, data, scaler, self.recipe.lags.horizon)
        order = int(np.argmin(errors))
        finite = [e if np.isfinite(e) else None for e in errors]
        about = {"order": order, "validation_rmse": finite, "rows": len(steps)}
        about |= _rank(factor, _columns(panel, order))
        log.info("VAR: order %d of 0…%d; %s", order, highest, _in_words(about))
        arrays = {**scale_arrays(scaler), "weights": solutions[order], "order": np.array([order])}
        return FitResult(arrays, {"var": about})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """Return the recursion's forecasts in the panel's units."""
        shared = replace(inputs, local_covariates=inputs.local_covariates[:, :, :0])
        return _forecast(arrays["weights"], int(arrays["order"][0]), shared, scaler_of(arrays))

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """Return a fitted estimator around a run whose weights are those of its order."""
        estimator = super().from_run(run)
        order, weights = run.arrays["order"], run.arrays.get("weights", np.empty(0))
        N, most = len(run.about["ids"]), run.recipe.lags.recent
        inputs = 1 + len(run.about["covariates"]) + len(CALENDAR_COLUMNS)
        orders = {(inputs + p * N, N): p for p in range(most + 1)}
        fits = order.dtype == np.int64 and orders.get(weights.shape) == order[0]
        if not fits or weights.dtype != np.float32:
            stored = f"order {order.tolist()} with weights {weights.dtype} {weights.shape}"
            needed = f"an order of 0…{most} with float32 ({inputs} + order · {N}, {N})"
            raise ArtifactError(f"not a forecaster run of a VAR: {stored}; needed: {needed}")
        return estimator


def _without_local(panel: Panel) -> Panel:
    """Return the panel without covariates of single locations."""
    return panel.select_covariates(panel.covariates.names, ())


def _columns(panel: Panel, order: int) -> list[str]:
    """Return the names of the columns of Eq. 8, in the order of their weights."""
    lags = [f"{name} lag {lag}" for lag in range(1, order + 1) for name in panel.locations.ids]
    return ["constant", *panel.covariates.names, *CALENDAR_COLUMNS, *lags]


def _highest(panel: Panel, recent: int) -> int:
    """Return the highest order that is tried: memory grows with the square of its columns."""
    most = (MAX_COLUMNS - len(_columns(panel, 0))) // len(panel.locations)
    if most < recent:
        what = f"at most {MAX_COLUMNS:,} columns"
        log.warning("VAR: orders up to %d of %d are tried: %s", max(most, 1), recent, what)
    return min(recent, max(most, 1))


def _targets(data: TrainingData, order: int) -> Int64[np.ndarray, " T"]:
    """Return the steps to learn, with `order` training steps before each.

    They were observed at nine locations in ten or all but one, as the steps of the graph are.
    """
    inside = sliding_window_view(data.train, order + 1).all(axis=1)
    steps = order + np.flatnonzero(inside & is_whole(data.panel.values[order:]))
    if not len(steps):
        what = f"no training step, of those with {order} training steps before them"
        remedy = "leave out the locations that miss most, or train on more steps"
        raise DataError(f"VAR: {what}, is observed at nine locations in ten; {remedy}")
    return np.asarray(steps)


def _inputs_at(panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int) -> ForecastInputs:
    return ForecastInputs(panel, origins, *look_ahead(panel, origins, horizon))


def _auxiliary(inputs: ForecastInputs, scaler: Scaler) -> Float32[np.ndarray, "B K A"]:
    """Return a_{t+1…t+K}, a constant first."""
    auxiliary, _ = scale_ahead(inputs, scaler)
    return np.pad(auxiliary, ((0, 0), (0, 0), (1, 0)), constant_values=1)


def _forecast(
    weights: Float32[np.ndarray, "F N"], order: int, inputs: ForecastInputs, scaler: Scaler
) -> Float32[np.ndarray, "B K N"]:
    past = inputs.panel.values[inputs.origins[:, None] - np.arange(order)]
    forecast = roll_out(weights, scaler.values.apply(past), _auxiliary(inputs, scaler))
    return scaler.values.undo(forecast)


def _validate(
    solutions: list[np.ndarray], data: TrainingData, scaler: Scaler, horizon: int
) -> list[float]:
    """Return the validation RMSE of every order; infinite where forecasts leave all bounds."""
    origins = data.windows.validation
    origins = origins[:: -(-len(origins) // MAX_CHOOSING)]
    inputs = _inputs_at(_without_local(data.filled), origins, horizon)
    truth = data.panel.values[origins[:, None] + np.arange(1, horizon + 1)]
    errors = []
    for order, weights in enumerate(solutions):
        with np.errstate(over="ignore", invalid="ignore"):  # a recursion may explode
            forecast = _forecast(weights, order, inputs, scaler)
            rmse = score(truth, forecast, mape_cut=1.0).rmse.value
        errors.append(rmse if rmse is not None and np.isfinite(rmse) else np.inf)
    return errors


def _rank(factor: Factor, columns: list[str]) -> dict[str, Any]:
    """Return how many columns there are, how many say something new, and which do not."""
    kept = set(factor.kept.tolist())
    dropped = [name for number, name in enumerate(columns) if number not in kept]
    return {"columns": len(columns), "rank": len(columns) - len(dropped), "dropped": dropped}


def _in_words(about: dict[str, Any]) -> str:
    dropped = about["dropped"]
    text = f"{about['rows']:,} steps, {count_of(about['columns'], 'column')}"
    return f"{text}, {len(dropped):,} dependent and without weight: {name_some(dropped)}"
