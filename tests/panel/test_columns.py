import gzip
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import DataError, Faults
from forecaster.panel.columns import encode_ids, load, need_columns, numbers, parse_times


def chunked(values: Any, kind: pa.DataType | None = None) -> pa.ChunkedArray:
    """Return a column whose chunks are cut where no one expects it."""
    whole = pa.array(values, kind)
    return pa.chunked_array([whole[:1], whole[1:]], whole.type)


def read_numbers(
    values: Any, kind: pa.DataType | None = None, minimum: float | None = None
) -> tuple[list[float], list[str]]:
    faults = Faults("table")
    return numbers(chunked(values, kind), "y", faults, minimum).tolist(), faults.messages


def read_times(values: Any, kind: pa.DataType | None = None) -> tuple[list[int], bool, list[str]]:
    faults = Faults("table")
    seconds, naive = parse_times(chunked(values, kind), "ds", faults)
    return seconds.tolist(), naive, faults.messages


# ------------------------------------------------------------------------------------ load


def test_a_csv_keeps_ids_and_times_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("unique_id,ds,y\n007,2014-06-01T08:00-04:00,1\n1e3,2014-06-01,\n")
    table, name = load(path)
    assert table["unique_id"].to_pylist() == ["007", "1e3"]
    assert table["ds"].to_pylist() == ["2014-06-01T08:00-04:00", "2014-06-01"]
    assert table["y"].to_pylist() == [1, None]
    assert name == str(path)


def test_a_csv_may_be_compressed_and_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    content = "\ufeffunique_id,ds,y\r\n007,2014-06-01,1\r\n".encode()
    (tmp_path / "long.csv.gz").write_bytes(gzip.compress(content))
    table, _ = load(str(tmp_path / "long.csv.gz"))
    assert table.to_pylist() == [{"unique_id": "007", "ds": "2014-06-01", "y": 1}]


def test_the_words_for_nothing_in_a_csv_are_null(tmp_path: Path) -> None:
    words = ["", "NA", "N/A", "NULL", "null", "None"]
    (tmp_path / "long.csv").write_text("unique_id,y\n" + "".join(f"a,{w}\n" for w in [*words, 0]))
    table, _ = load(tmp_path / "long.csv")
    assert table["y"].to_pylist() == [None] * 6 + [0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.parquet", b"PAR1 and nothing more", "cannot be read as a table"),
        ("a.csv", b"", "cannot be read as a table"),
        ("a.csv", b"unique_id,ds\na,b,c\n", "cannot be read as a table"),
        ("a.csv", b"unique_id,ds\n\xff\xfe,b\n", "cannot be read as a table"),
        ("a.csv.gz", b"not compressed", "cannot be read as a table"),
        ("a.xlsx", b"PK", r"\.xlsx; give a \.csv, \.csv\.gz or \.parquet file"),
        ("a", b"", "no suffix; give a"),
    ],
)
def test_a_file_that_is_no_table_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(tmp_path / name)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("number", ["5", "5,25"])  # a comma may be that of a fraction
def test_a_table_without_commas_is_told_what_separates_it(
    tmp_path: Path, mark: str, number: str
) -> None:
    row = mark.join(["a", "2015-01-01", number])
    (tmp_path / "a.csv").write_text(mark.join(["unique_id", "ds", "y"]) + f"\n{row}\n")
    with pytest.raises(DataError) as caught:
        load(tmp_path / "a.csv")
    assert f"separated by {mark!r}; save the table with commas" in str(caught.value)


def test_a_parquet_file_cut_short_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": list(range(997))}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for part in range(7):
        (tmp_path / "a.parquet").write_bytes(whole[: len(whole) * part // 7])
        with pytest.raises(DataError, match="cannot be read as a table"):
            load(tmp_path / "a.parquet")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "a.csv", tmp_path):
        with pytest.raises(DataError, match="no such file; give a"):
            load(path)


def test_named_levels_of_a_pandas_index_become_columns() -> None:
    frame = pd.DataFrame({"unique_id": ["a", "b"], "ds": ["2014-06-01"] * 2, "y": [1, 2]})
    table, _ = load(frame.set_index(["unique_id", "ds"]))
    assert table.to_pydict() == frame.to_dict("list")


def test_a_pandas_index_without_a_name_is_left_out() -> None:
    table, _ = load(pd.DataFrame({"y": [1, 2]}, index=[5, 3]))
    assert table.column_names == ["y"]


def test_pandas_columns_named_by_numbers_become_texts() -> None:
    table, _ = load(pd.DataFrame({7: pd.Series([1, None], dtype=object), "ds": ["a", "b"]}))
    assert table.to_pydict() == {"7": ["1", None], "ds": ["a", "b"]}


def test_pandas_columns_given_twice_are_refused() -> None:
    with pytest.raises(DataError, match="table: columns given twice: ds, y"):
        load(pd.DataFrame([[1, 2, 3, 4]], columns=["y", "y", "ds", "ds"]))
    with pytest.raises(DataError, match="columns given twice: 1"):
        load(pd.DataFrame([[1, 2]], columns=[1, "1"]))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"ds": ["a"]}, index=pd.Index(["a"], name="ds")),
        pd.DataFrame({"y": [1j]}),
    ],
)
def test_a_frame_that_is_no_plain_table_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="columns must be numbers, texts or times"):
        load(frame)


