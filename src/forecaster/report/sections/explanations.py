"""Why a forecast is what it is, in words and as a figure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from forecaster.errors import DataError
from forecaster.estimators.base import Estimator
from forecaster.evaluation.backtest import Assessment, targets
from forecaster.explain.case import EXPLAINED
from forecaster.explain.explain import explain
from forecaster.explain.explanation import Explanation, Hour, Place
from forecaster.panel.panel import Panel
from forecaster.report.data import Material
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, GREEN, INK, ORANGE, TEXT, WIDTH
from forecaster.report.draw.charts import shorten
from forecaster.report.formatting import list_names, number, percent, with_minus
from forecaster.report.sections.forecasts import Span, normal_span, worst_span
from forecaster.report.sections.section import Picture, Section
from forecaster.report.tables import NOTHING

TOP = 8  # neighbours that are drawn
CROWDED = 12  # labels below the past that can all be read
GAP = 1.5  # bars of room between hours that lie days apart


def say_why(given: Explanation) -> list[str]:
    """Return what carried a forecast as a few sentences, the most important first."""
    return [with_minus(line) for line in (_amount(given), _hours(given), _places(given))]


def say_city_wide(given: Explanation) -> str:
    """Return what came through what sees every location at once."""
    apart = given.city_wide
    if not apart.places:
        return "Nothing of other locations comes through the whole city at once."
    named = [f"{place.name} ({place.gradient:+.3g})" for place in apart.places[:3]]
    most = f", most from {list_names(named)}" if named else ""
    return with_minus(
        f"{percent(apart.share)} of what other locations do comes through parts that see all of "
        f"them at once{most}; together they add "
        f"{apart.ablation:+.3g} this way, by ablation."
    )


def draw_why(given: Explanation) -> Any:
    """Return the past steps as bars over time, and below them the neighbours."""
    rows = [given.own, *given.neighbours[:TOP]]
    figure = canvas.new_figure(WIDTH, 2.6 + 0.9 + 0.24 * len(rows))
    above, below = figure.subfigures(2, 1, height_ratios=[2.2, 0.7 + 0.24 * len(rows)])
    _draw_hours(above.subplots(), given)  # as wide as it can be, whatever places are called
    _draw_places(below.subplots(), rows, apart=bool(given.city_wide.places))
    return figure


def _amount(given: Explanation) -> str:
    """Say what is forecast, and what it had been with a usual history."""
    forecast = " → ".join(number(step.y_hat) for step in given.forecast)
    usual = " → ".join(number(step.usual) for step in given.forecast)
    return f"Forecast {forecast}; with every past value as usual for its time of week {usual}."


def _hours(given: Explanation) -> str:
    words = {"recent": "recent steps", "days": "days before", "weeks": "weeks before"}
    parts = [f"{words.get(name, name)} ({percent(s)})" for name, s in given.groups.items()]
    most = max(given.hours, key=lambda hour: hour.share)
    what = f"{list_names(parts)}, most {{}} {most.lag} ({percent(most.share)})"
    if given.shares_by != "attention":
        return f"By ablation it rests on {what.format('on')}."
    share, lag = max(zip(given.ablation_shares, (h.lag for h in given.hours), strict=True))
    return (
        f"Attention goes to {what.format('to')}; by ablation {lag} does most ({percent(share)})."
    )


def _places(given: Explanation) -> str:
    own = f"Its own past adds {given.own.gradient:+.3g}"
    if not given.neighbours:
        return f"{own}; that of no other location reaches it."
    named = [f"{place.name} ({place.gradient:+.3g})" for place in given.neighbours[:3]]
    return f"{own}; of others that of {list_names(named)} counts most."


def _draw_hours(axes: Any, given: Explanation) -> None:
    """Draw shares as bars, and as dots what they are best held against: what really happens."""
    hours, by = given.hours, given.shares_by
    days = np.array([hour.days for hour in hours])
    at = np.arange(len(hours)) + GAP * np.cumsum(np.diff(days, prepend=days[0]) != 0)
    other = "ablation" if by == "attention" else "gradient"
    size = np.abs([getattr(hour, other) for hour in hours])
    share = np.array([hour.share for hour in hours])
    axes.bar(at, 100 * share, width=0.9, color=BLUE, label=by)
    axes.plot(at, 100 * size / max(float(size.sum()), 1e-12), "o", color=ORANGE, markersize=4,
              markeredgecolor="white", label=other)  # fmt: skip
    ticks = {_earlier(hour): at[days == hour.days].mean() for hour in hours}
    if len(ticks) == 1:  # of recent steps alone each has its name
        ticks = {hour.lag: place for hour, place in zip(hours, at, strict=True)}
    axes.set_xticks(list(ticks.values()), list(ticks), rotation=90 if len(ticks) > CROWDED else 0)
    canvas.style(axes, up="share of the past, %")
    _explain(axes, 2)


def _draw_places(axes: Any, rows: Sequence[Place], *, apart: bool) -> None:
    """Draw what locations add; apart from it what they really do, where the two differ."""
    at = np.arange(len(rows), dtype=np.float64)
    axes.barh(at, [row.gradient for row in rows], height=0.7, color=BLUE, label="gradient")
    axes.plot([row.ablation for row in rows], at, "o", color=ORANGE, markersize=5,
              markeredgecolor="white", label="ablation")  # fmt: skip
    if apart:
        axes.plot([row.ablation_free for row in rows], at, "D", color=GREEN, markersize=5,
                  markeredgecolor="white", label="nothing held")  # fmt: skip
    axes.axvline(0, color=FAINT, linewidth=0.8)
    names = [shorten(row.name) for row in rows]
    names[0] += " (itself)"
    canvas.style_rows(axes, at, names, "what its past adds to the forecast")
    _explain(axes, 3)


def _explain(axes: Any, columns: int) -> None:
    """Say above the axes which mark is which method."""
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort([not hasattr(handle, "patches") for handle in handles], kind="stable")
    axes.legend([handles[n] for n in order], [labels[n] for n in order], frameon=False,
                fontsize=TEXT - 1, labelcolor=INK, ncols=columns, borderpad=0, handlelength=1.2,
                loc="lower left", bbox_to_anchor=(0, 1.01), columnspacing=1.2)  # fmt: skip


def _earlier(hour: Hour) -> str:
    """Return how much earlier an hour lies, as short as can be: `now`, `2 d`, `3 w`."""
    if not hour.days:
        return "now"
    weeks, rest = divmod(hour.days, 7)
    return f"{hour.days} d" if rest else f"{weeks} w"


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
    found = dict(_explain_cases(material.panel, estimator, list(cases.values())))
    pictures = [_draw(chosen, why) for chosen, why in found.items()]
    facts = {
        "City-wide": {chosen.title: say_city_wide(why) for chosen, why in found.items()},
        "How far the methods agree": _list_agreement(list(found.values())),
    }
    return Section("why", f"Why {row.name} says so", text, pictures, facts)


def _explain_cases(
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
