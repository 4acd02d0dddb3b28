"""Pictures of a dependency graph: its matrix, its map, its degrees, and how it was chosen."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.errors import count_of
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.graph.edges import distance_km
from forecaster.panel.panel import Panel
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import (
    BLUE,
    FAINT,
    INK,
    ORANGE,
    PAPER_DPI,
    TEXT,
    WIDTH,
    new_figure,
)
from forecaster.report.draw.maps import map_places, means, new_map, write_names
from forecaster.report.formatting import list_names, number
from forecaster.report.sections.section import Picture

POSITIVE, NEGATIVE = BLUE, ORANGE
TOP = 400  # dependencies on the map, as in the paper's figure
NAMED_HUBS = 5
SAMPLED_PAIRS = 200_000  # of all pairs, for the distance that is usual
MANY_DOTS = 4_000  # from here on they are kept as a picture in a picture
_INCH_POINTS = 72


def draw_graph(graph: DependencyGraph) -> dict[str, bytes]:
    """Return every picture that can be drawn as PNG, by its name; some need coordinates."""
    drawn = {"structure": draw_structure(graph), "degrees": draw_degrees(graph)}
    if graph.locations.placed.sum() > 1:
        drawn |= {"map": draw_map(graph), "distances": draw_distances(graph)}
    words = describe_graph(graph)
    for name, figure in drawn.items():
        figure.axes[0].set_title(
            words[name].replace("; ", "\n"), color=INK, fontsize=TEXT, loc="left",
            parse_math=False,
        )  # fmt: skip
    return {name: canvas.to_png(figure, PAPER_DPI) for name, figure in drawn.items()}


def describe_graph(graph: DependencyGraph) -> dict[str, str]:
    """Return what each picture of a graph shows, in words."""
    size = f"{count_of(len(graph.locations), 'location')}, {_dependencies(graph)}"
    whole = f"{size}, average degree {graph.average_degree:.2f}"
    hubs = "; ".join(f"{name} ({degree})" for name, degree in graph.hubs(2))
    top = f"; the {TOP} strongest are drawn" if _placed(graph) > TOP else ""
    words = {
        "structure": f"{whole}; {_rule(graph)}",
        "degrees": whole + (f"; most: {hubs}" if hubs else ""),
        "map": whole + top,
    }
    if graph.locations.placed.sum() > 1:
        words["distances"] = say_how_near(graph)
    return words


def draw_structure(graph: DependencyGraph) -> Any:
    """Return the structure of the conditional-correlation matrix: a dot per entry that is kept."""
    N, side = len(graph.locations), 0.8 * WIDTH  # inches of the matrix
    figure = new_figure(WIDTH, WIDTH)
    axes = figure.subplots()
    size = float(np.clip(side * _INCH_POINTS / N, 1.2, 14.0)) ** 2
    both_ways = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    colours = np.tile(_colours(graph.strengths), 2)
    how: dict[str, Any] = {"s": size, "marker": "s", "linewidths": 0}
    how["rasterized"] = len(both_ways) > MANY_DOTS
    axes.scatter(*np.indices((2, N))[1], c=FAINT, alpha=0.6, **how)
    axes.scatter(*both_ways.T, c=colours, **how)
    axes.set(xlim=(-0.5, N - 0.5), ylim=(N - 0.5, -0.5), aspect="equal")
    _finish(axes, ("location", "location"), integers=True)
    axes.grid(visible=False)
    for edge in axes.spines.values():
        edge.set_visible(True)
    _legend(figure, graph.strengths)
    return figure


def draw_degrees(graph: DependencyGraph) -> Any:
    """Return how many locations have how many dependencies."""
    figure = new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    counts = np.bincount(graph.degrees)
    axes.bar(np.arange(len(counts)), counts, width=0.8, color=POSITIVE)
    axes.axvline(graph.average_degree, color=INK, linewidth=1, linestyle="--")
    axes.annotate(
        f"average {graph.average_degree:.2f}", (graph.average_degree, 1), (4, -4), color=INK,
        xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
        fontsize=TEXT - 1,
    )  # fmt: skip
    axes.set(xlim=(-0.6, len(counts) - 0.4), ylim=(0, 1.15 * counts.max()))  # and room for words
    _finish(axes, ("dependencies of a location", "locations"), integers=True)
    return figure


def draw_map(graph: DependencyGraph) -> Any:
    """Return the strongest dependencies on a plain map, wider where they are stronger."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415 (an extra)

    places, placed = graph.locations, graph.locations.placed
    figure, axes = new_map(places)
    top, at = _strongest(graph), np.column_stack([places.lon, places.lat])
    strengths = graph.strengths[top]
    widths = 0.3 + 1.7 * np.abs(strengths) / np.abs(strengths).max(initial=1e-9)
    lines = at[graph.pairs[top]]
    axes.add_collection(
        LineCollection(lines, colors=_colours(strengths), linewidths=widths, alpha=0.8)
    )
    size = (3 + 3 * graph.degrees[placed]) * min(1.0, 10 / placed.sum() ** 0.5)  # many need room
    axes.scatter(*at[placed].T, s=size, c=INK, linewidths=0, zorder=1)  # below the lines
    hubs = np.argsort(-graph.degrees, kind="stable")[: np.count_nonzero(graph.degrees)].tolist()
    names = {n: f"{places.names[n]} ({graph.degrees[n]})" for n in hubs}
    write_names(axes, places, names, NAMED_HUBS)
    _legend(figure, strengths)
    return figure


