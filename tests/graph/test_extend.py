"""Graphs that follow their places: the edges of those that come and go."""

from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.exports import to_table
from forecaster.graph.extend import (
    WEAKEST,
    extend_graph,
    restrict_graph,
    typical_delay,
    typical_strengths,
)
from forecaster.graph.storage import open_graph, save_graph
from forecaster.panel.parts import Locations

IDS = ("a", "b", "c", "d", "e")
EDGES = [("a", "b", 0.5), ("b", "c", -0.4), ("c", "d", 0.3), ("d", "e", 0.2), ("a", "e", 0.6)]


def placed(*ids: str) -> Locations:
    """Places on a line, a degree apart, in the order of the alphabet."""
    lat = np.array([float(ord(i) - ord("a")) for i in ids])
    return Locations(ids, ids, lat, np.zeros(len(ids)))


def ring(locations: Locations | None = None) -> DependencyGraph:
    return DependencyGraph.from_edges(EDGES, locations or placed(*IDS))


def edges_of(graph: DependencyGraph) -> dict[frozenset[str], float]:
    ids = graph.locations.ids
    pairs = zip(graph.pairs.tolist(), graph.strengths.tolist(), strict=True)
    return {frozenset((ids[a], ids[b])): strength for (a, b), strength in pairs}


def test_gone_places_lose_their_edges_and_the_order_is_free() -> None:
    graph = restrict_graph(ring(), ("d", "a", "c", "b"))
    assert graph.locations.ids == ("d", "a", "c", "b")
    assert edges_of(graph) == {
        frozenset("ab"): 0.5,
        frozenset("bc"): -0.4,
        frozenset("cd"): 0.3,
    }


def test_the_graph_says_which_places_it_was_learned_on() -> None:
    graph = ring()
    assert graph.learned_on == IDS
    changed = extend_graph(restrict_graph(graph, ("a", "b", "c")), placed("a", "b", "x"))
    assert changed.locations.ids == ("a", "b", "x")
    assert changed.learned_on == IDS


def test_a_graph_that_followed_is_saved_and_opened(tmp_path: Path) -> None:
    graph = extend_graph(ring(), placed("a", "b", "f"))
    save_graph(graph, tmp_path / "graph")
    opened = open_graph(tmp_path / "graph")
    assert edges_of(opened) == edges_of(graph)
    assert opened.learned_on == IDS
    assert opened.about == graph.about


def test_a_new_place_is_joined_to_the_nearest_with_usual_strengths() -> None:
    graph = extend_graph(ring(), placed("f", *IDS))
    assert graph.degrees[0] == 2  # as many as the others have
    edges = edges_of(graph)
    assert edges[frozenset("ef")] == 0.5  # the median of the strongest: 0.6, 0.5, 0.4, 0.3, 0.6
    assert edges[frozenset("df")] == 0.3  # of the second: 0.5, 0.4, 0.3, 0.2, 0.2
    assert all(edges[edge] == strength for edge, strength in edges_of(ring()).items())


def test_typical_strengths_are_positive() -> None:
    np.testing.assert_allclose(typical_strengths(ring()), [0.5, 0.3])
    none = DependencyGraph.from_edges([("a", "b", 0.0)], placed(*IDS))
    assert typical_strengths(restrict_graph(none, ("a", "c"))).tolist() == [WEAKEST]


def test_without_coordinates_places_that_change_together_are_joined() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(200, 6)).astype(np.float32)
    values[:, 5] = 3 * values[:, 2] + 0.1 * values[:, 4] + 100
    values[:20, 5] = np.nan  # it opened later
    locations = Locations.of_ids((*IDS, "x"))
    graph = extend_graph(ring(Locations.of_ids(IDS)), locations, values)
    assert frozenset("cx") in edges_of(graph)
    assert 1 <= graph.degrees[5] <= 2
    assert (graph.strengths[(graph.pairs == 5).any(axis=1)] > 0).all()


