import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.graph.lagged.covariances import (
    LaggedSums,
    find_factors,
    sum_products,
    to_covariances,
)
from forecaster.graph.lagged.deviations import LaggedSample
from tests.graph.lagged.conftest import sample_of

RUNS = np.array([[2, 31], [37, 38], [41, 53]])
DELAYS = 5


@pytest.fixture(scope="module")
def sample() -> LaggedSample:
    """Seven places, one of which never deviates."""
    deviations = np.random.default_rng(0).standard_normal((7, 59))
    deviations[4] = 0
    return sample_of(deviations)


def lead(steps: int, places: int, effect: float) -> np.ndarray:
    """Noise in which place 5 leads all others by two steps."""
    values = np.random.default_rng(1).standard_normal((places, steps))
    values[np.arange(places) != 5, 2:] += effect * values[5, :-2]
    return values


def test_sums_are_those_of_every_product_within_a_run(sample: LaggedSample) -> None:
    x = sample.deviations.astype(np.float64)
    expected = np.zeros((DELAYS + 1, 7, 7))
    for start, stop in RUNS:
        for t in range(start, stop):
            for d in range(min(DELAYS, t - start) + 1):
                expected[d] += np.outer(x[:, t], x[:, t - d])
    sums = sum_products(sample, RUNS, DELAYS)
    np.testing.assert_allclose(sums.products, expected, atol=1e-5)
    assert sums.steps == 29 + 1 + 12


def test_sums_of_runs_add_up(sample: LaggedSample) -> None:
    whole = sum_products(sample, RUNS, DELAYS)
    parts = [sum_products(sample, RUNS[[n]], DELAYS) for n in range(3)]
    added = parts[0] + parts[1] + parts[2]
    np.testing.assert_allclose(added.products, whole.products, atol=1e-5)
    assert added.steps == whole.steps


def test_no_runs_have_no_sums(sample: LaggedSample) -> None:
    sums = sum_products(sample, RUNS[:0], DELAYS)
    assert not sums.products.any()
    assert sums.steps == 0
    assert np.isinf(sums.scale).all()
    assert np.isfinite(to_covariances(sums, np.zeros((0, 7), np.float32)).lags).all()


@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(2, 23), st.booleans())
def test_the_covariance_of_all_lags_has_no_negative_eigenvalue(
    seed: int, places: int, steps: int, is_long: bool
) -> None:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((places, steps)) * generator.integers(0, 2, (places, steps))
    values[-1] = values[0]  # collinear
    runs = np.array([[0, steps]] if is_long else [[0, steps // 2], [steps // 2, steps]])
    sums = sum_products(sample_of(values), runs, DELAYS)
    factors = generator.standard_normal((2, places)).astype(np.float32)
    lags = to_covariances(sums, factors).lags.astype(np.float64)
    blocks = [
        [lags[b - a] if b >= a else lags[a - b].T for b in range(DELAYS + 1)]
        for a in range(DELAYS + 1)
    ]
    matrix = np.block(blocks)  # of x_t, x_{t−1} …
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-5)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-4


def test_locations_and_factors_have_variance_one(sample: LaggedSample) -> None:
    sums = sum_products(sample, np.array([[0, 59]]), DELAYS)
    factors = np.linalg.qr(np.random.default_rng(3).standard_normal((7, 2)))[0].T
    inputs = to_covariances(sums, factors.astype(np.float32))
    expected = np.ones(9)
    expected[4] = 0  # never deviates
    assert np.diagonal(inputs.lags[0]) == pytest.approx(expected, abs=1e-5)
    assert (inputs.n_locations, inputs.max_delay, inputs.steps) == (7, DELAYS, 59)
    assert np.isinf(inputs.scale[4])
    series = inputs.series(sample)
    assert np.square(series).mean(axis=1) == pytest.approx(expected, abs=1e-5)
    for d in range(DELAYS + 1):  # covariances of factors are those of their series
        direct = series[:, d:] @ series[:, : 59 - d].T / 59
        np.testing.assert_allclose(inputs.lags[d], direct, atol=1e-5)
        np.testing.assert_array_equal(inputs.turned[d], inputs.lags[d].T)


def test_the_place_that_leads_all_others_is_the_factor() -> None:
    sums = sum_products(sample_of(lead(2003, 11, 0.7)), np.array([[0, 2003]]), DELAYS)
    factors = find_factors(sums, 1)
    assert factors.shape == (1, 11)
    assert factors[0, 5] > 0.95
    assert np.abs(np.delete(factors[0], 5)).max() < 0.2


def test_factors_are_orthonormal() -> None:
    values = np.random.default_rng(4).standard_normal((37, 211))
    factors = find_factors(sum_products(sample_of(values), np.array([[0, 211]]), DELAYS), 8)
    assert factors.shape == (8, 37)
    np.testing.assert_allclose(factors @ factors.T, np.eye(8), atol=1e-5)
    assert (factors[np.arange(8), np.abs(factors).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_fewer_factors_are_the_first_of_more(count: int) -> None:
    values = np.random.default_rng(4).standard_normal((37, 211))
    sums = sum_products(sample_of(values), np.array([[0, 211]]), DELAYS)
    np.testing.assert_array_equal(find_factors(sums, count), find_factors(sums, 8)[:count])


@pytest.mark.parametrize("places", [11, 29])
def test_what_tells_about_few_places_is_no_factor(places: int) -> None:
    """Edges from 7 to 3 and from 2 to 1 are stronger than what is by chance."""
    values = np.random.default_rng(5).standard_normal((places, 2003))
    values[3, 1:] += 0.8 * values[7, :-1]
    values[1, 4:] += 0.8 * values[2, :-4]
    factors = find_factors(sum_products(sample_of(values), np.array([[0, 2003]]), DELAYS), 8)
    assert len(factors) <= places // 4
    assert (np.abs(factors[:, [2, 7]]) < 0.5).all()


@pytest.mark.parametrize(("places", "most"), [(1, 0), (2, 0), (3, 0), (7, 1), (23, 5), (97, 8)])
def test_few_places_have_few_factors(places: int, most: int) -> None:
    sums = sum_products(
        sample_of(lead(503, max(places, 6), 0.5)[:places]), np.array([[0, 503]]), 3
    )
    assert len(find_factors(sums, 8)) <= most


def test_places_that_never_deviate_have_no_weight() -> None:
    values = lead(503, 13, 0.7)
    values[[0, 8]] = 0
    factors = find_factors(sum_products(sample_of(values), np.array([[0, 503]]), 3), 3)
    assert len(factors)
    assert np.abs(factors[:, [0, 8]]).max() < 1e-6


def test_sums_know_the_scale_of_locations() -> None:
    products = np.zeros((1, 3, 3), np.float32)
    np.fill_diagonal(products[0], [44.0, 0.0, 99.0])
    assert LaggedSums(products, 11).scale.tolist() == [2.0, np.inf, 3.0]
