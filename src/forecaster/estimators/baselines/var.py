"""Vector autoregression: all locations on their last steps and the auxiliary information."""

import logging
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float32, Int64
from numpy.lib.stride_tricks import sliding_window_view

from forecaster.artifact import Run
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, DataError, count_of, name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.choosing import choosing_origins
from forecaster.estimators.baselines.least_squares import (
    Factor,
    factorize,
    moment_matrix,
    roll_out,
)
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import (
    bound_inputs,
    range_arrays,
    scale_ahead,
    scale_arrays,
    scale_shapes,
    scaler_of,
)
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.metrics import score
from forecaster.models.network import LONG_HORIZON, SHORT_HORIZON
from forecaster.panel.panel import Panel
from forecaster.splits import is_well_observed, living
from forecaster.training.progress import announce
from forecaster.windows.scaling import Scaler, fit_scaler

E = TypeVar("E", bound="VAR")
MAX_COLUMNS = 16_384  # of orders above 1: the products of so many columns take 2 GiB
log = logging.getLogger(__name__)


class VAR(Estimator):
    """Vector autoregression with exogenous terms (Eq. 8); later steps by recursion.

    `x̂_{t+1} = A_1 x_t + … + A_p x_{t−p+1} + B a_{t+1}`.

    Differs: a begins with a constant. The order p, 0 to `lags.recent`, is chosen on validation.
    Columns that are linear combinations of others, such as the last weekday, get weight 0 and are
    named in the run. With opening hours, x_{t−1} is the last open step before t, and closed steps
    are neither forecast nor fed back. Local covariates are left out: Eq. 8 gives every location a
    weight for every column, so Q of them would be N·Q columns more.
    """

    falls_back = True

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """Shapes of the scales and the order; the order determines that of the weights."""
        return {**scale_shapes(replace(sizes, Q=0)), "order": (1,)}

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Solve for every order; the one with the lowest validation error is kept."""
        horizon = self.recipe.lags.horizon
        if horizon > LONG_HORIZON:
            announce(f"VAR {_horizon_cost(horizon)}", data.on_progress)
        panel = _without_local(data.filled)
        scaler = fit_scaler(_without_local(data.panel), data.train)
        highest = _highest(panel, self.recipe.lags.recent)
        open_steps = np.flatnonzero(panel.clock.is_open(panel.times))  # others have no values
        targets = _targets(data, open_steps, highest)
        auxiliary = _auxiliary(_inputs_at(panel, open_steps[targets] - 1, 1), scaler)[:, 0]
        scaled = scaler.values.apply(panel.values[open_steps])
        factor = factorize(moment_matrix(scaled, auxiliary, targets, highest))
        solutions = [
            factor.solve(len(_columns(panel, order))).astype(np.float32)
            for order in range(highest + 1)
        ]
        errors = _validate(solutions, data, scaler, horizon)
        order = int(np.argmin(errors))
        finite = [e if np.isfinite(e) else None for e in errors]
        about = {"order": order, "validation_rmse": finite, "rows": len(targets)}
        about |= _rank(factor, _columns(panel, order))
        log.info("VAR: order %d of 0…%d; %s", order, highest, _in_words(about))
        fitted = {"weights": solutions[order], "order": np.array([order])}
        arrays = {**scale_arrays(scaler), **range_arrays(data), **fitted}
        return FitResult(arrays, {"var": about})

    def predict_windows(
        self, arrays: Arrays, inputs: ForecastInputs
    ) -> Float32[np.ndarray, "B K N"]:
        """The recursive forecasts in the panel's units."""
        bounded = bound_inputs(arrays, inputs)
        shared = replace(bounded, local_covariates=inputs.local_covariates[:, :, :0])
        return _forecast(arrays["weights"], int(arrays["order"][0]), shared, scaler_of(arrays))

    @classmethod
    def from_run(cls: type[E], run: Run) -> E:
        """The fitted estimator of a run; weights that do not fit its order are refused."""
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
    """The panel without local covariates."""
    return panel.select_covariates(panel.covariates.names, ())


