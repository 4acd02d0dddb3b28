"""The content of the JSON responses, as plain data."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from forecaster.estimators.graph_arrays import PAIRS, STRENGTHS, edges_of
from forecaster.estimators.wrong_values.plausible import Plausibility, context
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.data.live import Freshness
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.encode import local_text, step_times, to_numbers, utc_text
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import Forecast, ServedModel
from forecaster.serve.forecasting.loader import Refused
from forecaster.serve.forecasting.new_locations import absent_locations
from forecaster.serve.forecasting.shadow import Shadow
from forecaster.versions import learned_until


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


def served_run(engine: Engine) -> dict[str, Any]:
    """Return which run answers, which one was refused, the challenger, and the state of drift."""
    model, refused, shadow = engine.loader.model, engine.loader.refused, engine.shadow
    run = None if model is None else model.estimator.run
    return {
        "model": None if model is None else model.digest,
        "version": None if model is None else model.version,
        "estimator": None if run is None else run.estimator,
        "learned_until": None if run is None else learned_until(run.about),
        "refused": None if refused is None else _refused(refused),
        "shadow": None if shadow is None else _in_shadow(shadow),
        "drift": engine.drift,
    }


def _in_shadow(shadow: Shadow) -> dict[str, Any]:
    model, refused = shadow.model, shadow.refused
    return {
        "model": None if model is None else model.digest,
        "version": None if model is None else model.version,
        "refused": None if refused is None else _refused(refused),
    }


def _refused(refused: Refused) -> dict[str, Any]:
    since = _to_utc_text(int(refused.since))
    return {"version": refused.version, "reason": refused.reason, "since": since}


def describe_refusal(refused: Refused) -> str:
    """Return why a run is not served, in a sentence."""
    name = "a run" if refused.version is None else f"version {refused.version}"
    since = _to_utc_text(int(refused.since))
    return f"{name} is not served since {since}: {refused.reason}"


def location_list(
    model: ServedModel,
    base: Panel,
    locations: Locations,
    registrations: tuple[Registration, ...] = (),
) -> dict[str, Any]:
    """Return the locations, and the meaning of the numbers.

    Args:
        model: the served model.
        base: the panel.
        locations: those of the panel, then the registered ones.
        registrations: of the registered ones.
    """
    lat, lon = (_exact(values.tolist()) for values in (locations.lat, locations.lon))
    means = _means(base) + [None] * len(registrations)
    since = [None] * len(base.locations) + [one.since for one in registrations]
    columns = locations.ids, locations.names, lat, lon, means, since
    dates = [_utc_texts(moments) for moments in (locations.opens, locations.closes)]
    rows = zip(*columns, *dates, strict=True)
    return {
        "zone": base.clock.zone,
        "kind": base.kind,
        "step_minutes": base.clock.step_minutes,
        "horizon": model.horizon,
        "quantiles": list(model.quantile_levels),
        "absent": absent_locations(model, locations),
        "locations": [
            {
                "id": i,
                "name": name,
                "lat": lat,
                "lon": lon,
                "mean": mean,
                "fallback": model.fallback.get(i),
                "new": i not in model.ids,
                "since": _to_utc_text(since),
                "opens": opens,
                "closes": closes,
            }
            for i, name, lat, lon, mean, since, opens, closes in rows
        ],
    }


def registered_location(registration: Registration, version: int) -> dict[str, Any]:
    """Return a location as it is registered."""
    return {
        "id": registration.id,
        "name": registration.name,
        "lat": registration.lat,
        "lon": registration.lon,
        "covariates": dict(registration.covariates),
        "since": _to_utc_text(registration.since or None),
        "opens": _to_utc_text(registration.opens),
        "data_version": version,
    }


def _to_utc_text(seconds: int | None) -> str | None:
    return None if seconds is None else utc_text(np.datetime64(seconds, "s"))


def _utc_texts(moments: Shaped[np.ndarray, " N"]) -> list[str | None]:
    """Return moments as text, None where they are unknown."""
    return [None if np.isnat(moment) else utc_text(moment) for moment in moments]


@lru_cache(maxsize=2)
def _means(base: Panel) -> list[float | None]:
    """Return the mean of each location's observed values in the panel."""
    finite = np.isfinite(base.values)
    sums = np.where(finite, base.values, 0).sum(axis=0, dtype=np.float64)
    means = np.where(finite.any(axis=0), sums / np.maximum(finite.sum(axis=0), 1), np.nan)
    return list(to_numbers(means))


def dependency_graph(model: ServedModel) -> dict[str, Any]:
    """Return the dependencies that the run has learned; none without a graph."""
    run = model.estimator.run
    if run is None or PAIRS not in run.arrays:
        return {"edges": []}
    return _edges(run.arrays, run.about["ids"], np.arange(len(run.arrays[PAIRS])))


def neighbours(model: ServedModel, location: str) -> dict[str, Any]:
    """Return the dependencies of one location; none where the run does not know it."""
    run = model.estimator.run
    if run is None or PAIRS not in run.arrays or location not in model.columns:
        return {"edges": []}
    column = model.columns[location]
    numbers = np.flatnonzero((edges_of(run.arrays).pairs == column).any(axis=1))
    return _edges(run.arrays, run.about["ids"], numbers)


def _edges(
    arrays: Mapping[str, np.ndarray], ids: Sequence[str], numbers: Int64[np.ndarray, " E"]
) -> dict[str, Any]:
    """Return some of the edges of a run."""
    edges, strengths = edges_of(arrays), to_numbers(arrays[STRENGTHS][numbers])
    rows = zip(edges.pairs[numbers].tolist(), strengths, strict=True)
    listed = [{"a": ids[a], "b": ids[b], "strength": s} for (a, b), s in rows]
    if edges.delays is None:
        return {"edges": listed}
    delayed = zip(listed, edges.delays[numbers].tolist(), strict=True)
    return {"edges": [{**edge, "delay": delay} for edge, delay in delayed]}


def history(
    model: ServedModel, snapshot: Snapshot, column: int, span: tuple[int, int]
) -> dict[str, Any]:
    """Return the values of a location at the steps of a span, its end excluded."""
    base, locations, first = snapshot.base, snapshot.locations, max(span[0], 0)
    end = max(span[1], first)
    times = base.clock.axis(snapshot.time_of(first), end - first)
    return {
        "id": locations.ids[column],
        "name": locations.names[column],
        "steps": step_times(base, times),
        "values": to_numbers(snapshot.values(first, end)[:, column]),
        "implausible": _implausible(model, snapshot, column, (first, end)).tolist(),
    }


def _implausible(
    model: ServedModel, snapshot: Snapshot, column: int, span: tuple[int, int]
) -> Bool[np.ndarray, " T"]:
    """Which values of a location are implausible; none at one that the run does not know."""
    (first, end), run = span, model.estimator.run
    marked = np.zeros(end - first, dtype=bool)
    plausibility = None if run is None else Plausibility.of(run)
    identity = snapshot.locations.ids[column]
    if run is None or plausibility is None or end == first or identity not in model.ids:
        return marked
    begin = max(first - context(snapshot.base.clock), 0)
    panel = snapshot.panel(begin, end, end).select((identity,))
    alone = plausibility.of_location(model.columns[identity])
    marks = alone.judge(panel, first - begin, end - begin).marks
    marked[marks.steps[marks.lengths == 0]] = True
    return marked


def _exact(values: list[float]) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values]
