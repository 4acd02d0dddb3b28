"""The section on locations and the dependency graph: maps, matrix, degrees and selection."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.errors import count_of
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.graph.edges import distance_km
from forecaster.panel.panel import Panel
from forecaster.report.data import ReportData
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
from forecaster.report.draw.maps import location_means, map_locations, new_map, write_names
from forecaster.report.formatting import join_names, number
from forecaster.report.sections.section import Picture, Section

POSITIVE, NEGATIVE = BLUE, ORANGE
TOP = 400  # dependencies on the map, as in the paper's figure
NAMED_HUBS = 5
SAMPLED_PAIRS = 200_000  # drawn for the median distance of all pairs
MANY_DOTS = 4_000  # above this they are rasterised
_INCH_POINTS = 72


def draw_graph(graph: DependencyGraph) -> dict[str, bytes]:
    """Draw all figures of a graph as PNG, by name; map and distances need coordinates."""
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
    """Return a caption for each figure of a graph, by name."""
    size = f"{count_of(len(graph.locations), 'location')}, {_dependencies(graph)}"
    summary = f"{size}, average degree {graph.average_degree:.2f}"
    hubs = "; ".join(f"{name} ({degree})" for name, degree in graph.hubs(2))
    top = f"; the {TOP} strongest are drawn" if _placed(graph) > TOP else ""
    words = {
        "structure": f"{summary}; {_rule(graph)}",
        "degrees": summary + (f"; most: {hubs}" if hubs else ""),
        "map": summary + top,
    }
    if graph.locations.placed.sum() > 1:
        words["distances"] = distance_sentence(graph)
    return words


def draw_structure(graph: DependencyGraph) -> Any:
    """Draw the structure of the conditional-correlation matrix: a dot for each edge."""
    N, side = len(graph.locations), 0.8 * WIDTH  # inches of the matrix
    figure = new_figure(WIDTH, WIDTH)
    axes = figure.subplots()
    size = float(np.clip(side * _INCH_POINTS / N, 1.2, 14.0)) ** 2
    both_ways = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    colours = np.tile(_colours(graph.strengths), 2)
    marker: dict[str, Any] = {"s": size, "marker": "s", "linewidths": 0}
    marker["rasterized"] = len(both_ways) > MANY_DOTS
    axes.scatter(*np.indices((2, N))[1], c=FAINT, alpha=0.6, **marker)
    axes.scatter(*both_ways.T, c=colours, **marker)
    axes.set(xlim=(-0.5, N - 0.5), ylim=(N - 0.5, -0.5), aspect="equal")
    _finish(axes, ("location", "location"), integers=True)
    axes.grid(visible=False)
    for edge in axes.spines.values():
        edge.set_visible(True)
    _legend(figure, graph.strengths)
    return figure


def draw_degrees(graph: DependencyGraph) -> Any:
    """Draw the histogram of the degrees."""
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
    axes.set(
        xlim=(-0.6, len(counts) - 0.4), ylim=(0, 1.15 * counts.max())
    )  # and room for the label
    _finish(axes, ("dependencies of a location", "locations"), integers=True)
    return figure


def draw_map(graph: DependencyGraph) -> Any:
    """Draw the strongest dependencies on a map; line width is strength."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415 (an extra)

    locations, placed = graph.locations, graph.locations.placed
    figure, axes = new_map(locations)
    top, at = _strongest(graph), np.column_stack([locations.lon, locations.lat])
    strengths = graph.strengths[top]
    widths = 0.3 + 1.7 * np.abs(strengths) / np.abs(strengths).max(initial=1e-9)
    lines = at[graph.pairs[top]]
    axes.add_collection(
        LineCollection(lines, colors=_colours(strengths), linewidths=widths, alpha=0.8)
    )
    size = (3 + 3 * graph.degrees[placed]) * min(1.0, 10 / placed.sum() ** 0.5)  # many need room
    axes.scatter(*at[placed].T, s=size, c=INK, linewidths=0, zorder=1)  # below the lines
    hubs = np.argsort(-graph.degrees, kind="stable")[: np.count_nonzero(graph.degrees)].tolist()
    names = {n: f"{locations.names[n]} ({graph.degrees[n]})" for n in hubs}
    write_names(axes, locations, names, NAMED_HUBS)
    _legend(figure, strengths)
    return figure


