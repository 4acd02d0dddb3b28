"""Forecasts from many origins with calibrated quantiles, each origin forecast once."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.errors import RunError, count_of
from forecaster.estimators.closed import find_closed
from forecaster.estimators.forecast_inputs import Changes
from forecaster.estimators.intervals.calibration import Base, Calibration, local_hours
from forecaster.estimators.intervals.online import OnlineCalibration, step_number
from forecaster.estimators.intervals.online_store import OnlineStore
from forecaster.estimators.wrong_values.value_ranges import RANGE
from forecaster.panel.panel import Panel

IMPOSSIBLE = 1e6  # times the largest value of training
_UNKNOWN_RANGE = np.full(1, 1e24, dtype=np.float32)  # of runs saved without ranges
VALUES_AT_ONCE = 2**23  # forecast values of earlier origins held at a time
log = logging.getLogger(__name__)


class WindowForecasts(NamedTuple):
    """The forecasts of B windows as a model gives them."""

    mean: Float32[np.ndarray, "B K N"]
    quantiles: Float32[np.ndarray, "B Q K N"]  # Q = 0: the model has none of its own
    relative: Float32[np.ndarray, "B K N"] | None = None  # lowest MAPE; None: the mean serves both
    doubt: Float32[np.ndarray, "B N"] | None = None  # by how many spreads intervals are widened
    closed: Bool[np.ndarray, "B K N"] | None = None  # where there is nothing to forecast


ForecastOrigins = Callable[[np.ndarray, Changes | None], WindowForecasts]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Forecasts from B origins, with static and online quantiles."""

    base: Base
    calibration: Calibration
    corrections: Float64[np.ndarray, "#B Q K"]  # by the outcomes observed up to each origin

    @property
    def forecast(self) -> Float32[np.ndarray, "B K N"]:
        """The forecasts of the mean: RMSE, MAE, bias and sums are of these."""
        return self.base.forecast

    @property
    def relative(self) -> Float32[np.ndarray, "B K N"]:
        """The forecasts with the lowest relative error, for MAPE; the mean without such ones."""
        return self.base.forecast if self.base.relative is None else self.base.relative

    @property
    def static(self) -> Float32[np.ndarray, "B Q K N"]:
        """The quantiles as they were calibrated on the validation windows."""
        return self.calibration.correct(self.base, self.calibration.corrections)

    @property
    def online(self) -> Float32[np.ndarray, "B Q K N"]:
        """The quantiles corrected by the outcomes observed up to each origin."""
        return self.calibration.correct(self.base, self.corrections)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted estimator on one panel: forecasts of its locations, or of a sum of them."""

    panel: Panel  # by the run's locations, or the sum as a panel of one location
    forecast_origins: ForecastOrigins
    calibration: Calibration
    # Which forecasts from some steps count for online calibration: [S], or by location [S N].
    counts: Callable[[np.ndarray], np.ndarray]
    observed: Callable[[np.ndarray], np.ndarray] | None = None  # outcomes; None: of the panel
    store: OnlineStore | None = None  # of the online corrections; None: they are not stored

    def base(self, origins: Int64[np.ndarray, " B"], changes: Changes | None = None) -> Base:
        """The forecasts, and their quantiles before any correction.

        Args:
            origins: steps of the panel.
            changes: covariates ahead to replace.
        """
        forecast, quantiles, relative, doubt, closed = self.forecast_origins(origins, changes)
        ahead = origins[:, None] + np.arange(1, forecast.shape[1] + 1)
        hours = local_hours(self.panel, ahead)
        base = self.calibration.base(forecast, quantiles, hours, relative)
        return replace(base, doubt=doubt, closed=closed)

    def outcomes(self, steps: Int64[np.ndarray, " S"]) -> Float32[np.ndarray, "S N"]:
        """The observed values by which quantiles are corrected; NaN: missing or doubtful."""
        return np.asarray(
            self.panel.values[steps] if self.observed is None else self.observed(steps)
        )

    def predict(self, origins: Int64[np.ndarray, " B"]) -> Prediction:
        """The forecasts and both forms of their quantiles."""
        base, calibration = self.base(origins), self.calibration
        if not calibration.levels:
            return Prediction(base, calibration, calibration.corrections[None])
        return Prediction(base, calibration, self._follow_outcomes(origins, base))

    def predict_changed(
        self, prediction: Prediction, origins: Int64[np.ndarray, " B"], changes: Changes
    ) -> Prediction:
        """The prediction with other covariates ahead, and the same corrections.

        Corrections come from outcomes under the observed covariates. With changed covariates the
        width of an interval changes only as far as the estimator's own quantiles do.
        """
        return replace(prediction, base=self.base(origins, changes))

    def _follow_outcomes(
        self, origins: Int64[np.ndarray, " B"], base: Base
    ) -> Float64[np.ndarray, "B Q K"]:
        """The online corrections at each origin, from the base forecasts of the origins."""
        online = OnlineCalibration(
            self.calibration, step_number(self.panel), looks_ahead=self.store is not None
        )
        if self.store is not None:
            self.store.restore(online, self.panel, int(origins.min()))
        distinct, rows, inverse = np.unique(origins, return_index=True, return_inverse=True)
        cycles = np.array([online.cycle(step) for step in distinct.tolist()])
        at_once = max(VALUES_AT_ONCE // max(base.forecast[0].size, 1), 1)
        corrections = []
        for cycle in np.unique(cycles):  # in order: a cycle's forecasts also serve the next one
            in_cycle = distinct[cycles == cycle].tolist()
            last = in_cycle[-1]
            steps = np.array(online.unobserved(last), dtype=np.int64)
            if len(steps):  # none where a stored state has followed the origin
                online.observe(steps.tolist(), self.outcomes(steps), self.counts(steps))
            already_forecast = np.flatnonzero(np.isin(distinct, steps))
            online.add(distinct[already_forecast].tolist(), base.rows(rows[already_forecast]))
            while unforecast := online.unforecast(last)[:at_once]:
                online.add(unforecast, self.base(np.array(unforecast)))
                online.follow(last)
            corrections += [online.corrections(step) for step in in_cycle]
        if self.store is not None:
            self.store.keep(online, self.panel, int(distinct[-1]))
        return np.stack(corrections)[inverse]


def join_blocks(blocks: Sequence[WindowForecasts]) -> WindowForecasts:
    """The forecasts of consecutive blocks of origins as one."""
    mean, quantiles, *optional_parts = zip(*blocks, strict=True)
    optional = (
        None if any(part is None for part in parts) else np.concatenate(parts)
        for parts in optional_parts
    )
    return WindowForecasts(np.concatenate(mean), np.concatenate(quantiles), *optional)


def close(
    run: Run, panel: Panel, origins: Int64[np.ndarray, " B"], forecasts: WindowForecasts
) -> WindowForecasts:
    """The forecasts with those of closed locations at zero, or of measurements missing.

    Args:
        run: that made them.
        panel: matched to the run.
        origins: of the forecasts.
        forecasts: in the order of the run's locations.
    """
    closed = find_closed(run, panel, origins, forecasts.mean.shape[1])
    if closed is None:
        return forecasts
    nothing = np.float32(0 if run.about["kind"] == "count" else np.nan)
    relative = forecasts.relative
    return forecasts._replace(
        mean=np.where(closed, nothing, forecasts.mean),
        relative=None if relative is None else np.where(closed, nothing, relative),
        closed=closed,
    )


def finish(run: Run, forecast: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
    """Refuse impossible values; set negative forecasts of counts to 0."""
    refuse_impossible(run, forecast)
    if run.about["kind"] != "count":
        return forecast
    below = int((forecast < 0).sum())
    if below:
        log.info("%s: %s below zero set to 0", run.estimator, count_of(below, "forecast"))
    return np.asarray(np.maximum(forecast, np.float32(0)))


def refuse_impossible(run: Run, forecast: Float32[np.ndarray, "..."]) -> None:
    """Refuse NaN, infinity, and values a million times the largest of training."""
    if not np.isfinite(forecast).all():
        raise RunError(f"{run.estimator} gave NaN or infinity; the forecast is refused")
    if not forecast.size:
        return
    largest = max(float(np.abs(run.arrays.get(RANGE, _UNKNOWN_RANGE)).max(initial=0)), 1.0)
    extreme = float(np.abs(forecast).max())
    if extreme > IMPOSSIBLE * largest:
        message = f"{run.estimator} forecasts {extreme:.2g}, where training has at most"
        advice = "the forecast is refused; its weights may be damaged: train it again"
        raise RunError(f"{message} {largest:.2g}; {advice}")
