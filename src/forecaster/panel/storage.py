"""A panel's files: plain Parquet that any tool reads, its schema checked before its data."""

import os
from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float32, Shaped

from forecaster.clock.clock import Clock
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

    def write(sink: BufferedIOBase) -> None:
        stamps = pa.array(times.astype("datetime64[ms]")).cast(TIME)
        columns = [pa.array(np.ascontiguousarray(c), from_pandas=True) for c in values.T]
        table = pa.table([stamps, *columns], names=["time", *names])
        _write_table(table, sink)

    return write


def locations_writer(locations: Locations) -> Writer:
    """Return a function that writes the location table."""
    extra = {name: pa.array(c, from_pandas=True) for name, c in locations.extra.items()}
    unknown = pa.nulls(len(locations), pa.string())  # a column without a value has no type
    table = pa.table(
        {
            "id": pa.array(locations.ids, pa.string()),
            "name": pa.array(locations.names, pa.string()),
            "lat": pa.array(locations.lat, from_pandas=True),
            "lon": pa.array(locations.lon, from_pandas=True),
            **{n: unknown if pa.types.is_null(c.type) else c for n, c in extra.items()},
        }
    )
    return lambda sink: _write_table(table, sink)


def read_matrix(
    path: Path, clock: Clock, start: np.datetime64, steps: int, names: Sequence[str] | None
) -> Matrix:
    """Return column names and values; null becomes NaN, and a NaN on disk is refused.

    Args:
        path: the Parquet file, already known to have its manifest's size.
        clock: the zone and step of its rows.
        start: the time of its first row.
        steps: how many rows it must have.
        names: the columns that must be there, in this order; None takes what is there.
    """
    with _open(path) as file:
        found = _check_schema(path, file)
        _check_size(path, file, steps)
        if names is not None and found != tuple(names):
            raise ArtifactError(f"{path}: its columns are not the panel's locations")
        table = _read(path, file)
    rows = table.column(0).cast(pa.int64()).fill_null(-1).to_numpy().astype("datetime64[ms]")
    if table.column(0).null_count or not np.array_equal(rows, clock.axis(start, steps)):
        raise ArtifactError(f"{path}: its time axis is not the one its manifest describes")
    values = np.empty((len(found), steps), dtype=np.float32)  # one column after the other
    for row, column in zip(values, table.columns[1:], strict=True):
        _copy(path, column, row)
    return found, values.T


def read_locations(path: Path, count: int) -> Locations:
    """Return the location table, which must have that many rows."""
    with _open(path) as file:
        schema = file.schema_arrow
        types = dict(zip(schema.names, schema.types, strict=True))
        right = all(types.get(name) == kind for name, kind in _LOCATION_COLUMNS.items())
        extra = [name for name in schema.names if name not in _LOCATION_COLUMNS]
        plain = all(types[name] in _EXTRA_TYPES for name in extra) and not _is_extended(schema)
        if not (right and plain):
            raise ArtifactError(
                f"{path}: not a forecaster panel (its location columns are not ours)"
            )
        _check_size(path, file, count)
    # A few bytes can say "the same long text in every row": read each text once, then measure.
    texts = [name for name, kind in types.items() if kind == pa.string()]
    with _open(path, texts) as file:
        table = _read(path, file)
    _check_texts(path, [table[name] for name in texts])
    _check_known(path, table)
    extras: dict[str, tuple[Scalar, ...]] = {n: tuple(table[n].to_pylist()) for n in extra}
    lat, lon = (table[name].to_numpy() for name in ("lat", "lon"))
    ids, names = (tuple(table[name].to_pylist()) for name in ("id", "name"))
    return Locations(ids, names, lat, lon, extras)


def _write_table(table: pa.Table, sink: BufferedIOBase) -> None:
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=1,
        row_group_size=max(table.num_rows, 1),
        write_statistics=False,
        store_schema=True,
    )


def _open(path: Path, texts: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True, read_dictionary=list(texts))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: not a forecaster panel ({_first_line(error)})") from error


def _read(path: Path, file: pq.ParquetFile) -> pa.Table:
    try:
        table = file.read()
        table.validate(full=True)  # a dictionary's keys, and texts that are not UTF-8
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArtifactError(f"{path}: damaged ({_first_line(error)})") from error


def _check_schema(path: Path, file: pq.ParquetFile) -> tuple[str, ...]:
    """Return the value columns, having refused what is not ours."""
    schema = file.schema_arrow
    plain = len(schema) > 0 and schema.names[0] == "time" and schema.types[0] == TIME
    if not plain or any(kind != pa.float32() for kind in schema.types[1:]) or _is_extended(schema):
        raise ArtifactError(f"{path}: not a forecaster panel (its columns are not ours)")
    return tuple(schema.names[1:])


def _is_extended(schema: pa.Schema) -> bool:
    """Tell whether a column asks for an extension type, known to this process or not."""
    return any(b"ARROW:extension:name" in (field.metadata or {}) for field in schema)


def _check_size(path: Path, file: pq.ParquetFile, rows: int) -> None:
    """Refuse a file that could not fit, or has other rows than its manifest says."""
    columns, metadata = len(file.schema_arrow), file.metadata
    if columns > MAX_COLUMNS:
        raise ArtifactError(f"{path}: too large: {columns:,} columns, at most {MAX_COLUMNS:,}")
    grouped = sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
    claimed = max(metadata.num_rows, grouped)
    need, size = claimed * columns * 4, path.stat().st_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > memory or need > max(_SMALL_BYTES, size * MAX_EXPANSION):
        message = f"{path}: too large: {size:,} bytes on disk claim {need:,} bytes in memory"
        raise ArtifactError(f"{message}; this machine has {memory:,}")
    if {metadata.num_rows, grouped} != {rows}:
        raise ArtifactError(f"{path}: has {claimed:,} rows, its manifest says {rows:,}")


def _check_texts(path: Path, columns: list[pa.ChunkedArray]) -> None:
    """Refuse texts that are few on disk and many in memory."""
    chunks = [chunk for column in columns for chunk in column.chunks]
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks)
    need = sum(pc.sum(each).as_py() or 0 for each in lengths)
    if need > _SMALL_BYTES:
        raise ArtifactError(f"{path}: too large: its texts need {need:,} bytes in memory")


def _check_known(path: Path, table: pa.Table) -> None:
    """Refuse locations without an id or name, and missing numbers that are not null."""
    floats = [c for c in table.columns if pa.types.is_floating(c.type)]
    if any(pc.any(pc.is_nan(column)).as_py() for column in floats):
        raise ArtifactError(f"{path}: holds NaN; missing must be null")
    if table["id"].null_count or table["name"].null_count:
        raise ArtifactError(f"{path}: holds a location without an id or a name")


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