def test_a_pandas_frame_is_not_changed_by_reading_it() -> None:
    frame = pd.DataFrame(
        {1: pd.Series(["x", np.nan], dtype=object), "y": [1.5, np.nan]},
        index=pd.Index([3, 2], name="row"),
    )
    before = frame.copy(deep=True)
    load(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_missing_columns_are_named_beside_those_found() -> None:
    table = pa.table({"id": ["a"], "when": ["b"]})
    with pytest.raises(DataError, match="t: no column 'unique_id', 'ds'; found: id, when"):
        need_columns(table, ("unique_id", "ds", "id"), "t")


def test_arrow_columns_given_twice_are_refused() -> None:
    table = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    with pytest.raises(DataError, match="t: columns given twice: a"):
        need_columns(table, ("a",), "t")


# ------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    "column",
    [
        chunked(["b", "a", "b"]),
        chunked(["b", "a", "b"], pa.large_string()),
        chunked(pd.Categorical(["b", "a", "b"])),
    ],
)
def test_ids_come_in_the_order_of_their_first_row(column: pa.ChunkedArray) -> None:
    codes, ids = encode_ids(column, Faults("t"))
    assert (codes.tolist(), ids) == ([0, 1, 0], ["b", "a"])


def test_whole_numbers_are_ids() -> None:
    codes, ids = encode_ids(chunked([30, 4, 30], pa.int16()), Faults("t"))
    assert (codes.tolist(), ids) == ([0, 1, 0], ["30", "4"])


def test_rows_without_an_id_are_named() -> None:
    faults = Faults("t")
    encode_ids(chunked(["a", None, "b", None]), faults)
    assert faults.messages == ["2 rows without an id: row 2, row 4"]


@pytest.mark.parametrize("values", [[1.0], [True], [b"a"], [["a"]], [datetime(2014, 1, 1)]])
def test_ids_of_another_type_are_refused(values: list[Any]) -> None:
    faults = Faults("t")
    encode_ids(chunked(values), faults)
    assert "give text or integers" in faults.messages[0]


# --------------------------------------------------------------------------------- numbers


def test_S6_null_is_missing_and_zero_is_not() -> None:
    values, faults = read_numbers([0.0, None, -0.0])
    np.testing.assert_array_equal(values, [0.0, np.nan, 0.0])
    assert np.signbit(values).tolist() == [False, False, True]
    assert faults == []


def test_S6_a_nan_that_is_not_null_is_refused() -> None:
    for kind in (pa.float32(), pa.float64()):
        _, faults = read_numbers([1.0, float("nan"), None, float("nan")], kind)
        assert faults == [
            "column 'y': 2 values NaN (missing must be null): row 2 (nan), row 4 (nan)"
        ]


def test_S6_the_nan_of_a_plain_pandas_column_is_its_null() -> None:
    for dtype in (np.float32, np.float64):
        frame = pd.DataFrame({"y": np.array([1.0, np.nan], dtype=dtype)})
        faults = Faults("t")
        np.testing.assert_array_equal(numbers(load(frame)[0]["y"], "y", faults), [1.0, np.nan])
        assert faults.messages == []


def test_S6_the_nan_of_an_arrow_backed_pandas_column_is_refused() -> None:
    dtype = pd.ArrowDtype(pa.float64())
    column = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([1.0, float("nan")])), dtype=dtype)
    faults = Faults("t")
    numbers(load(pd.DataFrame({"y": column}))[0]["y"], "y", faults)
    assert "1 value NaN" in faults.messages[0]


def test_S6_the_word_nan_in_a_csv_is_not_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y\n1\nnan\n")
    faults = Faults("t")
    numbers(load(tmp_path / "a.csv")[0]["y"], "y", faults)
    assert "1 value NaN" in faults.messages[0]


def test_infinite_values_are_refused_everywhere() -> None:
    frame = pd.DataFrame({"y": [1.0, np.inf, -np.inf]})
    faults = Faults("t")
    numbers(load(frame)[0]["y"], "y", faults)
    assert faults.messages == ["column 'y': 2 values infinite: row 2 (inf), row 3 (-inf)"]
    assert "1 value infinite: row 2 (inf)" in read_numbers(["1", "1e999"])[1][0]


