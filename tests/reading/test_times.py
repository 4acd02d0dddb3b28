from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.choices import DateOrder
from forecaster.errors import Faults
from forecaster.reading.load import load
from forecaster.reading.times import parse_times


def chunked(values: Any, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    """Return a column whose chunks are cut where no one expects it."""
    whole = pa.array(values, kind)
    return pa.chunked_array([whole[:1], whole[1:]], whole.type)


def read_times(
    values: Any, kind: pa.DataType | None = None, dates: DateOrder | None = None
) -> tuple[list[int], bool, list[str]]:
    faults = Faults("table")
    seconds, naive = parse_times(chunked(values, kind), "ds", faults, dates)
    return seconds.tolist(), naive, faults.messages


NOON = datetime(2014, 6, 1, 12, tzinfo=UTC)
LOCAL, REFUSED = "local", "refused"
VERDICTS = {  # what the text stands for: local time, so many hours before 12:00 UTC, or nothing
    "2014-06-01T12:00": LOCAL,
    "2014-06-01 12:00": LOCAL,
    "2014-06-01T12:00:00": LOCAL,
    "2014-06-01 12:00:00.000": LOCAL,
    "2014-06-01T12:00:00.000000000": LOCAL,
    "  2014-06-01T12:00 ": LOCAL,
    "2014-06-01T12:00Z": 0,
    "2014-06-01 12:00:00Z": 0,
    "2014-06-01T12:00:00.000Z": 0,
    "2014-06-01T12:00+00:00": 0,
    "2014-06-01T12:00-00:00": 0,
    "2014-06-01T12:00+0000": 0,
    "2014-06-01T12:00-04:00": -4,
    "2014-06-01 12:00:00-0400": -4,
    "2014-06-01T12:00+05:30": 5.5,
    "2014-06-01T12:00+14:00": 14,
    "2014-06-01T12:00+16:00": REFUSED,
    "2014-06-01T12:00+99:99": REFUSED,
    "2014-06-01T12:00-04:60": REFUSED,
    "2014-06-01T12:00-4": REFUSED,
    "2014-06-01T12:00-04": -4,
    "2014-06-01T12:00 -04:00": -4,
    "2014-06-01T12:00 UTC": 0,
    "2014-06-01T12:00 EST": REFUSED,
    "2014-06-01T12:00[America/New_York]": REFUSED,
    "2014-06-01T12:00z": REFUSED,
    "2014-06-01t12:00": REFUSED,
    "2014-06-01T12": REFUSED,
    "2014-06-01T24:00": REFUSED,
    "2014-06-01T12:60": REFUSED,
    "2014-06-01T12:00:60": REFUSED,
    "2014-06-01T12:00:00.5": REFUSED,
    "2014-06-01 12:00 PM": LOCAL,
    "2014-06-31T12:00": REFUSED,
    "2014-02-29T12:00": REFUSED,
    "2016-13-01": REFUSED,
    "2014-6-1 12:00": LOCAL,
    "14-06-01 12:00": REFUSED,
    "01.06.2014 12:00": LOCAL,
    "1 June 2014 12:00": LOCAL,
    "20140601T120000Z": 0,
    "2014-W22-7T12:00": REFUSED,
    "2014-152T12:00": REFUSED,
    "1401624000": 0,
    "1401624000000": 0,
    "14016240": REFUSED,
    "now": REFUSED,
    "NaT": REFUSED,
    "": REFUSED,
}


@pytest.mark.parametrize(("text", "verdict"), VERDICTS.items())
def test_I13_only_explicit_formats_are_times(text: str, verdict: str | float) -> None:
    seconds, naive, faults = read_times([text])
    if verdict == REFUSED:
        assert len(faults) == 1
        assert "row 1" in faults[0]
        return
    hours_east = 0.0 if verdict == LOCAL else float(verdict)
    assert faults == []
    assert naive == (verdict == LOCAL)
    assert seconds == [NOON.timestamp() - hours_east * 3600]


def test_a_date_is_its_first_moment() -> None:
    midnight = int(datetime(2014, 6, 1, tzinfo=UTC).timestamp())
    for values, kind in (
        (["2014-06-01"], None),
        ([date(2014, 6, 1)], pa.date32()),
        ([date(2014, 6, 1)], pa.date64()),
    ):
        assert read_times(values, kind) == ([midnight], True, [])


@pytest.mark.parametrize(
    "text",
    [
        "Sun 01 Jun 2014",
        "Sunday, June 1, 2014",
        "So, 01.06.2014",
        "dim. 1 juin 2014",
        "Dom 1/6/2014",
    ],
)
def test_the_day_of_the_week_before_a_date_is_passed_over(text: str) -> None:
    seconds, naive, faults = read_times([text, text.replace("1", "22", 1).replace("022", "22")])
    assert faults == []
    assert naive
    assert seconds[0] == int(datetime(2014, 6, 1, tzinfo=UTC).timestamp())


def test_I14_different_offsets_in_one_column_are_honoured() -> None:
    texts = ["2014-06-01T12:00Z", "2014-06-01T08:00-04:00", "2014-06-01T17:30+05:30"]
    assert read_times(texts) == ([int(NOON.timestamp())] * 3, False, [])


def test_I14_different_offsets_of_python_datetimes_are_honoured() -> None:
    times = [NOON.astimezone(timezone(timedelta(hours=h))) for h in (-4, 0, 13)]
    frame = pd.DataFrame({"ds": pd.Series(times, dtype=object)})
    seconds, naive = parse_times(load(frame)[0]["ds"], "ds", Faults("t"))
    assert (seconds.tolist(), naive) == ([NOON.timestamp()] * 3, False)


def test_I14_times_with_and_without_an_offset_do_not_mix() -> None:
    texts = ["2014-06-01T12:00", "2014-06-01T12:00", "2014-06-01T12:00Z", "2014-06-01T12:00"]
    _, _, faults = read_times(texts)
    counts = "3 times without an offset, 1 with one (row 3)"
    assert faults == [f"column 'ds': {counts}; give all times with an offset, or none"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_a_timestamp_of_any_unit_and_zone_is_an_instant(unit: str, zone: str | None) -> None:
    moments = [datetime(1969, 12, 31, 23, tzinfo=UTC), NOON]
    column = pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp(unit))
    column = column.view(pa.timestamp(unit, zone))
    seconds, naive, faults = read_times(column)
    assert (seconds, naive, faults) == ([-3600, NOON.timestamp()], zone is None, [])


@pytest.mark.parametrize(("unit", "ticks"), [("ms", 1), ("us", 1), ("ns", 1), ("ns", -1)])
def test_a_timestamp_off_the_whole_second_is_refused(unit: str, ticks: int) -> None:
    _, _, faults = read_times([0, ticks], pa.timestamp(unit, "UTC"))
    assert faults == ["column 'ds': 1 time with fractions of a second: row 2"]


def test_a_timestamp_of_seconds_does_not_wrap_around() -> None:
    far = 2**61
    assert read_times([far], pa.timestamp("s", "UTC"))[0] == [far]


def test_rows_without_a_time_are_named() -> None:
    for kind in (pa.string(), pa.timestamp("s")):
        column = pa.array([None, None], kind)
        _, _, faults = read_times(column)
        assert len(faults) == 1
        assert "2 rows without a time: row 1" in faults[0]


@pytest.mark.parametrize("values", [[12.5], [True], [timedelta(hours=1)], [b"a"]])
def test_a_column_that_is_no_time_is_refused(values: list[Any]) -> None:
    _, _, faults = read_times(values)
    assert "is not a time; give e.g. 2014-06-01T08:00-04:00" in faults[0]


OFFSETS = st.integers(-15 * 60, 15 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))


