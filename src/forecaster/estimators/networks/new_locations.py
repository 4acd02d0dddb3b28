"""New locations in the network of `best`, which shares its weights among all locations.

A new location is treated as one that training hardly knows (`models.seasonal`): it has the city's
profile at a small scale, the level of its own window carries the rest, and others do not see it.
Its embedding is that of an unknown location. It sees its nearest neighbours by coordinates, or
those whose values move with its own, with the mean strengths that the network has learned.
"""

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.estimators.graph_arrays import DELAYS, PAIRS, STRENGTHS, edges_of
from forecaster.estimators.networks.profile import CITY, COUNTS, DEVIATIONS, KNOWN, PROFILE, RANGES
from forecaster.estimators.new_locations import append
from forecaster.estimators.training_data import Arrays
from forecaster.kernels.pattern import BlockPattern
from forecaster.windows.scaling import MIN_MEAN

MEAN, DEVIATION = "values.mean", "values.deviation"
EDGE_WEIGHTS = ("model.neighbours.weight", "model.linear.edges")  # a network has one or none
RULES = {
    DEVIATIONS: append(1, 0.0),
    KNOWN: append(0, 0.0),
    "model.place": append(0, 0.0),  # the embedding
    "model.city.weight": append(1, 0.0),  # of the city's factors
    "model.linear.loadings": append(0, 0.0),  # of these; of networks over directed graphs
}


def extend_network(
    arrays: Arrays, n: int, neighbours: Int64[np.ndarray, "E 2"]
) -> dict[str, np.ndarray]:
    """The arrays of a network with n more locations.

    Args:
        arrays: of the run.
        n: the number of new locations.
        neighbours: their edges, as in `new_locations`.
    """
    extended = {name: add(arrays[name], n) for name, add in RULES.items() if name in arrays}
    extended |= _extend_scales(arrays, n)
    extended |= _extend_profiles(arrays, extended, n)
    return extended | _extend_edges(arrays, n, neighbours)


def _extend_scales(arrays: Arrays, n: int) -> dict[str, np.ndarray]:
    """Scales of the values: that of rare counts, or the medians of other measurements."""
    mean, deviation = arrays[MEAN], arrays[DEVIATION]
    if arrays[COUNTS]:
        added = MIN_MEAN, float(np.sqrt(MIN_MEAN))
    else:
        added = float(np.median(mean)), float(np.median(deviation))
    return {MEAN: append(0, added[0])(mean, n), DEVIATION: append(0, added[1])(deviation, n)}


def _extend_profiles(arrays: Arrays, scales: Arrays, n: int) -> dict[str, np.ndarray]:
    """The city's profile in the scale of each new location, and a range that hides it."""
    mean, deviation = (scales[name][-n:, None] for name in (MEAN, DEVIATION))
    city, ranges = arrays[CITY], arrays[RANGES]
    profile = mean * city if arrays[COUNTS] else mean + deviation * city
    hidden = np.broadcast_to(mean[None], (2, n, ranges.shape[2]))
    return {
        PROFILE: np.concatenate([arrays[PROFILE], profile.astype(np.float32)]),
        RANGES: np.concatenate([ranges, hidden.astype(np.float32)], axis=1),
    }


def _extend_edges(
    arrays: Arrays, n: int, neighbours: Int64[np.ndarray, "E 2"]
) -> dict[str, np.ndarray]:
    """The graph with the edges of new locations, and the weights of all edges.

    New locations have no effect on others: a directed graph has no edges towards those, the edges
    of an undirected one have a weight of 0.
    """
    strengths, N, before = arrays[STRENGTHS], len(arrays[MEAN]), edges_of(arrays)
    strength = float(strengths.mean()) if len(strengths) else 0.0
    extended = {
        PAIRS: np.concatenate([before.pairs, neighbours]),
        STRENGTHS: append(0, strength)(strengths, len(neighbours)),
    }
    if before.delays is not None:
        delay = float(np.floor(np.median(before.delays))) if len(before.delays) else 1.0
        extended[DELAYS] = append(0, delay)(before.delays, len(neighbours))
    patterns = before.pattern(N), edges_of(extended).pattern(N + n)
    for name in EDGE_WEIGHTS:
        if name in arrays:
            extended[name] = _extend_weights(arrays[name], *patterns)
    return extended


def _extend_weights(
    weights: Float32[np.ndarray, "E C c"], before: BlockPattern, after: BlockPattern
) -> Float32[np.ndarray, "E2 C c"]:
    """The weights of the edges of a larger graph; those towards new locations are mean ones."""
    N, M = before.n_locations, after.n_locations
    source, target = (end.numpy() for end in (after.source, after.target))
    extended = np.zeros((after.n_edges, *weights.shape[1:]), dtype=np.float32)
    codes = before.target.numpy() * M + before.source.numpy()
    extended[np.searchsorted(target * M + source, codes)] = weights
    itself = before.target.numpy() == before.source.numpy()
    for chosen, rows in ((itself, source == target), (~itself, source != target)):
        if chosen.any():
            extended[rows & (target >= N)] = weights[chosen].mean(axis=0)
    return extended
