"""A run from a recipe: panel, graph and training, in one folder."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forecaster.artifact import begin_run
from forecaster.errors import ArtifactError, ConfigError
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import with_meaning
from forecaster.estimators.networks.estimator import NetworkEstimator
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import find_estimator, load_estimator
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import open_graph, save_graph
from forecaster.ingest.build import build_panel, find_sources
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.training.distributed import is_first_process
from forecaster.training.progress import ProgressCallback

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Ground:
    """What a run is trained on. What is None is made from the recipe, inside the run's folder."""

    panel: Panel | None = None  # as saved
    graph: DependencyGraph | None = None  # as saved
    data: Path | None = None  # folder with the files that the recipe names


@dataclass(frozen=True, eq=False)
class Trained:
    """A run that can forecast."""

    estimator: Estimator
    already: bool  # there was nothing left to do


def train_run(
    name: str,
    recipe: Recipe,
    folder: Path,
    ground: Ground,
    say: Say,
    watch: ProgressCallback | None = None,
) -> Trained:
    """Train an estimator in a folder; the same call on the same folder goes on where it ended.

    The folder becomes the run. Beside its manifest lie `panel` and `graph`, if they had to be
    made, and `training`, with the checkpoints and the log.
    """
    kind = _find(name, ground)
    if ground.panel is not None:
        recipe = with_meaning(recipe, ground.panel)
    if not is_first_process():
        _wait(folder)
    if begin_run(folder, name, recipe):
        return Trained(_finished(folder, ground), already=True)
    panel = ground.panel
    if panel is None:
        panel = _panel(folder / "panel", recipe, ground, say)
    splits = Splits.from_config(panel, recipe.splits)
    estimator = kind(recipe=recipe)
    if isinstance(estimator, Forecaster):
        estimator.graph = ground.graph
        if ground.graph is None:
            estimator.graph = _graph(folder / "graph", panel, splits, recipe, say)
    say(
        f"training {name}; {estimator.backend}"
        if isinstance(estimator, NetworkEstimator)
        else f"training {name}"
    )
    estimator.fit(panel, splits, folder=folder / "training", watch=watch)
    if is_first_process():
        estimator.save(folder)
    return Trained(estimator, already=False)


def _find(name: str, ground: Ground) -> type[Estimator]:
    kind = find_estimator(name)
    if ground.graph is not None and not issubclass(kind, Forecaster):
        raise ConfigError(f"{name} has no graph; leave it out, or train Forecaster")
    return kind


def _panel(folder: Path, recipe: Recipe, ground: Ground, say: Say) -> Panel:
    """Return the panel of a recipe, made if nobody has yet; it must mean what the recipe says."""
    if not (folder / MANIFEST).exists() and is_first_process():
        if ground.data is None:
            raise ConfigError("which panel? give one, or the folder with the recipe's files")
        say("building the panel")
        panel = build_panel(recipe, find_sources(recipe, ground.data), say=say)
        meant = with_meaning(recipe, panel).panel
        if meant != recipe.panel:
            raise ConfigError(f"the recipe's panel is {recipe.panel}, what it builds is {meant}")
        return panel.save(folder, recipe)
    _wait(folder)
    return Panel.open(folder)


def _graph(
    folder: Path, panel: Panel, splits: Splits, recipe: Recipe, say: Say
) -> DependencyGraph:
    """Return the graph of a panel's training steps, learned if nobody has yet."""
    if not (folder / MANIFEST).exists() and is_first_process():
        return save_graph(learn_graph(panel, splits, recipe.graph, progress=say), folder, recipe)
    _wait(folder)
    return open_graph(folder)


def _finished(folder: Path, ground: Ground) -> Estimator:
    """Return the estimator of a trained run, unless it was trained on something else."""
    estimator = load_estimator(folder)
    for name, given in (("panel", ground.panel), ("graph", ground.graph)):
        known = estimator.run.parents.get(name, "none") if estimator.run is not None else "none"
        if given is not None and given.digest != known:
            message = f"{folder}: trained on {name} {known[:12]}, and {str(given.digest)[:12]}"
            raise ArtifactError(f"{message} was given; choose another folder")
    return estimator


def _wait(folder: Path) -> None:
    """Wait until the first of several processes has made an artifact."""
    while not (folder / MANIFEST).exists():
        time.sleep(0.1)
