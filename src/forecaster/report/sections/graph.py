"""The section on locations and the dependency graph: maps, matrix, degrees and selection."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.errors import count_of
from forecaster.graph.dependency import About, DependencyGraph, LaggedRecord, Worth
from forecaster.graph.edges import Delays, distance_km
from forecaster.graph.lagged.learn import CHANCE
from forecaster.graph.lagged.learn import FACTORS as TRIED_FACTORS
from forecaster.paired import MIN_BLOCKS
from forecaster.panel.panel import Panel
from forecaster.report.data import ReportData
from forecaster.report.draw import canvas
from forecaster.report.draw.canvas import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PAPER_DPI,
    TEXT,
    WIDTH,
    new_figure,
)
from forecaster.report.draw.maps import location_means, map_locations, new_map, write_names
from forecaster.report.draw.sample import describe_shown
from forecaster.report.formatting import (
    change,
    duration,
    join_names,
    number,
    percent,
    with_minus,
)
from forecaster.report.sections.section import Picture, Section

POSITIVE, NEGATIVE = BLUE, ORANGE
SOURCES, TARGETS = BLUE, GREEN
FACTORS, EDGES = ORANGE, BLUE
TOP = 400  # dependencies on the map, as in the paper's figure
ARROWS, ARROWS_PER_LOCATION = 60, 2  # of directed ones, fewer: an arrow takes more room
NAMED_HUBS = 5
NAMED_DELAYS = 3
SAMPLED_PAIRS = 200_000  # drawn for the median distance of all pairs
MANY_DOTS = 4_000  # above this they are rasterised
SMALLEST_P = 0.001  # that is told
_INCH_POINTS = 72


def draw_graph(graph: DependencyGraph, clock: Clock | None = None) -> dict[str, bytes]:
    """Draw all figures of a graph as PNG, by name; map and distances need coordinates.

    Of a directed graph without edges only those are drawn that say something about it.

    Args:
        graph: to draw.
        clock: of the panel, for what a step is; None: steps are counted.
    """
    drawn, is_placed = {"structure": draw_structure(graph)}, graph.locations.placed.sum() > 1
    has_edges = len(graph) > 0 or not graph.is_directed
    if has_edges:
        drawn["degrees"] = draw_degrees(graph)
    if has_edges and graph.delays is not None:
        drawn["delays"] = draw_delays(graph.delays)
    if (worth := _worth_of(graph)) is not None:
        drawn["worth"] = draw_worth(worth, clock)
    if is_placed:
        drawn["map"] = draw_map(graph)
    if is_placed and has_edges:
        drawn["distances"] = draw_distances(graph)
    words = describe_graph(graph)
    for name, figure in drawn.items():
        figure.axes[0].set_title(
            words[name].replace("; ", "\n"), color=INK, fontsize=TEXT, loc="left",
            parse_math=False,
        )  # fmt: skip
    return {name: canvas.to_png(figure, PAPER_DPI) for name, figure in drawn.items()}


def describe_graph(graph: DependencyGraph) -> dict[str, str]:
    """Return a caption for each figure of a graph, by name."""
    dependencies = "1 dependency" if len(graph) == 1 else f"{len(graph):,} dependencies"
    size = f"{count_of(len(graph.locations), 'location')}, {dependencies}"
    summary = f"{size}, {_average(graph)}"
    hubs = "; ".join(f"{name} ({degree})" for name, degree in graph.hubs(2))
    most = "tell about most others" if graph.is_directed else "most"
    arrows = "; arrows lead from source to target" if graph.is_directed else ""
    several = len(graph.links) < len(graph)
    strongest = "; of several delays the strongest is drawn" if several else ""
    top = f"; the {_top(graph)} strongest are drawn" if _placed(graph) > _top(graph) else ""
    words = {
        "structure": f"{summary}{strongest}; {_rule(graph)}",
        "degrees": summary + (f"; {most}: {hubs}" if hubs else ""),
        "map": summary + arrows + strongest + top,
    }
    if graph.delays is not None:
        words["delays"] = f"{size}; {describe_delays(graph.delays)}"
    if _worth_of(graph) is not None:
        words["worth"] = f"{size}; on held-out weeks of the training steps"
    if graph.locations.placed.sum() > 1:
        words["distances"] = distance_sentence(graph)
    return words


def describe_edges(graph: DependencyGraph) -> str:
    """Return how many edges a graph has, if directed of how many pairs, and the average degree."""
    of_pairs = f" of {count_of(len(graph.links), 'pair')}" if graph.is_directed else ""
    return f"{count_of(len(graph), 'edge')}{of_pairs}, {_average(graph)}"


def describe_delays(delays: Delays) -> str:
    """Return the shares of the most common delays: `1 step 80 %, 3 steps 15 %, others 5.0 %`."""
    if not len(delays):
        return "no delays"
    steps, counts = np.unique(delays, return_counts=True)
    shares = counts / len(delays)
    common = np.sort(np.argsort(-counts, kind="stable")[:NAMED_DELAYS])
    named = [f"{count_of(int(steps[n]), 'step')} {percent(shares[n])}" for n in common]
    if len(steps) > NAMED_DELAYS:
        named.append(f"others {percent(1 - shares[common].sum())}")
    return ", ".join(named)


def draw_structure(graph: DependencyGraph) -> Any:
    """Draw the structure of the matrix of strengths: a dot for each edge, or for both its ways."""
    N, side = len(graph.locations), 0.8 * canvas.HEIGHT  # inches of the matrix
    figure = new_figure(canvas.HEIGHT, canvas.HEIGHT)
    axes = figure.subplots()
    size = float(np.clip(side * _INCH_POINTS / N, 1.2, 14.0)) ** 2
    dots, colours = graph.links[:, ::-1], _colours(graph.link_strengths)  # columns are targets
    if not graph.is_directed:
        dots, colours = np.concatenate([graph.links, dots]), np.tile(colours, 2)
    marker: dict[str, Any] = {"s": size, "marker": "s", "linewidths": 0}
    marker["rasterized"] = len(dots) > MANY_DOTS
    axes.scatter(*np.indices((2, N))[1], c=FAINT, alpha=0.6, **marker)
    axes.scatter(*dots.T, c=colours, **marker)
    axes.set(xlim=(-0.5, N - 0.5), ylim=(N - 0.5, -0.5), aspect="equal")
    ends = ("target", "source") if graph.is_directed else ("location", "location")
    _finish(axes, ends, integers=True)
    axes.grid(visible=False)
    for edge in axes.spines.values():
        edge.set_visible(True)
    _legend(figure, graph.link_strengths)
    return figure


def draw_degrees(graph: DependencyGraph) -> Any:
    """Draw the histogram of the degrees; if directed, of sources and targets side by side."""
    figure = new_figure(WIDTH, canvas.HEIGHT)
    axes = figure.subplots()
    counts = np.bincount(graph.degrees)
    if graph.is_directed:
        counts = _draw_sources_and_targets(axes, graph)
    else:
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
    counted = "sources or targets" if graph.is_directed else "dependencies"
    _finish(axes, (f"{counted} of a location", "locations"), integers=True)
    return figure


def draw_delays(delays: Delays) -> Any:
    """Draw the histogram of the delays of directed edges."""
    figure = new_figure(WIDTH, canvas.HEIGHT)
    axes = figure.subplots()
    steps, counts = np.unique(delays, return_counts=True)
    axes.bar(steps, counts, width=0.8, color=POSITIVE)
    axes.set(xlim=(0.4, steps.max(initial=1) + 0.6), ylim=(0, 1.1 * counts.max(initial=1)))
    _finish(axes, ("steps from source to target", "dependencies"), integers=True)
    return figure


def draw_worth(worth: Sequence[Worth], clock: Clock | None = None) -> Any:
    """Draw by how much factors and edges change the error of own past alone, by step ahead."""
    figure = new_figure(WIDTH, 1.5 + 0.45 * len(worth))
    axes = figure.subplots()
    rows = np.arange(len(worth), dtype=np.float64)
    factors, edges = (
        np.array([100 * (getattr(step, name) / step.own - 1) for step in worth])
        for name in ("factors", "edges")
    )
    stages = [(np.zeros(len(worth)), "o", INK, "own past alone")]
    stages += [(factors, "s", FACTORS, "with factors of the city")] * bool(factors.any())
    stages += [(edges, "D", EDGES, "with edges too")] * bool((edges != factors).any())
    ends = np.column_stack([at for at, *_ in stages])
    left, right = ends.min(axis=1), ends.max(axis=1)
    axes.axvline(0, color=INK, linewidth=1)
    axes.hlines(rows, left, right, color=FAINT, linewidth=1.5)
    marks = [
        axes.plot(at, rows, mark, color=colour, markersize=7, label=name)[0]
        for at, mark, colour, name in stages
    ]
    for row, step, end in zip(rows, worth, left, strict=True):
        axes.annotate(change(step.edges / step.own), (end, row), (-10, 0), ha="right",
                      textcoords="offset points", va="center", color=INK,
                      fontsize=TEXT - 1)  # fmt: skip
    names = [f"{_length(step.step, clock)} ahead" for step in worth]
    canvas.style_rows(axes, rows, names, "change of RMSE, %")
    reach = max(float(right.max() - left.min()), 1.0)
    axes.set(
        xlim=(left.min() - 0.25 * reach, right.max() + 0.05 * reach),
        ylim=(len(worth) - 0.4, -0.6),
    )
    axes.xaxis.set_major_formatter(lambda value, _: with_minus(f"{value:g}"))
    canvas.write_legend(figure, marks, columns=3, where="lower center")
    return figure


def draw_map(graph: DependencyGraph) -> Any:
    """Draw the strongest dependencies on a map, as arrows if directed; line width is strength."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415 (an extra)

    locations, placed = graph.locations, graph.locations.placed
    figure, axes = new_map(locations)
    room = min(1.0, 10 / placed.sum() ** 0.5)  # many need it
    top, at = _strongest(graph), np.column_stack([locations.lon, locations.lat])
    strengths = graph.link_strengths[top]
    widths = 0.3 + 1.7 * np.abs(strengths) / np.abs(strengths).max(initial=1e-9)
    lines, colours = at[graph.links[top]], _colours(strengths)
    if graph.is_directed:
        _draw_arrows(axes, lines, colours, widths, room)
    else:
        axes.add_collection(LineCollection(lines, colors=colours, linewidths=widths, alpha=0.8))
    degrees = graph.out_degrees
    size = (3 + 3 * degrees[placed]) * room
    axes.scatter(*at[placed].T, s=size, c=INK, linewidths=0, zorder=1,  # below the lines
                 rasterized=len(size) > MANY_DOTS)  # fmt: skip
    hubs = np.argsort(-degrees, kind="stable")[: np.count_nonzero(degrees)].tolist()
    names = {n: f"{locations.names[n]} ({degrees[n]})" for n in hubs}
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

    figure = new_figure(WIDTH, canvas.HEIGHT)
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


