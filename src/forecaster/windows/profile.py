"""The seasonal profile: the mean of each location by hour of the week, from training steps."""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scale, fit_scaler

TRUSTED = 30  # values at an hour of the week from which their mean is used unmixed
HOUR_MINUTES = 60


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """The seasonal profile of each location by hour of the week, Monday 0:00 first.

    A mean over few weeks contains much of the values that a network learns to forecast, so that a
    network which relies on it overfits. With n < 30 values, n/30 of their mean is therefore mixed
    with the location's mean in the shape of the whole city: no single value weighs more than 1/30.
    """
    steps = np.flatnonzero(train)
    values, slots = panel.values[steps], _hours_of_week(panel, steps)
    hours = slot_means(values, slots, WEEK_HOURS)  # [W, N]
    steps_of = np.bincount(slots, minlength=WEEK_HOURS)[:, None]
    counts = slot_means(np.isfinite(values).astype(np.float32), slots, WEEK_HOURS) * steps_of
    trust = np.minimum(counts / TRUSTED, 1)
    scale = fit_scaler(panel, train).values
    city = _scale_shape(hours, scale) if panel.kind == "count" else _shift_shape(hours, scale)
    profile = trust * hours + (1 - trust) * city
    if panel.clock.step_minutes > HOUR_MINUTES:  # clock changes lead to hours without any step
        profile = profile[_nearest(np.unique(slots))]
    return np.ascontiguousarray(profile.T, dtype=np.float32)


def _hours_of_week(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    calendar = panel.clock.calendar(panel.times[steps])
    weekday, hour = calendar[:, : len(WEEKDAYS)], calendar[:, len(WEEKDAYS) : -1]
    return np.asarray(weekday.argmax(axis=1) * hour.shape[1] + hour.argmax(axis=1))


def _scale_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Each location's mean times the ratio of the city's hourly total to its mean."""
    total = float(scale.mean.sum())
    shape = hours.sum(axis=1, keepdims=True) / total if total > 0 else np.ones((len(hours), 1))
    return np.asarray(scale.mean * shape, dtype=np.float32)


def _shift_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Each location's mean plus the mean standardised deviation of all locations at the hour."""
    shape = ((hours - scale.mean) / scale.deviation).mean(axis=1, keepdims=True)
    return np.asarray(scale.mean + scale.deviation * shape, dtype=np.float32)


def _nearest(present: Int64[np.ndarray, " S"]) -> Int64[np.ndarray, " W"]:
    """The nearest of the present hours to each hour of the week."""
    apart = np.abs(np.arange(WEEK_HOURS)[:, None] - present)
    return np.asarray(present[np.minimum(apart, WEEK_HOURS - apart).argmin(axis=1)])