@given(st.lists(st.tuples(MOMENTS, OFFSETS), min_size=1))
def test_I14_every_offset_leads_to_the_same_instant_as_python(
    written: list[tuple[datetime, timezone]],
) -> None:
    moments = [moment.replace(microsecond=0, tzinfo=zone) for moment, zone in written]
    seconds, naive, faults = read_times([moment.isoformat() for moment in moments])
    assert (naive, faults) == (False, [])
    assert seconds == [int(moment.timestamp()) for moment in moments]


def days(*texts: str, dates: DateOrder | None = None) -> list[str]:
    """Return the ISO texts of a column of days; the first fault in place of them."""
    seconds, _, faults = read_times(list(texts), dates=dates)
    return faults or [str(np.datetime64(s, "s"))[:10] for s in seconds]


def test_the_whole_column_tells_days_from_months() -> None:
    assert days("05/06/2022", "31/12/2022") == ["2022-06-05", "2022-12-31"]
    assert days("05/06/2022", "12/31/2022") == ["2022-05-06", "2022-12-31"]
    assert days("5.6.2022", "1.7.22") == ["2022-06-05", "2022-07-01"]  # dots: nowhere else
    assert days("5-6-2022", "13-6-2022") == ["2022-06-05", "2022-06-13"]


def test_days_that_fit_both_orders_are_asked_for_by_the_option() -> None:
    (fault,) = days("05/06/2022", "07/08/2022")
    assert fault == (
        "column 'ds': 05/06/2022: may be a day or a month first; give dates=\"day-first\" or "
        'dates="month-first"'
    )
    assert days("05/06/2022", dates="day-first") == ["2022-06-05"]
    assert days("05/06/2022", dates="month-first") == ["2022-05-06"]
    assert "neither order fits all rows" in days("13/06/2022", "06/13/2022")[0]


