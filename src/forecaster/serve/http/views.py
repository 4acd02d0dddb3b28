"""What the endpoints answer with, as plain data."""

from functools import lru_cache
from typing import Any

import numpy as np

from forecaster.panel.panel import Panel
from forecaster.serve.data.present import Feed
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.encode import describe_steps, local_text, numbers, utc_text
from forecaster.serve.forecasting.forecast import Answer, Model


def common(answer: Answer, feed: Feed) -> dict[str, Any]:
    """Return what every forecast carries."""
    reasons = [answer.degraded] if answer.degraded else []
    if feed.stale:
        reasons.append("data: the last steps have not come")
    return {
        "model": answer.key.model,
        "data_version": answer.key.version,
        "origin": utc_text(answer.origin),
        "origin_local": local_text(answer.panel, answer.origin),
        "data_age_seconds": feed.age_seconds or 0,
        "stale": feed.stale,
        "degraded": "; ".join(reasons) or None,
    }


@lru_cache(maxsize=2)
def places(model: Model, base: Panel) -> dict[str, Any]:
    """Return the locations, and what the numbers mean."""
    own = base.locations
    seen = np.isfinite(base.values)
    sums = np.where(seen, base.values, 0).sum(axis=0, dtype=np.float64)
    means = numbers(np.where(seen.any(axis=0), sums / np.maximum(seen.sum(axis=0), 1), np.nan))
    lat, lon = (_exact(values.tolist()) for values in (own.lat, own.lon))
    rows = zip(own.ids, own.names, lat, lon, means, strict=True)
    return {
        "zone": base.clock.zone,
        "kind": base.kind,
        "step_minutes": base.clock.step_minutes,
        "horizon": model.horizon,
        "quantiles": list(model.levels),
        "locations": [
            {"id": i, "name": name, "lat": lat, "lon": lon, "mean": mean}
            for i, name, lat, lon, mean in rows
        ],
    }


def graph(model: Model) -> dict[str, Any]:
    """Return the dependencies that the run has learned; none where it has no graph."""
    run = model.estimator.run
    arrays = run.arrays if run is not None else {}
    if run is None or "graph.pairs" not in arrays:
        return {"edges": []}
    ids = run.about["ids"]
    pairs, strengths = arrays["graph.pairs"].tolist(), numbers(arrays["graph.strengths"])
    rows = zip(pairs, strengths, strict=True)
    return {"edges": [{"a": ids[a], "b": ids[b], "strength": s} for (a, b), s in rows]}


def history(overlay: Overlay, column: int, first: int, end: int) -> dict[str, Any]:
    """Return the values of a location from one step to another."""
    first = max(first, 0)
    end = max(end, first)
    values = overlay.values(first, end)[:, column]
    times = overlay.base.clock.axis(overlay.time_of(first), end - first)
    return {
        "id": overlay.base.locations.ids[column],
        "name": overlay.base.locations.names[column],
        "steps": describe_steps(overlay.base, times),
        "values": numbers(values),
    }


def _exact(values: list[float]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values]
