"""The trial of a run before it answers: is its forecast on live data finite and plausible?"""

import numpy as np

from forecaster.clock.clock import DAY_MINUTES
from forecaster.errors import RunError
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel
from forecaster.serve.forecasting.predictor import SnapshotPredictor

COMPARED_DAYS, LEAST_STEPS = 7, 28  # of observations that a forecast is compared with
BEYOND = 3.0  # times their range that the mean of all locations may lie outside of it
LEAST_RANGE = 0.5  # of the largest value, where all are nearly the same


class ImplausibleRunError(RunError):
    """A run whose forecast on live data cannot be right."""


def forecast_once(model: ServedModel, snapshot: Snapshot, origin: int) -> Forecast:
    """Return the model's forecast from an origin; its faults are raised as they are."""
    return SnapshotPredictor().predict_provisional(model, snapshot, origin)


def refuse_implausible(forecast: Forecast, snapshot: Snapshot) -> None:
    """Refuse a forecast that is not finite, or far from all that was observed in the last week."""
    open_cells = np.ones(forecast.y_hat.shape, dtype=bool)
    if forecast.closed is not None:
        open_cells = ~forecast.closed
    for name, numbers in (("forecast", forecast.y_hat[None]), ("quantiles", forecast.quantiles)):
        if not np.isfinite(numbers[:, open_cells]).all():
            raise ImplausibleRunError(f"its {name} on live data are not all finite")
    bounds = _usual_range(forecast, snapshot)
    if bounds is None:
        return
    means = np.nanmean(np.where(open_cells, forecast.y_hat, np.nan), axis=1)
    low, high = bounds
    reach = BEYOND * max(high - low, LEAST_RANGE * max(abs(high), abs(low)))
    worst = float(means[np.nanargmax(np.abs(means - (low + high) / 2))])
    if not low - reach <= worst <= high + reach:
        raise ImplausibleRunError(
            f"its forecast on live data has a mean of {worst:.3g} over all locations, where "
            f"{low:.3g} to {high:.3g} was observed in the last days"
        )


def _usual_range(forecast: Forecast, snapshot: Snapshot) -> tuple[float, float] | None:
    """Return the smallest and largest mean of all locations; None: nothing was observed."""
    day = max(DAY_MINUTES // snapshot.base.clock.step_minutes, 1)
    end = forecast.key.origin + 1
    values = snapshot.final_values(end - max(COMPARED_DAYS * day, LEAST_STEPS), end)
    column = {identity: n for n, identity in enumerate(snapshot.locations.ids)}
    values = values[:, [column[i] for i in forecast.locations.ids]]
    observed = np.isfinite(values)
    # Steps of few locations say little of all.
    steps = 2 * observed.sum(axis=1) >= observed.sum(axis=1).max(initial=1)
    if not observed.any():
        return None
    means = np.nanmean(values[steps], axis=1, dtype=np.float64)
    return float(means.min()), float(means.max())
