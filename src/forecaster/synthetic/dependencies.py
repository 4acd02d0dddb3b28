"""The dependencies between locations, and the resulting precision matrix.

The numbers are fixed so that results stay comparable: average degree 2.5, one hub of 16, 8 %
of the edges long-range, partial correlations uniform in 0.15…0.40 and then scaled by one factor.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from forecaster.errors import count_of
from forecaster.synthetic.locations import LENGTH_KM

AVERAGE_DEGREE = 2.5
HUB_DEGREE = 16
LONG_RANGE_SHARE = 0.08
LONG_RANGE_KM = LENGTH_KM / 4  # a long-range edge spans at least this
CORRELATIONS = (0.15, 0.40)  # before all are scaled by one factor
SMALLEST_EIGENVALUE = 0.1  # of the precision; the factor follows from it
_DECIMALS = (
    12  # of correlations: the last digits of an eigenvalue depend on the machine's libraries
)
_NEAR_PAIRS = 4  # per location: local edges are drawn among the 8 nearest neighbours or so

Pairs = Int64[np.ndarray, "K 2"]


@dataclass(frozen=True, eq=False)
class DependencyEdges:
    """Pairs of locations that depend on each other given all others, each pair once."""

    first: Int64[np.ndarray, " E"]
    second: Int64[np.ndarray, " E"]  # > first
    correlation: Float64[np.ndarray, " E"]  # partial, with its sign (Eq. 3)
    long_range: Bool[np.ndarray, " E"]

    def __len__(self) -> int:
        return len(self.first)

    def degrees(self, count: int) -> Int64[np.ndarray, " N"]:
        """Return the number of edges of each of `count` locations."""
        return np.bincount(np.concatenate([self.first, self.second]), minlength=count)


def draw_edges(
    distances: Float64[np.ndarray, "N N"], hub: int, generator: np.random.Generator
) -> DependencyEdges:
    """Draw the edges of a city with one hub.

    A small city has at most as many edges as pairs, and its hub at most about half of them.
    """
    N = len(distances)
    total = min(round(N * AVERAGE_DEGREE / 2), N * (N - 1) // 2)
    of_hub = min(HUB_DEGREE, N - 1, (total + 1) // 2)
    far = round(total * LONG_RANGE_SHARE)
    around = np.argsort(distances[hub], kind="stable")[1 : of_hub + 1]
    hub_pairs = np.sort(np.column_stack([np.full(of_hub, hub), around]), axis=1)
    other_pairs = _draw_pairs(distances, hub, (total - of_hub - far, far), generator)
    pairs = np.concatenate([hub_pairs, other_pairs])
    correlation = _scale(pairs, generator.uniform(*CORRELATIONS, total), N)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    return DependencyEdges(
        first=pairs[order, 0],
        second=pairs[order, 1],
        correlation=correlation[order],
        long_range=order >= total - far,  # they were drawn last
    )


def to_precision(edges: DependencyEdges, count: int) -> Float64[np.ndarray, "N N"]:
    """Return the precision matrix with a unit diagonal that has these partial correlations."""
    pairs = np.column_stack([edges.first, edges.second])
    return np.asarray(np.eye(count) - _symmetric(pairs, edges.correlation, count))


def describe_edges(edges: DependencyEdges, count: int) -> str:
    """Describe the edges between `count` locations in one line."""
    parts = [f"{count_of(count, 'location')}, {count_of(len(edges), 'edge')}"]
    if len(edges):
        degrees = edges.degrees(count)
        low, high = edges.correlation.min(), edges.correlation.max()
        parts += [
            f"average degree {degrees.mean():.2f}, hub {degrees.max()}",
            f"long-range {100 * edges.long_range.mean():.1f} %",
            f"partial correlations {low:.3f}…{high:.3f}",
        ]
    return ", ".join(parts)


def _draw_pairs(
    distances: Float64[np.ndarray, "N N"],
    hub: int,
    counts: tuple[int, int],
    generator: np.random.Generator,
) -> Pairs:
    """Draw local pairs, nearer ones more often, then long-range pairs; none includes the hub."""
    local, far = counts
    pairs = np.column_stack(np.triu_indices(len(distances), k=1))
    pairs = pairs[(pairs != hub).all(axis=1)]
    apart = distances[pairs[:, 0], pairs[:, 1]]
    long_range = generator.choice(np.flatnonzero(apart >= LONG_RANGE_KM), far, replace=False)
    remaining = np.setdiff1d(np.arange(len(pairs)), long_range)
    near = remaining[np.argsort(apart[remaining], kind="stable")[: _NEAR_PAIRS * len(distances)]]
    if not local:
        return np.asarray(pairs[long_range])
    weight = np.exp(-apart[near] / np.median(apart[near]))
    drawn = generator.choice(near, local, replace=False, p=weight / weight.sum())
    return np.concatenate([pairs[drawn], pairs[long_range]])


def _scale(
    pairs: Pairs, correlation: Float64[np.ndarray, " K"], count: int
) -> Float64[np.ndarray, " K"]:
    """Scale all correlations by the factor that gives the precision its smallest eigenvalue."""
    if not len(pairs):
        return correlation
    matrix = csr_array(_symmetric(pairs, correlation, count))
    largest = eigsh(matrix, k=1, which="LA", v0=np.ones(count), return_eigenvectors=False)[0]
    scaled = correlation * ((1.0 - SMALLEST_EIGENVALUE) / largest)
    return np.asarray(scaled.round(_DECIMALS))


def _symmetric(
    pairs: Pairs, values: Float64[np.ndarray, " K"], count: int
) -> Float64[np.ndarray, "N N"]:
    matrix = np.zeros((count, count))
    matrix[pairs[:, 0], pairs[:, 1]] = values
    return matrix + matrix.T
