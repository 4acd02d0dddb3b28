"""Charts of errors: by hour, weekday, step and weather as lines and dots, by location as a map."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.panel.parts import Locations
from forecaster.report import canvas
from forecaster.report.breakdown import Breakdown
from forecaster.report.canvas import BLUE, FAINT, GREEN, ORANGE, WIDTH
from forecaster.report.maps import map_values
from forecaster.report.material import NAIVE

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


def _kind(given: Breakdown, name: str, group: int) -> str:
    """Return a kind of weather in words: `rain: yes (120)`."""
    return f"{shorten(name)}: {given.labels[group]} ({given.steps[group]:,})"
