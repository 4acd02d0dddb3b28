"""Panels of any values, and splits whose last steps are held out."""

from collections.abc import Callable

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.splits import Splits

MakePanel = Callable[..., Panel]


@pytest.fixture(scope="session")
def panel_of() -> MakePanel:
    """Return a function that makes a panel of measurements from values, and maybe places."""

    def make(values: np.ndarray, locations: Locations | None = None) -> Panel:
        steps, places = values.shape
        return Panel(
            values=np.asarray(values, dtype=np.float32),
            start=np.datetime64("2015-03-01T05:00", "s"),
            clock=Clock("America/New_York"),
            kind="measurement",
            locations=locations or Locations.of_ids(f"p{n}" for n in range(places)),
            covariates=Covariates((), np.empty((steps, 0), np.float32)),
            local_covariates=LocalCovariates((), np.empty((0, steps, places), np.float32)),
        )

    return make


@pytest.fixture(scope="session")
def last_held_out() -> Callable[[Panel], Splits]:
    """Return a function that makes the last two steps validation and test, the rest training."""

    def make(panel: Panel) -> Splits:
        stamps = [f"{time}Z" for time in panel.times[[0, -3, -2, -1]]]
        ranges = ([(stamps[0], stamps[1])], [(stamps[2],) * 2], [(stamps[3],) * 2])
        return Splits(*ranges)

    return make
