from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from forecaster.errors import ArtifactError, DataError
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.splits import Splits
from tests.graph.directed import directed_graphs

MakePanel = Callable[..., Panel]
GIVEN = About(kind="given")
PLACES = Locations.of_ids(("a", "b", "c", "007", "e", "7", "g"))
EDGES = [("a", "b", 0.5), ("007", "a", -0.25), ("b", "7", 0.125), ("c", "e", 1.0)]
PAIRS = [[0, 1], [0, 3], [1, 5], [2, 4]]


def graph_of(pairs: list[list[int]], strengths: list[float], count: int = 7) -> DependencyGraph:
    places = Locations.of_ids(f"p{n}" for n in range(count))
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return DependencyGraph(places, edges, np.array(strengths), GIVEN)


def directed(
    edges: list[tuple[int, int, int]], strengths: list[float], count: int = 7
) -> DependencyGraph:
    """Return a graph of edges that are given as source, target and delay."""
    rows = np.array(edges, dtype=np.int64).reshape(-1, 3)
    places = Locations.of_ids(f"p{n}" for n in range(count))
    return DependencyGraph(places, rows[:, :2], np.array(strengths), GIVEN, delays=rows[:, 2])


BOTH_WAYS = [(0, 2, 1), (0, 2, 3), (2, 0, 1), (2, 5, 2), (4, 5, 1)]


def test_a_graph_knows_its_degrees_and_hubs() -> None:
    graph = graph_of([[0, 2], [1, 2], [2, 5], [3, 4]], [0.5, -0.5, 0.25, 0.125])
    assert graph.degrees.tolist() == [1, 1, 3, 1, 1, 1, 0]
    assert graph.average_degree == 8 / 7
    assert graph.hubs(2) == [("p2", 3), ("p0", 1)]
    assert graph_of([], []).hubs() == []


def test_a_graph_introduces_itself_in_one_line() -> None:
    graph = graph_of([[0, 2], [1, 2], [2, 5]], [0.5, -0.5, 0.25])
    assert repr(graph) == "DependencyGraph(given, 7 locations, 3 edges, average degree 0.857)"


def test_a_directed_graph_says_so() -> None:
    graph = directed(BOTH_WAYS, [1.0] * 5)
    assert repr(graph).endswith("(given, 7 locations, 5 directed edges, average degree 0.571)")
    assert graph.is_directed
    assert not graph_of([[0, 2]], [1.0]).is_directed


def test_hubs_of_a_directed_graph_tell_about_most_others() -> None:
    graph = directed(BOTH_WAYS, [1.0] * 5)
    assert graph.links.tolist() == [[0, 2], [2, 0], [2, 5], [4, 5]]
    assert graph.degrees.tolist() == [1, 0, 1, 0, 0, 2, 0]  # edges into a location
    assert graph.out_degrees.tolist() == [1, 0, 2, 0, 1, 0, 0]
    assert graph.hubs(2) == [("p2", 2), ("p0", 1)]
    assert graph.average_degree == 4 / 7


def test_in_an_undirected_graph_edges_lead_both_ways() -> None:
    graph = graph_of([[0, 2], [1, 2]], [0.5, -0.5])
    assert graph.out_degrees.tolist() == graph.degrees.tolist() == [1, 1, 2, 0, 0, 0, 0]
    assert graph.link_strengths.tolist() == [0.5, -0.5]


def test_components_of_a_directed_graph_ignore_the_directions() -> None:
    assert directed(BOTH_WAYS, [1.0] * 5).components.tolist() == [0, 1, 0, 2, 0, 0, 3]


def test_a_graph_knows_its_components_largest_first() -> None:
    graph = graph_of([[0, 6], [1, 2], [2, 5]], [1.0, 1.0, 1.0])
    assert graph.components.tolist() == [1, 0, 0, 2, 3, 0, 1]
    assert graph_of([], []).components.tolist() == list(range(7))


def test_the_matrix_has_both_ways_of_an_edge() -> None:
    matrix = graph_of([[0, 2], [1, 2]], [0.5, -0.25], count=3).matrix()
    assert matrix.tolist() == [[0, 0, 0.5], [0, 0, -0.25], [0.5, -0.25, 0]]


def test_the_matrix_of_a_directed_graph_has_sources_as_rows() -> None:
    matrix = directed([(0, 2, 1), (0, 2, 3), (1, 2, 1)], [0.25, -0.5, 0.75], count=3).matrix()
    assert matrix.tolist() == [[0, 0, -0.5], [0, 0, 0.75], [0, 0, 0]]  # −0.5: the largest size


