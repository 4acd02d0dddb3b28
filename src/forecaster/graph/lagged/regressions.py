"""A lasso regression of every location on the past of all others, shared out over threads.

What a location's own past and the factors of the city explain has no penalty; others' past has λ.
Edges are what remains. The lasso shrinks their effects, so they are fitted again without penalty,
and those are left out that chance could explain (5 % for a location, over all of its candidates).
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.stats import norm

from forecaster.graph.lagged import descent
from forecaster.graph.lagged.covariances import LaggedCovariances
from forecaster.graph.lagged.deviations import LaggedSample, Segment
from forecaster.paired import MAX_BLOCKS

CHANCE = 0.05  # that a location which depends on none gets an edge
_ROOM = 128  # others' terms of a location
_CHUNK = 8  # locations that a thread takes at a time


@dataclass(frozen=True, eq=False)
class Regressions:
    """The terms of every location's regression, and their coefficients.

    The first terms are the location's own lags and those of the factors.
    """

    covariances: LaggedCovariances
    codes: Int64[np.ndarray, "N most"]  # (lag − 1)·P + series
    beta: Float64[np.ndarray, "N most"]
    counts: Int64[np.ndarray, " N"]

    @property
    def free(self) -> int:
        """The number of terms without a penalty."""
        return self.covariances.max_delay * (1 + self.covariances.n_factors)

    @property
    def edges(self) -> int:
        """The number of others' terms that are in use."""
        in_use = (self.beta != 0) & (np.arange(self.beta.shape[1]) < self.counts[:, None])
        return int(in_use[:, self.free :].sum())

    def copy(self) -> "Regressions":
        """The same terms, to be changed."""
        arrays = self.codes.copy(), self.beta.copy(), self.counts.copy()
        return Regressions(self.covariances, *arrays)


def begin(covariances: LaggedCovariances) -> Regressions:
    """The regressions on a location's own past and the factors alone."""
    N, P, D = covariances.n_locations, covariances.lags.shape[1], covariances.max_delay
    free = D * (1 + covariances.n_factors)
    codes = np.zeros((N, free + _ROOM), np.int64)
    lags = np.arange(D)[:, None] * P
    for n in range(N):
        codes[n, :free] = (lags + np.array([n, *range(N, P)])).reshape(-1)
    counts = np.full(N, free, np.int64)
    regressions = Regressions(covariances, codes, np.zeros(codes.shape), counts)
    return refit(regressions)


def largest_penalty(regressions: Regressions) -> float:
    """The penalty from which on no location uses another's past."""
    inputs = regressions.covariances
    slopes = np.zeros(inputs.n_locations)

    def measure(n: int) -> None:
        terms = regressions.codes[n], regressions.beta[n], int(regressions.counts[n])
        arrays = inputs.lags, inputs.turned, n, inputs.n_locations
        slopes[n] = descent.steepest_slope(*arrays, *terms)

    _share(measure, len(slopes))
    return float(slopes.max())


def solve(regressions: Regressions, penalty: float) -> Regressions | None:
    """The lasso regressions at a penalty, from others nearby; None: more terms than there is room.

    Args:
        regressions: the start.
        penalty: λ.
    """
    solved, inputs = regressions.copy(), regressions.covariances

    def regress(n: int) -> None:
        terms = solved.codes[n], solved.beta[n], int(solved.counts[n])
        arrays = inputs.lags, inputs.turned, n, inputs.n_locations, penalty
        solved.counts[n] = descent.descend(*arrays, *terms)

    _share(regress, len(solved.counts))
    return None if (solved.counts == descent.FULL).any() else solved


def duality_gap(regressions: Regressions, penalty: float) -> float:
    """The largest duality gap of the regressions at a penalty, as a share of a variance."""
    inputs = regressions.covariances
    gaps = np.zeros(inputs.n_locations)

    def measure(n: int) -> None:
        terms = regressions.codes[n], regressions.beta[n], int(regressions.counts[n])
        arrays = inputs.lags, inputs.turned, n, inputs.n_locations, penalty
        gaps[n] = descent.certify(*arrays, *terms)

    _share(measure, len(gaps))
    return float(gaps.max())


def refit(regressions: Regressions) -> Regressions:
    """The terms in use fitted without penalty, without those that chance could explain."""
    fitted, inputs = regressions.copy(), regressions.covariances
    N, free = inputs.n_locations, regressions.free
    candidates = max((N - 1) * inputs.max_delay, 1)
    least = float(norm.isf(CHANCE / 2 / candidates)) / max(inputs.steps, 1) ** 0.5

    def fit(n: int) -> None:
        count = int(fitted.counts[n])
        in_use = np.flatnonzero(fitted.beta[n, :count])
        kept = np.concatenate([np.arange(free), in_use[in_use >= free]])
        codes = fitted.codes[n]
        codes[: len(kept)] = codes[kept]
        terms = codes, fitted.beta[n], len(kept)
        fitted.counts[n] = descent.refit(inputs.lags, n, N, least, *terms)
        fitted.beta[n, fitted.counts[n] :] = 0

    _share(fit, N)
    return fitted


def squared_errors(
    regressions: Regressions,
    sample: LaggedSample,
    series: Float32[np.ndarray, "P T"],
    segments: Sequence[Segment],
) -> Float64[np.ndarray, "blocks N"]:
    """The squared errors of all locations one step ahead, by block of days.

    Args:
        regressions: fitted elsewhere.
        sample: for which values are observed.
        series: its deviations and the factors, scaled.
        segments: the steps to forecast.
    """
    N = regressions.covariances.n_locations
    squares = np.zeros((N, MAX_BLOCKS))
    rows = [(segment.start, segment.stop, segment.block) for segment in segments]
    bounds = np.array(rows, dtype=np.int64).reshape(-1, 3)

    def add(n: int) -> None:
        terms = regressions.codes[n], regressions.beta[n], int(regressions.counts[n])
        descent.sum_errors(series, sample.observed[n], n, *terms, bounds, squares[n])

    _share(add, N)
    return np.ascontiguousarray(squares.T)


def series_of(
    sample: LaggedSample, weights: Float64[np.ndarray, "F N"], segments: Sequence[Segment]
) -> Float32[np.ndarray, "P T"]:
    """The deviations and the factors of the city, scaled as the covariances of some segments."""
    x = sample.deviations
    factors = weights.astype(np.float32) @ x
    rows = np.concatenate([x, factors])
    total, count = np.zeros(len(rows)), 0
    for segment in segments:
        part = rows[:, segment.start : segment.stop]
        total += np.square(part).sum(axis=1, dtype=np.float64)
        count += part.shape[1]
    scale = np.sqrt(total / max(count, 1))
    rows /= np.where(scale > 0, scale, np.inf).astype(np.float32)[:, None]
    return np.asarray(rows)


def is_linked(regressions: Regressions) -> Bool[np.ndarray, "N most"]:
    """Which terms are edges."""
    position = np.arange(regressions.codes.shape[1])
    inside = (position >= regressions.free) & (position < regressions.counts[:, None])
    return np.asarray(inside & (regressions.beta != 0))


def _share(job: Callable[[int], None], count: int) -> None:
    """Run a job for every location in as many threads as there are cores."""
    threads = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, count)
    chunks = [range(first, min(first + _CHUNK, count)) for first in range(0, count, _CHUNK)]

    def run(chunk: range) -> None:
        for n in chunk:
            job(n)

    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for _ in pool.map(run, chunks):
            pass
