"""How often intervals held, and how wide they were: by group of target steps, by location."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.evaluation.backtest import FORMS, Form, Sureness
from forecaster.evaluation.comparison import Row
from forecaster.evaluation.tables import interval_name
from forecaster.metrics import Intervals
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.data import Material
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, INK, ORANGE, WIDTH
from forecaster.report.draw.charts import CROWDED, both_ends, draw_breakdown, shorten
from forecaster.report.draw.maps import map_values, means
from forecaster.report.formatting import duration, list_names, number, span_of, tenth_percent
from forecaster.report.groups import (
    FEWEST,
    Breakdown,
    Grouping,
    group_hours,
    group_steps,
    group_weather,
    ratio,
)
from forecaster.report.sections.errors import MOST_COVARIATES
from forecaster.report.sections.section import Picture, Section
from forecaster.report.tables import interval_table

Shares = Float64[np.ndarray, " G"]


@dataclass(frozen=True, eq=False)
class Held:
    """Which share of what came lay within a model's intervals, in groups of target steps."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # how many target steps there are in each group
    shares: Mapping[Form, Shares]  # the mean over trainings

    @property
    def contrast(self) -> float:
        """How far apart the groups are, as intervals hold online."""
        return float(np.ptp(self.shares["online"]))


def sureness_of(row: Row) -> list[Sureness]:
    """Return what became of the intervals in each training; none if they are none."""
    each = [found.sureness for found in row.found.values()]
    return [known for known in each if known is not None and known.wanted > 0]


def held_in(row: Row, grouping: Grouping) -> Held:
    """Return Σ inside / Σ spans of every group in which something was observed."""
    shares = {form: _mean(row, form, grouping, "inside") for form in FORMS}
    kept = np.flatnonzero(np.isfinite(shares["online"]))
    labels = tuple(grouping.labels[g] for g in kept)
    return Held(labels, grouping.steps[kept], {form: shares[form][kept] for form in FORMS})


def held_by_weather(row: Row, panel: Panel) -> dict[str, Held]:
    """Return the shares with little and much of each covariate, what differs most first."""
    found = {}
    for name, grouping in group_weather(row.first, panel).items():
        parted = held_in(row, grouping)
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def held_at_places(row: Row) -> Float64[np.ndarray, " N"]:
    """Return the share of each location, online and over all steps; NaN without any value."""
    sums = [known.places["online"] for known in sureness_of(row)]
    each = [ratio(part.inside.sum(axis=0), part.spans.sum(axis=0)) for part in sums]
    return np.asarray(np.mean(each, axis=0))


def widths_in(rows: Sequence[Row], grouping: Grouping) -> Breakdown:
    """Return the mean width Σ widths / Σ spans, online, of every group in which there is any."""
    widths = {row.name: _mean(row, "online", grouping, "widths") for row in rows}
    kept = np.flatnonzero(np.isfinite(next(iter(widths.values()))))
    labels = tuple(grouping.labels[g] for g in kept)
    return Breakdown(labels, grouping.steps[kept], {n: w[kept] for n, w in widths.items()})


def _mean(row: Row, form: Form, grouping: Grouping, part: str) -> Shares:
    """Return a part of the sums for each interval, the mean over trainings."""
    sums: list[Intervals] = [known.windows[form] for known in sureness_of(row)]
    each = [ratio(grouping.sum(getattr(s, part)), grouping.sum(s.spans)) for s in sums]
    return np.asarray(np.mean(each, axis=0))


NEAR = 0.02  # to either side of what is wanted: the ground that is shaded
LEAST_REACH = 0.04  # of the axis, to either side: a small difference must not look large
BAR = 0.8  # of the room of a group that its bars fill
LABEL = "within the interval, %"
COLOURS: dict[Form, str] = {"static": ORANGE, "online": BLUE}

SharesByForm = Mapping[Form, Float64[np.ndarray, " G"]]


def draw_held(given: Held, wanted: float, what: str) -> Any:
    """Return bars that reach from what is wanted to what came within, upright.

    Args:
        given: the shares of each group.
        wanted: the share that should lie within.
        what: what the groups are.
    """
    figure = canvas.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    at = np.arange(len(given.labels))
    thick = BAR / len(given.shares)
    for n, (form, shares) in enumerate(given.shares.items()):
        place = at + (n + 0.5) * thick - BAR / 2
        more = 100 * (shares - wanted)
        axes.bar(place, more, thick, bottom=100 * wanted, color=COLOURS[form], label=form)
    _mark_wanted(axes.axhspan, axes.axhline, wanted)
    axes.set_ylim(*_limits(given.shares, wanted))
    every = 1 if len(at) <= CROWDED else 3
    axes.set_xticks(at[::every], given.labels[::every])
    canvas.style(axes, what, LABEL)
    _explain(figure, axes)
    return figure


