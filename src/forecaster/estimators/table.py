"""Forecasts as a long table, CSV, Parquet or GeoJSON."""

import json
from collections.abc import Mapping, Sequence
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
    degraded: Sequence[str],
    relative: Float32[np.ndarray, "K N"] | None = None,
) -> pd.DataFrame:
    """The columns `unique_id, ds, ds_local, cutoff, y_hat`, one per quantile, and `degraded`.

    `y_relative` is there if the model has an output for relative error. `degraded` gives the
    reason by location, empty where there is none; steps outside opening hours are `closed`. It is
    left out of a forecast without any.
    """
    K, N = forecast.shape
    times = panel.instants(np.arange(origin, origin + K + 1))
    table = pd.DataFrame(
        {
            "unique_id": np.repeat(np.array(panel.locations.ids, dtype=object), K),
            "ds": pd.DatetimeIndex(np.tile(times[1:], N)).tz_localize("UTC"),
            "ds_local": np.tile(np.array(local_texts(panel, times[1:]), dtype=object), N),
            "cutoff": pd.DatetimeIndex(np.repeat(times[:1], N * K)).tz_localize("UTC"),
            "y_hat": forecast.T.reshape(-1),
            **({} if relative is None else {"y_relative": relative.T.reshape(-1)}),
            **{quantile_name(level): q.T.reshape(-1) for level, q in quantiles.items()},
        }
    )
    closed = ~panel.within_hours(origin + 1, origin + 1 + K).T.reshape(-1)
    if not any(degraded) and not closed.any():
        return table
    reasons = np.repeat(np.array(degraded, dtype=object), K)
    reasons[closed] = [mark_closed(reason) for reason in reasons[closed]]
    return table.assign(degraded=reasons)


def mark_closed(reason: str | None) -> str:
    """The reason of a step outside opening hours, before other reasons of its location."""
    return f"closed; {reason}" if reason else "closed"


def quantile_name(level: float) -> str:
    """The column of a quantile, with all its digits: q10, q2.5, q15.86553."""
    return f"q{100 * level:.10g}"


def write_forecast(table: pd.DataFrame, panel: Panel, path: Path) -> None:
    """Write a forecast by the path's suffix: .csv, .parquet or .geojson."""
    check_form(panel, path)
    if path.suffix == ".geojson":
        replace_file(path, bytes_writer(json.dumps(to_geojson(table, panel)).encode()))
    else:
        write_table(table, path)


def check_form(panel: Panel, path: Path) -> None:
    """Refuse an unknown suffix, and GeoJSON of a panel without coordinates."""
    if path.suffix not in FORMS:
        raise ConfigError(
            f"{path}: a forecast is written as .csv, .parquet or .geojson; give such a name"
        )
    if path.suffix == ".geojson" and not panel.locations.placed.any():
        raise DataError(
            "panel: no location has coordinates, which GeoJSON needs; add lat and lon to its "
            "locations, or write .csv"
        )


def to_geojson(table: pd.DataFrame, panel: Panel) -> dict[str, Any]:
    """One feature per row; an area has no geometry."""
    locations = panel.locations
    position = {identity: n for n, identity in enumerate(locations.ids)}
    features = []
    for row in table.to_dict("records"):
        n = position.get(row["unique_id"])  # None: an area
        name = row["unique_id"] if n is None else locations.names[n]
        times = {"ds": row["ds"].isoformat(), "cutoff": row["cutoff"].isoformat()}
        properties = {str(column): value for column, value in row.items()} | times
        geometry = None if n is None else locations.point(n)
        features.append(
            {"type": "Feature", "geometry": geometry, "properties": {**properties, "name": name}}
        )
    return {"type": "FeatureCollection", "features": features}
