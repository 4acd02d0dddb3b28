import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import (
    GraphConfig,
    PanelConfig,
    TableConfig,
)
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.checks.sample import RECIPE
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import load_estimator
from forecaster.graph.storage import open_graph, save_graph
from forecaster.panel.panel import Panel
from forecaster.pipeline import train
from forecaster.pipeline.train import RunInputs, train_run
from forecaster.synthetic.city import make_city

SMALL = RECIPE.model_copy(
    update={
        "panel": PanelConfig(timezone="Europe/Berlin"),
        "table": TableConfig(file="counts.csv"),
        "graph": GraphConfig(kind="complete"),
    }
)


def quiet(_: str) -> None:
    """Say nothing."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with the file that the recipe names."""
    times = pd.date_range("2021-03-01", periods=24 * 31, freq="h", tz="UTC")
    counts = np.random.default_rng(0).poisson(13, (len(times), 3))
    table = pd.DataFrame(counts, columns=["a", "b", "c"]).assign(time=times)
    (tmp_path / "data").mkdir()
    table.to_csv(tmp_path / "data" / "counts.csv", index=False)
    return tmp_path / "data"


def test_a_run_is_made_from_a_recipe_and_its_files(data: Path, tmp_path: Path) -> None:
    messages: list[str] = []
    folder = tmp_path / "run"
    trained = train_run("Forecaster", SMALL, folder, RunInputs(data=data), messages.append)
    assert not trained.was_finished
    assert messages[0] == "building the panel"
    assert messages[-1].startswith("training Forecaster; sparse layers and norms on ")
    run = load_estimator(folder).run
    assert run is not None
    assert run.parents == {
        "panel": Panel.open(folder / "panel").digest,
        "graph": open_graph(folder / "graph").digest,
    }
    assert run.recipe == SMALL
    assert (folder / "training" / "log.jsonl").exists()


def test_the_same_call_finds_it_done(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = train_run("Transformer", SMALL, folder, RunInputs(data=data), quiet)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = train_run("Transformer", SMALL, folder, RunInputs(data=data), quiet)
    assert again.was_finished
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert not (folder / "graph").exists()  # a dense network has none
    origins = np.array([500])
    panel = Panel.open(folder / "panel")
    one, other = (t.estimator.predict(panel, origins) for t in (first, again))
    assert np.array_equal(one, other)


def test_a_call_that_died_anywhere_is_finished_by_the_same_call(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiedError(Exception):
        """Stands for a kill."""

    def die(*_: object, **__: object) -> None:
        raise DiedError

    whole, folder = tmp_path / "whole", tmp_path / "run"
    train_run("Forecaster", SMALL, whole, RunInputs(data=data), quiet)
    for owner, name in (
        (train, "build_panel"),
        (train, "learn_graph"),
        (Forecaster, "fit_windows"),
        (Forecaster, "save"),
    ):
        with monkeypatch.context() as deadly:
            deadly.setattr(owner, name, die)
            with pytest.raises(DiedError):
                train_run("Forecaster", SMALL, folder, RunInputs(data=data), quiet)
        with pytest.raises(ArtifactError, match="not finished"):
            load_estimator(folder)
    train_run("Forecaster", SMALL, folder, RunInputs(data=data), quiet)
    digests = [load_estimator(path).run.digest for path in (whole, folder)]  # type: ignore[union-attr]
    assert digests[0] == digests[1]


def test_a_panel_and_a_graph_are_taken_as_given(data: Path, tmp_path: Path) -> None:
    train_run("Forecaster", SMALL, tmp_path / "one", RunInputs(data=data), quiet)
    panel, graph = Panel.open(tmp_path / "one" / "panel"), open_graph(tmp_path / "one" / "graph")
    bare = SMALL.model_copy(update={"table": None, "panel": PanelConfig()})
    folder = tmp_path / "two"
    train_run("Forecaster", bare, folder, RunInputs(panel, graph), quiet)
    run = load_estimator(folder).run
    assert run is not None
    assert run.parents == {"panel": panel.digest, "graph": graph.digest}
    assert run.recipe.panel.timezone == "Europe/Berlin"  # as the panel says
    assert not (folder / "panel").exists()
    again = train_run("Forecaster", bare, folder, RunInputs(panel, graph), quiet)
    assert again.was_finished
    other = replace(panel, values=panel.values + 1).save(tmp_path / "other")
    with pytest.raises(ArtifactError, match=r"trained on panel \w{12}, not on the given one"):
        train_run("Forecaster", bare, folder, RunInputs(other, graph), quiet)
    fewer = save_graph(replace(graph, pairs=graph.pairs[:1], strengths=graph.strengths[:1]),
                       tmp_path / "fewer")  # fmt: skip
    with pytest.raises(ArtifactError, match=r"trained on graph \w{12}, not on the given one"):
        train_run("Forecaster", bare, folder, RunInputs(panel, fewer), quiet)


def test_a_recipe_without_files_asks_for_a_panel(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no panel given"):
        train_run("Forecaster", SMALL, tmp_path / "run", RunInputs(), quiet)


def test_an_unknown_estimator_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no estimator 'Forcaster'; did you mean 'Forecaster'"):
        train_run("Forcaster", SMALL, tmp_path / "run", RunInputs(), quiet)
    assert not (tmp_path / "run").exists()


def test_of_several_processes_one_makes_what_the_others_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    panels: list[Panel] = []
    folder = tmp_path / "panel"

    def wait() -> None:
        panels.append(train._panel(folder, SMALL, RunInputs(), quiet))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    assert not panels
    saved = make_city(3, "2014-10-20", 48).panel.save(folder)
    waiting.join(timeout=30)
    assert panels[0].digest == saved.digest
