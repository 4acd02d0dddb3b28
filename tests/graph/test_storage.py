import hashlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import GraphConfig
from forecaster.errors import ArtifactError
from forecaster.graph.alternatives import complete, random_edges
from forecaster.graph.dependency import About, DependencyGraph, InverseComparison, PathStep
from forecaster.graph.storage import FORMAT, UNDIRECTED_FORMAT, open_graph, save_graph
from forecaster.panel import parquet
from forecaster.panel.panel import Panel
from forecaster.panel.parts import RESERVED, Locations
from forecaster.publish.manifest import MANIFEST, Stored, file_path, read_manifest
from forecaster.recipe import Recipe, read_recipe
from tests.graph import directed
from tests.graph.directed import directed_graphs

ABOUT = About(
    kind="lasso",
    subtracted="hour_of_week",
    penalty=0.02,
    chosen_by="likelihood",
    path=(PathStep(penalty=0.2, score=-0.51, edges=3, converged=True),),
    threshold=0.1,
    gap=3e-5,
    iterations=7,
    converged=True,
    steps=1_009,
    hours=(("2015-03-01T05:00:00Z", "2015-04-01T05:00:00Z"),),
    panel="0" * 64,
    beside=InverseComparison(edges=5, average_degree=1.4, overlap=0.75),
    notes=("N = 7 locations > M = 5 steps",),
)
NAMES = ("Seventh Avenue", "<b>James</b>", "=cmd()", "köln", "e", "$f$", "g")


@pytest.fixture
def graph() -> DependencyGraph:
    """Return seven locations, one of them nowhere, and five signed edges."""
    lat = np.array([40.7, 40.71, 40.72, np.nan, 40.74, 40.75, 40.76])
    places = Locations(("7", "007", "c", "d", "e", "f", "g"), NAMES, lat, -lat)
    pairs = np.array([[0, 1], [0, 6], [1, 2], [2, 5], [3, 4]])
    return DependencyGraph(places, pairs, np.array([0.5, -0.25, 1 / 3, 1.0, -1e-9]), ABOUT)


def same(one: DependencyGraph, other: DependencyGraph) -> bool:
    parts = [(g.pairs.tobytes(), g.strengths.tobytes(), g.about, g.digest) for g in (one, other)]
    places = [(g.locations.ids, g.locations.names) for g in (one, other)]
    where = [np.stack([g.locations.lat, g.locations.lon]) for g in (one, other)]
    there = np.array_equal(where[0], where[1], equal_nan=True)
    return parts[0] == parts[1] and places[0] == places[1] and there


def test_a_graph_comes_back_as_it_was(graph: DependencyGraph, tmp_path: Path) -> None:
    saved = save_graph(graph, tmp_path / "graph")
    opened = open_graph(tmp_path / "graph")
    assert saved.digest == read_manifest(tmp_path / "graph").digest
    assert same(saved, opened)
    assert replace(opened, digest=None).about == graph.about


@given(directed_graphs())
def test_any_directed_graph_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, graph: DependencyGraph
) -> None:
    folder = tmp_path_factory.getbasetemp() / "directed"
    saved = save_graph(graph, folder)
    opened = open_graph(folder)
    assert directed.same(opened, graph)
    assert opened.digest == saved.digest


@pytest.fixture
def lagged(graph: DependencyGraph) -> DependencyGraph:
    """Return the same locations with edges both ways, one of them with two delays."""
    pairs = np.array([[0, 6], [2, 5], [2, 5], [6, 0]])
    strengths, delays = np.array([-0.25, 0.3, 1.0, 0.5]), np.array([2, 1, 24, 1])
    return replace(graph, pairs=pairs, strengths=strengths, delays=delays)


def test_a_directed_graph_has_a_column_of_delays(lagged: DependencyGraph, tmp_path: Path) -> None:
    save_graph(lagged, tmp_path / "graph")
    manifest = read_manifest(tmp_path / "graph", kind="graph")
    edges = pq.read_table(file_path(tmp_path / "graph", manifest, "edges.parquet"))
    assert edges.to_pylist()[0] == {"source": "7", "target": "g", "strength": -0.25, "delay": 2}
    assert edges.schema.field("delay").type == pa.int64()
    assert manifest.about["edges"] == 4


