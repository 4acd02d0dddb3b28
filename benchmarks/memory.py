"""The memory that a fit of `best` takes: a year of five minutes at 300 sensors."""

import resource
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

from benchmarks.measure import at_most, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.clock.clock import Clock  # noqa: E402
from forecaster.config import LagConfig, Season, TrainingConfig  # noqa: E402
from forecaster.estimators.networks.forecaster import Forecaster  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import Covariates, LocalCovariates, Locations  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.training import together  # noqa: E402
from forecaster.training.loop import train  # noqa: E402
from forecaster.training.progress import TrainingResult  # noqa: E402
from forecaster.training.task import TrainingTask  # noqa: E402

GIB, LIMIT_GIB = 2**30, 3.0
DAYS, SENSORS, STEP_MINUTES = 365, 300, 5
DAY_STEPS = 24 * 60 // STEP_MINUTES
TRAINED, VALIDATED = 192, 256  # windows; more of them take time, not memory
LAGS = LagConfig(
    recent=12,
    horizon=12,
    seasons=(
        Season(days=1, count=6, before=1, after=12),
        Season(days=7, count=4, before=1, after=12),
    ),
)


def main() -> None:
    """Fit in a process of its own, and compare its largest size with the limit and the panel."""
    days = DAYS // 5 if OPTIONS.quick else DAYS
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        peak, size = pool.submit(measure_fit, days).result()
    against = f"the values of {days} days × {SENSORS} sensors ({size / GIB:.2f} GiB)"
    results = [
        at_most("peak of a fit", peak / GIB, "GiB", LIMIT_GIB),
        at_most("peak of a fit", peak / size, against, LIMIT_GIB * GIB / size),
    ]
    report(OPTIONS, [f"{days} days × {SENSORS} sensors: peak {peak / GIB:.2f} GiB"], results)


def measure_fit(days: int) -> tuple[int, int]:
    """The largest size of this process after a fit to random speeds, and of the values, in bytes.

    Only a few windows are trained; all else is as in a whole fit.
    """
    panel = _random_speeds(days)
    recipe = Recipe(preset="best", lags=LAGS, training=TrainingConfig(epochs=1))
    with patch.object(together, "train", _train_little):
        Forecaster(recipe=recipe).fit(panel, Splits.by_share(panel))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, panel.values.nbytes


def _train_little(task: TrainingTask, **settings: Any) -> TrainingResult:
    small = replace(task, train=task.train[:TRAINED], validation=task.validation[:VALIDATED])
    return train(small, **settings)


def _random_speeds(days: int) -> Panel:
    M, generator = days * DAY_STEPS, np.random.default_rng(0)
    values = np.empty((M, SENSORS), dtype=np.float32)
    mean = 60 + 20 * np.cos(2 * np.pi * np.arange(DAY_STEPS) / DAY_STEPS)
    for first in range(0, M, DAY_STEPS):  # a draw of all at once would be counted too
        noise = generator.standard_normal((DAY_STEPS, SENSORS), dtype=np.float32)
        values[first : first + DAY_STEPS] = mean[:, None] + 5 * noise
    ids = tuple(f"S{n:03d}" for n in range(SENSORS))
    line = np.linspace(0.0, 1.0, SENSORS)
    return Panel(
        clock=Clock("UTC", STEP_MINUTES),
        start=np.datetime64("2012-01-02T00:00:00"),
        values=values,
        locations=Locations(ids, ids, 34 + line, -118 + line),
        covariates=Covariates((), np.empty((M, 0), dtype=np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, M, SENSORS), dtype=np.float32)),
        kind="measurement",
    )


if __name__ == "__main__":
    main()
