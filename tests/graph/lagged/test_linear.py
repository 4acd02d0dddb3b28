"""Linear forecasts against least squares on explicit tables of past steps."""

import numpy as np
import pytest

from forecaster.graph.lagged.covariances import LaggedSums
from forecaster.graph.lagged.linear import fit_linear

N, T, R, K, F = 5, 3_989, 3, 2, 2
ENDS = np.array([0, 0, 1, 2, 3, 4]), np.array([0, 1, 1, 2, 3, 4])  # 0 → 1, and each itself


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    generator = np.random.default_rng(13)
    x = generator.normal(size=(N, T))
    for t in range(2, T):
        x[:, t] += 0.4 * x[:, t - 1]
        x[1, t] += 0.5 * x[0, t - 2]  # two steps later
    return (x * np.array([[1], [3], [0.2], [1], [1]])).astype(np.float32)


def sums_of(x: np.ndarray, delays: int) -> LaggedSums:
    length = x.shape[1]
    products = np.stack([x[:, d:] @ x[:, : length - d].T for d in range(delays + 1)])
    return LaggedSums(products.astype(np.float32), length)


def weights_of(count: int) -> np.ndarray:
    return np.random.default_rng(17).normal(size=(count, N)).astype(np.float32)


def test_forecasts_are_those_of_least_squares(values: np.ndarray) -> None:
    sums, V = sums_of(values, R + K - 1), weights_of(F)
    fitted = fit_linear(sums, V, ENDS, R)
    factors = fitted.factors.astype(np.float64) @ values
    steps = np.arange(R - 1, T - K)
    for n, sources in enumerate([[0], [0, 1], [2], [3], [4]]):
        series = [*values[sources], *factors]
        table = np.column_stack([part[steps - lag] for part in series for lag in range(R)])
        for k in range(1, K + 1):
            target = values[n, steps + k]
            expected = table @ np.linalg.lstsq(table, target, rcond=None)[0]
            rows = ENDS[1] == n
            blocks = [*fitted.edges[rows, k - 1], *fitted.loadings[n, k - 1]]
            forecast = table @ np.concatenate(blocks).astype(np.float64)
            assert np.sqrt(np.mean((forecast - expected) ** 2)) < 0.03 * target.std()


def test_an_effect_is_found_at_the_lag_where_it_tells_in_the_values_units(
    values: np.ndarray,
) -> None:
    fitted = fit_linear(sums_of(values, R + K - 1), weights_of(0), ENDS, R)
    one_ahead, two_ahead = fitted.edges[1]  # 0 → 1
    assert one_ahead == pytest.approx([0, 3 * 0.5, 0], abs=0.12)
    assert two_ahead[0] == pytest.approx(3 * 0.5, abs=0.12)  # what has left already
    assert fitted.loadings.shape == (N, K, 0, R)


def test_a_location_that_never_deviates_has_no_weights(values: np.ndarray) -> None:
    still = values.copy()
    still[0] = 0
    fitted = fit_linear(sums_of(still, R + K - 1), weights_of(F), ENDS, R)
    assert (fitted.edges[:2] == 0).all()
    assert (fitted.factors[:, 0] == 0).all()
    assert np.isfinite(fitted.edges).all()
    assert np.isfinite(fitted.loadings).all()
