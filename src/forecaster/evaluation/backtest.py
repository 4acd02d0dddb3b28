"""A backtest: the errors of a fitted estimator's forecasts over past origins, and its costs.

RMSE, MAE, WAPE and bias are of the forecast mean. MAPE is of the forecasts with the lowest
relative error, if the model has such an output.
"""

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.estimators.base import Estimator
from forecaster.estimators.ensemble.members import own_name
from forecaster.estimators.fallback.served import served_models
from forecaster.estimators.intervals.calibration import Base, local_hours
from forecaster.estimators.match import location_order
from forecaster.estimators.predictor import Prediction, WindowForecasts, close
from forecaster.evaluation.bias import location_sizes
from forecaster.evaluation.day_totals import DayTotals, score_day_totals
from forecaster.metrics import ErrorSums, IntervalSums, sum_errors, sum_intervals
from forecaster.panel.panel import Panel

TIMED = 5  # forecasts that are timed
DAY_MINUTES = 24 * 60
# Arrays of a run that are not fitted parameters: scales, means, graph, distances, calibration.
NOT_FITTED = (
    "shared.", "values.", "covariates.", "local_covariates.", "level.", "graph.", "diffusion.",
    "intervals.", "fallback.", "past_only.", "ensemble.factor",
)  # fmt: skip

CalibrationMode = Literal["static", "online"]  # calibrated once, or updated at every origin
CALIBRATION_MODES: tuple[CalibrationMode, ...] = ("static", "online")


@dataclass(frozen=True, eq=False)
class IntervalResults:
    """Interval scores of an estimator's quantiles on the test windows, by calibration mode."""

    levels: tuple[float, ...]  # of the quantiles
    by_window: Mapping[CalibrationMode, IntervalSums]  # [B K]
    by_location: Mapping[CalibrationMode, IntervalSums]  # [K N]

    @property
    def nominal_coverage(self) -> float:
        """The share of values between the outermost two quantiles, by definition; 0 with one."""
        return self.levels[-1] - self.levels[0]


@dataclass(frozen=True, eq=False)
class OwnErrors:
    """Errors of a model alone, without the simple ones that are served at some locations."""

    errors: Mapping[Weather, ErrorSums]  # [B K]
    by_location: ErrorSums  # [K N]


@dataclass(frozen=True)
class Refits:
    """The refits of a model on the way through the test windows."""

    days: int  # between two of them
    dates: tuple[str, ...]  # local
    seconds: tuple[float | None, ...]  # of each; None: unknown


@dataclass(frozen=True, eq=False)
class BacktestResult:
    """Errors and interval scores of a fitted estimator on the test windows, and its costs."""

    errors: Mapping[Weather, ErrorSums]  # [B K], by the covariates assumed after the origin
    by_location: ErrorSums  # [K N], with the first of those weathers
    origins: Int64[np.ndarray, " B"]  # seconds since 1970
    days: Int64[np.ndarray, " B"]  # local days since 1970 of the first target
    parameters: int
    milliseconds: float  # of one forecast of all locations
    seconds: float | None  # of training; None: unknown
    interval_results: IntervalResults | None = None  # with the first weather; None: no quantiles
    has_relative: bool = False  # MAPE is of a second output; otherwise of the mean
    location_sizes: Float64[np.ndarray, " N"] | None = None  # mean |value| in training
    hours: Int64[np.ndarray, "B K"] | None = None  # of the local day; None: steps of days
    fallback: Mapping[str, int] | None = None  # locations of simple models; None: not compared
    own: OwnErrors | None = None  # None: the model is served everywhere
    day_totals: DayTotals | None = None  # None: the horizon is shorter than a day
    members: Mapping[str, Any] | None = (
        None  # of an ensemble, with their weights; None: it is none
    )
    refits: Refits | None = None  # None: the model stayed as it was fitted

    def under(self, weathers: Iterable[Weather]) -> "BacktestResult":
        """The result with errors under these weather assumptions only, in this order."""
        chosen, own = list(weathers), self.own
        if own is not None:
            own = replace(own, errors={w: own.errors[w] for w in chosen})
        return replace(self, errors={w: self.errors[w] for w in chosen}, own=own)

    @property
    def has_bias(self) -> bool:
        """Whether signed errors are known; earlier versions have not stored them."""
        return bool(np.isfinite(self.by_location.signed).all())

    @property
    def weather(self) -> Weather:
        """The first assumption about covariates after the origin, which the table reports."""
        return next(iter(self.errors))


def backtest(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weathers: Sequence[Weather] = ("observed",),
) -> BacktestResult:
    """Score an estimator's forecasts from the given origins, under each weather assumption."""
    cut = estimator.recipe.metrics.mape_cut
    prediction = estimator.predict_all(panel, origins, weathers[0])
    base = prediction.base
    truth = _without_closed(targets(panel, origins, base.forecast.shape[1]), base)
    errors = {weathers[0]: sum_errors(truth, base.forecast, cut, base.relative)}
    for weather in weathers[1:]:
        substituted = _forecast(estimator, panel, origins, weather)
        errors[weather] = sum_errors(truth, substituted.forecast, cut, substituted.relative)
    first_targets = panel.clock.local(panel.instants(origins + 1))
    return BacktestResult(
        errors=errors,
        by_location=_sum_by_location(truth, base.forecast, base.relative, cut),
        origins=panel.times[origins].astype("datetime64[s]").astype(np.int64),
        days=first_targets.astype("datetime64[D]").astype(np.int64),
        parameters=count_parameters(estimator.run) if estimator.run else 0,
        milliseconds=_time_forecast(estimator, panel, origins),
        seconds=estimator.seconds,
        interval_results=_score_quantiles(truth, prediction),
        has_relative=base.relative is not None,
        location_sizes=location_sizes(estimator.adapt(panel)[0], panel),
        hours=_target_hours(panel, origins, truth.shape[1]),
        fallback=estimator.run.about.get("fallback", {}).get("models") if estimator.run else None,
        own=_own_errors(estimator, panel, origins, weathers),
        day_totals=score_day_totals(estimator, panel, origins, prediction, weathers[0]),
        members=estimator.run.about.get("ensemble") if estimator.run else None,
    )


