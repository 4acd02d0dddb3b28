"""Charts of errors: by hour, weekday, step and weather as lines and dots, by location as a map."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.report.data import NAIVE
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import BLUE, FAINT, GREEN, ORANGE, WIDTH
from forecaster.report.groups import Breakdown

CROWDED = 8  # labels below an axis that can all be read
MOST_PLACES = 20  # bars in one chart: the worst and the best
LONGEST_NAME = 28  # letters


class Look(NamedTuple):
    """How a model is drawn: in colours, marks and lines that can be told apart without each."""

    colour: str
    mark: str
    line: str


LOOKS = (Look(BLUE, "o", "-"), Look(ORANGE, "s", "-"), Look(GREEN, "^", "-"))
NAIVE_LOOK = Look(FAINT, "D", "--")


def looks(models: Sequence[str]) -> dict[str, Look]:
    """Return how up to four models are drawn, by name; what all have to beat is faint."""
    others = [model for model in models if model != NAIVE]
    found = dict(zip(others, LOOKS, strict=False))
    return found | ({NAIVE: NAIVE_LOOK} if NAIVE in models else {})


def draw_breakdown(given: Breakdown, what: str, figure_name: str = "RMSE") -> Any:
    """Return the figures of each group as a line for each model.

    Args:
        given: the figures of at most four models.
        what: what the groups are.
        figure_name: what the figures are.
    """
    figure = canvas.new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    for name, look in looks(list(given.values)).items():
        axes.plot(given.values[name], color=look.colour, linestyle=look.line, marker=look.mark,
                  markersize=4, linewidth=1.5, label=name)  # fmt: skip
    every = 1 if len(given.labels) <= CROWDED else 3
    ticks = np.arange(0, len(given.labels), every)
    axes.set_xticks(ticks, [given.labels[n][:3] if every == 1 else given.labels[n] for n in ticks])
    axes.set_ylim(0, 1.08 * max(float(np.nanmax(values)) for values in given.values.values()) or 1)
    canvas.style(axes, what, figure_name)
    canvas.write_legend(figure, axes.get_lines(), columns=2)
    return figure


def rank(errors: Float64[np.ndarray, " N"]) -> Int64[np.ndarray, " K"]:
    """Return the locations that have an error, the largest first."""
    order = np.argsort(-errors, kind="stable")
    return np.asarray(order[np.isfinite(errors[order])])


def both_ends(ranked: list[int]) -> list[int]:
    """Return as many of the first and of the last as bars have room for."""
    half = MOST_PLACES // 2
    return ranked if len(ranked) <= MOST_PLACES else ranked[:half] + ranked[-half:]


def shorten(name: str) -> str:
    """Return a name that leaves room for what it names."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def draw_bars(names: Sequence[str], values: Float64[np.ndarray, " K"], label: str) -> Any:
    """Return a bar for each name, from above to below."""
    figure = canvas.new_figure(WIDTH, 0.8 + 0.21 * len(names))
    axes = figure.subplots()
    at = np.arange(len(names), dtype=np.float64)
    axes.barh(at, values, height=0.7, color=BLUE)
    canvas.style_rows(axes, at, names, label)
    return figure
