"""Candidate locations: points of a road map or zones, from CSV, Parquet or GeoJSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.errors import ConfigError, DataError, Faults, name_some, nearest_name
from forecaster.panel.parts import DATES, Locations
from forecaster.panel.tables.columns import need_columns
from forecaster.panel.tables.readers import read_locations
from forecaster.reading.compressed import read_small
from forecaster.reading.load import load
from forecaster.reading.mapping import parse_pairs

MAX_GEOJSON_BYTES = 32 << 20
FIELDS = ("id", "name", "lat", "lon", *DATES, "hours")


def read_candidates(
    path: Path, columns: str | None = None, zone: str = "UTC", extra: Sequence[str] = ()
) -> Locations:
    """Return the locations of a file.

    Args:
        path: a table or GeoJSON.
        columns: maps its names, as in `id=node,lat=y,lon=x`.
        zone: of the dates `opens` and `closes` that have no offset.
        extra: further columns that are kept.
    """
    mapping = _given(columns)
    texts = [mapping.get(field, field) for field in (*DATES, "hours")]
    table = _read_geojson(path) if path.suffix in (".geojson", ".json") else load(path, texts)[0]
    need_columns(table, (), str(path))  # refuses columns given twice
    named = {field: field for field in FIELDS if field in table.column_names} | mapping
    named |= {column: column for column in extra}
    for field, column in {"id": "id", **named}.items():
        if column not in table.column_names:
            hint = nearest_name(column, table.column_names)
            remedy = (
                f"found: {name_some(table.column_names, 20)}; map it as in id=node,lat=y,lon=x"
            )
            raise DataError(f"{path}: no column {column!r} for {field}{hint}; {remedy}")
    if not table.num_rows:
        raise DataError(f"{path}: 0 locations; at least one is needed")
    return read_locations(table.select(list(named.values())).rename_columns(list(named)), zone)


def _given(columns: str | None) -> dict[str, str]:
    faults = Faults(f"candidate columns {columns!r}")
    mapping = (
        {} if columns is None else parse_pairs(columns, FIELDS, "id=node,lat=y,lon=x", faults)
    )
    faults.raise_any(ConfigError)
    return mapping


def _read_geojson(path: Path) -> pa.Table:
    """Return the points of a FeatureCollection; of a polygon, the mean of its corners."""
    try:
        features = json.loads(read_small(path, MAX_GEOJSON_BYTES))["features"]
        rows = [_row(feature) for feature in features]
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: _column([row.get(name) for row in rows]) for name in names})
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
            RecursionError, pa.ArrowException) as error:  # fmt: skip
        message = f"{path}: not a GeoJSON FeatureCollection ({type(error).__name__}: {error})"
        raise DataError(f"{message}; give points with an id") from error


def _row(feature: dict[str, Any]) -> dict[str, Any]:
    properties = {
        k: v for k, v in (feature.get("properties") or {}).items() if k not in ("lat", "lon")
    }
    corners = np.array(list(_positions(feature["geometry"]["coordinates"])), dtype=float)
    lon, lat = corners[:, :2].mean(axis=0).tolist()
    identity = feature.get("id", properties.get("id"))
    return {
        **properties,
        "id": None if identity is None else str(identity),
        "lat": lat,
        "lon": lon,
    }


def _column(values: list[Any]) -> pa.Array:
    """Return numbers unchanged and all else as text, since properties may have any type."""
    if all(value is None or type(value) in (int, float) for value in values):
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values])


def _positions(coordinates: Any) -> Any:
    if isinstance(coordinates[0], (int, float)):
        yield coordinates[:2]
        return
    if len(coordinates) > 1 and coordinates[0] == coordinates[-1]:
        coordinates = coordinates[:-1]  # the last corner of a ring repeats the first
    for part in coordinates:
        yield from _positions(part)
