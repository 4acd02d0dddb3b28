from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import DataError, Faults, naming_options
from forecaster.panel.tables.columns import encode_ids, need_columns, numbers
from forecaster.reading.load import load
from forecaster.reading.times import parse_times


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


def test_S6_the_word_nan_in_a_csv_is_a_missing_value(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y\n1\nnan\n0\n")
    faults = Faults("t")
    values = numbers(load(tmp_path / "a.csv")[0]["y"], "y", faults)
    np.testing.assert_array_equal(values, [1.0, np.nan, 0.0])
    assert faults.messages == []


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
    assert fault.endswith('for measurements give kind="measurement"')
    with naming_options():
        assert read_numbers([-1], minimum=0.0)[1][0].endswith("give --kind measurement")
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
    remedy = 'if they stand for missing give missing="one"'
    assert faults == [f"column 'y': 4 values not a number: {rows}; {remedy}"]


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