def test_an_order_that_does_not_fit_names_the_rows() -> None:
    (fault,) = days("05/06/2022", "31/12/2022", dates="month-first")
    assert fault.startswith("column 'ds': 1 row without a time: row 2 (31/12/2022)")


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2022/12/31 13:05", "2022-12-31T13:05:00"),
        ("12/31/2022 1:05 PM", "2022-12-31T13:05:00"),
        ("12/31/2022 12:05:07 a.m.", "2022-12-31T00:05:07"),
        ("31.12.2022, 13:05", "2022-12-31T13:05:00"),
        ("31.12.2022 24:00", "2023-01-01T00:00:00"),
        ("31-Dec-2022 13:05:59", "2022-12-31T13:05:59"),
        ("31. Dezember 2022", "2022-12-31T00:00:00"),
        ("Dec 31, 2022", "2022-12-31T00:00:00"),
        ("20221231:1305", "2022-12-31T13:05:00"),
        ("20221231 13:05", "2022-12-31T13:05:00"),
        ("20221231", "2022-12-31T00:00:00"),
        ("2022-12", "2022-12-01T00:00:00"),
        ("12/2022", "2022-12-01T00:00:00"),
        ("202212", "2022-12-01T00:00:00"),
        ("2022M12", "2022-12-01T00:00:00"),
        ("Dez 2022", "2022-12-01T00:00:00"),
        ("Q4 2022", "2022-10-01T00:00:00"),
        ("2022-W52", "2022-12-26T00:00:00"),
        ("2022", "2022-01-01T00:00:00"),
    ],
)
def test_times_of_spreadsheets_and_portals_are_read(text: str, iso: str) -> None:
    seconds, naive, faults = read_times([text])
    assert (faults, naive) == ([], True)
    assert np.datetime64(seconds[0], "s") == np.datetime64(iso)


@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000, 1_000_000_000])
def test_seconds_and_fractions_since_1970_are_instants(per_second: int) -> None:
    moment = int(NOON.timestamp())
    assert read_times([moment * per_second] * 2) == ([moment] * 2, False, [])
    if per_second < 1_000_000:  # spreadsheets hold whole numbers as floats
        assert read_times([float(moment * per_second)]) == ([moment], False, [])


@pytest.mark.parametrize(("number", "iso"), [(20221231, "2022-12-31"), (2022, "2022-01-01")])
def test_whole_numbers_may_be_days_and_years(number: int, iso: str) -> None:
    assert days(str(number)) == [iso]
    assert np.datetime64(read_times([number])[0][0], "s") == np.datetime64(iso)


@given(st.lists(MOMENTS, min_size=1), st.sampled_from(["%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M"]))
def test_every_minute_is_read_as_python_writes_it(moments: list[datetime], form: str) -> None:
    moments = [m.replace(second=0, microsecond=0, tzinfo=UTC) for m in moments]
    seconds, naive, faults = read_times([m.strftime(form) for m in moments])
    assert (naive, faults) == (True, [])
    assert seconds == [int(m.timestamp()) for m in moments]


@given(st.lists(st.text(max_size=25), min_size=1))
def test_any_text_is_a_time_or_a_fault(texts: list[str]) -> None:
    seconds, _, faults = read_times(texts)
    assert len(seconds) == len(texts)
    assert isinstance(faults, list)


def test_a_month_with_two_digits_is_of_a_year_unless_the_month_lasts() -> None:
    assert days("Jan 15", "Feb 15", "ene-19", "Dez 21") == [
        "2015-01-01",
        "2015-02-01",
        "2019-01-01",
        "2021-12-01",
    ]
    faults = days("Jan 15", "Jan 16", "Jan 17", "Feb 01")
    assert "4 rows without a time" in faults[0]
