"""An ensemble that is fitted in a process of its own, which a test kills."""

import os
import signal
from pathlib import Path

import torch

from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.recipe import change
from forecaster.splits import Splits
from forecaster.training.progress import ProgressUpdate

ENSEMBLE_RECIPE = change(
    RECIPE,
    {
        "preset": "best",
        "mixer": {"hidden": 8},
        "training": {"epochs": 2, "checkpoint_steps": 2},
        "ensemble": {"members": ["Forecaster", "STID-lags", "Ridge"], "seeds": 2},
    },
    source="test",
)


def complete(folder: Path, kill_at: int | None = None) -> None:
    """Fit and save the ensemble; at a step of all networks together the process kills itself."""
    torch.set_num_threads(2)
    folder.mkdir(exist_ok=True)
    if not (folder / "panel").exists():
        small_city().save(folder / "panel")
    panel = Panel.open(folder / "panel")

    def watch(update: ProgressUpdate) -> None:
        if kill_at is not None and update.step >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    graph = DependencyGraph.from_edges([("place 0", "place 3"), ("place 1", "place 2")], panel)
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    ensemble = Ensemble(graph, ENSEMBLE_RECIPE)
    ensemble.fit(panel, splits, folder=folder / "training", on_progress=watch)
    ensemble.save(folder / "run")