def test_of_equal_sizes_the_shorter_delay_counts() -> None:
    graph = directed([(0, 2, 1), (0, 2, 3)], [-0.5, 0.5])
    assert graph.link_strengths.tolist() == [-0.5]


@given(directed_graphs())
def test_the_matrix_of_any_directed_graph_has_the_strongest_edge(graph: DependencyGraph) -> None:
    expected = np.zeros((7, 7))
    for (source, target), strength in zip(graph.pairs, graph.strengths, strict=True):
        if abs(strength) > abs(expected[source, target]):
            expected[source, target] = strength
    assert np.array_equal(graph.matrix(), expected)
    assert not directed([], []).matrix().any()


def test_the_overlap_of_directed_graphs_is_that_of_their_links() -> None:
    one = directed(BOTH_WAYS, [1.0] * 5)
    other = directed([(0, 2, 2), (5, 4, 1)], [0.1] * 2)  # another delay, another direction
    assert one.overlap(other) == other.overlap(one) == 1 / 5
    assert directed([], []).overlap(directed([], [])) == 1.0


def test_a_directed_graph_is_compared_with_an_undirected_one_by_pairs() -> None:
    one, other = directed(BOTH_WAYS, [1.0] * 5), graph_of([[0, 2], [3, 5], [4, 5]], [1.0] * 3)
    assert one.overlap(other) == other.overlap(one) == 2 / 4  # of 0–2, 2–5, 3–5 and 4–5


def test_the_overlap_of_graphs_is_shared_edges_over_all() -> None:
    one, other = (
        graph_of([[0, 1], [1, 2], [3, 4]], [1.0] * 3),
        graph_of([[1, 2], [3, 5]], [0.1] * 2),
    )
    assert one.overlap(other) == other.overlap(one) == 1 / 4
    assert graph_of([], []).overlap(graph_of([], [])) == 1.0
    with pytest.raises(ArtifactError, match="different locations"):
        one.overlap(graph_of([], [], count=5))


@pytest.mark.parametrize(
    ("pairs", "strengths"),
    [
        ([[0, 7]], [1.0]),
        ([[-1, 2]], [1.0]),
        ([[3, 1]], [1.0]),
        ([[3, 3]], [1.0]),
        ([[0, 1], [0, 1]], [1.0, 1.0]),
        ([[1, 2], [0, 5]], [1.0, 1.0]),
        ([[0, 1]], [np.nan]),
        ([[0, 1]], [np.inf]),
    ],
)
def test_edges_that_are_none_are_refused(pairs: list[list[int]], strengths: list[float]) -> None:
    with pytest.raises(DataError, match="graph: "):
        graph_of(pairs, strengths)


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 7, 1)],
        [(3, 3, 1)],
        [(0, 1, 0)],
        [(0, 1, -2)],
        [(0, 1, 2), (0, 1, 2)],
        [(0, 1, 2), (0, 1, 1)],
        [(1, 0, 1), (0, 1, 1)],
    ],
)
def test_directed_edges_that_are_none_are_refused(edges: list[tuple[int, int, int]]) -> None:
    with pytest.raises(DataError, match="graph: "):
        directed(edges, [1.0] * len(edges))


def test_a_graph_cannot_be_changed() -> None:
    graph = graph_of([[0, 1]], [0.5])
    with pytest.raises(ValueError, match="read-only"):
        graph.pairs[0, 0] = 3


def test_lengths_follow_the_earth_and_are_unknown_without_coordinates() -> None:
    lat, lon = np.array([40.7580, 40.7527, np.nan]), np.array([-73.9855, -73.9772, np.nan])
    places = Locations(("a", "b", "c"), ("Times Square", "Grand Central", "nowhere"), lat, lon)
    graph = DependencyGraph(places, np.array([[0, 1], [1, 2]]), np.ones(2), GIVEN)
    assert graph.lengths_km[0] == pytest.approx(0.914, abs=0.005)  # by a map's ruler
    assert np.isnan(graph.lengths_km[1])


# ------------------------------------------------------------------------ bring your own edges


