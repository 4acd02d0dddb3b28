"""Pictures of a dependency graph: its matrix, its map, its degrees, its distances."""

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.errors import count_of
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.edges import distance_km
from forecaster.report.figures import FAINT, INK, new_figure, to_png

POSITIVE, NEGATIVE = "#0072b2", "#d55e00"  # told apart by every eye
TOP = 400  # dependencies on the map, as in the paper's figure
NAMED_HUBS = 5
SAMPLED_PAIRS = 200_000  # of all pairs, for the distance that is usual
_INCH_POINTS = 72


def draw_graph(graph: DependencyGraph) -> dict[str, bytes]:
    """Return every picture that can be drawn, by its name; some need coordinates."""
    pictures = {"structure": draw_structure(graph), "degrees": draw_degrees(graph)}
    if graph.locations.placed.sum() > 1:
        pictures["map"] = draw_map(graph)
        pictures["distances"] = draw_distances(graph)
    return pictures


def draw_structure(graph: DependencyGraph) -> bytes:
    """Return the structure of the conditional-correlation matrix: a dot per entry that is kept."""
    N, side = len(graph.locations), 5.6  # inches of the matrix
    figure = new_figure(6.4, 6.7)
    axes = figure.subplots()
    size = float(np.clip(side * _INCH_POINTS / N, 1.2, 14.0)) ** 2
    axes.scatter(*np.indices((2, N))[1], s=size, c=FAINT, marker="s", linewidths=0, alpha=0.6)
    both_ways = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    colours = np.tile(_colours(graph.strengths), 2)
    axes.scatter(*both_ways.T, s=size, c=colours, marker="s", linewidths=0)
    axes.set(xlim=(-0.5, N - 0.5), ylim=(N - 0.5, -0.5), aspect="equal")
    axes.set_xlabel("location", color=INK, fontsize=9)
    axes.set_ylabel("location", color=INK, fontsize=9)
    _finish(axes, f"{_summary(graph)}\n{_rule(graph)}", integers=True)
    _legend(figure, graph.strengths)
    return to_png(figure)


def draw_degrees(graph: DependencyGraph) -> bytes:
    """Return how many locations have how many dependencies."""
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    counts = np.bincount(graph.degrees)
    axes.bar(np.arange(len(counts)), counts, width=0.8, color=POSITIVE)
    axes.axvline(graph.average_degree, color=INK, linewidth=1, linestyle="--")
    axes.annotate(
        f"average {graph.average_degree:.2f}", (graph.average_degree, 1), (4, -4), color=INK,
        xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=8,
    )  # fmt: skip
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.set_xlabel("dependencies of a location", color=INK, fontsize=9)
    axes.set_ylabel("locations", color=INK, fontsize=9)
    hubs = "; ".join(f"{name} ({degree})" for name, degree in graph.hubs(2))
    _finish(axes, _summary(graph) + (f"\nmost: {hubs}" if hubs else ""), integers=True)
    return to_png(figure)


def draw_map(graph: DependencyGraph) -> bytes:
    """Return the strongest dependencies on a plain map, wider where they are stronger."""
    from matplotlib.collections import LineCollection  # noqa: PLC0415 (an extra)

    places, placed = graph.locations, graph.locations.placed
    lat, lon = places.lat[placed], places.lon[placed]
    stretch = 1 / max(float(np.cos(np.radians(lat.mean()))), 0.05)  # of a degree of latitude
    tall = float(np.clip(np.ptp(lat) * stretch / max(np.ptp(lon), 1e-9), 0.4, 2.5))
    width = min(7.0, 9.0 / tall)
    figure = new_figure(max(width, 4.6) + 0.8, width * tall + 0.9)  # and room for words
    axes = figure.subplots()
    top, at = _strongest(graph), np.column_stack([places.lon, places.lat])
    strengths = graph.strengths[top]
    widths = 0.3 + 1.7 * np.abs(strengths) / np.abs(strengths).max(initial=1e-9)
    lines = at[graph.pairs[top]]
    axes.add_collection(
        LineCollection(lines, colors=_colours(strengths), linewidths=widths, alpha=0.8)
    )
    size = (3 + 3 * graph.degrees[placed]) * min(1.0, 10 / len(lat) ** 0.5)  # many need room
    axes.scatter(lon, lat, s=size, c=INK, linewidths=0, zorder=1)  # below the lines
    _name_hubs(axes, graph)
    axes.set_aspect(stretch)
    axes.set_xlabel("longitude, °", color=INK, fontsize=9)
    axes.set_ylabel("latitude, °", color=INK, fontsize=9)
    shown = f"\nthe {len(top)} strongest are drawn" if len(top) < len(graph) else ""
    _finish(axes, _summary(graph) + shown)
    _legend(figure, strengths)
    return to_png(figure)


