import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forecaster.clock.clock import CALENDAR_COLUMNS, Clock
from forecaster.clock.holidays import Holidays, expand_holidays
from forecaster.clock.zone import Times, to_utc
from forecaster.config import LagConfig, PanelConfig, Season
from forecaster.errors import ConfigError, DataError
from forecaster.recipe import Recipe

ZONES = files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
NAMED = ["America/New_York", "Australia/Sydney", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
SKIPPED_A_DAY = {"Pacific/Apia", "Pacific/Fakaofo"}  # in 2011; Samoa has a test of its own
NEW_YORK = Clock("America/New_York")
HOUR = np.timedelta64(1, "h")
PAPER = LagConfig()

# Section 3.1.2 as printed: x_{t−i}, x_{t+i−24j} and x_{t+i−168j}; oldest first.
FIXED_LAGS = sorted(
    [
        *range(6),
        *(24 * j - i for j in range(1, 7) for i in range(-1, 6)),
        *(168 * j - i for j in range(1, 5) for i in range(-1, 6)),
    ],
    reverse=True,
)

PRINT_A_YEAR = """
import hashlib
import numpy as np
from forecaster.clock.clock import Clock
from forecaster.config import LagConfig
clock = Clock("America/New_York")
axis = clock.axis(np.datetime64("2015-01-01T05"), 8_760)
parts = [clock.local(axis).astype(np.int64), clock.slot_of_season(axis), clock.calendar(axis)]
parts.append(clock.lag_steps(LagConfig(), axis))
print(hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())
"""

zones = st.sampled_from(NAMED) | st.sampled_from(ZONES)
years = st.integers(1997, 2037)
steps = st.sampled_from([15, 30, 60, 360, 1440])


def times(*texts: str) -> Times:
    return np.array(texts, dtype="datetime64[s]")


def one_season(days: int, before: int = 0, after: int = 0) -> LagConfig:
    """Return a recipe of the origin and one past day, so that column 0 is the similar step."""
    return LagConfig(recent=1, seasons=(Season(days=days, count=1, before=before, after=after),))


def similar(clock: Clock, lags: LagConfig, origin: str) -> list[int]:
    """Return the lags of one origin without the recent ones, oldest first."""
    row = clock.lag_steps(lags, times(origin))[0].tolist()
    return row[: len(row) - lags.recent]


def paper_lags_with(daily: list[int], weekly: list[int]) -> list[int]:
    """Return the 76 lags, oldest first, where each similar day lies this many hours back."""
    centres = [24 * j + d for j, d in enumerate(daily, 1)]
    centres += [168 * j + d for j, d in enumerate(weekly, 1)]
    return sorted([*range(6), *(c - i for c in centres for i in range(-1, 6))], reverse=True)


def test_history_has_the_papers_length() -> None:
    lags = Clock("UTC").lag_steps(PAPER, times("2015-11-01T12"))
    assert lags.shape == (1, 76)
    assert Clock("UTC").needed_steps(PAPER, times("2015-11-01T12")) == 674


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Etc/GMT+7"])
def test_without_clock_changes_lags_are_the_papers(zone: str) -> None:
    origins = Clock(zone).axis(np.datetime64("2015-01-01"), 8_761)
    assert (Clock(zone).lag_steps(PAPER, origins) == FIXED_LAGS).all()


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Sydney"])
def test_clock_changes_shorten_and_lengthen_the_history_by_an_hour(zone: str) -> None:
    origins = Clock(zone).axis(np.datetime64("2015-01-01"), 8_761)
    oldest = Clock(zone).lag_steps(PAPER, origins)[:, 0] + 1
    assert np.unique(oldest).tolist() == [673, 674, 675]
    assert Clock(zone).needed_steps(PAPER, origins) == 675


def test_needed_history_is_that_of_the_oldest_lag_of_all_origins() -> None:
    lags = one_season(days=1)
    autumn, winter = times("2015-11-01T12"), times("2015-12-01T12")
    assert NEW_YORK.needed_steps(lags, autumn) == 26  # 25 hours back and the origin itself
    assert NEW_YORK.needed_steps(lags, winter) == 25
    assert NEW_YORK.needed_steps(lags, np.concatenate([autumn, winter])) == 26


def test_without_seasons_only_recent_steps_are_needed() -> None:
    lags = LagConfig(recent=5, seasons=())
    assert NEW_YORK.lag_steps(lags, times("2015-11-01T07")).tolist() == [[4, 3, 2, 1, 0]]
    assert NEW_YORK.needed_steps(lags, times("2015-11-01T07")) == 5


def test_no_origins_have_no_lags() -> None:
    assert NEW_YORK.lag_steps(PAPER, times()).shape == (0, 76)
    assert NEW_YORK.needed_steps(PAPER, times()) == 6


# By hand, i = −1…5. Clocks go back at 06:00Z on November 1 (02:00 −04:00 becomes 01:00 −05:00)
# and forward at 07:00Z on March 8 (02:00 −05:00 becomes 03:00 −04:00).
@pytest.mark.parametrize(
    ("origin", "days", "lags"),
    [
        # 23:00, 00:00, 01:00 twice, 02:00, 03:00, 04:00; the day before has one 01:00, used twice
        ("2015-11-01T04", 1, [25, 24, 23, 23, 22, 21, 20]),
        # 00:00, 01:00 twice, 02:00 … 05:00
        ("2015-11-01T05", 1, [25, 24, 24, 23, 22, 21, 20]),
        # 01:00 twice, 02:00 … 06:00: the hours of the day before are 25 h away from the second on
        ("2015-11-01T06", 1, [25, 25, 24, 23, 22, 21, 20]),
        # 01:00 (the second), 02:00 … 07:00
        ("2015-11-01T07", 1, [26, 25, 24, 23, 22, 21, 20]),
        ("2015-11-01T12", 1, [26, 25, 24, 23, 22, 21, 20]),
        # 23:00 … 05:00 of November 2: 01:00 had two showings, the first counts; 06:00Z is left out
        ("2015-11-02T05", 1, [26, 25, 24, 22, 21, 20, 19]),
        # 01:00 … 07:00 of November 2: only 01:00 is 25 h away
        ("2015-11-02T07", 1, [26, 24, 23, 22, 21, 20, 19]),
        ("2015-11-02T08", 1, [25, 24, 23, 22, 21, 20, 19]),
        ("2015-11-08T05", 7, [170, 169, 168, 166, 165, 164, 163]),
        # 00:00, 01:00, 03:00 … 07:00; nothing stands for the 02:00 of the day before
        ("2015-03-08T06", 1, [25, 24, 22, 21, 20, 19, 18]),
        # 01:00, 03:00 … 08:00
        ("2015-03-08T07", 1, [25, 23, 22, 21, 20, 19, 18]),
        ("2015-03-08T12", 1, [24, 23, 22, 21, 20, 19, 18]),
        # 01:00 … 07:00 of March 9: 02:00 never was the day before and 03:00 stands for it too
        ("2015-03-09T06", 1, [24, 23, 23, 22, 21, 20, 19]),
        # 02:00 … 08:00 of March 9
        ("2015-03-09T07", 1, [24, 24, 23, 22, 21, 20, 19]),
        ("2015-03-09T08", 1, [25, 24, 23, 22, 21, 20, 19]),
        ("2015-03-15T06", 7, [168, 167, 167, 166, 165, 164, 163]),
    ],
)
def test_I4_lags_around_a_clock_change_are_those_reasoned_by_hand(
    origin: str, days: int, lags: list[int]
) -> None:
    assert similar(NEW_YORK, one_season(days, before=1, after=5), origin) == lags


@pytest.mark.parametrize(
    ("origin", "daily", "weekly"),  # by hand: hours more than 24·j and 168·j; noon in New York
    [
        ("2015-10-25T16", [0, 0, 0, 0, 0, 0], [0, 0, 0, 0]),
        ("2015-10-31T16", [0, 0, 0, 0, 0, 0], [0, 0, 0, 0]),
        ("2015-11-01T17", [1, 1, 1, 1, 1, 1], [1, 1, 1, 1]),
        ("2015-11-02T17", [0, 1, 1, 1, 1, 1], [1, 1, 1, 1]),
        ("2015-11-03T17", [0, 0, 1, 1, 1, 1], [1, 1, 1, 1]),
        ("2015-11-04T17", [0, 0, 0, 1, 1, 1], [1, 1, 1, 1]),
        ("2015-11-05T17", [0, 0, 0, 0, 1, 1], [1, 1, 1, 1]),
        ("2015-11-06T17", [0, 0, 0, 0, 0, 1], [1, 1, 1, 1]),
        ("2015-11-07T17", [0, 0, 0, 0, 0, 0], [1, 1, 1, 1]),
        ("2015-11-08T17", [0, 0, 0, 0, 0, 0], [0, 1, 1, 1]),
        ("2015-11-15T17", [0, 0, 0, 0, 0, 0], [0, 0, 1, 1]),
        ("2015-11-22T17", [0, 0, 0, 0, 0, 0], [0, 0, 0, 1]),
        ("2015-11-29T17", [0, 0, 0, 0, 0, 0], [0, 0, 0, 0]),
        ("2015-03-07T17", [0, 0, 0, 0, 0, 0], [0, 0, 0, 0]),
        ("2015-03-08T16", [-1, -1, -1, -1, -1, -1], [-1, -1, -1, -1]),
        ("2015-03-11T16", [0, 0, 0, -1, -1, -1], [-1, -1, -1, -1]),
        ("2015-03-15T16", [0, 0, 0, 0, 0, 0], [0, -1, -1, -1]),
    ],
)
def test_I4_the_76_lags_of_a_noon_near_a_clock_change_are_those_reasoned_by_hand(
    origin: str, daily: list[int], weekly: list[int]
) -> None:
    lags = NEW_YORK.lag_steps(PAPER, times(origin))[0]
    assert lags.tolist() == paper_lags_with(daily, weekly)


def test_I4_lags_of_one_origin_are_those_of_many(rounds: Callable[[int, int], int]) -> None:
    seconds = np.random.default_rng(7).integers(0, 65_711, rounds(101, 1_000)) * HOUR
    origins = np.datetime64("2009-01-01T05", "s") + seconds
    together = NEW_YORK.lag_steps(PAPER, origins)
    alone = [NEW_YORK.lag_steps(PAPER, origin[None])[0] for origin in origins]
    assert (together == np.stack(alone)).all()


def test_I4_fixed_lags_would_hold_a_wrong_hour_in_10170_of_65035_windows() -> None:
    axis = NEW_YORK.axis(np.datetime64("2009-01-01T05"), 65_711)
    shown = NEW_YORK.local(NEW_YORK.axis(axis[0], 65_711 + 5))  # t + i, past the last origin
    origins = np.arange(673, 65_711 - 3)  # 674 hours of history, three of targets
    wrong = np.zeros(len(origins), dtype=bool)
    for hours in [24 * j for j in range(1, 7)] + [168 * j for j in range(1, 5)]:
        for i in range(-1, 6):
            wrong |= shown[origins + i] - shown[origins + i - hours] != hours * HOUR
    assert (wrong.sum(), len(wrong)) == (10_170, 65_035)  # finding 1 of the fault list
    in_test_year = axis[origins] >= np.datetime64("2015-07-01T03")  # its first target is at 04Z
    assert (wrong[in_test_year].sum(), in_test_year.sum()) == (1_356, 8_782)


def test_only_hours_that_never_were_are_replaced_by_the_next() -> None:
    origins = NEW_YORK.axis(np.datetime64("2009-01-01T05"), 65_711)
    lag = NEW_YORK.lag_steps(one_season(days=1), origins)[:, 0]
    late = NEW_YORK.local(origins - lag * HOUR) - NEW_YORK.local(origins) + 24 * HOUR
    assert np.unique(late).tolist() == [np.timedelta64(0, "s"), np.timedelta64(3600, "s")]
    assert (late == HOUR).sum() == 8  # springs from 2009 to 2016


@pytest.mark.parametrize(
    ("origin", "hours"),
    [("2015-11-01T05", 364 * 24), ("2015-11-01T06", 364 * 24), ("2015-11-01T07", 364 * 24)],
)
def test_a_repeated_hour_finds_the_same_showing_of_a_repeated_hour(
    origin: str, hours: int
) -> None:
    # 364 days before 2015-11-01, on 2014-11-02, 01:00 was shown at 05:00Z and 06:00Z as well
    assert similar(NEW_YORK, one_season(days=364), origin) == [hours]


@pytest.mark.parametrize(
    ("origin", "hours"),
    [
        ("2015-04-05T06", 25),  # Sydney: back at 16:00Z on April 4
        ("2015-04-06T06", 24),
        ("2015-10-04T06", 23),  # forward at 16:00Z on October 3
        ("2015-10-05T06", 24),
    ],
)
def test_lags_follow_the_southern_clock(origin: str, hours: int) -> None:
    assert similar(Clock("Australia/Sydney"), one_season(days=1), origin) == [hours]


@pytest.mark.parametrize(
    ("minutes", "origin", "lag"),
    [
        (30, "2015-04-05T03", 49),  # back by half an hour at 15:00Z on April 4: 24.5 h
        (60, "2015-04-05T03", 24),  # between 24 and 25: the later instant
        (30, "2015-10-04T03", 47),  # forward by half an hour at 15:30Z on October 3: 23.5 h
        (60, "2015-10-04T03", 23),
        (15, "2015-04-05T03", 98),
    ],
)
def test_half_hour_changes_go_to_the_nearer_step(minutes: int, origin: str, lag: int) -> None:
    clock = Clock("Australia/Lord_Howe", minutes)
    assert similar(clock, one_season(days=1), origin) == [lag]


@pytest.mark.parametrize(
    ("minutes", "origin", "lags"),
    [
        (15, "2015-11-01T12", [101, 100, 99]),  # a day of 25 h
        (15, "2015-03-08T12", [93, 92, 91]),  # a day of 23 h
        (360, "2015-11-01T12", [5, 4, 3]),  # 25 h are nearest to four steps
        (360, "2015-03-08T12", [5, 4, 3]),
    ],
)
def test_other_steps_follow_the_wall_clock_too(minutes: int, origin: str, lags: list[int]) -> None:
    clock = Clock("America/New_York", minutes)
    assert similar(clock, one_season(days=1, before=1, after=1), origin) == lags


def test_daily_lags_never_bend() -> None:
    clock = Clock("America/New_York", step_minutes=1440)
    lags = LagConfig(recent=2, seasons=(Season(days=7, count=3, before=1, after=1),))
    origins = clock.axis(np.datetime64("2015-01-01T05"), 367)
    assert (clock.lag_steps(lags, origins) == [22, 21, 20, 15, 14, 13, 8, 7, 6, 1, 0]).all()


def test_recent_steps_are_the_last_even_where_a_season_reaches_into_them() -> None:
    lags = LagConfig(recent=6, seasons=(Season(days=7, count=2, before=1, after=5),))
    expected = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 5, 4, 3, 2, 1, 0]
    assert Clock("UTC", 1440).lag_steps(lags, times("2015-11-01"))[0].tolist() == expected


