from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.graph.alternatives import complete, no_edges, random_edges
from forecaster.graph.dependency import (
    About,
    DependencyGraph,
    InverseComparison,
    LaggedRecord,
    PathStep,
    Worth,
)
from forecaster.graph.edges import EdgeList
from forecaster.panel.parts import Locations
from forecaster.report.data import ReportData
from forecaster.report.draw.canvas import to_png, to_svg
from forecaster.report.sections.graph import (
    describe_delays,
    describe_edges,
    describe_graph,
    describe_selection,
    describe_worth,
    draw_degrees,
    draw_delays,
    draw_distances,
    draw_graph,
    draw_map,
    draw_path,
    draw_structure,
    draw_worth,
    explain_no_edges,
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


# ------------------------------------------------------------------------------- directed graphs


def lagged(count: int, edges: int, *, placed: bool = True) -> DependencyGraph:
    """Return a directed graph with both ways of pairs and several delays."""
    generator = np.random.default_rng(7)
    drawn = generator.integers(0, (count, count, 3), (4 * edges, 3))
    rows = np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)
    rows = rows[np.sort(generator.permutation(len(rows))[:edges])]
    undirected = graph_of(no_edges(), count, placed=placed)
    return replace(
        undirected, pairs=rows[:, :2], delays=rows[:, 2] + 1, about=About(kind="lagged"),
        strengths=generator.uniform(-1, 1, len(rows)),
    )  # fmt: skip


@pytest.mark.parametrize(("count", "edges"), [(3, 2), (29, 37), (503, 1_009)])
def test_every_picture_of_a_directed_graph_is_drawn(count: int, edges: int) -> None:
    graph = lagged(count, edges)
    pictures = draw_graph(graph)
    assert set(pictures) == {"structure", "degrees", "delays", "map", "distances"}
    assert set(describe_graph(graph)) == set(pictures)
    assert draw_graph(graph) == pictures


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_directed_graph_without_edges_is_drawn(count: int) -> None:
    for placed in (True, False):
        graph = lagged(count, 0, placed=placed)
        assert set(draw_graph(graph)) == {"structure", *(["map"] if placed and count > 2 else [])}
        assert set(describe_graph(graph)) >= set(draw_graph(graph))


def test_words_say_what_a_directed_graph_is() -> None:
    graph = lagged(7, 31)
    links, average = len(graph.links), len(graph.links) / 7
    assert links < 31
    words = describe_graph(graph)
    summary = f"7 locations, 31 dependencies, {average:.2f} sources per location"
    several = "of several delays the strongest is drawn"
    assert words["map"] == f"{summary}; arrows lead from source to target; {several}"
    assert words["structure"] == f"{summary}; {several}; kind: lagged"
    assert words["degrees"].startswith(f"{summary}; tell about most others: $x_")
    edges = f"31 edges of {links} pairs, {average:.2f} sources per location"
    assert describe_edges(graph) == edges


def test_delays_are_given_as_shares_of_the_most_common_ones() -> None:
    assert describe_delays(np.array([2, 1, 3, 1])) == "1 step 50 %, 2 steps 25 %, 3 steps 25 %"
    many = np.repeat([1, 2, 3, 24, 168], [7, 2, 2, 8, 1])
    assert describe_delays(many) == "1 step 35 %, 2 steps 10 %, 24 steps 40 %, others 15 %"
    assert describe_delays(many[:0]) == "no delays"


def test_arrows_lead_from_source_to_target() -> None:
    graph = lagged(7, 31)
    axes = draw_map(graph).axes[0]
    arrows = {
        (*map(float, source), *map(float, target))
        for source, target in (patch._posA_posB for patch in axes.patches)
    }
    at = np.column_stack([graph.locations.lon, graph.locations.lat])
    located = graph.links[graph.locations.placed[graph.links].all(axis=1)]
    assert arrows == {(*at[source].tolist(), *at[target].tolist()) for source, target in located}


def test_places_at_one_point_get_arrows() -> None:
    nowhere_else = Locations(("a", "b", "c"), ("a", "b", "c"), np.zeros(3), np.zeros(3))
    graph = DependencyGraph.from_edges([("a", "b", 0.5, 1), ("b", "a", 0.5, 2)], nowhere_else)
    assert to_png(draw_map(graph)).startswith(b"\x89PNG")


