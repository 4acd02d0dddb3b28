"""The accuracy of the last forecasts, measured as their steps were observed."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32

from forecaster.metrics import ErrorSums, Metric, sum_errors
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel


@dataclass(frozen=True, eq=False)
class PastForecast:
    """A forecast made before its outcome was known."""

    y_hat: Float32[np.ndarray, "K N"]
    low: Float32[np.ndarray, "K N"]  # the ends of the widest interval; NaN without one
    high: Float32[np.ndarray, "K N"]


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
        ends = forecast.quantiles[[0, -1]] if has_interval else (unknown, unknown)
        self._keep((key.model, key.origin), PastForecast(y_hat, *ends))

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
    """Return the errors of past forecasts and of the value a week before.

    Args:
        model: the model of the forecasts.
        snapshot: the observations.
        forecasts: by origin.
        closed: number of steps that are over; values of later ones are not final.
    """
    K, N = model.horizon, len(snapshot.base.locations)
    mape_cut, levels = model.estimator.recipe.metrics.mape_cut, model.quantile_levels
    origins = np.array(sorted(forecasts), dtype=np.int64)
    steps = origins[:, None] + np.arange(1, K + 1)
    observed = np.where(
        (steps < closed)[..., None], snapshot.final_values_at(steps), np.float32(np.nan)
    )
    past = [forecasts[origin] for origin in origins.tolist()]
    y_hat = _stack([forecast.y_hat for forecast in past], K, N)
    low = _stack([forecast.low for forecast in past], K, N)
    high = _stack([forecast.high for forecast in past], K, N)
    naive = snapshot.final_values_at(snapshot.week_before(origins, K))
    compared = np.where(np.isnan(naive), np.nan, observed)  # the same terms for both
    errors = sum_errors(compared, y_hat, mape_cut)
    naive_errors = sum_errors(compared, np.nan_to_num(naive), mape_cut)
    unknown = np.isnan(observed) | np.isnan(low)
    inside = np.where(unknown, np.nan, (low <= observed) & (observed <= high))
    return {
        **_scores(errors, naive_errors),
        "coverage": _mean(inside),
        "expected_coverage": levels[-1] - levels[0] if len(levels) > 1 else None,
        "terms": int(errors.values.sum()),
        "by_step": [
            {
                "step": k + 1,
                **_scores(errors.step(k), naive_errors.step(k)),
                "coverage": _mean(inside[:, k]),
            }
            for k in range(K)
        ],
    }


def _scores(errors: ErrorSums, naive_errors: ErrorSums) -> dict[str, float | None]:
    scores, naive = errors.scores(), naive_errors.scores()
    named = {"rmse": scores.rmse, "mape": scores.mape}
    named |= {"naive_rmse": naive.rmse, "naive_mape": naive.mape}
    return {name: _round(metric) for name, metric in named.items()}


def _round(metric: Metric) -> float | None:
    return None if metric.value is None else float(f"{metric.value:.6g}")


def _mean(inside: np.ndarray) -> float | None:
    finite = np.isfinite(inside)
    return float(inside[finite].mean()) if finite.any() else None


def _stack(parts: list[np.ndarray], K: int, N: int) -> Float32[np.ndarray, "B K N"]:
    return np.stack(parts) if parts else np.empty((0, K, N), dtype=np.float32)