def as_csv(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(folder / "edges.csv", index=False)
    return folder / "edges.csv"


def as_parquet(folder: Path, frame: pd.DataFrame) -> Path:
    frame.to_parquet(folder / "edges.parquet")
    return folder / "edges.parquet"


@pytest.mark.parametrize(
    "form",
    [
        lambda _, frame: frame,
        lambda _, frame: pa.Table.from_pandas(frame),
        as_csv,
        as_parquet,
        lambda *_: EDGES,
    ],
    ids=["pandas", "arrow", "csv", "parquet", "tuples"],
)
def test_edges_come_from_any_table(
    form: Callable[[Path, pd.DataFrame], object], tmp_path: Path
) -> None:
    frame = pd.DataFrame(EDGES, columns=["source", "target", "strength"])
    graph = DependencyGraph.from_edges(form(tmp_path, frame), PLACES)  # type: ignore[arg-type]
    assert graph.pairs.tolist() == PAIRS  # 007 is not 7
    assert graph.strengths.tolist() == [0.5, -0.25, 0.125, 1.0]
    assert graph.about.kind == "given"


def test_edges_without_strengths_have_strength_1() -> None:
    graph = DependencyGraph.from_edges([edge[:2] for edge in EDGES], PLACES)
    assert graph.strengths.tolist() == [1.0] * 4
    assert len(DependencyGraph.from_edges([], PLACES)) == 0


def test_an_edge_given_both_ways_is_one_edge() -> None:
    both = [*EDGES, *((b, a, strength) for a, b, strength in EDGES)]
    assert DependencyGraph.from_edges(both, PLACES).pairs.tolist() == PAIRS


def with_delays() -> pd.DataFrame:
    """Return edges both ways and with two delays, in any order."""
    rows = [
        ("b", "7", 0.125, 2), ("b", "7", -0.5, 1), ("7", "b", 0.25, 1), ("007", "a", 1.0, 24),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["source", "target", "strength", "delay"])


@pytest.mark.parametrize(
    "form",
    [
        lambda _, frame: frame,
        lambda _, frame: pa.Table.from_pandas(frame),
        as_csv,
        as_parquet,
        lambda _, frame: list(frame.itertuples(index=False, name=None)),
    ],
    ids=["pandas", "arrow", "csv", "parquet", "tuples"],
)
def test_edges_with_delays_make_a_directed_graph(
    form: Callable[[Path, pd.DataFrame], object], tmp_path: Path
) -> None:
    table = form(tmp_path, with_delays())
    graph = DependencyGraph.from_edges(table, PLACES)  # type: ignore[arg-type]
    assert graph.pairs.tolist() == [[1, 5], [1, 5], [3, 0], [5, 1]]
    assert graph.delays is not None
    assert graph.delays.tolist() == [1, 2, 24, 1]
    assert graph.strengths.tolist() == [-0.5, 0.125, 1.0, 0.25]


def test_edges_with_delays_alone_have_strength_1() -> None:
    graph = DependencyGraph.from_edges(with_delays().drop(columns="strength"), PLACES)
    assert graph.strengths.tolist() == [1.0] * 4
    assert graph.is_directed
    assert DependencyGraph.from_edges(with_delays()[:0], PLACES).is_directed


def test_a_directed_edge_given_twice_is_refused_with_its_rows() -> None:
    edges = [("a", "b", 0.5, 1), ("b", "a", 0.5, 1), ("a", "b", 0.5, 2), ("a", "b", 0.25, 1)]
    with pytest.raises(DataError) as caught:
        DependencyGraph.from_edges([*edges, ("c", "c", 0.5, 1)], PLACES)
    assert str(caught.value).splitlines()[1:] == [
        "  1 edge from a location to itself: row 5; remove them "
        "(every location depends on itself)",
        "  1 edge given twice: a → b after 1 step (row 1, row 4)",
    ]


def test_all_faults_of_delays_are_named_at_once() -> None:
    delays = [0, 1.5, None, float("nan"), -1, 1e300, 3]
    table = pa.table(
        {
            "source": ["x", *"abcabc"],
            "target": [*"bcabcag"],
            "delay": pa.array(delays, pa.float64(), from_pandas=False),
        }
    )
    with pytest.raises(DataError) as caught:
        DependencyGraph.from_edges(table, PLACES)
    assert str(caught.value).splitlines() == [
        "table: 4 faults",
        "  column 'source': 1 unknown id: x; the panel has a, b, c, 007, e, …",
        "  column 'delay': 1 value NaN (missing must be null): row 4 (nan)",
        "  1 edge without a delay: row 3",
        "  column 'delay': 4 values not whole steps: row 1 (0), row 2 (1.5), row 5 (-1), "
        "row 6 (1e+300); give the number of steps from source to target, at least 1",
    ]


def test_delays_that_are_words_are_refused() -> None:
    table = with_delays().assign(delay=["1", "2", "soon", "24"])
    with pytest.raises(DataError, match=r"'delay': 1 value not a number: row 3 \('soon'\)"):
        DependencyGraph.from_edges(table, PLACES)


def test_the_order_is_that_of_the_panel(panel_of: MakePanel) -> None:
    panel = panel_of(np.zeros((5, 3)))
    graph = DependencyGraph.from_edges([("p2", "p0")], panel)
    assert graph.pairs.tolist() == [[0, 2]]
    graph.match(panel)


def test_all_faults_of_a_table_are_named_at_once() -> None:
    table = pa.table(
        {
            "source": ["a", "x", None, "b"],
            "target": ["b", "c", "a", "y"],
            "strength": [0.5, np.inf, 0.25, np.nan],
        }
    )
    with pytest.raises(DataError) as caught:
        DependencyGraph.from_edges(table, PLACES)
    message = str(caught.value)
    assert message.startswith("table: 5 faults\n")
    for words in (
        "unknown id: x",
        "1 row without an id: row 3",
        "infinite",
        "NaN",
        "unknown id: y",
    ):
        assert words in message


def test_all_faults_of_edges_are_named_at_once() -> None:
    edges = [("a", "b", 0.5), ("a", "b", 0.5), ("c", "c", 0.1), ("e", "g", 0.3), ("g", "e", 0.4)]
    with pytest.raises(DataError) as caught:
        DependencyGraph.from_edges(edges, PLACES)
    assert str(caught.value).splitlines()[1:] == [
        "  1 edge from a location to itself: row 3; remove them "
        "(every location depends on itself)",
        "  1 edge given twice: a → b",
        "  1 edge with two strengths: e – g; the graph is undirected: give one strength",
    ]


def test_tuples_of_another_length_are_refused() -> None:
    with pytest.raises(DataError, match=r"each must be \(source, target\)"):
        DependencyGraph.from_edges([("a", "b"), ("a", "c", 0.5)], PLACES)
    with pytest.raises(DataError, match=r"found \('a',\)"):
        DependencyGraph.from_edges([("a",)], PLACES)


def test_strengths_that_are_not_known_are_refused() -> None:
    frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "strength": [0.5, None]})
    with pytest.raises(DataError, match="1 edge without a strength: row 2"):
        DependencyGraph.from_edges(frame, PLACES)


