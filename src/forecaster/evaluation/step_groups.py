"""Groups of steps ahead that people think in: the next hours, the day, day 2."""

from dataclasses import dataclass

ALL_STEPS = 12  # up to so many steps ahead each is shown by itself
HOUR_MINUTES = 60
DAY_MINUTES = 24 * HOUR_MINUTES
WEEK_DAYS = 7
FEW_MINUTES = 120  # up to here times are given in minutes
WEEKS = (1, 2, 4, 8, 13, 26, 52)  # where groups end after the first week
FIRST_STEPS = (1, 3, 6, 12, 24)  # where groups end within a day, and of steps longer than a day


@dataclass(frozen=True)
class StepGroup:
    """Consecutive steps ahead that are scored together."""

    label: str
    first: int  # from 1
    last: int  # included


def group_steps(horizon: int, step_minutes: int | None = None) -> list[StepGroup]:
    """The groups of a horizon's steps, each step by itself if there are few.

    Args:
        horizon: the number of steps ahead.
        step_minutes: the length of a step; None: unknown.
    """
    if horizon <= ALL_STEPS:
        return [StepGroup(f"+{k}", k, k) for k in range(1, horizon + 1)]
    ends = sorted({end for end in _ends(horizon, step_minutes) if end < horizon} | {horizon})
    firsts = [1, *(end + 1 for end in ends[:-1])]
    return [
        StepGroup(_label(first, last, step_minutes), first, last)
        for first, last in zip(firsts, ends, strict=True)
    ]


def _ends(horizon: int, step_minutes: int | None) -> list[int]:
    """The last steps of the groups."""
    if step_minutes is None or step_minutes > DAY_MINUTES:
        return [*FIRST_STEPS, *range(52, horizon, 52)]
    day = DAY_MINUTES // step_minutes
    week = WEEK_DAYS * day
    weeks = [week * count for count in WEEKS]
    if day == 1:
        return [1, *weeks]
    if horizon <= max(FIRST_STEPS) and horizon <= day:
        return list(FIRST_STEPS)
    quarter_hour, hour = (max(m // step_minutes, 1) for m in (15, HOUR_MINUTES))
    small = [quarter_hour, hour] if step_minutes < HOUR_MINUTES else []
    days = list(range(day, min(horizon, week) + 1, day))
    return [1, *small, max(day // 4, 1), *days, *weeks]


def _label(first: int, last: int, step_minutes: int | None) -> str:
    """A group's name by its duration: `+2–6 h`, `day 2`, `week 2`."""
    steps = f"+{first}" if first == last else f"+{first}–{last}"
    if step_minutes is None or step_minutes > DAY_MINUTES:
        return steps
    begin, end = (first - 1) * step_minutes, last * step_minutes
    for name, length in (("week", WEEK_DAYS * DAY_MINUTES), ("day", DAY_MINUTES)):
        if begin and begin % length == 0 and begin < end <= begin + length and last > first:
            return f"{name} {begin // length + 1}"
    if step_minutes == DAY_MINUTES:
        return f"{steps} d"
    if end <= FEW_MINUTES and step_minutes < HOUR_MINUTES:
        return f"{_times(first, last, step_minutes)} min"
    if step_minutes % HOUR_MINUTES == 0:
        return f"{_times(first, last, step_minutes // HOUR_MINUTES)} h"
    return f"+{begin / HOUR_MINUTES:.3g}–{end / HOUR_MINUTES:.3g} h"


def _times(first: int, last: int, unit: int) -> str:
    return f"+{first * unit}" if first == last else f"+{first * unit}–{last * unit}"
