from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.config import GraphConfig, LagConfig, ModelConfig, Season, TrainingConfig
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import Recipe
from forecaster.splits import Splits

HOURS = 24 * 47


@pytest.fixture(autouse=True)
def _small_sums(one_thread: None) -> None:
    """Compute with one thread in all of these tests."""


@pytest.fixture
def recipe() -> Recipe:
    seasons = (
        Season(days=1, count=3, before=1, after=3),
        Season(days=7, count=2, before=1, after=3),
    )
    return Recipe(
        lags=LagConfig(recent=2, seasons=seasons, horizon=3),
        graph=GraphConfig(kind="inverse"),
        model=ModelConfig(per_location=2, auxiliary=4, heads=2),
        training=TrainingConfig(epochs=1, batch=256),
    )


@pytest.fixture
def make_panel() -> Callable[..., Panel]:
    """Return a function that makes a panel of given values, with nothing else known."""

    def make(values: np.ndarray, kind: str = "count", **parts: object) -> Panel:
        steps, places = values.shape
        panel = Panel(
            values=values.astype(np.float32),
            start=np.datetime64("2015-10-01T04", "s"),
            clock=Clock("America/New_York"),
            kind="count" if kind == "count" else "measurement",
            locations=Locations.of_ids(f"p{n}" for n in range(places)),
            covariates=Covariates((), np.empty((steps, 0), np.float32)),
            local_covariates=LocalCovariates((), np.empty((0, steps, places), np.float32)),
        )
        return replace(panel, **parts)  # type: ignore[arg-type]

    return make


@pytest.fixture
def splits() -> Splits:
    return Splits(
        train=[("2015-10-01", "2015-11-05")],
        validation=[("2015-11-06", "2015-11-09")],
        test=[("2015-11-10", "2015-11-16")],
    )