# --------------------------------------------------------------------------------- does it fit


def test_G8_a_panel_of_the_same_locations_fits(panel_of: MakePanel) -> None:
    graph, panel = graph_of([[0, 1]], [0.5], count=5), panel_of(np.zeros((3, 5)))
    graph.match(panel)  # raises where they differ, as below
    assert graph.locations.ids == panel.locations.ids


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (("p1", "p0", "p2", "p3", "p4"), "the order differs"),
        (("p0", "p1", "p2", "p3"), "the panel lacks p4"),
        (("p0", "p1", "p2", "p3", "P4"), "the panel lacks p4; the graph lacks P4"),
    ],
    ids=["permuted", "dropped", "renamed"],
)
def test_G8_a_panel_of_other_locations_or_order_is_refused(
    ids: tuple[str, ...], words: str, panel_of: MakePanel
) -> None:
    graph = graph_of([[0, 1]], [0.5], count=5)
    panel = panel_of(np.zeros((3, len(ids))), Locations.of_ids(ids))
    with pytest.raises(ArtifactError) as caught:
        graph.match(panel)
    message = str(caught.value)
    assert message.startswith(f"graph is for 5 locations (hash {graph.location_digest[:12]}), ")
    assert f"panel has {len(ids)} (hash " in message
    assert words in message
    assert caught.value.exit_code == 4


def test_G6_a_graph_that_saw_held_out_steps_is_refused(panel_of: MakePanel) -> None:
    panel = panel_of(np.zeros((100, 7)))
    stamps = [f"{time}Z" for time in panel.times]
    splits = Splits(
        train=[(stamps[0], stamps[59])],
        validation=[(stamps[60], stamps[79])],
        test=[(stamps[80], stamps[99])],
    )
    graph = graph_of([[0, 1]], [0.5])
    for first, last, seen in ((0, 59, 0), (10, 60, 1), (85, 99, 15), (0, 99, 40)):
        about = About(kind="lasso", hours=((stamps[first], stamps[last]),))
        learned = DependencyGraph(graph.locations, graph.pairs, graph.strengths, about)
        learned.match(panel)
        if seen:
            with pytest.raises(ArtifactError, match=f"learned from {seen} step"):
                learned.match(panel, splits)
        else:
            learned.match(panel, splits)
