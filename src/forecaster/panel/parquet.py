"""Parquet files of artifacts, whose metadata is checked before their data is read.

A small file may declare billions of rows, or repeat a long text in every row. Columns, rows and
sizes are therefore compared with the manifest and the machine's memory first, and texts are read
as dictionaries.
"""

import os
from collections.abc import Callable, Sequence
from io import BufferedIOBase
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forecaster.errors import ArtifactError

MAX_COLUMNS = 200_000
MAX_EXPANSION = 5_000  # bytes in memory per byte on disk; a constant panel reaches about 2,000
SMALL_BYTES = 1 << 28  # files that need less memory are always read


def write_table(table: pa.Table, sink: BufferedIOBase, *, store_schema: bool = True) -> None:
    """Write a table as one row group, with fast compression and without statistics."""
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,
        row_group_size=max(table.num_rows, 1),
        write_statistics=False,
        store_schema=store_schema,
    )


def read_table(
    path: Path,
    artifact: str,
    rows: int,
    is_expected: Callable[[pa.Schema], bool],
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the table of a file, with text columns as dictionaries.

    Args:
        path: the file, whose size was checked.
        artifact: `panel` or `graph`, for messages.
        rows: number of rows in the manifest.
        is_expected: checks the schema.
        columns: those that are read; None: all.
    """
    with _open(path, artifact) as file:
        schema = _check(path, artifact, file, rows, is_expected)
        texts = [field.name for field in schema if field.type == pa.string()]
        texts = [name for name in texts if columns is None or name in columns]
        if not texts:
            return _read(path, file, columns)
    with _open(path, artifact, texts) as file:
        table = _read(path, file, columns)
    _check_texts(path, [table[name] for name in texts])
    return table


def check_table(
    path: Path, artifact: str, rows: int, is_expected: Callable[[pa.Schema], bool]
) -> None:
    """Refuse a file by its metadata, as `read_table` would."""
    with _open(path, artifact) as file:
        _check(path, artifact, file, rows, is_expected)


def _check(
    path: Path,
    artifact: str,
    file: pq.ParquetFile,
    rows: int,
    is_expected: Callable[[pa.Schema], bool],
) -> pa.Schema:
    schema = file.schema_arrow
    if _has_extension(schema) or not is_expected(schema):
        raise ArtifactError(f"{path}: not a forecaster {artifact} (unexpected columns)")
    _check_size(path, file, rows)
    return schema


def _open(path: Path, artifact: str, texts: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=list(texts))
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = _first_line(error)
        raise ArtifactError(f"{path}: not a forecaster {artifact} ({reason})") from error


def _read(path: Path, file: pq.ParquetFile, columns: Sequence[str] | None) -> pa.Table:
    try:
        table = file.read(columns=None if columns is None else list(columns))
        table.validate(full=True)  # indices of dictionaries, and texts that are not UTF-8
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: damaged ({_first_line(error)})") from error


def _has_extension(schema: pa.Schema) -> bool:
    """Whether a column has an extension type, registered or not."""
    return any(b"ARROW:extension:name" in (field.metadata or {}) for field in schema)


def _check_size(path: Path, file: pq.ParquetFile, rows: int) -> None:
    """Refuse a file that is too large for memory, or whose rows differ from the manifest."""
    columns, metadata = len(file.schema_arrow), file.metadata
    if columns > MAX_COLUMNS:
        raise ArtifactError(f"{path}: too large: {columns:,} columns, at most {MAX_COLUMNS:,}")
    grouped = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    claimed = max(metadata.num_rows, grouped)
    need, size = claimed * columns * 4, path.stat().st_size  # at least four bytes per value
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > memory or need > max(SMALL_BYTES, size * MAX_EXPANSION):
        message = f"{path}: too large: {size:,} bytes on disk need {need:,} bytes in memory"
        raise ArtifactError(f"{message}; this machine has {memory:,}")
    if {metadata.num_rows, grouped} != {rows}:
        raise ArtifactError(f"{path}: has {claimed:,} rows, its manifest says {rows!r}")


def _check_texts(path: Path, columns: list[pa.ChunkedArray]) -> None:
    """Refuse texts that need far more memory than disk space."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks)
    need = sum(pc.sum(each).as_py() or 0 for each in lengths)
    if need > SMALL_BYTES:
        raise ArtifactError(f"{path}: too large: its texts need {need:,} bytes in memory")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
