from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.hours import OpeningHours, weekly_hours
from forecaster.errors import ConfigError

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
HOLIDAYS = ("2019-12-25", "2020-01-01")


def is_open(text: str, *times: str) -> list[bool]:
    local = np.array(times, dtype="datetime64[s]")
    return OpeningHours.parse(text).is_open(local, HOLIDAYS).tolist()


def test_hours_of_working_days_are_closed_at_night_and_at_weekends() -> None:
    times = "2019-12-20T04:59", "2019-12-20T05:00", "2019-12-20T22:59", "2019-12-20T23:00"
    assert is_open("Mon-Fri 05:00-23:00", *times) == [False, True, True, False]
    assert is_open("Mo-Fr 05:00-23:00", "2019-12-21T12:00", "2019-12-23T12:00") == [False, True]


def test_plain_times_are_of_every_day_and_may_be_several() -> None:
    times = "2019-12-22T11:59", "2019-12-22T12:00", "2019-12-22T13:00", "2019-12-22T18:00"
    assert is_open("08:00-12:00, 13:00-18:00", *times) == [True, False, True, False]


def test_a_later_rule_replaces_the_whole_day_of_an_earlier_one() -> None:
    text = "05:00-23:00; Sat 06:00-24:00; Sun,PH off; 2019-12-24 05:00-14:00"
    times = "2019-12-21T05:30", "2019-12-21T23:30", "2019-12-22T12:00", "2019-12-25T12:00"
    assert is_open(text, *times) == [False, True, False, False]
    assert is_open(text, "2019-12-24T13:00", "2019-12-24T15:00") == [True, False]


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    times = "2019-12-21T01:30", "2019-12-22T01:30", "2019-12-20T21:00", "2019-12-20T22:00"
    assert is_open("Fri 22:00-02:00", *times) == [True, False, False, True]


def test_exceptions_alone_leave_all_other_times_open() -> None:
    assert is_open("Aug off", "2019-08-31T12:00", "2019-09-01T03:00") == [False, True]
    assert is_open("12-24 - 01-06 off", "2020-01-03T12:00", "2019-12-23T03:00") == [False, True]
    text = "2019-08-01 - 2019-08-31 off"
    assert is_open(text, "2019-08-01T00:00", "2020-08-01T00:00") == [False, True]


def test_dates_may_be_narrowed_to_weekdays() -> None:
    text = "08:00-18:00; Aug Mon-Fri 08:00-12:00"
    times = "2019-08-05T13:00", "2019-08-04T13:00", "2019-09-02T13:00"
    assert is_open(text, *times) == [False, True, True]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("Mon-Fry 5-6; 2019-13-01 off", ["'mon-fry'", "'5-6'", "2019-13-01", "such as Mon-Fri"]),
        ("", ["no rule"]),
        ("25:00-26:00", ["beyond 00:00-24:00"]),
        ("2019-08-31 - 2019-08-01 off", ["swap its dates"]),
        ("Mon 08:00-12:00, Tue 05:00-06:00", ["'tue 05:00-06:00'"]),
        ("x" * 3_000, ["at most 2,000"]),
    ],
)
def test_all_faults_of_a_text_are_named_at_once(text: str, faults: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        OpeningHours.parse(text)
    assert all(fault in str(error.value) for fault in faults)


clock_times = st.integers(0, 24 * 4 - 1)
spans = st.lists(st.tuples(clock_times, st.integers(1, 24 * 4)), max_size=2)
weekdays = st.lists(st.sampled_from(range(7)), min_size=1, max_size=3, unique=True)
days = st.integers(0, 30).map(lambda n: date(2019, 12, 15) + timedelta(days=n))
ranges = st.tuples(days, days).map(lambda pair: (min(pair), max(pair)))
rules = st.lists(
    st.tuples(st.none() | weekdays, st.none() | ranges, st.booleans(), spans),
    min_size=1,
    max_size=4,
)


def spell(rule) -> str:
    chosen, dates, holidays, opened = rule
    parts = [f"{dates[0]} - {dates[1]}"] if dates else []
    names = [DAYS[n] for n in chosen or []] + (["PH"] if chosen and holidays else [])
    parts += [",".join(names)] if names else []
    times = [f"{a // 4:02d}:{a % 4 * 15:02d}-{b // 4:02d}:{b % 4 * 15:02d}" for a, b in opened]
    return " ".join([*parts, ",".join(times) or "off"])


def naive(rule_list, moment: datetime) -> bool:
    """Ask every rule of the day and of the day before, one after the other."""
    has_base = any(opened and not dates for _, dates, _, opened in rule_list)
    for back in (0, 1):
        day = (moment - timedelta(days=back)).date()
        chosen = None
        for weekday, dates, holidays, opened in rule_list:
            fits = weekday is None or day.weekday() in weekday
            fits = fits or bool(weekday and holidays and day.isoformat() in HOLIDAYS)
            if fits and (dates is None or dates[0] <= day <= dates[1]):
                chosen = opened
        if chosen is None:
            if back == 0 and not has_base:
                return True
            continue
        quarter = (moment.hour * 60 + moment.minute) // 15 + back * 96
        for a, b in chosen:
            if a <= quarter < (b if b > a else b + 96):
                return True
    return False


@settings(max_examples=150, deadline=None)
@given(rules)
def test_a_mask_agrees_with_asking_every_rule(rule_list) -> None:
    local = np.arange("2019-12-14", "2020-01-05", 45, dtype="datetime64[m]")
    text = "; ".join(map(spell, rule_list))
    mask = OpeningHours.parse(text).is_open(local.astype("datetime64[s]"), HOLIDAYS)
    assert mask.tolist() == [naive(rule_list, moment) for moment in local.astype(datetime)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=7 * 24, max_size=7 * 24))
def test_the_text_of_a_weekly_pattern_means_that_pattern(slots: list[bool]) -> None:
    pattern = np.array(slots).reshape(7, 24)
    pattern[2, 11] = True  # nothing open at all is not told from exceptions
    local = np.arange("2019-12-16", "2019-12-30", dtype="datetime64[h]").astype("datetime64[s]")
    mask = OpeningHours.parse(weekly_hours(pattern, 60)).is_open(local)
    assert np.array_equal(mask.reshape(2, 7, 24), np.stack([pattern, pattern]))


def test_a_weekly_pattern_is_written_short() -> None:
    pattern = np.ones((7, 96), dtype=bool)
    pattern[:, :22] = pattern[:, 95:] = False
    assert weekly_hours(pattern, 15) == "05:30-23:45"
    pattern[5:] = False
    assert weekly_hours(pattern, 15) == "Mon-Fri 05:30-23:45; Sat-Sun off"
    pattern[:5] = True
    assert weekly_hours(pattern, 15) == "Sat-Sun off"
    assert weekly_hours(np.ones((7, 96), dtype=bool), 15) == ""