def describe_selection(about: About, clock: Clock | None = None) -> dict[str, str]:
    """Return how a graph was selected, by topic.

    Args:
        about: the record of the graph.
        clock: of the panel, for what a step is; None: steps are counted.
    """
    lines = {"kind": about.kind}
    if about.lagged is not None:
        lines |= _describe_lagged(about, about.lagged, clock)
        return lines | ({"notes": "; ".join(about.notes)} if about.notes else {})
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
        of = "of a variance at most" if about.kind == "neighbourhood" else "per location"
        lines["accuracy"] = f"duality gap {about.gap:.2g} {of}{exact}"
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


def describe_worth(worth: Sequence[Worth], clock: Clock | None = None) -> str:
    """Return what factors and edges are worth: `+1 hour: factors −4.3 %, edges a further −2.2 %`.

    Args:
        worth: errors at some steps ahead.
        clock: of the panel, for what a step is; None: steps are counted.
    """
    texts = []
    for step in worth:
        factors, edges = change(step.factors / step.own), change(step.edges / step.factors)
        text = f"factors {factors}" if step.factors != step.own else "no factors"
        text += f", edges a further {edges}" if step.edges != step.factors else ", no edges"
        texts.append(f"+{_length(step.step, clock)}: {text}")
    return "; ".join(texts)


