"""What is usual at each location and hour of the week, learned from training steps alone."""

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import fit_scaler

TRUSTED = 30  # values at an hour of the week, from which on their mean stands for itself


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """Return what is usual of each location at each hour of the week, Monday 0:00 first.

    A mean of few weeks holds much of the very values that a network learns to forecast; one that
    trusts it is wrong afterwards. So where there are n < 30 values, n/30 of the mean is mixed
    with the location's mean in the shape of the whole city: alone, none has more than 1/30.
    """
    steps = np.flatnonzero(train)
    calendar = panel.clock.calendar(panel.times[steps])
    weekday, hour = calendar[:, : len(WEEKDAYS)], calendar[:, len(WEEKDAYS) : -1]
    slots = weekday.argmax(axis=1) * hour.shape[1] + hour.argmax(axis=1)
    hours = slot_means(panel.values[steps], slots, WEEK_HOURS)  # [W, N]
    scale = fit_scaler(panel, train).values
    counts = panel.kind == "count"
    unit = np.where(scale.mean > 0, scale.mean, scale.deviation) if counts else scale.deviation
    shape = ((hours - scale.mean) / unit).mean(axis=1, keepdims=True)
    trust = np.minimum(np.bincount(slots, minlength=WEEK_HOURS) / TRUSTED, 1)[:, None]
    usual = trust * hours + (1 - trust) * (scale.mean + unit * shape)
    return np.ascontiguousarray(usual.T, dtype=np.float32)