def _horizon_cost(horizon: int) -> str:
    """What a long horizon costs, in words."""
    return (
        f"learns one step, but its order is chosen, and forecasts are made, by rolling out "
        f"{horizon} steps one after another: about {horizon / SHORT_HORIZON:.0f} × the time of "
        f"{SHORT_HORIZON} steps"
    )


def _columns(panel: Panel, order: int) -> list[str]:
    """The names of the columns of Eq. 8, in the order of their weights."""
    lags = [f"{name} lag {lag}" for lag in range(1, order + 1) for name in panel.locations.ids]
    return ["constant", *panel.covariates.names, *CALENDAR_COLUMNS, *lags]


def _highest(panel: Panel, recent: int) -> int:
    """The highest order to try: memory grows with the square of its columns."""
    limit = max((MAX_COLUMNS - len(_columns(panel, 0))) // len(panel.locations), 1)
    if limit < recent:
        reason = f"at most {MAX_COLUMNS:,} columns"
        log.warning("VAR: orders up to %d of %d are tried: %s", limit, recent, reason)
    return min(recent, limit)


def _targets(
    data: TrainingData, open_steps: Int64[np.ndarray, " S"], order: int
) -> Int64[np.ndarray, " T"]:
    """The targets of training, among the open steps: the `order` before each are of training too.

    Few locations are missing at a target step, by the rule of forecast origins.
    """
    inside = sliding_window_view(data.train[open_steps], order + 1).all(axis=1)
    observed = is_well_observed(data.panel.values, living(data.panel))[open_steps][order:]
    targets = order + np.flatnonzero(inside & observed)
    if not len(targets):
        raise DataError(
            f"VAR: no training step, of those with {order} training steps before them, is "
            "observed at nine locations in ten; leave out the locations that miss most, or train "
            "on more steps"
        )
    return np.asarray(targets)


def _inputs_at(panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int) -> ForecastInputs:
    return ForecastInputs(panel, origins, *look_ahead(panel, origins, horizon))


def _auxiliary(inputs: ForecastInputs, scaler: Scaler) -> Float32[np.ndarray, "B K A"]:
    """a_{t+1…t+K}, with a constant first."""
    auxiliary, _ = scale_ahead(inputs, scaler)
    return np.pad(auxiliary, ((0, 0), (0, 0), (1, 0)), constant_values=1)


def _forecast(
    weights: Float32[np.ndarray, "F N"], order: int, inputs: ForecastInputs, scaler: Scaler
) -> Float32[np.ndarray, "B K N"]:
    panel, origins, back = inputs.panel, inputs.origins, np.arange(order)[None]
    if panel.clock.hours and order:
        last = LagConfig(recent=order, seasons=())  # the last open steps
        back = panel.clock.lag_steps(last, panel.times[origins])[:, ::-1]
    past = scaler.values.apply(panel.values[origins[:, None] - back])
    is_open = panel.open_at(origins[:, None] + np.arange(1, inputs.covariates.shape[1] + 1))
    forecast = roll_out(weights, past, _auxiliary(inputs, scaler), is_open)
    return scaler.values.undo(forecast)


def _validate(
    solutions: list[np.ndarray], data: TrainingData, scaler: Scaler, horizon: int
) -> list[float]:
    """The validation RMSE of every order; infinite where forecasts overflow."""
    values = horizon * len(data.panel.locations)
    origins = choosing_origins(data.windows.validation, values)
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
    """The number of columns, their rank, and the names of dependent columns."""
    independent = set(factor.independent.tolist())
    dropped = [name for number, name in enumerate(columns) if number not in independent]
    return {"columns": len(columns), "rank": len(columns) - len(dropped), "dropped": dropped}


def _in_words(about: dict[str, Any]) -> str:
    dropped = about["dropped"]
    text = f"{about['rows']:,} steps, {count_of(about['columns'], 'column')}"
    return f"{text}, {len(dropped):,} dependent and without weight: {name_some(dropped)}"
