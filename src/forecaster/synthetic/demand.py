"""Demand: weekly profiles, the effects of weather and events, hidden noise, and counts.

A count is Poisson with rate e_t·exp(u_t − σ²/2). The noise u has deviation σ at every location,
one AR(1) coefficient φ, and the city's partial correlations; e_t is then the mean of the count.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.zone import Times
from forecaster.synthetic.locations import LENGTH_KM, NEIGHBOURHOODS
from forecaster.synthetic.streams import BLOCK_HOURS, autoregress

WEEK_HOURS, DAY_HOURS = 168, 24
SLOTS = WEEK_HOURS + DAY_HOURS  # the week from Monday 00:00 on, then a holiday
_WORKDAYS, _WEEKEND, _EVERY_DAY = range(5), range(5, 7), range(7)
_SUNDAY = slice(6 * DAY_HOURS, WEEK_HOURS)
_CHARACTERS = {  # peaks: days, hour, width in hours, height
    "business": (
        (_WORKDAYS, 9.0, 1.5, 1.2),
        (_WORKDAYS, 13.0, 2.5, 0.8),
        (_WORKDAYS, 18.0, 2.0, 1.8),
        (_WEEKEND, 14.0, 4.0, 0.5),
    ),
    "residential": (
        (_WORKDAYS, 8.0, 1.3, 1.8),
        (_WORKDAYS, 19.0, 2.5, 1.0),
        (_WEEKEND, 11.5, 3.0, 1.1),
        (_WEEKEND, 19.0, 3.0, 1.0),
    ),
    "nightlife": (
        (_EVERY_DAY, 13.0, 3.5, 0.5),
        (range(4), 21.0, 3.0, 1.0),
        (range(4, 6), 24.0, 3.0, 2.4),  # Friday and Saturday, past midnight
        (range(6, 7), 20.0, 3.0, 0.6),
    ),
    "visitors": (
        (_EVERY_DAY, 9.5, 2.0, 0.7),
        (_EVERY_DAY, 14.5, 3.5, 1.0),
        (_EVERY_DAY, 20.0, 2.5, 1.2),
    ),
}
_COMMUTING = ((8.5, 2.0), (18.0, 2.0))  # hours of the day and their widths
_HOLIDAY_LOSS = 0.4  # of a Sunday's demand at those hours
_NIGHT_LEVEL = 0.15
_WEIGHTS = (0.55, 0.25, 0.20)  # of the neighbourhood's main kind, its mixture, the location's
NOISE_SD = 0.4  # σ
NOISE_AR = 0.7  # φ
MEAN_DEMAND = (3.0, 1.0)  # mean and deviation of the log of a location's mean demand per hour
SENSITIVITY = (0.6, 1.4)  # range of the factor on the weather's effect, by location
# Products of numbers on these grids, and their sums, are exact in double precision: the noise does
# not depend on the number of threads or the order of additions.
_NORMAL_BITS, _MIX_BITS = 16, 24
REACH_KM = 0.4  # at this distance the boost of the log rate is down to 1/e
LOCATIONS_PER_VENUE = 50
EVENTS_PER_VENUE = 4.0  # on average in a block of six weeks
START_HOURS = (17, 22)  # the local hours at which events begin, from … to before
LENGTH_HOURS = (2, 6)  # their duration, from … to before
FACTORS = (1.5, 3.5)  # on the demand of the location


def draw_profiles(
    neighbourhoods: Int64[np.ndarray, " N"], generator: np.random.Generator
) -> Float64[np.ndarray, "N slots"]:
    """Return each location's demand in every slot, relative to its mean over the week."""
    kinds = tuple(_CHARACTERS)
    main = np.eye(len(kinds))[[kinds.index(kind) for _, kind in NEIGHBOURHOODS]]
    mixture = generator.dirichlet(np.ones(len(kinds)), len(NEIGHBOURHOODS))
    single = generator.dirichlet(np.ones(len(kinds)), len(neighbourhoods))
    parts = (main[neighbourhoods], mixture[neighbourhoods], single)
    mixed = sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    # A sum and not a matrix product, whose rounding would depend on the number of threads.
    profiles = sum(mixed[:, i, None] * _profile(kind) for i, kind in enumerate(kinds))
    return np.asarray(profiles / profiles[:, :WEEK_HOURS].mean(axis=1, keepdims=True))