def explain_no_edges(record: LaggedRecord) -> str:
    """Return what it means for forecasts that a lagged graph has no edges."""
    if record.penalty is not None:
        return "give a smaller penalty or a larger degree, or let held-out weeks choose"
    use = "the preset best needs no edges: over this graph it takes own past and the factors alone"
    if record.blocks < MIN_BLOCKS:
        return f"{use}; learn the graph again when there are more weeks"
    return f"a gain from single others could not be told from chance; {use}"


def _describe_lagged(about: About, record: LaggedRecord, clock: Clock | None) -> dict[str, str]:
    lines = {}
    if about.steps is not None:
        steps = count_of(about.steps, "training step")
        lines["learned from"] = f"{steps}, deviations from what is usual"
    reach = f"of up to {_length(record.max_delay, clock)}"
    most = ", the most that are tried" if record.factors == max(TRIED_FACTORS) else ""
    lines["factors of the city"] = f"{record.factors}{most}, at lags {reach}"
    if record.penalty is None:
        lines["penalty λ"] = f"none of {len(record.path)} tried helps"
    else:
        tried = f"of {len(record.path)} tried" if about.chosen_by != "given" else "given"
        degree = f", for an average degree of {about.degree:g}" if about.degree is not None else ""
        lines["penalty λ"] = f"{record.penalty:.3g}, {tried}{degree}"
    p = f"p = {record.p_value:.2g}" if record.p_value >= SMALLEST_P else f"p < {SMALLEST_P:g}"
    verdict = "edges help" if record.p_value <= CHANCE else "edges help no more than chance"
    blocks = count_of(record.blocks, "block") + " of days"
    lines["held-out weeks"] = f"{verdict} ({p}, {blocks})"
    if record.gap is not None:
        lines["certificate"] = f"duality gap at most {record.gap:.1g} of a variance"
    if record.worth:
        lines["out of sample"] = describe_worth(record.worth, clock)
    return lines


