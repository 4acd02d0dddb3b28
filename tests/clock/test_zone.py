from calendar import SUNDAY, monthcalendar
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest
import tzdata
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.zone import (
    Times,
    changes_between,
    check_zone,
    is_second,
    to_local,
    to_utc,
    tz_version,
)
from forecaster.errors import ConfigError, DataError

ZONES = files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
NEW_YORK = "America/New_York"

zones = st.sampled_from(ZONES)
years = st.integers(1901, 2099)


def times(*texts: str) -> Times:
    return np.array(texts, dtype="datetime64[s]")


def around(days: list[int]) -> list[int]:
    """Return every half hour around these days, and the second before it."""
    return [day + 1800 * half - s for day in days for half in range(-48, 96) for s in (1, 0)]


@given(zones, years)
def test_local_times_agree_with_zoneinfo(oracle: SimpleNamespace, zone: str, year: int) -> None:
    instants = around(oracle.days_of_change(zone, year))
    local = to_local(zone, np.array(instants, dtype="datetime64[s]"))
    assert local.astype(np.int64).tolist() == [oracle.shown_at(zone, s) for s in instants]


@given(zones, years)
def test_instants_of_local_times_agree_with_zoneinfo(
    oracle: SimpleNamespace, zone: str, year: int
) -> None:
    local = around(oracle.days_of_change(zone, year))
    found = to_utc(zone, np.array(local, dtype="datetime64[s]"))
    shown = [oracle.showings(zone, s) for s in local]
    assert found.ambiguous.tolist() == [len(s) == 2 for s in shown]
    assert found.nonexistent.tolist() == [not s for s in shown]
    meant = [s or [oracle.first_past(zone, t)] for s, t in zip(shown, local, strict=True)]
    assert found.first.astype(np.int64).tolist() == [s[0] for s in meant]
    assert found.second.astype(np.int64).tolist() == [s[-1] for s in meant]


@given(zones, years)
def test_the_second_showing_is_zoneinfos_fold(
    oracle: SimpleNamespace, zone: str, year: int
) -> None:
    instants = around(oracle.days_of_change(zone, year))
    shown = [oracle.showings(zone, oracle.shown_at(zone, s)) for s in instants]
    second = is_second(zone, np.array(instants, dtype="datetime64[s]"))
    assert second.tolist() == [s != all_[0] for s, all_ in zip(instants, shown, strict=True)]


@given(zones, years, st.lists(st.integers(0, 3 * 366 * 86400), min_size=2, max_size=3))
def test_a_local_time_does_not_depend_on_its_neighbours(
    zone: str, year: int, seconds: list[int]
) -> None:
    instants = np.datetime64(str(year), "s") + np.array(seconds)
    one_by_one = [to_local(zone, instants[k : k + 1])[0] for k in range(len(seconds))]
    assert to_local(zone, instants).tolist() == np.array(one_by_one).tolist()


def test_new_york_shows_one_oclock_twice_on_2015_11_01() -> None:
    instants = times("2015-11-01T04", "2015-11-01T05", "2015-11-01T06", "2015-11-01T07")
    local = times("2015-11-01T00", "2015-11-01T01", "2015-11-01T01", "2015-11-01T02")
    assert to_local(NEW_YORK, instants).tolist() == local.tolist()
    assert is_second(NEW_YORK, instants).tolist() == [False, False, True, False]


def test_the_repeated_hour_of_2015_11_01_has_two_instants_and_its_neighbours_one() -> None:
    local = times(
        "2015-11-01T00:59:59", "2015-11-01T01:00", "2015-11-01T01:59:59", "2015-11-01T02:00"
    )
    found = to_utc(NEW_YORK, local)
    first = times(
        "2015-11-01T04:59:59", "2015-11-01T05:00", "2015-11-01T05:59:59", "2015-11-01T07:00"
    )
    second = times(
        "2015-11-01T04:59:59", "2015-11-01T06:00", "2015-11-01T06:59:59", "2015-11-01T07:00"
    )
    assert found.ambiguous.tolist() == [False, True, True, False]
    assert not found.nonexistent.any()
    assert found.first.tolist() == first.tolist()
    assert found.second.tolist() == second.tolist()


def test_the_skipped_hour_of_2015_03_08_becomes_three_oclock() -> None:
    local = times(
        "2015-03-08T01:59:59", "2015-03-08T02:00", "2015-03-08T02:59:59", "2015-03-08T03:00"
    )
    found = to_utc(NEW_YORK, local)
    meant = times(
        "2015-03-08T06:59:59", "2015-03-08T07:00", "2015-03-08T07:00", "2015-03-08T07:00"
    )
    assert found.nonexistent.tolist() == [False, True, True, False]
    assert not found.ambiguous.any()
    assert found.first.tolist() == meant.tolist()
    assert found.second.tolist() == meant.tolist()


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        (NEW_YORK, "2015-03-08", 23),
        (NEW_YORK, "2015-11-01", 25),
        (NEW_YORK, "2015-11-02", 24),
        ("Australia/Sydney", "2015-10-04", 23),
        ("Australia/Sydney", "2015-04-05", 25),
        ("Asia/Kolkata", "2015-11-01", 24),
        ("UTC", "2015-11-01", 24),
    ],
)
def test_a_day_has_as_many_hours_as_its_clock_lived(zone: str, day: str, hours: int) -> None:
    halves = np.datetime64(day, "s") + np.arange(-31, 83) * np.timedelta64(1800, "s")
    local = to_local(zone, halves)
    assert (local.astype("datetime64[D]") == np.datetime64(day)).sum() == 2 * hours


