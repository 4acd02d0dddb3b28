import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import GraphConfig, PanelConfig, TableConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.checks.sample import small_city
from forecaster.panel.panel import Panel
from forecaster.pipeline.experiment import Experiment, make_panel
from forecaster.recipe import Recipe, change
from forecaster.splits import cut_windows


def quiet(_: str) -> None:
    """Say nothing."""


def test_the_windows_are_the_test_windows_of_the_recipe(
    experiment: Experiment, recipe: Recipe
) -> None:
    expected = cut_windows(experiment.panel, experiment.splits, recipe.lags).test
    assert np.array_equal(experiment.origins, expected)
    assert experiment.weathers == ["observed", "persist"]


def test_a_trial_has_a_folder_for_each_estimator_recipe_and_panel(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    first = experiment.trial_folder("Ridge", recipe)
    assert experiment.trial_folder("Ridge", recipe) == first
    seed = change(recipe, {"training": {"seed": 1}}, source="")
    seeds = change(recipe, {"evaluation": {"seeds": 6}}, source="")
    assert experiment.trial_folder("Ridge", seeds) == first
    small_city(seed=1).save(tmp_path / "other")
    other = Experiment(experiment.folder, tmp_path / "other", recipe, ("observed",))
    folders = {
        first,
        experiment.trial_folder("VAR", recipe),
        experiment.trial_folder("Ridge", seed),
        other.trial_folder("Ridge", recipe),
    }
    assert len(folders) == 4
    assert all(place.parent == experiment.folder / "cells" for place in folders)


def test_a_graph_is_learned_once(experiment: Experiment, recipe: Recipe) -> None:
    messages: list[str] = []
    first = experiment.graph(recipe, messages.append)
    again = experiment.graph(change(recipe, {"training": {"seed": 3}}, source=""), messages.append)
    assert again.digest == first.digest
    assert [m for m in messages if m.startswith("learning")] == ["learning the graph (inverse)"]
    other = recipe.model_copy(update={"graph": GraphConfig(kind="complete")})
    assert len(experiment.graph(other, messages.append)) == 10
    assert messages[-1] == "learning the graph (complete)"


def test_a_lasso_that_is_asked_for_is_no_graph_of_neighbourhoods(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe.model_copy(update={"graph": GraphConfig()})
    lasso = recipe.model_copy(update={"graph": GraphConfig(kind="lasso")})
    assert experiment.trial_folder("Forecaster", chosen) == experiment.trial_folder(
        "Forecaster", lasso
    )  # of few locations
    monkeypatch.setattr(
        "forecaster.graph.learn.MOST_TOGETHER", len(experiment.panel.locations) - 1
    )
    assert experiment.trial_folder("Forecaster", chosen) != experiment.trial_folder(
        "Forecaster", lasso
    )
    messages: list[str] = []
    assert experiment.graph(chosen, messages.append).about.kind == "neighbourhood"
    assert "learning the graph (neighbourhood)" in messages
    assert experiment.graph(lasso, messages.append).about.kind == "lasso"


def test_a_lagged_graph_is_learned_for_the_lags_of_its_network(
    experiment: Experiment, recipe: Recipe
) -> None:
    messages: list[str] = []
    for recent in (2, 3, 2):
        lagged = change(
            recipe, {"graph": {"kind": "lagged"}, "lags": {"recent": recent}}, source=""
        )
        record = experiment.graph(lagged, messages.append).about.lagged
        assert record is not None
        assert record.max_delay == recent
    learned = [message for message in messages if message.startswith("learning")]
    assert learned == ["learning the graph (lagged)"] * 2


@pytest.fixture
def table(tmp_path: Path) -> tuple[Recipe, Path]:
    times = pd.date_range("2021-03-01", periods=24 * 31, freq="h", tz="UTC")
    counts = np.random.default_rng(0).poisson(13, (len(times), 3))
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "counts.csv"
    pd.DataFrame(counts, columns=["a", "b", "c"]).assign(time=times).to_csv(path, index=False)
    return Recipe(table=TableConfig(file="counts.csv")), path


def test_a_panel_is_built_once_from_the_same_files(
    table: tuple[Recipe, Path], tmp_path: Path
) -> None:
    recipe, path = table
    messages: list[str] = []
    folder = make_panel(tmp_path / "out", recipe, path.parent, messages.append)
    first = Panel.open(folder).digest
    assert make_panel(tmp_path / "out", recipe, path.parent, messages.append) == folder
    assert messages.count("building the panel") == 1
    assert messages[-1] == "the panel exists already"
    trained = change(recipe, {"training": {"epochs": 3}}, source="")
    make_panel(tmp_path / "out", trained, path.parent, messages.append)
    assert messages[-1] == "the panel exists already"  # training decides nothing of it
    assert Panel.open(folder).digest == first


@pytest.mark.parametrize("what", ["file", "panel", "rule", "gone", "note"])
def test_a_panel_of_other_files_or_rules_is_built_again(
    table: tuple[Recipe, Path], tmp_path: Path, what: str
) -> None:
    recipe, path = table
    folder = make_panel(tmp_path / "out", recipe, path.parent, quiet)
    before = Panel.open(folder).digest
    if what == "file":  # of the same size and age
        age, text = path.stat(), path.read_text()
        path.write_text(text.replace("a,b,c,time", "b,a,c,time"))
        os.utime(path, ns=(age.st_atime_ns, age.st_mtime_ns))
    elif what == "panel":
        Panel.open(folder).select(("c", "b", "a")).save(folder)
    elif what == "rule":
        recipe = recipe.model_copy(update={"panel": PanelConfig(timezone="Europe/Berlin")})
    elif what == "gone":
        (folder / "manifest.json").unlink()
    else:
        (tmp_path / "out" / "panel.json").write_text("{")
    messages: list[str] = []
    make_panel(tmp_path / "out", recipe, path.parent, messages.append)
    assert messages[1] == "building the panel"
    assert (Panel.open(folder).digest == before) == (what in ("panel", "gone", "note"))


def test_a_panel_that_was_replaced_meanwhile_is_refused(
    experiment: Experiment, tmp_path: Path
) -> None:
    begun = replace(experiment, panel_hash=experiment.panel.digest)
    assert begun.panel.digest == experiment.panel.digest
    small_city(seed=1).save(tmp_path / "panel")
    with pytest.raises(ArtifactError, match="the panel was replaced while"):
        _ = replace(begun).panel


def test_without_a_folder_of_data_the_error_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no panel given"):
        make_panel(tmp_path, Recipe(), None, quiet)
