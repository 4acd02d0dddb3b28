import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError
from forecaster.kernels.pattern import BlockPattern


def pairs_of(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 13))
    place = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(place, place), max_size=40))


def test_edges_are_listed_by_target_then_source() -> None:
    pattern = BlockPattern.from_pairs(4, pairs_of((2, 0), (0, 3)))
    edges = list(zip(pattern.target.tolist(), pattern.source.tolist(), strict=True))
    assert edges == [(0, 0), (0, 2), (0, 3), (1, 1), (2, 0), (2, 2), (3, 0), (3, 3)]
    assert pattern.starts.tolist() == [0, 3, 4, 6, 8]
    assert (pattern.n_locations, pattern.n_edges) == (4, 8)


@given(graphs())
def test_a_pattern_holds_both_directions_and_every_location_itself(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, pairs = graph
    pattern = BlockPattern.from_pairs(count, pairs_of(*pairs))
    edges = list(zip(pattern.target.tolist(), pattern.source.tolist(), strict=True))
    expected = {(i, i) for i in range(count)} | set(pairs) | {(j, i) for i, j in pairs}
    assert edges == sorted(expected)  # sorted, and none twice


@given(graphs())
def test_reversed_edges_go_the_other_way_and_are_sorted_by_source(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    pattern = BlockPattern.from_pairs(graph[0], pairs_of(*graph[1]))
    turned = pattern.reverse
    assert torch.equal(pattern.source[turned], pattern.target)
    assert torch.equal(pattern.target[turned], pattern.source)
    assert torch.equal(turned[turned], torch.arange(pattern.n_edges))


@given(graphs())
def test_a_directed_pattern_holds_the_given_direction_and_turns_into_the_other(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, pairs = graph
    pattern = BlockPattern.from_pairs(count, pairs_of(*pairs), directed=True)
    edges = list(zip(pattern.target.tolist(), pattern.source.tolist(), strict=True))
    assert edges == sorted({(i, i) for i in range(count)} | {(j, i) for i, j in pairs})
    turned = pattern.turned
    back = list(zip(turned.source.tolist(), turned.target.tolist(), strict=True))
    assert sorted(back) == edges
    assert torch.equal(pattern.target[pattern.reverse], turned.source)
    assert torch.equal(pattern.source[pattern.reverse], turned.target)


def test_an_undirected_pattern_is_its_own_turned_one() -> None:
    pattern = BlockPattern.from_pairs(5, pairs_of((1, 3), (0, 4)))
    assert pattern.turned is pattern
    assert BlockPattern.from_pairs(5, pairs_of((1, 3)), directed=True).turned is not pattern


@given(graphs())
def test_starts_bound_the_edges_of_each_target(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    pattern = BlockPattern.from_pairs(graph[0], pairs_of(*graph[1]))
    for i in range(pattern.n_locations):
        begin, end = pattern.starts[i : i + 2].tolist()
        assert pattern.target[begin:end].tolist() == pattern.target[pattern.target == i].tolist()


def test_a_pair_given_twice_counts_once() -> None:
    once = BlockPattern.from_pairs(5, pairs_of((1, 3)))
    again = BlockPattern.from_pairs(5, pairs_of((1, 3), (3, 1), (1, 3)))
    assert torch.equal(once.source, again.source)


def test_a_location_outside_is_refused_with_the_pair_and_the_count() -> None:
    with pytest.raises(ConfigError, match=r"pair \(3, 7\).*7 locations: 0 … 6"):
        BlockPattern.from_pairs(7, pairs_of((0, 1), (3, 7)))
    with pytest.raises(ConfigError, match=r"pair \(-1, 2\)"):
        BlockPattern.from_pairs(7, pairs_of((-1, 2)))


def test_a_pattern_of_no_location_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one"):
        BlockPattern.from_pairs(0, pairs_of())


def test_a_pattern_is_copied_to_a_device_once() -> None:
    pattern = BlockPattern.from_pairs(5, pairs_of((1, 3)))
    elsewhere = torch.device("meta")  # every torch has it
    there = pattern.to(elsewhere)
    assert pattern.to(elsewhere) is there
    assert pattern.to(torch.device("cpu")) is pattern
    for name in ("source", "target", "reverse", "starts"):
        assert getattr(there, name).device == elsewhere
    assert there.n_edges == pattern.n_edges
    assert there.turned is there
    one_way = BlockPattern.from_pairs(5, pairs_of((1, 3)), directed=True).to(elsewhere)
    assert one_way.turned.source.device == elsewhere


@given(graphs())
def test_a_walk_meets_every_location_once_and_goes_on_at_a_neighbour_where_one_is_left(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    pattern = BlockPattern.from_pairs(graph[0], pairs_of(*graph[1]))
    walk = pattern.walk.tolist()
    assert sorted(walk) == list(range(graph[0]))
    for step, i in enumerate(walk[:-1]):
        edges = slice(int(pattern.starts[i]), int(pattern.starts[i + 1]))
        left = set(pattern.source[edges].tolist()) - set(walk[: step + 1])
        assert not left or walk[step + 1] in left


def test_a_walk_begins_where_most_edges_are() -> None:
    pattern = BlockPattern.from_pairs(7, pairs_of((4, 1), (4, 2), (4, 6), (0, 3)))
    assert pattern.walk[0] == 4