def test_several_seasons_of_any_days_are_one_recipe() -> None:
    lags = LagConfig(
        recent=2,
        seasons=(
            Season(days=2, count=2, before=0, after=1),
            Season(days=365, count=1, before=2, after=0),
        ),
    )
    expected = [8762, 8761, 8760, 96, 95, 48, 47, 1, 0]
    assert Clock("UTC").lag_steps(lags, times("2015-11-01T12"))[0].tolist() == expected


def test_the_same_time_of_past_days_is_given_by_origin_day_and_distance() -> None:
    around, days = np.array([0, 2]), np.array([1, 2, 7])
    origins = NEW_YORK.axis(np.datetime64("2015-11-02T17"), 5)  # noon; November 1 has the change
    steps = NEW_YORK.same_time_steps(around, days, origins)
    assert steps.shape == (5, 3, 2)
    assert (steps == [[24, 22], [49, 47], [169, 167]]).all()


def test_the_widest_season_ends_at_the_origin_at_the_widest_change() -> None:
    # Casey went from +08:00 to +11:00 at 20:00Z on 2018-10-06; t + 21 h shows 03:00 as t does
    recipe = Recipe(lags=one_season(days=1, after=21))
    lags = similar(Clock("Antarctica/Casey"), recipe.lags, "2018-10-06T19")
    assert lags[-1] == 0


