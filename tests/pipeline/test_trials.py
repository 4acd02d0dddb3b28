from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.checks.sample import small_city
from forecaster.estimators.registry import load_estimator
from forecaster.evaluation.backtest import backtest
from forecaster.evaluation.model_specs import Entry
from forecaster.pipeline import trials
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.trials import (
    explain,
    is_done,
    make_cell,
    result,
    run_cell,
    validation_loss,
)
from forecaster.recipe import Recipe


def quiet(_: str) -> None:
    """Say nothing."""


def test_a_cell_is_trained_tested_and_then_found_done(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    assert not is_done(cell, study)
    assert result(cell, study) is None
    run_cell(cell, study, quiet)
    found = result(cell, study)
    assert found is not None
    fitted = load_estimator(cell.folder)
    for weather in ("observed", "persist"):
        report = backtest(fitted, study.panel, study.origins, weather)
        assert found.errors[weather].report() == report
    said: list[str] = []
    run_cell(cell, study, said.append)
    assert said == []
    assert found.seconds is not None


def test_a_network_leaves_its_run_and_no_checkpoints(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Forecaster", "Forecaster", recipe), 3)
    run_cell(cell, study, quiet)
    assert not (cell.folder / "training").exists()
    fitted = load_estimator(cell.folder)
    assert fitted.recipe.training.seed == 3
    assert fitted.run is not None
    epochs = fitted.run.about["training"]["epochs"]
    assert validation_loss(cell) == min(epoch["validation_loss"] for epoch in epochs)


def test_a_cell_to_choose_from_is_not_tested(study: Study, recipe: Recipe) -> None:
    entry = Entry("Transformer", "Transformer", recipe)
    run_cell(make_cell(study, entry, 0, tested=False), study, quiet)
    cell = make_cell(study, entry, 0)
    assert is_done(replace(cell, tested=False), study)
    assert not is_done(cell, study)
    said: list[str] = []
    run_cell(cell, study, said.append)
    assert said == ["testing Transformer, seed 0"]  # it is not trained again


def test_another_weather_is_tested_without_training(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    run_cell(cell, study, quiet)
    before = result(cell, study)
    more = Study(study.folder, study.panel_folder, recipe, ("observed", "climatology", "persist"))
    assert result(cell, more) is None
    said: list[str] = []
    run_cell(cell, more, said.append)
    assert said == ["testing Ridge, seed 0"]
    after = result(cell, study)  # fewer are still there
    assert before is not None
    assert after is not None
    assert list(after.errors) == ["observed", "persist"]
    assert after.seconds == before.seconds
    assert np.array_equal(after.errors["persist"].squares, before.errors["persist"].squares)
    first = Study(study.folder, study.panel_folder, recipe, ("persist", "observed"))
    assert result(cell, first) is None  # its table is about another weather


def test_a_cell_killed_between_training_and_test_is_only_tested(
    study: Study, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(trials, "assess", die)
        with pytest.raises(KeyboardInterrupt):
            run_cell(cell, study, quiet)
    assert trials.run_hash(cell, study) is not None
    said: list[str] = []
    run_cell(cell, study, said.append)
    assert said == ["testing Ridge, seed 0"]


def test_a_damaged_test_is_made_again(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    run_cell(cell, study, quiet)
    before = result(cell, study)
    (file,) = (cell.folder / "test").glob("arrays-*")
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    assert result(cell, study) is None
    run_cell(cell, study, quiet)
    after = result(cell, study)
    assert before is not None
    assert after is not None
    assert after.seconds == before.seconds
    assert after.errors["observed"].report() == before.errors["observed"].report()


def test_a_test_of_other_windows_is_made_again(study: Study, recipe: Recipe) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    run_cell(cell, study, quiet)
    fewer = replace(study)
    vars(fewer)["origins"] = study.origins[3:]  # as other lags would leave them
    assert result(cell, fewer) is None
    run_cell(cell, fewer, quiet)
    found = result(cell, fewer)
    assert found is not None
    assert len(found.origins) == len(study.origins) - 3


def test_a_run_of_another_panel_is_never_taken(
    study: Study, recipe: Recipe, tmp_path: Path
) -> None:
    cell = make_cell(study, Entry("Ridge", "Ridge", recipe), 0)
    small_city(seed=1).save(tmp_path / "other")
    other = Study(study.folder, tmp_path / "other", recipe, study.weathers)
    run_cell(replace(cell), other, quiet)  # into the folder that is meant for the first
    assert result(cell, study) is None
    with pytest.raises(ArtifactError, match="a run of another panel"):
        run_cell(cell, study, quiet)


def test_reasons_are_for_people() -> None:
    assert explain(DataError("no window")) == "no window"
    assert explain(MemoryError()) == "out of memory"
    assert len(explain(ValueError("x" * 10**6))) < 3_000
    assert explain(ZeroDivisionError("by zero")) == "ZeroDivisionError: by zero"
