"""Where errors come from: hours, weekdays, weather, steps ahead and locations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.comparison import Row
from forecaster.metrics import Errors
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.data import Material
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import WIDTH
from forecaster.report.draw.charts import (
    both_ends,
    draw_bars,
    draw_breakdown,
    looks,
    rank,
    shorten,
)
from forecaster.report.draw.maps import map_values, means
from forecaster.report.formatting import duration, list_names, number, percent, with_minus
from forecaster.report.groups import (
    FEWEST,
    Breakdown,
    Grouping,
    group_hours,
    group_steps,
    group_weather,
    group_weekdays,
    ratio,
)
from forecaster.report.sections.section import Picture

MOST_COVARIATES = 6  # in one picture


def by_hour(rows: Sequence[Row], panel: Panel) -> Breakdown | None:
    """Return the errors of each hour of the day; None where a step is a day or longer."""
    hours = group_hours(rows[0].first, panel)
    return None if hours is None else _drop_empty(group_errors(rows, hours))


def by_weekday(rows: Sequence[Row], panel: Panel) -> Breakdown:
    """Return the errors of each day of the week."""
    return _drop_empty(group_errors(rows, group_weekdays(rows[0].first, panel)))


def by_step(rows: Sequence[Row]) -> Breakdown:
    """Return the errors of each step ahead."""
    return group_errors(rows, group_steps(rows[0].first))


def by_weather(rows: Sequence[Row], panel: Panel) -> dict[str, Breakdown]:
    """Return the errors with little and much of each covariate, what differs most first."""
    found = {}
    for name, grouping in group_weather(rows[0].first, panel).items():
        parted = _drop_empty(group_errors(rows, grouping))
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def group_errors(rows: Sequence[Row], grouping: Grouping) -> Breakdown:
    """Return RMSE = √(Σ squares / Σ values) of every group, the mean over trainings."""
    rmse = {}
    for row in rows:
        each = [_group(_errors(found), grouping) for found in row.found.values()]
        rmse[row.name] = np.mean(each, axis=0)
    return Breakdown(grouping.labels, grouping.steps, rmse)


def place_errors(row: Row, panel: Panel) -> tuple[str, Float64[np.ndarray, " N"]]:
    """Return what is said of each location's errors, and their figure; NaN without any value.

    Counts: WAPE = Σ |x̂ − x| / Σ |x|, alike for busy and quiet places. Measurements: RMSE, since
    around zero a share means nothing.
    """
    if panel.kind != "count":
        return "RMSE", place_rmse(row)
    sums = [found.places for found in row.found.values()]
    each = [ratio(e.absolutes.sum(axis=0), e.sizes.sum(axis=0)) for e in sums]
    return "WAPE", np.asarray(np.mean(each, axis=0))


def place_rmse(row: Row) -> Float64[np.ndarray, " N"]:
    """Return the RMSE of each location, the mean over trainings; NaN without any value."""
    sums = [found.places for found in row.found.values()]
    each = [np.sqrt(ratio(e.squares.sum(axis=0), e.values.sum(axis=0))) for e in sums]
    return np.asarray(np.mean(each, axis=0))


def _errors(found: Assessment) -> Errors:
    return found.errors[found.weather]


def _group(errors: Errors, grouping: Grouping) -> Float64[np.ndarray, " G"]:
    squares, values = (grouping.sum(part) for part in (errors.squares, errors.values))
    return np.asarray(np.sqrt(ratio(squares, values)))


def _drop_empty(given: Breakdown) -> Breakdown:
    """Return the groups in which something was observed."""
    kept = np.flatnonzero(np.isfinite(given.first))
    values = {name: figures[kept] for name, figures in given.values.items()}
    return Breakdown(tuple(given.labels[g] for g in kept), given.steps[kept], values)


def draw_weather(given: Mapping[str, Breakdown]) -> Any:
    """Return the errors in each kind of weather, a row for each and a dot for each model."""
    lines = [(name, g) for name, parted in given.items() for g in range(len(parted.labels))]
    gaps = np.cumsum([g == 0 for _, g in lines])  # room between covariates
    at = np.arange(len(lines)) + 0.6 * gaps
    figure = canvas.new_figure(WIDTH, 1.1 + 0.2 * float(at[-1]))
    axes = figure.subplots()
    models = list(next(iter(given.values())).values)
    for model, look in looks(models).items():
        values = [given[name].values[model][g] for name, g in lines]
        axes.scatter(values, at, s=26, color=look.colour, marker=look.mark, label=model, zorder=3)
    axes.set_xlim(left=0)
    canvas.style_rows(axes, at, [_kind(given[name], name, g) for name, g in lines], "RMSE")
    axes.grid(axis="y", **canvas.GRID)  # from a dot to its name
    canvas.write_legend(figure, axes.collections, columns=2)
    return figure


def draw_place_errors(
    locations: Locations,
    errors: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    label: str,
) -> Any:
    """Return the errors of all locations on a map, or as bars if none has coordinates."""
    ranked = rank(errors).tolist()
    if locations.placed.any():
        return map_values(locations, errors, sizes, label, ranked)
    shown = both_ends(ranked)
    return draw_bars([shorten(locations.names[n]) for n in shown], errors[shown], label)


def _kind(given: Breakdown, name: str, group: int) -> str:
    """Return a kind of weather in words: `rain: yes (120)`."""
    return f"{shorten(name)}: {given.labels[group]} ({given.steps[group]:,})"


def error_pictures(material: Material) -> Iterator[Picture]:
    """Yield the errors by hour, weekday, step, weather and location, as far as they differ."""
    best, rows, panel = material.best, material.drawn, material.panel
    if best is None:
        return
    step = f"steps of {duration(panel.clock.step_minutes)} ahead"
    parts = (
        ("04-hours", "By hour of the day", by_hour(rows, panel), "hour of the day, local time"),
        ("05-weekdays", "By weekday", by_weekday(rows, panel), "day of the week"),
        ("06-steps", "By step ahead", by_step(rows), step),
    )
    names = list_names([row.name for row in rows])
    for name, title, parted, what in parts:
        if parted is not None and len(parted.labels) > 1:
            say = _growth if what is step else _extremes
            kind = f"Line chart of RMSE by {what} for {names}"
            yield Picture(name, title, say(parted, best), kind, draw_breakdown(parted, what))
    weather = by_weather(rows, panel)
    if weather:
        kind = f"Dot chart of RMSE in kinds of weather for {names}"
        yield Picture(
            "07-weather", "By weather", _most(weather, best), kind, draw_weather(weather)
        )
    yield from _by_place(material, best)


def _extremes(given: Breakdown, best: Row) -> str:
    """Say when errors are largest and smallest."""
    ends = int(np.argmax(given.first)), int(np.argmin(given.first))
    at = "at" if ":" in given.labels[0] else "on"
    most, least = (f"{at} {given.labels[n]} (RMSE {number(given.first[n])})" for n in ends)
    return f"Errors of {best.name} are largest {most} and smallest {least}."


def _growth(given: Breakdown, best: Row) -> str:
    """Say how errors grow with the steps ahead."""
    first, last = float(given.first[0]), float(given.first[-1])
    grown = 100 * (last / max(first, 1e-9) - 1)
    return with_minus(
        f"From the first step to step {len(given.labels)} RMSE of {best.name} goes from "
        f"{number(first)} to {number(last)} ({grown:+.0f} %)."
    )


def _most(given: dict[str, Breakdown], best: Row) -> str:
    """Say with which weather errors differ most."""
    name, parted = next(iter(given.items()))
    high, low = int(np.argmax(parted.first)), int(np.argmin(parted.first))
    most, least = (f"{number(parted.first[n])} where {parted.labels[n]}" for n in (high, low))
    return (
        f"Errors of {best.name} differ most by {name}: RMSE {most}, {least}. Weather goes with "
        "hour and season, so a difference is not its effect alone. In brackets: steps."
    )


def _by_place(material: Material, best: Row) -> Iterator[Picture]:
    panel = material.panel
    measure, errors = place_errors(best, panel)
    ranked = rank(errors)
    if len(ranked) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    shown = percent if measure == "WAPE" else number
    worst, easiest = int(ranked[0]), int(ranked[-1])
    text = (
        f"{measure} of {best.name} reaches from {shown(errors[easiest])} at "
        f"{panel.locations.names[easiest]} to {shown(errors[worst])} at "
        f"{panel.locations.names[worst]}; half of the locations are below "
        f"{shown(float(np.median(errors[ranked])))}."
    )
    scale, label = (100.0, "WAPE, %") if measure == "WAPE" else (1.0, measure)
    figure = draw_place_errors(panel.locations, scale * errors, np.abs(means(panel)), label)
    kind = f"Map or bars of {measure} at each location"
    yield Picture("08-error-by-location", "By location", text, kind, figure)
