"""The accuracy of the last forecasts, measured as their steps were observed."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int64

from forecaster.estimators.intervals.calibration import local_hours
from forecaster.evaluation.bias import bias_by_hour, bias_by_size, location_sizes
from forecaster.metrics import ErrorSums, sum_errors
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel

DAY_MINUTES = 24 * 60


@dataclass(frozen=True, eq=False)
class PastForecast:
    """A forecast made before its outcome was known."""

    ids: tuple[str, ...]  # of its locations
    y_hat: Float32[np.ndarray, "K N"]
    low: Float32[np.ndarray, "K N"]  # the ends of the widest interval; NaN without one
    high: Float32[np.ndarray, "K N"]
    y_relative: Float32[np.ndarray, "K N"] | None = None  # for MAPE; None: y_hat serves both


class PastForecasts:
    """The forecasts from the last origins, by model.

    Those computed later see nothing after their origin. The weather forecast of that time is not
    stored: covariates ahead are those at the origin.
    """

    def __init__(self, limit: int) -> None:
        """Begin empty.

        Args:
            limit: number of origins that are kept per model.
        """
        self._limit = limit
        self._forecasts: OrderedDict[tuple[str, int], PastForecast | None] = OrderedDict()

    def add(self, forecast: Forecast) -> None:
        """Keep a forecast, unless there is one from its origin already."""
        y_hat, key = forecast.y_hat, forecast.key
        unknown = np.full_like(y_hat, np.nan)
        has_interval = len(forecast.quantile_levels) > 1
        low, high = forecast.quantiles[[0, -1]] if has_interval else (unknown, unknown)
        past = PastForecast(forecast.locations.ids, y_hat, low, high, forecast.y_relative)
        self._keep((key.model, key.origin), past)

    def missing_origins(self, model: ServedModel, newest: int, steps: int) -> list[int]:
        """Return the last origins that have not been forecast from, oldest first."""
        origins = range(max(newest - steps, 0), newest)
        return [origin for origin in origins if (model.digest, origin) not in self._forecasts]

    def skip(self, model: ServedModel, origin: int) -> None:
        """Record that there is no forecast from an origin."""
        self._keep((model.digest, origin), None)

    def recent(self, model: ServedModel, newest: int, steps: int) -> dict[int, PastForecast]:
        """Return the forecasts from the last origins."""
        forecasts = {}
        for origin in range(max(newest - steps, 0), newest):
            forecast = self._forecasts.get((model.digest, origin))
            if forecast is not None:
                forecasts[origin] = forecast
        return forecasts

    def _keep(self, key: tuple[str, int], forecast: PastForecast | None) -> None:
        self._forecasts.setdefault(key, forecast)
        while len(self._forecasts) > 2 * self._limit:  # an earlier model's are the oldest
            self._forecasts.popitem(last=False)


def measure_accuracy(
    model: ServedModel, snapshot: Snapshot, forecasts: dict[int, PastForecast], closed: int
) -> dict[str, Any]:
    """Return the errors of past forecasts, of the value a week before and of the last value.

    All three are of the same values. RMSE and bias are of `y_hat`; MAPE is of `y_relative` where
    the model has it.

    Args:
        model: the model of the forecasts.
        snapshot: the observations.
        forecasts: by origin.
        closed: number of steps that are over; values of later ones are not final.
    """
    K, ids = model.horizon, snapshot.locations.ids
    mape_cut, levels = model.estimator.recipe.metrics.mape_cut, model.quantile_levels
    origins = np.array(sorted(forecasts), dtype=np.int64)
    steps = origins[:, None] + np.arange(1, K + 1)
    observed = np.where(
        (steps < closed)[..., None], snapshot.final_values_at(steps), np.float32(np.nan)
    )
    past = [forecasts[origin] for origin in origins.tolist()]
    aligned = _Alignment(K, ids, [forecast.ids for forecast in past])
    y_hat = aligned.stack([forecast.y_hat for forecast in past])
    low = aligned.stack([forecast.low for forecast in past])
    high = aligned.stack([forecast.high for forecast in past])
    y_relative = aligned.stack([_relative(forecast) for forecast in past])
    naive = snapshot.final_values_at(snapshot.week_before(origins, K))
    last = np.broadcast_to(snapshot.final_values_at(origins)[:, None], observed.shape)
    compared = np.where(np.isnan(naive + last + y_hat), np.nan, observed)  # of all the same terms
    y_hat, y_relative = np.nan_to_num(y_hat), np.nan_to_num(y_relative)
    errors = Errors(
        sum_errors(compared, y_hat, mape_cut, y_relative),
        sum_errors(compared, np.nan_to_num(naive), mape_cut),
        sum_errors(compared, np.nan_to_num(last), mape_cut),
    )
    of_run = [n for n, identity in enumerate(ids) if identity in model.ids]  # with a size
    by_location = _sum_by_location(compared[..., of_run], y_hat[..., of_run])
    unknown = np.isnan(observed) | np.isnan(low)
    inside = np.where(unknown, np.nan, (low <= observed) & (observed <= high))
    return {
        **errors.scores(),
        "mape_of": "y_hat" if all(f.y_relative is None for f in past) else "y_relative",
        "coverage": _mean(inside),
        "expected_coverage": levels[-1] - levels[0] if len(levels) > 1 else None,
        "terms": int(errors.model.values.sum()),
        "by_step": [
            {"step": k + 1, **errors.step(k).scores(), "coverage": _mean(inside[:, k])}
            for k in range(K)
        ],
        **_bias(model, snapshot, errors.model, by_location, steps),
    }


class Errors(NamedTuple):
    """The errors of the model and of the two simplest forecasts, of the same values."""

    model: ErrorSums
    naive: ErrorSums  # of the value a week before
    last_value: ErrorSums

    def step(self, k: int) -> "Errors":
        """The errors of one step ahead."""
        return Errors(*(sums.step(k) for sums in self))

    def scores(self) -> dict[str, float | None]:
        """The scores by their names in the response."""
        model, naive, last = (sums.scores() for sums in self)
        return {
            "rmse": _round(model.rmse.value),
            "mape": _round(model.mape.value),
            "bias": _round(model.bias.value),
            "naive_rmse": _round(naive.rmse.value),
            "naive_mape": _round(naive.mape.value),
            "last_value_rmse": _round(last.rmse.value),
            "last_value_mape": _round(last.mape.value),
        }


def _bias(
    model: ServedModel,
    snapshot: Snapshot,
    errors: ErrorSums,
    by_location: ErrorSums,
    steps: Int64[np.ndarray, "B K"],
) -> dict[str, Any]:
    """Return the bias by fifth of location size, and by hour of the local day."""
    run, base = model.estimator.run, snapshot.base
    groups = []
    if run is not None:
        of_run = tuple(i for i in snapshot.locations.ids if i in model.ids)
        sizes = location_sizes(run, snapshot.panel(0, 1, 1).select(of_run))
        groups = bias_by_size(by_location, sizes)
    has_hours = base.clock.step_minutes < DAY_MINUTES
    hours = bias_by_hour(errors, local_hours(base, steps)) if has_hours else []
    return {
        "bias_by_size": [
            {"locations": g.locations, "size": _round(g.size), "bias": _round(g.bias)}
            for g in groups
        ],
        "bias_by_hour": [_round(bias) for bias in hours],
    }


def _sum_by_location(
    truth: Float[np.ndarray, "B K N"], forecast: Float32[np.ndarray, "B K N"]
) -> ErrorSums:
    """The error sums of each location; MAPE is not needed by location."""
    by_location = (1, 2, 0)
    return sum_errors(truth.transpose(by_location), forecast.transpose(by_location), cut=1.0)


def _relative(forecast: PastForecast) -> Float32[np.ndarray, "K N"]:
    return forecast.y_hat if forecast.y_relative is None else forecast.y_relative


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _mean(inside: np.ndarray) -> float | None:
    finite = np.isfinite(inside)
    return float(inside[finite].mean()) if finite.any() else None


class _Alignment:
    """Past forecasts by the locations of a snapshot.

    Some locations were not forecast then; a forecast from newer data may have further ones.
    """

    def __init__(self, K: int, ids: tuple[str, ...], past_ids: list[tuple[str, ...]]) -> None:
        self._shape = len(past_ids), K, len(ids)
        column = {identity: n for n, identity in enumerate(ids)}
        orders = {}
        for past in set(past_ids):
            pairs = [(i, column[name]) for i, name in enumerate(past) if name in column]
            orders[past] = [i for i, _ in pairs], [n for _, n in pairs]
        self._orders = [orders[past] for past in past_ids]

    def stack(self, parts: list[np.ndarray]) -> Float32[np.ndarray, "B K N"]:
        """Return the forecasts of all origins, NaN at locations without one."""
        stacked = np.full(self._shape, np.nan, dtype=np.float32)
        for b, ((chosen, columns), part) in enumerate(zip(self._orders, parts, strict=True)):
            stacked[b][:, columns] = part[:, chosen]
        return stacked