def test_a_similar_step_after_its_origin_is_refused() -> None:
    # Samoa skipped 2011-12-30; t + 1 is the first hour of the day after, and stands for it all
    origin = "2011-12-30T09:00:00"
    with pytest.raises(ConfigError, match=f"similar step of {origin} UTC in Pacific/Apia lies"):
        Clock("Pacific/Apia").lag_steps(PAPER, times("2011-12-01T00", origin))


@given(zones, years, steps, st.integers(0, 31 * 96), st.data())
def test_every_lag_lands_on_its_wall_clock_time(
    oracle: SimpleNamespace,
    zone: str,
    year: int,
    minutes: int,
    quarters: int,
    data: st.DataObject,
) -> None:
    assume(zone not in SKIPPED_A_DAY)
    season = data.draw(
        st.builds(
            Season,
            days=st.sampled_from([1, 2, 7, 364]),
            count=st.integers(1, 3),
            before=st.integers(0, 3),
            after=st.integers(0, min(5, 21 * 60 // minutes)),
        )
    )
    day = data.draw(st.sampled_from(oracle.days_of_change(zone, year)))
    origin, step = day + 900 * quarters, 60 * minutes
    expected = []
    for j in range(1, season.count + 1):
        for source in range(origin - season.before * step, origin + season.after * step + 1, step):
            local = oracle.shown_at(zone, source)
            twice = oracle.showings(zone, local)
            past = local - j * season.days * 86400
            meant = oracle.showings(zone, past) or [oracle.first_past(zone, past)]
            instant = meant[-1] if source != twice[0] else meant[0]
            whole, rest = divmod(origin - instant, step)
            expected.append(whole + (2 * rest > step))
    lags = LagConfig(recent=1, seasons=(season,))
    found = Clock(zone, minutes).lag_steps(lags, np.array([origin], dtype="datetime64[s]"))
    assert found[0].tolist() == sorted([*expected, 0], reverse=True)


@given(zones, years, steps, st.data())
def test_no_recipe_sees_past_its_origin(
    oracle: SimpleNamespace,
    zone: str,
    year: int,
    minutes: int,
    data: st.DataObject,
) -> None:
    assume(zone not in SKIPPED_A_DAY)
    days = data.draw(st.sampled_from([1, 2, 3]))
    widest = Season(days=days, count=2, after=(days * 1440 - 180) // minutes)
    recipe = Recipe(
        panel=PanelConfig(step_minutes=minutes), lags=LagConfig(recent=3, seasons=(widest,))
    )
    changes = np.array(oracle.days_of_change(zone, year), dtype="datetime64[s]")
    origins = (changes[:, None] + np.arange(-25, 48, 5) * HOUR).reshape(-1)
    lags = Clock(zone, minutes).lag_steps(recipe.lags, origins)
    assert lags.shape == (len(origins), 3 + 2 * (widest.before + 1 + widest.after))
    assert (lags >= 0).all()
    assert (np.diff(lags[:, :-3], axis=1) <= 0).all()  # oldest first
    assert (lags[:, -3:] == [2, 1, 0]).all()


def test_I24_results_do_not_depend_on_the_hosts_zone_or_zone_database(tmp_path: Path) -> None:
    false = tmp_path / "America" / "New_York"  # a host whose New York is in India
    false.parent.mkdir()
    false.write_bytes(files("tzdata.zoneinfo").joinpath("Asia", "Kolkata").read_bytes())
    hosts = [{"TZ": "Asia/Kolkata"}, {"TZ": "UTC"}, {"TZ": "America/New_York"}]
    hosts[1]["PYTHONTZPATH"] = str(tmp_path)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_A_YEAR], env=os.environ | host, stdout=subprocess.PIPE
        )
        for host in hosts
    ]
    found = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 3
    assert len(set(found)) == 1


