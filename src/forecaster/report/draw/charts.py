"""Line and bar charts, and the line styles of models."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, GREEN, HEIGHT, ORANGE, WIDTH
from forecaster.report.groups import Breakdown

CROWDED = 8  # most labels of an axis that are readable
MOST_MARKS = 24  # points of a line that have a marker
MOST_BARS = 20  # in one chart
LONGEST_NAME, NAME_END = 28, 10  # letters of a name, and of the end of a longer one


class LineStyle(NamedTuple):
    """Colour, marker and line of a model; models differ in more than the colour."""

    colour: str
    mark: str
    line: str


LINE_STYLES = (
    LineStyle(BLUE, "o", "-"),
    LineStyle(ORANGE, "s", "-"),
    LineStyle(GREEN, "^", "-"),
    LineStyle(FAINT, "D", "--"),
)


def line_styles(models: Sequence[str]) -> dict[str, LineStyle]:
    """Return the styles of up to four models, by name."""
    return dict(zip(models, LINE_STYLES, strict=False))


def draw_breakdown(breakdown: Breakdown, axis: str, figure_name: str = "RMSE") -> Any:
    """Draw the figures by group, a line for each model.

    Args:
        breakdown: the figures of at most four models.
        axis: what the groups are.
        figure_name: the name of the figures.
    """
    figure = canvas.new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    count = len(breakdown.labels)
    for name, line in line_styles(list(breakdown.values)).items():
        mark = line.mark if count <= MOST_MARKS else ""
        axes.plot(breakdown.values[name], color=line.colour, linestyle=line.line, marker=mark,
                  markersize=4, linewidth=1.5, label=name)  # fmt: skip
    every = 1 if count <= CROWDED else 3
    if count > MOST_MARKS:  # a long horizon: about seven labels, at whole days of hours
        every = next((e for e in (6, 12, 24, 48, 96) if count / e <= CROWDED), count)
    ticks = np.arange(0 if every <= 3 else every - 1, count, every)  # noqa: PLR2004
    axes.set_xticks(
        ticks, [breakdown.labels[n][:3] if every == 1 else breakdown.labels[n] for n in ticks]
    )
    axes.set_ylim(
        0, 1.08 * max(float(np.nanmax(values)) for values in breakdown.values.values()) or 1
    )
    canvas.style(axes, axis, figure_name)
    canvas.write_legend(figure, axes.get_lines(), columns=2)
    return figure


def rank_locations(values: Float64[np.ndarray, " N"]) -> Int64[np.ndarray, " K"]:
    """Return the locations with a finite value, the largest first."""
    order = np.argsort(-values, kind="stable")
    return np.asarray(order[np.isfinite(values[order])])


def both_ends(ranked: list[int]) -> list[int]:
    """Return the first and the last locations, at most MOST_BARS."""
    half = MOST_BARS // 2
    return ranked if len(ranked) <= MOST_BARS else ranked[:half] + ranked[-half:]


def shorten(name: str) -> str:
    """Shorten a name to LONGEST_NAME letters; its end stays, which often tells names apart."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - NAME_END - 1].rstrip()}…{name[-NAME_END:].lstrip()}"


def draw_bars(names: Sequence[str], values: Float64[np.ndarray, " K"], label: str) -> Any:
    """Draw a horizontal bar for each name, the first on top."""
    figure = canvas.new_figure(WIDTH, 0.8 + 0.21 * len(names))
    axes = figure.subplots()
    at = np.arange(len(names), dtype=np.float64)
    axes.barh(at, values, height=0.7, color=BLUE)
    canvas.style_rows(axes, at, names, label)
    return figure
