"""The location table of a panel, and the wide tables of format 1: plain Parquet.

Schemas are checked before the data is read.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float32, Shaped

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.panel.parquet import read_table, write_table
from forecaster.panel.parts import DATES, Locations, Scalar
from forecaster.publish.writing import Writer

Matrix = tuple[tuple[str, ...], np.ndarray]  # column names, Float32[M N]
TIME = pa.timestamp("ms", tz="UTC")  # Parquet has no unit of seconds
_LOCATION_COLUMNS = {
    "id": pa.string(),
    "name": pa.string(),
    "lat": pa.float64(),
    "lon": pa.float64(),
}
HOURS = "hours"  # column of opening hours
_EXTRA_TYPES = (pa.string(), pa.int64(), pa.float64(), pa.bool_())


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
            **{n: _stamps(getattr(locations, n)) for n in DATES if locations.dated},
            **({HOURS: pa.array(locations.hours, pa.string())} if locations.has_hours else {}),
        }
    )
    return lambda sink: write_table(table, sink)


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
    table = read_table(path, "panel", steps, _is_matrix)
    columns = tuple(table.column_names[1:])
    if names is not None and columns != tuple(names):
        raise ArtifactError(f"{path}: its columns are not the panel's locations")
    times = table.column(0).cast(pa.int64()).fill_null(-1).to_numpy().astype("datetime64[ms]")
    if table.column(0).null_count or not np.array_equal(times, clock.axis(start, steps)):
        raise ArtifactError(f"{path}: its time axis is not the one its manifest describes")
    values = np.empty((len(columns), steps), dtype=np.float32)  # one column after the other
    for row, column in zip(values, table.columns[1:], strict=True):
        copy_column(path, column, row)
    return columns, values.T


def read_locations(path: Path, count: int, *, has_hours: bool = False) -> Locations:
    """Return the location table, which must have `count` rows.

    Args:
        path: the Parquet file.
        count: its rows.
        has_hours: whether its column `hours` holds opening hours; in older panels it is a further
            column with any content.
    """
    table = read_table(path, "panel", count, _has_locations)
    _check_known(path, table)
    # Older panels may have columns of these names with any content.
    dates = {n: _instants(table[n]) for n in DATES if _is_dates(table.schema, n)}
    named = (*_LOCATION_COLUMNS, *dates, *((HOURS,) if has_hours else ()))
    extra = [n for n in table.column_names if n not in named]
    extras: dict[str, tuple[Scalar, ...]] = {n: tuple(table[n].to_pylist()) for n in extra}
    lat, lon = (table[name].to_numpy() for name in ("lat", "lon"))
    ids, names = (tuple(table[name].to_pylist()) for name in ("id", "name"))
    hours = tuple(str(text) for text in table[HOURS].to_pylist()) if has_hours else ()
    return Locations(ids, names, lat, lon, extras, **dates, hours=hours)


def _is_matrix(schema: pa.Schema) -> bool:
    """Whether a schema is a time column and then columns of single precision."""
    timed = len(schema) > 0 and schema.names[0] == "time" and schema.types[0] == TIME
    return timed and all(kind == pa.float32() for kind in schema.types[1:])


def _is_dates(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and schema.field(name).type == TIME


def _stamps(times: Shaped[np.ndarray, " N"]) -> pa.Array:
    return pa.array(times.astype("datetime64[ms]")).cast(TIME)


def _instants(column: pa.ChunkedArray) -> Shaped[np.ndarray, " N"]:
    """Return times to the second, NaT for null."""
    stamps = column.cast(pa.int64())
    milliseconds = pc.fill_null(stamps, 0).to_numpy().astype("datetime64[ms]")
    null = pc.is_null(column).to_numpy()
    return np.where(null, np.datetime64("NaT", "s"), milliseconds.astype("datetime64[s]"))


def _has_locations(schema: pa.Schema) -> bool:
    types = dict(zip(schema.names, schema.types, strict=True))
    dates = [name for name in DATES if _is_dates(schema, name)]
    extra = [types[n] for n in schema.names if n not in (*_LOCATION_COLUMNS, *dates)]
    return all(types.get(name) == kind for name, kind in _LOCATION_COLUMNS.items()) and all(
        kind in _EXTRA_TYPES for kind in extra
    )


def _check_known(path: Path, table: pa.Table) -> None:
    """Refuse locations without an id or name, and NaN."""
    floats = [c for c in table.columns if pa.types.is_floating(c.type)]
    if any(pc.any(pc.is_nan(column)).as_py() for column in floats):
        raise ArtifactError(f"{path}: contains NaN; missing values must be null")
    if table["id"].null_count or table["name"].null_count:
        raise ArtifactError(f"{path}: contains a location without an id or a name")


def copy_column(path: Path, column: pa.ChunkedArray, into: Float32[np.ndarray, " M"]) -> None:
    """Copy a column into an array, null as NaN; a NaN or infinity on disk is refused."""
    start = 0
    for chunk in column.chunks:
        into[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)
    finite = int(np.isfinite(into).sum())
    if finite != len(into) - column.null_count:
        raise ArtifactError(
            f"{path}: contains NaN or infinite values; missing values must be null"
        )
