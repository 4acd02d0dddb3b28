"""Graphs that follow their places: gone ones lose their edges, new ones get some.

A new place is joined to the places that the graph was learned on: to the nearest, where both have
coordinates, else to those whose values change together with its own. It gets as many neighbours as
places of the graph have (the median degree, at least one), and the strengths that the strongest,
second strongest … edges of these places usually have.

Of a directed graph a new place gets edges that lead to it, with the median delay, and none that
lead away: the others are forecast as before it came.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import DataError, count_of, name_some
from forecaster.graph.dependency import DependencyGraph, bare
from forecaster.graph.edges import Delays, Pairs, Strengths, distance_km
from forecaster.panel.parts import Locations

LEAST_STEPS = 24  # common to two places, from which their values are compared
WEAKEST = 0.1  # strength of an edge where the graph has none to compare with


def restrict_graph(graph: DependencyGraph, ids: tuple[str, ...]) -> DependencyGraph:
    """Return the graph of some of its places, in this order; the others lose their edges."""
    position = {identity: n for n, identity in enumerate(graph.locations.ids)}
    unknown = [identity for identity in ids if identity not in position]
    if unknown:
        problem = f"graph: {count_of(len(unknown), 'unknown id')}: {name_some(unknown)}"
        raise DataError(f"{problem}; it has {name_some(position)}")
    order = [position[identity] for identity in ids]
    place = np.full(len(graph.locations), -1)
    place[order] = np.arange(len(order))
    pairs = place[graph.pairs].reshape(-1, 2)
    is_inside = (pairs >= 0).all(axis=1)
    delays = None if graph.delays is None else graph.delays[is_inside]
    locations = graph.locations.take(order)
    return _with_places(graph, locations, pairs[is_inside], graph.strengths[is_inside], delays)


def extend_graph(
    graph: DependencyGraph, locations: Locations, values: Float32[np.ndarray, "T N"] | None = None
) -> DependencyGraph:
    """Return the graph of these places: those that it has keep their edges, new ones get some.

    Args:
        graph: as learned.
        locations: old and new ones, in the order of the result; their coordinates are used.
        values: of these locations, up to the forecast origin, for those without coordinates; None:
            such places stay without edges.
    """
    learned = np.isin(locations.ids, graph.locations.ids)
    if not learned.any():
        raise DataError(
            f"graph: none of its places is among {name_some(locations.ids)}; learn another graph"
        )
    restricted = restrict_graph(graph, tuple(np.array(locations.ids)[learned].tolist()))
    pairs = np.flatnonzero(learned)[restricted.pairs].reshape(-1, 2)
    strengths = typical_strengths(graph)
    added = [
        (int(n), int(neighbour), strength)
        for n in np.flatnonzero(~learned)
        for neighbour, strength in zip(
            rank_neighbours(int(n), learned, locations, values), strengths, strict=False
        )
    ]
    joined = np.array([edge[:2] for edge in added], dtype=np.int64).reshape(-1, 2)
    delays = None
    if restricted.delays is not None:
        joined = joined[:, ::-1]  # into the new places
        delays = np.concatenate([restricted.delays, np.full(len(joined), typical_delay(graph))])
    return _with_places(
        graph,
        bare(locations),
        np.concatenate([pairs, joined]),
        np.concatenate([restricted.strengths, np.array([s for _, _, s in added], np.float64)]),
        delays,
    )


def typical_strengths(graph: DependencyGraph) -> Float64[np.ndarray, " k"]:
    """The strengths of a usual place's edges, the strongest first: as many as the median degree.

    The j-th is the median of |strength| over the j-th strongest edges of all places that have one;
    if directed, edges into them, of several delays the strongest.
    """
    ends, sizes = graph.links[:, 1], np.abs(graph.link_strengths)
    if not graph.is_directed:
        ends, sizes = graph.links.T.reshape(-1), np.tile(sizes, 2)
    order = np.lexsort((-sizes, ends))
    ends, sizes = ends[order], sizes[order]
    rank = np.arange(len(ends)) - np.searchsorted(ends, ends)
    usual = max(int(np.median(graph.degrees)), 1)
    by_rank = [sizes[rank == j] for j in range(usual)]
    return np.array([np.median(s) if len(s) else WEAKEST for s in by_rank])


def typical_delay(graph: DependencyGraph) -> int:
    """The median delay of a directed graph's edges, in whole steps; 1 without edges."""
    delays = np.ones(1) if graph.delays is None or not len(graph) else graph.delays
    return int(np.median(delays))


def rank_neighbours(
    place: int,
    learned: Bool[np.ndarray, " N"],
    locations: Locations,
    values: Float32[np.ndarray, "T N"] | None,
) -> Int64[np.ndarray, " k"]:
    """The places of the graph from the nearest on, or from the most similar; maybe none."""
    candidates = np.flatnonzero(learned & locations.placed)
    if locations.placed[place] and len(candidates):
        distances = distance_km(locations, np.full(len(candidates), place), candidates)
        return candidates[np.argsort(distances, kind="stable")]
    if values is None:
        return np.empty(0, dtype=np.int64)
    candidates = np.flatnonzero(learned)
    similarity = np.array([_similarity(values[:, place], values[:, n]) for n in candidates])
    order = np.argsort(-similarity, kind="stable")
    return candidates[order[similarity[order] > 0]]


def _similarity(first: Float32[np.ndarray, " T"], second: Float32[np.ndarray, " T"]) -> float:
    """The correlation of the changes from step to step; 0 with too few or constant ones."""
    changes = np.diff(np.stack([first, second]).astype(np.float64), axis=1)
    changes = changes[:, np.isfinite(changes).all(axis=0)]
    if changes.shape[1] < LEAST_STEPS or (np.ptp(changes, axis=1) == 0).any():
        return 0.0
    return float(np.corrcoef(*changes).flat[1])


def _with_places(
    graph: DependencyGraph,
    locations: Locations,
    pairs: Pairs,
    strengths: Strengths,
    delays: Delays | None,
) -> DependencyGraph:
    """The graph of other places, which says on which it was learned."""
    if delays is None:
        pairs = np.sort(pairs, axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    else:
        order = np.lexsort((delays, pairs[:, 1], pairs[:, 0]))
    learned_on = graph.about.learned_on or graph.locations.ids
    about = graph.about.model_copy(update={"learned_on": learned_on})
    return replace(
        graph,
        locations=locations,
        pairs=pairs[order],
        strengths=strengths[order],
        about=about,
        digest=None,
        delays=None if delays is None else delays[order],
    )