def draw_held_in_weather(given: Mapping[str, Held], wanted: float) -> Any:
    """Return such bars for each kind of weather, lying."""
    names: list[str] = []
    at: list[float] = []
    for n, (name, parted) in enumerate(given.items()):
        for label, steps in zip(parted.labels, parted.steps.tolist(), strict=True):
            at.append(len(names) + 0.6 * n)  # room between covariates
            names.append(f"{shorten(name)}: {label} ({steps:,})")
    forms = next(iter(given.values())).shares
    shares = {f: np.concatenate([parted.shares[f] for parted in given.values()]) for f in forms}
    return _draw_lying(names, np.array(at), shares, wanted)


def draw_held_at_places(
    locations: Locations,
    shares: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    wanted: float,
) -> Any:
    """Return the shares of all locations on a map, or as bars if none has coordinates.

    Args:
        locations: where they are.
        shares: that lay within, online; NaN is not drawn.
        sizes: how large the dots are, from 0 on.
        wanted: the share that should lie within.
    """
    known = np.flatnonzero(np.isfinite(shares))
    order = known[np.argsort(shares[known], kind="stable")].tolist()  # too sure first
    if locations.placed.any():
        return map_values(locations, 100 * shares, sizes, LABEL, order, around=100 * wanted)
    shown = both_ends(order)
    names = [shorten(locations.names[n]) for n in shown]
    at = np.arange(len(shown), dtype=np.float64)
    return _draw_lying(names, at, {"online": shares[shown]}, wanted)


def _draw_lying(
    names: Sequence[str], at: Float64[np.ndarray, " G"], shares: SharesByForm, wanted: float
) -> Any:
    figure = canvas.new_figure(WIDTH, 1.1 + 0.24 * (float(at[-1]) + 1))
    axes = figure.subplots()
    thick = BAR / len(shares)
    for n, (form, held) in enumerate(shares.items()):
        place = at + (n + 0.5) * thick - BAR / 2
        more = 100 * (held - wanted)
        axes.barh(place, more, thick, left=100 * wanted, color=COLOURS[form], label=form)
    _mark_wanted(axes.axvspan, axes.axvline, wanted)
    axes.set_xlim(*_limits(shares, wanted))
    canvas.style_rows(axes, at, names, LABEL)
    _explain(figure, axes)
    return figure


def _mark_wanted(shade: Any, rule: Any, wanted: float) -> None:
    """Draw what is wanted as a line, and the ground near it."""
    low, high = 100 * (wanted - NEAR), 100 * (wanted + NEAR)
    shade(low, high, color=FAINT, alpha=0.2, linewidth=0, zorder=0)
    label = f"wanted: {100 * wanted:g} %, ± {100 * NEAR:g} shaded"
    rule(100 * wanted, color=INK, linewidth=1.2, label=label)


def _limits(shares: SharesByForm, wanted: float) -> tuple[float, float]:
    """Return where the axis ends: as far to either side as the furthest bar, within 0 … 100."""
    furthest = max(float(np.abs(held - wanted).max(initial=0)) for held in shares.values())
    reach = 1.1 * max(furthest, LEAST_REACH)
    return 100 * max(wanted - reach, 0.0), 100 * min(wanted + reach, 1.0)


def _explain(figure: Any, axes: Any) -> None:
    """Say which bar is which, and what the line is."""
    handles, _ = axes.get_legend_handles_labels()
    canvas.write_legend(figure, handles, columns=3)


HOUR = "hour of the day, local time"


def sure_section(material: Material) -> Section:
    """Return how often the intervals of the model to use held; empty if it has none."""
    title, best, plain = "How sure", material.best, material.comparison.sureness
    if best is None or plain is None:
        return Section("sure", title, "", [])
    sureness = sureness_of(best)[0]
    aim = f"{100 * sureness.wanted:g} %"
    text = (
        f"{plain} If more than {aim} lies within, the interval is wider "
        "than it need be; if less, it is too sure of itself. Static intervals are set once on "
        "validation; online ones are corrected at every origin with what had come by then."
    )
    pictures = list(_pictures(material, best, sureness))
    return Section("sure", title, text, pictures, table=interval_table(material.comparison))