def test_the_matrix_of_a_directed_graph_has_columns_for_targets() -> None:
    axes = draw_structure(lagged(7, 31)).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("target", "source")
    dots = axes.collections[1].get_offsets().astype(int).tolist()
    assert sorted(dots) == sorted(lagged(7, 31).links[:, ::-1].tolist())


def test_a_location_may_have_another_number_of_sources_than_of_targets() -> None:
    graph = lagged(7, 31)
    axes = draw_degrees(graph).axes[0]
    heights = np.array([bar.get_height() for bar in axes.patches]).reshape(2, -1)
    most = heights.shape[1]
    assert heights[0].tolist() == np.bincount(graph.degrees, minlength=most).tolist()
    assert heights[1].tolist() == np.bincount(graph.out_degrees, minlength=most).tolist()


def test_the_histogram_of_delays_counts_edges() -> None:
    axes = draw_delays(np.array([1, 3, 1, 24])).axes[0]
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches}
    assert bars == {1: 2, 3: 1, 24: 1}


def test_distances_are_of_edges_that_have_an_effect() -> None:
    graph = lagged(29, 37)
    axes = draw_distances(graph).axes[0]
    assert axes.get_ylabel() == "effect"
    assert len(axes.collections[0].get_offsets()) == int(np.isfinite(graph.lengths_km).sum())


def test_the_report_shows_the_delays_of_a_directed_graph(data: ReportData) -> None:
    graph = lagged(11, 31)
    pictures = {picture.name: picture for picture in graph_pictures(graph)}
    names = ["10-dependency-map", "09-dependency-matrix", "11-degrees", "11-delays"]
    assert list(pictures) == names
    assert "arrows lead from source to target" in pictures["10-dependency-map"].text
    assert pictures["11-delays"].text.startswith("From the past of a source to its target: 1 step")
    assert data.graph is not None
    assert "help to forecast each other" in location_section(data).text
    directed = replace(data)  # the graph of its run, with delays
    delays = np.ones(len(data.graph), dtype=np.int64)
    directed.__dict__["graph"] = replace(data.graph, delays=delays)
    section = location_section(directed)
    assert "(sources) helps to forecast which others" in section.text
    assert " pairs, " in section.facts["Selection of the graph"]["result"]


def test_of_many_arrows_the_strongest_are_on_the_map() -> None:
    graph = lagged(29, 211)
    assert len(graph.links) > 60
    axes = draw_map(graph).axes[0]
    assert len(axes.patches) == 60
    assert describe_graph(graph)["map"].endswith("; the 60 strongest are drawn")
    first, *_ = graph_pictures(graph)
    assert first.text.startswith(f"The 60 strongest of {len(graph.links)} dependencies; arrows")


# ---------------------------------------------------------- what the past of others is worth

HOURS, WORTH = Clock("UTC"), (
    Worth(step=1, own=1.0, factors=0.96, edges=0.93),
    Worth(step=3, own=1.0, factors=0.97, edges=0.95),
)  # fmt: skip
RECORD = LaggedRecord(
    max_delay=6, factors=4, penalty=0.0181, gap=2.6e-6, p_value=4e-7, blocks=20,
    path=tuple(PathStep(penalty=p, score=0.1, edges=7, converged=True) for p in (0.1, 0.0181)),
    worth=WORTH,
)  # fmt: skip
NONE_HELPS = RECORD.model_copy(
    update={
        "penalty": None, "gap": None, "p_value": 0.31,
        "worth": tuple(step.model_copy(update={"edges": step.factors}) for step in WORTH),
    }
)  # fmt: skip


def about_lagged(record: LaggedRecord) -> About:
    return About(kind="lagged", steps=7_127, chosen_by="held-out weeks", lagged=record)


def test_what_factors_and_edges_are_worth_is_told_in_the_panels_steps() -> None:
    text = "+1 hour: factors −4.0 %, edges a further −3.1 %; +3 hours: factors −3.0 %, edges a"
    assert describe_worth(WORTH, HOURS) == f"{text} further −2.1 %"
    assert describe_worth(WORTH[1:]).startswith("+3 steps: factors")
    assert describe_worth(WORTH[1:], Clock("UTC", 15)).startswith("+45 min: factors")
    assert describe_worth(NONE_HELPS.worth[:1], HOURS) == "+1 hour: factors −4.0 %, no edges"
    nothing = Worth(step=1, own=0.9, factors=0.9, edges=0.9)
    assert describe_worth([nothing], HOURS) == "+1 hour: no factors, no edges"
    worse = Worth(step=1, own=1.0, factors=1.0, edges=1.02)
    assert describe_worth([worse], HOURS) == "+1 hour: no factors, edges a further +2.0 %"


