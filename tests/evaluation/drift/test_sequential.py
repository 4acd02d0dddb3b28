"""The sequential test hardly ever gives a false alarm, and tells a break within weeks."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import DataError
from forecaster.evaluation.drift.sequential import MIN_DAYS, add_up, watch, week_means

ALLOWANCE = float(np.log(1.1))
YEAR = 364


def stationary(generator: np.random.Generator, days: int, correlation: float = 0.5) -> np.ndarray:
    """Daily log errors: heavy tails, dependent days, larger on Saturdays and Sundays."""
    shocks = 0.12 * np.sqrt(0.6 * (1 - correlation**2)) * generator.standard_t(5, days + 50)
    scores = np.zeros(days + 50)
    for day in range(1, days + 50):
        scores[day] = correlation * scores[day - 1] + shocks[day]
    weekend = np.isin(np.arange(days) % 7, (5, 6))
    return scores[50:] + 0.1 * weekend


def test_stationary_years_hardly_ever_give_an_alarm(rounds: Callable[[int, int], int]) -> None:
    years = rounds(200, 2_000)
    generator = np.random.default_rng(1)
    alarms = 0
    for _ in range(years):
        validation, days = stationary(generator, 56), stationary(generator, YEAR)
        alarms += watch("errors", validation, days, ALLOWANCE).alarm is not None
    assert alarms / years <= 0.1  # per year; one a year would be 1


def test_a_break_is_told_within_weeks() -> None:
    generator, delays = np.random.default_rng(2), []
    for _ in range(40):
        validation, days = stationary(generator, 56), stationary(generator, YEAR)
        days[140:] += np.log(1.4)
        judged = watch("errors", validation, days, ALLOWANCE)
        assert judged.alarm is not None
        assert judged.since is not None
        delays.append(judged.alarm - 19)
        assert abs(judged.since - 20) <= 3 or judged.alarm < 20
    assert np.median(delays) <= 2  # weeks
    assert np.quantile(delays, 0.9) <= 5


def test_a_change_that_ends_is_not_drift_any_more() -> None:
    generator = np.random.default_rng(3)
    days = stationary(generator, YEAR)
    days[70:98] += np.log(1.6)
    judged = watch("errors", stationary(generator, 56), days, ALLOWANCE)
    assert judged.alarm in (10, 11, 12)
    assert not judged.is_drifting


def test_too_little_validation_is_refused() -> None:
    days = np.zeros(MIN_DAYS)
    days[3] = np.nan
    with pytest.raises(
        DataError, match="13 days of validation with scores in the panel; at least 14"
    ):
        watch("errors", days, np.zeros(70), ALLOWANCE)


def test_a_week_without_scores_changes_nothing() -> None:
    generator = np.random.default_rng(4)
    days = stationary(generator, 70)
    days[14:18] = np.nan  # four days of the third week
    judged = watch("errors", stationary(generator, 56), days, ALLOWANCE)
    assert np.isnan(judged.weeks[2])
    assert judged.sums[2] == judged.sums[1]
    assert len(week_means(days[:-1])) == 9  # the last is not whole


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_sums_are_the_largest_of_all_sums_that_end_now(excess: list[float]) -> None:
    sums = add_up(np.array([excess]))[0]
    for week in range(len(excess)):
        ending = [sum(excess[first : week + 1]) for first in range(week + 1)]
        assert sums[week] == pytest.approx(max(0.0, *ending), abs=1e-9)
