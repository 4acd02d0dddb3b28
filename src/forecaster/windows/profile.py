"""The seasonal profile: what is usual at each location, by the panel's own step of the week."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.clock.clock import WEEK_HOURS, Clock
from forecaster.panel.fill import (
    ENOUGH,
    HOUR_MINUTES,
    UsualValues,
    smoothing_reach,
    usual_values,
)
from forecaster.panel.panel import Panel
from forecaster.windows.scaling import Scale, fit_values

TRUSTED = 30  # weeks from which the mean of their values is used unmixed
TRUSTED_COUNTS = 3  # on average at an hour of the week, from which its shape counts fully
SPREAD_FLOOR = 0.05  # of a location's mean, so that hours without demand may deviate too
REPEATED = 2  # values of a slot, from which they say something about it
DAY_HOURS = 24
DAY_MINUTES = DAY_HOURS * HOUR_MINUTES
_BLOCK = 128  # locations at a time


def fit_profile(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, "N W"]:
    """The seasonal profile of each location by step of the season: of the week, Monday 0:00 first.

    A mean over few weeks contains much of the values that a network learns to forecast, so that a
    network which relies on it overfits. With n < 30 weeks, n/30 of their mean is therefore mixed
    with the location's mean in the shape of the whole city. Steps below an hour lean on the steps
    within an hour first (`usual_values`), and then on the location's other days (`_day_shape`);
    hourly networks did worse with those (docs/results.md).
    Counts too few to have a shape of their own leave it to the city: a location that was silent in
    training has the city's shape at a small mean, and its level carries the rest.
    """
    sample = _take_sample(panel, train)
    scale, shape, W = fit_values(panel, train), _city_shape(sample), sample.count
    usual, share = sample.usual, np.ones(len(panel.locations))
    if panel.kind == "count":
        share = _share_of_trusted(sample.values)
        city = np.asarray(scale.mean * shape, dtype=np.float32)
    else:
        city = np.asarray(scale.mean + scale.deviation * shape, dtype=np.float32)
    trust = np.minimum(usual.visits / TRUSTED, 1) * share
    untrusted = (1 - trust) * city
    if sample.reach:
        untrusted = (share - trust) * _day_shape(sample, shape, scale, city) + (1 - share) * city
    profile = trust * usual.means + untrusted
    if panel.clock.step_minutes > HOUR_MINUTES:  # of a year, few training steps know all slots
        profile = profile[_nearest(np.unique(sample.slots), W)]
    return np.ascontiguousarray(profile.T, dtype=np.float32)


def fit_bounds(
    panel: Panel, train: Bool[np.ndarray, " M"], profile: Float32[np.ndarray, "N W"]
) -> tuple[Float32[np.ndarray, "2 N 24"], Float32[np.ndarray, "2 N"]]:
    """What training has seen of each location, as the smallest and the largest.

    First its values by hour of the day, then its deviations from the profile, in units of its
    spread at that step of the season (`models.seasonal`, at level 1). A location without a value
    at some hour has its range of all hours there.
    """
    steps = np.flatnonzero(train)
    slots = panel.clock.slot_of_season(panel.times[steps])
    hours, scale = hours_of_day(panel.clock)[slots], fit_values(panel, train)
    ranges, deviations = [], []
    for start in range(0, len(profile), _BLOCK):
        block = slice(start, start + _BLOCK)
        values, expected = panel.values[:, block][steps], profile[block].T[slots]
        spread = scale.deviation[block]
        if panel.kind == "count":
            spread = spread * np.sqrt(expected / scale.mean[block] + SPREAD_FLOOR)
        ranges.append(_ranges(values, hours))
        deviations.append(_ends((values - expected) / spread))
    seen = np.nan_to_num(np.concatenate(deviations, axis=1))
    return np.concatenate(ranges, axis=1).astype(np.float32), seen.astype(np.float32)


def fit_city_shape(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, " W"]:
    """The shape of the whole city by step of the season, which a new location has.

    Of counts it is relative to their mean, of measurements in deviations from it.
    """
    sample = _take_sample(panel, train)
    shape = _city_shape(sample)[:, 0]
    if panel.clock.step_minutes > HOUR_MINUTES:
        shape = shape[_nearest(np.unique(sample.slots), sample.count)]
    return np.ascontiguousarray(shape, dtype=np.float32)


def share_known(panel: Panel, train: Bool[np.ndarray, " M"]) -> Float32[np.ndarray, " N"]:
    """How well training knows each location: its share of the counts that are enough, up to 1."""
    if panel.kind != "count":
        return np.ones(len(panel.locations), dtype=np.float32)
    return _share_of_trusted(panel.values[np.flatnonzero(train)]).astype(np.float32)


def is_seen_once(panel: Panel, train: Bool[np.ndarray, " M"]) -> bool:
    """Whether training is shorter than two seasons, so that nothing can be learned about slots."""
    slots = panel.clock.slot_of_season(panel.times[np.flatnonzero(train)])
    return bool(np.median(np.bincount(slots, minlength=panel.clock.season_slots)) < REPEATED)


def hours_of_day(clock: Clock) -> Int64[np.ndarray, " W"]:
    """The hour of the day in which each step of the season begins; 0 for steps of days or more."""
    slots = np.arange(clock.season_slots)
    if clock.step_minutes >= DAY_MINUTES:
        return np.zeros_like(slots)
    return np.asarray(slots * clock.step_minutes // HOUR_MINUTES % DAY_HOURS)


@dataclass(frozen=True, eq=False)
class _Sample:
    """The training steps of a panel, and what is usual at each step of the season."""

    panel: Panel
    train: Bool[np.ndarray, " M"]
    values: Float32[np.ndarray, "T N"]
    slots: Int64[np.ndarray, " T"]
    count: int  # W, the number of steps of the season
    usual: UsualValues

    @property
    def reach(self) -> int:
        """The number of neighbouring steps on which a mean may lean; 0 from an hour on."""
        return smoothing_reach(self.panel.clock)

    @property
    def day_steps(self) -> int | None:
        """The number of steps of a day; None: a day has no whole number of them."""
        step = self.panel.clock.step_minutes
        return None if DAY_MINUTES % step else DAY_MINUTES // step

    @property
    def steps_of(self) -> Int64[np.ndarray, "W 1"]:
        """The number of training steps at each step of the season."""
        return np.bincount(self.slots, minlength=self.count)[:, None]


def _take_sample(panel: Panel, train: Bool[np.ndarray, " M"]) -> _Sample:
    steps = np.flatnonzero(train)
    values, clock = panel.values[steps], panel.clock
    slots, W = clock.slot_of_season(panel.times[steps]), clock.season_slots
    usual = usual_values(values, slots, W, smoothing_reach(clock))
    if not smoothing_reach(clock):  # rounded as in earlier versions, so that profiles are the same
        steps_of = np.bincount(slots, minlength=W)[:, None]
        shares = (usual.counts / np.maximum(steps_of, 1)).astype(np.float32)
        usual = UsualValues(usual.means, usual.counts, shares * steps_of)
    return _Sample(panel, train, values, slots, W, usual)


def _share_of_trusted(values: Float32[np.ndarray, "T N"]) -> Float64[np.ndarray, " N"]:
    """The counts of a location, as a share of those that are needed; at most 1."""
    events = np.nansum(values, axis=0, dtype=np.float64)
    return np.asarray(np.minimum(events / (TRUSTED_COUNTS * WEEK_HOURS), 1))


def _day_shape(
    sample: _Sample,
    shape: Float64[np.ndarray, "W 1"] | Float32[np.ndarray, "W 1"],
    scale: Scale,
    city: Float32[np.ndarray, "W N"],
) -> Float64[np.ndarray, "W N"] | Float32[np.ndarray, "W N"]:
    """What other days and the city say: the location's mean at that time of all days.

    It is adjusted by how the city differs then from its own mean at that time of all days. With
    n < 10 values, the rest is the city's shape at the location's mean.
    """
    D = DAY_MINUTES // sample.panel.clock.step_minutes
    days = usual_values(sample.values, sample.slots % D, D, sample.reach)
    time = np.arange(sample.count) % D
    city_day = _mean_by_time(sample, shape, D)[time]
    if sample.panel.kind == "count":
        ratio = np.where(city_day > 0, shape / np.where(city_day > 0, city_day, 1), 1)
        adjusted = days.means[time] * ratio
    else:
        adjusted = days.means[time] + scale.deviation * (shape - city_day)
    trust = np.minimum(days.counts / ENOUGH, 1)[time]
    return np.asarray(trust * adjusted + (1 - trust) * city)


def _mean_by_time(
    sample: _Sample, shape: Float64[np.ndarray, "W 1"] | Float32[np.ndarray, "W 1"], D: int
) -> Float64[np.ndarray, "D 1"]:
    """The mean of a shape at each time of the day, over all days of training."""
    steps = sample.steps_of.reshape(-1, D, 1)
    total = (steps * shape.reshape(-1, D, 1)).sum(axis=0)
    return np.asarray(total / np.maximum(steps.sum(axis=0), 1), dtype=np.float64)


def _city_shape(sample: _Sample) -> Float64[np.ndarray, "W 1"] | Float32[np.ndarray, "W 1"]:
    """The city's usual values, of counts relative to their mean, of others in deviations from it.

    Times of a weekday that training has not seen are as on its other days. Of steps below an hour,
    so are those that it has seen once: one day is no weekday.
    """
    if sample.panel.kind == "count":
        shape = _relative_shape(sample.usual.means)
    else:
        shape = _mean_shape(sample.usual.means, fit_values(sample.panel, sample.train))
    fewest = REPEATED if sample.reach else 1
    D, rare = sample.day_steps, (sample.usual.visits < fewest).all(axis=1)
    if D is not None and rare.any():
        shape[rare] = _mean_by_time(sample, shape, D)[np.flatnonzero(rare) % D]
    return shape


def _relative_shape(usual: Float32[np.ndarray, "W N"]) -> Float64[np.ndarray, "W 1"]:
    """The city's total in relation to its mean."""
    total = usual.sum(axis=1, keepdims=True, dtype=np.float64)
    mean = total.mean()
    return np.asarray(total / mean if mean > 0 else np.ones_like(total))