def _length(steps: int, clock: Clock | None) -> str:
    """The length of some steps: `1 hour`, `45 min`, `3 months`; without a clock `3 steps`."""
    return count_of(steps, "step") if clock is None else duration(steps * clock.step_minutes)


def _average(graph: DependencyGraph) -> str:
    if graph.is_directed:
        return f"{graph.average_degree:.2f} sources per location"
    return f"average degree {graph.average_degree:.2f}"


def _draw_sources_and_targets(axes: Any, graph: DependencyGraph) -> Int64[np.ndarray, " K"]:
    """Draw how many locations have how many sources and targets; return the larger numbers."""
    kinds = ((graph.degrees, SOURCES, "sources"), (graph.out_degrees, TARGETS, "targets"))
    most = max(int(degrees.max()) for degrees, *_ in kinds)
    bars = [np.bincount(degrees, minlength=most + 1) for degrees, *_ in kinds]
    for side, counts, (_, colour, name) in zip((-0.2, 0.2), bars, kinds, strict=True):
        axes.bar(np.arange(most + 1) + side, counts, width=0.4, color=colour, label=name)
    axes.legend(frameon=False, fontsize=TEXT - 1, labelcolor=INK, loc="center right")
    return np.maximum(*bars)


def _draw_arrows(
    axes: Any,
    lines: Float64[np.ndarray, "K 2 2"],
    colours: Shaped[np.ndarray, " K"],
    widths: Float64[np.ndarray, " K"],
    scale: float,
) -> None:
    """Draw arrows, bent so that those of both directions lie side by side."""
    from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415 (an extra)

    for (source, target), colour, width in zip(lines, colours, widths, strict=True):
        head = scale * (1.5 + width)  # points
        axes.add_patch(FancyArrowPatch(
            source, target, color=colour, linewidth=0.6 * width, alpha=0.8, mutation_scale=1,
            arrowstyle=f"-|>,head_length={head},head_width={0.5 * head}",
            connectionstyle="arc3,rad=0.15", shrinkA=0, shrinkB=scale + 0.5,
            capstyle="butt", joinstyle="miter",
        ))  # fmt: skip