def targets(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Float32[np.ndarray, "B K N"]:
    """The observed values of the steps after each origin; NaN where missing."""
    return np.asarray(panel.values[origins[:, None] + np.arange(1, horizon + 1)])


def _without_closed(
    truth: Float32[np.ndarray, "B K N"], forecasts: Base | WindowForecasts
) -> Float32[np.ndarray, "B K N"]:
    """The observed values, missing where a closed location has no forecast to compare."""
    if forecasts.closed is None:
        return truth
    mean = forecasts.forecast if isinstance(forecasts, Base) else forecasts.mean
    return np.where(forecasts.closed & np.isnan(mean), np.float32(np.nan), truth)


def _forecast(
    estimator: Estimator, panel: Panel, origins: Int64[np.ndarray, " B"], weather: Weather
) -> Base:
    """The forecasts under another weather, in the order of the panel's locations."""
    predictor = estimator.predictor(panel, weather)
    return predictor.base(origins).at(location_order(predictor.panel.locations.ids, panel))


def _own_errors(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weathers: Sequence[Weather],
) -> OwnErrors | None:
    """The errors of the model alone; None: it is served everywhere."""
    run, cut = estimator.run, estimator.recipe.metrics.mape_cut
    if run is None or not served_models(run):
        return None
    run, matched = estimator.adapt(panel)
    own_arrays = {
        w: close(run, matched, origins, estimator.own_forecasts(run, matched, w, origins))
        for w in weathers
    }
    first = own_arrays[weathers[0]]
    truth = _without_closed(targets(matched, origins, run.recipe.lags.horizon), first)
    in_run_order = _sum_by_location(truth, first.mean, first.relative, cut)
    order = location_order(matched.locations.ids, panel)
    return OwnErrors(
        errors={w: sum_errors(truth, f.mean, cut, f.relative) for w, f in own_arrays.items()},
        by_location=ErrorSums(**{n: s[:, order] for n, s in vars(in_run_order).items()}),
    )


def _sum_by_location(
    truth: Float32[np.ndarray, "B K N"],
    forecast: Float32[np.ndarray, "B K N"],
    relative: Float32[np.ndarray, "B K N"] | None,
    cut: float,
) -> ErrorSums:
    """The error sums over windows of each step ahead and location."""
    axes = (1, 2, 0)
    relative = None if relative is None else relative.transpose(axes)
    return sum_errors(truth.transpose(axes), forecast.transpose(axes), cut, relative)


def _target_hours(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Int64[np.ndarray, "B K"] | None:
    """The hour of the local day of each target; None where a step is a day or longer."""
    if panel.clock.step_minutes >= DAY_MINUTES:
        return None
    return local_hours(panel, origins[:, None] + np.arange(1, horizon + 1))


def count_parameters(run: Run) -> int:
    """The number of fitted parameters, without scales, graph and fill values."""
    fitted = (
        array for name, array in run.arrays.items() if not own_name(name).startswith(NOT_FITTED)
    )
    return sum(array.size for array in fitted if array.dtype.kind == "f")


def _score_quantiles(
    truth: Float32[np.ndarray, "B K N"], prediction: Prediction
) -> IntervalResults | None:
    """Score the quantiles in both calibration modes; None: the run was saved without any."""
    levels = prediction.calibration.levels
    if not levels:
        return None
    by_window: dict[CalibrationMode, IntervalSums] = {}
    by_location: dict[CalibrationMode, IntervalSums] = {}
    calibration = prediction.calibration
    corrections = {"static": calibration.corrections, "online": prediction.corrections}
    for mode in CALIBRATION_MODES:
        widened = calibration.widen(prediction.base, corrections[mode])
        uncut = widened.transpose(1, 0, 2, 3)  # [Q B K N]
        q, counts = calibration.cut(uncut), bool(calibration.resolution)
        by_window[mode] = sum_intervals(truth, q, levels, uncut if counts else None)
        uncut, q = uncut.transpose(0, 2, 3, 1), q.transpose(0, 2, 3, 1)  # [Q K N B]
        by_location[mode] = sum_intervals(
            truth.transpose(1, 2, 0), q, levels, uncut if counts else None
        )
    return IntervalResults(levels, by_window, by_location)


def _time_forecast(estimator: Estimator, panel: Panel, origins: Int64[np.ndarray, " B"]) -> float:
    """The median time of a forecast from one origin, in milliseconds, without the first one."""
    timed_origins = origins[np.linspace(0, len(origins) - 1, TIMED + 1).astype(np.int64)]
    durations = []
    for origin in timed_origins:
        start = time.perf_counter()
        estimator.predict(panel, np.array([origin]))
        durations.append(1e3 * (time.perf_counter() - start))
    return statistics.median(durations[1:])
