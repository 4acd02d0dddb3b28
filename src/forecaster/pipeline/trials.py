"""One trial of a comparison: a model with one seed, trained and tested in its own folder."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecaster.artifact import UNFINISHED
from forecaster.errors import ArtifactError, ForecasterError
from forecaster.estimators.base import Estimator
from forecaster.estimators.registry import find_estimator
from forecaster.evaluation.backtest import BacktestResult, backtest
from forecaster.evaluation.model_specs import ModelSpec
from forecaster.evaluation.refits import backtest_refitted
from forecaster.evaluation.storage import load_backtest, save_backtest, test_name
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.train import MessageCallback, RunInputs, train_run
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.recipe import Recipe, change
from forecaster.training.progress import ProgressCallback

TRAINING, REFITS = "training", "refits"  # folders of a trial
SECONDS = "seconds.json"  # the duration of its training
MAX_REASON = 2_000  # characters


@dataclass(frozen=True)
class Trial:
    """A model with one seed."""

    name: str
    estimator: str
    recipe: Recipe
    folder: Path
    tested: bool = True  # False: trained only, as an option for validation to choose

    @property
    def seed(self) -> int:
        """The seed of the initial weights."""
        return self.recipe.training.seed

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


def make_trial(
    experiment: Experiment, spec: ModelSpec, seed: int, *, tested: bool = True
) -> Trial:
    """Return the trial of a model and a seed."""
    recipe = change(spec.recipe, {"training": {"seed": seed}}, source=spec.name)
    recipe = find_estimator(spec.estimator)(recipe=recipe).recipe
    folder = experiment.trial_folder(spec.estimator, recipe)
    return Trial(spec.name, spec.estimator, recipe, folder, tested)


def run_trial(
    trial: Trial,
    experiment: Experiment,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
) -> None:
    """Train and test a trial; finished parts are not repeated."""
    if is_done(trial, experiment):
        return
    takes_graph = find_estimator(trial.estimator).takes_graph
    graph = experiment.graph(trial.recipe, say) if takes_graph else None
    inputs = RunInputs(panel=experiment.panel, graph=graph)
    trained = train_run(trial.estimator, trial.recipe, trial.folder, inputs, say, on_progress)
    estimator, seconds = trained.estimator, trial.folder / SECONDS
    if not trained.was_finished:
        replace_file(seconds, bytes_writer(json.dumps(estimator.seconds).encode()))
    if trial.tested and estimator.run is not None and load_result(trial, experiment) is None:
        say(f"testing {trial}")
        tested = backtest(estimator, experiment.panel, experiment.origins, experiment.weathers)
        tested = replace(tested, seconds=_read_seconds(seconds))
        save_backtest(result_folder(trial, experiment), tested, str(estimator.run.digest))
    if trial.tested and experiment.refit_days is not None:
        _test_refitted(trial, estimator, experiment, say, on_progress)
    shutil.rmtree(trial.folder / TRAINING, ignore_errors=True)  # checkpoints are no longer needed


def _test_refitted(
    trial: Trial,
    estimator: Estimator,
    experiment: Experiment,
    say: MessageCallback,
    on_progress: ProgressCallback | None,
) -> None:
    """Test a trained model that is refitted on the way; finished refits are not repeated."""
    days = experiment.refit_days
    if days is None or estimator.run is None:
        return

    def say_of(stage: str) -> None:
        say(f"{trial}: {stage}")

    tested = backtest_refitted(
        estimator,
        experiment.panel,
        experiment.origins,
        experiment.weathers,
        days,
        folder=trial.folder / REFITS,
        say=say_of,
        on_progress=on_progress,
    )
    save_backtest(result_folder(trial, experiment, days), tested, str(estimator.run.digest))


def is_done(trial: Trial, experiment: Experiment) -> bool:
    """Whether a trial is trained, and tested if it has to be."""
    if run_hash(trial, experiment) is None:
        return False
    results = (load_result(trial, experiment, days) for days in experiment.tests)
    return not trial.tested or all(result is not None for result in results)


def load_result(
    trial: Trial, experiment: Experiment, refit_days: int | None = None
) -> BacktestResult | None:
    """Return the backtest of a trial on the experiment's windows and weathers, or None.

    With a number of days it is that of the model refitted on the way. A damaged result counts as
    missing, as does one of a version that did not measure bias: the trial is tested again.
    """
    try:
        run = run_hash(trial, experiment)
        folder = result_folder(trial, experiment, refit_days)
        tested = load_backtest(folder, run) if run is not None else None
    except ArtifactError:
        return None
    if tested is None or tested.weather != experiment.weathers[0] or not tested.has_bias:
        return None
    if any(weather not in tested.errors for weather in experiment.weathers):
        return None
    times = experiment.panel.times[experiment.origins].astype("datetime64[s]").astype(np.int64)
    if not np.array_equal(tested.origins, times):
        return None
    return tested.under(experiment.weathers)


def result_folder(trial: Trial, experiment: Experiment, refit_days: int | None = None) -> Path:
    """Return the folder of a trial's backtest on the experiment's test windows."""
    return trial.folder / test_name(experiment.suffix, refit_days)


def run_hash(trial: Trial, experiment: Experiment) -> str | None:
    """Return the hash of a trial's run; None: it is not trained yet."""
    if not (trial.folder / MANIFEST).exists():
        return None
    manifest = read_manifest(trial.folder, kind="run")
    if UNFINISHED in manifest.about:
        return None
    if manifest.parents.get("panel") != experiment.panel.digest:
        message = f"{trial.folder}: trained on another panel than {experiment.panel_folder}"
        raise ArtifactError(f"{message}; remove the folder and run the command again")
    return manifest.digest


def validation_loss(trial: Trial) -> float:
    """Return the lowest validation loss of a trained network."""
    learned = read_manifest(trial.folder, kind="run").about["learned"]
    return min(float(epoch["validation_loss"]) for epoch in learned["training"]["epochs"])


def failure_reason(error: Exception) -> str:
    """Return the reason of a failed trial as text for the table."""
    if isinstance(error, ForecasterError):
        return str(error)[:MAX_REASON]
    if isinstance(error, MemoryError):
        return "out of memory"
    return f"{type(error).__name__}: {error}"[:MAX_REASON]


def _read_seconds(path: Path) -> float | None:
    try:
        seconds = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return float(seconds) if isinstance(seconds, int | float) else None
