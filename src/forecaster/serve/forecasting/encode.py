"""Forecasts as JSON, CSV and GeoJSON."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from forecaster.panel.panel import Panel, local_texts
from forecaster.serve.forecasting.forecast import Answer

DIGITS = 6  # significant ones, of every number
CARRIED = ("model", "data_version", "stale", "degraded")  # in every row of a CSV
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


def utc_text(time: np.datetime64) -> str:
    """Return an instant as 2014-06-01T12:00:00Z."""
    return f"{time}Z"


def local_text(panel: Panel, time: np.datetime64) -> str:
    """Return an instant on the wall clock with its offset: 2014-06-01T08:00:00-04:00."""
    return local_texts(panel, np.array([time]))[0]


def describe_steps(panel: Panel, times: np.ndarray) -> list[dict[str, str]]:
    """Return steps as `ds` (UTC) and `ds_local`."""
    pairs = zip(times, local_texts(panel, times), strict=True)
    return [{"ds": utc_text(time), "ds_local": local} for time, local in pairs]


def numbers(values: Float[np.ndarray, "*shape"]) -> Any:
    """Return numbers as nested lists, six digits each, null where they are missing."""
    exact = values.astype(np.float64)
    seen = np.isfinite(exact) & (exact != 0)
    size = np.zeros_like(exact)
    np.log10(np.abs(exact), out=size, where=seen)
    scale = 10.0 ** (DIGITS - 1 - np.floor(size))
    short = np.round(exact * scale) / scale
    if np.isfinite(exact).all():
        return short.tolist()
    shown = short.astype(object)
    shown[~np.isfinite(exact)] = None
    return shown.tolist()


def quantile_name(level: float) -> str:
    """Return the column of a quantile: q10, q2.5."""
    return f"q{100 * level:g}"


def to_json(answer: Answer, columns: Sequence[int] | None = None) -> bytes:
    """Return `steps` and `forecasts` as the inside of a JSON object, of all locations or some."""
    chosen = list(range(len(answer.locations))) if columns is None else list(columns)
    parts = {"y_hat": numbers(answer.y_hat.T[chosen])}
    for level, values in zip(answer.levels, answer.quantiles, strict=True):
        parts[quantile_name(level)] = numbers(values.T[chosen])
    parts |= {"last": numbers(answer.last[chosen]), "usual": numbers(answer.usual.T[chosen])}
    rows = [
        {"id": answer.locations.ids[n], **{name: part[i] for name, part in parts.items()}}
        for i, n in enumerate(chosen)
    ]
    inside = {"steps": describe_steps(answer.panel, answer.times), "forecasts": rows}
    return json.dumps(inside, separators=(",", ":"))[1:-1].encode()


def to_csv(
    answer: Answer, shared: Mapping[str, Any], columns: Sequence[int] | None = None
) -> bytes:
    """Return the long table; text that a spreadsheet would take for a formula is quoted.

    Args:
        answer: the forecast.
        shared: what every forecast carries; CARRIED of it stands in every row.
        columns: the locations; None: all.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    names = [quantile_name(level) for level in answer.levels]
    writer.writerow(["unique_id", "ds", "ds_local", "cutoff", "y_hat", *names, *CARRIED])
    carried = [harmless(plain(shared[name])) for name in CARRIED]
    steps = describe_steps(answer.panel, answer.times)
    cutoff = utc_text(answer.origin)
    y_hat, quantiles = numbers(answer.y_hat), numbers(answer.quantiles)
    for n in range(len(answer.locations)) if columns is None else columns:
        identity = harmless(answer.locations.ids[n])
        for k, step in enumerate(steps):
            cells = [y_hat[k][n], *(q[k][n] for q in quantiles)]
            writer.writerow([identity, step["ds"], step["ds_local"], cutoff, *cells, *carried])
    return out.getvalue().encode()


def to_geojson(answer: Answer, columns: Sequence[int] | None = None) -> dict[str, Any]:
    """Return one feature per location; one without coordinates has no geometry."""
    places = answer.locations
    forecasts = json.loads(b"{" + to_json(answer, columns) + b"}")
    features = []
    chosen = range(len(places)) if columns is None else columns
    for n, row in zip(chosen, forecasts["forecasts"], strict=True):
        point = {"type": "Point", "coordinates": [float(places.lon[n]), float(places.lat[n])]}
        properties = {"name": places.names[n], **row}
        geometry = point if places.placed[n] else None
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "steps": forecasts["steps"], "features": features}


def plain(value: object) -> str:
    """Return a value as text outside JSON: true, false, nothing for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def harmless(text: str) -> str:
    """Return text that no spreadsheet runs as a formula (OWASP ASVS 1.2.10)."""
    return f"'{text}" if text.startswith(FORMULA) else text
