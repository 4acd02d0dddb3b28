import numpy as np
import pytest

from forecaster.synthetic.demand import (
    NOISE_AR,
    NOISE_SD,
    draw_counts,
    draw_mean_demand,
    draw_noise,
    expect_demand,
    mean_ahead,
)
from forecaster.synthetic.dependencies import draw_edges, to_precision
from forecaster.synthetic.places import lay_out

N, STEPS = 53, 20_480


@pytest.fixture(scope="module")
def edges():
    places = lay_out(N, np.random.default_rng(1))
    return draw_edges(places.distances, places.centre, np.random.default_rng(1))


@pytest.fixture(scope="module")
def noise(edges):
    return draw_noise(to_precision(edges, N), STEPS, np.random.default_rng(2))


def partial_correlations(rows):
    precision = np.linalg.inv(np.cov(rows.T))
    scale = 1.0 / np.sqrt(np.diag(precision))
    return -precision * np.outer(scale, scale)


def test_noise_has_one_deviation_everywhere(noise):
    assert noise.std(axis=0) == pytest.approx(np.full(N, NOISE_SD), rel=0.06)
    assert np.abs(noise.mean(axis=0)).max() < 0.04


def test_noise_is_as_large_at_the_start_as_later(edges):
    precision = to_precision(edges, N)
    first = [draw_noise(precision, 1, np.random.default_rng(s))[0] for s in range(200)]
    assert np.std(first) == pytest.approx(NOISE_SD, rel=0.1)


def test_noise_has_one_autoregressive_coefficient(noise):
    lagged = (noise[1:] * noise[:-1]).sum(axis=0) / (noise[:-1] ** 2).sum(axis=0)
    assert lagged == pytest.approx(np.full(N, NOISE_AR), abs=0.02)


def test_blocks_of_noise_join_without_a_seam(noise):
    shocks = noise[1:] - NOISE_AR * noise[:-1]
    at_seams = shocks[1_023::1_024]
    assert at_seams.std() == pytest.approx(shocks.std(), rel=0.1)


def test_noise_has_the_partial_correlations_of_the_edges(noise, edges):
    found = partial_correlations(noise[1:] - NOISE_AR * noise[:-1])
    truth = np.zeros((N, N))
    truth[edges.first, edges.second] = edges.correlation
    truth += truth.T
    apart = ~np.eye(N, dtype=bool)
    assert found[apart] == pytest.approx(truth[apart], abs=0.04)  # 5.7 deviations of chance
    assert (found[truth > 0.0].min()) > found[apart & (truth == 0.0)].max()


def test_one_location_has_noise():
    noise = draw_noise(np.eye(1), STEPS, np.random.default_rng(5))
    assert noise.std() == pytest.approx(NOISE_SD, rel=0.05)


def test_noise_does_not_depend_on_the_number_of_threads():
    threads = pytest.importorskip("threadpoolctl")
    neighbours = np.eye(499, k=1) + np.eye(499, k=-1)
    drawn = []
    for count in (1, 2):
        with threads.threadpool_limits(count):
            generator = np.random.default_rng(7)
            drawn.append(draw_noise(np.eye(499) - 0.4 * neighbours, 512, generator))
    assert (drawn[0] == drawn[1]).all()  # a product in single precision differs here


def test_mean_demand_is_lognormal():
    demand = np.log(draw_mean_demand(np.linspace(-9.0, 9.0, 4_001), np.random.default_rng(3)))
    assert demand.mean() == pytest.approx(3.0, abs=0.06)
    assert demand.std() == pytest.approx(1.0, abs=0.05)
    middle = np.abs(demand - 3.0) < 0.6745
    assert middle.mean() == pytest.approx(0.5, abs=0.04)


def test_the_middle_of_the_strip_is_busiest():
    demand = draw_mean_demand(np.linspace(-9.0, 9.0, 999), np.random.default_rng(3))
    assert np.median(demand[333:666]) > 1.5 * np.median(demand[:333])


def test_expected_demand_is_the_slots_demand_moved_by_the_weather():
    by_slot = np.array([[2.0, 3.0, 5.0], [7.0, 11.0, 13.0]])
    slots, effect = np.array([2, 0, 0, 1, 2]), np.array([0.0, 0.0, 0.5, -0.5, 1.0])
    expected = expect_demand(by_slot, slots, effect, np.array([1.0, 0.5]))
    weather = np.exp(np.column_stack([effect, effect / 2.0]))
    assert expected == pytest.approx(by_slot.T[slots] * weather)


def test_counts_have_the_expected_mean_and_poisson_noise():
    expected = np.full((STEPS, 2), [3.0, 50.0], dtype=np.float32)
    noise = draw_noise(np.eye(2), STEPS, np.random.default_rng(4))
    counts = draw_counts(expected, noise, np.random.default_rng(5))
    assert (counts == np.rint(counts)).all()
    assert counts.mean(axis=0) == pytest.approx([3.0, 50.0], rel=0.02)
    # var = m + m²·(exp(σ²) − 1) for a Poisson count with a lognormal rate
    spread = [m + m * m * np.expm1(NOISE_SD**2) for m in (3.0, 50.0)]
    assert counts.var(axis=0) == pytest.approx(spread, rel=0.06)


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 50])
def test_the_mean_ahead_is_that_of_the_noise_to_come(ahead):
    now = np.linspace(-1.0, 1.0, 5, dtype=np.float32)[:, None]
    kept = 0.7**ahead
    to_come = np.random.default_rng(6).normal(0.0, 0.4 * np.sqrt(1.0 - kept**2), 200_003)
    drawn = [np.exp(kept * u + to_come - 0.08).mean() for u in now[:, 0]]
    mean = mean_ahead(np.full((5, 1), 10.0, dtype=np.float32), now, ahead)
    assert mean[:, 0] == pytest.approx(10.0 * np.array(drawn), rel=5e-3)
