"""The ranges of training values and their longest runs, by which `plausible` judges later ones."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64

from forecaster.clock.clock import WEEK_HOURS, Clock
from forecaster.panel.panel import Panel

RANGE = "shared.range"  # [2 H N]: smallest and largest, by hour of the week
LONGEST = "shared.longest_run"  # [2 N]: of equal values that are not zero, and of zeros
MIN_WEEKS = 4  # from which the most extreme week is left out of a range
LEFT_OUT = 0.05  # of the weeks, whose smallest values are left out: outages report zeros
_WEEK_SECONDS = WEEK_HOURS * 3600
_MONDAY = np.datetime64("1970-01-05", "s")
_COLUMNS = 128  # locations at a time


def fit_ranges(panel: Panel, train: Bool[np.ndarray, " M"]) -> dict[str, np.ndarray]:
    """The arrays that a run stores: training ranges by hour of the week, and longest runs.

    A range is that of its hour and of the hours before and after, without the most extreme week:
    a New Year's night does not make such values plausible every week. An hour without any training
    value has the range of the location.
    """
    clock = panel.clock
    local, H = clock.local(panel.times), _count_hours(clock)
    weeks = (local - _MONDAY).astype(np.int64) // _WEEK_SECONDS
    places = (weeks - weeks.min()) * H + hours_of_week(clock, clock.slot_of_season(panel.times))
    order = np.argsort(places, kind="stable")  # clocks that go back repeat an hour
    firsts = np.flatnonzero(np.diff(places[order], prepend=-1))
    rows, length = places[order][firsts], (int(weeks.max() - weeks.min()) + 1) * H
    ranges = np.empty((2, H, panel.values.shape[1]), dtype=np.float32)
    longest = np.empty((2, panel.values.shape[1]), dtype=np.int64)
    for start in range(0, panel.values.shape[1], _COLUMNS):
        block = slice(start, start + _COLUMNS)
        values = np.where(train[:, None], panel.values[:, block], np.float32(np.nan))
        longest[:, block] = _longest_runs(values)
        for number, (sign, left_out) in enumerate(((-1, LEFT_OUT), (1, 0.0))):
            hourly = np.full((length, values.shape[1]), np.nan, dtype=np.float32)
            hourly[rows] = np.fmax.reduceat(sign * values[order], firsts, axis=0)
            ranges[number, :, block] = sign * _largest(hourly, H, left_out)
    return {RANGE: ranges, LONGEST: longest}


def _largest(
    hourly: Float32[np.ndarray, "T n"], H: int, left_out: float
) -> Float32[np.ndarray, "H n"]:
    """The largest value by hour of the week, without the most extreme weeks; 0 if there is none.

    Args:
        hourly: values of whole weeks, NaN: missing.
        H: the hours of a week.
        left_out: the share of the weeks that is left out; at least one week of four.
    """
    if H == WEEK_HOURS:  # with the hours before and after; longer steps stand alone
        around = np.pad(hourly, ((1, 1), (0, 0)), constant_values=np.nan)
        hourly = np.fmax.reduce([around[:-2], hourly, around[2:]])
    weeks = np.sort(hourly.reshape(-1, H, hourly.shape[1]), axis=0)  # NaN go last
    count = np.isfinite(weeks).sum(axis=0)
    extreme = np.where(count >= MIN_WEEKS, np.maximum((left_out * count).astype(np.int64), 1), 0)
    largest = np.take_along_axis(weeks, np.maximum(count - 1 - extreme, 0)[None], axis=0)[0]
    overall = np.fmax.reduce(largest, axis=0)
    return np.asarray(np.nan_to_num(np.where(np.isnan(largest), overall, largest)))


def find_wrong(arrays: Mapping[str, np.ndarray], W: int, N: int) -> list[str]:
    """The names of arrays that cannot come from `fit_ranges`; older runs have neither."""
    needed = {
        RANGE: ("float32", (2, min(W, WEEK_HOURS), N)),
        LONGEST: ("int64", (2, N)),
    }
    if not any(name in arrays for name in needed):
        return []
    wrong = [n for n, form in needed.items() if (arrays[n].dtype.name, arrays[n].shape) != form]
    if not wrong:
        (least, most), longest = arrays[RANGE], arrays[LONGEST]
        ordered = np.isfinite(arrays[RANGE]).all() and (least <= most).all()
        wrong = [RANGE] * (not ordered) + [LONGEST] * bool((longest < 0).any())
    return wrong


def _longest_runs(values: Float32[np.ndarray, "M n"]) -> Int64[np.ndarray, "2 n"]:
    """The longest runs of equal values: of others than zero, and of zeros."""
    lengths = run_lengths(values)
    kinds = np.isfinite(values) & (values != 0), values == 0
    return np.stack([(lengths * rows).max(axis=0) for rows in kinds]).astype(np.int64)


def run_lengths(values: Float32[np.ndarray, "T N"]) -> Int32[np.ndarray, "T N"]:
    """The number of equal values up to each step; a missing value is a run of its own."""
    lengths = np.zeros(values.shape, dtype=np.int32)  # less one, until the end
    np.equal(values[1:], values[:-1], out=lengths[1:], casting="unsafe")
    for step in range(1, len(lengths)):  # much faster than an accumulated maximum
        lengths[step] *= lengths[step - 1] + 1
    lengths += 1
    return lengths


def _count_hours(clock: Clock) -> int:
    """The hours of a week; longer steps have a place for each."""
    return min(clock.season_slots, WEEK_HOURS)


def hours_of_week(clock: Clock, slots: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    """The hour of the week of each slot; of longer steps the slot."""
    return np.asarray(slots * clock.step_minutes // max(clock.step_minutes, 60))