def test_an_axis_has_its_steps() -> None:
    axis = Clock("Asia/Kolkata", step_minutes=15).axis(np.datetime64("2015-03-08T23:30"), 3)
    expected = times("2015-03-08T23:30", "2015-03-08T23:45", "2015-03-09T00:00")
    assert axis.dtype == expected.dtype
    assert axis.tolist() == expected.tolist()


def test_the_local_time_is_the_zones() -> None:
    local = NEW_YORK.local(times("2015-11-01T05", "2015-11-01T06"))
    assert local.tolist() == times("2015-11-01T01", "2015-11-01T01").tolist()


@pytest.mark.parametrize(
    ("zone", "time", "slot"),
    [
        ("UTC", "2015-11-02T00:00", 0),  # a Monday
        ("UTC", "2015-11-01T23:59:59", 167),
        ("America/New_York", "2015-11-02T04:00", 167),
        ("America/New_York", "2015-11-02T05:00", 0),
        ("America/New_York", "2015-11-01T05:00", 145),  # Sunday 01:00, twice
        ("America/New_York", "2015-11-01T06:00", 145),
        ("America/New_York", "2015-03-08T06:00", 145),
        ("America/New_York", "2015-03-08T07:00", 147),  # no 02:00
        ("Australia/Sydney", "2015-11-01T13:00", 0),
        ("Asia/Kolkata", "2015-11-01T18:00", 167),  # Sunday 23:30
        ("Asia/Kolkata", "2015-11-01T18:30", 0),
        ("UTC", "1969-12-28T23:00", 167),
    ],
)
def test_the_hour_of_the_week_counts_from_local_monday(zone: str, time: str, slot: int) -> None:
    assert Clock(zone).slot_of_season(times(time)).tolist() == [slot]


