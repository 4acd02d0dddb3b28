import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.graph.lagged import descent

PLACES, FACTORS, DELAYS = 5, 2, 3


def covariance(seed: int, size: int, spread: float) -> np.ndarray:
    """A covariance of columns that have something in common: all but it, of this spread."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((211, 1)) + spread * generator.standard_normal((211, size))
    return np.asarray(X.T @ X / 211)


def brute_force(K: np.ndarray, c: np.ndarray, free: int, penalty: float) -> np.ndarray:
    """The minimum by proximal gradient steps, one term at a time."""
    beta = np.zeros(len(c))
    limits = np.where(np.arange(len(c)) < free, 0, penalty)
    for _ in range(20_000):
        for a in range(len(c)):
            pull = c[a] - K[a] @ beta + K[a, a] * beta[a]
            beta[a] = np.sign(pull) * max(abs(pull) - limits[a], 0) / K[a, a]
    return beta


@pytest.mark.parametrize("spread", [1.0, 0.1])  # the second: nearly collinear
def test_the_minimum_over_given_terms_is_found(spread: float) -> None:
    K = covariance(0, 11, spread)
    weights = np.array([0.5, -0.3, 0, 0.2, 0, 0, -0.4, 0, 0, 0.1, 0])
    c, beta = K @ weights, np.zeros(11)
    descent._minimise(K, c, 2, 0.001, beta)
    expected = brute_force(K, c, 2, 0.001)
    np.testing.assert_allclose(beta, expected, atol=5e-3)
    assert cost(K, c, beta) == pytest.approx(cost(K, c, expected), abs=1e-6)


def cost(K: np.ndarray, c: np.ndarray, beta: np.ndarray) -> float:
    return float(beta @ K @ beta / 2 - c @ beta + 0.001 * np.abs(beta[2:]).sum())


@given(st.integers(0, 10**6), st.integers(1, 23), st.sampled_from([1.0, 0.1, 1e-3]))
def test_a_jump_never_goes_up(seed: int, size: int, spread: float) -> None:
    generator, K = np.random.default_rng(seed), covariance(seed, size, spread)
    c = K @ generator.standard_normal(size)
    beta = generator.standard_normal(size) * generator.integers(0, 2, size)
    before, start = cost(K, c, beta), beta.copy()
    descent._jump(K, c, 2, 0.001, beta)
    assert cost(K, c, beta) <= before + 1e-9 * abs(before)
    assert (beta[2:] * start[2:] >= 0).all()  # no sign changes
    assert not beta[start == 0].any()


def test_a_jump_without_terms_stays() -> None:
    beta = np.zeros(3)
    descent._jump(np.eye(3), np.ones(3), 1, 0.1, beta)
    assert not beta.any()


@given(st.integers(0, 10**6), st.integers(1, 23))
def test_the_inverse_is_numpys(seed: int, size: int) -> None:
    K = covariance(seed, size, 1.0)
    inverse = descent._invert(K)
    np.testing.assert_allclose(inverse, np.linalg.inv(K), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(inverse, inverse.T)


def test_a_singular_covariance_has_a_finite_inverse() -> None:
    assert np.isfinite(descent._invert(np.ones((5, 5)))).all()
    assert np.isfinite(descent._invert(np.zeros((5, 5)))).all()


def draw_covariances() -> descent.Covariances:
    """The covariances of noise with itself earlier, of five places and two factors."""
    P = PLACES + FACTORS
    x = np.random.default_rng(1).standard_normal((P, 53)).astype(np.float32)
    lags = np.stack([x[:, d:] @ x[:, : 53 - d].T / 53 for d in range(DELAYS + 1)])
    return lags, np.ascontiguousarray(lags.transpose(0, 2, 1)), PLACES


def test_slopes_are_those_of_every_possible_term() -> None:
    lags, turned, N = draw_covariances()
    P = len(lags[0])
    codes, beta = np.array([4, P + 6, 2 * P + 1]), np.array([0.3, -0.2, 0.7])
    slope = np.empty(DELAYS * P)
    descent._find_slope((lags, turned, N), 2, (codes, beta, 3), slope)
    for term in range(DELAYS * P):
        lag, j = term // P + 1, term % P
        expected = lags[lag, 2, j]
        for code, weight in zip(codes.tolist(), beta.tolist(), strict=True):
            other_lag, i = code // P + 1, code % P
            if lag >= other_lag:
                expected -= weight * lags[lag - other_lag, i, j]
            else:
                expected -= weight * lags[other_lag - lag, j, i]
        assert slope[term] == pytest.approx(expected, abs=1e-6)
    allowed = np.arange(DELAYS * P) % P
    steepest = np.abs(slope[(allowed < N) & (allowed != 2)]).max()
    assert descent.steepest_slope((lags, turned, N), 2, (codes, beta, 3)) == steepest


def test_free_terms_are_the_lags_of_the_place_and_the_factors() -> None:
    assert descent.count_free(draw_covariances()) == DELAYS * (1 + FACTORS)


def test_the_steepest_terms_are_added_first_where_there_is_little_room() -> None:
    slope = np.array([0.0, 0.5, -0.9, 0.0, 0.2, -0.7, 0.6, 0.0])
    codes, beta = np.zeros(7, np.int64), np.ones(7)
    codes[:3] = [7, 3, 0]
    assert descent._add_steepest(slope, 5, (codes, beta, 3)) == 5
    assert codes[:5].tolist() == [7, 3, 0, 2, 5]
    assert beta[:5].tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert descent._add_steepest(slope, 5, (np.zeros(11, np.int64), np.ones(11), 3)) == 8


def test_terms_of_coefficient_zero_are_dropped_unless_they_are_free() -> None:
    codes, beta = np.array([5, 3, 1, 2, 9, 8]), np.array([0.0, 0.4, 0.0, -0.1, 0.0, 7.0])
    assert descent._drop_unused((codes, beta, 5), 2) == 3
    assert codes[:3].tolist() == [5, 3, 2]
    assert beta.tolist() == [0.0, 0.4, -0.1, 0.0, 0.0, 7.0]
