from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import DataError
from forecaster.panel.axis import VALUES, check_axis
from forecaster.panel.tables.readers import read_locations, read_long, read_wide, sort_ids

STEPS, PLACES = 7, 3
TIMES = pd.date_range("2014-06-01", periods=STEPS, freq="h", tz="UTC")


def long_table() -> pd.DataFrame:
    """Return 7 hours of 3 places, y counting up row by row."""
    ids = [f"p{n}" for n in range(PLACES)]
    rows = [(identity, time) for time in TIMES for identity in ids]
    frame = pd.DataFrame(rows, columns=["unique_id", "ds"])
    return frame.assign(y=np.arange(float(len(frame))))


def wide_table() -> pd.DataFrame:
    values = np.arange(float(STEPS * PLACES)).reshape(STEPS, PLACES)
    frame = pd.DataFrame(values, columns=[f"p{n}" for n in range(PLACES)])
    return frame.assign(time=TIMES)


# ------------------------------------------------------------------------------ long tables


def test_a_long_table_becomes_one_row_per_time_and_one_column_per_id() -> None:
    rows = read_long(long_table(), "count")
    expected = np.arange(STEPS * PLACES).reshape(STEPS, PLACES)
    np.testing.assert_array_equal(rows.layers[VALUES], expected)
    assert (rows.ids, rows.naive) == (("p0", "p1", "p2"), False)
    assert (np.diff(rows.seconds) == 3600).all()


def test_a_pair_of_id_and_time_without_a_row_is_missing() -> None:
    rows = read_long(long_table().drop(index=[4, 11]), "count")
    assert np.argwhere(np.isnan(rows.layers[VALUES])).tolist() == [[1, 1], [3, 2]]


def test_further_columns_of_a_long_table_are_layers() -> None:
    frame = long_table().assign(rain=lambda f: f["y"] / 7, wind=-1)
    rows = read_long(frame, "count")
    assert set(rows.layers) == {VALUES, "rain", "wind"}
    np.testing.assert_array_equal(rows.layers["rain"], rows.layers[VALUES] / np.float32(7))


def test_without_a_kind_a_long_table_needs_no_y() -> None:
    frame = long_table().rename(columns={"y": "rain"})
    assert set(read_long(frame, None).layers) == {"rain"}
    with pytest.raises(DataError, match="no column 'y'; found: unique_id, ds, rain"):
        read_long(frame, "count")


def test_doubled_rows_of_a_long_table_are_counted_and_named() -> None:
    frame = long_table()
    frame = pd.concat([frame, frame.iloc[[4, 2, 4]]])
    with pytest.raises(DataError) as caught:
        read_long(frame, "count")
    text = str(caught.value)
    assert "table: 3 duplicate rows of an id and time: row 22 (p1, 2014-06-01 01:00:00" in text
    assert "row 23 (p2, 2014-06-01 00:00:00" in text


def test_I2_the_repeated_hour_written_twice_without_an_offset_is_refused() -> None:
    times = ["2015-11-01T00:00", "2015-11-01T01:00", "2015-11-01T01:00", "2015-11-01T02:00"]
    frame = pd.DataFrame({"unique_id": "a", "ds": times, "y": 1.0})
    with pytest.raises(DataError, match=r"1 duplicate row .*: row 3 \(a, 2015-11-01T01:00\)"):
        read_long(frame, "count")


def test_all_faults_of_a_long_table_are_named_at_once() -> None:
    frame = pd.DataFrame(
        {
            "unique_id": ["a", None, "c"],
            "ds": ["2014-06-01T00:00Z", "25:61", "2014-06-01T01:00"],
            "y": [1.0, -1.0, np.inf],
            "rain": ["1", "2", "much"],
        }
    )
    with pytest.raises(DataError) as caught:
        read_long(frame, "count")
    text = str(caught.value)
    assert "table: 6 faults" in text
    assert "1 row without an id: row 2" in text
    assert "1 row without a time: row 2 (25:61)" in text
    assert "1 time without an offset, 1 with one (row 1)" in text
    assert "1 value infinite: row 3 (inf)" in text
    assert "1 value below 0, impossible for a count: row 2 (-1)" in text
    assert "column 'rain': 1 value not a number: row 3 ('much')" in text


