"""The section on errors: RMSE by hour, weekday, step ahead and weather, errors by location."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from forecaster.evaluation.comparison import ModelResult
from forecaster.metrics import ErrorSums
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import WIDTH
from forecaster.report.draw.charts import (
    both_ends,
    draw_bars,
    draw_breakdown,
    line_styles,
    rank_locations,
    shorten,
)
from forecaster.report.draw.maps import location_means, map_values
from forecaster.report.draw.sample import describe_shown
from forecaster.report.formatting import duration, join_names, number, percent, with_minus
from forecaster.report.groups import (
    FEWEST_STEPS,
    MONTHS,
    Breakdown,
    Grouping,
    group_by_hour,
    group_by_month,
    group_by_step,
    group_by_weather,
    group_by_weekday,
    ratio,
)
from forecaster.report.sections.section import Picture, Section

MOST_COVARIATES = 6  # in one picture


def error_section(data: ReportData) -> Section:
    """Return the errors of the recommended model and of those it is compared with."""
    text = f"RMSE on the test windows, {data.unit}. All models are scored on the same values."
    pictures = [*_time_pictures(data)[:1], *_by_location(data)]
    return Section("errors", "When and where it errs", text, pictures)


def condition_section(data: ReportData) -> Section:
    """Return the errors by further times and by weather."""
    text = "RMSE on the test windows of the same models."
    pictures = [*_time_pictures(data)[1:], *_step_picture(data), *_weather_picture(data)]
    summary = f"{pictures[-1].text.partition('. ')[0].removesuffix('.')}." if pictures else ""
    return Section(
        "conditions", "Further errors by time and weather", text, pictures, summary=summary
    )


def by_hour(rows: Sequence[ModelResult], panel: Panel) -> Breakdown | None:
    """Return RMSE by hour of the day; None where a step is a day or longer."""
    hours = group_by_hour(rows[0].first, panel)
    return None if hours is None else _drop_empty(rmse_by_group(rows, hours))


def by_month(rows: Sequence[ModelResult], panel: Panel) -> Breakdown | None:
    """Return RMSE by month; None where a step is shorter than a week."""
    if not panel.clock.has_yearly_season:
        return None
    return _drop_empty(rmse_by_group(rows, group_by_month(rows[0].first, panel)))


def by_weekday(rows: Sequence[ModelResult], panel: Panel) -> Breakdown | None:
    """Return RMSE by day of the week; None where a step is a week or longer."""
    if panel.clock.has_yearly_season:
        return None
    return _drop_empty(rmse_by_group(rows, group_by_weekday(rows[0].first, panel)))


def by_step(rows: Sequence[ModelResult]) -> Breakdown:
    """Return RMSE by step ahead."""
    return rmse_by_group(rows, group_by_step(rows[0].first))


def by_weather(rows: Sequence[ModelResult], panel: Panel) -> dict[str, Breakdown]:
    """Return RMSE by low and high values of each covariate, the largest contrast first."""
    breakdowns = {}
    for name, grouping in group_by_weather(rows[0].first, panel).items():
        breakdown = _drop_empty(rmse_by_group(rows, grouping))
        if len(breakdown.labels) > 1 and breakdown.steps.min() >= FEWEST_STEPS:
            breakdowns[name] = breakdown
    ranked = sorted(breakdowns, key=lambda name: -breakdowns[name].contrast)
    return {name: breakdowns[name] for name in ranked[:MOST_COVARIATES]}


def rmse_by_group(rows: Sequence[ModelResult], grouping: Grouping) -> Breakdown:
    """Return RMSE = √(Σ squares / Σ values) of every group, the mean over trainings."""
    rmse = {}
    for row in rows:
        trainings = [_group_rmse(a.errors[a.weather], grouping) for a in row.results.values()]
        rmse[row.name] = np.mean(trainings, axis=0)
    return Breakdown(grouping.labels, grouping.steps, rmse)


def location_errors(row: ModelResult, panel: Panel) -> tuple[str, Float64[np.ndarray, " N"]]:
    """Return the name of the metric by location and its values; NaN without any observation.

    Counts: WAPE = Σ |x̂ − x| / Σ |x|, comparable for busy and quiet locations. Measurements:
    RMSE, since a relative error has no meaning around zero.
    """
    if panel.kind != "count":
        return "RMSE", location_rmse(row)
    sums = [assessment.by_location for assessment in row.results.values()]
    trainings = [ratio(e.absolutes.sum(axis=0), e.sizes.sum(axis=0)) for e in sums]
    return "WAPE", np.asarray(np.mean(trainings, axis=0))


def location_rmse(row: ModelResult) -> Float64[np.ndarray, " N"]:
    """Return the RMSE of each location, the mean over trainings; NaN without any observation."""
    sums = [assessment.by_location for assessment in row.results.values()]
    trainings = [np.sqrt(ratio(e.squares.sum(axis=0), e.values.sum(axis=0))) for e in sums]
    return np.asarray(np.mean(trainings, axis=0))


def draw_weather(breakdowns: Mapping[str, Breakdown], label: str = "RMSE") -> Any:
    """Draw RMSE by weather: a row for each group, a dot for each model."""
    groups = [(name, g) for name, b in breakdowns.items() for g in range(len(b.labels))]
    gaps = np.cumsum([g == 0 for _, g in groups])  # room between covariates
    heights = np.arange(len(groups)) + 0.6 * gaps
    figure = canvas.new_figure(WIDTH, 0.9 + 0.18 * float(heights[-1]))
    axes = figure.subplots()
    models = list(next(iter(breakdowns.values())).values)
    for model, line in line_styles(models).items():
        values = [breakdowns[name].values[model][g] for name, g in groups]
        axes.scatter(
            values, heights, s=26, color=line.colour, marker=line.mark, label=model, zorder=3
        )
    axes.set_xlim(left=0)
    names = [_group_name(breakdowns[name], name, g) for name, g in groups]
    canvas.style_rows(axes, heights, names, label)
    axes.grid(axis="y", **canvas.GRID)  # from a dot to its name
    canvas.write_legend(figure, axes.collections, columns=2)
    return figure


def draw_location_errors(
    locations: Locations,
    errors: Float64[np.ndarray, " N"],
    sizes: Float64[np.ndarray, " N"],
    label: str,
) -> Any:
    """Draw the errors of all locations on a map, or as bars if none has coordinates."""
    ranked = rank_locations(errors).tolist()
    if locations.placed.any():
        return map_values(locations, errors, sizes, label, ranked)
    shown = both_ends(ranked)
    return draw_bars([shorten(locations.names[n]) for n in shown], errors[shown], label)


def _group_rmse(errors: ErrorSums, grouping: Grouping) -> Float64[np.ndarray, " G"]:
    squares, values = (grouping.sum(part) for part in (errors.squares, errors.values))
    return np.asarray(np.sqrt(ratio(squares, values)))


def _drop_empty(breakdown: Breakdown) -> Breakdown:
    """Drop the groups in which nothing was observed."""
    observed = np.flatnonzero(np.isfinite(breakdown.first))
    values = {name: figures[observed] for name, figures in breakdown.values.items()}
    labels = tuple(breakdown.labels[g] for g in observed)
    return Breakdown(labels, breakdown.steps[observed], values)


def _group_name(breakdown: Breakdown, name: str, group: int) -> str:
    """Name a weather group with its number of steps: `rain: yes (120)`."""
    return f"{shorten(name)}: {breakdown.labels[group]} ({breakdown.steps[group]:,})"


def _time_pictures(data: ReportData) -> list[Picture]:
    """Return the errors by hour, weekday and month, as far as they differ."""
    best, rows, panel = data.best, data.drawn, data.panel
    if best is None:
        return []
    charts = (
        ("04-hours", "RMSE by hour of day", by_hour(rows, panel), "hour of day, local time"),
        ("05-weekdays", "RMSE by weekday", by_weekday(rows, panel), "day of the week"),
        ("05-months", "RMSE by month", by_month(rows, panel), "month of the year"),
    )
    return [
        Picture(
            name, title, _describe_extremes(breakdown, best),
            f"Line chart of RMSE by {axis} for {_name_models(data)}",
            draw_breakdown(breakdown, axis, f"RMSE, {data.unit}"),
        )
        for name, title, breakdown, axis in charts
        if breakdown is not None and len(breakdown.labels) > 1
    ]  # fmt: skip


def _step_picture(data: ReportData) -> Iterator[Picture]:
    """Yield the errors by step ahead, if there are several."""
    if data.best is None or len((breakdown := by_step(data.drawn)).labels) < 2:  # noqa: PLR2004
        return
    axis = f"steps of {duration(data.panel.clock.step_minutes)} ahead"
    yield Picture(
        "06-steps", "RMSE by step ahead", _describe_growth(breakdown, data.best),
        f"Line chart of RMSE by {axis} for {_name_models(data)}",
        draw_breakdown(breakdown, axis, f"RMSE, {data.unit}"),
    )  # fmt: skip


def _weather_picture(data: ReportData) -> Iterator[Picture]:
    """Yield the errors by weather, if they differ."""
    weather = by_weather(data.drawn, data.panel) if data.best is not None else {}
    if data.best is not None and weather:
        yield Picture(
            "07-weather", "RMSE by weather", _describe_weather(weather, data.best),
            f"Dot chart of RMSE by weather for {_name_models(data)}",
            draw_weather(weather, f"RMSE, {data.unit}"),
        )  # fmt: skip


def _name_models(data: ReportData) -> str:
    return join_names([row.name for row in data.drawn])


def _describe_extremes(breakdown: Breakdown, best: ModelResult) -> str:
    """Name the groups with the largest and the smallest RMSE."""
    ends = int(np.argmax(breakdown.first)), int(np.argmin(breakdown.first))
    at = "at" if ":" in breakdown.labels[0] else "on"
    at = "in" if breakdown.labels[0] in MONTHS else at
    highest, lowest = (f"{at} {breakdown.labels[n]} ({number(breakdown.first[n])})" for n in ends)
    return f"The RMSE of {best.name} is highest {highest} and lowest {lowest}."


def _describe_growth(breakdown: Breakdown, best: ModelResult) -> str:
    """Give the RMSE of the first and the last step ahead."""
    first, last = float(breakdown.first[0]), float(breakdown.first[-1])
    growth = 100 * (last / max(first, 1e-9) - 1)
    return with_minus(
        f"The RMSE of {best.name} changes from {number(first)} at step 1 to {number(last)} at "
        f"step {len(breakdown.labels)} ({growth:+.0f} %)."
    )


def _describe_weather(breakdowns: dict[str, Breakdown], best: ModelResult) -> str:
    """Name the covariate with the largest contrast."""
    name, breakdown = next(iter(breakdowns.items()))
    ends = int(np.argmax(breakdown.first)), int(np.argmin(breakdown.first))
    high, low = (f"{number(breakdown.first[n])} where {breakdown.labels[n]}" for n in ends)
    return (
        f"The RMSE of {best.name} differs most by {name}: {high}, {low}. Weather correlates with "
        "hour and season, so the difference is not its effect alone. Number of steps in brackets."
    )


def _by_location(data: ReportData) -> Iterator[Picture]:
    """Yield the errors by location, if there are several."""
    panel, best = data.panel, data.best
    if best is None:
        return
    metric, errors = location_errors(best, panel)
    ranked = rank_locations(errors)
    if len(ranked) < 2:  # noqa: PLR2004 (nothing to compare)
        return
    show = percent if metric == "WAPE" else number
    highest, lowest = int(ranked[0]), int(ranked[-1])
    text = (
        f"The {metric} of {best.name} ranges from {show(errors[lowest])} at "
        f"{panel.locations.names[lowest]} to {show(errors[highest])} at "
        f"{panel.locations.names[highest]}; the median is "
        f"{show(float(np.median(errors[ranked])))}. "
        f"{_describe_map(panel.locations, errors)}"
    ).rstrip()
    scale, label = (100.0, "WAPE, %") if metric == "WAPE" else (1.0, f"{metric}, {data.unit}")
    sizes = np.abs(location_means(panel))
    figure = draw_location_errors(panel.locations, scale * errors, sizes, label)
    alt = f"Map or bar chart of {metric} by location"
    yield Picture("08-error-by-location", f"{metric} by location", text, alt, figure)


def _describe_map(locations: Locations, errors: Float64[np.ndarray, " N"]) -> str:
    """Say which locations the map of the errors shows; empty if it shows all."""
    count = int((locations.placed & np.isfinite(errors)).sum())
    return describe_shown(count, "the highest errors")