def test_programs_that_know_no_delays_refuse_a_directed_graph_alone(
    graph: DependencyGraph, lagged: DependencyGraph, tmp_path: Path
) -> None:
    save_graph(graph, tmp_path / "graph")
    save_graph(lagged, tmp_path / "lagged")
    manifest = read_manifest(tmp_path / "graph", reads=UNDIRECTED_FORMAT)
    assert manifest.version == UNDIRECTED_FORMAT
    schema = pq.read_schema(file_path(tmp_path / "graph", manifest, "edges.parquet"))
    assert schema.names == ["source", "target", "strength"]
    with pytest.raises(ArtifactError, match=r"format 2; this program reads ≤ 1: upgrade"):
        read_manifest(tmp_path / "lagged", reads=UNDIRECTED_FORMAT)


def test_the_files_are_plain_parquet(graph: DependencyGraph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path / "graph")
    manifest = read_manifest(tmp_path / "graph", kind="graph")
    edges = pq.read_table(file_path(tmp_path / "graph", manifest, "edges.parquet"))
    assert edges.to_pylist()[1] == {"source": "7", "target": "g", "strength": -0.25}
    places = pq.read_table(file_path(tmp_path / "graph", manifest, "locations.parquet"))
    assert places.column_names == ["id", "name", "lat", "lon", "degree"]
    assert places["degree"].to_pylist() == graph.degrees.tolist()
    assert places["lat"].null_count == 1
    assert manifest.parents == {"panel": "0" * 64}
    assert manifest.about["location_hash"] == graph.location_digest


def test_the_recipe_lies_beside_the_graph(graph: DependencyGraph, tmp_path: Path) -> None:
    recipe = Recipe(graph=GraphConfig(degree=2.5))
    save_graph(graph, tmp_path / "graph", recipe)
    manifest = read_manifest(tmp_path / "graph")
    assert manifest.recipe == recipe.digest()
    assert read_recipe(file_path(tmp_path / "graph", manifest, "recipe.toml")) == recipe
    open_graph(tmp_path / "graph")


@pytest.mark.parametrize("count", [1, 2, 101])
def test_graphs_without_and_with_all_edges_come_back(count: int, tmp_path: Path) -> None:
    places = Locations.of_ids(f"p{n}" for n in range(count))
    for edges in (complete(count), random_edges(count, 0, np.random.default_rng(0))):
        save_graph(DependencyGraph(places, *edges, About(kind="given")), tmp_path / "graph")
        assert np.array_equal(open_graph(tmp_path / "graph").pairs, edges.pairs)