def _colours(strengths: Float64[np.ndarray, " K"]) -> Shaped[np.ndarray, " K"]:
    return np.where(strengths < 0, NEGATIVE, POSITIVE)


def _strongest(graph: DependencyGraph) -> Int64[np.ndarray, " K"]:
    """Return the strongest edges with coordinates, weakest first so that it is drawn below."""
    located = np.flatnonzero(graph.locations.placed[graph.links].all(axis=1))
    order = np.argsort(-np.abs(graph.link_strengths[located]), kind="stable")[: _top(graph)]
    return np.asarray(located[order[::-1]])


def _top(graph: DependencyGraph) -> int:
    """Return how many dependencies a map shows."""
    arrows = max(ARROWS, ARROWS_PER_LOCATION * len(graph.locations))
    return min(TOP, arrows) if graph.is_directed else TOP


def _worth_of(graph: DependencyGraph) -> tuple[Worth, ...] | None:
    """Return what edges are worth, if that was measured."""
    return (graph.about.lagged.worth or None) if graph.about.lagged is not None else None


def _median_distance_km(graph: DependencyGraph) -> float:
    """Return the median distance of random pairs of locations."""
    placed = np.flatnonzero(graph.locations.placed)
    drawn = np.random.default_rng(0).choice(placed, (2, SAMPLED_PAIRS))
    apart = drawn[:, drawn[0] != drawn[1]]
    return float(np.median(distance_km(graph.locations, *apart)))


def _placed(graph: DependencyGraph) -> int:
    """Return the number of links that can be drawn on a map."""
    return int(graph.locations.placed[graph.links].all(axis=1).sum())


def distance_sentence(graph: DependencyGraph) -> str:
    """Compare the median distance of dependent locations with that of all pairs."""
    lengths = distance_km(graph.locations, *graph.links.T)
    lengths = lengths[np.isfinite(lengths)]
    all_pairs = f"the median distance of all pairs is {_median_distance_km(graph):.2g} km"
    if not len(lengths):
        return all_pairs
    return f"the median distance of dependent pairs is {np.median(lengths):.2g} km; {all_pairs}"


def _measure(graph: DependencyGraph) -> str:
    measures = {
        "pearson": "correlation",
        "distance": "distance kernel",
        "lasso": "conditional correlation",
        "neighbourhood": "conditional correlation",
        "inverse": "conditional correlation",
        "lagged": "effect",
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
        f"{panel.locations.names[busiest]} ({number(float(mean[busiest]))}). "
        f"{describe_shown(placed)}"
    ).rstrip()
    alt = "Map of the locations, larger and lighter where the mean is higher"
    yield Picture("01-places", "Map of the locations", text, alt, figure)


