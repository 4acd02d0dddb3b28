import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.clock.lags import MAX_LENGTH, choose_lags
from forecaster.config import LagConfig, Season

YEAR = 365 * 24


@pytest.mark.parametrize("horizon", [1, 3, 6])
def test_hours_up_to_six_ahead_have_the_papers_lags(horizon: int) -> None:
    lags = choose_lags(Clock("America/New_York"), YEAR, horizon).lags
    assert lags == LagConfig(horizon=horizon)
    assert lags.length == 76


def test_days_and_weeks_reach_as_far_ahead_as_the_horizon() -> None:
    day, week = choose_lags(Clock("UTC"), YEAR, 24).lags.seasons
    assert (day.days, day.after) == (1, 21)  # three hours of the day stay clear of the origin
    assert (week.days, week.after) == (7, 24)
    assert choose_lags(Clock("UTC"), YEAR, 168).lags.seasons[1].after == 165


@pytest.mark.parametrize(("minutes", "recent"), [(1, 30), (5, 12), (15, 6), (60, 6), (360, 6)])
def test_small_steps_have_more_recent_ones(minutes: int, recent: int) -> None:
    assert choose_lags(Clock("UTC", minutes), 100_003, 3).lags.recent == recent


@pytest.mark.parametrize(("days", "count"), [(7, None), (9, 3), (14, 4)])
def test_short_panels_have_three_days_or_none_and_no_weeks(days: int, count: int | None) -> None:
    chosen = choose_lags(Clock("UTC", 5), 288 * days, 12)
    expected = [] if count is None else [(1, count)]
    assert [(season.days, season.count) for season in chosen.lags.seasons] == expected
    if count is None:
        assert "no week: lags reach back 705 of the panel's 2,016 steps" in chosen.reason


def test_days_look_at_weeks_and_at_the_weekday_a_year_before() -> None:
    lags = choose_lags(Clock("UTC", 1440), 1_097, 3).lags
    assert lags.recent == 7
    assert [(season.days, season.count) for season in lags.seasons] == [(7, 4), (364, 1)]


@pytest.mark.parametrize(
    ("clock", "steps", "recent", "season"),
    [
        (Clock("UTC", 7 * 1440), 331, 8, Season(days=364, count=2, before=1, after=3)),
        (Clock("UTC", step_months=1), 149, 12, Season(days=365, count=3, before=1, after=3)),
        (Clock("UTC", step_months=3), 83, 4, Season(days=365, count=3, before=1, after=3)),
    ],
)
def test_weeks_months_and_quarters_look_at_past_years(
    clock: Clock, steps: int, recent: int, season: Season
) -> None:
    assert choose_lags(clock, steps, 3).lags == LagConfig(
        recent=recent, seasons=(season,), horizon=3
    )


def test_years_have_no_season_and_lack_none() -> None:
    chosen = choose_lags(Clock("UTC", step_months=12), 41, 3)
    assert (chosen.lags.recent, chosen.lags.seasons) == (4, ())
    assert chosen.reason == "4 past steps to forecast 3 ahead: 4 recent steps of 12 months"


def test_a_short_panel_says_that_it_has_no_year() -> None:
    chosen = choose_lags(Clock("UTC", step_months=1), 14, 3)
    assert chosen.lags == LagConfig(recent=4, seasons=(), horizon=3)
    assert "no year: lags reach back 4 of the panel's 14 steps" in chosen.reason


@given(
    minutes=st.sampled_from([1, 5, 15, 30, 60, 120, 360, 720, 1440, 2 * 1440, 7 * 1440]),
    steps=st.integers(1, 200_000),
    horizon=st.integers(1, 336),
)
def test_lags_leave_room_to_learn_and_stay_clear_of_the_origin(
    minutes: int, steps: int, horizon: int
) -> None:
    lags = choose_lags(Clock("UTC", minutes), steps, horizon).lags
    for season in lags.seasons:
        assert season.after * minutes <= season.days * 1440 - 180
        assert season.count * season.days * 1440 <= (0.35 * steps + 1) * minutes
    longest = max((season.before + season.after + 1 for season in lags.seasons), default=0)
    assert lags.length <= max(MAX_LENGTH, lags.recent + 3 * longest)


@given(
    months=st.sampled_from([1, 3, 6, 12]), steps=st.integers(1, 400), horizon=st.integers(1, 40)
)
def test_lags_of_months_stay_clear_of_the_origin(months: int, steps: int, horizon: int) -> None:
    clock = Clock("Europe/Berlin", step_months=months)
    lags = choose_lags(clock, steps, horizon).lags
    origins = clock.axis(np.datetime64("2018-12-31T23:00", "s"), 61)
    assert clock.lag_steps(lags, origins).shape == (61, lags.length)  # else it is refused
    assert lags.recent <= max(0.35 * steps, 1)
