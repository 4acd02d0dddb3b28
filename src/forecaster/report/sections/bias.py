"""The section on bias: whether forecasts are too high or too low, by location size and hour."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from forecaster.evaluation.bias import SizeBias, name_sizes
from forecaster.evaluation.comparison import ModelResult
from forecaster.evaluation.tables import format_bias
from forecaster.report.data import ReportData
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import FAINT, WIDTH
from forecaster.report.draw.charts import CROWDED, line_styles
from forecaster.report.formatting import join_names, number, too_high_or_low
from forecaster.report.sections.section import Picture, Section

MOST_MODELS = 3  # in one picture
LEAST_REACH = 5.0  # per cent: a small bias must not look large
MOST_REACH = 2.0  # times the largest bias of the first model; lines beyond it are cut off

Biases = dict[str, Sequence[float | None]]  # by model, the recommended one first


def bias_section(data: ReportData) -> Section:
    """Return the bias of the recommended model and of those it is compared with."""
    text = (
        "Bias is the sum of forecast minus observed, relative to the sum observed: 0 % is best. "
        "Forecasts without bias add up over places and hours."
    )
    rows = data.drawn[:MOST_MODELS]
    overall = [(row.name, overall_bias(row)) for row in rows]
    parts = [f"{name} {too_high_or_low(bias)}" for name, bias in overall if bias is not None]
    summary = "By location size and hour of day."
    if parts:
        summary = f"Over all test windows: {join_names(parts)}."
    pictures = list(_pictures(data, rows))
    return Section("bias", "Bias: too high or too low", text, pictures, summary=summary)


def overall_bias(row: ModelResult) -> float | None:
    """Return the bias over all test windows, the mean over trainings; None if not known."""
    return row.seed_means("bias", row.first.weather)[0].mean


def draw_biases(biases: Biases, labels: Sequence[str], axis: str) -> Any:
    """Draw the bias of each group in per cent, a line for each model, around zero.

    Args:
        biases: of every group; None where nothing was observed.
        labels: of the groups.
        axis: what the groups are.
    """
    figure = canvas.new_figure(WIDTH, canvas.HEIGHT)
    axes = figure.subplots()
    axes.axhline(0.0, color=FAINT, linewidth=1.0)
    lines = []
    for name, line in line_styles(list(biases)).items():
        percents = _percents(biases[name])
        lines += axes.plot(percents, color=line.colour, linestyle=line.line, marker=line.mark,
                           markersize=4, linewidth=1.5, label=name)  # fmt: skip
    every = 1 if len(labels) <= CROWDED else 3
    axes.set_xticks(range(0, len(labels), every), labels[::every])
    reach = _reach(biases)
    axes.set_ylim(-reach, reach)
    canvas.style(axes, axis, "bias, %")
    canvas.write_legend(figure, lines, columns=2)
    return figure


def _pictures(data: ReportData, rows: Sequence[ModelResult]) -> Iterator[Picture]:
    """Yield the bias by location size and by hour of day, as far as they are known."""
    best = data.best
    if best is None or overall_bias(best) is None:
        return
    names = join_names([row.name for row in rows])
    sizes = best.size_bias()
    if len(sizes) > 1:
        biases: Biases = {row.name: [group.bias for group in row.size_bias()] for row in rows}
        labels = _label_sizes(sizes)
        axis = f"locations by size, with their mean in training, {data.unit}"
        alt = f"Line chart of bias by location size for {names}"
        text = _describe_sizes(best.name, sizes) + _describe_cut(biases)
        chart = draw_biases(biases, labels, axis)
        yield Picture("30-bias-by-size", "Bias by location size", text, alt, chart)
    hours = best.hour_bias()
    if sum(bias is not None for bias in hours) > 1:
        biases = {row.name: row.hour_bias() for row in rows}
        labels = [f"{hour}:00" for hour in range(len(hours))]
        alt = f"Line chart of bias by hour of day for {names}"
        text = _describe_hours(best.name, hours) + _describe_cut(biases)
        chart = draw_biases(biases, labels, "hour of day, local time")
        yield Picture("31-bias-by-hour", "Bias by hour of day", text, alt, chart)


def _label_sizes(sizes: Sequence[SizeBias]) -> list[str]:
    """Name the groups of locations with their mean value, on two lines."""
    names = name_sizes(len(sizes))
    return [f"{name}\n{number(group.size)}" for name, group in zip(names, sizes, strict=True)]


def _describe_sizes(name: str, sizes: Sequence[SizeBias]) -> str:
    """Give the bias at the smallest and at the largest locations."""
    names = name_sizes(len(sizes))
    by_size = [(names[g], size.bias) for g, size in enumerate(sizes) if size.bias is not None]
    if not by_size:
        return ""
    (first, low), (last, high) = by_size[0], by_size[-1]
    return (
        f"Forecasts of {name} are {too_high_or_low(low)} for the {first} of the locations and "
        f"{too_high_or_low(high)} for the {last}."
    )


def _describe_hours(name: str, hours: Sequence[float | None]) -> str:
    """Name the hours with the highest and the lowest bias."""
    by_hour = [(bias, hour) for hour, bias in enumerate(hours) if bias is not None]
    highest, lowest = (
        f"at {hour}:00 ({format_bias(b)} %)" for b, hour in (max(by_hour), min(by_hour))
    )
    return f"The bias of {name} is highest {highest} and lowest {lowest}."


def _describe_cut(biases: Biases) -> str:
    """Name the models whose lines leave the picture."""
    reach = _reach(biases)
    cut = [name for name, values in biases.items() if _largest(values) > reach]
    return f" The line of {join_names(cut)} leaves the picture." if cut else ""


def _reach(biases: Biases) -> float:
    """Return how far the axis reaches from zero, in per cent."""
    first = max(_largest(next(iter(biases.values()))), LEAST_REACH)
    largest = max(_largest(values) for values in biases.values())
    return 1.08 * min(max(largest, LEAST_REACH), MOST_REACH * first)


def _largest(values: Sequence[float | None]) -> float:
    return max((abs(100 * value) for value in values if value is not None), default=0.0)


def _percents(values: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else 100 * value for value in values]