def test_I20_a_negative_count_is_named_by_its_row() -> None:
    _, faults = read_numbers([3, -1, 0, -2], minimum=0.0)
    rows = "row 2 (-1), row 4 (-2)"
    (fault,) = faults
    assert fault.startswith(f"column 'y': 2 values below 0, impossible for a count: {rows}; ")
    assert "--kind measurement" in fault
    assert read_numbers([3, -1])[1] == []


@pytest.mark.parametrize(
    ("largest", "kind"),
    [(255, pa.uint8()), (32767, pa.int16()), (65535, pa.uint16()), (2**31 - 1, pa.int32())],
)
def test_I20_the_largest_value_of_a_narrow_column_survives(
    largest: int, kind: pa.DataType
) -> None:
    assert read_numbers([largest, 1], kind) == ([np.float32(largest), 1.0], [])


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, 2**64 - 1])
def test_I20_a_whole_number_beyond_a_double_is_read_to_the_nearest(value: int) -> None:
    values, faults = read_numbers([value, 0], pa.uint64())
    assert (values[0], faults) == (np.float32(value), [])


def test_a_number_beyond_float32_is_refused() -> None:
    assert read_numbers([float(np.finfo(np.float32).max), 0.0])[1] == []
    assert "1 value too large: row 1 (3.5e+38)" in read_numbers([3.5e38, 0.0])[1][0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", " 2.5 ", None], [1.0, 2.5, np.nan]),
        ([Decimal("1.5"), None], [1.5, np.nan]),
        ([None, None], [np.nan, np.nan]),
    ],
)
def test_numbers_written_in_other_ways_are_read(values: list[Any], expected: list[float]) -> None:
    found, faults = read_numbers(values)
    np.testing.assert_array_equal(found, expected)
    assert faults == []


def test_texts_that_are_no_numbers_are_named() -> None:
    _, faults = read_numbers(["1", "one", "0x10", "1_000", "nan"])
    rows = "row 2 ('one'), row 3 ('0x10'), row 4 ('1_000'), row 5 ('nan')"
    assert faults == [f"column 'y': 4 values not a number: {rows}"]


@pytest.mark.parametrize(
    "values", [[True], [b"1"], [[1.0]], [{"a": 1}], [date(2014, 1, 1)], pd.Categorical([1])]
)
def test_columns_of_another_type_are_refused(values: Any) -> None:
    _, faults = read_numbers(values)
    assert "instead of numbers; drop or convert it" in faults[0]


@given(st.lists(st.none() | st.floats() | st.integers(-9, 9).map(float), min_size=1))
def test_every_number_is_kept_or_refused(values: list[float | None]) -> None:
    found, faults = read_numbers(values, pa.float64(), minimum=0.0)
    largest = float(np.finfo(np.float32).max)
    fine = [v is None or 0.0 <= v <= largest for v in values]
    assert all(fine) == (not faults)
    if not faults:
        expected = np.array([np.nan if v is None else v for v in values], dtype=np.float32)
        np.testing.assert_array_equal(found, expected)


# ----------------------------------------------------------------------------------- times

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
    "2014-06-01T12:00-04": REFUSED,
    "2014-06-01T12:00 -04:00": REFUSED,
    "2014-06-01T12:00 UTC": REFUSED,
    "2014-06-01T12:00 EST": REFUSED,
    "2014-06-01T12:00[America/New_York]": REFUSED,
    "2014-06-01T12:00z": REFUSED,
    "2014-06-01t12:00": REFUSED,
    "2014-06-01T12": REFUSED,
    "2014-06-01T24:00": REFUSED,
    "2014-06-01T12:60": REFUSED,
    "2014-06-01T12:00:60": REFUSED,
    "2014-06-01T12:00:00.5": REFUSED,
    "2014-06-01 12:00 PM": REFUSED,
    "2014-06-31T12:00": REFUSED,
    "2014-02-29T12:00": REFUSED,
    "2016-13-01": REFUSED,
    "2014-6-1 12:00": REFUSED,
    "14-06-01 12:00": REFUSED,
    "06/01/2014 12:00": REFUSED,
    "01.06.2014 12:00": REFUSED,
    "1 June 2014 12:00": REFUSED,
    "20140601T120000Z": REFUSED,
    "2014-W22-7T12:00": REFUSED,
    "2014-152T12:00": REFUSED,
    "1401624000": REFUSED,
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


@pytest.mark.parametrize("values", [[1401624000], [12.5], [True], [timedelta(hours=1)], [b"a"]])
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