@given(
    st.lists(
        st.text(min_size=1, max_size=5).filter(
            lambda t: t.strip() == t and t.isprintable() and t not in RESERVED
        ),
        min_size=2,
        max_size=5,
        unique=True,
    )
)
def test_I23_any_name_comes_back_from_a_graphs_files(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "names"
    places = Locations.of_ids(names)
    pairs = np.array([[0, len(names) - 1]])
    save_graph(DependencyGraph(places, pairs, np.ones(1), About(kind="given")), folder)
    assert open_graph(folder).locations.ids == tuple(names)


def test_S1_any_damage_to_a_graph_is_found(
    graph: DependencyGraph, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    folder = tmp_path / "graph"
    save_graph(graph, folder)
    originals = {path: path.read_bytes() for path in folder.iterdir()}
    generator = np.random.default_rng(1)
    for _ in range(rounds(60, 1_000)):
        path = sorted(originals)[generator.integers(len(originals))]
        content = bytearray(originals[path])
        content[generator.integers(len(content))] ^= int(generator.integers(1, 256))
        path.write_bytes(content)
        with pytest.raises(ArtifactError):
            open_graph(folder)
        path.write_bytes(originals[path])
    open_graph(folder)


def test_a_panel_is_no_graph(
    graph: DependencyGraph, tmp_path: Path, panel_of: Callable[..., Panel]
) -> None:
    panel_of(np.zeros((5, 3))).save(tmp_path / "panel")
    with pytest.raises(ArtifactError, match="a panel, not a graph"):
        open_graph(tmp_path / "panel")
    with pytest.raises(ArtifactError, match="contains a panel, not a graph"):
        save_graph(graph, tmp_path / "panel")


def test_a_graph_of_a_newer_format_is_refused(graph: DependencyGraph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path)
    manifest = replace(read_manifest(tmp_path), version=FORMAT + 1)
    (tmp_path / MANIFEST).write_bytes(manifest.to_bytes())
    with pytest.raises(
        ArtifactError, match=rf"format {FORMAT + 1}; this program reads ≤ {FORMAT}"
    ):
        open_graph(tmp_path)


# ------------------------------------------------------------------------------- hostile files


def forge(folder: Path, tables: dict[str, pa.Table], **about: Any) -> None:
    """Publish other tables or another description, with hashes and checksum that fit."""
    manifest = read_manifest(folder)
    files = dict(manifest.files)
    for name, table in tables.items():
        sink = io.BytesIO()
        pq.write_table(table, sink)
        content = sink.getvalue()
        sha256 = hashlib.sha256(content).hexdigest()
        files[f"{name}.parquet"] = Stored(f"{name}-{sha256[:12]}.parquet", len(content), sha256)
        (folder / f"{name}-{sha256[:12]}.parquet").write_bytes(content)
    forged = replace(manifest, files=files, about={**manifest.about, **about})
    (folder / MANIFEST).write_bytes(forged.to_bytes())


def edges_of(*rows: tuple[Any, Any, Any]) -> pa.Table:
    source, target, strength = zip(*rows, strict=True)
    schema = [("source", pa.string()), ("target", pa.string()), ("strength", pa.float64())]
    return pa.table([source, target, strength], schema=pa.schema(schema))


RIGHT = [("7", "007", 0.5), ("7", "g", -0.25), ("007", "c", 0.3), ("c", "f", 1.0), ("d", "e", 0.1)]


SINGLE = pa.schema([*list(edges_of(*RIGHT).schema)[:2], ("strength", pa.float32())])


def test_a_forged_graph_opens_unless_something_is_wrong_with_it(
    graph: DependencyGraph, tmp_path: Path
) -> None:
    save_graph(graph, tmp_path)
    forge(tmp_path, {"edges": edges_of(*RIGHT)})
    assert open_graph(tmp_path).strengths.tolist() == [0.5, -0.25, 0.3, 1.0, 0.1]


@pytest.mark.parametrize(
    "edges",
    [
        edges_of(*RIGHT[:4], ("d", "x", 0.1)),
        edges_of(*RIGHT[:4], ("d", None, 0.1)),
        edges_of(*RIGHT[:4], ("d", "e", None)),
        edges_of(*RIGHT[:4], ("d", "e", float("nan"))),
        edges_of(*RIGHT[:4], ("e", "d", 0.1)),
        edges_of(*RIGHT[:4], RIGHT[3]),
        edges_of(*RIGHT[:4], ("d", "f", 0.1)),  # not its degrees
        edges_of(*RIGHT[::-1]),
        edges_of(*RIGHT[:4]),
        edges_of(*RIGHT).append_column("more", pa.array([1] * 5)),
        edges_of(*RIGHT).rename_columns(["source", "target", "weight"]),
        edges_of(*RIGHT).cast(SINGLE),
        edges_of(*(("x" * 10_000_000, "y", 0.1) for _ in range(5))),  # a bomb of one long text
    ],
    ids=["unknown", "null", "no strength", "nan", "backwards", "doubled", "degrees", "unsorted",
         "too few", "more columns", "renamed", "single precision", "long"],
)  # fmt: skip
def test_edges_that_we_did_not_write_are_refused(
    edges: pa.Table, graph: DependencyGraph, tmp_path: Path
) -> None:
    save_graph(graph, tmp_path)
    forge(tmp_path, {"edges": edges})
    with pytest.raises(ArtifactError, match=r"not a forecaster graph|its manifest says"):
        open_graph(tmp_path)


@pytest.mark.parametrize(
    "about",
    [
        {"edges": 10**12},
        {"edges": "5"},
        {"edges": None},
        {"locations": 8},
        {"location_hash": "0" * 64},
        {"learned": {}},
        {"learned": None},
        {"learned": {"kind": "lasso", "path": [{"penalty": "x"}]}},
        {"learned": {"kind": "lasso", "surprise": 1}},
        {"learned": {"kind": "lasso", "hours": [["then", "now"]]}},
    ],
)
def test_a_manifest_that_we_did_not_write_is_refused(
    about: dict[str, Any], graph: DependencyGraph, tmp_path: Path
) -> None:
    save_graph(graph, tmp_path)
    forge(tmp_path, {}, **about)
    with pytest.raises(ArtifactError, match=r"not a forecaster graph|its manifest says"):
        open_graph(tmp_path)


def delayed(*rows: tuple[str, str, float, int | None]) -> pa.Table:
    schema = pa.schema([*edges_of(*RIGHT).schema, ("delay", pa.int64())])
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema)


LAGGED = [("7", "g", -0.25, 2), ("c", "f", 0.3, 1), ("c", "f", 1.0, 24), ("g", "7", 0.5, 1)]


@pytest.mark.parametrize(
    "edges",
    [
        delayed(*LAGGED[:3], ("g", "7", 0.5, None)),
        delayed(*LAGGED[:3], ("g", "7", 0.5, 0)),
        delayed(*LAGGED[:3], ("g", "7", 0.5, -1)),
        delayed(*LAGGED[:3], ("g", "g", 0.5, 1)),
        delayed(*LAGGED[:3], ("g", "c", 0.5, 1)),  # not its degrees
        delayed(LAGGED[0], LAGGED[2], LAGGED[1], LAGGED[3]),
        delayed(LAGGED[0], LAGGED[1], LAGGED[1], LAGGED[3]),
        delayed(*LAGGED[::-1]),
        delayed(*LAGGED).drop_columns("delay"),
        delayed(*LAGGED).set_column(3, "delay", pa.array([2.0, 1.0, 24.0, 1.0])),
        delayed(*LAGGED).set_column(3, "delay", pa.array([2, 1, 24, 1], pa.int32())),
        delayed(*LAGGED).rename_columns(["source", "target", "strength", "lag"]),
    ],
    ids=["null", "zero", "negative", "loop", "degrees", "unsorted delays", "doubled", "unsorted",
         "no delays", "float", "single precision", "renamed"],
)  # fmt: skip
def test_delays_that_we_did_not_write_are_refused(
    edges: pa.Table, lagged: DependencyGraph, tmp_path: Path
) -> None:
    save_graph(lagged, tmp_path)
    forge(tmp_path, {"edges": delayed(*LAGGED)})
    assert directed.same(open_graph(tmp_path), lagged)
    forge(tmp_path, {"edges": edges})
    with pytest.raises(ArtifactError, match="not a forecaster graph"):
        open_graph(tmp_path)


def test_delays_of_an_undirected_graph_are_refused(graph: DependencyGraph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path)
    forge(tmp_path, {"edges": delayed(*((*edge, 1) for edge in RIGHT))})
    with pytest.raises(ArtifactError, match="unexpected columns"):
        open_graph(tmp_path)


def test_more_rows_than_a_small_file_can_hold_are_refused(
    graph: DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_graph(graph, tmp_path)
    monkeypatch.setattr(parquet, "SMALL_BYTES", 1 << 20)
    monkeypatch.setattr(parquet, "MAX_EXPANSION", 1_000)
    count = 500_000  # 6 MB in memory at least, 2 kB on disk
    forge(tmp_path, {"edges": edges_of(*[("7", "g", 0.5)] * count)}, edges=count)
    with pytest.raises(ArtifactError, match="too large"):
        open_graph(tmp_path)
