import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from forecaster.synthetic.demand import NOISE_AR, NOISE_SD
from forecaster.synthetic.dependencies import draw_edges, to_precision
from forecaster.synthetic.lagged import FACTOR_AR, LaggedEdges, LaggedFactors, no_edges, no_factors
from forecaster.synthetic.locations import draw_street_grid
from forecaster.synthetic.travel import OWN_HOURS, Travel, draw_travel

N, STEPS = 31, 20_480


@pytest.fixture(scope="module")
def travel():
    return travel_of(1.0)


@pytest.fixture(scope="module")
def drawn(travel):
    return travel.draw_noise(STEPS, seed=5)


def travel_of(strength):
    grid = draw_street_grid(N, np.random.default_rng(1))
    edges = draw_edges(grid.distances, grid.centre, np.random.default_rng(1))
    return draw_travel(grid, to_precision(edges, N), strength, seed=5)


def two_locations():
    """One edge from the first to the second two hours later, and one factor that reaches both."""
    return Travel(
        memory=0.5,
        edges=LaggedEdges(np.array([[0, 1]]), np.array([2]), np.array([0.4])),
        factors=LaggedFactors(np.array([[0.1], [0.2]]), np.array([[0], [3]])),
        mix=np.array([[0.3, 0.1], [0.0, 0.2]]),
    )


def companion():
    """The same recursion by hand: u and its two hours before, g and its three hours before."""
    step = np.zeros((10, 10))
    step[0, 0] = step[1, 1] = 0.5
    step[1, 2] = 0.4  # u_0 two hours before, as kept at t−1
    step[2, 0] = step[3, 1] = step[4, 2] = step[5, 3] = 1.0
    step[6, 6] = FACTOR_AR
    step[7, 6] = step[8, 7] = step[9, 8] = 1.0
    step[0, 6] = 0.1 * FACTOR_AR  # g_t = ψ·g_{t−1} + shock
    step[1, 8] = 0.2  # g_{t−3}
    shocks = np.zeros((10, 3))
    shocks[:2, :2] = np.array([[0.3, 0.1], [0.0, 0.2]]).T
    shocks[6, 2] = np.sqrt(1.0 - FACTOR_AR**2)
    shocks[0, 2] = 0.1 * shocks[6, 2]
    return step, shocks @ shocks.T


def test_the_variances_are_those_of_the_recursion_by_hand():
    step, shocks = companion()
    stationary = solve_discrete_lyapunov(step, shocks)
    covariance = two_locations()._autocovariances(3)
    for lag in range(3):
        by_hand = np.diag(np.linalg.matrix_power(step, lag) @ stationary)[:2]
        assert covariance[lag] == pytest.approx(by_hand)
    left, by_hand = two_locations().variances_ahead(7), np.zeros_like(step)
    for ahead in range(7):
        by_hand = step @ by_hand @ step.T + shocks
        assert left[ahead] == pytest.approx(np.diag(by_hand)[:2])


def test_the_means_are_those_of_the_recursion_by_hand():
    generator = np.random.default_rng(3)
    noise = generator.normal(size=(11, 2)).astype(np.float32)
    factors = generator.normal(size=(11, 1)).astype(np.float32)
    origins = np.array([3, 7])
    means = list(two_locations().means_ahead(noise, factors, origins, 5))
    step, _ = companion()
    for row, t in enumerate(origins):
        state = np.concatenate(
            [noise[t], noise[t - 1], noise[t - 2], factors[t - 3 : t + 1, 0][::-1]]
        )
        for mean in means:
            state = step @ state
            assert mean[row] == pytest.approx(state[:2], rel=1e-5, abs=1e-6)


def test_without_edges_and_factors_the_noise_is_that_of_today():
    still = Travel(0.7, no_edges(), no_factors(2), np.eye(2) * NOISE_SD * np.sqrt(0.51))
    noise = np.array([[9.9, 9.9], [9.9, 9.9], [0.5, -0.3]], dtype=np.float32)
    means = list(still.means_ahead(noise, np.empty((3, 0), dtype=np.float32), np.array([2]), 3))
    for ahead, mean in enumerate(means, start=1):
        kept = 0.7**ahead
        assert mean[0] == pytest.approx(kept * noise[2])
        assert still.variances_ahead(3)[ahead - 1] == pytest.approx(NOISE_SD**2 * (1 - kept**2))
    weights, left = still.predict_alone(3)
    assert weights[:, 0] == pytest.approx(np.array([[0.7] * 2, [0.49] * 2, [0.343] * 2]))
    assert np.abs(weights[:, 1:]).max() < 1e-9
    assert left == pytest.approx(still.variances_ahead(3))


@pytest.mark.parametrize("strength", [0.01, 0.25, 0.5, 1.0])
def test_every_location_has_the_deviation_of_today(strength):
    travel = travel_of(strength)
    assert travel._autocovariances(1)[0] == pytest.approx(np.full(N, NOISE_SD**2), rel=1e-5)


