import numpy as np
import pytest

from forecaster.graph.alternatives import complete, random_edges
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.graph.edges import Edges
from forecaster.panel.parts import Locations
from forecaster.report.graphs import draw_graph, draw_map

LEARNED = About(kind="lasso", threshold=0.1)


def graph_of(edges: Edges, count: int, *, placed: bool = True) -> DependencyGraph:
    """Return a graph with both signs, in New York, one of its locations nowhere."""
    generator = np.random.default_rng(3)
    lat, lon = generator.uniform(40.7, 40.8, count), generator.uniform(-74.0, -73.9, count)
    lat[-1 if placed else slice(None)] = np.nan
    names = tuple(f"$x_{n}$ <b> 漢字" for n in range(count))  # no formula, no markup, no font
    places = Locations(tuple(map(str, range(count))), names, lat, lon)
    strengths = generator.uniform(-1, 1, len(edges.pairs))
    return DependencyGraph(places, edges.pairs, strengths, LEARNED)


@pytest.mark.parametrize(("count", "edges"), [(3, 2), (29, 37), (503, 1_009)])
def test_every_picture_is_drawn(count: int, edges: int) -> None:
    graph = graph_of(random_edges(count, edges, np.random.default_rng(0)), count)
    pictures = draw_graph(graph)
    assert set(pictures) == {"structure", "degrees", "map", "distances"}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_graph_without_edges_is_drawn(count: int) -> None:
    for placed in (True, False):
        nothing = random_edges(count, 0, np.random.default_rng(0))
        assert "structure" in draw_graph(graph_of(nothing, count, placed=placed))


def test_without_coordinates_there_is_no_map() -> None:
    graph = graph_of(complete(7), 7, placed=False)
    assert set(draw_graph(graph)) == {"structure", "degrees"}


def test_places_on_one_line_are_mapped() -> None:
    for lat, lon in (
        (np.zeros(5), np.arange(5.0)),
        (np.arange(5.0), np.zeros(5)),
        (np.zeros(5),) * 2,
    ):
        places = Locations(tuple("abcde"), tuple("abcde"), lat, lon)
        edges = complete(5)
        graph = DependencyGraph(places, edges.pairs, edges.strengths, About(kind="complete"))
        assert draw_map(graph).startswith(b"\x89PNG")


def test_the_same_graph_is_drawn_alike() -> None:
    graph = graph_of(complete(11), 11)
    assert draw_graph(graph) == draw_graph(graph)