def test_a_place_of_which_nothing_is_known_stays_without_edges() -> None:
    locations = Locations.of_ids((*IDS, "x"))
    values = np.full((100, 6), np.nan, dtype=np.float32)
    for known in (None, values):
        assert extend_graph(ring(Locations.of_ids(IDS)), locations, known).degrees[5] == 0


def test_places_that_the_graph_lacks_are_refused() -> None:
    with pytest.raises(DataError, match=r"1 unknown id: x; it has a, b"):
        restrict_graph(ring(), ("a", "x"))
    with pytest.raises(DataError, match="none of its places is among x"):
        extend_graph(ring(), Locations.of_ids(("x", "z")))


# ------------------------------------------------------------------------------- directed graphs

LAGGED = [
    ("a", "b", 0.5, 1), ("a", "b", -0.6, 3), ("b", "a", 0.4, 2), ("c", "b", 0.3, 5),
    ("d", "c", 0.2, 2), ("e", "c", 0.1, 4), ("c", "d", 0.9, 1),
]  # fmt: skip


def lagged(locations: Locations | None = None) -> DependencyGraph:
    return DependencyGraph.from_edges(LAGGED, locations or placed(*IDS))


def rows_of(graph: DependencyGraph) -> set[tuple[str, str, float, int]]:
    rows = to_table(graph).to_pylist()
    return {(row["source"], row["target"], row["strength"], row["delay"]) for row in rows}


def test_directed_edges_keep_direction_and_delay_in_any_order() -> None:
    graph = restrict_graph(lagged(), ("c", "b", "a"))
    assert graph.locations.ids == ("c", "b", "a")
    assert rows_of(graph) == {edge for edge in LAGGED if not {"d", "e"} & set(edge[:2])}


def test_edges_lead_into_a_new_place_and_none_out_of_it() -> None:
    graph = extend_graph(lagged(), placed("f", *IDS))
    assert rows_of(graph) == {
        *LAGGED,
        ("e", "f", 0.5, 2),  # the nearest; the median of 0.6, 0.4, 0.2 and 0.9 is 0.5
    }
    assert graph.out_degrees[0] == 0


def test_typical_edges_of_a_directed_graph_are_those_into_a_place() -> None:
    busy = [*LAGGED, ("b", "d", 0.7, 1), ("e", "a", 0.2, 1)]  # degrees 2, 2, 2, 2, 0
    graph = DependencyGraph.from_edges(busy, placed(*IDS))
    strongest, second = [0.4, 0.6, 0.2, 0.9], [0.2, 0.3, 0.1, 0.7]  # of a, b, c and d
    expected = [np.median(strongest), np.median(second)]
    np.testing.assert_allclose(typical_strengths(graph), expected)


def test_the_typical_delay_is_the_median_in_whole_steps() -> None:
    assert typical_delay(lagged()) == 2  # of 1, 1, 2, 2, 3, 4 and 5
    two = DependencyGraph.from_edges([("a", "b", 0.5, 1), ("b", "a", 0.5, 2)], placed(*IDS))
    assert typical_delay(two) == 1
    nothing = restrict_graph(lagged(), ("e",))
    assert typical_delay(nothing) == 1
    assert rows_of(extend_graph(nothing, placed("e", "f"))) == {("e", "f", WEAKEST, 1)}


def test_a_directed_graph_that_followed_is_saved_and_opened(tmp_path: Path) -> None:
    graph = extend_graph(lagged(), placed("c", "f", "b"))
    save_graph(graph, tmp_path / "graph")
    opened = open_graph(tmp_path / "graph")
    assert rows_of(opened) == rows_of(graph)
    assert opened.learned_on == IDS


def test_a_directed_graph_without_new_places_keeps_all_its_edges() -> None:
    assert rows_of(extend_graph(lagged(), placed(*IDS[::-1]))) == set(LAGGED)
