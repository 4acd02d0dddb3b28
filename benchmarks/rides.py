"""A panel of random rides, for benchmarks of training, where the values do not matter."""

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations

HISTORY, HOURS, WEATHER = 700, 1_300, 7  # 7 + 32 calendar columns = 39 auxiliary


def random_rides(locations: int) -> Panel:
    """A panel of random counts and weather."""
    generator = np.random.default_rng(0)
    return Panel(
        values=generator.poisson(20, (HOURS, locations)).astype(np.float32),
        start=np.datetime64("2009-01-01T05", "s"),
        clock=Clock("America/New_York"),
        kind="count",
        locations=Locations.of_ids(str(i) for i in range(locations)),
        covariates=Covariates(
            tuple(f"w{i}" for i in range(WEATHER)),
            generator.normal(size=(HOURS, WEATHER)).astype(np.float32),
        ),
        local_covariates=LocalCovariates((), np.empty((0, HOURS, locations), dtype=np.float32)),
    )
