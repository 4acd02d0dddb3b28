from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.checks.sample import small_city
from forecaster.estimators.registry import load_estimator
from forecaster.evaluation.backtest import backtest
from forecaster.evaluation.model_specs import ModelSpec
from forecaster.pipeline import trials
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.trials import (
    failure_reason,
    is_done,
    load_result,
    make_trial,
    run_trial,
    validation_loss,
)
from forecaster.recipe import Recipe


def quiet(_: str) -> None:
    """Say nothing."""


def test_a_cell_is_trained_tested_and_then_found_done(
    experiment: Experiment, recipe: Recipe
) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    assert not is_done(trial, experiment)
    assert load_result(trial, experiment) is None
    run_trial(trial, experiment, quiet)
    found = load_result(trial, experiment)
    assert found is not None
    fitted = load_estimator(trial.folder)
    for weather in ("observed", "persist"):
        report = (
            backtest(fitted, experiment.panel, experiment.origins, [weather])
            .errors[weather]
            .report()
        )
        assert found.errors[weather].report() == report
    said: list[str] = []
    run_trial(trial, experiment, said.append)
    assert said == []
    assert found.seconds is not None


def test_a_network_leaves_its_run_and_no_checkpoints(
    experiment: Experiment, recipe: Recipe
) -> None:
    trial = make_trial(experiment, ModelSpec("Forecaster", "Forecaster", recipe), 3)
    run_trial(trial, experiment, quiet)
    assert not (trial.folder / "training").exists()
    fitted = load_estimator(trial.folder)
    assert fitted.recipe.training.seed == 3
    assert fitted.run is not None
    epochs = fitted.run.about["training"]["epochs"]
    assert validation_loss(trial) == min(epoch["validation_loss"] for epoch in epochs)


def test_a_cell_to_choose_from_is_not_tested(experiment: Experiment, recipe: Recipe) -> None:
    spec = ModelSpec("Transformer", "Transformer", recipe)
    run_trial(make_trial(experiment, spec, 0, tested=False), experiment, quiet)
    trial = make_trial(experiment, spec, 0)
    assert is_done(replace(trial, tested=False), experiment)
    assert not is_done(trial, experiment)
    said: list[str] = []
    run_trial(trial, experiment, said.append)
    assert said == ["testing Transformer, seed 0"]  # it is not trained again


def test_another_weather_is_tested_without_training(
    experiment: Experiment, recipe: Recipe
) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    run_trial(trial, experiment, quiet)
    before = load_result(trial, experiment)
    more = Experiment(
        experiment.folder, experiment.panel_folder, recipe, ("observed", "climatology", "persist")
    )
    assert load_result(trial, more) is None
    said: list[str] = []
    run_trial(trial, more, said.append)
    assert said == ["testing Ridge, seed 0"]
    after = load_result(trial, experiment)  # fewer are still there
    assert before is not None
    assert after is not None
    assert list(after.errors) == ["observed", "persist"]
    assert after.seconds == before.seconds
    assert np.array_equal(after.errors["persist"].squares, before.errors["persist"].squares)
    first = Experiment(experiment.folder, experiment.panel_folder, recipe, ("persist", "observed"))
    assert load_result(trial, first) is None  # its table is about another weather


def test_a_cell_killed_between_training_and_test_is_only_tested(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(trials, "backtest", die)
        with pytest.raises(KeyboardInterrupt):
            run_trial(trial, experiment, quiet)
    assert trials.run_hash(trial, experiment) is not None
    said: list[str] = []
    run_trial(trial, experiment, said.append)
    assert said == ["testing Ridge, seed 0"]


def test_a_damaged_test_is_made_again(experiment: Experiment, recipe: Recipe) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    run_trial(trial, experiment, quiet)
    before = load_result(trial, experiment)
    (file,) = (trial.folder / "test").glob("arrays-*")
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    assert load_result(trial, experiment) is None
    run_trial(trial, experiment, quiet)
    after = load_result(trial, experiment)
    assert before is not None
    assert after is not None
    assert after.seconds == before.seconds
    assert after.errors["observed"].report() == before.errors["observed"].report()


def test_a_test_of_other_windows_is_made_again(experiment: Experiment, recipe: Recipe) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    run_trial(trial, experiment, quiet)
    fewer = replace(experiment)
    vars(fewer)["origins"] = experiment.origins[3:]  # as other lags would leave them
    assert load_result(trial, fewer) is None
    run_trial(trial, fewer, quiet)
    found = load_result(trial, fewer)
    assert found is not None
    assert len(found.origins) == len(experiment.origins) - 3


def test_a_run_of_another_panel_is_never_taken(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    small_city(seed=1).save(tmp_path / "other")
    other = Experiment(
        experiment.folder, tmp_path / "other", recipe, experiment.requested_weathers
    )
    run_trial(replace(trial), other, quiet)  # into the folder that is meant for the first
    assert load_result(trial, experiment) is None
    with pytest.raises(ArtifactError, match="trained on another panel"):
        run_trial(trial, experiment, quiet)


def test_reasons_are_for_people() -> None:
    assert failure_reason(DataError("no window")) == "no window"
    assert failure_reason(MemoryError()) == "out of memory"
    assert len(failure_reason(ValueError("x" * 10**6))) < 3_000
    assert failure_reason(ZeroDivisionError("by zero")) == "ZeroDivisionError: by zero"
