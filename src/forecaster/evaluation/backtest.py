"""Forecasts of a fitted estimator against what came."""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.estimators.base import Estimator
from forecaster.estimators.predictor import Prediction
from forecaster.metrics import Errors, Intervals, Report, measure, measure_intervals
from forecaster.panel.panel import Panel

TIMED = 5  # forecasts whose time is taken
# Of the arrays of a run: scales, means, the graph, distances and what calibrates intervals are
# not fitted to targets.
BESIDE = (
    "shared.", "values.", "covariates.", "local_covariates.", "level.", "graph.", "diffusion.",
    "intervals.",
)  # fmt: skip

Form = Literal["static", "online"]  # calibrated once, or corrected at every origin
FORMS: tuple[Form, ...] = ("static", "online")


@dataclass(frozen=True, eq=False)
class Sureness:
    """What became of an estimator's quantiles on the test windows, by their form."""

    levels: tuple[float, ...]
    windows: Mapping[Form, Intervals]  # [B K]
    places: Mapping[Form, Intervals]  # [K N]

    @property
    def wanted(self) -> float:
        """How much should lie within the interval of the outermost two levels; 0 with one."""
        return self.levels[-1] - self.levels[0]


@dataclass(frozen=True, eq=False)
class Assessment:
    """What a fitted estimator did on the test windows, and what it cost."""

    errors: Mapping[Weather, Errors]  # [B K], by what was taken for the coming weather
    places: Errors  # [K N], with the first of those weathers
    origins: Int64[np.ndarray, " B"]  # seconds since 1970
    days: Int64[np.ndarray, " B"]  # local days since 1970 of the first target
    parameters: int
    milliseconds: float  # of one forecast of all locations
    seconds: float | None  # that training took; None: nobody saw
    sureness: Sureness | None = None  # with the first weather; None: the run has no quantiles

    @property
    def weather(self) -> Weather:
        """What was taken for the coming weather first: the one that the table is about."""
        return next(iter(self.errors))


def backtest(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weather: Weather = "observed",
) -> Report:
    """Return the scores of an estimator over the given origins."""
    forecast = estimator.predict(panel, origins, weather)
    truth = targets(panel, origins, forecast.shape[1])
    return measure(truth, forecast, estimator.recipe.metrics.mape_cut).report()


def assess(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weathers: Sequence[Weather] = ("observed",),
) -> Assessment:
    """Return what an estimator does over the given origins, for each knowledge of the weather."""
    cut = estimator.recipe.metrics.mape_cut
    found = estimator.predict_all(panel, origins, weathers[0])
    forecast = found.forecast
    truth = targets(panel, origins, forecast.shape[1])
    errors = {weathers[0]: measure(truth, forecast, cut)}
    for weather in weathers[1:]:
        errors[weather] = measure(truth, estimator.predict(panel, origins, weather), cut)
    first = panel.clock.local(panel.start + (origins + 1) * panel.clock.step)
    return Assessment(
        errors=errors,
        places=measure(truth.transpose(1, 2, 0), forecast.transpose(1, 2, 0), cut),
        origins=panel.times[origins].astype("datetime64[s]").astype(np.int64),
        days=first.astype("datetime64[D]").astype(np.int64),
        parameters=count_parameters(estimator.run) if estimator.run else 0,
        milliseconds=_time_forecast(estimator, panel, origins),
        seconds=estimator.seconds,
        sureness=_judge_quantiles(truth, found),
    )


def targets(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Float32[np.ndarray, "B K N"]:
    """Return what was to be forecast, NaN where it is missing."""
    return np.asarray(panel.values[origins[:, None] + np.arange(1, horizon + 1)])


def count_parameters(run: Run) -> int:
    """Return how many numbers were fitted: not the scales, the graph or the fill."""
    fitted = (array for name, array in run.arrays.items() if not name.startswith(BESIDE))
    return sum(array.size for array in fitted if array.dtype.kind == "f")


def _judge_quantiles(truth: Float32[np.ndarray, "B K N"], found: Prediction) -> Sureness | None:
    """Return what became of the quantiles in both forms; None: the run was saved without."""
    levels = found.calibration.levels
    if not levels:
        return None
    windows: dict[Form, Intervals] = {}
    places: dict[Form, Intervals] = {}
    for form in FORMS:
        quantiles = found.online if form == "online" else found.static
        q = quantiles.transpose(1, 0, 2, 3)  # [Q B K N]
        windows[form] = measure_intervals(truth, q, levels)
        places[form] = measure_intervals(truth.transpose(1, 2, 0), q.transpose(0, 2, 3, 1), levels)
    return Sureness(levels, windows, places)


def _time_forecast(estimator: Estimator, panel: Panel, origins: Int64[np.ndarray, " B"]) -> float:
    """Return the median milliseconds of a forecast from one origin; the first is not counted."""
    chosen = origins[np.linspace(0, len(origins) - 1, TIMED + 1).astype(np.int64)]
    taken = []
    for origin in chosen:
        began = time.perf_counter()
        estimator.predict(panel, np.array([origin]))
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken[1:])
