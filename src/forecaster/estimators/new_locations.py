"""Locations that a run has never met: the arrays that all runs have, extended by them.

Nothing is known about a new location: a fill of NaN marks it (`is_new`), every value of it is
plausible, and its spread is that of locations of its size (`Calibration`). What a network needs
beyond that is in `networks.new_locations`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.artifact import Run
from forecaster.estimators import closed
from forecaster.estimators.fallback.served import FACTORS, MODEL
from forecaster.estimators.fallback.served import PREFIX as FALLBACK
from forecaster.estimators.graph_arrays import PAIRS, edges_of
from forecaster.estimators.intervals.calibration import (
    OBSERVED,
    OFFSETS,
    RESIDUALS,
    SPREAD,
    WIDEST,
)
from forecaster.estimators.training_data import Arrays
from forecaster.estimators.wrong_values.value_ranges import LONGEST, RANGE
from forecaster.graph.extend import rank_neighbours
from forecaster.panel.parts import Locations

WIDE = 1e30  # beyond any value; its multiples are finite
NEVER = 2.0**20  # steps: no run of equal values is longer
Rule = Callable[[np.ndarray, int], np.ndarray]  # from an array and the number of new locations


@dataclass(frozen=True, eq=False)
class ExtendedRun:
    """A run with further locations, and what it was made of."""

    run: Run
    base: Run
    neighbours: Int64[np.ndarray, "E 2"]

    def fits(self, base: Run, ids: tuple[str, ...], neighbours: Int64[np.ndarray, "E 2"]) -> bool:
        """Whether it was made of the same run, locations and edges."""
        same = self.base is base and tuple(self.run.about["ids"]) == ids
        return same and np.array_equal(self.neighbours, neighbours)


def choose_neighbours(
    arrays: Arrays, locations: Locations, n: int, values: Float32[np.ndarray, "T M"]
) -> Int64[np.ndarray, "E 2"]:
    """The edges of the last n locations, each from a known one to a new one; none without a graph.

    Args:
        arrays: of the run.
        locations: of the run, then the new ones.
        n: the number of new ones.
        values: by which neighbours are found where there are no coordinates.
    """
    M = len(locations)
    if PAIRS not in arrays:
        return np.empty((0, 2), dtype=np.int64)
    was_trained, learned = np.arange(M) < M - n, edges_of(arrays)
    if learned.is_directed and not len(learned.pairs):  # none tells about another
        return np.empty((0, 2), dtype=np.int64)
    degree = int(np.median(learned.degrees(M - n)))
    edges = [
        (int(neighbour), new)
        for new in range(M - n, M)
        for neighbour in rank_neighbours(new, was_trained, locations, values)[: max(degree, 1)]
    ]
    return np.array(edges, dtype=np.int64).reshape(-1, 2)


def extend_arrays(run: Run, n: int) -> dict[str, np.ndarray]:
    """The arrays of a run that have an entry for each location, with n more of them."""
    return {name: add(run.arrays[name], n) for name, add in RULES.items() if name in run.arrays}


def append(axis: int, value: float) -> Rule:
    """A rule that appends entries of one value along an axis."""

    def add(array: np.ndarray, n: int) -> np.ndarray:
        shape = list(array.shape)
        shape[axis] = n
        return np.concatenate([array, np.full(shape, value, dtype=array.dtype)], axis=axis)

    return add


def append_mean(axis: int) -> Rule:
    """A rule that appends the mean of the others along an axis."""

    def add(array: np.ndarray, n: int) -> np.ndarray:
        mean = array.mean(axis=axis, keepdims=True, dtype=np.float64).astype(array.dtype)
        return np.concatenate([array, np.repeat(mean, n, axis=axis)], axis=axis)

    return add


def _append_ranges(array: Float32[np.ndarray, "2 H N"], n: int) -> Float32[np.ndarray, "2 H M"]:
    """Ranges that every value lies in."""
    ends = np.array([-WIDE, WIDE], dtype=np.float32)
    added = np.broadcast_to(ends[:, None, None], (2, array.shape[1], n))
    return np.concatenate([array, added.astype(np.float32)], axis=2)


RULES: dict[str, Rule] = {
    "shared.fill": append(1, np.nan),
    "shared.fill_local_covariates": append_mean(2),
    "shared.least": append_mean(0),
    "shared.most": append_mean(0),
    RANGE: _append_ranges,
    LONGEST: append(1, NEVER),
    closed.LONGEST: append(0, NEVER),
    SPREAD: append(1, np.nan),
    OFFSETS: append(3, np.nan),
    WIDEST: append(2, 0.0),
    RESIDUALS: append(2, 0.0),
    OBSERVED: append(2, 0.0),
    MODEL: append(0, 0.0),
    FACTORS: append(0, 1.0),
    # Ridge where it is served; at new locations it is not.
    f"{FALLBACK}Ridge.values.mean": append_mean(0),
    f"{FALLBACK}Ridge.values.deviation": append_mean(0),
    f"{FALLBACK}Ridge.weights": append_mean(2),
}
