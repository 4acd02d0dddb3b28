"""Paired differences of two models with confidence intervals: a block bootstrap over days."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import ndtri, stdtrit

from forecaster.metrics import ErrorSums

REPLICATES, LEVEL, SEED = 4_000, 0.95, 0
FEWEST_DAYS = 7  # fewer days give no interval worth reporting


@dataclass(frozen=True)
class RelativeDifference:
    """A relative difference with its confidence interval: −0.05 is five per cent lower."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ErrorDifference:
    """The errors of one model relative to those of another; None: no terms."""

    rmse: RelativeDifference | None
    mape: RelativeDifference | None


def compare_errors(
    errors: Sequence[ErrorSums], reference: Sequence[ErrorSums], days: Int64[np.ndarray, " B"]
) -> ErrorDifference:
    """Return the relative difference of two models on the same windows.

    Whole days are drawn with replacement, the same for both models, because the hours of a day
    share weather and events. Seeds are drawn for each model separately, where there are several.
    A bootstrap over few days gives too narrow intervals: they are widened by Student's t.

    Args:
        errors: of a model, for each of its seeds.
        reference: the same of the model that it is compared with.
        days: the day of each window.
    """
    generator = np.random.default_rng(SEED)
    distinct_days, day = np.unique(days, return_inverse=True)
    D = len(distinct_days)
    if D < FEWEST_DAYS:
        return ErrorDifference(None, None)
    drawn = _draw_days(D, generator)
    models = (errors, reference)
    weights = [_draw_seed_weights(len(by_seed), generator) for by_seed in models]
    rmse: list[np.ndarray] = []
    mape: list[np.ndarray] = []
    for by_seed, weight in zip(models, weights, strict=True):
        squares, values, shares, terms = (
            np.stack([_by_day(getattr(e, part), day, D) for e in by_seed], axis=1)
            for part in ("squares", "values", "shares", "terms")
        )
        rmse.append((np.sqrt(_ratio(drawn, squares, values)) * weight).sum(axis=1))
        mape.append((_ratio(drawn, shares, terms) * weight).sum(axis=1))
    return ErrorDifference(_interval(rmse[0], rmse[1], D), _interval(mape[0], mape[1], D))


class DayBootstrap:
    """Means over windows when whole days are drawn with replacement, the same for all models."""

    def __init__(self, days: Int64[np.ndarray, " B"]) -> None:
        """Draw the days.

        Args:
            days: the day of each window.
        """
        distinct_days, self._day = np.unique(days, return_inverse=True)
        self.days = len(distinct_days)
        self._drawn = _draw_days(self.days, np.random.default_rng(SEED))

    def mean(self, sums: np.ndarray, terms: np.ndarray) -> Float64[np.ndarray, " R"]:
        """The mean of each replicate; the first has every day once. NaN without terms.

        Args:
            sums: by window, and step ahead.
            terms: the number of terms of each sum.
        """
        parts = (_by_day(part, self._day, self.days)[:, None] for part in (sums, terms))
        return _ratio(self._drawn, *parts)[:, 0]

    def relative(
        self, value: Float64[np.ndarray, " R"], reference: Float64[np.ndarray, " R"]
    ) -> RelativeDifference | None:
        """How much higher a mean is than another one; None: too few days, or no terms."""
        return _interval(value, reference, self.days) if self.days >= FEWEST_DAYS else None

    def absolute(
        self, value: Float64[np.ndarray, " R"], reference: Float64[np.ndarray, " R"]
    ) -> RelativeDifference | None:
        """The difference of two shares, as a share; None as above."""
        difference = value - reference
        if self.days < FEWEST_DAYS or not np.isfinite(difference[0]):
            return None
        return _ends(difference[np.isfinite(difference)], self.days)


def widen(days: int) -> float:
    """Return the factor that widens an interval over D days: t / z · √(D / (D − 1))."""
    tail = (1 + LEVEL) / 2
    return float(stdtrit(days - 1, tail) / ndtri(tail) * np.sqrt(days / (days - 1)))


def _draw_days(D: int, generator: np.random.Generator) -> Float64[np.ndarray, "R D"]:
    """How often each day is drawn; the first replicate has every day once."""
    drawn = generator.multinomial(D, np.full(D, 1 / D), size=REPLICATES).astype(np.float64)
    return np.concatenate([np.ones((1, D)), drawn])


def _draw_seed_weights(S: int, generator: np.random.Generator) -> Float64[np.ndarray, "R S"]:
    """Return the weight of each seed in each replicate; equal in the first."""
    drawn = generator.multinomial(S, np.full(S, 1 / S), size=REPLICATES) / S
    return np.concatenate([np.full((1, S), 1 / S), drawn])


def _by_day(sums: np.ndarray, day: Int64[np.ndarray, " B"], D: int) -> Float64[np.ndarray, " D"]:
    return np.bincount(day, weights=sums.sum(axis=1), minlength=D)


def _ratio(
    drawn: Float64[np.ndarray, "R D"],
    sums: Float64[np.ndarray, "D S"],
    terms: Float64[np.ndarray, "D S"],
) -> Float64[np.ndarray, "R S"]:
    """Return the mean over the drawn days, of each replicate and seed; NaN without terms."""
    count = drawn @ terms
    means = np.full_like(count, np.nan)
    return np.asarray(np.divide(drawn @ sums, count, out=means, where=count > 0))


def _interval(
    error: Float64[np.ndarray, " R"], reference: Float64[np.ndarray, " R"], days: int
) -> RelativeDifference | None:
    """Return the difference of the first replicate, and the percentiles of the others."""
    usable = (reference > 0) & np.isfinite(error)
    if not usable[0]:
        return None
    return _ends(error[usable] / reference[usable] - 1, days)


def _ends(difference: Float64[np.ndarray, " R"], days: int) -> RelativeDifference:
    """The difference of the first replicate, with the widened percentiles of the others."""
    value = float(difference[0])
    ends = np.quantile(difference[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    low, high = (value + (end - value) * widen(days) for end in ends.tolist())
    return RelativeDifference(value, low, high)
