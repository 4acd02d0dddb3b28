"""How far back a model that goes on learns from: all training weeks, or the newest with decay.

After a change, old weeks mislead; without one, they help. So a model is fitted to both, and the
fit with the lower error on the validation windows is kept. With decay, a training window is taken
with probability 2^(−age / 8 weeks), and none that is older than 24 weeks.
"""

import logging
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.estimators.match import describe
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import FitResult, TrainingData, judged_windows
from forecaster.metrics import sum_errors
from forecaster.panel.fill import fit_fill
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.versions import PARENT

ALL, RECENT = "all weeks", "recent weeks"
HALF_LIFE_WEEKS = 8.0
REACH_WEEKS = 3 * HALF_LIFE_WEEKS  # older windows are left out
STREAM = 2  # of the generator: training draws from the streams before
_WEEK = np.timedelta64(7, "D") / np.timedelta64(1, "s")
log = logging.getLogger(__name__)


@runtime_checkable  # the shape checker of tests asks
class Fitting(Protocol):
    """The part of an estimator that is needed to fit and to judge it."""

    recipe: Recipe

    def fit_windows(self, data: TrainingData) -> FitResult:
        """Fit the model to the training windows."""

    def own_forecasts(
        self, run: Run, panel: Panel, weather: Weather, origins: Int64[np.ndarray, " B"]
    ) -> WindowForecasts:
        """The forecasts of a run from some origins."""


def fit_best_span(
    estimator: Fitting, data: TrainingData, start: Run
) -> tuple[FitResult, TrainingData]:
    """The fit with the lowest validation RMSE, to all training weeks or the newest, and its data.

    Args:
        estimator: that goes on from a run.
        data: of all training weeks.
        start: the run.
    """
    spans = {ALL: data}
    recent = _recent(data, estimator.recipe.training.seed)
    if recent is not None:
        spans[RECENT] = recent
    results, errors = {}, {}
    for name, span in spans.items():
        folder = None if data.folder is None else data.folder / name.replace(" ", "-")
        results[name] = estimator.fit_windows(replace(span, folder=folder))
        errors[name] = _validation_rmse(estimator, results[name], span)
        log.info("%s: validation RMSE %.4g", name, errors[name])
    best = min(errors, key=lambda name: errors[name])
    about = {"start": {"run": start.digest, "span": best, "rmse": errors}}
    parents = {**results[best].parents, **({PARENT: start.digest} if start.digest else {})}
    chosen = replace(
        results[best],
        about={**results[best].about, **about},
        parents=parents,
        seconds=sum(result.seconds or 0.0 for result in results.values()),
    )
    return chosen, spans[best]


def _recent(data: TrainingData, seed: int) -> TrainingData | None:
    """The newest training weeks, of whose windows fewer are taken the older they are.

    None where training is hardly longer than that.
    """
    panel = data.panel
    ages = _ages_in_weeks(data)
    if panel.clock.has_yearly_season or ages[data.train].max() <= REACH_WEEKS:
        return None
    train = data.train & (ages <= REACH_WEEKS)
    windows = replace(
        data.windows,
        train=_thin(data.windows.train, ages, seed),
        partial=_thin(data.windows.partial, ages, seed),
    )
    if not len(windows.train):
        return None
    return replace(data, train=train, windows=windows, fill=fit_fill(panel, train))


def _ages_in_weeks(data: TrainingData) -> Float64[np.ndarray, " M"]:
    """How long before the last training step each step is; negative after it."""
    times = data.panel.times.astype("datetime64[s]").astype(np.int64)
    return np.asarray((times[data.train].max() - times) / _WEEK)


def _thin(
    origins: Int64[np.ndarray, " B"], ages: Float64[np.ndarray, " M"], seed: int
) -> Int64[np.ndarray, " b"]:
    """Draw windows by their age, as a pure function of the seed and the origin."""
    key = np.array([seed, STREAM], dtype=np.uint64)
    drawn = np.random.Philox(key=key).random_raw(len(ages))[origins] / 2.0**64
    age = ages[origins]
    return np.asarray(origins[(age <= REACH_WEEKS) & (drawn < 0.5 ** (age / HALF_LIFE_WEEKS))])


def _validation_rmse(estimator: Fitting, result: FitResult, data: TrainingData) -> float:
    """The RMSE of a fit on the validation windows."""
    recipe = estimator.recipe
    judged = judged_windows(data, recipe.lags.horizon, recipe.intervals.quantiles)
    panel, origins = judged.panel, judged.windows.validation
    about = {**describe(panel, data.splits, data.windows), **result.about}
    arrays = {**result.arrays, **data.shared_arrays()}
    run = Run(type(estimator).__name__, estimator.recipe, about, arrays)
    forecast = estimator.own_forecasts(run, panel, "observed", origins).mean
    truth = panel.values[origins[:, None] + np.arange(1, forecast.shape[1] + 1)]
    rmse = sum_errors(truth, forecast, estimator.recipe.metrics.mape_cut).scores().rmse.value
    return float("inf") if rmse is None else rmse
