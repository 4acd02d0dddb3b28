"""The content of the JSON responses, as plain data."""

from functools import lru_cache
from typing import Any

import numpy as np

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Freshness
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.encode import local_text, step_times, to_numbers, utc_text
from forecaster.serve.forecasting.forecast import Forecast, ServedModel


def forecast_basis(forecast: Forecast, freshness: Freshness) -> dict[str, Any]:
    """Return the fields common to all forecasts: model, data and origin."""
    reasons = [forecast.degraded] if forecast.degraded else []
    age_seconds = freshness.age_seconds or 0
    if freshness.stale:
        steps = age_seconds // (forecast.panel.clock.step_minutes * 60)
        reasons.append(f"data: too few observations in the last {steps} steps")
        reasons += [freshness.outage] if freshness.outage else []
    return {
        "model": forecast.key.model,
        "data_version": forecast.key.version,
        "origin": utc_text(forecast.origin),
        "origin_local": local_text(forecast.panel, forecast.origin),
        "data_age_seconds": age_seconds,
        "stale": freshness.stale,
        "degraded": "; ".join(reasons) or None,
    }


@lru_cache(maxsize=2)
def location_list(model: ServedModel, base: Panel) -> dict[str, Any]:
    """Return the locations, and the meaning of the numbers."""
    locations, finite = base.locations, np.isfinite(base.values)
    sums = np.where(finite, base.values, 0).sum(axis=0, dtype=np.float64)
    means = np.where(finite.any(axis=0), sums / np.maximum(finite.sum(axis=0), 1), np.nan)
    lat, lon = (_exact(values.tolist()) for values in (locations.lat, locations.lon))
    rows = zip(locations.ids, locations.names, lat, lon, to_numbers(means), strict=True)
    return {
        "zone": base.clock.zone,
        "kind": base.kind,
        "step_minutes": base.clock.step_minutes,
        "horizon": model.horizon,
        "quantiles": list(model.quantile_levels),
        "locations": [
            {
                "id": i,
                "name": name,
                "lat": lat,
                "lon": lon,
                "mean": mean,
                "fallback": model.fallback.get(i),
            }
            for i, name, lat, lon, mean in rows
        ],
    }


def dependency_graph(model: ServedModel) -> dict[str, Any]:
    """Return the dependencies that the run has learned; none without a graph."""
    run = model.estimator.run
    if run is None or "graph.pairs" not in run.arrays:
        return {"edges": []}
    ids, pairs = run.about["ids"], run.arrays["graph.pairs"].tolist()
    rows = zip(pairs, to_numbers(run.arrays["graph.strengths"]), strict=True)
    return {"edges": [{"a": ids[a], "b": ids[b], "strength": s} for (a, b), s in rows]}


def history(snapshot: Snapshot, column: int, first: int, end: int) -> dict[str, Any]:
    """Return the values of a location at steps first…end−1."""
    base, first = snapshot.base, max(first, 0)
    end = max(end, first)
    times = base.clock.axis(snapshot.time_of(first), end - first)
    return {
        "id": base.locations.ids[column],
        "name": base.locations.names[column],
        "steps": step_times(base, times),
        "values": to_numbers(snapshot.values(first, end)[:, column]),
    }


def _exact(values: list[float]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values]
