"""Neighbourhoods: a sparse regression of each location on its candidates, for many locations.

The graphical lasso regresses each location on all others, and its memory grows with N². Here a
location has a few candidates, so that memory grows with N. With the residual variances σ²,

    β_ij = −q_ij / q_ii,    q_ii = 1 / σ_i²,

and the conditional correlation (Eq. 3) of two locations is ± √(β_ij β_ji) (Meinshausen & Bühlmann
2006); it is zero where either regression leaves the other one out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.config import GraphConfig
from forecaster.errors import count_of
from forecaster.graph.covariance import Sample
from forecaster.graph.dependency import PathStep
from forecaster.graph.edges import EdgeList
from forecaster.graph.neighbourhood import loops
from forecaster.graph.neighbourhood.candidates import NONE, Candidates, find_candidates
from forecaster.graph.neighbourhood.series import TrainingSeries
from forecaster.graph.neighbourhood.threads import share_out
from forecaster.graph.selection import DENSEST, PER_DECADE, SPARSEST, MessageCallback, hold_out

SAMPLED = 1_000  # locations whose held-out weeks choose the penalty
CHECKED = 256  # locations of which is checked whether a candidate is missing
_TOGETHER = 64  # locations that a thread takes at a time
_SEED = 0


class Neighbourhoods(NamedTuple):
    """The strengths of all pairs that are not independent, and how they were learned."""

    pairs: EdgeList
    penalty: float
    gap: float  # the largest duality gap of a regression, as a share of a variance
    path: tuple[PathStep, ...]
    missing: Float64[
        np.ndarray, " checked"
    ]  # of some locations the strongest that was no candidate
    notes: tuple[str, ...]


class Regressions(NamedTuple):
    """The regressions of some locations on their candidates."""

    locations: Int64[np.ndarray, " n"]
    beta: Float64[np.ndarray, "n k"]  # 0 where there is no candidate
    variances: Float64[np.ndarray, " n"]  # 1 / q_ii
    gaps: Float64[np.ndarray, " n"]


def learn_neighbourhoods(
    sample: Sample, config: GraphConfig, tell: MessageCallback
) -> Neighbourhoods:
    """Learn who depends on whom given all others from the steps of a sample."""
    tell("series of all locations")
    series = TrainingSeries.of(sample)
    candidates = find_candidates(series, sample.panel.locations, tell)
    penalty, path = config.penalty, list[PathStep]()
    if penalty is None:
        penalty, path = _choose(series, candidates, sample, config, tell)
    tell(f"regressions at penalty {penalty:.3g}")
    everyone = np.arange(len(candidates))
    regressions = _regress(series, candidates, everyone, penalty, config, tell)
    missing = _missing_neighbours(series, candidates, regressions, penalty)
    return Neighbourhoods(
        _symmetrise(candidates, regressions),
        penalty,
        float(regressions.gaps.max(initial=0.0)),
        tuple(path),
        missing,
        _notes(series, candidates, path),
    )


def _regress(
    series: TrainingSeries,
    candidates: Candidates,
    locations: Int64[np.ndarray, " n"],
    penalty: float,
    config: GraphConfig,
    tell: MessageCallback,
) -> Regressions:
    """Return the regressions of some locations at a penalty."""
    n, k = len(locations), candidates.shape[1]
    result = Regressions(locations, np.zeros((n, k)), np.ones(n), np.zeros(n))
    ridge = penalty if config.penalise_diagonal else 0.0

    def solve(first: int) -> None:
        for place in range(first, min(first + _TOGETHER, n)):
            own = candidates[locations[place]]
            at = np.flatnonzero(own != NONE)
            S = series.correlations(np.append(locations[place], own[at]))
            beta = np.zeros(len(at))
            result.gaps[place] = loops.regress(S, penalty, ridge, config.gap_tolerance, beta)
            result.beta[place, at] = beta
            # q_jj = 1 / (w_jj − w₁₂ᵀβ), where w₁₂ = (S₁₁ + ρ1) β and w_jj = 1 + ρ
            explained = beta @ S[1:, 1:] @ beta + ridge * (beta @ beta)
            result.variances[place] = 1.0 + ridge - explained

    share_out(list(range(0, n, _TOGETHER)), solve, "regressions, part", tell)
    return result


def _choose(
    series: TrainingSeries,
    candidates: Candidates,
    sample: Sample,
    config: GraphConfig,
    tell: MessageCallback,
) -> tuple[float, list[PathStep]]:
    """Return the penalty of the best forecasts of held-out weeks, and all that were tried.

    Penalties go down until the likelihood of some locations given their neighbours falls, or to
    the level √(2 log k / M) that the largest of k chance correlations of M steps reaches: among
    candidates that were chosen for their correlation, held-out weeks of the same noise see less.
    """
    N, generator = len(candidates), np.random.default_rng(_SEED)
    chosen = np.sort(generator.choice(N, min(SAMPLED, N), replace=False))
    numbers = [np.append(n, candidates[n][candidates[n] != NONE]) for n in chosen]
    weeks = hold_out(sample.steps, sample.panel.clock.season_slots)
    parts = [np.searchsorted(sample.steps, steps) for steps in weeks]
    matrices = [_correlations_at(series, numbers, places, tell) for places in parts]
    largest = max(float(np.abs(S[0, 1:]).max(initial=0.0)) for S in matrices[0])
    path, betas = list[PathStep](), [np.zeros(len(members) - 1) for members in numbers]
    least = math.sqrt(2 * math.log(candidates.shape[1] + 1) / len(sample.steps))
    for penalty in _penalties(largest, least, config.penalties_per_decade or PER_DECADE):
        ridge = penalty if config.penalise_diagonal else 0.0
        score, edges = 0.0, 0
        for beta, fitted, held_out in zip(betas, *matrices, strict=True):
            loops.regress(fitted, penalty, ridge, config.gap_tolerance, beta)
            score += _likelihood(fitted, held_out, beta, ridge) / len(betas)
            edges += int(np.count_nonzero(beta))
        step = PathStep(
            penalty=penalty, score=score, edges=edges * N // (2 * len(chosen)), converged=True
        )
        path.append(step)
        tell(f"penalty {len(path)}, {penalty:.3g}: about {step.edges:,} edges, score {score:.5f}")
        if len(path) > 1 and score < path[-2].score:
            return path[-2].penalty, path
    return path[-1].penalty, path


def _correlations_at(
    series: TrainingSeries,
    numbers: Sequence[Int64[np.ndarray, " _"]],
    places: Int64[np.ndarray, " T"],
    tell: MessageCallback,
) -> list[Float64[np.ndarray, "_ _"]]:
    """Return the correlations of some locations with their candidates, in some of the steps."""
    matrices = [np.empty((0, 0))] * len(numbers)

    def correlate(at: int) -> None:
        matrices[at] = series.correlations_at(places, numbers[at])

    share_out(range(len(numbers)), correlate, "locations that choose the penalty,", tell)
    return matrices


def _penalties(largest: float, least: float, per_decade: int) -> list[float]:
    """Return the penalties to try, in descending order, as `penalty_path` does."""
    first, least = max(SPARSEST * largest, DENSEST), max(least, DENSEST)
    count = round(per_decade * math.log10(max(first / least, 1.0))) + 1
    return [float(penalty) for penalty in np.geomspace(first, min(first, least), count)]


def _likelihood(
    fitted: Float64[np.ndarray, "k k"],
    held_out: Float64[np.ndarray, "k k"],
    beta: Float64[np.ndarray, " k-1"],
    ridge: float,
) -> float:
    """Return the mean log density of held-out steps given the candidates, without its constant."""
    variance = 1.0 + ridge - float(beta @ fitted[1:, 1:] @ beta + ridge * (beta @ beta))
    error = 1.0 - 2.0 * float(held_out[0, 1:] @ beta) + float(beta @ held_out[1:, 1:] @ beta)
    return -0.5 * (math.log(variance) + error / variance)


def _symmetrise(candidates: Candidates, found: Regressions) -> EdgeList:
    """Return the conditional correlations of all pairs where they are not zero (Eq. 3).

    A pair that is a candidate one way only has the estimate of that one: β_ij σ_j / σ_i.
    """
    N = len(candidates)
    own, place = np.nonzero(candidates != NONE)
    codes, beta = own * N + candidates[own, place], found.beta[own, place]
    order = np.argsort(codes)
    codes, beta = codes[order], beta[order]
    used = beta != 0
    first, second = np.divmod(codes[used], N)
    turned = second * N + first
    at = np.minimum(np.searchsorted(codes, turned), len(codes) - 1)
    both = codes[at] == turned if len(codes) else np.zeros(0, np.bool_)
    deviation = np.sqrt(found.variances)
    one_way = beta[used] * deviation[second] / deviation[first]
    product = beta[used] * beta[at]
    two_way = np.sign(beta[used]) * np.sqrt(np.maximum(product, 0.0))
    strengths = np.clip(np.where(both, two_way, one_way), -1.0, 1.0)
    low, high = np.minimum(first, second), np.maximum(first, second)
    is_edge = (strengths != 0) & (~both | (first < second))
    order = np.lexsort((high[is_edge], low[is_edge]))
    pairs = np.column_stack([low[is_edge], high[is_edge]])[order]
    return EdgeList(pairs, strengths[is_edge][order])


def _missing_neighbours(
    series: TrainingSeries, candidates: Candidates, found: Regressions, penalty: float
) -> Float64[np.ndarray, " checked"]:
    """Return about how strongly some locations depend on one that is not their candidate."""
    N, generator = len(candidates), np.random.default_rng(_SEED + 1)
    checked = np.sort(generator.choice(N, min(CHECKED, N), replace=False))
    residuals = np.empty((series.values.shape[1], len(checked)), np.float32)
    for column, n in enumerate(checked):
        used = found.beta[n] != 0
        explained = found.beta[n][used].astype(np.float32) @ series.values[candidates[n][used]]
        residuals[:, column] = series.values[n] - explained
    slopes = np.abs(series.values @ residuals)
    for column, n in enumerate(checked):
        slopes[n, column] = 0.0
        slopes[candidates[n][candidates[n] != NONE], column] = 0.0
    strongest = np.maximum(slopes.max(axis=0, initial=0.0) - penalty, 0.0)
    return np.asarray(strongest / np.sqrt(found.variances[checked]), dtype=np.float64)


def _notes(
    series: TrainingSeries, candidates: Candidates, path: Sequence[PathStep]
) -> tuple[str, ...]:
    """Describe what was left out."""
    N, k = candidates.shape
    notes = [f"each location was regressed on at most {k} candidates"]
    if path:
        notes.append(f"the penalty was chosen on {min(SAMPLED, N):,} of {N:,} locations")
    if series.constant.any():
        constant = count_of(int(series.constant.sum()), "location")
        notes.append(f"{constant} with zero variance in the training steps: kept isolated")
    return tuple(notes)
