import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.artifact import Run, load_run
from forecaster.config import TableConfig, TripsConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.checks.sample import small_city
from forecaster.graph.storage import open_graph
from forecaster.recipe import Recipe
from forecaster.report.comparison import render_comparison
from forecaster.report.data import ReportData, mean_rmse, read_report_data
from forecaster.report.tables import error_table
from tests.report.comparisons import bare_panel, compare, daily_cycle


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """Return the comparison, to be damaged."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def change_table(folder: Path, **values: Any) -> None:
    table = json.loads((folder / "table.json").read_text())
    (folder / "table.json").write_text(json.dumps({**table, **values}))


def test_what_is_read_is_the_comparison_that_was_written(folder: Path, data: ReportData) -> None:
    written = json.loads((folder / "table.json").read_text())
    assert json.loads(data.comparison.to_json()) == written


def test_a_model_without_its_fallback_is_read_again_from_its_own_run(tmp_path: Path) -> None:
    splits = {
        "train": [["2021-03-01", "2021-03-28"]],
        "validation": [["2021-03-29", "2021-04-07"]],
        "test": [["2021-04-08", "2021-04-12"]],
    }
    folder = compare(tmp_path, small_city(), ["Ridge", "Transformer"], splits=splits)
    data = read_report_data(folder)
    written = json.loads((folder / "table.json").read_text())
    assert json.loads(data.comparison.to_json()) == written
    assert [row.name for row in data.comparison.rows] == ["Ridge", "Transformer"]
    networks = dict(error_table(data.comparison).groups)["Networks"]
    assert [line.name for line in networks] == ["Transformer", "Transformer, without fallback"]
    assert "Transformer falls back at " in render_comparison(data, [])
    assert all(result.fallback for result in data.comparison.rows[1].results.values())


def test_the_panel_may_lie_elsewhere(copied: Path, tmp_path: Path) -> None:
    shutil.move(copied / "panel", tmp_path / "panel")
    with pytest.raises(ConfigError, match="panel's folder with --panel"):
        read_report_data(copied)
    assert read_report_data(copied, tmp_path / "panel").panel.digest is not None


def test_the_graph_is_the_one_that_was_learned(folder: Path, data: ReportData) -> None:
    graph = data.graph
    assert graph is not None
    saved = [open_graph(place) for place in sorted((folder / "graphs").iterdir())]
    same = next(one for one in saved if one.digest == graph.digest)
    assert np.array_equal(graph.pairs, same.pairs)
    assert graph.about == same.about
    assert graph.locations.names == data.panel.locations.names


def test_a_directed_graph_has_its_delays(
    data: ReportData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_directed(folder: Path) -> Run:
        run = load_run(folder)
        pairs, strengths = np.array([[0, 3], [0, 3], [3, 0]]), np.array([0.5, 0.25, -0.5])
        edges = {"graph.pairs": pairs, "graph.strengths": strengths}
        return replace(run, arrays={**run.arrays, **edges, "graph.delays": np.array([1, 2, 1])})

    monkeypatch.setattr("forecaster.report.data.load_run", load_directed)
    graph = replace(data).graph
    assert graph is not None
    assert graph.delays is not None
    assert graph.delays.tolist() == [1, 2, 1]


def test_at_most_four_models_are_drawn_the_one_to_use_first(data: ReportData) -> None:
    names = [row.name for row in data.drawn]
    assert data.best is not None
    assert data.rival is not None
    assert names[:2] == [data.best.name, data.rival.name]
    assert set(names) == {"Ridge", "Forecaster", "SeasonalNaive"}
    rmse = [mean_rmse(row, data.comparison) for row in data.comparison.tested]
    assert mean_rmse(data.best, data.comparison) <= 1.02 * min(rmse)


def test_the_rival_is_the_strongest_simple_model_besides_the_one_to_use(data: ReportData) -> None:
    assert data.best is not None
    assert data.best.name == "Ridge"
    assert data.rival is not None
    assert data.rival.name == "SeasonalNaive"


@pytest.mark.parametrize(
    ("recipe", "kind", "step", "unit"),
    [
        (Recipe(trips=TripsConfig(files=("a",))), "count", 60, "trips per hour"),
        (Recipe(trips=TripsConfig(files=("a",))), "count", 15, "trips per 15 min"),
        (Recipe(table=TableConfig(columns="time=t,id=i,value=rides")), "count", 1440,
         "rides per day"),
        (Recipe(table=TableConfig(columns="time=t,id=i,value=y")), "count", 60, "counts per hour"),
        (Recipe(table=TableConfig(columns="time=t")), "count", 120, "counts per 2 hours"),
        (Recipe(table=TableConfig(columns="time=t, id=i, value=speed")), "measurement", 5,
         "units of speed"),
        (Recipe(), "measurement", 60, "units of the data"),
    ],
)  # fmt: skip
def test_numbers_have_a_unit_as_far_as_it_is_known(
    data: ReportData, recipe: Recipe, kind: str, step: int, unit: str
) -> None:
    panel = bare_panel(daily_cycle(), step, kind)
    assert replace(data, recipe=recipe, panel=panel).unit == unit


@pytest.mark.parametrize(
    ("column", "kind", "text", "sentence", "amount"),
    [
        ("trips", "count", "198", "198 trips are expected", "198 trips per hour"),
        ("trips", "count", "1", "1 trip is expected", "1 trips per hour"),
        ("count", "count", "198", "A total of 198 is expected", "198 counts per hour"),
        ("y", "count", "198", "A total of 198 is expected", "198 counts per hour"),
        ("flow", "count", "198", "A total flow of 198 is expected", "198 (flow per hour)"),
        ("Absatz", "count", "9", "A total Absatz of 9 is expected", "9 (Absatz per hour)"),
        ("bus", "count", "198", "A total bus of 198 is expected", "198 (bus per hour)"),
        ("value", "measurement", "5.2", "A value of 5.2 is expected", "5.2"),
        ("air_temp", "measurement", "5.2", "An air temp of 5.2 is expected", "5.2 (air temp)"),
        ("PM10", "measurement", "5.2", "A PM10 of 5.2 is expected", "5.2 (PM10)"),
    ],
)
def test_a_number_reads_as_a_sentence_whatever_its_column_is_called(
    data: ReportData, column: str, kind: Any, text: str, sentence: str, amount: str
) -> None:
    recipe = Recipe(table=TableConfig(columns=f"time=t,id=i,value={column}"))
    named = replace(data, recipe=recipe, panel=bare_panel(daily_cycle(), 60, kind))
    assert named.expected(text, total=kind == "count") == sentence
    assert named.in_unit(text) == amount


def test_without_forecaster_there_is_no_graph(tmp_path: Path) -> None:
    compare(tmp_path, bare_panel(daily_cycle()), ["Ridge"])
    found = read_report_data(tmp_path)
    assert found.graph is None
    assert found.rival is None
    assert [row.name for row in found.drawn] == ["Ridge"]


def test_a_folder_without_a_table_says_what_to_run_first(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"table.json is missing\); make one with `forecaster evaluate RECIPE"
    ):
        read_report_data(tmp_path)
    with pytest.raises(ConfigError, match=r"table-2020.json is missing"):
        read_report_data(tmp_path / "table-2020.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b"[" * 100_000],
    ids=["empty", "list", "cut", "bytes", "deep"],
)
def test_a_damaged_table_is_refused(copied: Path, content: bytes) -> None:
    (copied / "table.json").write_bytes(content)
    with pytest.raises(ArtifactError, match="run `forecaster evaluate` again"):
        read_report_data(copied)


@pytest.mark.parametrize(
    "values",
    [
        {"rows": None}, {"rows": [{}]}, {"rows": [{"runs": {"x": "panel"}}]}, {"mape_cut": "much"},
        {"panel": "0" * 64}, {"recipe": "0" * 64},
    ],
    ids=["no rows", "no runs", "no run", "no number", "another panel", "another recipe"],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused(copied: Path, values: dict[str, Any]) -> None:
    change_table(copied, **values)
    with pytest.raises(ArtifactError):
        read_report_data(copied)


def test_a_run_that_was_not_tested_is_refused(copied: Path, data: ReportData) -> None:
    place = next(iter(data.comparison.rows[0].runs.values()))
    shutil.rmtree(copied / place / "test")
    with pytest.raises(ArtifactError, match="not tested since it was trained"):
        read_report_data(copied)


@pytest.mark.parametrize("part", ["", "test"])
def test_a_damaged_run_is_refused(copied: Path, data: ReportData, part: str) -> None:
    row = data.best
    assert row is not None
    (arrays,) = (copied / row.runs[0] / part).glob("arrays-*.safetensors")
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    with pytest.raises(ArtifactError, match="damaged"):
        read_report_data(copied).estimator_of(row)


def test_a_comparison_on_other_days_has_its_own_table(copied: Path) -> None:
    for test in copied.glob("cells/*/test"):
        test.rename(test.with_name("test-2020"))
    (copied / "table.json").rename(copied / "table-2020.json")
    (copied / "command-2020.txt").write_text("forecaster evaluate …\n")
    found = read_report_data(copied / "table-2020.json")
    assert (found.suffix, found.command) == ("-2020", "forecaster evaluate …")