def test_new_york_has_65711_hours_and_15_clock_changes_in_the_papers_span() -> None:
    first, last = to_utc(NEW_YORK, times("2009-01-01", "2016-07-01")).first
    assert (last - first) / np.timedelta64(1, "h") == 65_711  # one fewer than on the wall
    assert len(changes_between(NEW_YORK, first, last)) == 15


def test_new_york_changes_its_clock_by_the_law() -> None:
    expected = []  # Energy Policy Act of 2005: second Sunday of March, first of November, at two
    for year in range(2009, 2017):
        march = [week[SUNDAY] for week in monthcalendar(year, 3) if week[SUNDAY]][1]
        november = next(week[SUNDAY] for week in monthcalendar(year, 11) if week[SUNDAY])
        expected.append((f"{year}-03-{march:02d}T07:00:00", 3600))
        expected.append((f"{year}-11-{november:02d}T06:00:00", -3600))
    found = changes_between(NEW_YORK, np.datetime64("2009-01-01"), np.datetime64("2016-12-31"))
    assert found == expected


def test_changes_are_those_after_the_first_instant_up_to_the_last() -> None:
    spring, autumn = np.datetime64("2015-03-08T07", "s"), np.datetime64("2015-11-01T06", "s")
    second = np.timedelta64(1, "s")
    assert changes_between(NEW_YORK, spring, autumn) == [("2015-11-01T06:00:00", -3600)]
    assert changes_between(NEW_YORK, spring - second, autumn - second) == [
        ("2015-03-08T07:00:00", 3600)
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "Etc/GMT+7"])
def test_a_zone_without_changes_has_none(zone: str) -> None:
    span = np.datetime64("2009-01-01"), np.datetime64("2016-06-30")
    assert changes_between(zone, *span) == []


def test_kolkata_is_half_an_hour_off_the_hours_of_utc() -> None:
    local = to_local("Asia/Kolkata", times("2015-11-01T00:00"))
    assert local.tolist() == times("2015-11-01T05:30").tolist()


def test_lord_howe_changes_its_clock_by_half_an_hour() -> None:
    found = to_utc("Australia/Lord_Howe", times("2015-04-05T01:29", "2015-04-05T01:30"))
    assert found.ambiguous.tolist() == [False, True]  # at 02:00 +11:00 back to 01:30 +10:30
    assert found.second[1] - found.first[1] == np.timedelta64(30, "m")
    skipped = to_utc("Australia/Lord_Howe", times("2015-10-04T02:00", "2015-10-04T02:30"))
    assert skipped.nonexistent.tolist() == [True, False]
    assert skipped.first[0] == skipped.first[1] == np.datetime64("2015-10-03T15:30")


def test_the_day_that_samoa_skipped_becomes_the_next_midnight() -> None:
    found = to_utc("Pacific/Apia", times("2011-12-29T23:59:59", "2011-12-30T12", "2011-12-31T00"))
    assert found.nonexistent.tolist() == [False, True, False]
    assert (
        found.first.tolist()
        == times("2011-12-30T09:59:59", "2011-12-30T10:00", "2011-12-30T10:00").tolist()
    )


def test_a_change_at_new_year_is_known_to_both_years() -> None:
    local = times("1932-12-31T23:59:59", "1933-01-01T00:19:59", "1933-01-01T00:20")
    apart = [to_utc("Asia/Singapore", local[k : k + 1]) for k in range(3)]  # +07:00 to +07:20
    assert [found.nonexistent.item() for found in apart] == [False, True, False]
    assert apart[1].first == apart[2].first == np.datetime64("1932-12-31T17:00")


def test_offsets_of_odd_seconds_are_kept() -> None:
    local = to_local("Africa/Monrovia", times("1971-06-01T00:44:30"))  # until 1972: −00:44:30
    assert local.tolist() == times("1971-06-01T00:00:00").tolist()


def test_the_shape_of_the_times_is_kept() -> None:
    instants = times("2015-11-01T06") + np.arange(2 * 3 * 5).reshape(2, 3, 5)
    found = to_utc(NEW_YORK, to_local(NEW_YORK, instants))
    assert found.first.shape == found.second.shape == (2, 3, 5)
    assert found.ambiguous.shape == found.nonexistent.shape == (2, 3, 5)
    assert is_second(NEW_YORK, instants).shape == (2, 3, 5)


def test_no_times_give_no_times() -> None:
    found = to_utc(NEW_YORK, to_local(NEW_YORK, times()))
    assert found.first.shape == found.ambiguous.shape == is_second(NEW_YORK, times()).shape == (0,)


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31", "NaT", "20015-11-01"])
def test_placeholders_for_no_time_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"years 2…9998 are supported; check for placeholders"):
        to_utc(NEW_YORK, times("2015-11-01", text))


def test_an_unknown_zone_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        check_zone("America/New_Yrok")
    assert str(caught.value) == (
        "unknown time zone 'America/New_Yrok'; give an IANA name; did you mean 'America/New_York'?"
    )


def test_a_zone_like_no_other_is_refused_with_an_example() -> None:
    with pytest.raises(ConfigError, match=r"give an IANA name such as America/New_York$"):
        check_zone("?????")


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "America/../America/New_York",
        "America/New_York/",
        "America/New_York\0",
        "America",
        "zone.tab",
        "__init__.py",
        "america/new_york",
        "UTC ",
        ".",
        "",
    ],
)
def test_a_name_that_is_no_zone_never_reaches_a_file(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown time zone"):
        to_local(name, times("2015-11-01"))


@given(st.text(max_size=17).filter(lambda name: name not in ZONES))
def test_any_text_that_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown time zone"):
        check_zone(name)


@given(zones)
def test_every_zone_of_the_database_is_accepted(zone: str) -> None:
    check_zone(zone)


def test_the_recorded_version_is_the_zone_databases() -> None:
    assert tz_version() == tzdata.__version__