def test_the_recursion_is_stable(travel):
    transition = travel._transition().toarray()
    shift = np.eye(2 * N, 3 * N, k=N)
    radius = np.abs(np.linalg.eigvals(np.concatenate([shift, transition]))).max()
    assert radius < 0.5  # no cycles: φ, up to the rounding of a defective eigenvalue


def test_the_drawn_noise_is_stationary_with_the_deviation_of_today(drawn):
    noise, factors = drawn
    assert noise.shape == (STEPS, N)
    assert noise.std(axis=0) == pytest.approx(np.full(N, NOISE_SD), rel=0.04)
    assert noise.mean(axis=0) == pytest.approx(np.zeros(N), abs=0.03)
    assert factors.std(axis=0) == pytest.approx(np.ones(3), abs=0.05)
    first, last = (np.square(part).mean() for part in np.split(noise, 2))
    assert first == pytest.approx(last, rel=0.03)


def test_noise_follows_its_edges_with_their_delays_and_directions(travel, drawn):
    noise, factors = drawn
    steps = np.arange(3, STEPS)
    own = noise[3:] - travel._arrivals(factors, steps)
    past = np.concatenate([noise[3 - lag : STEPS - lag] for lag in (1, 2, 3)], axis=1)
    past = past.astype(np.float64)
    fitted = np.linalg.solve(past.T @ past, past.T @ own).reshape(3, N, N)
    true = np.zeros((3, N, N))
    true[0] = np.eye(N) * travel.memory
    source, target = travel.edges.pairs.T
    true[travel.edges.delays - 1, source, target] = travel.edges.strengths
    assert np.abs(fitted - true).max() < 0.05 < np.abs(travel.edges.strengths).min() / 2


@pytest.mark.parametrize("factor", [0, 1, 2])
def test_a_factor_reaches_each_location_after_its_delay(travel, drawn, factor):
    noise, factors = drawn
    shock = (factors[1:] - FACTOR_AR * factors[:-1])[:-3, factor]
    change = noise - travel.memory * np.roll(noise, 1, axis=0)
    delays = travel.factors.delays[:, factor]
    for delay in range(4):
        arrives = change[:, delays == delay].mean(axis=1)
        effect = [shock @ arrives[1 + lag : len(shock) + 1 + lag] / len(shock) for lag in range(4)]
        assert max(map(abs, effect[:delay]), default=0.0) < effect[delay] / 3.0


@pytest.mark.parametrize("ahead", [1, 2, 3, 7])
def test_the_errors_of_the_means_have_the_variances(travel, drawn, ahead):
    noise, factors = drawn
    origins = np.arange(OWN_HOURS, STEPS - 10)
    mean = list(travel.means_ahead(noise, factors, origins, ahead))[-1]
    error = noise[origins + ahead] - mean
    assert np.square(error).mean(axis=0) == pytest.approx(
        travel.variances_ahead(ahead)[-1], rel=0.08
    )
    left = error.T @ noise[origins] / len(origins) / NOISE_SD**2
    assert np.abs(left).max() < 0.06  # nothing of the past remains


@pytest.mark.parametrize("ahead", [1, 3, 7])
def test_the_own_past_explains_what_its_weights_say_and_less_than_all(travel, drawn, ahead):
    noise, _ = drawn
    origins = np.arange(OWN_HOURS, STEPS - 10)
    weights, left = travel.predict_alone(ahead)
    mean = sum(weights[-1, hour] * noise[origins - hour] for hour in range(OWN_HOURS))
    error = np.square(noise[origins + ahead] - mean).mean(axis=0)
    assert error == pytest.approx(left[-1], rel=0.08)
    assert (travel.variances_ahead(ahead)[-1] < left[-1]).all()
    assert (left[-1] < NOISE_SD**2).all()


def test_a_weaker_travel_keeps_more_of_the_own_memory():
    memory = [travel_of(strength).memory for strength in (0.01, 0.5, 1.0)]
    assert NOISE_AR > memory[0] > memory[1] > memory[2] > 0.0
    edges = [travel_of(strength).edges for strength in (0.5, 1.0)]
    assert (edges[0].pairs == edges[1].pairs).all()
    assert (edges[0].delays == edges[1].delays).all()
    assert np.abs(edges[0].strengths).mean() < 0.7 * np.abs(edges[1].strengths).mean()


def test_travelling_noise_does_not_depend_on_the_number_of_threads():
    threads = pytest.importorskip("threadpoolctl")
    drawn = []
    for count in (1, 2):
        with threads.threadpool_limits(count):
            drawn.append(travel_of(1.0).draw_noise(1_500, seed=5)[0])
    assert (drawn[0] == drawn[1]).all()
