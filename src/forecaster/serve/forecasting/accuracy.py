"""The accuracy of the last forecasts, measured as their steps were observed."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from forecaster.estimators.intervals.calibration import local_hours
from forecaster.evaluation.bias import bias_by_hour, bias_by_size, location_sizes
from forecaster.metrics import ErrorSums, sum_errors
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel

DAY_MINUTES = 24 * 60
_ENDS = 2  # of an interval


@dataclass(frozen=True, eq=False)
class PastForecast:
    """A forecast made before its outcome was known."""

    ids: tuple[str, ...]  # of its locations
    y_hat: Float32[np.ndarray, "K N"]
    quantiles: Float32[np.ndarray, "Q K N"]
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
        key, ids = forecast.key, forecast.locations.ids
        past = PastForecast(ids, forecast.y_hat, forecast.quantiles, forecast.y_relative)
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
        while len(self._forecasts) > 3 * self._limit:  # an earlier model's are the oldest
            self._forecasts.popitem(last=False)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Past forecasts, and what was observed since; all of one shape."""

    origins: Int64[np.ndarray, " B"]
    steps: Int64[np.ndarray, "B K"]
    observed: Float32[np.ndarray, "B K N"]  # NaN: missing, or the step is not over
    compared: Float32[np.ndarray, "B K N"]  # of these what all three forecasts have
    y_hat: Float32[np.ndarray, "B K N"]  # NaN: not forecast
    y_relative: Float32[np.ndarray, "B K N"]
    quantiles: Float32[np.ndarray, "Q B K N"]
    naive: Float32[np.ndarray, "B K N"]  # the value a week before
    last: Float32[np.ndarray, "B K N"]  # the value at the origin

    @staticmethod
    def of(
        model: ServedModel, snapshot: Snapshot, forecasts: dict[int, PastForecast], closed: int
    ) -> "Outcomes":
        """Align past forecasts with the observations; for the arguments see `measure_accuracy`."""
        K, ids = model.horizon, snapshot.locations.ids
        origins = np.array(sorted(forecasts), dtype=np.int64)
        steps = origins[:, None] + np.arange(1, K + 1)
        final = snapshot.final_values_at(steps)
        observed = np.where((steps < closed)[..., None], final, np.float32(np.nan))
        past = [forecasts[origin] for origin in origins.tolist()]
        aligned = _Alignment(K, ids, [forecast.ids for forecast in past])
        y_hat = aligned.stack([forecast.y_hat for forecast in past])
        levels = range(len(model.quantile_levels))
        quantiles = [aligned.stack([forecast.quantiles[q] for forecast in past]) for q in levels]
        naive = snapshot.final_values_at(snapshot.week_before(origins, K))
        last = np.broadcast_to(snapshot.final_values_at(origins)[:, None], observed.shape)
        return Outcomes(
            origins=origins,
            steps=steps,
            observed=observed,
            compared=np.where(np.isnan(naive + last + y_hat), np.float32(np.nan), observed),
            y_hat=y_hat,
            y_relative=aligned.stack([_relative(forecast) for forecast in past]),
            quantiles=np.array(quantiles, dtype=np.float32).reshape(len(levels), *observed.shape),
            naive=naive,
            last=last,
        )

    def since(self, origin: int) -> "Outcomes":
        """Those of the forecasts from an origin on."""
        n = int(np.searchsorted(self.origins, origin))
        parts = {name: values[n:] for name, values in vars(self).items()}
        return Outcomes(**{**parts, "quantiles": self.quantiles[:, n:]})

    @property
    def inside(self) -> Float64[np.ndarray, "B K N"]:
        """1 where a value is within the outermost quantiles, NaN where that is not known."""
        if len(self.quantiles) < _ENDS:
            return np.full(self.observed.shape, np.nan)
        low, high = self.quantiles[0], self.quantiles[-1]
        unknown = np.isnan(self.observed) | np.isnan(low)
        inside = (low <= self.observed) & (self.observed <= high)
        return np.where(unknown, np.nan, inside.astype(np.float64))


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
    mape_cut, levels = model.estimator.recipe.metrics.mape_cut, model.quantile_levels
    outcomes = Outcomes.of(model, snapshot, forecasts, closed)
    errors, inside = Errors.of(outcomes, mape_cut), outcomes.inside
    ids = snapshot.locations.ids
    of_run = [n for n, identity in enumerate(ids) if identity in model.ids]  # with a size
    y_hat = np.nan_to_num(outcomes.y_hat)
    by_location = _sum_by_location(outcomes.compared[..., of_run], y_hat[..., of_run])
    relative = any(past.y_relative is not None for past in forecasts.values())
    return {
        **errors.scores(),
        "mape_of": "y_relative" if relative else "y_hat",
        "coverage": _mean(inside),
        "expected_coverage": levels[-1] - levels[0] if len(levels) > 1 else None,
        "terms": int(errors.model.values.sum()),
        "by_step": [
            {"step": k + 1, **errors.step(k).scores(), "coverage": _mean(inside[:, k])}
            for k in range(model.horizon)
        ],
        **_bias(model, snapshot, errors.model, by_location, outcomes.steps),
    }


class Errors(NamedTuple):
    """The errors of the model and of the two simplest forecasts, of the same values."""

    model: ErrorSums
    naive: ErrorSums  # of the value a week before
    last_value: ErrorSums

    @staticmethod
    def of(outcomes: Outcomes, mape_cut: float) -> "Errors":
        """The errors of the values that all three have forecast."""
        y_hat, y_relative, naive, last = (
            np.nan_to_num(values)
            for values in (outcomes.y_hat, outcomes.y_relative, outcomes.naive, outcomes.last)
        )
        compared = outcomes.compared
        return Errors(
            sum_errors(compared, y_hat, mape_cut, y_relative),
            sum_errors(compared, naive, mape_cut),
            sum_errors(compared, last, mape_cut),
        )

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
