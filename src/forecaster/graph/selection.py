"""Choice of the penalty λ of Eq. 4 by the likelihood of held-out weeks or the extended BIC.

Penalties are tried in descending order, each solution the start of the next, until the score
has fallen repeatedly.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.config import GraphConfig
from forecaster.errors import DataError
from forecaster.graph.dependency import PathStep
from forecaster.graph.lasso import LassoResult, graphical_lasso_path
from forecaster.remaining import Paced, describe_seconds, extrapolate

HELD_OUT = 4  # one of this many blocks of time is held out
SPARSEST = 0.8  # of the largest correlation: the first penalty of the path
DENSEST = 0.001  # on the correlation scale: the last one
PER_DECADE = 8  # penalties: with warm starts, many small steps are cheaper than a few large ones
FALLS = 2  # successive penalties worse than the best after which the path ends
USUAL_PENALTIES = 10  # that are tried
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
    log_determinant = float(np.linalg.slogdet(precision).logabsdet)
    return (log_determinant - float(np.vdot(covariance, precision))) / (2 * len(precision))


def penalty_path(covariance: Float64[np.ndarray, "N N"]) -> list[float]:
    """Return the penalties to try, in descending order; at the largest entry no edge is left."""
    largest = float(np.abs(covariance - np.diag(np.diag(covariance))).max())
    first = SPARSEST * largest
    if first <= DENSEST:
        return [DENSEST]
    count = round(PER_DECADE * np.log10(first / DENSEST)) + 1
    return [float(penalty) for penalty in np.geomspace(first, DENSEST, max(count, 2))]


def _walk(
    covariance: Float64[np.ndarray, "N N"],
    score: Score,
    config: GraphConfig,
    tell: MessageCallback,
) -> SelectedPenalty:
    """Return the best penalty of a path that ends when scores fall repeatedly or solving fails."""
    penalties, stamps = penalty_path(covariance), [time.monotonic()]
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
        left = describe_left([*path, step], np.diff(stamps).tolist(), len(penalties))
        result_text = f"{step.edges:,} edges, score {step.score:.5f}"
        tell(f"penalty {len(path) + 1}, {penalty:.3g}: {result_text}; {left}")
        return step

    best, at, path = next(results), 0, list[PathStep]()
    path.append(rate(penalties[0], best))
    for penalty, result in zip(penalties[1:], results, strict=True):
        path.append(rate(penalty, result))
        if not result.converged:
            break
        if path[-1].score > path[at].score:
            best, at = result, len(path) - 1
        elif len(path) - 1 - at >= FALLS:
            break
    return SelectedPenalty(path[at].penalty, best, tuple(path))


def describe_left(path: Sequence[PathStep], durations: Sequence[float], most: int) -> str:
    """Say how many penalties are expected to follow, and how long they take.

    Args:
        path: the penalties tried so far.
        durations: theirs, in seconds.
        most: the number of penalties at most.
    """
    left = min(penalties_left([step.score for step in path]), most - len(path))
    if not left:
        return "the last one"
    seconds = describe_seconds(extrapolate(durations, left))
    return f"about {left} more, {seconds}"


def penalties_left(scores: Sequence[float]) -> int:
    """Estimate how many penalties follow before the score has fallen repeatedly.

    While gains shrink, the score is taken to rise until the line through the last two gains
    reaches zero. Before that as many penalties are expected as are usual.
    """
    gains = np.diff(scores)
    falls = len(scores) - 1 - int(np.argmax(scores))
    if falls:
        return max(FALLS - falls, 0)
    usual = max(USUAL_PENALTIES - len(scores), FALLS)
    if len(gains) < 2 or gains[-1] >= gains[-2]:  # noqa: PLR2004 (two gains give a line)
        return usual
    rising = int(gains[-1] / (gains[-2] - gains[-1]))
    return min(rising + FALLS, usual)


def _count_edges(result: LassoResult) -> int:
    return (int(np.count_nonzero(result.precision)) - len(result.precision)) // 2
