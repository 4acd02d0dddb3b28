"""The optimality certificate of a graphical lasso: (Q, W) and their duality gap.

    primal: min tr(SQ) − log|Q| + Σ_ij λ_ij |Q_ij|    over positive definite Q     (Eq. 4)
    dual:   max log|W| + N                            over |W_ij − S_ij| ≤ λ_ij

Any feasible W bounds the optimum from below, so the gap bounds the suboptimality of Q.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg.lapack import dpotrf

from forecaster.graph.descent import Limits, move_into_box, penalised_fit, symmetrise

LEAST_PIVOT = 1e-9  # of a variance: below it, rounding errors dominate


class PrimalDual(NamedTuple):
    """A primal solution, its dual and the gap between them."""

    precision: Float64[np.ndarray, "n n"]  # Q
    covariance: Float64[np.ndarray, "n n"]  # W
    gap: float  # not divided by N


class Component(NamedTuple):
    """One connected component, on the scale of correlations."""

    correlation: Float64[np.ndarray, "n n"]  # S
    limits: Limits  # λ_ij off the diagonal
    diagonal: Float64[np.ndarray, " n"]  # λ_ii; 0 if the diagonal is not penalised


def put_into_box(block: Component, W: Float64[np.ndarray, "n n"]) -> None:
    """Move W to the nearest point of |W_ij − S_ij| ≤ λ_ij, in place; W_ii = S_ii + λ_ii."""
    move_into_box(block.correlation, block.limits, block.diagonal, W)


def diagonal_pair(block: Component, W: Float64[np.ndarray, "n n"]) -> PrimalDual:
    """Return the pair with a diagonal Q, before any sweep."""
    variances = np.diag(block.correlation) + block.diagonal
    gap = float((variances / np.diag(W)).sum() + np.log(np.diag(W)).sum())
    return PrimalDual(
        np.diag(1.0 / np.diag(W)), W.copy(), _valid(gap - log_determinant(W) - len(W))
    )


def certify(
    block: Component, W: Float64[np.ndarray, "n n"], regressions: Float64[np.ndarray, "n n"]
) -> PrimalDual:
    """Return Q of the regressions and W projected into the box, with their gap.

    q_jj = 1 / (w_jj − w₁₂ᵀβ), q₁₂ = −β q_jj; an entry is zero when either of its two estimates is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # Q is not positive definite then
        diagonal = 1.0 / (np.diag(W) - np.einsum("ij,ij->i", W, regressions))
    Q = np.empty_like(W)
    symmetrise(regressions, diagonal, Q)
    gap = penalised_fit(block.correlation, block.limits, block.diagonal, Q) - len(Q)
    gap -= log_determinant(Q)
    dual = W.copy()
    put_into_box(block, dual)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap -= float(np.log(_pivots(dual, overwrite=True)).sum())
    np.copyto(dual, W)  # again, since a further matrix would take too much memory
    put_into_box(block, dual)
    return PrimalDual(Q, dual, _valid(gap))


def _valid(gap: float) -> float:
    """Return a gap, infinite where Q or W is not positive definite."""
    return max(gap, 0.0) if np.isfinite(gap) else np.inf


def log_determinant(matrix: Float64[np.ndarray, "n n"]) -> float:
    """Return log|A|, or −∞ where A is not positive definite."""
    with np.errstate(divide="ignore"):
        return float(np.log(_pivots(matrix)).sum())


def is_sound(matrix: Float64[np.ndarray, "n n"]) -> bool:
    """Whether a matrix is positive definite by more than rounding errors."""
    return bool((_pivots(matrix) > LEAST_PIVOT * np.diag(matrix)).all())


def _pivots(
    matrix: Float64[np.ndarray, "n n"], *, overwrite: bool = False
) -> Float64[np.ndarray, " n"]:
    """Return each variance given the previous ones; 0 if the matrix is not positive definite."""
    # .T: symmetric, and in LAPACK's order
    factor, info = dpotrf(matrix.T, lower=1, clean=0, overwrite_a=overwrite)
    pivots = np.square(np.diagonal(factor))
    return pivots if info == 0 else np.zeros_like(pivots)