def find_slots(clock: Clock, times: Times) -> Int64[np.ndarray, " T"]:
    """Return the slot of each instant: its hour of the local week, or of a holiday."""
    slots = clock.slot_of_season(times)
    on_holiday = clock.calendar(times)[:, -1] > 0.0
    return np.where(on_holiday, WEEK_HOURS + slots % DAY_HOURS, slots)


def _profile(kind: str) -> Float64[np.ndarray, " slots"]:
    week = np.full(WEEK_HOURS, _NIGHT_LEVEL)
    for days, hour, width, height in _CHARACTERS[kind]:
        for day in days:
            week += height * _peak(WEEK_HOURS, day * DAY_HOURS + hour, width)
    commuting = sum(_peak(DAY_HOURS, hour, width) for hour, width in _COMMUTING)
    return np.concatenate([week, week[_SUNDAY] * (1.0 - _HOLIDAY_LOSS * commuting)])


def _peak(period: int, centre: float, width: float) -> Float64[np.ndarray, " period"]:
    """Return a Gaussian peak over a cycle of hours, at the middle of each hour."""
    apart = np.abs(np.arange(period) + 0.5 - centre)
    return np.asarray(np.exp(-0.5 * (np.minimum(apart, period - apart) / width) ** 2))


def draw_mean_demand(
    along: Float64[np.ndarray, " N"], generator: np.random.Generator
) -> Float64[np.ndarray, " N"]:
    """Draw lognormal mean demands of an ordinary week; the middle of the strip has the largest."""
    means = np.sort(generator.lognormal(*MEAN_DEMAND, len(along)))
    remoteness = (2.0 * along / LENGTH_KM) ** 2 + generator.normal(0.0, 0.5, len(along))
    demand = np.empty_like(means)
    demand[np.argsort(-remoteness)] = means
    return demand


def expected_demand(
    by_slot: Float64[np.ndarray, "N slots"],
    slots: Int64[np.ndarray, " T"],
    effect: Float64[np.ndarray, " T"],
    sensitivity: Float64[np.ndarray, " N"],
) -> Float32[np.ndarray, "T N"]:
    """Return the mean count given calendar and weather: the slot's demand times exp(effect)."""
    table = np.ascontiguousarray(by_slot.T, dtype=np.float32)
    factors, effects = sensitivity.astype(np.float32), effect.astype(np.float32)
    expected = np.empty((len(slots), len(by_slot)), dtype=np.float32)
    for block in blocks(len(slots)):
        expected[block] = table[slots[block]] * np.exp(np.outer(effects[block], factors))
    return expected


@dataclass(frozen=True)
class Event:
    """A boost of demand around one location."""

    location: int
    start: int  # step
    hours: int
    factor: float


