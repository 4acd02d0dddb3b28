import numpy as np
import pytest

from forecaster.synthetic.lagged import (
    EDGE_STRENGTH,
    FACTORS,
    TOTAL_STRENGTH,
    draw_lagged_edges,
    draw_lagged_factors,
)
from forecaster.synthetic.locations import draw_street_grid


@pytest.fixture(scope="module")
def grid():
    return draw_street_grid(996, np.random.default_rng(2))


@pytest.fixture(scope="module")
def edges(grid):
    return draw_lagged_edges(grid, np.random.default_rng(3))


def test_a_location_receives_up_to_three_edges(edges):
    in_degrees = np.bincount(edges.pairs[:, 1], minlength=996)
    assert set(in_degrees) == {0, 1, 2, 3}
    assert in_degrees.mean() == pytest.approx(1.7, abs=0.1)


def test_every_pair_has_one_edge_in_one_direction(edges):
    pairs = {tuple(pair) for pair in edges.pairs.tolist()}
    assert len(pairs) == len(edges)
    assert not pairs & {(target, source) for source, target in pairs}


def test_edges_form_no_cycle(edges):
    waiting = edges.pairs
    while len(waiting):  # take away the edges of locations that nothing reaches
        reached = np.isin(waiting[:, 0], waiting[:, 1])
        assert not reached.all()
        waiting = waiting[reached]


def test_edges_run_mostly_outward_along_the_avenues(grid, edges):
    source, target = edges.pairs.T
    assert (np.abs(grid.along[source]) < np.abs(grid.along[target])).mean() > 0.75
    assert (np.abs(grid.along[source]) > np.abs(grid.along[target])).any()
    along = np.abs(grid.along[source] - grid.along[target])
    assert along.mean() > 1.5 * np.abs(grid.across[source] - grid.across[target]).mean()


def test_sources_are_near_and_farther_ones_take_longer(grid, edges):
    apart = grid.distances[edges.pairs[:, 0], edges.pairs[:, 1]]
    by_delay = [apart[edges.delays == delay].mean() for delay in (1, 2, 3)]
    assert set(edges.delays) == {1, 2, 3}
    assert 0.0 < by_delay[0] < by_delay[1] < by_delay[2] < 2.0


def test_strengths_keep_their_limits_and_some_are_negative(edges):
    totals = np.bincount(edges.pairs[:, 1], weights=np.abs(edges.strengths), minlength=996)
    assert totals.max() <= TOTAL_STRENGTH
    assert 0.15 < np.abs(edges.strengths).min() <= np.abs(edges.strengths).max() <= EDGE_STRENGTH
    assert (edges.strengths < 0.0).mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_small_cities_have_fewer_edges(count):
    edges = draw_lagged_edges(
        draw_street_grid(count, np.random.default_rng(1)), np.random.default_rng(1)
    )
    assert edges.pairs.shape == (len(edges), 2)
    assert len(edges) <= count * (count - 1) // 2


def test_factors_start_somewhere_and_arrive_elsewhere_later(grid):
    factors = draw_lagged_factors(grid, np.random.default_rng(4))
    assert factors.loadings.shape == factors.delays.shape == (996, len(FACTORS))
    assert (factors.loadings > 0.0).all()
    for delays in factors.delays.T:
        assert set(delays) == {0, 1, 2, 3}
    outward, northward, _ = factors.delays.T
    assert (np.diff(northward[np.argsort(grid.along)]) >= 0).all()
    centre, rim = np.abs(grid.along) < 2.0, np.abs(grid.along) > 8.0
    assert (outward[centre] == 0).all()
    assert (outward[rim] == 3).all()