@pytest.mark.parametrize(
    ("minutes", "slots"),  # 2 and 5 days do not divide a week: its last slot is cut short
    [(15, 672), (60, 168), (360, 28), (1440, 7), (2880, 4), (7200, 2)],
)
def test_a_week_has_as_many_slots_as_its_steps_reach(minutes: int, slots: int) -> None:
    clock = Clock("America/New_York", minutes)
    assert clock.season_slots == slots
    quarters = Clock("UTC", 15).axis(np.datetime64("2015-06-01"), 14 * 96)
    assert np.unique(clock.slot_of_season(quarters)).tolist() == list(range(slots))


def test_the_calendar_has_the_papers_columns() -> None:
    assert len(CALENDAR_COLUMNS) == 32  # of the 39 covariates: 7 are weather
    assert CALENDAR_COLUMNS[0] == "weekday_monday"
    assert CALENDAR_COLUMNS[6:8] == ("weekday_sunday", "hour_00")
    assert CALENDAR_COLUMNS[30:] == ("hour_23", "holiday")


def test_the_calendar_marks_weekday_hour_and_holiday() -> None:
    clock = Clock("America/New_York", holidays=Holidays("US", 2015, 2015, ("2015-07-04",)))
    calendar = clock.calendar(times("2015-07-05T03:00", "2015-07-05T04:00"))
    marked = [[CALENDAR_COLUMNS[k] for k in np.flatnonzero(row)] for row in calendar]
    assert calendar.dtype == np.float32
    assert marked == [["weekday_saturday", "hour_23", "holiday"], ["weekday_sunday", "hour_00"]]


