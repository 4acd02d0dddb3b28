"""Drives `forecaster graph` end to end."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.cli import terminal
from forecaster.graph import learn
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.storage import open_graph
from forecaster.panel.panel import Panel

Run = Callable[..., tuple[int, str, str]]
PLACES = 7
SPLITS = """
[splits]
train = [["2015-01-01", "2015-02-11"]]
validation = [["2015-02-12", "2015-02-15"]]
test = [["2015-02-16", "2015-02-19"]]
"""


@pytest.fixture
def panel_folder(tmp_path: Path) -> Path:
    """Return seven locations in a row over fifty days, each like its neighbours."""
    times = pd.date_range("2015-01-01", periods=24 * 50, freq="h", tz="UTC")
    precision = np.eye(PLACES) - 0.35 * (np.eye(PLACES, k=1) + np.eye(PLACES, k=-1))
    draw = np.random.default_rng(0).multivariate_normal
    values = draw(np.full(PLACES, 50.0), np.linalg.inv(precision), len(times))
    ids = [f"p{n}" for n in range(PLACES)]
    frame = pd.DataFrame(values, columns=ids)
    frame.insert(0, "time", times)
    names = ["<b>Avenue</b>", "=cmd()", *ids[2:]]
    places = pd.DataFrame(
        {"id": ids, "name": names, "lat": 52.5, "lon": 13.4 + np.arange(PLACES) / 100}
    )
    panel = Panel.from_wide(frame, timezone="UTC", locations=places)
    panel.save(tmp_path / "panel")
    return tmp_path / "panel"


def test_a_graph_is_learned_written_and_drawn(panel_folder: Path, run: Run) -> None:
    out = panel_folder.with_name("graph")
    code, output, errors = run("graph", panel_folder, "--out", out)
    assert code == 0, errors
    assert "7 locations, 6 edges, average degree 1.71" in output
    assert "hubs                    =cmd() 2, p2 2, p3 2, p4 2, p5 2" in output
    assert "components              1, the largest of 7; 0 isolated" in output
    assert (
        "plain inverse for comparison 6 edges, average degree 1.71, 100 % of all edges" in output
    )
    assert "gap " in output
    assert "time " in output
    assert "note: edges say who moves together; --kind lagged tells whose past" in output
    assert "penalty " in errors  # what was done, while it was done
    graph = open_graph(out)
    assert graph.pairs.tolist() == [[n, n + 1] for n in range(PLACES - 1)]
    graph.match(Panel.open(panel_folder))
    figures = panel_folder.with_name("graph-figures")
    assert sorted(path.name for path in figures.iterdir()) == [
        "degrees.png", "distances.png", "map.png", "structure.png",
    ]  # fmt: skip


def test_a_graph_can_be_checked(panel_folder: Path, run: Run) -> None:
    out = panel_folder.with_name("graph")
    run("graph", panel_folder, "--out", out, "--penalty", "0.05", "--json")
    code, output, _ = run("check", out)
    assert code == 0
    assert "graph (format 1, " in output
    assert "all match the manifest, 7 locations, 6 edges" in output
    code, output, _ = run("check", panel_folder.parent, "--json")
    kinds = {report["kind"]: report for report in json.loads(output)}
    assert kinds["graph"]["edges"] == 6


def test_a_graph_is_printed_as_data(panel_folder: Path, run: Run) -> None:
    out = panel_folder.with_name("graph")
    code, output, _ = run("graph", panel_folder, "--out", out, "--degree", "1.0", "--json")
    report = json.loads(output)
    assert code == 0
    assert report["hash"] == open_graph(out).digest
    assert report["edges"] == round(PLACES / 2)
    assert not {"directed", "pairs", "delays"} & set(report)
    assert report["about"]["degree"] == 1.0
    assert report["about"]["panel"] == Panel.open(panel_folder).digest
    assert not panel_folder.with_name("graph-figures").exists()


@pytest.fixture
def learned_with_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command learn three directed edges between two of the locations and a third."""
    edges = [
        ("p2", "p3", 0.5, 1),
        ("p2", "p3", 0.25, 2),
        ("p3", "p2", -0.5, 1),
        ("p2", "p6", 1.0, 1),
    ]

    def learn_graph(panel: Panel, *_: object, **__: object) -> DependencyGraph:
        return DependencyGraph.from_edges(edges, panel)

    monkeypatch.setattr(learn, "learn_graph", learn_graph)


