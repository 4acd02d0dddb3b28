"""Candidate places for demand: road-map points or zones, from CSV, Parquet or GeoJSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from forecaster.errors import ConfigError, DataError, Faults, nearest_name
from forecaster.panel.columns import load
from forecaster.panel.parts import Locations
from forecaster.panel.tables import read_locations

FIELDS = ("id", "name", "lat", "lon")


def read_candidates(path: Path, columns: str | None = None) -> Locations:
    """Return the places of a file; `columns` maps its names, as in `id=node,lat=y,lon=x`."""
    table = _read_geojson(path) if path.suffix in (".geojson", ".json") else load(path)[0]
    for field, column in _parse(columns).items():
        if column not in table.column_names:
            hint = nearest_name(column, table.column_names)
            raise DataError(f"{path}: no column {column!r} for {field}{hint}")
        if field in table.column_names and field != column:
            table = table.drop_columns([field])
        table = table.rename_columns({column: field})
    kept = [name for name in FIELDS if name in table.column_names]
    return read_locations(table.select(kept))


def _parse(columns: str | None) -> dict[str, str]:
    if columns is None:
        return {}
    faults, found = Faults(f"candidate columns {columns!r}"), {}
    for part in columns.split(","):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column or field not in FIELDS:
            hint = nearest_name(field, FIELDS)
            faults.add(f"{part!r} is not a mapping{hint}; as in id=node,lat=y,lon=x")
        found[field] = column
    faults.raise_any(ConfigError)
    return found


def _read_geojson(path: Path) -> pa.Table:
    """Return the points of a FeatureCollection; a polygon stands for the mean of its corners."""
    try:
        features = json.loads(path.read_text(encoding="utf-8"))["features"]
        rows = [_row(feature) for feature in features]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        message = f"{path}: not a GeoJSON FeatureCollection ({type(error).__name__}: {error})"
        raise DataError(f"{message}; give points with an id") from error
    return pa.Table.from_pylist(rows)


def _row(feature: dict[str, Any]) -> dict[str, Any]:
    properties = {
        k: v for k, v in (feature.get("properties") or {}).items() if k not in FIELDS[2:]
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


def _positions(coordinates: Any) -> Any:
    if isinstance(coordinates[0], (int, float)):
        yield coordinates[:2]
        return
    for part in coordinates:
        yield from _positions(part)
