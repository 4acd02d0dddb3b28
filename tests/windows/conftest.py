"""A panel with holes in everything, across a clock change, its covariates known ahead."""

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.config import LagConfig, Season
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations

STEPS, KNOWN, PLACES, WEATHER, OWN = 617, 631, 7, 3, 2  # M, S, N, P, Q: distinct primes


@pytest.fixture(scope="session")
def panel() -> Panel:
    """Return 617 hours of 7 locations in New York, covariates known 14 hours further."""
    generator = np.random.default_rng(3)
    values = generator.poisson(30, (STEPS, PLACES)).astype(np.float32)
    weather = generator.normal(8, 4, (KNOWN, WEATHER)).astype(np.float32)
    own = generator.normal(-1, 2, (OWN, KNOWN, PLACES)).astype(np.float32)
    weather[:, 1] = generator.random(KNOWN) < 0.3  # flags
    own[1] = generator.random((KNOWN, PLACES)) < 0.3
    for array in (values, weather, own):
        array[generator.random(array.shape) < 0.06] = np.nan
    return Panel(
        values=values,
        start=np.datetime64("2015-10-20T04:00:00", "s"),
        clock=Clock("America/New_York", 60, Holidays("US", 2015, 2016, ("2015-11-11",))),
        kind="count",
        locations=Locations.of_ids(f"p{n}" for n in range(PLACES)),
        covariates=Covariates(("temperature", "fog", "wind"), weather),
        local_covariates=LocalCovariates(("queue", "closed"), own),
    )


@pytest.fixture(scope="session")
def train(panel: Panel) -> np.ndarray:
    """Return a training set with a hole."""
    inside = np.zeros(len(panel.values), dtype=bool)
    inside[:211] = inside[307:431] = True
    return inside


@pytest.fixture(scope="session")
def lags() -> LagConfig:
    """Return 4 + 3 · 2 + 3 · 1 = 13 past steps (L) and 5 coming ones (K)."""
    daily = Season(days=1, count=2, before=1, after=1)
    weekly = Season(days=7, count=1, before=0, after=2)
    return LagConfig(recent=4, seasons=(daily, weekly), horizon=5)
