import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.estimators.graph_arrays import edges_of, graph_arrays
from forecaster.graph.dependency import DependencyGraph
from tests.estimators.directed import PANEL, directed_graph


def test_an_undirected_graph_has_no_delays_in_a_run() -> None:
    graph = DependencyGraph.from_edges([("place 0", "place 3"), ("place 3", "place 4")], PANEL)
    arrays = graph_arrays(graph)
    assert list(arrays) == ["graph.pairs", "graph.strengths"]
    edges = edges_of(arrays)
    assert edges.delays is None
    assert edges.degrees(7).tolist() == [1, 0, 0, 2, 1, 0, 0]
    assert edges.pattern(7).n_edges == 7 + 2 * 2


def test_a_directed_graph_is_read_as_it_was() -> None:
    graph = directed_graph()
    edges = edges_of(graph_arrays(graph))
    assert edges.delays is not None
    assert np.array_equal(edges.pairs, graph.pairs)
    assert edges.delays.tolist() == [1, 3, 3, 1, 2]
    assert edges.degrees(7).tolist() == graph.degrees.tolist() == [0, 1, 1, 1, 1, 0, 0]


def test_a_pattern_has_every_link_once_and_in_its_direction() -> None:
    pattern = edges_of(graph_arrays(directed_graph())).pattern(7)
    links = set(zip(pattern.source.tolist(), pattern.target.tolist(), strict=True))
    assert links == {(0, 1), (1, 2), (3, 4), (4, 3), *((n, n) for n in range(7))}
    assert pattern.n_edges == len(links)


@pytest.mark.parametrize(
    ("delays", "fault"),
    [
        (np.array([1, 3, 3, 1, 0]), "a delay is 0 steps"),
        (np.array([1, 3, 3, 1]), r"delays are int64 \(4,\), not one int64 for each of 5 edges"),
        (np.ones((5, 1), np.int64), r"delays are int64 \(5, 1\)"),
        (np.ones(5), r"delays are float64 \(5,\)"),
    ],
)
def test_C4_delays_that_fit_no_edges_are_refused(delays: np.ndarray, fault: str) -> None:
    with pytest.raises(ArtifactError, match=fault):
        edges_of({**graph_arrays(directed_graph()), "graph.delays": delays})
