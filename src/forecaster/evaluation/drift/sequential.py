"""A sequential test of weekly scores that rarely gives a false alarm.

Every week the mean of a score is compared with that of the validation days. What exceeds it by
more than an allowance is added up, and a week below it takes away again: the cumulative sum of
Page (1954). An alarm is given when the sum passes a limit. The limit is that which sums of a
stationary year, of 52 weekly looks, pass with a chance of 1 in 80: blocks of seven validation days
are drawn with replacement for the weeks of such years, and others for their validation (Chatterjee
& Qiu 2009, with blocks). So neighbouring days may depend on each other, few validation weeks widen
the limit, and four scores together give a false alarm in one year of twenty.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from forecaster.errors import DataError, count_of
from forecaster.evaluation.bootstrap import widen

WEEK_DAYS, YEAR_WEEKS = 7, 52
CHANCE = 0.05 / 4  # of a false alarm in a year, of each of four scores
REPLICATES, SEED = 4_000, 0
MIN_DAYS = 14  # of validation with a score


@dataclass(frozen=True, eq=False)
class Watch:
    """Weekly scores against validation, with the sums by which they are judged."""

    name: str
    reference: float  # the mean of the validation days
    weeks: Float64[np.ndarray, " W"]  # means; NaN: too few days
    sums: Float64[np.ndarray, " W"]  # cumulative
    limit: float  # of the sums

    @cached_property
    def alarm(self) -> int | None:
        """The first week at whose end the sum was above the limit; None: none was."""
        above = np.flatnonzero(self.sums > self.limit)
        return int(above[0]) if len(above) else None

    @cached_property
    def since(self) -> int | None:
        """The week in which the change began: the first after the sum was last 0."""
        if self.alarm is None:
            return None
        zeros = np.flatnonzero(self.sums[: self.alarm] == 0)
        return int(zeros[-1]) + 1 if len(zeros) else 0

    @property
    def is_drifting(self) -> bool:
        """Whether the sum is above its limit now: it falls again when scores recover."""
        return bool(len(self.sums)) and bool(self.sums[-1] > self.limit)


def watch(
    name: str,
    validation: Float64[np.ndarray, " D"],
    days: Float64[np.ndarray, " T"],
    allowance: float,
) -> Watch:
    """Return the scores of whole weeks since validation, judged by those of validation.

    Args:
        name: of the score.
        validation: the score of each day of validation, the larger the worse; NaN: none.
        days: the same of each day since.
        allowance: by which a mean may exceed that of validation without any consequence.
    """
    observed = validation[np.isfinite(validation)]
    if len(observed) < MIN_DAYS:
        raise DataError(
            f"{count_of(len(observed), 'day')} of validation with scores in the panel; at least "
            f"{MIN_DAYS} are needed to tell a change from chance: the next `forecaster update` "
            "validates on as many, or give the whole panel that the run was trained on"
        )
    weeks = week_means(days)
    reference = float(observed.mean())
    excess = np.nan_to_num(weeks - reference - allowance)
    sums = add_up(excess[None])[0]
    return Watch(name, reference, weeks, sums, stationary_limit(observed, allowance))


def week_means(days: Float64[np.ndarray, " T"]) -> Float64[np.ndarray, " W"]:
    """The means of whole weeks; NaN where less than half of the days have a score."""
    weeks = days[: len(days) // WEEK_DAYS * WEEK_DAYS].reshape(-1, WEEK_DAYS)
    count = np.isfinite(weeks).sum(axis=1)
    means = np.nansum(weeks, axis=1) / np.maximum(count, 1)
    return np.where(2 * count >= WEEK_DAYS, means, np.nan)


def add_up(excess: Float64[np.ndarray, "R W"]) -> Float64[np.ndarray, "R W"]:
    """The cumulative sums of Page, which never fall below 0: S = max(0, S + x)."""
    sums, total = np.empty_like(excess), np.zeros(len(excess))
    for week in range(excess.shape[1]):
        total = np.maximum(total + excess[:, week], 0)
        sums[:, week] = total
    return sums


def stationary_limit(validation: Float64[np.ndarray, " D"], allowance: float) -> float:
    """The limit that the sums of a stationary year pass with the allowed chance.

    Not below the allowance: one week that exceeds it twice over is enough, and no less.
    """
    generator, D = np.random.default_rng(SEED), len(validation)
    blocks = D // WEEK_DAYS
    around = np.concatenate([validation, validation[: WEEK_DAYS - 1]])  # circular
    means = np.convolve(around, np.full(WEEK_DAYS, 1 / WEEK_DAYS), mode="valid")
    deviations = (means - validation.mean()) * widen(blocks)
    references = generator.choice(deviations, (REPLICATES, blocks)).mean(axis=1)
    years = generator.choice(deviations, (REPLICATES, YEAR_WEEKS))
    highest = add_up(years - references[:, None] - allowance).max(axis=1)
    return max(float(np.quantile(highest, 1 - CHANCE)), allowance)


def first_alarm(watches: Sequence[Watch]) -> Watch | None:
    """The watch with the earliest alarm; None without any."""
    alarmed = [watch for watch in watches if watch.alarm is not None]
    return min(alarmed, key=lambda watch: watch.alarm or 0, default=None)
