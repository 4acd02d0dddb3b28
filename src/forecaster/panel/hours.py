"""Opening hours of a panel's places: as given, or found in the panel as regular absence.

A step of the week without any value at any location, in at least two weeks and in all of them, is
closed, and so is a step of the day without any value on at least seven days and on all of them;
but only if at least half of all other steps have values, since what is mostly absent is no habit.
One location is closed at a step of the week if it has no value there in at least four weeks and in
all of them (or of the day, as above), while nine in ten of its other steps are observed. Days that
are absent as a whole are gaps; but if all public holidays, two or more, are, places close on them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.clock.hours import normal_hours, weekly_hours
from forecaster.panel.parts import Locations

MIN_WEEKS, MIN_LOCAL_WEEKS = 2, 4  # in which a step of the week is absent
MIN_DAYS = 7  # on which a step of the day is
MIN_PRESENT = 0.5  # of the other steps of all
MIN_HOLIDAYS = 2
MIN_OBSERVED = 0.9  # of the other steps of a location with hours of its own
_DAY_MINUTES = 24 * 60
_COLUMNS = 128  # locations at a time


def given_hours(locations: Locations, shared: str | None) -> tuple[str, ...] | None:
    """Return the hours of each location, empty where it is always open; None: none are given.

    Args:
        locations: whose own hours come first.
        shared: the hours of all others; `always`: they are never closed.
    """
    if shared is None and not locations.has_hours:
        return None
    text = normal_hours(shared or "")
    return tuple(hours or text for hours in locations.hours)


def shared_hours(hours: Sequence[str]) -> tuple[str, ...]:
    """Return the distinct hours of places, by which an axis is open; none if one always is."""
    return () if "" in hours else tuple(sorted(set(hours)))


def find_hours(
    values: Float32[np.ndarray, "M N"], times: Shaped[np.ndarray, " M"], clock: Clock
) -> tuple[str, ...]:
    """Return the opening hours of each location by the rule above, empty: always open."""
    N = int(values.shape[1])
    if clock.step_minutes > _DAY_MINUTES:
        return ("",) * N
    week = _Week.of(clock, times)
    present = np.isfinite(values).any(axis=1)
    closed = week.find_closed(present, np.ones(len(present), dtype=bool), MIN_WEEKS)
    is_open = ~closed.reshape(-1)[week.slots]
    if present[is_open].sum() < MIN_PRESENT * is_open.sum() or not is_open.any():
        return ("",) * N
    on_holidays = "PH off" if _closes_on_holidays(clock, week, present, closed) else ""
    text = _text(closed, on_holidays, clock.step_minutes)
    texts = [text] * N
    for n in _with_absent_slots(values, week, closed):
        observed = np.isfinite(values[:, n])
        steps = np.flatnonzero(observed)
        inside = np.zeros(len(observed), dtype=bool)
        inside[steps[0] : steps[-1] + 1] = True
        closed_here = closed | week.find_closed(observed, inside, MIN_LOCAL_WEEKS)
        expected = inside & ~closed_here.reshape(-1)[week.slots]
        if observed[expected].sum() >= MIN_OBSERVED * expected.sum():
            texts[n] = _text(closed_here, on_holidays, clock.step_minutes)
    return tuple(texts)


@dataclass(frozen=True, eq=False)
class _Week:
    """The step of the local week of each step, and its local day."""

    slots: Int64[np.ndarray, " M"]  # weekday · D + step of the day
    days: Shaped[np.ndarray, " M"]
    per_day: int  # steps of a day: D
    first: Bool[np.ndarray, " M"]  # not the second occurrence of a local time

    @staticmethod
    def of(clock: Clock, times: Shaped[np.ndarray, " M"]) -> "_Week":
        local = clock.local(times)
        days = local.astype("datetime64[D]")
        step = (local - days).astype(np.int64) // (clock.step_minutes * 60)
        per_day = _DAY_MINUTES // clock.step_minutes
        weekday = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
        slots = weekday * per_day + np.minimum(step, per_day - 1)
        first = np.zeros(len(slots), dtype=bool)
        first[np.unique(days.astype(np.int64) * per_day + step, return_index=True)[1]] = True
        return _Week(slots, days, per_day, first)

    def find_closed(
        self, observed: Bool[np.ndarray, " M"], inside: Bool[np.ndarray, " M"], weeks: int
    ) -> Bool[np.ndarray, "7 D"]:
        """Which steps of the week are absent whenever they occur.

        Args:
            observed: at which steps there is a value.
            inside: the steps that count.
            weeks: in which at least a step of the week must be absent.
        """
        total = np.bincount(self.slots[inside & self.first], minlength=7 * self.per_day)
        seen = np.bincount(self.slots[inside & observed], minlength=7 * self.per_day)
        total, seen = total.reshape(7, -1), seen.reshape(7, -1)
        daily = (seen.sum(axis=0) == 0) & (total.sum(axis=0) >= MIN_DAYS)
        if self.per_day == 1:
            daily[:] = False  # a step of the day is the day
        return np.asarray(((seen == 0) & (total >= weeks)) | daily)


def _text(closed: Bool[np.ndarray, "7 D"], on_holidays: str, step_minutes: int) -> str:
    """The hours of the week and of holidays as text, empty: always open."""
    return "; ".join(filter(None, (weekly_hours(~closed, step_minutes), on_holidays)))


def _closes_on_holidays(
    clock: Clock, week: _Week, present: Bool[np.ndarray, " M"], closed: Bool[np.ndarray, "7 D"]
) -> bool:
    """Whether there is no value on any public holiday on which places would be open."""
    if clock.holidays is None:
        return False
    expected = ~closed.reshape(-1)[week.slots]
    holiday = expected & np.isin(week.days, np.array(clock.holidays.dates, dtype="datetime64[D]"))
    days = np.unique(week.days[holiday])
    return bool(len(days) >= MIN_HOLIDAYS and not present[holiday].any())


def _with_absent_slots(
    values: Float32[np.ndarray, "M N"], week: _Week, closed: Bool[np.ndarray, "7 D"]
) -> list[int]:
    """Return the locations that have values, but none at some steps of the week."""
    order = np.argsort(week.slots, kind="stable")
    slots = week.slots[order]
    firsts = np.flatnonzero(np.diff(slots, prepend=-1))
    counted = ~closed.reshape(-1)[slots[firsts]]
    columns: list[int] = []
    for start in range(0, values.shape[1], _COLUMNS):
        observed = np.isfinite(values[:, start : start + _COLUMNS])
        has_gaps = observed.any(axis=0) & ~observed.all(axis=0)
        by_slot = np.logical_or.reduceat(observed[order], firsts, axis=0)[counted]
        columns += (start + np.flatnonzero(has_gaps & ~by_slot.all(axis=0))).tolist()
    return columns
