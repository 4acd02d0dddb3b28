"""A service that answers from an ensemble."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.ensemble.ensemble import Ensemble
from forecaster.estimators.registry import load_estimator
from forecaster.graph.dependency import DependencyGraph
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.serve.data.live import LiveData
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.service import load_model
from tests.serve.conftest import Running, fit

SETTINGS = {
    "preset": "best",
    "ensemble": {"members": ["Forecaster", "STID-lags", "Ridge"]},
    "mixer": {"hidden": 4},
    "stid": {"embedding": 2, "n_layers": 1},
    "training": {"epochs": 1, "batch": 256},
}


@pytest.fixture
def run_of_three(panel: Panel, tmp_path: Path) -> Path:
    """Return the folder of an ensemble."""
    ids = panel.locations.ids
    graph = DependencyGraph.from_edges([(ids[0], ids[3])], panel)

    def make(recipe: Recipe) -> Estimator:
        return Ensemble(graph, change(recipe, SETTINGS, source="test"))

    return fit(panel, 0, tmp_path / "run", make)


def test_an_ensemble_is_served_as_the_command_forecasts(
    run_of_three: Path, live: LiveData, panel: Panel, start: Callable[..., Running]
) -> None:
    service = start(Engine(partial(load_model, run_of_three), live))
    answer = service.get("/v1/forecast").json
    estimator = load_estimator(run_of_three)
    table = estimator.forecast(panel, f"{panel.times[-1]}Z")
    for row in answer["forecasts"]:
        own = table[table["unique_id"] == row["id"]]
        for name in ("y_hat", "y_relative", "q10", "q90"):
            assert np.allclose(row[name], own[name], rtol=1e-5), name
    about = service.get("/v1/run").json
    assert about["estimator"] == "Ensemble"
    edges = service.get("/v1/graph").json["edges"]
    assert len(edges) == 1