def test_only_the_counted_column_must_not_be_negative() -> None:
    frame = long_table().assign(temperature=-5.0)
    assert read_long(frame, "count").layers["temperature"].max() == -5
    assert read_long(frame.assign(y=-1.0), "measurement").layers[VALUES].max() == -1


@given(st.permutations(range(STEPS * PLACES)))
def test_the_order_of_a_long_tables_rows_means_nothing(order: list[int]) -> None:
    rows = read_long(long_table().iloc[order], "count")
    expected = np.arange(STEPS * PLACES).reshape(STEPS, PLACES)
    np.testing.assert_array_equal(rows.layers[VALUES], expected)
    assert rows.ids == ("p0", "p1", "p2")


EDITS: dict[str, Callable[[pd.DataFrame, int], pd.DataFrame]] = {
    "drop a time": lambda frame, at: frame[frame["ds"] != TIMES[at]],
    "double a row": lambda frame, at: pd.concat([frame, frame.iloc[[at]]]),
    "shift a time": lambda frame, at: frame.replace({"ds": {TIMES[at]: _late(at, "7min")}}),
    "shift a row": lambda frame, at: frame.assign(
        ds=frame["ds"].where(frame.index != at, TIMES[at // PLACES] + pd.Timedelta("1s"))
    ),
    "move a time to a year of its own": lambda frame, at: frame.replace(
        {"ds": {TIMES[at]: _late(at, "366D")}}
    ),
}


def _late(at: int, by: str) -> pd.Timestamp:
    return TIMES[at] + pd.Timedelta(by)


@pytest.mark.parametrize("edit", EDITS)
@given(st.integers(1, STEPS - 2), st.randoms(use_true_random=False))
def test_S5_any_edit_of_a_tables_times_is_refused(edit: str, at: int, random: Any) -> None:
    frame = EDITS[edit](long_table(), at)
    order = random.sample(range(len(frame)), len(frame))
    with pytest.raises(DataError, match=r"missing|duplicate|off the step"):
        check_axis(read_long(frame.iloc[order], "count").seconds, Clock("UTC", 60), "axis")


# ------------------------------------------------------------------------------ wide tables


def test_a_wide_table_becomes_one_row_per_time_and_one_column_per_id() -> None:
    rows = read_wide(wide_table().iloc[::-1], "count", "time")
    expected = np.arange(STEPS * PLACES).reshape(STEPS, PLACES)
    np.testing.assert_array_equal(rows.layers[VALUES], expected)
    assert rows.ids == ("p0", "p1", "p2")


def test_the_time_column_of_a_wide_table_may_have_any_name() -> None:
    frame = wide_table().rename(columns={"time": "Hour beginning"})
    assert len(read_wide(frame, "count", "Hour beginning").seconds) == STEPS
    with pytest.raises(DataError, match="no column 'time'; found: p0, p1, p2, Hour beginning"):
        read_wide(frame, "count", "time")


@given(st.permutations(["p0", "p1", "p2", "time"]))
def test_the_order_of_a_wide_tables_columns_means_nothing(order: list[str]) -> None:
    rows = read_wide(wide_table()[order], "count", "time")
    assert rows.ids == ("p0", "p1", "p2")
    expected = np.arange(STEPS * PLACES).reshape(STEPS, PLACES)
    np.testing.assert_array_equal(rows.layers[VALUES], expected)


def test_S5_doubled_rows_of_a_wide_table_are_counted_and_named() -> None:
    frame = pd.concat([wide_table(), wide_table().iloc[[3, 1]]])
    with pytest.raises(DataError, match=r"2 duplicate rows of one time: row 8 \(2014-06-01 03:0"):
        read_wide(frame, "count", "time")


def test_I20_a_negative_count_in_a_wide_table_is_refused() -> None:
    frame = wide_table().assign(p1=[0, 1, -1, 0, 0, 0, 0])
    with pytest.raises(DataError, match=r"column 'p1': 1 value below 0, .*: row 3 \(-1\)"):
        read_wide(frame, "count", "time")
    assert read_wide(frame, "measurement", "time").layers[VALUES].min() == -1


def test_a_wide_table_without_places_has_no_columns() -> None:
    assert read_wide(wide_table()[["time"]], "count", "time").layers[VALUES].shape == (STEPS, 0)


# -------------------------------------------------------------------------- location tables


def test_a_location_table_may_hold_nothing_but_ids() -> None:
    places = read_locations(pd.DataFrame({"id": ["b", "a"]}))
    assert (places.ids, places.names) == (("b", "a"), ("b", "a"))
    assert not places.placed.any()


def test_a_location_table_keeps_its_order_and_its_digits() -> None:
    frame = pd.DataFrame(
        {
            "unique_id": [7, 30, 5],
            "name": ["Seventh", None, "Fifth"],
            "lat": [40.760123456789, None, -90.0],
            "lon": [-73.98, None, 180.0],
        }
    )
    places = read_locations(frame)
    assert places.ids == ("7", "30", "5")
    assert places.names == ("Seventh", "30", "Fifth")
    assert places.lat[0] == 40.760123456789  # more than a float32 holds
    assert places.placed.tolist() == [True, False, True]


def test_a_csv_of_locations_keeps_ids_such_as_007(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("id,lat,lon,opened\n007,40.7,-74,1904\n7,,,\n")
    places = read_locations(tmp_path / "places.csv")
    assert places.ids == ("007", "7")
    assert places.extra == {"opened": (1904, None)}


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (pa.array([1, None], pa.uint8()), (1, None)),
        (pa.array([0.5, None], pa.float32()), (0.5, None)),
        (pa.array([True, None]), (True, None)),
        (pa.array(["a", None], pa.large_string()), ("a", None)),
        (pa.array([None, None]), (None, None)),
        (pa.array(["a", "a"]).dictionary_encode(), ("a", "a")),
        (pa.array([0, None], pa.date32()), ("1970-01-01", None)),
    ],
)
def test_a_further_column_of_locations_is_kept_as_a_plain_type(
    values: pa.Array, kept: tuple[Any, ...]
) -> None:
    table = pa.table({"id": ["a", "b"], "more": values})
    assert read_locations(table).extra == {"more": kept}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1]], "list<item: int64> cannot be stored; drop it or convert it to text"),
        ([{"a": 1}], "struct<a: int64> cannot be stored"),
        (pa.array([2**63], pa.uint64()), "uint64 cannot be stored"),
        ([float("nan")], "1 value NaN"),
        ([float("inf")], "1 value infinite"),
    ],
)
def test_a_further_column_that_cannot_be_kept_is_refused(values: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"column 'more': {message}"):
        read_locations(pa.table({"id": ["a"], "more": values}))


def test_I23_doubled_ids_of_a_location_table_are_refused() -> None:
    with pytest.raises(DataError, match="1 location id given twice: a"):
        read_locations(pd.DataFrame({"id": ["a", "b", "a"]}))


def test_a_location_table_without_ids_is_refused() -> None:
    with pytest.raises(DataError, match="no column 'id'; found: name"):
        read_locations(pd.DataFrame({"name": ["a"]}))


# -------------------------------------------------------------------------------------- ids


def test_ids_that_are_numbers_are_sorted_as_numbers() -> None:
    assert sort_ids(["10", "9", "010", "2"]) == ["2", "9", "010", "10"]


def test_other_ids_are_sorted_as_texts() -> None:
    assert sort_ids(["10", "9", "a"]) == ["10", "9", "a"]
    assert sort_ids(["²", "1"]) == ["1", "²"]  # a digit, and not a number


@given(st.lists(st.text(st.sampled_from("0123a²"), min_size=1), unique=True), st.randoms())
def test_the_order_of_ids_does_not_depend_on_the_rows(ids: list[str], random: Any) -> None:
    assert sort_ids(random.sample(ids, len(ids))) == sort_ids(ids)