@given(zones, st.integers(0, 4_000_000_000))
def test_the_calendar_agrees_with_zoneinfo(
    oracle: SimpleNamespace, zone: str, instant: int
) -> None:
    local = datetime.fromtimestamp(oracle.shown_at(zone, instant), UTC)
    row = Clock(zone).calendar(np.array([instant], dtype="datetime64[s]"))[0]
    assert np.flatnonzero(row).tolist() == [local.weekday(), 7 + local.hour]
    assert (row[row != 0] == 1).all()


def test_without_a_country_no_hour_is_a_holiday() -> None:
    assert not NEW_YORK.calendar(times("2015-07-04T16", "2015-12-25T17"))[:, -1].any()


def test_holidays_are_known_for_past_and_future_hours() -> None:
    clock = Clock("America/New_York", holidays=expand_holidays("US", 2009, 2016))
    past, future = "2009-07-04T16", "2026-12-25T17"
    assert clock.calendar(times(past, "2015-07-07T16", future))[:, -1].tolist() == [1, 0, 1]


def test_the_table_ends_with_its_last_local_hour() -> None:
    clock = Clock("America/New_York", holidays=Holidays("US", 2015, 2015, ("2015-12-31",)))
    assert clock.calendar(times("2016-01-01T04"))[:, -1].tolist() == [1]
    with pytest.raises(DataError, match="no holiday table for 2016"):
        clock.calendar(times("2016-01-01T05"))


