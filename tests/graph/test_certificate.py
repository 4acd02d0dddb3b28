import numpy as np
import pytest

from forecaster.graph.certificate import (
    Component,
    certify,
    diagonal_pair,
    log_determinant,
    put_into_box,
)

S = np.array([[1.0, 0.6, 0.25], [0.6, 1.0, 0.5], [0.25, 0.5, 1.0]])
BLOCK = Component(S, (0.1, np.ones(3)), np.full(3, 0.1))
# By hand, with 0.1 on the diagonal too: w₁₂ = 0.5, w₂₃ = 0.4, w₁₃ = w₁₂ w₂₃ / w₂₂
OPTIMUM = np.array([[1.1, 0.5, 0.2 / 1.1], [0.5, 1.1, 0.4], [0.2 / 1.1, 0.4, 1.1]])


def regressions(W):
    Q = np.linalg.inv(W)
    beta = -Q / np.diag(Q)[:, None]
    np.fill_diagonal(beta, 0.0)
    beta[[0, 2], [2, 0]] = 0.0  # what rounding leaves of the zero
    return beta


def test_the_optimum_has_no_gap():
    pair = certify(BLOCK, OPTIMUM.copy(), regressions(OPTIMUM))
    assert pair.gap == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(pair.precision, np.linalg.inv(OPTIMUM), atol=1e-12)


def test_the_gap_bounds_how_far_the_objective_is_from_the_best():
    def objective(Q):
        return float((S * Q).sum() - np.linalg.slogdet(Q)[1] + 0.1 * np.abs(Q).sum())

    best = objective(np.linalg.inv(OPTIMUM))
    W = S.copy()
    put_into_box(BLOCK, W)
    pair = diagonal_pair(BLOCK, W)
    assert pair.gap >= objective(pair.precision) - best > 0


def test_a_point_outside_the_box_is_put_on_its_edge():
    W = np.zeros((3, 3))
    put_into_box(BLOCK, W)
    np.testing.assert_allclose(W, [[1.1, 0.5, 0.15], [0.5, 1.1, 0.4], [0.15, 0.4, 1.1]])


def test_what_is_not_positive_definite_certifies_nothing():
    wrong = np.array([[1.0, 2.0], [2.0, 1.0]])
    block = Component(np.eye(2), (0.1, np.ones(2)), np.full(2, 0.1))
    assert log_determinant(wrong) == -np.inf
    assert certify(block, wrong, np.array([[0.0, 2.0], [2.0, 0.0]])).gap == np.inf


def test_the_determinant_is_that_of_numpy():
    A = OPTIMUM @ OPTIMUM
    assert log_determinant(A) == pytest.approx(np.linalg.slogdet(A)[1])