def _pictures(material: Material, best: Row, sureness: Sureness) -> Iterator[Picture]:
    panel, wanted = material.panel, sureness.wanted
    name = f"the {interval_name(sureness.levels)} of {best.name}"
    bars = f"Bars of how much of what came lay within {name}, static and online, by"
    steps = f"steps of {duration(panel.clock.step_minutes)} ahead"
    by_step = held_in(best, group_steps(best.first))
    yield Picture(
        "20-coverage-steps", "By step ahead", _ranges(by_step), f"{bars} {steps}",
        draw_held(by_step, wanted, steps),
    )  # fmt: skip
    hours = group_hours(best.first, panel)
    if hours is not None:
        by_hour = held_in(best, hours)
        yield Picture(
            "21-coverage-hours", "By hour of the day", _ends(by_hour), f"{bars} {HOUR}",
            draw_held(by_hour, wanted, HOUR),
        )  # fmt: skip
    weather = held_by_weather(best, panel)
    if weather:
        yield Picture(
            "22-coverage-weather", "By weather", _most(weather), f"{bars} kind of weather",
            draw_held_in_weather(weather, wanted),
        )  # fmt: skip
    yield from _by_place(material, best, wanted)
    yield _widths(material, best)


def _by_place(material: Material, best: Row, wanted: float) -> Iterator[Picture]:
    panel, shares = material.panel, held_at_places(best)
    known = np.flatnonzero(np.isfinite(shares))
    if len(known) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    low, high = (int(known[find(shares[known])]) for find in (np.argmin, np.argmax))
    ends = [f"{tenth_percent(shares[n])} at {panel.locations.names[n]}" for n in (low, high)]
    middle = [tenth_percent(part) for part in np.quantile(shares[known], [0.25, 0.75]).tolist()]
    text = (
        f"From {ends[0]} to {ends[1]}, online; at half of the locations between {middle[0]} and "
        f"{middle[1]}."
    )
    text += " Blue is less than wanted, orange more." if panel.locations.placed.any() else ""
    figure = draw_held_at_places(panel.locations, shares, np.abs(means(panel)), wanted)
    kind = f"Map or bars of how much lay within the interval of {best.name} at each location"
    yield Picture("23-coverage-by-location", "By location", text, kind, figure)


def _widths(material: Material, best: Row) -> Picture:
    """Return how wide the intervals of the drawn models are, by hour or else by step."""
    rows = [row for row in material.drawn if sureness_of(row)]
    hours = group_hours(best.first, material.panel)
    what = HOUR if hours is not None else "step ahead"
    widths = widths_in(rows, group_steps(best.first) if hours is None else hours)
    kind = f"Line chart of the mean width of the interval by {what} for "
    kind += list_names([row.name for row in rows])
    figure = draw_breakdown(widths, what, "mean width")
    return Picture("24-interval-width", "How wide it is", _extremes(widths, best), kind, figure)


def _extremes(given: Breakdown, best: Row) -> str:
    low, high = int(np.argmin(given.first)), int(np.argmax(given.first))
    least, most = (f"{number(given.first[n])} at {given.labels[n]}" for n in (low, high))
    return (
        f"The interval of {best.name} is narrowest with {least} and widest with {most}, online "
        "and on average. Of two that hold what they should, the narrower says more."
    )


def _ranges(given: Held) -> str:
    """Say between which shares the steps lie, in both forms."""
    online, static = (span_of(given.shares[form].tolist()) for form in ("online", "static"))
    return f"By step, {online} lay within online and {static} static."


def _ends(given: Held) -> str:
    """Say in which groups most and least lay within."""
    shares = given.shares["online"]
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    least, most = (f"{tenth_percent(shares[n])} at {given.labels[n]}" for n in (low, high))
    return f"Online, least lay within with {least} and most with {most}."


def _most(given: dict[str, Held]) -> str:
    """Say with which weather the shares differ most."""
    name, parted = next(iter(given.items()))
    shares = parted.shares["online"]
    parts = [
        f"{tenth_percent(s)} where {label}" for s, label in zip(shares, parted.labels, strict=True)
    ]
    return f"Online, shares differ most by {name}: {list_names(parts)}. In brackets: steps."
