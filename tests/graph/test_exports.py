import csv
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError, DataError
from forecaster.graph.dependency import About, DependencyGraph
from forecaster.graph.exports import export_graph, to_geojson, to_graphml, to_table
from forecaster.panel.parts import Locations
from tests.graph.directed import directed_graphs, same

SPACE = "{http://graphml.graphdrawing.org/xmlns}"
NAMES = ("<b>&\"'</b>]]>", "=cmd()", "köln", "x\ufffey", "e")


def graph_of(names: tuple[str, ...] = NAMES, *, placed: bool = True) -> DependencyGraph:
    lat = np.array([40.7, 40.8, np.nan, 40.9, 41.0]) if placed else np.full(5, np.nan)
    places = Locations(("a", "007", "c", "d", "e"), names, lat, -lat)
    pairs = np.array([[0, 1], [1, 2], [3, 4]])
    return DependencyGraph(places, pairs, np.array([0.5, -1 / 3, 0.125]), About(kind="given"))


def nodes_of(content: bytes) -> list[dict[str | None, str | None]]:
    root = ET.fromstring(content)  # noqa: S314 (our own)
    return [{d.get("key"): d.text for d in node} for node in root.iter(f"{SPACE}node")]


def test_graphml_holds_every_node_and_edge(tmp_path: Path) -> None:
    export_graph(graph_of(), tmp_path / "graph.graphml")
    content = (tmp_path / "graph.graphml").read_bytes()
    root = ET.fromstring(content)  # noqa: S314 (our own)
    edges = [
        (e.get("source"), e.get("target"), *(float(d.text or "") for d in e))
        for e in root.iter(f"{SPACE}edge")
    ]
    assert edges == [
        ("n0", "n1", 0.5, pytest.approx(13.96, abs=0.1)),
        ("n1", "n2", -1 / 3),  # to a place nobody knows
        ("n3", "n4", 0.125, pytest.approx(13.94, abs=0.1)),
    ]
    assert nodes_of(content)[2] == {"node_id": "c", "node_name": "köln", "node_degree": "1"}
    assert [node["node_id"] for node in nodes_of(content)] == ["a", "007", "c", "d", "e"]


def test_names_stay_text_in_graphml() -> None:
    names = [node["node_name"] for node in nodes_of(to_graphml(graph_of()))]
    assert names == ["<b>&\"'</b>]]>", "=cmd()", "köln", "x\ufffdy", "e"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=7))
def test_any_name_gives_xml_that_can_be_read(name: str) -> None:
    (first, *_) = nodes_of(to_graphml(graph_of((name, "b", "c", "d", "e"))))
    assert len(first["node_name"] or "") == len(name)


def test_geojson_has_points_and_lines(tmp_path: Path) -> None:
    export_graph(graph_of(), tmp_path / "graph.geojson")
    features = json.loads((tmp_path / "graph.geojson").read_text())["features"]
    assert [f["geometry"] and f["geometry"]["type"] for f in features] == [
        "Point", "Point", None, "Point", "Point", "LineString", None, "LineString",
    ]  # fmt: skip
    assert features[0]["geometry"]["coordinates"] == [-40.7, 40.7]  # longitude first
    assert features[5]["geometry"]["coordinates"] == [[-40.7, 40.7], [-40.8, 40.8]]
    assert features[5]["properties"]["strength"] == 0.5
    assert features[6]["properties"] == {
        "source": "007", "target": "c", "strength": -1 / 3, "distance_km": None,
    }  # fmt: skip


def test_geojson_without_any_coordinates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no location has coordinates"):
        export_graph(graph_of(placed=False), tmp_path / "graph.geojson")
    assert not list(tmp_path.iterdir())


def test_the_long_table_can_be_read_back(tmp_path: Path) -> None:
    graph = graph_of()
    for suffix in ("csv", "parquet"):
        export_graph(graph, tmp_path / f"graph.{suffix}")
        again = DependencyGraph.from_edges(tmp_path / f"graph.{suffix}", graph.locations)
        assert np.array_equal(again.pairs, graph.pairs)
        assert again.strengths.tobytes() == graph.strengths.tobytes()
    with (tmp_path / "graph.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["source", "target", "strength", "distance_km"]
    assert rows[1]["distance_km"] == ""
    assert pq.read_table(tmp_path / "graph.parquet")["distance_km"].null_count == 1


def test_a_graph_without_edges_can_be_exported(tmp_path: Path) -> None:
    graph = DependencyGraph.from_edges([], graph_of().locations)
    for suffix in ("graphml", "geojson", "csv", "parquet"):
        export_graph(graph, tmp_path / f"graph.{suffix}")
    assert len(DependencyGraph.from_edges(tmp_path / "graph.csv", graph.locations)) == 0


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"graph\.gexf: a graph is exported as \.graphml, "):
        export_graph(graph_of(), tmp_path / "graph.gexf")


# ------------------------------------------------------------------------------- directed graphs


def lagged() -> DependencyGraph:
    """Return a graph with an edge of two delays, and an edge back."""
    edges = [("a", "007", 0.5, 2), ("a", "007", 0.25, 24), ("007", "a", -1 / 3, 1)]
    return DependencyGraph.from_edges(edges, graph_of().locations)


def test_graphml_of_a_directed_graph_says_so_and_has_delays() -> None:
    root = ET.fromstring(to_graphml(lagged()))  # noqa: S314 (our own)
    (body,) = root.iter(f"{SPACE}graph")
    assert body.get("edgedefault") == "directed"
    keys = {key.get("id"): key.get("attr.type") for key in root.iter(f"{SPACE}key")}
    assert keys["edge_delay"] == "int"
    edges = [
        (e.get("source"), e.get("target"), {d.get("key"): d.text for d in e}["edge_delay"])
        for e in root.iter(f"{SPACE}edge")
    ]
    assert edges == [("n0", "n1", "2"), ("n0", "n1", "24"), ("n1", "n0", "1")]


def test_geojson_lines_lead_from_source_to_target() -> None:
    features = json.loads(to_geojson(lagged()))["features"]
    back = features[-1]
    assert back["geometry"]["coordinates"] == [[-40.8, 40.8], [-40.7, 40.7]]
    properties = {name: back["properties"][name] for name in ("source", "target", "delay")}
    assert properties == {"source": "007", "target": "a", "delay": 1}


def test_exports_of_an_undirected_graph_have_no_delays(tmp_path: Path) -> None:
    for suffix in ("graphml", "geojson", "csv", "parquet"):
        export_graph(graph_of(), tmp_path / f"graph.{suffix}")
        content = (tmp_path / f"graph.{suffix}").read_bytes()
        assert b"delay" not in content
        assert b'"directed"' not in content


def test_the_long_table_of_a_directed_graph_has_a_column_of_delays() -> None:
    table = to_table(lagged())
    assert table.column_names == ["source", "target", "strength", "delay", "distance_km"]
    assert table["delay"].to_pylist() == [2, 24, 1]


@given(directed_graphs(), st.sampled_from(["csv", "parquet"]))
def test_any_directed_graph_can_be_read_back_from_its_table(
    tmp_path_factory: pytest.TempPathFactory, graph: DependencyGraph, suffix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"directed.{suffix}"
    export_graph(graph, path)
    assert same(DependencyGraph.from_edges(path, graph.locations), graph)
