import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from forecaster.errors import RunError, StoppedError
from forecaster.evaluation.model_specs import ModelSpec
from forecaster.pipeline import workers
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.trials import Trial, is_done, load_result, make_trial
from forecaster.pipeline.workers import run_trials
from forecaster.publish.writing import locked
from forecaster.recipe import Recipe, change
from tests.conftest import Processes

ENDLESS = {"epochs": 100_000, "patience": 100_000}  # a training that ends only when asked to


def quiet(_: str) -> None:
    """Say nothing."""


def wrong(experiment: Experiment, recipe: Recipe) -> Trial:
    """Return a trial that fails: its graph needs coordinates, which the city has not."""
    serial = change(recipe, {"graph": {"kind": "distance"}}, source="")
    return make_trial(experiment, ModelSpec("Forecaster, graph distance", "Forecaster", serial), 0)


def test_a_failed_trial_does_not_affect_the_others(experiment: Experiment, recipe: Recipe) -> None:
    bad = wrong(experiment, recipe)
    good = [make_trial(experiment, ModelSpec(n, n, recipe), 0) for n in ("Ridge", "SeasonalNaive")]
    messages: list[str] = []
    failures = run_trials([good[0], bad, good[1], good[0]], experiment, 1, messages.append)
    assert list(failures) == [bad.folder]
    assert "a distance graph needs lat and lon" in failures[bad.folder]
    assert all(is_done(trial, experiment) for trial in good)
    assert [line for line in messages if " of 3: " in line] == [
        "1 of 3: Ridge, seed 0",
        "2 of 3: Forecaster, graph distance, seed 0",
        "3 of 3: SeasonalNaive, seed 0",
    ]


def test_an_interruption_is_not_a_failure(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise StoppedError("interrupted by SIGTERM")

    monkeypatch.setattr(workers, "run_trial", stop)
    with pytest.raises(StoppedError):
        run_trials(
            [make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)], experiment, 1, quiet
        )


def test_any_error_is_reported_and_the_others_go_on(
    experiment: Experiment, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials = [
        make_trial(experiment, ModelSpec(n, n, recipe), 0) for n in ("Ridge", "SeasonalNaive")
    ]
    monkeypatch.setattr(workers, "run_trial", lambda *_: 1 / 0)
    failures = run_trials(trials, experiment, 1, quiet)
    assert list(failures.values()) == ["ZeroDivisionError: division by zero"] * 2


@pytest.mark.slow
def test_processes_give_what_one_process_gives(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    bad = wrong(experiment, recipe)
    specs = [ModelSpec(n, n, recipe) for n in ("Ridge", "Forecaster")]
    failures = run_trials(
        [*(make_trial(experiment, e, 0) for e in specs), bad], experiment, 2, quiet
    )
    assert "a distance graph needs lat and lon" in failures.pop(bad.folder)
    assert not failures
    alone = Experiment(
        tmp_path / "alone", experiment.panel_folder, recipe, experiment.requested_weathers
    )
    run_trials([make_trial(alone, e, 0) for e in specs], alone, 1, quiet)
    for spec in specs:
        parallel, serial = (load_result(make_trial(s, spec, 0), s) for s in (experiment, alone))
        assert parallel is not None
        assert serial is not None
        assert parallel.errors["observed"].report() == serial.errors["observed"].report()


@pytest.mark.slow
def test_a_process_that_dies_is_a_failed_trial(experiment: Experiment, recipe: Recipe) -> None:
    trial = make_trial(experiment, ModelSpec("Ridge", "Ridge", recipe), 0)
    worker = workers._start(trial, experiment)
    worker.process.kill()
    assert worker.end() == "its process died (exit code -9); it may have run out of memory"


@pytest.mark.slow
def test_on_a_signal_all_processes_save_and_the_same_call_resumes(
    experiment: Experiment, recipe: Recipe
) -> None:
    endless = change(recipe, {"training": ENDLESS}, source="")
    trials = [
        make_trial(experiment, ModelSpec("Forecaster", "Forecaster", endless), seed)
        for seed in range(2)
    ]
    experiment.graph(endless, quiet)  # as before every evaluation: two would learn it at once

    def stop() -> None:
        # Two processes may be far apart on a busy machine: the first must not end meanwhile.
        logs = [trial.folder / "training" / "log.jsonl" for trial in trials]
        deadline = time.monotonic() + 120
        while not all(log.exists() for log in logs) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    messages: list[str] = []
    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(StoppedError, match="interrupted by SIGTERM; the same command resumes"):
        pytest.fail(
            f"the trials ended by themselves: {run_trials(trials, experiment, 2, messages.append)}"
        )
    thread.join()
    for trial in trials:
        assert any((trial.folder / "training").glob("*/manifest.json")), messages  # a checkpoint


@pytest.mark.slow
def test_processes_stop_when_the_one_that_started_them_is_gone(
    experiment: Experiment, recipe: Recipe, processes: Processes
) -> None:
    endless = change(recipe, {"training": ENDLESS}, source="")
    trial = make_trial(experiment, ModelSpec("Forecaster", "Forecaster", endless), 0)
    parent = processes.start(start_and_wait, trial, replace(experiment))
    log, deadline = trial.folder / "training" / "log.jsonl", time.monotonic() + 120
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    while time.monotonic() < deadline:
        try:
            with locked(trial.folder / "training"):
                break
        except RunError:
            time.sleep(0.1)
    else:
        pytest.fail("the training goes on without its parent")
    assert any((trial.folder / "training").glob("*/manifest.json"))  # what it had is saved


def start_and_wait(trial: Trial, experiment: Experiment) -> None:
    workers._start(trial, experiment).process.join()


def test_processes_share_the_processors() -> None:
    before = dict(os.environ)
    with workers._few_threads(1000):
        assert os.environ["OMP_NUM_THREADS"] == "1"
    assert dict(os.environ) == before