def graph_pictures(graph: DependencyGraph, clock: Clock | None = None) -> Iterator[Picture]:
    """Yield map, matrix, degrees, worth and penalties of a graph, as far as available.

    Args:
        graph: to draw.
        clock: of the panel, for what a step is; None: steps are counted.
    """
    if graph.locations.placed.sum() > 1:
        links, top = len(graph.links), _top(graph)
        count = f"The {top} strongest of {links:,}" if links > top else "All"
        count = count if links else "No"
        arrows = "; arrows lead from source to target" if graph.is_directed else ""
        line = "an arrow" if graph.is_directed else "a line"
        yield Picture(
            "10-dependency-map", "Map of the dependencies",
            f"{count} dependencies{arrows}; line width is strength; {distance_sentence(graph)}.",
            f"Map of the locations with {line} for each dependency", draw_map(graph),
        )  # fmt: skip
    yield Picture(
        "09-dependency-matrix", "Structure of the dependency matrix",
        f"{describe_graph(graph)['structure']}.",
        "Matrix of locations by locations with a dot for each dependency",
        draw_structure(graph),
    )  # fmt: skip
    if len(graph):
        yield from _degree_pictures(graph)
    about = graph.about
    if (worth := _worth_of(graph)) is not None:
        yield Picture(
            "11-worth", "Worth of the past of others",
            f"On held-out weeks of the training steps, before anything was trained: "
            f"{describe_worth(worth, clock)} (RMSE of a linear forecast).",
            "Dots of the change of the error by step ahead: with factors, with edges",
            draw_worth(worth, clock),
        )  # fmt: skip
    if len(about.path) > 1 and about.penalty is not None:
        text = (
            f"Of {len(about.path)} penalties λ = {about.penalty:.3g} is best by "
            f"{about.chosen_by}; {len(graph):,} of its edges are above the threshold."
        )
        alt = "Line chart of the score by penalty, from few edges to many"
        yield Picture("12-penalty", "Selection of the penalty", text, alt, draw_path(about))


def _degree_pictures(graph: DependencyGraph) -> Iterator[Picture]:
    """Yield the degrees and, if directed, the delays of a graph with edges."""
    hubs = join_names([f"{name} ({degree})" for name, degree in graph.hubs(3)])
    if graph.delays is None:
        yield Picture(
            "11-degrees", "Degrees",
            f"Average degree {graph.average_degree:.2f}; highest at {hubs}.",
            "Histogram of the number of dependencies of a location", draw_degrees(graph),
        )  # fmt: skip
        return
    yield Picture(
        "11-degrees", "Sources and targets",
        f"The past of {graph.average_degree:.2f} others tells about a location, on average. "
        f"Most others are told about by {hubs}.",
        "Histogram of the numbers of sources and of targets of a location", draw_degrees(graph),
    )  # fmt: skip
    yield Picture(
        "11-delays", "Delays",
        f"From the past of a source to its target: {describe_delays(graph.delays)}.",
        "Histogram of the delays from source to target", draw_delays(graph.delays),
    )  # fmt: skip


def location_section(data: ReportData) -> Section:
    """Return the map of the locations and, if there is one, the dependency graph."""
    graph, pictures = data.graph, list(location_pictures(data.panel))
    if graph is None:
        text = "The locations that are forecast."
        return Section("locations", "Locations", text, pictures, summary=_count_placed(data.panel))
    helps = "which locations help to forecast each other"
    if graph.is_directed:
        helps = "the past of which locations (sources) helps to forecast which others (targets)"
    text = f"The locations that are forecast, and the dependency graph: {helps}."
    clock = data.panel.clock
    selection = describe_selection(graph.about, clock)
    selection |= {"result": describe_edges(graph), "graph hash": str(graph.digest)}
    pictures += graph_pictures(graph, clock)
    title = "Locations and dependency graph"
    facts, result = {"Selection of the graph": selection}, selection["result"]
    summary = f"{result[0].upper()}{result[1:]}."
    return Section("locations", title, text, pictures, facts, summary=summary)


def _count_placed(panel: Panel) -> str:
    """Say how many of the locations have coordinates."""
    placed = int(panel.locations.placed.sum())
    return f"{placed:,} of {count_of(len(panel.locations), 'location')} with coordinates."
