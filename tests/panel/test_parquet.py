"""What hostile files do to a panel or graph is tested in their test_storage.py."""

from pathlib import Path

import pyarrow as pa
import pytest

from forecaster.errors import ArtifactError
from forecaster.panel.parquet import read_table, write_table

TABLE = pa.table({"name": ["a", "b", "a"], "size": [2.0, 3.0, 5.0]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with (tmp_path / "table.parquet").open("wb") as sink:
        write_table(TABLE, sink)
    return tmp_path / "table.parquet"


def test_a_table_comes_back_with_its_texts_as_dictionaries(path: Path) -> None:
    table = read_table(path, "graph", 3, lambda schema: schema.equals(TABLE.schema))
    assert table["name"].type == pa.dictionary(pa.int32(), pa.string())
    assert table.to_pylist() == TABLE.to_pylist()


def test_other_columns_than_expected_are_refused(path: Path) -> None:
    with pytest.raises(ArtifactError, match="unexpected columns"):
        read_table(path, "graph", 3, lambda _: False)


def test_other_rows_than_the_manifest_says_are_refused(path: Path) -> None:
    with pytest.raises(ArtifactError, match="has 3 rows, its manifest says 5"):
        read_table(path, "graph", 5, lambda _: True)


def test_what_is_no_parquet_is_refused(path: Path) -> None:
    path.write_bytes(b"name,size\n")
    with pytest.raises(ArtifactError, match="not a forecaster panel"):
        read_table(path, "panel", 1, lambda _: True)
