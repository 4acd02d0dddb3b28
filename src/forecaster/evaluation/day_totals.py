"""Backtests of totals: the sums of forecasts over days, from origins at the end of a day."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.choices import Weather
from forecaster.estimators.base import Estimator
from forecaster.estimators.intervals.calibration import RESIDUALS
from forecaster.estimators.match import location_order
from forecaster.estimators.predictor import Prediction
from forecaster.estimators.totals.past_totals import PastForecasts
from forecaster.estimators.totals.totals import HORIZON, Span, TotalCalibration
from forecaster.metrics import ErrorSums, IntervalSums, sum_errors, sum_intervals
from forecaster.panel.panel import Panel

DAY_MINUTES = 24 * 60


@dataclass(frozen=True, eq=False)
class DayTotals:
    """Scores of the totals of the first, second … day ahead, from D origins."""

    errors: ErrorSums  # [D J]
    intervals: IntervalSums  # [D J]


def score_day_totals(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    prediction: Prediction,
    weather: Weather = "observed",
) -> DayTotals | None:
    """Score the totals of whole local days; None: there is none, or no interval to score.

    Args:
        estimator: fitted.
        panel: observed values.
        origins: of the prediction.
        prediction: in the order of the panel's locations.
        weather: the source of covariates ahead.
    """
    run, K = estimator.run, prediction.forecast.shape[1]
    days = K * panel.clock.step_minutes // DAY_MINUTES
    if run is None or days == 0 or days >= K or RESIDUALS not in run.arrays:
        return None
    today, tomorrow = (
        panel.clock.local(panel.instants(steps)).astype("datetime64[D]")
        for steps in (origins, origins + 1)
    )
    rows = np.flatnonzero(today != tomorrow)
    if not len(rows):
        return None
    levels = prediction.calibration.levels
    shape = len(rows), days, len(panel.locations)
    truth, mean = (np.full(shape, np.nan, dtype=np.float32) for _ in range(2))
    quantiles = np.full((len(levels), *shape), np.nan, dtype=np.float32)
    calibration = TotalCalibration.of(estimator.adapt(panel)[0], panel.locations.ids)
    predictor = estimator.predictor(panel, weather)
    order = location_order(predictor.panel.locations.ids, panel)
    forecasts = PastForecasts(predictor, K)
    for d, row in enumerate(rows.tolist()):
        origin, base = int(origins[row]), prediction.base.row(row)
        by_step = prediction.calibration.correct(base, prediction.calibration.corrections)
        past = forecasts.at(origin).locations(order)
        totals = calibration.forecast(panel, origin, base.forecast, by_step, past=past)
        whole = [j for j, span in enumerate(totals.spans) if span.name != HORIZON][:days]
        if not whole:  # a day of 25 hours
            continue
        mean[d, : len(whole)] = totals.y_hat[whole]
        quantiles[:, d, : len(whole)] = totals.quantiles[:, whole]
        truth[d, : len(whole)] = observed_totals(panel, origin, [totals.spans[j] for j in whole])
    truth = np.where(np.isfinite(mean), truth, np.float32(np.nan))
    cut = estimator.recipe.metrics.mape_cut
    return DayTotals(
        sum_errors(truth, np.nan_to_num(mean), cut),
        sum_intervals(truth, np.nan_to_num(quantiles), levels),
    )


def observed_totals(panel: Panel, origin: int, spans: list[Span]) -> Float32[np.ndarray, "J N"]:
    """The observed totals after an origin; NaN where a value is missing, or closed all day."""
    end = origin + 1 + max(span.last for span in spans)
    values = panel.values[origin + 1 : end]
    alive = panel.alive(origin + 1, end)
    values = np.where(alive, values, np.float32(0))
    sums = [values[span.steps].sum(axis=0, dtype=np.float64) for span in spans]
    is_open = np.stack([alive[span.steps].any(axis=0) for span in spans])
    return np.where(is_open, np.stack(sums), np.nan).astype(np.float32)
