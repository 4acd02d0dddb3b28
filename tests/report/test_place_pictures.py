import numpy as np

from forecaster.graph.alternatives import complete, no_edges
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.panel.parts import Locations
from forecaster.report.material import Material
from forecaster.report.place_pictures import graph_pictures, place_pictures
from tests.report.comparisons import bare_panel


def test_the_busiest_place_is_named(material: Material) -> None:
    (picture,) = place_pictures(material.panel)
    assert picture.text.startswith("4 locations on the map")  # one is nowhere
    assert "the busiest is d (" in picture.text


def test_without_coordinates_there_is_no_map() -> None:
    assert list(place_pictures(bare_panel(np.ones((7, 2))))) == []


def test_the_papers_figures_are_shown(material: Material) -> None:
    assert material.graph is not None
    names = [picture.name for picture in graph_pictures(material.graph)]
    assert names[:2] == ["10-dependency-map", "09-dependency-matrix"]


def test_of_many_dependencies_the_400_strongest_are_on_the_map() -> None:
    lat, lon = np.random.default_rng(0).uniform(0, 1, (2, 31))
    places = Locations(tuple(map(str, range(31))), tuple(map(str, range(31))), lat, lon)
    graph = DependencyGraph(places, *complete(31), About(kind="complete"))
    first, *_ = graph_pictures(graph)
    assert first.text.startswith("The 400 strongest of 465, ")
    assert len(first.figure.axes[0].collections[0].get_segments()) == 400


def test_a_graph_without_edges_has_a_matrix_alone() -> None:
    places = Locations.of_ids("abc")
    graph = DependencyGraph(places, *no_edges(), About(kind="own"))
    assert [picture.name for picture in graph_pictures(graph)] == ["09-dependency-matrix"]