def _mean_shape(usual: Float32[np.ndarray, "W N"], scale: Scale) -> Float32[np.ndarray, "W 1"]:
    """The mean standardised deviation of all locations."""
    return np.asarray(((usual - scale.mean) / scale.deviation).mean(axis=1, keepdims=True))


def _ranges(
    values: Float32[np.ndarray, "T n"], hours: Int64[np.ndarray, " T"]
) -> Float32[np.ndarray, "2 n 24"]:
    """The smallest and the largest value by hour of the day; of all hours where there is none."""
    overall = np.nan_to_num(_ends(values))
    ranges = np.repeat(overall[..., None], DAY_HOURS, axis=2)
    for hour in np.unique(hours):
        seen = _ends(values[hours == hour])
        ranges[:, :, hour] = np.where(np.isnan(seen), overall, seen)
    return ranges


def _ends(values: Float32[np.ndarray, "T n"]) -> Float32[np.ndarray, "2 n"]:
    """The smallest and the largest, without NaN."""
    return np.stack([end(values, axis=0) for end in (np.fmin.reduce, np.fmax.reduce)])


def _nearest(present: Int64[np.ndarray, " S"], W: int) -> Int64[np.ndarray, " W"]:
    """The nearest of the present steps of the season to each of them."""
    apart = np.abs(np.arange(W)[:, None] - present)
    return np.asarray(present[np.minimum(apart, W - apart).argmin(axis=1)])
