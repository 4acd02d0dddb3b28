"""The optimality certificate of a graphical lasso: (Q, W) and their duality gap.

    primal: min tr(SQ) − log|Q| + Σ_ij λ_ij |Q_ij|    over positive definite Q     (Eq. 4)
    dual:   max log|W| + N                            over |W_ij − S_ij| ≤ λ_ij

Any feasible W bounds the optimum from below, so the gap bounds the suboptimality of Q.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg.lapack import dpotrf

LEAST_PIVOT = 1e-9  # of a variance: below it, rounding errors dominate


class PrimalDual(NamedTuple):
    """A primal solution, its dual and the gap between them."""

    precision: Float64[np.ndarray, "n n"]  # Q
    covariance: Float64[np.ndarray, "n n"]  # W
    gap: float  # not divided by N


class Component(NamedTuple):
    """One connected component, on the scale of correlations."""

    correlation: Float64[np.ndarray, "n n"]  # S
    scale: Float64[np.ndarray, " n"]  # λ_ij = λ · scale_i · scale_j
    limits: Float64[np.ndarray, "n n"]  # λ_ij; the diagonal is 0 if not penalised


def into_box(block: Component, guess: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """Return the point of |W_ij − S_ij| ≤ λ_ij nearest to a guess; W_ii = S_ii + λ_ii."""
    W = np.clip(guess - block.correlation, -block.limits, block.limits)
    np.fill_diagonal(W, np.diag(block.limits))
    W += block.correlation
    return np.asarray(W)


def diagonal_pair(block: Component, W: Float64[np.ndarray, "n n"]) -> PrimalDual:
    """Return the pair with a diagonal Q, before any sweep."""
    precision = np.diag(1.0 / np.diag(W))
    return PrimalDual(precision, W.copy(), _gap(block, precision, W))


def certify(
    block: Component, W: Float64[np.ndarray, "n n"], regressions: Float64[np.ndarray, "n n"]
) -> PrimalDual:
    """Return Q of the regressions and W projected into the box, with their gap.

    q_jj = 1 / (w_jj − w₁₂ᵀβ), q₁₂ = −β q_jj; an entry is zero when either of its two estimates is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # Q is not positive definite then
        diagonal = 1.0 / (np.diag(W) - np.einsum("ij,ij->i", W, regressions))
        Q = regressions * -diagonal[:, None]
    nonzero = (Q != 0) & (Q.T != 0)
    Q = (Q + Q.T) / 2
    Q[~nonzero] = 0.0
    np.fill_diagonal(Q, diagonal)
    dual = into_box(block, W)
    return PrimalDual(Q, dual, _gap(block, Q, dual))


def _gap(block: Component, Q: Float64[np.ndarray, "n n"], W: Float64[np.ndarray, "n n"]) -> float:
    """Return primal minus dual objective; infinite where Q or W is not positive definite."""
    fit = float(np.vdot(block.correlation, Q)) + float(np.vdot(block.limits, np.abs(Q)))
    gap = fit - log_determinant(Q) - log_determinant(W) - len(Q)
    return max(gap, 0.0) if np.isfinite(gap) else np.inf


def log_determinant(matrix: Float64[np.ndarray, "n n"]) -> float:
    """Return log|A|, or −∞ where A is not positive definite."""
    with np.errstate(divide="ignore"):
        return float(np.log(_pivots(matrix)).sum())


def is_sound(matrix: Float64[np.ndarray, "n n"]) -> bool:
    """Whether a matrix is positive definite by more than rounding errors."""
    return bool((_pivots(matrix) > LEAST_PIVOT * np.diag(matrix)).all())


def _pivots(matrix: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, " n"]:
    """Return each variance given the previous ones; 0 if the matrix is not positive definite."""
    factor, info = dpotrf(matrix.T, lower=1, clean=0)  # .T: symmetric, and in LAPACK's order
    pivots = np.square(np.diagonal(factor))
    return pivots if info == 0 else np.zeros_like(pivots)