def draw_distances(graph: DependencyGraph) -> Any:
    """Draw the strength of every dependency by distance."""
    figure = new_figure(WIDTH, 3.4)
    axes = figure.subplots()
    located = np.isfinite(graph.lengths_km)
    lengths, strengths = graph.lengths_km[located], graph.strengths[located]
    axes.scatter(lengths, strengths, s=9, c=_colours(strengths), alpha=0.6, linewidths=0,
                 rasterized=len(lengths) > MANY_DOTS)  # fmt: skip
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=None if (strengths < 0).any() else 0)
    _finish(axes, ("distance, km", _measure(graph)))
    _legend(figure, strengths)
    return figure


def draw_path(about: About) -> Any:
    """Draw the selection score by penalty, and mark the selected penalty with its edges."""
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
    axes.invert_xaxis()  # from few edges to many, as in the search
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda penalty, _: f"{penalty:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    score = "held-out log likelihood" if about.chosen_by == "likelihood" else "score (EBIC)"
    canvas.style(axes, "penalty λ (few edges → many)", score)
    return figure


def describe_selection(about: About) -> dict[str, str]:
    """Return how a graph was selected, by topic."""
    lines = {"kind": about.kind}
    if about.steps is not None:
        values = (
            "hour-of-week mean subtracted" if about.subtracted == "hour_of_week" else "raw values"
        )
        changes = (
            f"{about.dropped_steps:,} dropped, {count_of(about.filled_values, 'value')} filled"
        )
        lines["learned from"] = f"{count_of(about.steps, 'training step')}, {values}; {changes}"
    if about.penalty is not None:
        tried = f", {len(about.path)} tried" if about.path else ""
        lines["penalty λ"] = f"{about.penalty:.4g} ({about.chosen_by}{tried})"
        exact = "" if about.converged else ": NOT CONVERGED"
        lines["accuracy"] = f"duality gap {about.gap:.2g} per location{exact}"
    if about.threshold is not None:
        by = f", for an average degree of {about.degree:g}" if about.degree is not None else ""
        lines["threshold"] = f"{about.threshold:.4g}{by}"
    if about.beside is not None:
        inverse = about.beside
        lines["plain inverse for comparison"] = inverse.note or (
            f"{count_of(inverse.edges or 0, 'edge')}, average degree "
            f"{inverse.average_degree:.2f}, {100 * (inverse.overlap or 0):.0f} % of all edges "
            "in common"
        )
    return lines | ({"notes": "; ".join(about.notes)} if about.notes else {})


def _colours(strengths: Float64[np.ndarray, " K"]) -> Shaped[np.ndarray, " K"]:
    return np.where(strengths < 0, NEGATIVE, POSITIVE)


def _strongest(graph: DependencyGraph) -> Int64[np.ndarray, " K"]:
    """Return the strongest edges with coordinates, weakest first so that it is drawn below."""
    located = np.flatnonzero(np.isfinite(graph.lengths_km))
    order = np.argsort(-np.abs(graph.strengths[located]), kind="stable")[:TOP]
    return np.asarray(located[order[::-1]])


def _median_distance_km(graph: DependencyGraph) -> float:
    """Return the median distance of random pairs of locations."""
    placed = np.flatnonzero(graph.locations.placed)
    drawn = np.random.default_rng(0).choice(placed, (2, SAMPLED_PAIRS))
    apart = drawn[:, drawn[0] != drawn[1]]
    return float(np.median(distance_km(graph.locations, *apart)))


def _dependencies(graph: DependencyGraph) -> str:
    return "1 dependency" if len(graph) == 1 else f"{len(graph):,} dependencies"


def _placed(graph: DependencyGraph) -> int:
    """Return the number of edges that can be drawn on a map."""
    return int(np.isfinite(graph.lengths_km).sum())


def distance_sentence(graph: DependencyGraph) -> str:
    """Compare the median distance of dependent locations with that of all pairs."""
    lengths = graph.lengths_km[np.isfinite(graph.lengths_km)]
    all_pairs = f"the median distance of all pairs is {_median_distance_km(graph):.2g} km"
    if not len(lengths):
        return all_pairs
    return f"the median distance of dependent pairs is {np.median(lengths):.2g} km; {all_pairs}"


