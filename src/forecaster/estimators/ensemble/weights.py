"""The weights of an ensemble's members, chosen on validation and shrunk towards equal ones.

With the error r_m of member m at a target, a weighted forecast errs by Σ_m w_m r_m, for weights
w_m ≥ 0 that add up to 1. They are those of

    min_w  L(w) / L(ē) + λ M Σ_m (w_m − 1/M)²

where L is the sum of squares or of sizes of these errors over targets, and ē are equal weights.
Where members hardly differ, the penalty makes their weights equal; where one is clearly better,
its errors outweigh the penalty. λ is the one with the lowest error on days that the weights were
not fitted to: the validation days are cut into folds, and each is left out in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64

Loss = Literal["squares", "sizes"]
FOLDS = 5  # of validation days
# λ, from equal weights to hardly any shrinkage; of equal errors the first is taken.
PENALTIES = (np.inf, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
ROUNDS = 20  # of reweighting, for sizes of errors
CLOSE = 1e-4  # change of a weight at which reweighting ends
SMALLEST = 1e-3  # of the mean size: smaller errors weigh no more than this one
Errors = Float32[np.ndarray, "M n"]  # of each member, at the targets of a fold


@dataclass(frozen=True, eq=False)
class MemberWeights:
    """The weights of an ensemble's members."""

    weights: Float64[np.ndarray, " M"]  # not negative; their sum is 1
    penalty: float  # λ
    held_out: float  # mean loss on days that the weights were not fitted to


def choose_weights(folds: Sequence[Errors], loss: Loss) -> MemberWeights:
    """The weights with the lowest loss, shrunk towards equal ones.

    Equal ones with a single fold, which cannot tell.

    Args:
        folds: the members' errors at the targets of each fold of days; none is NaN.
        loss: the sum of which errors is minimised.
    """
    M = len(folds[0])
    used = [errors for errors in folds if errors.shape[1]]
    equal = np.full(M, 1 / M)
    count = sum(errors.shape[1] for errors in used)
    if len(used) < 2 or M == 1:  # noqa: PLR2004 (a fold to fit to, and one to judge by)
        held_out = sum(_total(errors, equal, loss) for errors in used) / max(count, 1)
        return MemberWeights(equal, np.inf, held_out)
    left_out = np.zeros(len(PENALTIES))
    for number, errors in enumerate(used):
        remaining = used[:number] + used[number + 1 :]
        for row, weights in enumerate(_path(remaining, loss)):
            left_out[row] += _total(errors, weights, loss)
    best = int(left_out.argmin())
    weights = _path(used, loss)[best]
    return MemberWeights(weights, PENALTIES[best], float(left_out[best] / count))


def _path(folds: Sequence[Errors], loss: Loss) -> list[Float64[np.ndarray, " M"]]:
    """The weights of every penalty; each is the start of the next."""
    weights = np.full(len(folds[0]), 1 / len(folds[0]))
    gram = _gram(folds, None) if loss == "squares" else None
    equal_loss = sum(_total(errors, weights, loss) for errors in folds)
    path = []
    for penalty in PENALTIES:
        if np.isfinite(penalty) and equal_loss > 0:
            if gram is not None:
                weights = minimise(gram / equal_loss, penalty)
            else:
                weights = _reweighted(folds, weights, penalty, equal_loss)
        path.append(weights)
    return path


def _reweighted(
    folds: Sequence[Errors],
    weights: Float64[np.ndarray, " M"],
    penalty: float,
    equal_loss: float,
) -> Float64[np.ndarray, " M"]:
    """The weights with the lowest sum of sizes |r|: that of r² / |r| with the |r| of before."""
    count = sum(errors.shape[1] for errors in folds)
    smallest = SMALLEST * equal_loss / max(count, 1)
    for _ in range(ROUNDS):
        before = weights
        weights = minimise(_gram(folds, weights, smallest) / (2 * equal_loss), penalty)
        if np.abs(weights - before).max() < CLOSE:
            break
    return weights


def _gram(
    folds: Sequence[Errors], weights: Float64[np.ndarray, " M"] | None, smallest: float = 0.0
) -> Float64[np.ndarray, "M M"]:
    """Σ r_m r_l over targets, divided by the size of the weighted error if weights are given."""
    M = len(folds[0])
    gram = np.zeros((M, M))
    for fold in folds:
        errors = fold.astype(np.float64)
        scaled = errors
        if weights is not None:
            scaled = errors / np.maximum(np.abs(weights @ errors), smallest)
        gram += scaled @ errors.T
    return gram


def minimise(gram: Float64[np.ndarray, "M M"], penalty: float) -> Float64[np.ndarray, " M"]:
    """Argmin w' G w + λ M Σ (w − 1/M)² over w ≥ 0 with Σ w = 1.

    With H = G + λ M I that is w ∝ argmin_{v ≥ 0} v' H v − 2 Σ v, which has the same conditions up
    to the scale of w, and is a problem of non-negative least squares.
    """
    M = len(gram)
    from scipy.linalg import cholesky, solve_triangular  # noqa: PLC0415 (only fits need it)
    from scipy.optimize import nnls  # noqa: PLC0415 (only fits need it)

    factor = cholesky(gram + penalty * M * np.eye(M))  # upper: H = R' R
    solution, _ = nnls(factor, solve_triangular(factor, np.ones(M), trans="T"))
    return np.asarray(solution / solution.sum())


def _total(errors: Errors, weights: Float64[np.ndarray, " M"], loss: Loss) -> float:
    """The loss of weighted errors, summed over targets."""
    weighted = weights @ errors.astype(np.float64)
    return float(np.square(weighted).sum() if loss == "squares" else np.abs(weighted).sum())
