"""Choice of the penalty λ of Eq. 4 by the likelihood of held-out weeks or the extended BIC.

Penalties are tried in descending order, each solution the start of the next, until the score
falls. Of many locations fewer are tried, unless a recipe asks for more.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.config import GraphConfig
from forecaster.errors import DataError
from forecaster.graph.certificate import log_determinant
from forecaster.graph.dependency import PathStep
from forecaster.graph.lasso import LassoResult, graphical_lasso_path
from forecaster.remaining import Paced, describe_seconds, extrapolate

HELD_OUT = 4  # one of this many blocks of time is held out
SPARSEST = 0.8  # of the largest correlation: the first penalty of the path
DENSEST = 0.001  # on the correlation scale: the last one
MANY = 1_000  # locations from which on the path is coarse,
COARSE = 4  # so many penalties by decade, and begins where the graph is empty
PER_DECADE = 8  # penalties of other paths
USUAL_DECADES = 1.1  # that a path covers
EBIC_GAMMA = 0.5  # weight of the number of possible edges

Score = Callable[[LassoResult], float]  # the larger, the better
MessageCallback = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class SelectedPenalty:
    """The best penalty of a path, its solution, and all tried penalties."""

    penalty: float
    result: LassoResult
    path: tuple[PathStep, ...]


def hold_out(
    steps: Int64[np.ndarray, " M"], steps_per_week: int
) -> tuple[Int64[np.ndarray, " A"], Int64[np.ndarray, " B"]]:
    """Return the steps to fit on and the held-out steps: every fourth week.

    Single hours would not be independent of the neighbouring fitted ones. Less than four weeks are
    cut into four blocks.
    """
    held = quarters(len(steps), steps_per_week) == HELD_OUT - 1
    if held.sum() <= 1:
        message = f"{len(steps)} steps are too few to choose a penalty by holding some out"
        raise DataError(f"{message}; give a penalty")
    return steps[~held], steps[held]


def quarters(steps: int, steps_per_week: int) -> Int64[np.ndarray, " M"]:
    """Return which quarter each step is in: weeks belong to them in turn."""
    blocks = max(HELD_OUT, round(steps / steps_per_week))
    return np.asarray(np.arange(steps) * blocks // steps % HELD_OUT)


def choose_by_likelihood(
    fit: Float64[np.ndarray, "N N"],
    held_out: Float64[np.ndarray, "N N"],
    config: GraphConfig,
    tell: MessageCallback,
) -> SelectedPenalty:
    """Return the penalty with the highest likelihood of the held-out steps (Eq. 2)."""

    def score(result: LassoResult) -> float:
        return log_likelihood(result.precision, held_out)

    return _walk(fit, score, config, tell)


def choose_by_ebic(
    correlation: Float64[np.ndarray, "N N"],
    steps: int,
    config: GraphConfig,
    tell: MessageCallback,
) -> SelectedPenalty:
    """Return the penalty with the lowest extended BIC (Foygel & Drton 2010).

    −2 ℓ + E log M + 4 γ E log N. It treats the M steps as independent, which hours are not, and so
    keeps too many edges.
    """
    N = len(correlation)

    def score(result: LassoResult) -> float:
        cost = _count_edges(result) * (np.log(steps) + 4 * EBIC_GAMMA * np.log(N)) / (2 * steps)
        return log_likelihood(result.precision, correlation) - float(cost) / N

    return _walk(correlation, score, config, tell)


def log_likelihood(
    precision: Float64[np.ndarray, "N N"], covariance: Float64[np.ndarray, "N N"]
) -> float:
    """Return the mean log density (Eq. 2) per step and location, without its constant.

    Differs: |Q|^½; Eq. 2 prints |Q|.
    """
    # log f = ½ log|Q| − ½ tr(SQ) + constant
    return (log_determinant(precision) - float(np.vdot(covariance, precision))) / (
        2 * len(precision)
    )


def penalty_path(covariance: Float64[np.ndarray, "N N"], config: GraphConfig) -> list[float]:
    """Return the penalties to try, in descending order; at the largest entry no edge is left."""
    rows = range(len(covariance))
    largest = max(float(np.abs(np.delete(covariance[n], n)).max(initial=0.0)) for n in rows)
    is_papers = config.subtract == "nothing"  # whose graphs stay as they are
    is_coarse = config.penalties_per_decade is None and len(covariance) > MANY and not is_papers
    first = largest if is_coarse else SPARSEST * largest
    if first <= DENSEST:
        return [DENSEST]
    per_decade = config.penalties_per_decade or (COARSE if is_coarse else PER_DECADE)
    count = round(per_decade * np.log10(first / DENSEST)) + 1
    return [float(penalty) for penalty in np.geomspace(first, DENSEST, max(count, 2))]


def _walk(
    covariance: Float64[np.ndarray, "N N"],
    score: Score,
    config: GraphConfig,
    tell: MessageCallback,
) -> SelectedPenalty:
    """Return the best penalty of a path that ends when the score falls or solving fails."""
    penalties, stamps = penalty_path(covariance, config), [time.monotonic()]
    results = graphical_lasso_path(
        covariance,
        penalties,
        penalise_diagonal=config.penalise_diagonal,
        gap_tolerance=config.gap_tolerance,
        max_iterations=config.max_iterations,
        tell=Paced(tell),
    )

    def rate(penalty: float, result: LassoResult) -> PathStep:
        edges, converged = _count_edges(result), result.converged
        step = PathStep(penalty=penalty, score=score(result), edges=edges, converged=converged)
        stamps.append(time.monotonic())
        time_left = describe_left([*path, step], np.diff(stamps).tolist(), penalties)
        result_text = f"{step.edges:,} edges, score {step.score:.5f}"
        tell(f"penalty {len(path) + 1}, {penalty:.3g}: {result_text}; {time_left}")
        return step

    best, at, path = next(results), 0, list[PathStep]()
    path.append(rate(penalties[0], best))
    for penalty, result in zip(penalties[1:], results, strict=True):
        path.append(rate(penalty, result))
        if not result.converged:
            break
        if path[-1].score > path[at].score:
            best, at = result, len(path) - 1
        else:
            break
    return SelectedPenalty(path[at].penalty, best, tuple(path))


def describe_left(
    path: Sequence[PathStep], durations: Sequence[float], penalties: Sequence[float]
) -> str:
    """Say how many penalties are expected to follow, and how long they take.

    Args:
        path: the penalties tried so far.
        durations: theirs, in seconds.
        penalties: all that may be tried.
    """
    decades = np.log10(penalties[0] / penalties[-1])
    usual = round(USUAL_DECADES * (len(penalties) - 1) / max(decades, 1.0))
    steps_left = min(
        penalties_left([step.score for step in path], usual), len(penalties) - len(path)
    )
    if not steps_left:
        return "the last one"
    seconds = describe_seconds(extrapolate(durations, steps_left))
    return f"about {steps_left} more, {seconds}"


def penalties_left(scores: Sequence[float], usual: int) -> int:
    """Estimate how many penalties follow before the score falls.

    While gains shrink, the score is taken to rise until the line through the last two gains
    reaches zero. Before that as many penalties are expected as are usual.
    """
    gains = np.diff(scores)
    if len(gains) and gains[-1] <= 0:
        return 0
    expected = max(usual - len(scores), 1)
    if len(gains) < 2 or gains[-1] >= gains[-2]:  # noqa: PLR2004 (two gains give a line)
        return expected
    return min(int(gains[-1] / (gains[-2] - gains[-1])) + 1, expected)


def _count_edges(result: LassoResult) -> int:
    return (int(np.count_nonzero(result.precision)) - len(result.precision)) // 2
