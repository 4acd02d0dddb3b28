"""How good the last forecasts were, measured as their hours were observed."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.metrics import Errors, Metric, measure
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import WEEK_DAYS, Answer, Model


@dataclass(frozen=True, eq=False)
class Record:
    """What was forecast from an origin before its outcome was known."""

    y_hat: Float32[np.ndarray, "K N"]
    low: Float32[np.ndarray, "K N"]  # the ends of the widest interval; NaN without one
    high: Float32[np.ndarray, "K N"]


class Ledger:
    """The forecasts of the last origins, by model.

    Nothing after an origin is seen, so that one made up for later is what would have been said;
    of the weather ahead nobody remembers what was known, so that of the origin is taken to stay.
    """

    def __init__(self, kept: int) -> None:
        """Begin empty.

        Args:
            kept: how many origins of a model are remembered.
        """
        self._kept = kept
        self._records: OrderedDict[tuple[str, int], Record | None] = OrderedDict()

    def note(self, answer: Answer) -> None:
        """Remember a forecast; the first from an origin stands."""
        ends = answer.quantiles[[0, -1]] if len(answer.levels) > 1 else _no_ends(answer.y_hat)
        self._keep((answer.key.model, answer.key.origin), Record(answer.y_hat, *ends))

    def lacking(self, model: Model, newest: int, steps: int) -> list[int]:
        """Return the origins of the last steps that were not forecast, oldest first."""
        wanted = range(max(newest - steps, 0), newest)
        return [origin for origin in wanted if (model.digest, origin) not in self._records]

    def skip(self, model: Model, origin: int) -> None:
        """Remember that there is no forecast from an origin."""
        self._keep((model.digest, origin), None)

    def find(self, model: Model, newest: int, steps: int) -> dict[int, Record]:
        """Return what was forecast from the last origins."""
        found = {}
        for origin in range(max(newest - steps, 0), newest):
            record = self._records.get((model.digest, origin))
            if record is not None:
                found[origin] = record
        return found

    def _keep(self, key: tuple[str, int], record: Record | None) -> None:
        self._records.setdefault(key, record)
        while len(self._records) > 2 * self._kept:  # those of a model before this one go first
            self._records.popitem(last=False)


def assess(
    model: Model, overlay: Overlay, records: dict[int, Record], closed: int
) -> dict[str, Any]:
    """Return the errors of recorded forecasts beside those of the value a week before.

    Args:
        model: made them.
        overlay: what was observed.
        records: what was forecast, by origin.
        closed: how many steps are over; what is known of others may yet grow.
    """
    K, cut_at = model.horizon, model.estimator.recipe.metrics.mape_cut
    origins = np.array(sorted(records), dtype=np.int64)
    N = len(overlay.base.locations)
    steps = origins[:, None] + np.arange(1, K + 1)
    truth = np.where((steps < closed)[..., None], _values(overlay, steps), np.float32(np.nan))
    y_hat = _stack([records[o].y_hat for o in origins.tolist()], K, N)
    low = _stack([records[o].low for o in origins.tolist()], K, N)
    high = _stack([records[o].high for o in origins.tolist()], K, N)
    naive = _values(overlay, week_before_steps(overlay, origins, K))
    both = np.where(np.isnan(naive), np.nan, truth)  # the same terms for both
    own, other = measure(both, y_hat, cut_at), measure(both, np.nan_to_num(naive), cut_at)
    inside = np.where(np.isnan(truth) | np.isnan(low), np.nan, (low <= truth) & (truth <= high))
    levels = model.levels
    return {
        **_scores(own, other),
        "coverage": _mean(inside),
        "expected_coverage": levels[-1] - levels[0] if len(levels) > 1 else None,
        "terms": int(own.values.sum()),
        "by_step": [
            {"step": k + 1, **_scores(own.step(k), other.step(k)), "coverage": _mean(inside[:, k])}
            for k in range(K)
        ],
    }


def week_before_steps(
    overlay: Overlay, origins: Int64[np.ndarray, " B"], horizon: int
) -> Int64[np.ndarray, "B K"]:
    """Return the steps at the wall-clock time of t+1…t+K a week before."""
    clock = overlay.base.clock
    times = overlay.base.start + origins * clock.step
    back = clock.same_time_steps(np.arange(1, horizon + 1), np.array([WEEK_DAYS]), times)
    return np.asarray(origins[:, None] - back[:, 0])


def _values(overlay: Overlay, steps: Int64[np.ndarray, "B K"]) -> Float32[np.ndarray, "B K N"]:
    N = len(overlay.base.locations)
    if not steps.size:
        return np.empty((*steps.shape, N), dtype=np.float32)
    first = max(int(steps.min()), 0)
    values = overlay.final(first, int(steps.max()) + 1)
    found = values[np.maximum(steps - first, 0)]
    return np.where((steps < 0)[..., None], np.float32(np.nan), found)


def _scores(own: Errors, other: Errors) -> dict[str, float | None]:
    scores, naive = own.scores(), other.scores()
    named = {"rmse": scores.rmse, "mape": scores.mape}
    named |= {"naive_rmse": naive.rmse, "naive_mape": naive.mape}
    return {name: _short(metric) for name, metric in named.items()}


def _short(metric: Metric) -> float | None:
    return None if metric.value is None else float(f"{metric.value:.6g}")


def _mean(inside: np.ndarray) -> float | None:
    seen = np.isfinite(inside)
    return float(inside[seen].mean()) if seen.any() else None


def _stack(parts: list[np.ndarray], K: int, N: int) -> Float32[np.ndarray, "B K N"]:
    return np.stack(parts) if parts else np.empty((0, K, N), dtype=np.float32)


def _no_ends(y_hat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nothing = np.full_like(y_hat, np.nan)
    return nothing, nothing
