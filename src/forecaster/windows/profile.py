"""What is usual: the mean of each location at each hour of the week, of training steps alone."""

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """Return the mean of each location at each hour of the week, Monday 0:00 first.

    An hour that no training step lies in has the mean of all.
    """
    steps = np.flatnonzero(train)
    calendar = panel.clock.calendar(panel.times[steps])
    weekday, hour = calendar[:, : len(WEEKDAYS)], calendar[:, len(WEEKDAYS) : -1]
    slots = weekday.argmax(axis=1) * hour.shape[1] + hour.argmax(axis=1)
    return np.ascontiguousarray(slot_means(panel.values[steps], slots, WEEK_HOURS).T)
