import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.config import LagConfig, Season
from forecaster.errors import ConfigError

BERLIN = "Europe/Berlin"
LAGS = LagConfig(recent=3, seasons=(Season(days=1, count=2), Season(days=7, count=1)), horizon=2)


def local_steps(clock: Clock, lags: LagConfig, origin: str) -> list[str]:
    """Return the local times of a window's past steps; the origin is a UTC time."""
    start = np.array([origin], dtype="datetime64[s]")
    steps = clock.lag_steps(lags, start)[0]
    return [str(time)[5:16] for time in clock.local(start - steps * clock.step)]


def test_hours_that_are_always_open_change_no_lag() -> None:
    plain, always = Clock(BERLIN), Clock(BERLIN, hours=("00:00-24:00",))
    times = plain.axis(np.datetime64("2019-03-01T00:00:00"), 6007)  # two clock changes
    lags = LagConfig()
    assert np.array_equal(plain.lag_steps(lags, times), always.lag_steps(lags, times))
    around, origins = np.arange(1, 4), times[:501]
    assert np.array_equal(
        plain.same_time_steps(around, np.array([7, 14]), origins),
        always.similar_open_steps(around, 7, 2, origins),
    )


def test_a_morning_looks_at_the_evening_before_and_a_monday_at_friday() -> None:
    clock = Clock("UTC", hours=("Mon-Fri 06:00-22:00",))
    lags = LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=1),), horizon=2)
    assert local_steps(clock, lags, "2019-06-17T05:00") == [  # a Monday, closed
        "06-13T06:00", "06-14T06:00", "06-14T21:00", "06-14T21:00",  # 05:00 is never open
        "06-14T19:00", "06-14T20:00", "06-14T21:00",
    ]  # fmt: skip


def test_all_lags_are_open_and_none_is_later_than_the_origin() -> None:
    clock = Clock(BERLIN, 30, hours=("Mon-Fri 05:30-23:00; Sat 08:00-01:00",))
    times = clock.axis(np.datetime64("2019-03-01T00:00:00"), 3001)
    steps = clock.lag_steps(LagConfig(), times)
    assert steps.min() == 0
    assert clock.is_open(times[:, None] - steps * clock.step).all()
    assert (np.diff(steps[:, :-6], axis=1) <= 0).all()  # oldest first


def test_weeks_skip_a_closed_month() -> None:
    clock = Clock("UTC", hours=("Mon-Fri 08:00-16:00; Aug off",))
    week = LagConfig(recent=1, seasons=(Season(days=7, count=2, before=0, after=0),), horizon=1)
    assert local_steps(clock, week, "2019-09-03T09:00") == [
        "07-23T09:00", "07-30T09:00", "09-03T09:00",
    ]  # fmt: skip


def test_the_axis_is_open_where_any_place_is() -> None:
    clock = Clock("UTC", hours=("06:00-12:00", "10:00-18:00"))
    hours = np.arange("2019-06-17", "2019-06-18", dtype="datetime64[h]").astype("datetime64[s]")
    assert np.flatnonzero(clock.is_open(hours)).tolist() == list(range(6, 18))
    assert clock.last_open(hours[[5, 6, 20]]).tolist() == [12, 0, 3]


def test_places_without_enough_open_steps_are_refused() -> None:
    clock = Clock(
        "UTC", hours=("2019-06-17 06:00-08:00; 06:00-07:00; 2010-01-01 - 2030-01-01 off",)
    )
    with pytest.raises(ConfigError, match="too few open steps"):
        clock.lag_steps(LAGS, np.array(["2019-06-17T12:00"], dtype="datetime64[s]"))


def test_public_holidays_need_a_country_and_hours_need_steps_within_a_day() -> None:
    with pytest.raises(ConfigError, match="no country is given"):
        Clock("UTC", hours=("PH off",))
    Clock("UTC", holidays=Holidays("US", 2019, 2020, ("2019-07-04",)), hours=("PH off",))
    with pytest.raises(ConfigError, match="steps of a day or less"):
        Clock("UTC", 7 * 24 * 60, hours=("Sun off",))