def draw_distances(graph: DependencyGraph) -> bytes:
    """Return the strength of every dependency against the distance it spans."""
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    known = np.isfinite(graph.lengths_km)
    lengths, strengths = graph.lengths_km[known], graph.strengths[known]
    axes.scatter(lengths, strengths, s=9, c=_colours(strengths), alpha=0.6, linewidths=0)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=None if (strengths < 0).any() else 0)
    axes.set_xlabel("distance, km", color=INK, fontsize=9)
    axes.set_ylabel(_measure(graph), color=INK, fontsize=9)
    axes.grid(color=FAINT, alpha=0.25)
    words = f"half of all pairs lie within {_usual_km(graph):.2g} km"
    if known.any():
        middle = f"{np.median(lengths):.2g} km"
        words = f"half of the dependencies lie within {middle},\n{words}"
    _finish(axes, words)
    _legend(figure, strengths)
    return to_png(figure)


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


def _name_hubs(axes: Any, graph: DependencyGraph) -> None:
    """Write the names of the locations that most others depend on where none hides another."""
    places, named = graph.locations, list[int]()
    room = np.array(
        [0.4 * np.ptp(places.lon[places.placed]), 0.03 * np.ptp(places.lat[places.placed])]
    )
    at = np.column_stack([places.lon, places.lat])
    for n in np.argsort(-graph.degrees, kind="stable").tolist():
        hidden = (np.abs(at[named] - at[n]) < room).all(axis=1).any()
        if len(named) == NAMED_HUBS or not graph.degrees[n]:
            break
        if hidden or not places.placed[n]:
            continue
        named.append(n)
        axes.annotate(
            f"{places.names[n]} ({graph.degrees[n]})", at[n], (5, 4), color=INK, fontsize=7,
            textcoords="offset points", zorder=4, parse_math=False,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
        )  # fmt: skip


def _summary(graph: DependencyGraph) -> str:
    edges = "1 dependency" if len(graph) == 1 else f"{len(graph):,} dependencies"
    size = count_of(len(graph.locations), "location")
    return f"{size}, {edges}, average degree {graph.average_degree:.2f}"


def _measure(graph: DependencyGraph) -> str:
    known = {"pearson": "correlation", "distance": "kernel of the distance"}
    learned = {"lasso": "conditional correlation", "inverse": "conditional correlation"}
    return (known | learned).get(graph.about.kind, "strength")


def _rule(graph: DependencyGraph) -> str:
    if graph.about.threshold is None:
        return f"kind: {graph.about.kind}"
    return f"a dot: |{_measure(graph)}| > {graph.about.threshold:.3g}"


def _finish(axes: Any, title: str, integers: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 (an extra)

    axes.set_title(title, color=INK, fontsize=10, loc="left", parse_math=False)
    axes.tick_params(colors=INK, labelsize=8)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, integer=integers, steps=[1, 2, 5, 10]))
    for name, side in axes.spines.items():
        side.set_color(FAINT)
        side.set_visible(integers or name in ("left", "bottom"))


def _legend(figure: Any, strengths: Float64[np.ndarray, " K"]) -> None:
    """Say below the picture which colour is which sign, and how many there are."""
    from matplotlib.patches import Patch  # noqa: PLC0415 (an extra)

    less = int((strengths < 0).sum())
    counts = ((POSITIVE, "positive", len(strengths) - less), (NEGATIVE, "negative", less))
    patches = [Patch(color=c, label=f"{sign} ({count:,})") for c, sign, count in counts]
    figure.legend(handles=patches, loc="outside lower center", ncols=2, frameon=False,
                  fontsize=8, labelcolor=INK)  # fmt: skip