def test_a_calendar_of_no_hours_is_empty() -> None:
    assert NEW_YORK.calendar(times()).shape == (0, 32)


def test_a_clock_of_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Asia/Kolkata'"):
        Clock("Asia/Kolkatta")


def test_a_clock_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        NEW_YORK.zone = "UTC"


@pytest.mark.parametrize(
    ("months", "zone"), [(1, "Europe/Berlin"), (3, "UTC"), (12, "Asia/Tokyo")]
)
def test_steps_of_months_begin_at_local_midnight_of_a_first_day(months, zone):
    clock = Clock(zone, step_months=months)
    start = to_utc(zone, np.array(["2019-10-01"], dtype="datetime64[s]")).first[0]
    steps = np.arange(-17, 31)
    times = clock.instants(start, steps)
    local = clock.local(times)
    assert (local == local.astype("datetime64[M]")).all()
    assert (np.diff(local.astype("datetime64[M]").astype(int)) == months).all()
    assert (clock.step_index(start, times) == steps).all()


def test_an_instant_between_months_belongs_to_the_nearer_beginning():
    clock, start = Clock("UTC", step_months=1), np.datetime64("2021-01-01", "s")
    times = np.array(["2021-02-14T23", "2021-02-15T00", "2020-12-20"], dtype="datetime64[s]")
    assert clock.step_index(start, times).tolist() == [1, 2, 0]  # 14 of 28 days: the later one


def test_step_index_goes_to_the_nearest_step_and_the_later_at_a_tie():
    clock, start = Clock("UTC", 60), np.datetime64("2021-01-01", "s")
    times = np.array(["2021-01-01T02:29", "2021-01-01T02:30", "2020-12-31T21:10"], "datetime64[s]")
    assert clock.step_index(start, times).tolist() == [2, 3, -3]


def test_the_same_month_of_past_years_is_found_across_leap_days():
    clock, lags = (
        Clock("UTC", step_months=1),
        LagConfig(recent=2, seasons=(Season(days=365, count=3, before=1, after=2),), horizon=2),
    )
    origins = clock.axis(np.datetime64("2019-01-01", "s"), 61)
    expected = [37, 36, 35, 34, 25, 24, 23, 22, 13, 12, 11, 10, 1, 0]
    assert (clock.lag_steps(lags, origins) == np.array(expected)).all()


