"""The seasonal profile: the mean of each location by hour of the week, from training steps."""

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scale, fit_scaler

TRUSTED = 30  # values at an hour of the week, from which on their mean stands for itself
HOUR_MINUTES = 60


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """The seasonal profile of each location by hour of the week, Monday 0:00 first.

    A mean of few weeks holds much of the very values that a network learns to forecast; one that
    trusts it is wrong afterwards. So where there are n < 30 values, n/30 of the mean is mixed
    with the location's mean in the shape of the whole city: alone, none has more than 1/30.
    """
    steps = np.flatnonzero(train)
    values, slots = panel.values[steps], _hours_of_week(panel, steps)
    hours = slot_means(values, slots, WEEK_HOURS)  # [W, N]
    steps_of = np.bincount(slots, minlength=WEEK_HOURS)[:, None]
    seen = slot_means(np.isfinite(values).astype(np.float32), slots, WEEK_HOURS) * steps_of
    trust = np.minimum(seen / TRUSTED, 1)
    scale = fit_scaler(panel, train).values
    city = _scale_shape(hours, scale) if panel.kind == "count" else _shift_shape(hours, scale)
    usual = trust * hours + (1 - trust) * city
    if panel.clock.step_minutes > HOUR_MINUTES:  # a clock change shows hours that were never seen
        usual = usual[_nearest(np.unique(slots))]
    return np.ascontiguousarray(usual.T, dtype=np.float32)


def _hours_of_week(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    calendar = panel.clock.calendar(panel.times[steps])
    weekday, hour = calendar[:, : len(WEEKDAYS)], calendar[:, len(WEEKDAYS) : -1]
    return np.asarray(weekday.argmax(axis=1) * hour.shape[1] + hour.argmax(axis=1))


def _scale_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Return each location's mean times what the whole city has at an hour against its mean."""
    total = float(scale.mean.sum())
    shape = hours.sum(axis=1, keepdims=True) / total if total > 0 else np.ones((len(hours), 1))
    return np.asarray(scale.mean * shape, dtype=np.float32)


def _shift_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Return each location's mean and the mean deviation of all, in units of its own."""
    shape = ((hours - scale.mean) / scale.deviation).mean(axis=1, keepdims=True)
    return np.asarray(scale.mean + scale.deviation * shape, dtype=np.float32)


def _nearest(seen: Int64[np.ndarray, " S"]) -> Int64[np.ndarray, " W"]:
    """Return which of the hours that were seen is the nearest to each hour of the week."""
    apart = np.abs(np.arange(WEEK_HOURS)[:, None] - seen)
    return np.asarray(seen[np.minimum(apart, WEEK_HOURS - apart).argmin(axis=1)])
