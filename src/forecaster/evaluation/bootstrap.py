"""How much better one model is than another, with an interval: a block bootstrap over days."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import ndtri, stdtrit

from forecaster.metrics import Errors

REPLICATES, LEVEL, SEED = 4_000, 0.95, 0
FEWEST_DAYS = 7  # of fewer an interval would say more than they do


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
    Drawn from few days, intervals are too narrow: they are widened as Student's t is.

    Args:
        ours: the errors of a model, of each of its trainings.
        theirs: those of the model that it is compared with.
        days: the day of each window.
    """
    generator = np.random.default_rng(SEED)
    days_apart, day = np.unique(days, return_inverse=True)
    D = len(days_apart)
    if D < FEWEST_DAYS:
        return Difference(None, None)
    drawn = generator.multinomial(D, np.full(D, 1 / D), size=REPLICATES).astype(np.float64)
    drawn = np.concatenate([np.ones((1, D)), drawn])  # first the days as they are
    seeds = [_draw_seeds(len(errors), generator) for errors in (ours, theirs)]
    rmse: list[np.ndarray] = []
    mape: list[np.ndarray] = []
    for errors, chosen in zip((ours, theirs), seeds, strict=True):
        squares, values, shares, terms = (
            np.stack([_by_day(getattr(e, part), day, D) for e in errors], axis=1)
            for part in ("squares", "values", "shares", "terms")
        )
        rmse.append((np.sqrt(_ratio(drawn, squares, values)) * chosen).sum(axis=1))
        mape.append((_ratio(drawn, shares, terms) * chosen).sum(axis=1))
    return Difference(_interval(rmse[0], rmse[1], D), _interval(mape[0], mape[1], D))


def widen(days: int) -> float:
    """Return by how much an interval of so many days is widened: t / z · √(D / (D − 1))."""
    tail = (1 + LEVEL) / 2
    return float(stdtrit(days - 1, tail) / ndtri(tail) * np.sqrt(days / (days - 1)))


def _draw_seeds(S: int, generator: np.random.Generator) -> Float64[np.ndarray, "R S"]:
    """Return the share of each training in each replicate; first all alike."""
    drawn = generator.multinomial(S, np.full(S, 1 / S), size=REPLICATES) / S
    return np.concatenate([np.full((1, S), 1 / S), drawn])


def _by_day(sums: np.ndarray, day: Int64[np.ndarray, " B"], D: int) -> Float64[np.ndarray, " D"]:
    return np.bincount(day, weights=sums.sum(axis=1), minlength=D)


def _ratio(
    drawn: Float64[np.ndarray, "R D"],
    sums: Float64[np.ndarray, "D S"],
    terms: Float64[np.ndarray, "D S"],
) -> Float64[np.ndarray, "R S"]:
    """Return the mean over the drawn days, of each replicate and training; NaN without terms."""
    count = drawn @ terms
    unknown = np.full_like(count, np.nan)
    return np.asarray(np.divide(drawn @ sums, count, out=unknown, where=count > 0))


def _interval(
    ours: Float64[np.ndarray, " R"], theirs: Float64[np.ndarray, " R"], days: int
) -> Interval | None:
    """Return the difference of the first replicate, and the percentiles of the others."""
    usable = (theirs > 0) & np.isfinite(ours)
    if not usable[0]:
        return None
    difference = ours[usable] / theirs[usable] - 1
    value = float(difference[0])
    ends = np.quantile(difference[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = (value + (end - value) * widen(days) for end in ends.tolist())
    return Interval(value, low, high)
