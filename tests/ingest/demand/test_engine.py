import gzip
import inspect
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.ingest.demand.engine import open_engine, stored_columns
from forecaster.ingest.files import InputFile, parse_span

SPAN = parse_span("2015-01-01:2015-01-31")


def put(folder: Path, content: bytes, name: str = "a.csv") -> InputFile:
    path = folder / name
    path.write_bytes(content)
    return InputFile(path, "", SPAN)


def rows_of(item: InputFile) -> tuple[list[dict[str, object]], int]:
    with open_engine("duckdb", threads=1).scan(item) as scan:
        return scan.run(scan.table).to_pylist(), scan.malformed().rows


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown engine 'sqlite'; choose duckdb or spark"):
        inspect.unwrap(open_engine)("sqlite")


def test_columns_of_text_files_are_text_and_their_names_stripped(tmp_path: Path) -> None:
    rows, malformed = rows_of(put(tmp_path, b"a, b \n007,1.50\n"))
    assert (rows, malformed) == ([{"a": "007", "b": "1.50"}], 0)


def test_a_packed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    packed = put(tmp_path, gzip.compress(b"a,b\n1,2\n"), "a.csv.gz")
    assert rows_of(packed)[0] == [{"a": "1", "b": "2"}]


def test_malformed_rows_are_counted_once_each(tmp_path: Path) -> None:
    rows, malformed = rows_of(put(tmp_path, b"a,b,c\n1,2,3\nx\n1,2,3,4,5\n4,5,6\n"))
    assert [row["a"] for row in rows] == ["1", "4"]
    assert malformed == 2


def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv: the header has an empty or repeated column"):
        rows_of(put(tmp_path, b"a,a\n1,2\n"))


def test_types_are_known_of_parquet_only(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"t": pa.array([0], pa.timestamp("s", "UTC"))}), tmp_path / "a.parquet"
    )
    stored = stored_columns(InputFile(tmp_path / "a.parquet", "", SPAN))
    assert stored is not None
    assert stored["t"].tz == "UTC"
    assert stored_columns(put(tmp_path, b"a\n1\n")) is None


def test_a_parquet_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not readable as Parquet"):
        stored_columns(put(tmp_path, b"PAR1 nothing PAR1", "a.parquet"))
