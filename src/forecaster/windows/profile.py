"""The seasonal profile: the mean of each location by hour of the week, from training steps."""

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.clock.clock import WEEK_HOURS, WEEKDAYS
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scale, fit_scaler

TRUSTED = 30  # values at an hour of the week from which their mean is used unmixed
TRUSTED_COUNTS = 3  # on average at an hour of the week, from which its shape counts fully
SPREAD_FLOOR = 0.05  # of a location's mean, so that hours without demand may deviate too
HOUR_MINUTES = 60
DAY_HOURS = 24


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """The seasonal profile of each location by hour of the week, Monday 0:00 first.

    A mean over few weeks contains much of the values that a network learns to forecast, so that a
    network which relies on it overfits. With n < 30 values, n/30 of their mean is therefore mixed
    with the location's mean in the shape of the whole city: no single value weighs more than 1/30.
    So it is with counts too few to have a shape of their own: a location that was silent in
    training has the city's shape at a small mean, and its level carries the rest.
    """
    steps = np.flatnonzero(train)
    values, slots = panel.values[steps], _hours_of_week(panel, steps)
    hours = slot_means(values, slots, WEEK_HOURS)  # [W, N]
    steps_of = np.bincount(slots, minlength=WEEK_HOURS)[:, None]
    counts = slot_means(np.isfinite(values).astype(np.float32), slots, WEEK_HOURS) * steps_of
    trust = np.minimum(counts / TRUSTED, 1)
    scale = fit_scaler(panel, train).values
    if panel.kind == "count":
        trust = trust * _share_of_trusted(values)
        city = _scale_shape(hours, scale)
    else:
        city = _shift_shape(hours, scale)
    profile = trust * hours + (1 - trust) * city
    if panel.clock.step_minutes > HOUR_MINUTES:  # clock changes lead to hours without any step
        profile = profile[_nearest(np.unique(slots))]
    return np.ascontiguousarray(profile.T, dtype=np.float32)


def fit_bounds(
    panel: Panel, train: Bool[np.ndarray, " M"], profile: Float32[np.ndarray, "N W"]
) -> tuple[Float32[np.ndarray, "2 N 24"], Float32[np.ndarray, "2 N"]]:
    """What training has seen of each location, as the smallest and the largest.

    First its values by hour of the day, then its deviations from the profile, in units of its
    spread at that hour of the week (`models.seasonal`, at level 1). A location without a value at
    some hour has its range of all hours there.
    """
    steps = np.flatnonzero(train)
    values, slots = panel.values[steps], _hours_of_week(panel, steps)
    scale, expected = fit_scaler(panel, train).values, profile.T[slots]
    spread = scale.deviation
    if panel.kind == "count":
        spread = spread * np.sqrt(expected / scale.mean + SPREAD_FLOOR)
    ends = (np.fmin.reduce, np.fmax.reduce)  # which ignore NaN
    overall = np.stack([np.nan_to_num(end(values, axis=0)) for end in ends])
    ranges = np.repeat(overall[..., None], DAY_HOURS, axis=2)
    for hour in np.unique(slots % DAY_HOURS):
        for number, end in enumerate(ends):
            seen = end(values[slots % DAY_HOURS == hour], axis=0)
            ranges[number, :, hour] = np.where(np.isnan(seen), overall[number], seen)
    deviations = np.stack([end((values - expected) / spread, axis=0) for end in ends])
    return ranges.astype(np.float32), np.nan_to_num(deviations).astype(np.float32)


def fit_city_shape(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, " W"]:
    """The shape of the whole city by hour of the week, which a new location has.

    Of counts it is relative to their mean, of measurements in deviations from it.
    """
    steps = np.flatnonzero(train)
    slots = _hours_of_week(panel, steps)
    hours = slot_means(panel.values[steps], slots, WEEK_HOURS)
    if panel.kind == "count":
        shape = _relative_shape(hours)[:, 0]
    else:
        shape = _mean_shape(hours, fit_scaler(panel, train).values)[:, 0]
    if panel.clock.step_minutes > HOUR_MINUTES:
        shape = shape[_nearest(np.unique(slots))]
    return np.ascontiguousarray(shape, dtype=np.float32)


def share_known(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, " N"]:
    """How well training knows each location: its share of the counts that are enough, up to 1."""
    if panel.kind != "count":
        return np.ones(len(panel.locations), dtype=np.float32)
    return _share_of_trusted(panel.values[np.flatnonzero(train)]).astype(np.float32)


def _share_of_trusted(values: Float32[np.ndarray, "T N"]) -> Float64[np.ndarray, " N"]:
    """The counts of a location, as a share of those that are needed; at most 1."""
    events = np.nansum(values, axis=0, dtype=np.float64)
    return np.asarray(np.minimum(events / (TRUSTED_COUNTS * WEEK_HOURS), 1))


def _hours_of_week(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    calendar = panel.clock.calendar(panel.times[steps])
    weekday, hour = calendar[:, : len(WEEKDAYS)], calendar[:, len(WEEKDAYS) : -1]
    return np.asarray(weekday.argmax(axis=1) * hour.shape[1] + hour.argmax(axis=1))


def _scale_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Each location's mean times the ratio of the city's hourly total to its mean."""
    return np.asarray(scale.mean * _relative_shape(hours), dtype=np.float32)


def _relative_shape(hours: Float32[np.ndarray, "W N"]) -> Float64[np.ndarray, "W 1"]:
    """The city's hourly total in relation to its mean."""
    total = hours.sum(axis=1, keepdims=True, dtype=np.float64)
    mean = total.mean()
    return np.asarray(total / mean if mean > 0 else np.ones_like(total))


def _shift_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W N"]:
    """Each location's mean plus the mean standardised deviation of all locations at the hour."""
    return np.asarray(scale.mean + scale.deviation * _mean_shape(hours, scale), dtype=np.float32)


def _mean_shape(hours: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W 1"]:
    """The mean standardised deviation of all locations at each hour."""
    return np.asarray(((hours - scale.mean) / scale.deviation).mean(axis=1, keepdims=True))


def _nearest(present: Int64[np.ndarray, " S"]) -> Int64[np.ndarray, " W"]:
    """The nearest of the present hours to each hour of the week."""
    apart = np.abs(np.arange(WEEK_HOURS)[:, None] - present)
    return np.asarray(present[np.minimum(apart, WEEK_HOURS - apart).argmin(axis=1)])
