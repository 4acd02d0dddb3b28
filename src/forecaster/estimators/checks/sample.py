"""The panel of the checks: a few weeks of five locations, quick to fit any estimator to."""

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.config import (
    DCRNNConfig,
    GraphConfig,
    LagConfig,
    ModelConfig,
    Season,
    TrainingConfig,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.recipe import Recipe

HOURS, LOCATIONS, KNOWN_AHEAD = 24 * 43, 5, 4
MISSING = 0.01
RECIPE = Recipe(
    lags=LagConfig(recent=3, seasons=(Season(days=1, count=2, before=0, after=2),), horizon=2),
    graph=GraphConfig(kind="inverse"),
    model=ModelConfig(per_location=2, auxiliary=4, heads=2),
    dcrnn=DCRNNConfig(units=3, n_layers=1),
    training=TrainingConfig(epochs=1, batch=256),
)


def small_city(kind: str = "count", seed: int = 0) -> Panel:
    """A few weeks of five locations with two covariates known ahead and some missing values."""
    generator = np.random.default_rng(seed)
    clock = Clock("Europe/Berlin")
    start = np.datetime64("2021-03-01T00", "s")  # a clock change lies within
    hours = clock.local(clock.axis(start, HOURS)).astype("datetime64[h]").astype(np.int64) % 24
    level = np.array([3.0, 7.0, 13.0, 29.0, 53.0])
    rate = level * (1.2 + np.sin(hours / 24 * 2 * np.pi))[:, None]
    values = generator.poisson(rate).astype(np.float32)
    if kind == "measurement":
        values -= 20
    values[generator.random(values.shape) < MISSING] = np.nan
    weather = np.stack(
        [
            generator.normal(12, 5, HOURS + KNOWN_AHEAD),
            generator.integers(0, 2, HOURS + KNOWN_AHEAD),
        ]
    )
    return Panel(
        values=values,
        start=start,
        clock=clock,
        kind="count" if kind == "count" else "measurement",
        locations=Locations.of_ids(f"place {n}" for n in range(LOCATIONS)),
        covariates=Covariates(("temperature", "rain"), weather.T.astype(np.float32)),
        local_covariates=LocalCovariates.empty(HOURS + KNOWN_AHEAD, LOCATIONS),
    )
