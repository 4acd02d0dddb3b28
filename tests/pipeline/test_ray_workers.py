"""Trials on Ray: the same numbers, and trials that go on after their worker has died."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from forecaster.evaluation.model_specs import ModelSpec
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.trials import Trial, is_done, load_result, make_trial
from forecaster.pipeline.workers import run_trials
from forecaster.recipe import Recipe, change
from tests.pipeline.test_workers import quiet, wrong

pytest.importorskip("ray", reason="ray is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray's own modules
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # its processes end after it
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_ray_gives_what_one_process_gives(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    bad = wrong(experiment, recipe)
    specs = [ModelSpec(n, n, recipe) for n in ("Ridge", "Forecaster")]
    experiment.graph(recipe, quiet)
    trials = [*(make_trial(experiment, spec, 0) for spec in specs), bad]
    failures = run_trials(trials, experiment, 2, quiet, engine="ray")
    assert "a distance graph needs lat and lon" in failures.pop(bad.folder)
    assert not failures
    alone = Experiment(
        tmp_path / "alone", experiment.panel_folder, recipe, experiment.requested_weathers
    )
    run_trials([make_trial(alone, spec, 0) for spec in specs], alone, 1, quiet)
    for spec in specs:
        assert_same(make_trial(experiment, spec, 0), experiment, make_trial(alone, spec, 0), alone)


def test_a_trial_whose_worker_is_killed_is_taken_up_again(
    experiment: Experiment, recipe: Recipe, tmp_path: Path
) -> None:
    long = change(recipe, {"training": {"epochs": 3, "patience": 3}}, source="")
    spec = ModelSpec("Forecaster", "Forecaster", long)
    trial = make_trial(experiment, spec, 0)
    experiment.graph(long, quiet)
    killed: list[int] = []

    def kill() -> None:
        log, deadline = trial.folder / "training" / "log.jsonl", time.monotonic() + 600
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in worker_pids():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    failures = run_trials([trial], experiment, 1, quiet, engine="ray")
    thread.join()
    assert killed
    assert not failures
    assert is_done(trial, experiment)
    alone = Experiment(
        tmp_path / "alone", experiment.panel_folder, recipe, experiment.requested_weathers
    )
    calm = make_trial(alone, spec, 0)
    run_trials([calm], alone, 1, quiet)
    assert_same(trial, experiment, calm, alone)


def assert_same(trial: Trial, experiment: Experiment, other: Trial, alone: Experiment) -> None:
    """Compare the error sums of two backtests bit by bit."""
    first, second = load_result(trial, experiment), load_result(other, alone)
    assert first is not None
    assert second is not None
    for weather, errors in first.errors.items():
        for name, sums in vars(errors).items():
            assert np.array_equal(sums, getattr(second.errors[weather], name)), name


def worker_pids() -> list[int]:
    """Return the processes that run a trial for Ray."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = path.read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::_work"):
            pids.append(int(path.parent.name))
    return pids