def _measure(graph: DependencyGraph) -> str:
    measures = {
        "pearson": "correlation",
        "distance": "distance kernel",
        "lasso": "conditional correlation",
        "inverse": "conditional correlation",
    }
    return measures.get(graph.about.kind, "strength")


def _rule(graph: DependencyGraph) -> str:
    if graph.about.threshold is None:
        return f"kind: {graph.about.kind}"
    return f"edges have |{_measure(graph)}| > {graph.about.threshold:.3g}"


def _finish(axes: Any, labels: tuple[str, str], integers: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (an extra)

    canvas.style(axes, *labels)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=integers, steps=[1, 2, 5, 10]))


def _legend(figure: Any, strengths: Float64[np.ndarray, " K"]) -> None:
    """Write below the figure the colour and the number of each sign."""
    from matplotlib.patches import Patch  # noqa: PLC0415 (an extra)

    negative = int((strengths < 0).sum())
    counts = ((POSITIVE, "positive", len(strengths) - negative), (NEGATIVE, "negative", negative))
    patches = [Patch(color=c, label=f"{sign} ({count:,})") for c, sign, count in counts]
    canvas.write_legend(figure, patches, columns=2, where="lower center")


def location_pictures(panel: Panel) -> Iterator[Picture]:
    """Yield the map of the locations, if any has coordinates."""
    figure = map_locations(panel)
    if figure is None:
        return
    placed, mean = int(panel.locations.placed.sum()), location_means(panel)
    busiest = int(np.argmax(np.abs(mean)))
    text = (
        f"{count_of(placed, 'location')} with coordinates. The mean of all locations is "
        f"{number(float(mean.mean()))} per step; the busiest is "
        f"{panel.locations.names[busiest]} ({number(float(mean[busiest]))})."
    )
    alt = "Map of the locations, larger and lighter where the mean is higher"
    yield Picture("01-places", "Map of the locations", text, alt, figure)


def graph_pictures(graph: DependencyGraph) -> Iterator[Picture]:
    """Yield map, matrix, degrees and penalties of a graph, as far as available."""
    if graph.locations.placed.sum() > 1:
        count = f"The {TOP} strongest of {len(graph):,}" if len(graph) > TOP else "All"
        yield Picture(
            "10-dependency-map", "Map of the dependencies",
            f"{count} dependencies; line width is strength; {distance_sentence(graph)}.",
            "Map of the locations with a line for each dependency", draw_map(graph),
        )  # fmt: skip
    yield Picture(
        "09-dependency-matrix", "Structure of the dependency matrix",
        f"{describe_graph(graph)['structure']}.",
        "Matrix of locations by locations with a dot for each dependency",
        draw_structure(graph),
    )  # fmt: skip
    if len(graph):
        hubs = [f"{name} ({degree})" for name, degree in graph.hubs(3)]
        average = f"Average degree {graph.average_degree:.2f}"
        yield Picture(
            "11-degrees", "Degrees", f"{average}; highest at {join_names(hubs)}.",
            "Histogram of the number of dependencies of a location", draw_degrees(graph),
        )  # fmt: skip
    about = graph.about
    if len(about.path) > 1 and about.penalty is not None:
        text = (
            f"Of {len(about.path)} penalties λ = {about.penalty:.3g} is best by "
            f"{about.chosen_by}; {len(graph):,} of its edges are above the threshold."
        )
        alt = "Line chart of the score by penalty, from few edges to many"
        yield Picture("12-penalty", "Selection of the penalty", text, alt, draw_path(about))


def location_section(data: ReportData) -> Section:
    """Return the map of the locations and, if there is one, the dependency graph."""
    graph, pictures = data.graph, list(location_pictures(data.panel))
    if graph is None:
        return Section("locations", "Locations", "The locations that are forecast.", pictures)
    text = (
        "The locations that are forecast, and the dependency graph: which locations help to "
        "forecast each other."
    )
    size = f"{count_of(len(graph), 'edge')}, average degree {graph.average_degree:.2f}"
    selection = describe_selection(graph.about)
    selection |= {"result": size, "graph hash": str(graph.digest)}
    pictures += graph_pictures(graph)
    title = "Locations and dependency graph"
    return Section("locations", title, text, pictures, {"Selection of the graph": selection})
