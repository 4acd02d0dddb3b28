"""A small panel that has one of everything: null, 0, −0.0, a future, a place without a name."""

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations

STEPS, KNOWN, PLACES, WEATHER = 29, 37, 3, 2  # M, S, N, P: distinct primes


@pytest.fixture
def panel() -> Panel:
    """Return 29 hours of 3 locations in New York, weather and rain known 8 hours further."""
    values = np.arange(STEPS * PLACES, dtype=np.float32).reshape(STEPS, PLACES)
    values[5, 1], values[7, 2], values[11, 0] = np.nan, 0.0, -0.0
    weather = np.linspace(-7.0, 31.0, KNOWN * WEATHER, dtype=np.float32).reshape(KNOWN, WEATHER)
    weather[13, 1] = np.nan
    rain = np.arange(KNOWN * PLACES, dtype=np.float32).reshape(1, KNOWN, PLACES) / 7
    rain[0, 19, 2] = np.nan
    return Panel(
        values=values,
        start=np.datetime64("2014-07-03T22:00:00", "s"),
        clock=Clock("America/New_York", 60, Holidays("US", 2014, 2015, ("2014-07-04",))),
        kind="count",
        locations=Locations(
            ids=("7", "007", "z"),
            names=("Seventh Avenue", "James", "z"),
            lat=np.array([40.76, np.nan, 40.8]),
            lon=np.array([-73.98, np.nan, -73.9]),
            extra={"zone": (1, None, 3), "note": (None, None, None)},
        ),
        covariates=Covariates(("temperature", "wind"), weather),
        local_covariates=LocalCovariates(("rain",), rain),
        counts={"ambiguous_local_time": 0, "nonexistent_local_time": 0},
    )