def draw_distances(graph: DependencyGraph) -> Any:
    """Return the strength of every dependency against the distance it spans."""
    figure = new_figure(WIDTH, 3.4)
    axes = figure.subplots()
    known = np.isfinite(graph.lengths_km)
    lengths, strengths = graph.lengths_km[known], graph.strengths[known]
    axes.scatter(lengths, strengths, s=9, c=_colours(strengths), alpha=0.6, linewidths=0,
                 rasterized=len(lengths) > MANY_DOTS)  # fmt: skip
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=None if (strengths < 0).any() else 0)
    _finish(axes, ("distance, km", _measure(graph)))
    _legend(figure, strengths)
    return figure


def draw_path(about: About) -> Any:
    """Return how likely held-out steps were at each penalty that was tried, and how many edges."""
    from matplotlib.ticker import LogLocator, NullLocator  # noqa: PLC0415 (an extra)

    figure = new_figure(WIDTH, 3.0)
    axes = figure.subplots()
    penalties = [step.penalty for step in about.path]
    axes.plot(penalties, [step.score for step in about.path], color=BLUE, marker="o", markersize=4)
    best = next(step for step in about.path if step.penalty == about.penalty)
    axes.plot(best.penalty, best.score, "o", color=ORANGE, markersize=8, zorder=3)
    axes.annotate(
        f"λ = {best.penalty:.3g}, {best.edges:,} edges", (best.penalty, best.score), (0, -16),
        color=INK, textcoords="offset points", ha="center", fontsize=TEXT - 1,
    )  # fmt: skip
    axes.margins(0.12)
    axes.set_xscale("log")
    axes.invert_xaxis()  # as it was walked: from few edges to many
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda penalty, _: f"{penalty:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    score = "held-out log likelihood" if about.chosen_by == "likelihood" else "score (EBIC)"
    canvas.style(axes, "penalty λ, from few edges to many", score)
    return figure


def describe_choice(about: About) -> dict[str, str]:
    """Return how a graph was chosen, by topic."""
    lines = {"kind": about.kind}
    if about.steps is not None:
        way = "hour-of-week mean subtracted" if about.subtracted == "hour_of_week" else "as it is"
        lost = f"{about.dropped_steps:,} dropped, {count_of(about.filled_values, 'value')} filled"
        lines["learned from"] = f"{count_of(about.steps, 'training step')}, {way}; {lost}"
    if about.penalty is not None:
        tried = f", {len(about.path)} tried" if about.path else ""
        lines["penalty λ"] = f"{about.penalty:.4g} ({about.chosen_by}{tried})"
        exact = "" if about.converged else ": NOT CONVERGED"
        lines["certificate"] = f"duality gap {about.gap:.2g} per location{exact}"
    if about.threshold is not None:
        by = f", for an average degree of {about.degree:g}" if about.degree is not None else ""
        lines["threshold"] = f"{about.threshold:.4g}{by}"
    if about.beside is not None:
        other = about.beside
        lines["plain inverse beside it"] = other.note or (
            f"{count_of(other.edges or 0, 'edge')}, average degree {other.average_degree:.2f}, "
            f"{100 * (other.overlap or 0):.0f} % of the edges of either in common"
        )
    return lines | ({"notes": "; ".join(about.notes)} if about.notes else {})


def _colours(strengths: Float64[np.ndarray, " K"]) -> Shaped[np.ndarray, " K"]:
    return np.where(strengths < 0, NEGATIVE, POSITIVE)


def _strongest(graph: DependencyGraph) -> Int64[np.ndarray, " K"]:
    """Return the strongest edges that can be placed, the weakest first: it is drawn below."""
    known = np.flatnonzero(np.isfinite(graph.lengths_km))
    order = np.argsort(-np.abs(graph.strengths[known]), kind="stable")[:TOP]
    return np.asarray(known[order[::-1]])


