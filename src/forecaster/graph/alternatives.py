"""Other graphs of the same locations, for comparison with the learned one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg.lapack import dpotrf, dpotri

from forecaster.errors import DataError, name_some
from forecaster.graph.edges import EdgeList, distance_km
from forecaster.panel.parts import Locations, Scalar

LEAST_VARIANCE = (
    1e-10  # conditional variance as a share of the variance: below, it is rounding error
)
GRID = ("row", "col")  # extra columns of the locations of a grid


class Inverse(NamedTuple):
    """The inverse of a correlation matrix, or the reason why there is none."""

    precision: Float64[np.ndarray, "N N"] | None
    reason: str = ""


def no_edges() -> EdgeList:
    """Return an empty edge list."""
    return EdgeList(np.empty((0, 2), dtype=np.int64), np.empty(0))


def complete(count: int) -> EdgeList:
    """Return the edges of the complete graph, all of strength 1."""
    pairs = np.column_stack(np.triu_indices(count, k=1))
    return EdgeList(pairs, np.ones(len(pairs)))


def random_edges(count: int, edges: int, generator: np.random.Generator) -> EdgeList:
    """Return a uniform sample of distinct pairs of locations, of strength 1."""
    pairs = count * (count - 1) // 2
    drawn = np.sort(generator.choice(pairs, min(edges, pairs), replace=False))
    return EdgeList(complete(count).pairs[drawn], np.ones(len(drawn)))


def invert(correlation: Float64[np.ndarray, "N N"]) -> Inverse:
    """Return the inverse of a correlation matrix by its Cholesky factor."""
    factor, info = dpotrf(correlation.T, lower=1)
    if info != 0 or np.diagonal(factor).min(initial=1.0) ** 2 < LEAST_VARIANCE:
        return Inverse(None, "the covariance is singular: it has no inverse")
    inverse, _ = dpotri(factor, lower=1)
    return Inverse(np.asarray(np.tril(inverse) + np.tril(inverse, k=-1).T))


def distance_kernel(locations: Locations) -> Float64[np.ndarray, "N N"]:
    """Return DCRNN's kernel exp(−d² / σ²), with σ the standard deviation of all distances.

    Distances are great circles, or Euclidean on a grid where rows and columns are known instead.
    """
    distances = _distances(locations)
    apart = distances[np.triu_indices(len(locations), k=1)]
    if not apart.any():
        return np.ones_like(distances)
    sigma = np.std(apart) or np.mean(apart)  # the deviation is 0 for two locations
    return np.asarray(np.exp(-np.square(distances / sigma)))


def _distances(locations: Locations) -> Float64[np.ndarray, "N N"]:
    N = len(locations)
    if locations.placed.all():
        first, second = np.indices((N, N)).reshape(2, -1)
        return distance_km(locations, first, second).reshape(N, N)
    row, col = (_numbers(locations.extra.get(name, ()), N) for name in GRID)
    distances = np.hypot(row[:, None] - row, col[:, None] - col)
    if np.isfinite(distances).all():
        return np.asarray(distances)
    unplaced = [i for i, placed in zip(locations.ids, locations.placed, strict=True) if not placed]
    message = f"no coordinates of {name_some(unplaced)}: a distance graph needs lat and lon"
    raise DataError(f"{message} of every location, or its row and col on a grid")


def _numbers(column: Sequence[Scalar], count: int) -> Float64[np.ndarray, " N"]:
    """Return a column as numbers, NaN for other values."""
    numbers = [float(v) if isinstance(v, int | float) else np.nan for v in column]
    return np.array(numbers or [np.nan] * count)
