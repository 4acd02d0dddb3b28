"""Trains a run from a recipe: panel, graph and training in one folder."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forecaster.artifact import UNFINISHED, begin_run
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.base import Estimator
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.match import explain_lags, with_lags, with_meaning
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.networks.peers import GraphWaveNet
from forecaster.estimators.registry import find_estimator, load_estimator
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import open_graph, save_graph
from forecaster.ingest.build import build_panel, find_sources
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.training.distributed import is_first_process
from forecaster.training.progress import ProgressCallback

TAKE_GRAPHS = (Forecaster, Ensemble, GraphWaveNet)  # which a graph can be given to

MessageCallback = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class RunInputs:
    """The inputs of a run; those that are None are built from the recipe in the run's folder."""

    panel: Panel | None = None  # as saved
    graph: DependencyGraph | None = None  # as saved
    data: Path | None = None  # folder of the recipe's files


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A trained run."""

    estimator: Estimator
    was_finished: bool  # before this call


def train_run(
    name: str,
    recipe: Recipe,
    folder: Path,
    inputs: RunInputs,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
) -> TrainedRun:
    """Train an estimator in a folder; repeating the call resumes an interrupted training.

    The folder becomes the run. It also holds `panel` and `graph`, if they had to be built, and
    `training` with the checkpoints and the log.
    """
    estimator_type, unresolved = _estimator_type(name, inputs), recipe
    recipe = estimator_type(recipe=_suited(recipe, folder, inputs)).recipe
    if not is_first_process():
        _wait(folder)
    if begin_run(folder, name, recipe):
        return TrainedRun(_finished(folder, inputs), was_finished=True)
    panel = inputs.panel
    if panel is None:
        panel = _panel(folder / "panel", recipe, inputs, say)
    if with_lags(unresolved, panel) is not unresolved:
        say(f"lags: {explain_lags(unresolved, panel)}")
    splits = Splits.from_config(panel, recipe.splits, recipe.lags.horizon)
    estimator = estimator_type(recipe=recipe)
    if isinstance(estimator, TAKE_GRAPHS):
        estimator.graph = inputs.graph
        if inputs.graph is None and estimator.takes_graph:
            estimator.graph = _graph(folder / "graph", panel, splits, recipe, say)
    backend = estimator.backend if isinstance(estimator, NetworkEstimator | Ensemble) else ""
    say(f"training {name}; {backend}" if backend else f"training {name}")
    estimator.fit(panel, splits, folder=folder / "training", on_progress=on_progress)
    if is_first_process():
        estimator.save(folder)
    return TrainedRun(estimator, was_finished=False)


def _suited(recipe: Recipe, folder: Path, inputs: RunInputs) -> Recipe:
    """Return the recipe with the meaning of the given panel, or the lags of the trained run's."""
    if inputs.panel is not None:
        return with_meaning(recipe, inputs.panel)
    built, manifest = folder / "panel", folder / MANIFEST
    if not (built / MANIFEST).exists() or not manifest.exists():
        return recipe
    if UNFINISHED in read_manifest(folder, kind="run").about:
        return recipe
    return with_lags(recipe, Panel.open(built, verify=False))


def _estimator_type(name: str, inputs: RunInputs) -> type[Estimator]:
    estimator_type = find_estimator(name)
    if inputs.graph is not None and not issubclass(estimator_type, TAKE_GRAPHS):
        raise ConfigError(f"{name} uses no graph; give none, or train Forecaster or GraphWaveNet")
    return estimator_type


def _panel(folder: Path, recipe: Recipe, inputs: RunInputs, say: MessageCallback) -> Panel:
    """Return the panel of a recipe, built on first use; its meaning must match the recipe."""
    if not (folder / MANIFEST).exists() and is_first_process():
        if inputs.data is None:
            raise ConfigError("no panel given; give one, or the folder of the recipe's files")
        say("building the panel")
        panel = build_panel(recipe, find_sources(recipe, inputs.data), say=say)
        built = with_meaning(recipe, panel).panel
        if built != recipe.panel:
            raise ConfigError(f"the recipe has panel {recipe.panel}, but its files give {built}")
        return panel.save(folder, recipe)
    _wait(folder)
    return Panel.open(folder)


def _graph(
    folder: Path, panel: Panel, splits: Splits, recipe: Recipe, say: MessageCallback
) -> DependencyGraph:
    """Return the graph of a panel's training steps, learned on first use."""
    if not (folder / MANIFEST).exists() and is_first_process():
        graph = learn_graph(panel, splits, recipe.graph, lags=recipe.lags, progress=say)
        return save_graph(graph, folder, recipe)
    _wait(folder)
    return open_graph(folder)


def _finished(folder: Path, inputs: RunInputs) -> Estimator:
    """Load a finished run; it must have been trained on the given inputs."""
    estimator = load_estimator(folder)
    for name, artifact in (("panel", inputs.panel), ("graph", inputs.graph)):
        trained_on = "none" if estimator.run is None else estimator.run.parents.get(name, "none")
        if artifact is not None and artifact.digest != trained_on:
            message = f"{folder}: trained on {name} {trained_on[:12]}, not on the given one"
            raise ArtifactError(f"{message} ({str(artifact.digest)[:12]}); choose another folder")
    return estimator


def _wait(folder: Path) -> None:
    """Wait until the first process has published an artifact."""
    while not (folder / MANIFEST).exists():
        time.sleep(0.1)