def draw_events(
    hours_of_day: Int64[np.ndarray, " T"], locations: int, generator: np.random.Generator
) -> tuple[Event, ...]:
    """Draw the events at a few venues, block by block."""
    venues = generator.choice(locations, -(-locations // LOCATIONS_PER_VENUE), replace=False)
    first, stop = START_HOURS
    events: list[Event] = []
    for begin in range(0, len(hours_of_day), BLOCK_HOURS):
        of_day = hours_of_day[begin : begin + BLOCK_HOURS]
        evenings = begin + np.flatnonzero((of_day >= first) & (of_day < stop))
        count = generator.poisson(EVENTS_PER_VENUE * len(venues))
        drawn = zip(
            generator.choice(venues, count).tolist(),
            generator.choice(evenings, count).tolist(),
            generator.integers(*LENGTH_HOURS, count).tolist(),
            generator.uniform(*FACTORS, count).tolist(),
            strict=True,
        )
        events += [Event(*event) for event in drawn]
    return tuple(events)


def add_events(
    expected: Float32[np.ndarray, "T N"],
    events: tuple[Event, ...],
    distances: Float64[np.ndarray, "N N"],
) -> None:
    """Multiply the expected demand during each event, less so farther away (in place)."""
    for event in events:
        nearness = np.exp(-((distances[event.location] / REACH_KM) ** 2))
        boost = (event.factor**nearness).astype(np.float32)
        expected[event.start : event.start + event.hours] *= boost


def mix_of(precision: Float64[np.ndarray, "N N"]) -> Float64[np.ndarray, "N N"]:
    """Return a matrix that turns independent normal numbers z into z·mix with this precision.

    Scaling every location to the deviation σ does not change partial correlations.
    """
    mix = np.linalg.inv(np.linalg.cholesky(precision))  # L⁻¹, where L·Lᵀ = precision
    mix *= NOISE_SD / np.sqrt((mix**2).sum(axis=0))  # z·L⁻¹ then has deviation σ everywhere
    return round_mix(mix)


def round_mix(mix: Float64[np.ndarray, "N N"]) -> Float64[np.ndarray, "N N"]:
    """Round a mix so that products with it are exact."""
    return _on_grid(mix, _MIX_BITS)


def draw_noise(
    precision: Float64[np.ndarray, "N N"], steps: int, generator: np.random.Generator
) -> Float32[np.ndarray, "T N"]:
    """Draw stationary Gaussian noise u with the partial correlations of the precision matrix."""
    mix = mix_of(precision)
    state = draw_shocks(1, mix, generator)[0]
    noise = np.empty((steps, len(precision)), dtype=np.float32)
    for block in blocks(steps):
        shocks = draw_shocks(block.stop - block.start, mix, generator)
        noise[block] = autoregress(shocks, NOISE_AR, state)
        state = noise[block.stop - 1]
    return noise


def draw_counts(
    expected: Float32[np.ndarray, "T N"],
    noise: Float32[np.ndarray, "T N"],
    generator: np.random.Generator,
) -> Float32[np.ndarray, "T N"]:
    """Draw Poisson counts."""
    counts = np.empty_like(expected)
    for block in blocks(len(expected)):
        counts[block] = generator.poisson(mean_ahead(expected[block], noise[block], ahead=0))
    return counts


def mean_ahead(
    expected: Float32[np.ndarray, "B N"], noise: Float32[np.ndarray, "B N"], ahead: int
) -> Float32[np.ndarray, "B N"]:
    """Return the mean of the counts `ahead` steps after the given noise.

    e_{t+k}·E[exp(u_{t+k} − σ²/2) | u_t] = e_{t+k}·exp(φᵏ·u_t − φ²ᵏ·σ²/2).
    """
    decay = NOISE_AR**ahead
    centred = np.float32(decay) * noise - np.float32((decay * NOISE_SD) ** 2 / 2.0)
    return np.asarray(expected * np.exp(centred))


def draw_shocks(
    count: int, mix: Float64[np.ndarray, "N N"], generator: np.random.Generator
) -> Float32[np.ndarray, "count N"]:
    """Draw independent rows with covariance mixᵀ·mix."""
    normal = _on_grid(generator.standard_normal((count, len(mix))), _NORMAL_BITS)
    return np.asarray(normal @ mix, dtype=np.float32)


def _on_grid(values: Float64[np.ndarray, "K N"], bits: int) -> Float64[np.ndarray, "K N"]:
    """Round the values to multiples of 2^−bits."""
    return np.asarray(np.rint(values * 2.0**bits) * 2.0**-bits)


def blocks(steps: int) -> list[slice]:
    """Return the steps in blocks of `BLOCK_HOURS`."""
    begins = range(0, steps, BLOCK_HOURS)
    return [slice(begin, min(begin + BLOCK_HOURS, steps)) for begin in begins]
