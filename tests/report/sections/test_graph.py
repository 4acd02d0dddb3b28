import numpy as np
import pytest

from forecaster.graph.alternatives import complete, no_edges, random_edges
from forecaster.graph.dependency import About, DependencyGraph, InverseComparison, PathStep
from forecaster.graph.edges import EdgeList
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData
from forecaster.report.draw.canvas import to_png, to_svg
from forecaster.report.sections.graph import (
    describe_graph,
    describe_selection,
    draw_graph,
    draw_map,
    draw_path,
    draw_structure,
    graph_pictures,
    location_pictures,
    location_section,
)
from tests.report.comparisons import bare_panel

LEARNED = About(kind="lasso", threshold=0.1)


def graph_of(edges: EdgeList, count: int, *, placed: bool = True) -> DependencyGraph:
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
        assert to_png(draw_map(graph)).startswith(b"\x89PNG")


def test_the_same_graph_is_drawn_alike() -> None:
    graph = graph_of(complete(11), 11)
    assert draw_graph(graph) == draw_graph(graph)


def test_words_say_what_is_drawn() -> None:
    graph = graph_of(random_edges(503, 1_009, np.random.default_rng(0)), 503)
    words = describe_graph(graph)
    assert words["structure"].startswith("503 locations, 1,009 dependencies, average degree 4.01;")
    assert words["structure"].endswith("edges have |conditional correlation| > 0.1")
    assert words["map"].endswith("; the 400 strongest are drawn")
    assert "the median distance of dependent pairs is" in words["distances"]


def test_many_dots_do_not_make_a_large_file() -> None:
    assert len(to_svg(draw_structure(graph_of(complete(97), 97)), "x")) < 200_000


def test_the_penalty_that_was_chosen_is_marked() -> None:
    steps = [(0.5, -0.9, 2), (0.1, -0.4, 7), (0.02, -0.5, 11)]
    path = [PathStep(penalty=p, score=s, edges=e, converged=True) for p, s, e in steps]
    about = About(kind="lasso", penalty=0.1, chosen_by="likelihood", path=tuple(path))
    drawing = to_svg(draw_path(about), "x")
    assert "λ = 0.1, 7 edges".encode() in drawing
    assert b"held-out log likelihood" in drawing


def test_how_a_graph_was_chosen_is_told_by_topic() -> None:
    beside = InverseComparison(edges=9, average_degree=2.57, overlap=0.78)
    about = About(
        kind="lasso", penalty=0.03, chosen_by="likelihood", gap=2e-5, converged=False, steps=1_176,
        subtracted="hour_of_week", threshold=0.12, degree=2.5, beside=beside, notes=("odd",),
    )  # fmt: skip
    assert describe_selection(about) == {
        "kind": "lasso",
        "learned from": "1,176 training steps, hour-of-week mean subtracted; 0 dropped, "
        "0 values filled",
        "penalty λ": "0.03 (likelihood)",
        "accuracy": "duality gap 2e-05 per location: NOT CONVERGED",
        "threshold": "0.12, for an average degree of 2.5",
        "plain inverse for comparison": "9 edges, average degree 2.57, 78 % of all "
        "edges in common",
        "notes": "odd",
    }
    assert describe_selection(About(kind="own")) == {"kind": "own"}


def test_the_busiest_place_is_named(data: ReportData) -> None:
    (picture,) = location_pictures(data.panel)
    assert picture.text.startswith("4 locations with coordinates")  # one is nowhere
    assert "the busiest is d (" in picture.text


def test_without_coordinates_locations_are_not_mapped() -> None:
    assert list(location_pictures(bare_panel(np.ones((7, 2))))) == []


def test_the_papers_figures_are_shown(data: ReportData) -> None:
    assert data.graph is not None
    names = [picture.name for picture in graph_pictures(data.graph)]
    assert names[:2] == ["10-dependency-map", "09-dependency-matrix"]


def test_of_many_dependencies_the_400_strongest_are_on_the_map() -> None:
    lat, lon = np.random.default_rng(0).uniform(0, 1, (2, 31))
    places = Locations(tuple(map(str, range(31))), tuple(map(str, range(31))), lat, lon)
    graph = DependencyGraph(places, *complete(31), About(kind="complete"))
    first, *_ = graph_pictures(graph)
    assert first.text.startswith("The 400 strongest of 465 dependencies; ")
    assert len(first.figure.axes[0].collections[0].get_segments()) == 400


def test_a_graph_without_edges_has_a_matrix_alone() -> None:
    places = Locations.of_ids("abc")
    graph = DependencyGraph(places, *no_edges(), About(kind="own"))
    assert [picture.name for picture in graph_pictures(graph)] == ["09-dependency-matrix"]


def test_the_section_gives_the_hash_of_the_graph(data: ReportData) -> None:
    assert data.graph is not None
    facts = location_section(data).facts["Selection of the graph"]
    assert facts["graph hash"] == data.graph.digest
