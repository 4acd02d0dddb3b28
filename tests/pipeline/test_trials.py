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


def test_a_trial_is_trained_and_tested_once(experiment: Experiment, recipe: Recipe) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    assert not is_done(trial, experiment)
    assert load_result(trial, experiment) is None
    run_trial(trial, experiment, quiet)
    result = load_result(trial, experiment)
    assert result is not None
    fitted = load_estimator(trial.folder)
    for weather in ("observed", "persist"):
        report = (
            backtest(fitted, experiment.panel, experiment.origins, [weather])
            .errors[weather]
            .report()
        )
        assert result.errors[weather].report() == report
    messages: list[str] = []
    run_trial(trial, experiment, messages.append)
    assert messages == []
    assert result.seconds is not None


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


def test_an_option_of_a_hyperparameter_is_not_tested(
    experiment: Experiment, recipe: Recipe
) -> None:
    spec = ModelSpec("Transformer", "Transformer", recipe)
    run_trial(make_trial(experiment, spec, 0, tested=False), experiment, quiet)
    trial = make_trial(experiment, spec, 0)
    assert is_done(replace(trial, tested=False), experiment)
    assert not is_done(trial, experiment)
    messages: list[str] = []
    run_trial(trial, experiment, messages.append)
    assert messages == ["testing Transformer, seed 0"]  # it is not trained again


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
    messages: list[str] = []
    run_trial(trial, more, messages.append)
    assert messages == ["testing Ridge, seed 0"]
    after = load_result(trial, experiment)  # fewer are still there
    assert before is not None
    assert after is not None
    assert list(after.errors) == ["observed", "persist"]
    assert after.seconds == before.seconds
    assert np.array_equal(after.errors["persist"].squares, before.errors["persist"].squares)
    first = Experiment(experiment.folder, experiment.panel_folder, recipe, ("persist", "observed"))
    assert load_result(trial, first) is None  # its table is about another weather


def test_a_trial_killed_between_training_and_test_is_only_tested(
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
    messages: list[str] = []
    run_trial(trial, experiment, messages.append)
    assert messages == ["testing Ridge, seed 0"]


def test_a_test_without_bias_is_made_again(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    run_trial(trial, experiment, quiet)
    result = load_result(trial, experiment)
    assert result is not None
    unsigned = replace(result.by_location, signed=np.full_like(result.by_location.signed, np.nan))
    older = replace(result, by_location=unsigned)
    monkeypatch.setattr(trials, "load_backtest", lambda *_: older)
    assert load_result(trial, experiment) is None
    messages: list[str] = []
    run_trial(trial, experiment, messages.append)
    assert messages == ["testing Ridge, seed 0"]


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
    result = load_result(trial, fewer)
    assert result is not None
    assert len(result.origins) == len(experiment.origins) - 3


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
