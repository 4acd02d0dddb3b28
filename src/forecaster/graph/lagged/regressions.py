"""A lasso regression of every location on the past of all others, shared out over threads.

What a location's own past and the factors of the city explain has no penalty; others' past has λ.
Edges are what remains. The lasso shrinks their effects, so they are fitted again without penalty,
and those are left out that chance could explain (5 % for a location, over all of its candidates).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.special import ndtri

from forecaster.graph.lagged import descent
from forecaster.graph.lagged.covariances import LaggedCovariances
from forecaster.graph.lagged.deviations import Bounds, LaggedSample
from forecaster.graph.neighbourhood.threads import cores
from forecaster.paired import MAX_BLOCKS

CHANCE_OF_AN_EDGE = 0.05  # that a location which depends on none gets an edge
_ROOM = 256  # others' terms of a location
_CHUNK = 8  # locations that a thread takes at a time

Terms = tuple[Int64[np.ndarray, " most"], Float64[np.ndarray, " most"], int]


@dataclass(frozen=True, eq=False)
class Regressions:
    """The terms of every location's regression, and their coefficients.

    The first terms are the location's own lags and those of the factors.
    """

    inputs: LaggedCovariances
    codes: Int64[np.ndarray, "N most"]  # (lag − 1)·P + series
    beta: Float64[np.ndarray, "N most"]
    counts: Int64[np.ndarray, " N"]

    @property
    def free(self) -> int:
        """The number of terms without a penalty."""
        return self.inputs.max_delay * (1 + len(self.inputs.factors))

    @property
    def used(self) -> Bool[np.ndarray, "N most"]:
        """Which terms are in use."""
        return np.asarray(
            (self.beta != 0) & (np.arange(self.beta.shape[1]) < self.counts[:, None])
        )

    @property
    def edges(self) -> Bool[np.ndarray, "N most"]:
        """Which terms are others' past in use."""
        edges = self.used
        edges[:, : self.free] = False
        return edges

    def each(self, job: Callable[[int, Terms], None]) -> None:
        """Call a job with the number and the terms of every location, in threads."""

        def run(locations: range) -> None:
            for n in locations:
                job(n, (self.codes[n], self.beta[n], int(self.counts[n])))

        N = len(self.counts)
        chunks = [range(first, min(first + _CHUNK, N)) for first in range(0, N, _CHUNK)]
        with ThreadPoolExecutor(cores()) as pool:
            for _ in pool.map(run, chunks):
                pass

    def copy(self) -> "Regressions":
        """The same terms, to be changed."""
        return Regressions(self.inputs, self.codes.copy(), self.beta.copy(), self.counts.copy())


def begin(inputs: LaggedCovariances) -> Regressions:
    """The regressions on a location's own past and the factors alone."""
    N, P, D = inputs.n_locations, inputs.lags.shape[1], inputs.max_delay
    codes = np.zeros((N, D * (1 + P - N) + min(_ROOM, D * (N - 1))), np.int64)
    lags = np.arange(D)[:, None] * P
    for n in range(N):
        free = (lags + np.array([n, *range(N, P)])).reshape(-1)
        codes[n, : len(free)] = free
    counts = np.full(N, D * (1 + P - N), np.int64)
    return refit(Regressions(inputs, codes, np.zeros(codes.shape), counts))


def largest_penalty(regressions: Regressions) -> float:
    """The penalty from which on no location uses another's past."""
    slopes, gammas = np.zeros(len(regressions.counts)), _gammas(regressions.inputs)

    def measure(n: int, terms: Terms) -> None:
        slopes[n] = descent.steepest_slope(gammas, n, terms)

    regressions.each(measure)
    return float(slopes.max())


def solve(regressions: Regressions, penalty: float) -> Regressions | None:
    """The lasso regressions at a penalty; None: a location has more terms than there is room for.

    Args:
        regressions: the start, such as those of a larger penalty.
        penalty: λ.
    """
    solved, gammas = regressions.copy(), _gammas(regressions.inputs)

    def regress(n: int, terms: Terms) -> None:
        solved.counts[n] = descent.descend(gammas, n, penalty, terms)

    solved.each(regress)
    return None if (solved.counts == descent.FULL).any() else solved


def duality_gap(regressions: Regressions, penalty: float) -> float:
    """The largest duality gap of the regressions at a penalty, as a share of a variance."""
    gaps, gammas = np.zeros(len(regressions.counts)), _gammas(regressions.inputs)

    def measure(n: int, terms: Terms) -> None:
        gaps[n] = descent.certify(gammas, n, penalty, terms)

    regressions.each(measure)
    return float(gaps.max())


def refit(regressions: Regressions) -> Regressions:
    """The terms in use fitted without penalty, without those that chance could explain."""
    fitted, inputs, free = regressions.copy(), regressions.inputs, regressions.free
    gammas, candidates = _gammas(inputs), max((inputs.n_locations - 1) * inputs.max_delay, 1)
    least = -float(ndtri(CHANCE_OF_AN_EDGE / 2 / candidates)) / max(inputs.steps, 1) ** 0.5

    def fit(n: int, terms: Terms) -> None:
        codes, beta, count = terms
        in_use = np.flatnonzero(beta[:count])
        kept = np.concatenate([np.arange(free), in_use[in_use >= free]])
        codes[: len(kept)] = codes[kept]
        fitted.counts[n] = descent.refit(gammas, n, least, (codes, beta, len(kept)))
        beta[fitted.counts[n] :] = 0

    fitted.each(fit)
    return fitted


def fit_edges(
    inputs: LaggedCovariances,
    pairs: Int64[np.ndarray, "E 2"],
    delays: Int64[np.ndarray, " E"],
) -> Regressions:
    """The regressions on own past, the factors and these edges, all without penalty.

    Args:
        inputs: up to the largest of the delays.
        pairs: the source and the target of each edge.
        delays: steps from source to target.
    """
    own_past, order = begin(inputs), np.argsort(pairs[:, 1], kind="stable")
    free, (source, target) = own_past.free, pairs[order].T
    edges = np.bincount(target, minlength=inputs.n_locations)
    place = free + np.arange(len(order)) - np.searchsorted(target, target)
    codes = np.zeros((len(edges), free + int(edges.max(initial=0))), np.int64)
    codes[:, :free] = own_past.codes[:, :free]
    codes[target, place] = (delays[order] - 1) * inputs.lags.shape[1] + source
    fitted = Regressions(inputs, codes, np.zeros(codes.shape), free + edges)
    gammas = _gammas(inputs)

    def fit(n: int, terms: Terms) -> None:
        descent.refit(gammas, n, 0.0, terms)

    fitted.each(fit)
    return fitted


def squared_errors(
    regressions: Regressions,
    sample: LaggedSample,
    series: Float32[np.ndarray, "P T"],
    runs: Bounds,
) -> Float64[np.ndarray, "blocks N"]:
    """The squared errors of all locations one step ahead, by block of days.

    Args:
        regressions: fitted to other steps.
        sample: for which values are observed.
        series: the locations and the factors, scaled.
        runs: the steps to forecast.
    """
    squares = np.zeros((len(regressions.counts), MAX_BLOCKS))

    def add(n: int, terms: Terms) -> None:
        observed = sample.observed[n]
        descent.sum_errors(series, observed, sample.blocks, n, terms, runs, squares[n])

    regressions.each(add)
    return np.ascontiguousarray(squares.T)


def _gammas(inputs: LaggedCovariances) -> descent.Covariances:
    return inputs.lags, inputs.turned, inputs.n_locations
