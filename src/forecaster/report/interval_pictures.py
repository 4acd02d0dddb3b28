"""How sure a model is and how often that was right, as pictures with what to see in them."""

from collections.abc import Iterator

import numpy as np

from forecaster.evaluation.backtest import Sureness
from forecaster.evaluation.comparison import Row
from forecaster.evaluation.tables import interval_name
from forecaster.report.breakdown import Breakdown
from forecaster.report.charts import draw_breakdown
from forecaster.report.groups import group_hours, group_steps
from forecaster.report.interval_charts import (
    draw_held,
    draw_held_at_places,
    draw_held_in_weather,
)
from forecaster.report.intervals import (
    Held,
    held_at_places,
    held_by_weather,
    held_in,
    sureness_of,
    widths_in,
)
from forecaster.report.maps import means
from forecaster.report.material import Material
from forecaster.report.picture import Picture, Section
from forecaster.report.tables import interval_table
from forecaster.report.words import duration, list_names, number, span_of, tenth_percent

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
