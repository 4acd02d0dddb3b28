"""What the plan makes of single rows, on DuckDB; Spark's agreement is tested with whole panels."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import DataError
from forecaster.ingest.demand.engine import open_engine, stored_columns
from forecaster.ingest.demand.plan import BoundingBox, HourGrid, HourRules, classify, reason_of
from forecaster.ingest.demand.schemas import Schema
from forecaster.ingest.files import InputFile, TimeSpan, parse_span

SCHEMA = Schema("test", "t", lat="y", lon="x")
NEW_YORK = BoundingBox(40.4, -74.3, 41.0, -73.6)
SPAN = parse_span("2015-03-01:2015-11-30")


def hours(
    zone: str = "America/New_York", keep: bool = False, demand: tuple[TimeSpan, ...] = ()
) -> HourRules:
    return HourRules(HourGrid.of(zone, SPAN.first), SPAN, demand, keep, keep)


def judge(
    folder: Path,
    rows: list[tuple[object, object, object]],
    types: tuple[pa.DataType, ...] = (pa.string(), pa.float64(), pa.float64()),
    rules: HourRules | None = None,
) -> list[dict[str, object]]:
    """Return the classified rows, in the order of the file."""
    columns = [
        pa.array(list(c), kind) for c, kind in zip(zip(*rows, strict=True), types, strict=True)
    ]
    path = folder / "rows.parquet"
    pq.write_table(pa.table(columns, names=["t", "y", "x"]), path)
    item = InputFile(path, "", SPAN)
    with open_engine("duckdb", threads=1).scan(item) as scan:
        table = classify(scan.table, SCHEMA, stored_columns(item), NEW_YORK, rules or hours())
        return scan.run(table).to_pylist()


def verdicts(folder: Path, times: list[str | None]) -> list[str]:
    rows = judge(folder, [(time, 40.7, -73.9) for time in times])
    return ["counted" if row["code"] == 0 else reason_of(int(str(row["code"]))) for row in rows]


GOOD = {
    "2015-06-01 08:00:00": "2015-06-01T08",
    "2015-06-01T08:59:59": "2015-06-01T08",
    "2015-06-01 08:00": "2015-06-01T08",
    "2015-06-01 08:00:00.123456": "2015-06-01T08",
    "6/1/2015 8:05:00": "2015-06-01T08",
    "06/01/2015 08:05": "2015-06-01T08",
    "12/31/2014 23:59:00": "2014-12-31T23",
}
BAD = (
    "", "yesterday", "2015-13-01 08:00:00", "2015-02-30 08:00:00", "2015-06-01 25:00:00",
    "2015-06-01 08:61:00", "2015-06-01", "08:00:00", "1/6/2015 8:05:00 PM", "13/13/2015 8:05",
    "2015/06/01 08:00:00", "20150601 080000", "2015-6-1 8:00:00", " 2015-06-01 08:00:00",
    "2015-06-01 08:00:00 EST", "1433145600", "NaN", "null", "2015-06-01 08:00:00+5",
    "2015-06-01 8:00:00", "2015-06-01 08.00.00", "01.06.2015 08:00", "2015-06-01T08",
    "2015-06-01 08:00:00;", "２０１５-06-01 08:00:00", "2015-06-01  08:00:00",
    "2015-06-31 08:00:00", "June 1 2015 08:00", "2015-W23-1 08:00:00", "2/30/2015 8:00",
    "6/1/15 8:05:00", "2015-06-01 24:00:01", "0000-00-00 00:00:00",
)  # fmt: skip


@pytest.mark.parametrize(("text", "hour"), sorted(GOOD.items()))
def test_I13_a_time_in_an_explicit_format_is_read(tmp_path: Path, text: str, hour: str) -> None:
    (row,) = judge(tmp_path, [(text, 40.7, -73.9)])
    expected = np.datetime64(hour, "h").astype(int)
    assert (row["hour"], row["aware"]) == (expected, False)


def test_I13_anything_else_is_a_bad_timestamp(tmp_path: Path) -> None:
    assert verdicts(tmp_path, [*BAD, None]) == ["bad_timestamp"] * (len(BAD) + 1)
    assert len(GOOD) + len(BAD) >= 40


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2015-06-01T08:00:00Z", "2015-06-01T08"),
        ("2015-06-01 08:00:00-04:00", "2015-06-01T12"),
        ("2015-06-01 08:00-0400", "2015-06-01T12"),
        ("2015-06-01 08:00:00+05:30", "2015-06-01T02"),
        ("2015-06-01 08:00:00.5-03:30", "2015-06-01T11"),
        ("2015-06-01 08:00:00-00:30", "2015-06-01T08"),
    ],
)
def test_I14_an_offset_is_honoured(tmp_path: Path, text: str, hour: str) -> None:
    aware, naive = judge(tmp_path, [(text, 40.7, -73.9), ("2015-06-01 08:00:00", 40.7, -73.9)])
    assert (aware["hour"], aware["aware"]) == (np.datetime64(hour, "h").astype(int), True)
    assert naive["aware"] is False


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_I14_stored_times_are_naive_or_aware_by_their_type(
    tmp_path: Path, zone: str | None
) -> None:
    stamp = np.datetime64("2015-06-01T12:30", "us").astype(object)
    kinds = (pa.timestamp("us", zone), pa.float64(), pa.float64())
    (row,) = judge(tmp_path, [(stamp, 40.7, -73.9)], kinds)
    assert row["aware"] is (zone is not None)
    assert row["hour"] == np.datetime64("2015-06-01T12", "h").astype(int)


def test_a_time_column_of_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the time column is int64"):
        judge(tmp_path, [(1, 40.7, -73.9)], (pa.int64(), pa.float64(), pa.float64()))


def test_I9_wild_coordinates_are_rejected_by_reason(tmp_path: Path) -> None:
    cases = {
        (0.0, 0.0): "out_of_area", (-73.9, 40.7): "out_of_area", (42.36, -71.06): "out_of_area",
        (np.nan, -73.9): "non_finite", (40.7, np.inf): "non_finite", (-np.inf, 1.0): "non_finite",
        (1e308, -1e308): "out_of_area", (None, -73.9): "non_finite", (40.7, -73.9): "counted",
    }  # fmt: skip
    rows = judge(tmp_path, [("2015-06-01 08:00:00", *place) for place in cases])
    found = ["counted" if r["code"] == 0 else reason_of(int(str(r["code"]))) for r in rows]
    assert found == list(cases.values())
    assert str(rows[1]["text"]).startswith("swapped? ")
    assert not str(rows[0]["text"]).startswith("swapped? ")


@settings(max_examples=5)  # each of them a file of many rows
@given(places=st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=300))
def test_I9_a_row_is_counted_only_inside_the_area(
    tmp_path_factory: pytest.TempPathFactory, places: list[tuple[float, float]]
) -> None:
    near = [(40.4 + 0.6 * (n % 7) / 6, -74.3 + 0.7 * (n % 5) / 4) for n in range(len(places))]
    mixed = [
        *places,
        *near,
        *((lat, lon) for (lat, _), (_, lon) in zip(places, near, strict=True)),
    ]
    rows = judge(tmp_path_factory.mktemp("wild"), [("2015-06-01 08:00:00", *p) for p in mixed])
    for (lat, lon), row in zip(mixed, rows, strict=True):
        inside = 40.4 <= lat <= 41.0 and -74.3 <= lon <= -73.6
        assert (row["code"] == 0) == inside
        if inside:
            assert (row["a"], row["b"]) == (round(lat * 1e4), round(lon * 1e4))


def test_cells_are_rounded_not_cut(tmp_path: Path) -> None:
    (row,) = judge(tmp_path, [("2015-06-01 08:00:00", 40.74996, -73.98004)])
    assert (row["a"], row["b"]) == (407_500, -739_800)


def test_I11_times_outside_the_file_are_rejected(tmp_path: Path) -> None:
    times = ["2001-01-01 00:00:00", "2015-02-28 23:59:59", "2015-03-01 00:00:00",
             "2015-11-30 23:59:59", "2015-12-01 00:00:00", "2088-01-01 00:00:00"]  # fmt: skip
    wrong = "time_outside_file"
    assert verdicts(tmp_path, list(times)) == [wrong, wrong, "counted", "counted", wrong, wrong]


def test_I11_the_border_of_aware_times_is_local_too(tmp_path: Path) -> None:
    times = ["2015-03-01T04:59:59Z", "2015-03-01T05:00:00Z", "2015-12-01T04:59:59Z",
             "2015-12-01T05:00:00Z"]  # fmt: skip
    wrong = "time_outside_file"
    assert verdicts(tmp_path, list(times)) == [wrong, "counted", "counted", wrong]


def test_clock_changes_are_judged_on_naive_times_only(tmp_path: Path) -> None:
    times = ["2015-11-01 01:30:00", "2015-11-01T01:30:00-04:00", "2015-11-01 02:00:00",
             "2015-03-08 02:30:00", "2015-03-08 03:00:00", "2015-03-08T07:30:00Z"]  # fmt: skip
    twice, never = "ambiguous_local_time", "nonexistent_local_time"
    found = verdicts(tmp_path, list(times))
    assert found == [twice, "counted", "counted", never, "counted", "counted"]
    kept = judge(tmp_path, [(t, 40.7, -73.9) for t in times], rules=hours(keep=True))
    assert [row["code"] for row in kept] == [0] * 6


def test_rides_are_chosen_within_the_demand_hours(tmp_path: Path) -> None:
    rules = hours(demand=(parse_span("2015-06-01:2015-06-01"),))
    times = [
        "2015-05-31 23:59:59",
        "2015-06-01 00:00:00",
        "2015-06-01 23:59:59",
        "2015-06-02 00:00:00",
    ]
    rows = judge(tmp_path, [(t, 40.7, -73.9) for t in times], rules=rules)
    assert [row["chosen"] for row in rows] == [0, 1, 1, 0]


def test_in_a_half_hour_zone_hours_begin_when_the_wall_clock_says(tmp_path: Path) -> None:
    rules = hours(zone="Asia/Kolkata")
    assert rules.grid.phase == 1800
    rows = judge(
        tmp_path,
        [("2015-06-01 08:59:59", 40.7, -73.9), ("2015-06-01T03:29:59Z", 40.7, -73.9)],
        rules=rules,
    )
    local = np.datetime64(int(str(rows[0]["hour"])) * 3600, "s")
    assert str(local) == "2015-06-01T08:00:00"
    assert str(rules.grid.instants(np.array([rows[1]["hour"]]))[0]) == "2015-06-01T02:30:00"
