"""Why a few forecasts were what they were, as pictures with what to see in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from forecaster.errors import DataError
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import Assessment, targets
from forecaster.explain.case import EXPLAINED
from forecaster.explain.explain import explain
from forecaster.explain.explanation import Explanation
from forecaster.panel.panel import Panel
from forecaster.report.charts import shorten
from forecaster.report.forecasts import Span, normal_span, worst_span
from forecaster.report.material import Material
from forecaster.report.picture import Picture, Section
from forecaster.report.tables import NOTHING
from forecaster.report.why import draw_why, say_city_wide, say_why
from forecaster.report.words import with_minus


@dataclass(frozen=True)
class Chosen:
    """A forecast that is explained, and why this one."""

    name: str
    title: str
    origin: int  # a step of the panel
    place: int


def why_section(material: Material) -> Section:
    """Return the explanation of a few forecasts by the first model that can be explained."""
    text = (
        "Which past steps and which locations carried a forecast, against what is usual for the "
        "time of the week: by attention, if the model has any, by gradient and by ablation."
    )
    row = next((row for row in material.drawn if row.estimator in EXPLAINED), None)
    if row is None:
        return Section("why", "Why", text, [])
    estimator = material.estimator_of(row)
    cases: dict[tuple[int, int], Chosen] = {}
    for one in _choose(material, estimator, row.first):
        cases.setdefault((one.origin, one.place), one)  # the busiest may be the worst miss too
    found = dict(_explain(material.panel, estimator, list(cases.values())))
    pictures = [_draw(chosen, why) for chosen, why in found.items()]
    facts = {
        "City-wide": {chosen.title: say_city_wide(why) for chosen, why in found.items()},
        "How far the methods agree": _list_agreement(list(found.values())),
    }
    return Section("why", f"Why {row.name} says so", text, pictures, facts)


def _explain(
    panel: Panel, estimator: Estimator, cases: Sequence[Chosen]
) -> Iterator[tuple[Chosen, Explanation]]:
    """Yield the cases with why; those whose coming weather is not in the panel have none."""
    for chosen in cases:
        at, location = f"{panel.times[chosen.origin]}Z", panel.locations.ids[chosen.place]
        try:
            yield chosen, explain(estimator, panel, at, location)
        except DataError:
            continue


def _choose(material: Material, estimator: Estimator, found: Assessment) -> Iterator[Chosen]:
    """Yield the busiest location and the hub in a normal week, and the worst miss of all days."""
    panel, graph = material.panel, material.graph
    sizes = found.places.sizes.sum(axis=0) / np.maximum(found.places.values.sum(axis=0), 1)
    busiest, normal = int(np.argmax(sizes)), normal_span(found, panel)[0]
    yield _busy_hour(panel, found, normal, ("31-why-busiest", "the busiest", busiest))
    yield _worst_miss(panel, estimator, found)
    if graph is not None and len(graph):
        hub = panel.locations.ids.index(graph.locations.ids[int(np.argmax(graph.degrees))])
        if hub != busiest:
            yield _busy_hour(panel, found, normal, ("33-why-hub", "a hub", hub))


def _busy_hour(panel: Panel, found: Assessment, span: Span, what: tuple[str, str, int]) -> Chosen:
    """Return the forecast of a location before the largest values that it had in a stretch."""
    name, why, place = what
    origins = _origins(panel, found)[_inside(found, span)]
    came = targets(panel, origins, found.places.values.shape[0])[:, :, place]
    origin = int(origins[np.argmax(np.nan_to_num(came).sum(axis=1))])
    return Chosen(name, f"{shorten(panel.locations.names[place])}, {why}", origin, place)


def _worst_miss(panel: Panel, estimator: Estimator, found: Assessment) -> Chosen:
    """Return the forecast that was off most, from the worst origin of the worst day."""
    inside = _inside(found, worst_span(found, panel))
    squares = np.where(inside, found.errors[found.weather].squares.sum(axis=1), -1.0)
    origin = _origins(panel, found)[[int(np.argmax(squares))]]
    forecast = estimator.predict(panel, origin, found.weather)[0]
    miss = np.abs(forecast - targets(panel, origin, len(forecast))[0])
    place = int(np.argmax(np.nan_to_num(miss).sum(axis=0)))
    title = f"{shorten(panel.locations.names[place])}, the worst miss"
    return Chosen("32-why-worst", title, int(origin[0]), place)


def _list_agreement(found: Sequence[Explanation]) -> dict[str, str]:
    """Return how alike each two methods put things in order, for one forecast after another."""
    lines: dict[str, list[str]] = {}
    for one in (one for why in found for one in why.agreement):
        value = NOTHING if one.correlation is None else with_minus(f"{one.correlation:.2f}")
        lines.setdefault(f"{one.of}: {' and '.join(one.methods)}", []).append(value)
    known = {methods: " · ".join(values) for methods, values in lines.items()}
    return {"rank correlation": "1: the same order, 0: none; by forecast, as above"} | known


def _draw(chosen: Chosen, why: Explanation) -> Picture:
    text = f"At {why.origin_local[:16].replace('T', ' ')}. {' '.join(say_why(why))}"
    kind = f"Bars of past {why.step}s by their share, and of locations by what their past adds"
    return Picture(chosen.name, chosen.title, text, kind, draw_why(why))


def _origins(panel: Panel, found: Assessment) -> Int64[np.ndarray, " B"]:
    """Return the tested origins as steps of the panel."""
    seconds = found.origins - panel.start.astype("datetime64[s]").astype(np.int64)
    return np.asarray(seconds // (panel.clock.step_minutes * 60))


def _inside(found: Assessment, span: Span) -> Bool[np.ndarray, " B"]:
    """Tell which windows begin in a stretch of days; all, if it holds the rest of some only."""
    inside = (found.days >= span.first) & (found.days < span.first + span.days)
    return np.asarray(inside if inside.any() else np.ones_like(inside))
