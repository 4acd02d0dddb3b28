import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from forecaster.graph.neighbourhood.loops import (
    products,
    products_with,
    regress,
    strongest,
)

PLACES, STEPS = 11, 1_301  # more steps than are multiplied at a time


@pytest.fixture(scope="module")
def series() -> np.ndarray:
    generator = np.random.default_rng(0)
    values = generator.standard_normal((PLACES, STEPS)) + generator.standard_normal(STEPS)
    values -= values.mean(axis=1, keepdims=True)
    values /= np.sqrt((values**2).sum(axis=1, keepdims=True))
    return values.astype(np.float32)


@pytest.mark.parametrize("count", [1, 4, 7])
def test_products_of_some_series_are_those_of_numpy(series: np.ndarray, count: int) -> None:
    numbers = np.array([7, 2, 10, 0, 5, 6, 1])[:count]
    exact = series[numbers].astype(float) @ series[numbers].astype(float).T
    np.testing.assert_allclose(products(series, numbers), exact, atol=2e-6)
    np.testing.assert_allclose(products_with(series, 7, numbers), exact[0], atol=2e-6)


def test_the_strongest_are_found_whatever_their_sign() -> None:
    similarity = np.array([0.3, 1.0, -0.9, 0.0, 0.2, -0.4], np.float32)
    assert sorted(strongest(similarity, 1, 2).tolist()) == [2, 5]
    assert sorted(strongest(similarity, 1, 9).tolist()) == [0, 2, 4, 5]  # none without similarity


@pytest.mark.parametrize("ridge", [0.0, 0.07])
def test_a_regression_equals_that_of_scikit_learn(series: np.ndarray, ridge: float) -> None:
    penalty, beta = 0.45, np.zeros(PLACES - 1)
    S = products(series, np.arange(PLACES))
    gap = regress(S, penalty, ridge, 1e-10, beta)
    both = penalty + ridge
    oracle = ElasticNet(both / STEPS, l1_ratio=penalty / both, fit_intercept=False, tol=1e-12)
    oracle.fit(series[1:].T.astype(float), series[0].astype(float))
    assert gap <= 1e-10
    assert 0 < np.count_nonzero(beta) < len(beta)
    np.testing.assert_allclose(beta, oracle.coef_, atol=1e-4)


def test_the_gap_bounds_how_far_a_regression_is_from_the_best(series: np.ndarray) -> None:
    S, penalty = products(series, np.arange(PLACES)), 0.05

    def objective(beta: np.ndarray) -> float:
        fit = 0.5 - S[0, 1:] @ beta + 0.5 * beta @ S[1:, 1:] @ beta
        return float(fit + penalty * np.abs(beta).sum())

    best, rough = np.zeros(PLACES - 1), np.zeros(PLACES - 1)
    regress(S, penalty, 0.0, 1e-12, best)
    gap = regress(S, penalty, 0.0, 10.0, rough)  # accepted at once
    assert not rough.any()
    assert gap >= objective(rough) - objective(best) > 0