@pytest.mark.usefixtures("learned_with_delays")
def test_a_directed_graph_is_described_with_its_delays(panel_folder: Path, run: Run) -> None:
    out = panel_folder.with_name("graph")
    code, output, errors = run("graph", panel_folder, "--out", out)
    assert code == 0, errors
    assert "graph                   7 locations, 4 edges of 3 pairs, 0.43 sources per " in output
    assert "delays                  1 step 75 %, 2 steps 25 %\n" in output
    assert "tell about most others  p2 2, p3 1\n" in output
    assert "components              5, the largest of 3; 4 isolated\n" in output
    assert "--kind lagged" not in output
    figures = panel_folder.with_name("graph-figures")
    assert sorted(path.name for path in figures.iterdir()) == [
        "degrees.png", "delays.png", "distances.png", "map.png", "structure.png",
    ]  # fmt: skip
    code, output, _ = run("check", out)
    assert code == 0
    assert "graph (format 2, " in output


@pytest.mark.usefixtures("learned_with_delays")
def test_a_directed_graph_is_printed_as_data(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "graph", "--json", "--export", tmp_path / "edges.csv")
    _, output, _ = run("graph", panel_folder, *words)
    report = json.loads(output)
    assert (report["edges"], report["pairs"], report["directed"]) == (4, 3, True)
    assert report["delays"] == {"1": 3, "2": 1}
    assert report["hubs"] == [{"name": "p2", "targets": 2}, {"name": "p3", "targets": 1}]
    again = DependencyGraph.from_edges(tmp_path / "edges.csv", Panel.open(panel_folder))
    assert again.matrix().tolist() == open_graph(tmp_path / "graph").matrix().tolist()


@pytest.fixture
def travel_folder(tmp_path: Path) -> Path:
    """Return seven locations in a row: p0 leads to p3 after one step, p4 to p1 after two."""
    times = pd.date_range("2015-01-01", periods=24 * 83, freq="h", tz="UTC")
    values = np.random.default_rng(0).normal(50, 1, (len(times), PLACES))
    values[1:, 3] += 0.5 * (values[:-1, 0] - 50)
    values[2:, 1] -= 0.5 * (values[:-2, 4] - 50)
    frame = pd.DataFrame(values, columns=[f"p{n}" for n in range(PLACES)])
    frame.insert(0, "time", times)
    Panel.from_wide(frame, timezone="UTC").save(tmp_path / "travel")
    return tmp_path / "travel"


def test_a_lagged_graph_is_learned_exported_and_printed(travel_folder: Path, run: Run) -> None:
    out, table = travel_folder.with_name("lagged"), travel_folder.with_name("edges.csv")
    words = ("--kind", "lagged", "--out", out, "--json", "--export", table)
    code, output, errors = run("graph", travel_folder, *words)
    assert code == 0, errors
    assert "held-out weeks" in errors  # what was done, while it was done
    report, graph = json.loads(output), open_graph(out)
    assert (report["edges"], report["directed"], report["delays"]) == (2, True, {"1": 1, "2": 1})
    assert report["hash"] == graph.digest
    assert report["about"]["kind"] == "lagged"
    assert report["about"]["lagged"]["p_value"] < 0.01
    edges = pd.read_csv(table)
    columns = edges[["source", "target", "delay"]].to_numpy().tolist()
    assert columns == [["p0", "p3", 1], ["p4", "p1", 2]]
    assert np.sign(edges["strength"]).tolist() == [1, -1]
    again = DependencyGraph.from_edges(table, Panel.open(travel_folder))
    assert again.pairs.tolist() == graph.pairs.tolist()
    assert again.strengths == pytest.approx(graph.strengths)
    code, output, _ = run("check", out)
    assert code == 0
    assert "graph (format 2, " in output


def test_a_lagged_graph_follows_the_recipe(travel_folder: Path, run: Run, tmp_path: Path) -> None:
    recipe, out = tmp_path / "recipe.toml", tmp_path / "lagged"
    recipe.write_text("[graph]\nkind = 'lagged'\nmax_delay = 1\n", encoding="utf-8")
    code, output, errors = run("graph", travel_folder, "--out", out, "--recipe", recipe, "--json")
    assert code == 0, errors
    assert json.loads(output)["about"]["lagged"]["max_delay"] == 1
    assert open_graph(out).pairs.tolist() == [[0, 3]]


