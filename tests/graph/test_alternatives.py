import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.graph.alternatives import (
    complete,
    distance_kernel,
    invert,
    no_edges,
    random_edges,
)
from forecaster.panel.parts import Locations

IDS = ("a", "b", "c")
NOWHERE = np.full(3, np.nan)


def test_own_only_has_no_edges() -> None:
    assert no_edges().pairs.shape == (0, 2)


def test_complete_has_every_edge() -> None:
    edges = complete(5)
    assert edges.pairs.tolist() == [[i, j] for i in range(5) for j in range(i + 1, 5)]
    assert complete(1).pairs.shape == (0, 2)


def test_random_edges_are_different_pairs() -> None:
    edges = random_edges(13, 31, np.random.default_rng(0))
    assert edges.pairs.shape == (31, 2)
    assert (edges.pairs[:, 0] < edges.pairs[:, 1]).all()
    assert len(np.unique(edges.pairs, axis=0)) == 31


def test_random_edges_follow_their_generator() -> None:
    first, same, other = (random_edges(13, 31, np.random.default_rng(s)) for s in (3, 3, 5))
    assert np.array_equal(first.pairs, same.pairs)
    assert not np.array_equal(first.pairs, other.pairs)


def test_every_pair_is_drawn_alike() -> None:
    generator = np.random.default_rng(1)
    drawn = np.concatenate([random_edges(5, 3, generator).pairs for _ in range(2_000)])
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 10
    assert counts == pytest.approx(np.full(10, 600), rel=0.15)


def test_more_random_edges_than_there_are_make_the_graph_complete() -> None:
    assert len(random_edges(5, 99, np.random.default_rng(0)).pairs) == 10


def test_the_inverse_is_that_of_numpy() -> None:
    x = np.random.default_rng(2).normal(size=(37, 7))
    correlation = np.corrcoef(x, rowvar=False)
    precision, reason = invert(correlation)
    assert precision == pytest.approx(np.linalg.inv(correlation), rel=1e-10)
    assert np.array_equal(precision, np.asarray(precision).T)
    assert reason == ""


@pytest.mark.parametrize("steps", [3, 7])
def test_there_is_no_inverse_of_a_singular_matrix(steps: int) -> None:
    x = np.random.default_rng(2).normal(size=(steps, 7))  # rank below 7
    precision, reason = invert(np.corrcoef(x, rowvar=False))
    assert precision is None
    assert "singular" in reason


def test_there_is_no_inverse_where_only_rounding_tells_two_locations_apart() -> None:
    alike = 1 - 1e-12  # positive definite, just
    precision, reason = invert(np.array([[1.0, alike], [alike, 1.0]]))
    assert precision is None
    assert "singular" in reason


def test_the_distance_kernel_is_a_gaussian_of_the_distance() -> None:
    # On the equator 1°, 2° and 3° apart, in units of one degree: σ² = ((1−2)² + 0 + (3−2)²) / 3
    places = Locations(IDS, IDS, np.zeros(3), np.array([0.0, 1.0, 3.0]))
    kernel = distance_kernel(places)
    expected = np.exp(-np.array([[0, 1, 9], [1, 0, 4], [9, 4, 0]]) * 1.5)
    assert kernel == pytest.approx(expected, rel=1e-9)


def test_on_a_grid_distances_are_steps() -> None:
    extra = {"row": (0, 0, 2), "col": (0, 1, 0)}
    kernel = distance_kernel(Locations(IDS, IDS, NOWHERE, NOWHERE, extra))
    apart = np.array([1.0, 2.0, 5.0**0.5])
    assert kernel[0, 1] == pytest.approx(np.exp(-1 / np.var(apart)))
    assert kernel[1, 2] == pytest.approx(np.exp(-5 / np.var(apart)))


@pytest.mark.parametrize(
    "extra", [{}, {"row": (0, 1, 2)}, {"row": (0, 1, None), "col": (0, 1, 2)},
              {"row": ("0", "1", "2"), "col": (0, 1, 2)}],
    ids=["none", "no column", "null", "texts"],
)  # fmt: skip
def test_without_coordinates_or_grid_there_is_no_distance(extra: dict[str, tuple]) -> None:
    lat = np.array([40.0, np.nan, 41.0])
    with pytest.raises(DataError, match=r"no coordinates of b: .* or its row and col on a grid"):
        distance_kernel(Locations(IDS, IDS, lat, lat, extra))


@pytest.mark.parametrize("count", [1, 2])
def test_one_and_two_locations_have_a_kernel(count: int) -> None:
    ids = IDS[:count]
    kernel = distance_kernel(Locations(ids, ids, np.arange(count) * 1.0, np.zeros(count)))
    assert np.isfinite(kernel).all()
    assert kernel[0, 0] == 1.0