@pytest.mark.parametrize(
    ("clock", "slots"),
    [
        (Clock("UTC", 60), 168),
        (Clock("UTC", 1440), 7),
        (Clock("UTC", 7 * 1440), 53),
        (Clock("UTC", step_months=1), 12),
        (Clock("UTC", step_months=3), 4),
        (Clock("UTC", step_months=12), 1),
    ],
)
def test_the_season_is_a_week_of_short_steps_and_a_year_of_long_ones(clock, slots):
    times = clock.axis(np.datetime64("2018-01-01", "s"), 7 * slots)
    slot = clock.slot_of_season(times)
    assert clock.season_slots == slots
    assert slot.min() == 0
    assert slot.max() == slots - 1


def test_months_and_quarters_are_numbered_in_the_local_year():
    zone = "Australia/Sydney"
    start = to_utc(zone, np.array(["2020-02-01"], dtype="datetime64[s]")).first[0]
    months = Clock(zone, step_months=1)
    quarters = Clock(zone, step_months=3)  # of a business year that begins in February
    assert months.slot_of_season(months.axis(start, 13)).tolist() == [*range(1, 12), 0, 1]
    assert quarters.slot_of_season(quarters.axis(start, 5)).tolist() == [0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    ("time", "shares"),
    [
        ("2015-07-06T08:15", {"weekday_monday": 1, "hour_08": 0.75, "hour_09": 0.25}),
        ("2015-07-06T08:00", {"weekday_monday": 1, "hour_08": 1}),
        ("2015-07-05T23:30", {"weekday_sunday": 1, "hour_23": 0.5, "hour_00": 0.5}),
        ("2015-07-06T08:59", {"weekday_monday": 1, "hour_08": 1 / 60, "hour_09": 59 / 60}),
    ],
)
def test_the_calendar_of_small_steps_knows_minutes(time: str, shares: dict[str, float]) -> None:
    row = Clock("UTC", 1).calendar(times(time))[0]
    marked = {CALENDAR_COLUMNS[k]: row[k] for k in np.flatnonzero(row)}
    assert marked == pytest.approx(shares)
    assert np.flatnonzero(Clock("UTC", 60).calendar(times(time))[0]).tolist() == [
        k for k, name in enumerate(CALENDAR_COLUMNS) if name in list(shares)[:2]
    ]


def test_steps_of_a_week_have_a_place_in_the_year_and_no_weekday() -> None:
    clock = Clock("UTC", 7 * 24 * 60)
    calendar = clock.calendar(clock.axis(np.datetime64("2015-01-05T00:00:00"), 104))
    assert not calendar[:, :7].any()
    assert calendar[:, 7:31].sum(axis=1) == pytest.approx(np.ones(104))
    place = clock.slot_of_season(clock.axis(np.datetime64("2015-01-05T00:00:00"), 104))
    assert (calendar[:, 7:31].argmax(axis=1)).tolist() == [
        round(24 * p / clock.season_slots) % 24 for p in place.tolist()
    ]


def test_a_month_has_every_second_of_the_columns_of_the_day() -> None:
    clock = Clock("UTC", 43_830, step_months=1)
    calendar = clock.calendar(clock.axis(np.datetime64("2015-01-01T00:00:00"), 24))
    assert not calendar[:, :7].any()
    assert np.array_equal(calendar[:, 7:31], np.eye(24, dtype=np.float32)[[*range(0, 24, 2)] * 2])


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (Clock("UTC", 5), "5 min"),
        (Clock("UTC"), "60 min"),
        (Clock("UTC", 24 * 60), "1 day"),
        (Clock("UTC", 3 * 24 * 60), "3 days"),
        (Clock("UTC", 14 * 24 * 60), "2 weeks"),
        (Clock("UTC", step_months=3), "3 months"),
    ],
)
def test_the_length_of_a_step_is_told_in_its_largest_unit(clock: Clock, words: str) -> None:
    assert clock.step_text == words