def test_options_stand_above_the_recipe(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"[graph]\ndegree = 0.5\nsubtract = 'nothing'\n{SPLITS}", encoding="utf-8")
    out = tmp_path / "graph"
    _, output, _ = run("graph", panel_folder, "--out", out, "--recipe", recipe, "--json")
    about = json.loads(output)["about"]
    assert (about["degree"], about["subtracted"]) == (0.5, "nothing")
    assert about["hours"] == [["2015-01-01T00:00:00Z", "2015-02-11T23:00:00Z"]]
    words = ("--threshold", "0.2", "--kind", "inverse", "--subtract", "hour_of_week", "--json")
    _, output, _ = run("graph", panel_folder, "--out", out, "--recipe", recipe, *words)
    about = json.loads(output)["about"]
    assert (about["threshold"], about["degree"]) == (0.2, None)
    assert (about["kind"], about["subtracted"]) == ("inverse", "hour_of_week")


def test_a_graph_is_exported(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    names = ["graph.graphml", "graph.geojson", "graph.csv", "graph.parquet"]
    exports = [word for name in names for word in ("--export", tmp_path / name)]
    out = tmp_path / "graph"
    code, _, _ = run("graph", panel_folder, "--out", out, "--penalty", "0.05", "--json", *exports)
    assert code == 0
    assert all((tmp_path / name).stat().st_size > 100 for name in names)
    assert "&lt;b&gt;Avenue" in (tmp_path / "graph.graphml").read_text(encoding="utf-8")


def test_a_wrong_export_is_refused_before_anything_is_learned(
    panel_folder: Path, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "graph"
    code, _, errors = run("graph", panel_folder, "--out", out, "--export", "graph.xlsx")
    assert code == 2
    assert "a graph is exported as .graphml" in errors
    assert not out.exists()


def test_a_threshold_and_a_degree_together_are_a_usage_error(
    panel_folder: Path, run: Run, tmp_path: Path
) -> None:
    words = ("--threshold", "0.2", "--degree", "2")
    code, _, errors = run("graph", panel_folder, "--out", tmp_path / "graph", *words)
    assert code == 2
    assert "threshold and degree: each determines the other" in errors


def test_G4_an_unconverged_graph_needs_a_flag(
    panel_folder: Path, run: Run, tmp_path: Path
) -> None:
    recipe = tmp_path / "recipe.toml"
    rules = "penalty = 0.01\nmax_iterations = 1\ngap_tolerance = 1e-13"
    recipe.write_text(f"[graph]\n{rules}\n{SPLITS}", encoding="utf-8")
    words = ("graph", panel_folder, "--out", tmp_path / "graph", "--recipe", recipe)
    code, _, errors = run(*words)
    assert code == 5
    assert "dual gap " in errors
    assert " > 1e-13 after 1 iteration" in errors
    assert not (tmp_path / "graph").exists()
    code, output, _ = run(*words, "--allow-unconverged")
    assert code == 0
    assert "NOT CONVERGED" in output
    assert open_graph(tmp_path / "graph").about.converged is False


@pytest.fixture
def led_folder(tmp_path: Path) -> Path:
    """Return seven locations, of which p0 leads p3 by one step and p4 leads p1 by two."""
    times = pd.date_range("2015-01-01", periods=24 * 7 * 13, freq="h", tz="UTC")
    values = np.random.default_rng(1).normal(50, 1, (len(times), PLACES))
    values[1:, 3] += 0.5 * (values[:-1, 0] - 50)
    values[2:, 1] -= 0.5 * (values[:-2, 4] - 50)
    frame = pd.DataFrame(values, columns=[f"p{n}" for n in range(PLACES)])
    frame.insert(0, "time", times)
    Panel.from_wide(frame, timezone="UTC").save(tmp_path / "led")
    return tmp_path / "led"


def test_what_lagged_edges_are_worth_is_told_before_anybody_trains(
    led_folder: Path, run: Run
) -> None:
    out = led_folder.with_name("graph")
    code, output, errors = run("graph", led_folder, "--out", out, "--kind", "lagged")
    assert code == 0, errors
    assert "held-out weeks          edges help (p < 0.001, 20 blocks of days)\n" in output
    assert "certificate             duality gap at most " in output
    assert "out of sample           +1 hour: " in output
    assert "edges a further −" in output
    assert "; +3 hours: " in output
    assert led_folder.with_name("graph-figures") / "worth.png" in [
        *led_folder.with_name("graph-figures").iterdir()
    ]
    stages = [line for line in errors.splitlines() if line.endswith(" …")]
    assert len(stages) > 9
    assert max(map(len, stages)) < 70  # one line each, with a bar
    _, output, _ = run("graph", led_folder, "--out", out, "--kind", "lagged", "--json")
    first, last = json.loads(output)["out_of_sample"]
    assert (first["step"], last["step"]) == (1, 3)
    assert -0.1 < first["edges"] < -0.01
    assert abs(last["edges"]) < 0.01  # both lead by less


def test_of_a_panel_without_lagged_edges_it_is_told_what_follows(
    panel_folder: Path, run: Run
) -> None:
    out = panel_folder.with_name("graph")
    code, output, errors = run("graph", panel_folder, "--out", out, "--kind", "lagged")
    assert code == 0, errors
    assert "7 locations, 0 edges of 0 pairs" in output
    assert "edges help no more than chance (p = " in output
    assert "note: no edges: on held-out weeks no edge helps by more than chance\n" in output
    assert "note: a gain from single others could not be told" in output
    assert "; the preset best needs no edges: " in output
    assert "delays" not in output
    assert "components" not in output
    figures = panel_folder.with_name("graph-figures")
    assert sorted(path.name for path in figures.iterdir()) == [
        "map.png", "structure.png", "worth.png",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kind", "lagged", "--threshold", "0.2"), "--threshold: not used by kind lagged; held"),
        (
            ("--kind", "lagged", "--choose", "ebic", "--subtract", "nothing"),
            "--choose and --subtract: not used by kind lagged",
        ),
        (
            ("--max-delay", "12"),
            "--max-delay: not used by kind lasso; only edges of --kind lagged",
        ),
    ],
)
def test_options_that_a_kind_has_no_use_for_are_refused(
    panel_folder: Path, run: Run, words: tuple[str, ...], message: str
) -> None:
    out = panel_folder.with_name("graph")
    code, _, errors = run("graph", panel_folder, "--out", out, *words)
    assert code == 2
    assert message in errors
    assert not out.exists()


def test_the_largest_delay_of_a_lagged_edge_is_an_option(led_folder: Path, run: Run) -> None:
    words = ("--kind", "lagged", "--max-delay", "1", "--json")
    _, output, _ = run("graph", led_folder, "--out", led_folder.with_name("graph"), *words)
    report = json.loads(output)
    assert report["about"]["lagged"]["max_delay"] == 1
    assert report["delays"] == {"1": 1}
    _, output, _ = run("graph", "--help")
    assert "--max-delay" in output


def test_without_the_extra_one_line_says_what_is_lacking(
    panel_folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, output, errors = run("graph", panel_folder, "--out", tmp_path / "graph", "--kind", "own")
    assert code == 0
    assert "7 locations, 0 edges" in output
    assert "no figures: this needs matplotlib" in errors


def test_G9_one_location_goes_through_the_command(run: Run, tmp_path: Path) -> None:
    times = pd.date_range("2015-01-01", periods=101, freq="h", tz="UTC")
    frame = pd.DataFrame({"time": times, "only": np.arange(101) % 7})
    Panel.from_wide(frame, timezone="UTC").save(tmp_path / "panel")
    code, output, _ = run("graph", tmp_path / "panel", "--out", tmp_path / "graph")
    assert code == 0
    assert "1 location, 0 edges, average degree 0.00" in output


def test_G11_a_large_graph_is_announced_before_it_is_learned(
    panel_folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "LONG_SECONDS", 0.0)
    _, _, errors = run("graph", panel_folder, "--out", tmp_path / "graph", "--penalty", "0.1")
    assert "the graph: about 0 min and 0.0 GiB of memory" in errors
    _, _, errors = run("graph", panel_folder, "--out", tmp_path / "lagged", "--kind", "lagged")
    assert "the graph: about 0 min and 0.0 GiB of memory" in errors
