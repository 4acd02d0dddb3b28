"""A panel's files: plain Parquet that any tool reads, its schema checked before its data."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Shaped

from forecaster.errors import ArtifactError
from forecaster.panel.parts import Locations, Scalar
from forecaster.publish.writing import Writer

Matrix = tuple[tuple[str, ...], np.ndarray]  # column names, Float32[M N]
TIME = pa.timestamp("ms", tz="UTC")  # Parquet knows no whole seconds
MAX_COLUMNS = 200_000
MAX_EXPANSION = 5_000  # bytes in memory per byte on disk; a constant panel reaches about 2,000
_SMALL_BYTES = 1 << 28  # below this no expansion is worth a question
_LOCATION_COLUMNS = {
    "id": pa.string(),
    "name": pa.string(),
    "lat": pa.float64(),
    "lon": pa.float64(),
}
_EXTRA_TYPES = (pa.string(), pa.int64(), pa.float64(), pa.bool_())


def matrix_writer(
    times: Shaped[np.ndarray, " M"], names: Sequence[str], values: Float32[np.ndarray, "M N"]
) -> Writer:
    """Return a function that writes one row per step and one column per name, NaN as null."""

    def write(sink: BinaryIO) -> None:
        stamps = pa.array(times.astype("datetime64[ms]")).cast(TIME)
        columns = [pa.array(np.ascontiguousarray(c), from_pandas=True) for c in values.T]
        table = pa.table([stamps, *columns], names=["time", *names])
        _write_table(table, sink)

    return write


def locations_writer(locations: Locations) -> Writer:
    """Return a function that writes the location table."""
    nothing = {name: list(column) for name, column in locations.extra.items()}
    table = pa.table(
        {
            "id": pa.array(locations.ids, pa.string()),
            "name": pa.array(locations.names, pa.string()),
            "lat": pa.array(locations.lat, from_pandas=True),
            "lon": pa.array(locations.lon, from_pandas=True),
            **nothing,
        }
    )
    return lambda sink: _write_table(table, sink)


def read_matrix(
    path: Path, times: Shaped[np.ndarray, " M"], names: Sequence[str] | None
) -> Matrix:
    """Return column names and values; null becomes NaN, and a NaN on disk is refused.

    Args:
        path: the Parquet file, already known to have its manifest's size.
        times: the axis that its rows must have.
        names: the columns that must be there, in this order; None takes what is there.
    """
    with _open(path) as file:
        found = _check_schema(path, file)
        if names is not None and found != tuple(names):
            raise ArtifactError(f"{path}: its columns are not the panel's locations")
        table = _read(path, file)
    rows = table.column(0).cast(pa.int64()).to_numpy().astype("datetime64[ms]")
    if not np.array_equal(rows, times):
        raise ArtifactError(f"{path}: its time axis is not the one its manifest describes")
    values = np.empty((len(found), len(times)), dtype=np.float32)  # one column after the other
    for row, column in zip(values, table.columns[1:], strict=True):
        _copy(path, column, row)
    return found, values.T


def read_locations(path: Path) -> Locations:
    """Return the location table."""
    with _open(path) as file:
        schema = file.schema_arrow
        types = dict(zip(schema.names, schema.types, strict=True))
        right = all(types.get(name) == kind for name, kind in _LOCATION_COLUMNS.items())
        extra = [name for name in schema.names if name not in _LOCATION_COLUMNS]
        if not right or any(types[name] not in _EXTRA_TYPES for name in extra):
            raise ArtifactError(
                f"{path}: not a forecaster panel (its location columns are not ours)"
            )
        table = _read(path, file)
    extras: dict[str, tuple[Scalar, ...]] = {n: tuple(table[n].to_pylist()) for n in extra}
    lat, lon = (table[name].to_numpy() for name in ("lat", "lon"))
    ids, names = (tuple(table[name].to_pylist()) for name in ("id", "name"))
    return Locations(ids, names, lat, lon, extras)


def _write_table(table: pa.Table, sink: BinaryIO) -> None:
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,
        row_group_size=max(table.num_rows, 1),
        write_statistics=False,
        store_schema=True,
    )


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: not a forecaster panel ({_first_line(error)})") from error


def _read(path: Path, file: pq.ParquetFile) -> pa.Table:
    try:
        return file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: damaged ({_first_line(error)})") from error


def _check_schema(path: Path, file: pq.ParquetFile) -> tuple[str, ...]:
    """Return the value columns, having refused what could not fit or is not ours."""
    schema, rows = file.schema_arrow, file.metadata.num_rows
    plain = len(schema) > 0 and schema.names[0] == "time" and schema.types[0] == TIME
    if not plain or any(kind != pa.float32() for kind in schema.types[1:]):
        raise ArtifactError(f"{path}: not a forecaster panel (its columns are not ours)")
    if len(schema) > MAX_COLUMNS:
        raise ArtifactError(f"{path}: too large: {len(schema):,} columns, at most {MAX_COLUMNS:,}")
    need, size = rows * len(schema) * 4, path.stat().st_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > memory or need > max(_SMALL_BYTES, size * MAX_EXPANSION):
        message = f"{path}: too large: {size:,} bytes on disk claim {need:,} bytes in memory"
        raise ArtifactError(f"{message}; this machine has {memory:,}")
    return tuple(schema.names[1:])


def _copy(path: Path, column: pa.ChunkedArray, into: Float32[np.ndarray, " M"]) -> None:
    start = 0
    for chunk in column.chunks:
        into[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)
    finite = int(np.isfinite(into).sum())
    if finite != len(into) - column.null_count:
        raise ArtifactError(f"{path}: holds NaN or infinite values; missing must be null")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:200]
