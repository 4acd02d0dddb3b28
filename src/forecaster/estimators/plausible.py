"""Implausible and repeated values, and what enters a window in their place.

Every run stores the smallest and largest training value of each location by hour of the week, and
its longest runs of equal values. A value beyond the range is compared with what is usual: the
training mean of its hour of the week, at the level of the day before (counts: by a factor;
measurements: by a difference), or what the location had a day ago. Counts are compared on the
square-root scale, where their noise is about the same at every level; the unit is the spread of
the run's own residuals. A value too far out is implausible: it enters a window at the edge of what
is usual.

Equal values in a row, longer than in training and than chance gives, are repeated: they enter a
window as missing. Zeros enter as they are, since a location may have closed.

A step is judged by values up to it and not further back than `context`, so that the result depends
on the run, the panel and the step alone. A lasting change enters windows as it is from its third
step on, and is no longer marked after about half a day, two days at most.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.clock.clock import WEEK_HOURS, Clock
from forecaster.panel.panel import Panel

RANGE = "shared.range"
LONGEST = "shared.longest_run"
SPREAD = "intervals.spread"  # as `intervals.calibration` stores it
MEANS = "shared.fill"

BESIDE = 3.0  # spreads beside the range of training that are not implausible yet
FAR = 5.0  # spreads from the usual value: beyond them a value outside the range is implausible
NEAR = 1.0  # spreads from the recent level at which an implausible value enters a window
BUSY = 8.0  # usual count from which a zero is implausible where training had none
MULTIPLE = 8.0  # of a usual count: implausible; from BUSY on even within the range
ORDINARY = 4.0  # times the training mean: not implausible for being a multiple of the usual value
SMALLEST = 1e-3  # of the range of a measurement: its smallest unit
MIN_JOINT = 6  # locations that tell by how much all are low or high
JOINT_LEAST = 1.5  # factor by which all counts must be low or high to count
JOINT_MOST = 4.0  # factor by which all counts together may be above the usual ones
SUPPORT = 0.5  # of a deviation that the step before must have had as well for an event
MIN_RUN = 3  # equal values that are never too many
LONGER = 1.5  # times the longest run of training
CHANCE = 1e-7  # probability of equal counts in a row that is not put down to chance
MIN_WEEKS = 4  # of training, from which the most extreme one is left out of a range
LEFT_OUT = 0.05  # of the weeks, whose smallest values are left out: outages report zeros
RUN_DAYS = 14  # the longest run that is told from longer ones
_DAY_MINUTES = 24 * 60
_DAY_HOURS = 24
_WEEK_DAYS = 7
_WEEK_SECONDS = WEEK_HOURS * 3600
_MONDAY = np.datetime64("1970-01-05", "s")
_CELLS = 50_000  # suspects at a time
_COLUMNS = 128  # locations at a time
_ROOT = 3 / 8  # √(x + 3/8) of a Poisson count has a deviation of about ½ (Anscombe)

Steps = Int64[np.ndarray, " k"]
Numbers = Float64[np.ndarray, " k"]
Cells = tuple[np.ndarray, np.ndarray]  # steps and columns


class Marks(NamedTuple):
    """The values that are implausible or repeated, one entry each."""

    steps: Int64[np.ndarray, " k"]
    columns: Int64[np.ndarray, " k"]
    limits: Float64[np.ndarray, " k"]  # the nearest plausible value; NaN: repeated
    lengths: Int64[np.ndarray, " k"]  # of the run of equal values; 0: implausible
    entries: Float64[np.ndarray, " k"]  # what enters a window; NaN: nothing


class Joint(NamedTuple):
    """What all locations have in common at a step: factors of counts, else differences."""

    low: float  # by how much they are below what is usual
    high: float  # … above
    change: float  # against the three steps before


@dataclass(frozen=True, eq=False)
class Judgement:
    """The values of T steps as they enter windows, and the marks among them."""

    values: Float32[np.ndarray, "T N"]  # NaN: missing or repeated
    marks: Marks  # their steps are counted from the first of the T

    @cached_property
    def marked(self) -> Bool[np.ndarray, "T N"]:
        """Which values are implausible or repeated."""
        marked = np.zeros(self.values.shape, dtype=bool)
        marked[self.marks.steps, self.marks.columns] = True
        return marked

    def marked_since(
        self, origins: Int64[np.ndarray, " B"], steps: int
    ) -> Bool[np.ndarray, "B N"]:
        """Which locations have a mark in the last steps up to each origin."""
        B, N = len(origins), self.values.shape[1]
        if not len(self.marks.steps):
            return np.zeros((B, N), dtype=bool)
        counts = np.cumsum(self.marked, axis=0, dtype=np.int32)
        before = np.maximum(origins - steps, -1)
        earlier = np.where((before >= 0)[:, None], counts[np.maximum(before, 0)], 0)
        return np.asarray(counts[origins] > earlier)


@dataclass(frozen=True, eq=False)
class Plausibility:
    """What a run knows about plausible values."""

    kind: str
    means: Float32[np.ndarray, "W N"]  # of training, by time of the week
    least: Float32[np.ndarray, "H N"]  # of training, by hour of the week
    most: Float32[np.ndarray, "H N"]
    longest: Int64[np.ndarray, "2 N"]  # runs of equal training values: not zero, zero
    spread: Float32[np.ndarray, "24 N"]  # of the residuals, by hour of the day

    @staticmethod
    def of(run: Run) -> "Plausibility | None":
        """The plausibility of a run; None before its calibration, and for older runs."""
        names = MEANS, RANGE, LONGEST, SPREAD
        if any(name not in run.arrays for name in names):
            return None
        means, (least, most), longest, spread = (run.arrays[name] for name in names)
        return Plausibility(run.about["kind"], means, least, most, longest, spread)

    def plausible_values(
        self, panel: Panel, steps: Int64[np.ndarray, " S"]
    ) -> Float32[np.ndarray, "S N"]:
        """The values of some steps of a panel, NaN where they are implausible or repeated."""
        if not len(steps):
            return np.asarray(panel.values[steps])
        first = int(steps.min())
        judgement = self.judge(panel, first, int(steps.max()) + 1)
        return np.where(judgement.marked[steps - first], np.float32(np.nan), panel.values[steps])

    @cached_property
    def hourly_means(self) -> Float64[np.ndarray, "24 N"]:
        """The training means by hour of the day, where the spread was measured."""
        W, N = self.means.shape
        means = self.means.astype(np.float64)
        if W % (_WEEK_DAYS * _DAY_HOURS):  # steps that do not divide an hour
            return np.tile(means.mean(axis=0), (_DAY_HOURS, 1))
        return np.asarray(means.reshape(_WEEK_DAYS, _DAY_HOURS, -1, N).mean(axis=(0, 2)))

    def judge(self, panel: Panel, first: int, end: int) -> Judgement:
        """Judge the steps first…end−1.

        Args:
            panel: matched to the run.
            first: the first step to judge; the `context` before it is looked at.
            end: the step after the last.
        """
        begin = max(first - context(panel.clock), 0)
        marks = _History(self, panel, begin, end).find_marks(first - begin)
        values = panel.values[first:end]
        if len(marks.steps):
            values = values.copy(order="K")
            values[marks.steps, marks.columns] = marks.entries
        return Judgement(values, marks)


def day_steps(clock: Clock) -> int:
    """The steps of a day; of a week where a day has fewer than seven."""
    day = _DAY_MINUTES // clock.step_minutes
    return day if day >= _WEEK_DAYS else max(_WEEK_DAYS * day, _WEEK_DAYS)


def context(clock: Clock) -> int:
    """The number of earlier steps on which the judgement of a step may depend.

    It looks two days and a step back, and there as far back as runs of equal values are told.
    """
    return (RUN_DAYS + 2) * day_steps(clock) + 1


def fit_plausible(panel: Panel, train: Bool[np.ndarray, " M"]) -> dict[str, np.ndarray]:
    """The arrays that a run stores: training ranges by hour of the week, and longest runs.

    A range is that of its hour and of the hours before and after, without the most extreme week:
    a New Year's night does not make such values plausible every week. An hour without any training
    value has the range of the location.
    """
    clock = panel.clock
    local, H = clock.local(panel.times), _count_hours(clock)
    weeks = (local - _MONDAY).astype(np.int64) // _WEEK_SECONDS
    places = (weeks - weeks.min()) * H + _hours_of_week(clock, clock.slot_of_week(panel.times))
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
    """The names of arrays that cannot come from `fit_plausible`; older runs have neither."""
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
    return np.stack([(lengths * rows).max(axis=0) for rows in kinds])


def run_lengths(values: Float32[np.ndarray, "T N"]) -> Int64[np.ndarray, "T N"]:
    """The number of equal values up to each step; a missing value is a run of its own."""
    changed = np.ones(values.shape, dtype=bool)
    changed[1:] = values[1:] != values[:-1]
    steps = np.arange(len(values))[:, None]
    return np.asarray(steps - np.maximum.accumulate(np.where(changed, steps, 0), axis=0) + 1)


class _History:
    """Some steps of a panel, with what is needed to judge them."""

    def __init__(self, plausibility: Plausibility, panel: Panel, begin: int, end: int) -> None:
        clock = panel.clock
        times = clock.axis(panel.start + begin * clock.step, end - begin)
        local = clock.local(times)
        self.plausibility, self.values = plausibility, panel.values[begin:end]
        self.day, self.slots = day_steps(clock), clock.slot_of_week(times)
        self.week_hours = _hours_of_week(clock, self.slots)
        self.hours = (local - local.astype("datetime64[D]")).astype(np.int64) // 3600
        self.lengths = np.minimum(run_lengths(self.values), RUN_DAYS * self.day)
        self.stuck = self._find_stuck()

    def find_marks(self, first: int) -> Marks:
        """The marks of the steps from `first` on, with steps counted from there."""
        doubted = [self._judge(cells) for cells in _in_parts(self._suspects(first))]
        steps, columns = (
            np.concatenate(part) for part in zip(*(d[:2] for d in doubted), strict=True)
        )
        joint = self._look_around(np.unique(steps).tolist())
        parts = [self._judge(cells, joint) for cells in _in_parts((steps, columns))]
        zeros = self._find_zero_runs(first)
        for part in parts:
            zeros[part.steps, part.columns] = False
        stuck = self.stuck.copy()
        stuck[:first] = False
        parts += [self._repeated(stuck, keep=False), self._repeated(zeros, keep=True)]
        marks = Marks(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        order = np.lexsort((marks.columns, marks.steps))
        marks = Marks(*(column[order] for column in marks))
        return marks._replace(steps=marks.steps - first)

    def _look_around(self, steps: Iterable[int]) -> dict[int, Joint]:
        """What all locations have in common at some steps: medians.

        A wrong value stands alone. On a New Year's night all locations are high: that is no fault.
        """
        return {step: self._joint(step) for step in steps}

    def _joint(self, step: int) -> Joint:
        columns = np.flatnonzero(np.isfinite(self.values[step]))
        cells = np.full(len(columns), step), columns
        x, usual = self.values[cells].astype(np.float64), self._usual(*cells)
        before, now = (
            self._recent_level(cells),
            self._levels(*cells, np.zeros(1, int), self.values),
        )
        if self.plausibility.kind != "count":
            least = float(np.median(self._unit(cells, usual))) if len(columns) else 0.0
            shift = _beyond(_middle(x - usual, 0.0), least)
            return Joint(min(shift, 0.0), max(shift, 0.0), _middle(now[:, 0] - before, 0.0))
        heard = (usual >= 1) & (
            self.plausibility.most.max(axis=0)[columns] > 0
        )  # not those that open
        positive = heard & (x > 0)  # zeros may be an outage
        factor = (x + 1) / (usual + 1)
        low, high = (
            float(np.exp(_beyond(np.log(_middle(factors, 1.0)), np.log(JOINT_LEAST))))
            for factors in (factor[positive], factor[heard])
        )
        change = _middle((now[:, 0] / before)[positive], 1.0)
        return Joint(
            min(low, 1.0),
            float(np.clip(high, 1.0, JOINT_MOST)),
            float(np.clip(change, 1 / JOINT_MOST, JOINT_MOST)),
        )

    def _repeated(self, where: Bool[np.ndarray, "T N"], *, keep: bool) -> Marks:
        """The marks of repeated values, which enter windows as they are or not at all."""
        steps, columns = np.nonzero(where)
        values = self.values[steps, columns]
        entries = values.astype(np.float64) if keep else np.full(len(values), np.nan)
        limits = np.full(len(steps), np.nan)
        return Marks(steps, columns, limits, self.lengths[steps, columns], entries)

    def _find_stuck(self) -> Bool[np.ndarray, "T N"]:
        """Values other than zero that are repeated for too long."""
        plausibility = self.plausibility
        limit = np.maximum(LONGER * plausibility.longest[0], MIN_RUN)
        stuck = (self.lengths > limit) & (self.values != 0)
        if plausibility.kind == "count" and stuck.any():
            steps, columns = np.nonzero(stuck)
            likely = 1 / np.sqrt(
                2 * np.pi * np.maximum(self.values[steps, columns].astype(np.float64), 1)
            )
            chance = likely ** self.lengths[steps, columns]  # at most, of Poisson counts
            stuck[steps, columns] = chance < CHANCE
        return np.asarray(stuck)

    def _find_zero_runs(self, first: int) -> Bool[np.ndarray, "T N"]:
        """Zeros repeated for too long; counts where demand was expected by the level before."""
        plausibility, values = self.plausibility, self.values
        limit = np.maximum(LONGER * plausibility.longest[1], MIN_RUN)
        found = (values == 0) & (self.lengths > limit)
        found[:first] = False
        if plausibility.kind != "count" or not found.any():
            return np.asarray(found)
        steps, columns = np.nonzero(found)
        length = self.lengths[steps, columns]
        sums = np.cumsum(plausibility.means[self.slots].astype(np.float64), axis=0)
        starts = steps - length
        before = np.where(starts >= 0, sums[np.maximum(starts, 0), columns], 0)
        expected = sums[steps, columns] - before
        parts = _in_parts((starts + 1, columns))
        level = np.concatenate([self._level(*cells, values) for cells in parts])
        found[steps, columns] = level * (expected + length) - length >= BUSY
        return np.asarray(found)

    def _suspects(self, first: int) -> Cells:
        """The cells from step `first` on that need a closer look."""
        plausibility, hours = self.plausibility, self.week_hours[first:]
        values, stuck = self.values[first:], self.stuck[first:]
        least, most = plausibility.least[hours], plausibility.most[hours]
        if plausibility.kind == "count":
            means = plausibility.means[self.slots[first:]]
            high = (values > most) | (values > np.maximum(MULTIPLE * BUSY, ORDINARY * means))
            suspect = high | ((values == 0) & (least > 0))
        else:
            suspect = (values > most) | (values < least)
        steps, columns = np.nonzero(suspect & ~stuck)
        return steps + first, columns

    def _judge(self, cells: Cells, joint: Mapping[int, Joint] | None = None) -> Marks:
        """The marks of the implausible ones among suspected cells.

        Args:
            cells: the suspects.
            joint: what all locations have in common, by step; None: nothing.
        """
        (steps, columns), plausibility, x = (
            cells,
            self.plausibility,
            self.values[cells].astype(np.float64),
        )
        least, most = (
            ends[self.week_hours[steps], columns]
            for ends in (plausibility.least, plausibility.most)
        )
        neutral = Joint(1.0, 1.0, 1.0) if plausibility.kind == "count" else Joint(0.0, 0.0, 0.0)
        joints = [(joint or {}).get(step, neutral) for step in steps.tolist()]
        low, high, change = np.array(joints, dtype=np.float64).reshape(-1, 3).T
        lower, upper = self._usual_range(cells, low, high)
        unit = self._unit(cells, upper)
        once, twice = self._supported(cells)
        bottom, top = self._shifted(lower, -FAR * unit), self._shifted(upper, FAR * unit)
        recent = self._recent_level(cells)
        now = recent * change if plausibility.kind == "count" else recent + change
        centre = np.clip(self._at_level(*cells, now), bottom, top)
        entries = self._shifted(centre, np.sign(x - centre) * NEAR * unit)
        entries = np.clip(entries, np.minimum(least, centre), np.maximum(most, centre))
        beside = BESIDE * unit
        if plausibility.kind != "count":
            beside = np.maximum(beside, (most - least) / 2)
        bottom = np.minimum(bottom, self._shifted(least.astype(np.float64), -beside))
        top = np.maximum(top, self._shifted(most.astype(np.float64), beside))
        if plausibility.kind == "count":
            ceiling = MULTIPLE * np.maximum(upper, BUSY)
            ceiling = np.where(upper >= BUSY, ceiling, np.maximum(ceiling, most))
            top = np.minimum(top, ceiling)
            busy = np.maximum(lower, self._at_level(*cells, recent)) >= BUSY
            low = (x == 0) & (least > 0) & busy & ~self._was_zero(steps, columns)
            entries = np.where(low, np.maximum(centre, least), entries)
            bottom, impossible = least, low
        else:
            bottom = np.where(
                once, np.minimum(bottom, plausibility.least.min(axis=0)[columns]), bottom
            )
            impossible = (plausibility.least.min(axis=0)[columns] >= 0) & (x < 0)
            bottom = np.where(impossible, np.maximum(bottom, 0), bottom)
            low = x < bottom
        top = np.where(once, np.maximum(top, plausibility.most.max(axis=0)[columns]), top)
        entries = np.where(low, np.maximum(entries, x), np.minimum(entries, x))
        entries = np.where(once & twice & ~impossible, x, entries)
        chosen, limits = low | (x > top), np.where(low, bottom, top)
        lengths = np.zeros(int(chosen.sum()), dtype=np.int64)
        return Marks(*_pick(cells, chosen), limits[chosen], lengths, entries[chosen])

    def _usual_range(self, cells: Cells, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
        """The lowest and the highest of the values that may be called usual."""
        usual, (daily_low, daily_high) = self._usual(*cells), self._usual_daily(*cells)
        if (
            self.plausibility.kind == "count"
        ):  # what was low the day before is no reason for a zero
            return (usual + 1) * low - 1, (np.fmax(usual, daily_high) + 1) * high - 1
        return np.fmin(usual, daily_low) + low, np.fmax(usual, daily_high) + high

    def _supported(self, cells: Cells) -> tuple[Bool[np.ndarray, " k"], Bool[np.ndarray, " k"]]:
        """Whether the value of one step before, and of two, was as unusual: such is an event."""
        levels = self._levels(*cells, np.arange(3), self.values)
        if self.plausibility.kind == "count":
            now, *before = levels.T
            once, twice = (level >= SUPPORT * now for level in before)
        else:
            now, *before = (levels - self._level(*cells, self.trusted)[:, None]).T
            once, twice = (far * np.sign(now) >= SUPPORT * np.abs(now) for far in before)
        return np.asarray(once), np.asarray(twice)

    def _shifted(self, values: Numbers, by: Numbers) -> Numbers:
        """Values moved by spreads: those of counts on the square-root scale."""
        if self.plausibility.kind != "count":
            return np.asarray(values + by)
        roots = np.sqrt(np.maximum(values, 0) + _ROOT) + by
        return np.asarray(np.maximum(np.square(np.maximum(roots, 0)) - _ROOT, 0))

    def _usual(self, steps: Steps, columns: Steps) -> Float64[np.ndarray, " k"]:
        """The training mean of the time of the week, at the level of the day before."""
        return self._at_level(steps, columns, self._level(steps, columns, self.trusted))

    def _usual_daily(self, steps: Steps, columns: Steps) -> tuple[Numbers, Numbers]:
        """The same at the levels of this time one and two days ago: how low and high both were.

        So a place that opened, or has other hours than in training, is accepted after two days,
        and one wrong value makes no other plausible. NaN: unknown.
        """
        usual = []
        for days in (1, 2):
            around = days * self.day + np.arange(-1, 2)
            levels = self._levels(steps, columns, around, self.trusted)
            usual.append(self._at_level(steps, columns, _median(levels, 2, np.nan)))
        return np.maximum(*usual), np.minimum(*usual)

    def _recent_level(self, cells: Cells) -> Numbers:
        """The median level of the last three steps; else that of the day before."""
        levels = self._levels(*cells, np.arange(1, 4), self.trusted)
        recent, day = _median(levels, 2, np.nan), self._level(*cells, self.trusted)
        return np.where(np.isnan(recent), day, recent)

    def _at_level(
        self, steps: Steps, columns: Steps, level: Float64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, " k"]:
        mean = self.plausibility.means[self.slots[steps], columns].astype(np.float64)
        if self.plausibility.kind == "count":
            return np.asarray(np.maximum(level * (mean + 1) - 1, 0))
        return np.asarray(mean + level)

    def _level(
        self, steps: Steps, columns: Steps, values: Float32[np.ndarray, "T N"]
    ) -> Float64[np.ndarray, " k"]:
        """The median, over the day before, of values against their training means."""
        levels = self._levels(steps, columns, np.arange(1, self.day + 1), values)
        default = 1.0 if self.plausibility.kind == "count" else 0.0
        return _median(levels, least=max(self.day // 4, 2), default=default)

    def _levels(
        self,
        steps: Steps,
        columns: Steps,
        back: Int64[np.ndarray, " n"],
        values: Float32[np.ndarray, "T N"],
    ) -> Float64[np.ndarray, "k n"]:
        """Values some steps back against their training means: factors, or differences."""
        earlier = steps[:, None] - back
        inside = np.maximum(earlier, 0)
        mean = self.plausibility.means[self.slots[inside], columns[:, None]].astype(np.float64)
        observed = np.where(earlier >= 0, values[inside, columns[:, None]], np.nan)
        count = self.plausibility.kind == "count"
        return np.asarray((observed + 1) / (mean + 1) if count else observed - mean)

    def _was_zero(self, steps: Steps, columns: Steps) -> Bool[np.ndarray, " k"]:
        """Whether a value was zero a day ago and a week ago as well."""
        earlier = steps[:, None] - self.day * np.array([1, _WEEK_DAYS])
        zero = self.values[np.maximum(earlier, 0), columns[:, None]] == 0
        return np.asarray((zero & (earlier >= 0)).all(axis=1))

    def _unit(self, cells: Cells, upper: Numbers) -> Numbers:
        """The spread; of counts on the square-root scale, at least that of counting.

        Above the level of training that of counts grows with the level, as in other units.
        """
        (steps, columns), plausibility = cells, self.plausibility
        spread = plausibility.spread[self.hours[steps], columns].astype(np.float64)
        if plausibility.kind != "count":
            ends = plausibility.least, plausibility.most
            least, most = (end[self.week_hours[steps], columns] for end in ends)
            return np.asarray(np.maximum(spread, SMALLEST * (most - least)))
        unit = np.maximum(
            spread / (2 * np.sqrt(plausibility.hourly_means[self.hours[steps], columns] + _ROOT)),
            0.5,
        )
        trained = plausibility.means[self.slots[steps], columns].astype(np.float64)
        return np.asarray(unit * np.sqrt(np.maximum((upper + 1) / (trained + 1), 1)))

    @cached_property
    def trusted(self) -> Float32[np.ndarray, "T N"]:
        """The values without repeated ones."""
        return (
            np.where(self.stuck, np.float32(np.nan), self.values)
            if self.stuck.any()
            else self.values
        )


def _median(
    values: Float64[np.ndarray, "k n"], least: int, default: float
) -> Float64[np.ndarray, " k"]:
    """The median of the finite values of each row; `default` where fewer than `least` are."""
    ordered, count = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)  # NaN go last
    row, enough = np.arange(len(values)), np.asarray(count >= least)
    low, high = (
        ordered[row, np.maximum(count - 1, 0) // 2],
        ordered[row, np.minimum(count // 2, values.shape[1] - 1)],
    )
    return np.where(enough, low + (high - low) / 2, default)


def _middle(values: Float64[np.ndarray, " n"], default: float) -> float:
    """The median of enough values."""
    return float(np.median(values)) if len(values) >= MIN_JOINT else default


def _beyond(value: float, least: float) -> float:
    """A value of at least twice ± least; less counts less, and from ± least on not at all.

    What is common at an ordinary step is 0 then, so that no location affects another there.
    """
    return float(np.sign(value) * np.clip(2 * (abs(value) - least), 0, abs(value)))


def _pick(cells: Cells, chosen: Bool[np.ndarray, " k"]) -> Cells:
    return cells[0][chosen], cells[1][chosen]


def _in_parts(cells: Cells) -> Iterator[Cells]:
    """The cells in parts of a bounded size, at least one."""
    for start in range(0, max(len(cells[0]), 1), _CELLS):
        yield cells[0][start : start + _CELLS], cells[1][start : start + _CELLS]


def _count_hours(clock: Clock) -> int:
    """The hours of a week; longer steps have a place for each."""
    return min(clock.slots_per_week, WEEK_HOURS)


def _hours_of_week(clock: Clock, slots: Steps) -> Steps:
    """The hour of the week of each slot; of longer steps the slot."""
    return np.asarray(slots * clock.step_minutes // max(clock.step_minutes, 60))
