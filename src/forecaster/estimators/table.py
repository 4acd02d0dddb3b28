"""Forecasts as people and programs take them: a long table, CSV, Parquet or GeoJSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float32

from forecaster.errors import ConfigError, DataError
from forecaster.panel.panel import Panel, local_texts, write_table
from forecaster.publish.writing import bytes_writer, replace_file

FORMS = (".csv", ".parquet", ".geojson")


def forecast_table(
    panel: Panel,
    origin: int,
    forecast: Float32[np.ndarray, "K N"],
    quantiles: Mapping[float, Float32[np.ndarray, "K N"]],
    degraded: str,
) -> pd.DataFrame:
    """Return `unique_id, ds, ds_local, cutoff, y_hat`, a column of each quantile, `degraded`.

    The last one is there if the forecast is degraded, and says why.
    """
    K, N = forecast.shape
    times = panel.clock.axis(panel.start + origin * panel.clock.step, K + 1)
    table = pd.DataFrame(
        {
            "unique_id": np.repeat(np.array(panel.locations.ids, dtype=object), K),
            "ds": pd.DatetimeIndex(np.tile(times[1:], N)).tz_localize("UTC"),
            "ds_local": np.tile(np.array(local_texts(panel, times[1:]), dtype=object), N),
            "cutoff": pd.DatetimeIndex(np.repeat(times[:1], N * K)).tz_localize("UTC"),
            "y_hat": forecast.T.reshape(-1),
            **{quantile_name(level): q.T.reshape(-1) for level, q in quantiles.items()},
        }
    )
    return table.assign(degraded=degraded) if degraded else table


def quantile_name(level: float) -> str:
    """Return the column of a quantile: q10, q50, q2.5."""
    return f"q{100 * level:.10g}"


def write_forecast(table: pd.DataFrame, panel: Panel, path: Path) -> None:
    """Write a forecast by the path's suffix: .csv, .parquet or .geojson."""
    check_form(panel, path)
    if path.suffix == ".geojson":
        replace_file(path, bytes_writer(json.dumps(to_geojson(table, panel)).encode()))
    else:
        write_table(table, path)


def check_form(panel: Panel, path: Path) -> None:
    """Refuse a name that no form has, and GeoJSON of locations that lie nowhere."""
    if path.suffix not in FORMS:
        message = f"{path}: a forecast is written as .csv, .parquet or .geojson"
        raise ConfigError(f"{message}; give such a name")
    if path.suffix == ".geojson" and not panel.locations.placed.any():
        message = "panel: no location has coordinates, and GeoJSON is nothing without"
        raise DataError(f"{message}; add lat and lon to its locations, or write .csv")


def to_geojson(table: pd.DataFrame, panel: Panel) -> dict[str, Any]:
    """Return one point per row; an area and a location without coordinates have no geometry."""
    places = panel.locations
    names = dict(zip(places.ids, places.names, strict=True))
    points = {
        identity: {"type": "Point", "coordinates": [lon, lat]}
        for identity, lon, lat, placed in zip(
            places.ids, places.lon.tolist(), places.lat.tolist(), places.placed, strict=True
        )
        if placed
    }
    features = []
    for row in table.to_dict("records"):
        identity = row["unique_id"]
        properties = {
            **row,
            "name": names.get(identity, identity),  # an area is called what it is named
            "ds": row["ds"].isoformat(),
            "cutoff": row["cutoff"].isoformat(),
        }
        geometry = points.get(identity)
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": features}
