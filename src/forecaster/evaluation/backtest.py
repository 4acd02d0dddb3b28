"""Forecasts of a fitted estimator against what came."""

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.config import Weather
from forecaster.estimators.contract import Estimator
from forecaster.metrics import Report, evaluate_forecasts
from forecaster.panel.panel import Panel


def backtest(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weather: Weather = "observed",
) -> Report:
    """Return the scores of an estimator over the given origins."""
    forecast = estimator.predict(panel, origins, weather)
    truth = targets(panel, origins, forecast.shape[1])
    return evaluate_forecasts(truth, forecast, estimator.recipe.metrics.mape_cut)


def targets(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Float32[np.ndarray, "B K N"]:
    """Return what was to be forecast, NaN where it is missing."""
    return np.asarray(panel.values[origins[:, None] + np.arange(1, horizon + 1)])
