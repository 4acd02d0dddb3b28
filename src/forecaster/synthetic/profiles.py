"""How demand follows the wall clock: a week of each neighbourhood's character, and holidays."""

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.zone import Times
from forecaster.synthetic.places import NEIGHBOURHOODS

WEEK_HOURS, DAY_HOURS = 168, 24
SLOTS = WEEK_HOURS + DAY_HOURS  # the week from Monday 00:00 on, then a holiday
_WORKDAYS, _WEEKEND, _EVERY_DAY = range(5), range(5, 7), range(7)
_SUNDAY = slice(6 * DAY_HOURS, WEEK_HOURS)
_CHARACTERS = {  # bumps: on which days, around which hour, how wide (h), how high
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
_HOLIDAY_LOSS = 0.4  # of what a Sunday has at those hours
_QUIET = 0.15  # what is left at night
_WEIGHTS = (0.55, 0.25, 0.20)  # of what a neighbourhood is named for, is besides, and of the place


def draw_profiles(
    neighbourhoods: Int64[np.ndarray, " N"], generator: np.random.Generator
) -> Float64[np.ndarray, "N slots"]:
    """Return each location's demand in every slot, relative to its mean over the week."""
    kinds = tuple(_CHARACTERS)
    named = np.eye(len(kinds))[[kinds.index(kind) for _, kind in NEIGHBOURHOODS]]
    shared = generator.dirichlet(np.ones(len(kinds)), len(NEIGHBOURHOODS))
    single = generator.dirichlet(np.ones(len(kinds)), len(neighbourhoods))
    parts = (named[neighbourhoods], shared[neighbourhoods], single)
    mixed = sum(weight * part for weight, part in zip(_WEIGHTS, parts, strict=True))
    # A sum and not a matrix product, whose rounding would depend on the number of threads.
    profiles = sum(mixed[:, i, None] * _profile(kind) for i, kind in enumerate(kinds))
    return np.asarray(profiles / profiles[:, :WEEK_HOURS].mean(axis=1, keepdims=True))


def find_slots(clock: Clock, times: Times) -> Int64[np.ndarray, " T"]:
    """Return the slot of each instant: its hour of the local week, or of a holiday."""
    slots = clock.slot_of_week(times)
    on_holiday = clock.calendar(times)[:, -1] > 0.0
    return np.where(on_holiday, WEEK_HOURS + slots % DAY_HOURS, slots)


def _profile(kind: str) -> Float64[np.ndarray, " slots"]:
    week = np.full(WEEK_HOURS, _QUIET)
    for days, hour, width, height in _CHARACTERS[kind]:
        for day in days:
            week += height * _bump(WEEK_HOURS, day * DAY_HOURS + hour, width)
    commuting = sum(_bump(DAY_HOURS, hour, width) for hour, width in _COMMUTING)
    return np.concatenate([week, week[_SUNDAY] * (1.0 - _HOLIDAY_LOSS * commuting)])


def _bump(period: int, centre: float, width: float) -> Float64[np.ndarray, " period"]:
    """Return a bell over a circle of hours, each read at its middle."""
    apart = np.abs(np.arange(period) + 0.5 - centre)
    return np.asarray(np.exp(-0.5 * (np.minimum(apart, period - apart) / width) ** 2))