def test_how_lagged_edges_were_chosen_is_told_by_topic() -> None:
    assert describe_selection(about_lagged(RECORD), HOURS) == {
        "kind": "lagged",
        "learned from": "7,127 training steps, deviations from what is usual",
        "factors of the city": "4, at lags of up to 6 hours",
        "penalty λ": "0.0181, of 2 tried",
        "held-out weeks": "edges help (p < 0.001, 20 blocks of days)",
        "certificate": "duality gap at most 3e-06 of a variance",
        "out of sample": describe_worth(WORTH, HOURS),
    }
    given = about_lagged(RECORD).model_copy(update={"chosen_by": "given", "degree": 2.5})
    assert describe_selection(given)["penalty λ"] == "0.0181, given, for an average degree of 2.5"
    all_factors = about_lagged(RECORD.model_copy(update={"factors": 8}))
    most = "8, the most that are tried, at lags of up to 6 hours"
    assert describe_selection(all_factors, HOURS)["factors of the city"] == most


def test_of_no_edges_it_is_told_that_none_helps_and_what_follows() -> None:
    lines = describe_selection(about_lagged(NONE_HELPS), HOURS)
    assert lines["penalty λ"] == "none of 2 tried helps"
    assert lines["held-out weeks"] == (
        "edges help no more than chance (p = 0.31, 20 blocks of days)"
    )
    assert "certificate" not in lines
    assert "could not be told from chance" in explain_no_edges(NONE_HELPS)
    assert "; the preset best needs no edges: " in explain_no_edges(NONE_HELPS)
    few = NONE_HELPS.model_copy(update={"blocks": 3})
    assert explain_no_edges(few).endswith("; learn the graph again when there are more weeks")
    assert explain_no_edges(RECORD).startswith("give a smaller penalty")


def test_worth_is_drawn_from_own_past_to_edges() -> None:
    axes = draw_worth(WORTH, HOURS).axes[0]
    marks = {line.get_label(): line.get_xdata() for line in axes.get_lines()[1:]}
    assert marks["own past alone"].tolist() == [0, 0]
    assert marks["with factors of the city"] == pytest.approx([-4, -3])
    assert marks["with edges too"] == pytest.approx([-7, -5])
    assert [text.get_text() for text in axes.texts] == ["−7.0 %", "−5.0 %"]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "1 hour ahead",
        "3 hours ahead",
    ]


def test_factors_and_edges_that_there_are_not_have_no_mark() -> None:
    labels = [line.get_label() for line in draw_worth(NONE_HELPS.worth).axes[0].get_lines()[1:]]
    assert labels == ["own past alone", "with factors of the city"]
    nothing = Worth(step=1, own=0.9, factors=0.9, edges=0.9)
    axes = draw_worth([nothing]).axes[0]
    assert [line.get_label() for line in axes.get_lines()[1:]] == ["own past alone"]
    assert [text.get_text() for text in axes.texts] == ["±0.0 %"]


@pytest.mark.parametrize("edges", [0, 31])
def test_worth_is_among_the_pictures_of_a_lagged_graph(data: ReportData, edges: int) -> None:
    record = RECORD if edges else NONE_HELPS
    graph = replace(lagged(11, edges), about=about_lagged(record))
    assert draw_graph(graph, HOURS)["worth"].startswith(b"\x89PNG")
    pictures = {picture.name: picture for picture in graph_pictures(graph, HOURS)}
    assert describe_worth(record.worth, HOURS) in pictures["11-worth"].text
    assert pictures["10-dependency-map"].text.startswith("All" if edges else "No dependencies")
    directed = replace(data)
    directed.__dict__["graph"] = graph
    facts = location_section(directed).facts["Selection of the graph"]
    assert facts["out of sample"].startswith("+1 hour: factors")


def test_without_whole_held_out_weeks_there_is_no_worth_to_draw() -> None:
    graph = replace(lagged(11, 31), about=about_lagged(RECORD.model_copy(update={"worth": ()})))
    assert "worth" not in draw_graph(graph)
    assert "out of sample" not in describe_selection(graph.about)