def _usual_km(graph: DependencyGraph) -> float:
    """Return the median distance of all pairs; of many locations, a sample of them."""
    placed = np.flatnonzero(graph.locations.placed)
    drawn = np.random.default_rng(0).choice(placed, (2, SAMPLED_PAIRS))
    apart = drawn[:, drawn[0] != drawn[1]]
    return float(np.median(distance_km(graph.locations, *apart)))


def _dependencies(graph: DependencyGraph) -> str:
    return "1 dependency" if len(graph) == 1 else f"{len(graph):,} dependencies"


def _placed(graph: DependencyGraph) -> int:
    """Return how many edges can be drawn on a map."""
    return int(np.isfinite(graph.lengths_km).sum())


def say_how_near(graph: DependencyGraph) -> str:
    """Say how near dependent locations are to each other, and how near all are."""
    lengths = graph.lengths_km[np.isfinite(graph.lengths_km)]
    usual = f"half of all pairs lie within {_usual_km(graph):.2g} km"
    if not len(lengths):
        return usual
    return f"half of the dependencies lie within {np.median(lengths):.2g} km; {usual}"


def _measure(graph: DependencyGraph) -> str:
    known = {"pearson": "correlation", "distance": "kernel of the distance"}
    learned = {"lasso": "conditional correlation", "inverse": "conditional correlation"}
    return (known | learned).get(graph.about.kind, "strength")


def _rule(graph: DependencyGraph) -> str:
    if graph.about.threshold is None:
        return f"kind: {graph.about.kind}"
    return f"a dot where |{_measure(graph)}| > {graph.about.threshold:.3g}"


def _finish(axes: Any, labels: tuple[str, str], integers: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (an extra)

    canvas.style(axes, *labels)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=integers, steps=[1, 2, 5, 10]))


def _legend(figure: Any, strengths: Float64[np.ndarray, " K"]) -> None:
    """Say below the picture which colour is which sign, and how many there are."""
    from matplotlib.patches import Patch  # noqa: PLC0415 (an extra)

    less = int((strengths < 0).sum())
    counts = ((POSITIVE, "positive", len(strengths) - less), (NEGATIVE, "negative", less))
    patches = [Patch(color=c, label=f"{sign} ({count:,})") for c, sign, count in counts]
    canvas.write_legend(figure, patches, columns=2, where="lower center")


def place_pictures(panel: Panel) -> Iterator[Picture]:
    """Yield the map of the locations, if any has coordinates."""
    figure = map_places(panel)
    if figure is None:
        return
    placed, mean = int(panel.locations.placed.sum()), means(panel)
    busiest = int(np.argmax(np.abs(mean)))
    text = (
        f"{count_of(placed, 'location')} on the map, mean {number(float(mean.mean()))} per step; "
        f"the busiest is {panel.locations.names[busiest]} ({number(float(mean[busiest]))})."
    )
    kind = "Map of the locations, larger and lighter where the mean is higher"
    yield Picture("01-places", "The locations", text, kind, figure)


def graph_pictures(graph: DependencyGraph) -> Iterator[Picture]:
    """Yield the graph's matrix, its map, its degrees and its penalties, as far as it has them."""
    if graph.locations.placed.sum() > 1:
        which = f"The {TOP} strongest of {len(graph):,}" if len(graph) > TOP else "All of them"
        yield Picture(
            "10-dependency-map", "The strongest dependencies",
            f"{which}, wider where stronger; {say_how_near(graph)}.",
            "Map of the locations with a line for each dependency", draw_map(graph),
        )  # fmt: skip
    yield Picture(
        "09-dependency-matrix", "Structure of the dependency matrix",
        f"{describe_graph(graph)['structure']}.",
        "Square of dots: rows and columns are locations, a dot is a dependency",
        draw_structure(graph),
    )  # fmt: skip
    if len(graph):
        hubs = [f"{name} ({degree})" for name, degree in graph.hubs(3)]
        average = f"{graph.average_degree:.2f} on average"
        yield Picture(
            "11-degrees", "Dependencies of a location", f"{average}; most at {list_names(hubs)}.",
            "Bars: how many locations have how many dependencies", draw_degrees(graph),
        )  # fmt: skip
    about = graph.about
    if len(about.path) > 1 and about.penalty is not None:
        text = (
            f"Of {len(about.path)} penalties λ = {about.penalty:.3g} was best by "
            f"{about.chosen_by}; {len(graph):,} of its edges are above the threshold."
        )
        kind = "Line of the score over the penalties, from few edges to many"
        yield Picture("12-penalty", "The penalty of the graph", text, kind, draw_path(about))
