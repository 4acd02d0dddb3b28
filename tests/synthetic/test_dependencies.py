import numpy as np
import pytest

from forecaster.synthetic.dependencies import (
    CORRELATIONS,
    LONG_RANGE_KM,
    describe_edges,
    draw_edges,
    to_precision,
)
from forecaster.synthetic.locations import draw_street_grid


def draw(count, seed=2):
    generator = np.random.default_rng(seed)
    places = draw_street_grid(count, generator)
    return places, draw_edges(places.distances, places.centre, generator)


@pytest.fixture(scope="module")
def paper_size():
    return draw(996)


def test_the_papers_size_has_the_papers_degrees(paper_size):
    places, edges = paper_size
    degrees = edges.degrees(996)
    assert len(edges) == 1_245  # 996 · 2.5 / 2
    assert degrees.mean() == 2.5
    assert degrees[places.centre] == degrees.max() == 16
    assert np.sort(degrees)[-2] < 16  # there is one hub


def test_eight_percent_of_the_edges_are_long_range(paper_size):
    places, edges = paper_size
    apart = places.distances[edges.first, edges.second]
    assert edges.long_range.sum() == 100  # 8 % of 1,245
    assert apart[edges.long_range].min() >= LONG_RANGE_KM
    assert apart[~edges.long_range].max() < 1.0


def test_local_edges_prefer_near_locations(paper_size):
    places, edges = paper_size
    apart = np.sort(places.distances, axis=1)
    local = places.distances[edges.first, edges.second][~edges.long_range]
    assert np.median(local) < apart[:, 8].mean()


def test_correlations_keep_their_proportions_and_sign(paper_size):
    _, edges = paper_size
    low, high = edges.correlation.min(), edges.correlation.max()
    assert 0.0 < low < high < 1.0
    assert high / low == pytest.approx(CORRELATIONS[1] / CORRELATIONS[0], rel=0.05)


def test_every_size_has_one_edge_per_pair_and_none_to_itself():
    for count in (2, 3, 4, 5, 6, 7, 20, 53, 199):
        _, edges = draw(count)
        pairs = set(zip(edges.first.tolist(), edges.second.tolist(), strict=True))
        assert len(pairs) == len(edges) == min(round(count * 1.25), count * (count - 1) // 2)
        assert (edges.first < edges.second).all()
        assert edges.second.max() < count


@pytest.mark.parametrize(("count", "hub"), [(2, 1), (3, 2), (7, 5), (20, 13), (53, 16)])
def test_the_hub_shrinks_with_the_city(count, hub):
    places, edges = draw(count)
    assert edges.degrees(count)[places.centre] == edges.degrees(count).max() == hub


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 20, 199])
def test_the_precision_has_unit_diagonal_and_smallest_eigenvalue_a_tenth(count):
    _, edges = draw(count)
    precision = to_precision(edges, count)
    assert (np.diag(precision) == 1.0).all()
    assert (precision == precision.T).all()
    assert np.linalg.eigvalsh(precision)[0] == pytest.approx(0.1, abs=1e-9)


def test_the_precision_is_nonzero_at_edges_alone():
    _, edges = draw(53)
    precision = to_precision(edges, 53)
    assert (-precision[edges.first, edges.second] == edges.correlation).all()
    assert np.count_nonzero(precision) == 53 + 2 * len(edges)


def test_one_location_depends_on_nothing():
    _, edges = draw(1)
    assert to_precision(edges, 1).tolist() == [[1.0]]
    assert describe_edges(edges, 1) == "1 location, 0 edges"


def test_the_description_gives_the_realised_numbers(paper_size):
    _, edges = paper_size
    low, high = edges.correlation.min(), edges.correlation.max()
    assert describe_edges(edges, 996) == (
        "996 locations, 1,245 edges, average degree 2.50, hub 16, long-range 8.0 %,"
        f" partial correlations {low:.3f}…{high:.3f}"
    )
