"""How much better one model is than another, with an interval: a block bootstrap over days."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.metrics import Errors

REPLICATES, LEVEL, SEED = 4_000, 0.95, 0
FEWEST_DAYS = 2  # of one day nothing can be drawn


@dataclass(frozen=True)
class Interval:
    """A relative difference: −0.05 is five per cent lower than what it is compared with."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Tell whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Difference:
    """How much larger the errors of one model are than those of another; None: no terms."""

    rmse: Interval | None
    mape: Interval | None


def compare_errors(
    ours: Sequence[Errors], theirs: Sequence[Errors], days: Int64[np.ndarray, " B"]
) -> Difference:
    """Return the relative difference of two models on the same windows.

    Whole days are drawn with replacement, the same for both models, since the hours of a day
    share their weather and events; and trainings, each model's own, where there are several.

    Args:
        ours: the errors of a model, of each of its trainings.
        theirs: those of the model that it is compared with.
        days: the day of each window.
    """
    generator = np.random.default_rng(SEED)
    day, counts = np.unique(days, return_inverse=True)
    D = len(day)
    if D < FEWEST_DAYS:
        return Difference(None, None)
    drawn = generator.multinomial(D, np.full(D, 1 / D), size=REPLICATES).astype(np.float64)
    drawn = np.concatenate([np.ones((1, D)), drawn])  # first the days as they are
    seeds = [_draw_seeds(len(errors), generator) for errors in (ours, theirs)]
    figures = {}
    for name, above, below, root in (
        ("rmse", "squares", "values", True),
        ("mape", "shares", "terms", False),
    ):
        means = []
        for errors, chosen in zip((ours, theirs), seeds, strict=True):
            sums, terms = (
                np.stack([_by_day(getattr(e, part), counts, D) for e in errors], axis=1)
                for part in (above, below)
            )
            means.append(_replicate(drawn, sums, terms, chosen, root))
        figures[name] = _interval(*means)
    return Difference(**figures)


def _draw_seeds(S: int, generator: np.random.Generator) -> Float64[np.ndarray, "R S"]:
    """Return the share of each training in each replicate; first all alike."""
    drawn = generator.multinomial(S, np.full(S, 1 / S), size=REPLICATES) / S
    return np.concatenate([np.full((1, S), 1 / S), drawn])


def _by_day(sums: np.ndarray, day: Int64[np.ndarray, " B"], D: int) -> Float64[np.ndarray, " D"]:
    return np.bincount(day, weights=sums.sum(axis=1), minlength=D)


def _replicate(
    drawn: Float64[np.ndarray, "R D"],
    sums: Float64[np.ndarray, "D S"],
    terms: Float64[np.ndarray, "D S"],
    seeds: Float64[np.ndarray, "R S"],
    root: bool,
) -> Float64[np.ndarray, " R"]:
    """Return the figure of each replicate, the mean over its trainings; NaN without terms."""
    count = drawn @ terms
    ratio = np.divide(drawn @ sums, count, out=np.full_like(count, np.nan), where=count > 0)
    return np.asarray(((np.sqrt(ratio) if root else ratio) * seeds).sum(axis=1))


def _interval(
    ours: Float64[np.ndarray, " R"], theirs: Float64[np.ndarray, " R"]
) -> Interval | None:
    """Return the difference of the first replicate, and the percentiles of the others."""
    usable = (theirs > 0) & np.isfinite(ours)
    if not usable[0]:
        return None
    difference = ours[usable] / theirs[usable] - 1
    low, high = np.quantile(difference[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(difference[0]), float(low), float(high))
