"""Implausible and repeated values, and what enters a window in their place.

Every run stores the smallest and largest training value of each location by hour of the week, and
its longest runs of equal values. What is usual is the training mean of the time of the week at the
level of the day before (counts: times a factor; measurements: plus a difference), or what both
days before had at this time. A value is implausible if it lies far beyond the training range, what
is usual, and both steps before (`_limit_counts`, `_limit_measurements`). What was to be expected
enters a window in its place: the usual value at the level of the last steps, changed as all
locations have changed at that step.

Equal values in a row, many more than in training and than chance gives, are repeated: nothing
enters for them. Zeros enter as they are, since a location may have closed.

A value is marked by the values of its own location alone. A step is judged by values up to it and
not further back than `context`, so that the result depends on the run, the panel and the step. A
lasting change enters windows as it is from its third step on, and is no longer marked after about
half a day, two days at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.clock.clock import Clock
from forecaster.estimators.wrong_values.value_ranges import (
    LONGEST,
    RANGE,
    hours_of_week,
    run_lengths,
)
from forecaster.panel.panel import Panel

SPREAD = "intervals.spread"  # as `intervals.calibration` stores it
MEANS = "shared.fill"

BEYOND = 3  # times what training or the steps before had: more is far beyond it
LONGER = 1.5  # times the longest run of training
FAR = 5.0  # spreads from what is usual; less is not implausible
BUSY = 9.0  # usual count from which a zero is no chance: e⁻⁹ is one in 8,000
MULTIPLE = 8.0  # of a usual count of BUSY or more: implausible in any case
REPEATED_HOURS = 3  # that equal values may always last, and as many steps
MANY = 6  # locations that tell what all have in common
CLEAR = 1.5  # a factor of counts, or spreads of measurements: less in common is put down to chance
CHANCE = 1e-7  # probability of equal counts in a row that is not put down to chance
RUN_DAYS = 14  # the longest run that is told from longer ones
_DAY_MINUTES = 24 * 60
_LONG_STEPS = 3  # stand for a day where a step is a week or longer
_WEEK_DAYS = 7
_CELLS = 50_000  # suspects at a time

Numbers = Float64[np.ndarray, " k"]
Cells = tuple[np.ndarray, np.ndarray]  # steps and columns


class Marks(NamedTuple):
    """The values that are implausible or repeated, one entry each."""

    steps: Int64[np.ndarray, " k"]
    columns: Int64[np.ndarray, " k"]
    limits: Float64[np.ndarray, " k"]  # the nearest plausible value; NaN: repeated
    lengths: Int64[np.ndarray, " k"]  # of the run of equal values; 0: implausible
    entries: Float64[np.ndarray, " k"]  # what enters a window; NaN: nothing


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

    @cached_property
    def floor(self) -> Float64[np.ndarray, " N"]:
        """A third of the smallest training value of each location; −∞ where it is negative."""
        smallest = self.least.min(axis=0).astype(np.float64)
        return np.where(smallest >= 0, smallest / BEYOND, -np.inf)

    @staticmethod
    def of(run: Run) -> "Plausibility | None":
        """The plausibility of a run; None before its calibration, and for older runs."""
        names = MEANS, RANGE, LONGEST, SPREAD
        if any(name not in run.arrays for name in names):
            return None
        means, (least, most), longest, spread = (run.arrays[name] for name in names)
        return Plausibility(run.about["kind"], means, least, most, longest, spread)

    def of_location(self, column: int) -> "Plausibility":
        """What is known of one location alone: marks depend on its own values only."""
        arrays = self.means, self.least, self.most, self.longest, self.spread
        means, least, most, longest, spread = (array[:, [column]] for array in arrays)
        return Plausibility(self.kind, means, least, most, longest, spread)

    def plausible_values(
        self, panel: Panel, steps: Int64[np.ndarray, " S"]
    ) -> Float32[np.ndarray, "S N"]:
        """The values of some steps of a panel, NaN where they are implausible or repeated."""
        if not len(steps):
            return np.asarray(panel.values[steps])
        first = int(steps.min())
        judgement = self.judge(panel, first, int(steps.max()) + 1)
        return np.where(judgement.marked[steps - first], np.float32(np.nan), panel.values[steps])

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
    """The steps of a day; of a week where a day has fewer than seven; three weeks or months."""
    if clock.has_yearly_season:
        return _LONG_STEPS
    day = _DAY_MINUTES // clock.step_minutes
    return day if day >= _WEEK_DAYS else max(_WEEK_DAYS * day, _WEEK_DAYS)


def context(clock: Clock) -> int:
    """The number of earlier steps on which the judgement of a step may depend.

    It looks two days and two steps back, and there as far back as runs of equal values are told.
    """
    return (RUN_DAYS + 2) * day_steps(clock) + 2


class _History:
    """Some steps of a panel, with what is needed to judge them."""

    def __init__(self, plausibility: Plausibility, panel: Panel, begin: int, end: int) -> None:
        clock = panel.clock
        times = panel.instants(np.arange(begin, end))
        local = clock.local(times)
        self.plausibility = plausibility
        self.values = np.ascontiguousarray(panel.values[begin:end])  # columns are slow
        self.is_count = plausibility.kind == "count"
        self.day, self.slots = day_steps(clock), clock.slot_of_season(times)
        self.week_hours = hours_of_week(clock, self.slots)
        self.hours = (local - local.astype("datetime64[D]")).astype(np.int64) // 3600
        self.lengths = np.minimum(run_lengths(self.values), np.int32(RUN_DAYS * self.day))
        least = max(REPEATED_HOURS * 60 // clock.step_minutes, REPEATED_HOURS)
        self.longest = np.maximum(LONGER * plausibility.longest, least).astype(np.int32)
        self.stuck = self._find_stuck()

    def find_marks(self, first: int) -> Marks:
        """The marks of the steps from `first` on, with steps counted from there."""
        parts = [self._judge(cells) for cells in _in_parts(self._suspects(first))]
        zeros = self._find_zero_runs(first)
        for part in parts:
            zeros[part.steps - first, part.columns] = False
        parts += [self._repeated(self.stuck[first:], first), self._repeated(zeros, first)]
        marks = Marks(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        order = np.lexsort((marks.columns, marks.steps))
        marks = Marks(*(column[order] for column in marks))
        return marks._replace(steps=marks.steps - first)

    def _repeated(self, where: Bool[np.ndarray, "S N"], first: int) -> Marks:
        """The marks of repeated values: zeros enter windows, and nothing enters for others."""
        steps, columns = _find(where, first)
        values = self.values[steps, columns].astype(np.float64)
        entries, limits = np.where(values == 0, 0, np.nan), np.full(len(steps), np.nan)
        return Marks(steps, columns, limits, self.lengths[steps, columns].astype(int), entries)

    def _find_stuck(self) -> Bool[np.ndarray, "T N"]:
        """Values other than zero that are repeated for too long."""
        stuck = (self.lengths > self.longest[0]) & (self.values != 0)
        if self.is_count and stuck.any():
            steps, columns = _find(stuck, 0)
            counts = np.maximum(self.values[steps, columns].astype(np.float64), 1)
            likely = 1 / np.sqrt(2 * np.pi * counts)  # at most, of a Poisson count
            stuck[steps, columns] = likely ** self.lengths[steps, columns] < CHANCE
        return np.asarray(stuck)

    def _find_zero_runs(self, first: int) -> Bool[np.ndarray, "S N"]:
        """Zeros repeated for too long; counts where demand was expected by the level before."""
        zeros = (self.values[first:] == 0) & (self.lengths[first:] > self.longest[1])
        if not self.is_count or not zeros.any():
            return np.asarray(zeros)
        steps, columns = _find(zeros, first)
        length, distinct = self.lengths[steps, columns], np.unique(columns)
        means = self.plausibility.means[:, distinct][self.slots].astype(np.float64)
        sums = np.cumsum(np.pad(means, ((1, 0), (0, 0))), axis=0)
        starts, place = steps - length + 1, np.searchsorted(distinct, columns)
        expected = sums[steps + 1, place] - sums[starts, place]
        parts = _in_parts((starts, columns))
        level = np.concatenate([self._level(cells, self.values) for cells in parts])
        zeros[steps - first, columns] = level * (expected + length) - length >= BUSY
        return np.asarray(zeros)

    def _suspects(self, first: int) -> Cells:
        """The cells from step `first` on that need a closer look."""
        plausibility, values = self.plausibility, self.values[first:]
        slots, places = np.unique(self.slots[first:], return_inverse=True)
        hours = slots * len(plausibility.most) // len(plausibility.means)
        least, most = plausibility.least[hours], plausibility.most[hours]
        if self.is_count:
            means = plausibility.means[slots]
            ceiling = np.minimum(BEYOND * most, MULTIPLE * np.maximum(means / 2, BUSY))
            suspect = values > np.maximum(ceiling, BUSY)[places]
            suspect |= (values == 0) & (means >= BUSY / BEYOND)[places]
        else:
            beside = (BEYOND - 1) * (most - least)
            floor = np.maximum(least - beside, plausibility.floor)
            suspect = (values > (most + beside)[places]) | (values < floor[places])
        return _find(suspect & ~self.stuck[first:], first)

    def _judge(self, cells: Cells) -> Marks:
        """The marks of the implausible ones among suspected cells."""
        x = self.values[cells].astype(np.float64)
        bottom, top = (
            self._limit_counts(cells) if self.is_count else self._limit_measurements(cells)
        )
        chosen = (x < bottom) | (x > top)
        low, limits = (x < bottom)[chosen], np.where(x < bottom, bottom, top)[chosen]
        cells = cells[0][chosen], cells[1][chosen]
        lengths = np.zeros(len(low), dtype=np.int64)
        return Marks(*cells, limits, lengths, self._enter(cells, low))

    def _limit_counts(self, cells: Cells) -> tuple[Numbers, Numbers]:
        """The smallest and the largest plausible count; only a zero is ever too small.

        A zero is implausible where BUSY or more are usual. Too large is a count that lies far
        beyond the training range of its hour, what is usual, and both steps before; and any
        MULTIPLE of what is usual.
        """
        zero = (self.values[cells] == 0) & (self._usual(cells)[0] >= BUSY)
        bottom = np.where(zero, np.maximum(self._range(cells)[0], 1), 0)
        most, multiple = self._largest_counts(cells)
        return bottom, np.minimum(np.maximum(most, self._continued(cells)[1]), multiple)

    def _largest_counts(self, cells: Cells) -> tuple[Numbers, Numbers]:
        """The largest plausible counts by training and what is usual, and the MULTIPLE of that."""
        upper = self._usual(cells)[1]
        growth = np.maximum((upper + 1) / (self._mean(cells) + 1), 1)  # the spread grows with it
        far = np.maximum(upper, BUSY) + FAR * growth * self._spread(cells)
        multiple = np.where(upper >= BUSY, MULTIPLE * upper, np.inf)
        return np.maximum(BEYOND * self._range(cells)[1], far), multiple

    def _limit_measurements(self, cells: Cells) -> tuple[Numbers, Numbers]:
        """The smallest and the largest plausible measurement.

        Implausible is what lies beside the training range of its hour by two of its widths, and
        far from what is usual and from both steps before. Where training had no negative value,
        the range ends at a third of the smallest.
        """
        (lower, upper), (least, most) = self._usual(cells), self._range(cells)
        beside, far = (BEYOND - 1) * (most - least), FAR * self._spread(cells)
        floor = self.plausibility.floor[cells[1]]
        low, high = self._continued(cells)
        bottom = np.minimum(np.maximum(least - beside, floor), np.minimum(lower - far, low))
        return bottom, np.maximum(most + beside, np.maximum(upper + far, high))

    def _continued(self, cells: Cells) -> tuple[Numbers, Numbers]:
        """The range of values that continue the steps before: both, or a plausible last count.

        A zero continues nothing.
        """
        earlier = cells[0] - np.arange(1, 3)[:, None]
        before = self.trusted[np.maximum(earlier, 0), cells[1]].astype(np.float64)
        before = np.where(earlier >= 0, before, np.nan)
        if self.is_count:
            limits = self._largest_counts((np.maximum(cells[0] - 1, 0), cells[1]))
            last = np.where(before[0] <= np.minimum(*limits), before[0], 0)
            return np.ones(len(last)), BEYOND * np.fmax(before.min(axis=0), last)
        far = FAR * self._spread(cells)
        low, high = before.max(axis=0) - far, before.min(axis=0) + far
        low = np.maximum(low, np.minimum(self.plausibility.floor[cells[1]], 0))
        return np.nan_to_num(low, nan=np.inf), np.nan_to_num(high, nan=-np.inf)

    def _enter(self, cells: Cells, low: Bool[np.ndarray, " k"]) -> Numbers:
        """What enters windows for implausible values: what was to be expected at that step.

        What continues the steps before enters as it is. What training nearly had at that hour
        enters as the most that it had.

        Args:
            cells: of implausible values.
            low: whether they are too low.
        """
        x, level = self.values[cells].astype(np.float64), self._recent(cells)
        common = self._common(cells[0])
        entries = self._at_level(cells, level * common if self.is_count else level + common)
        if self.is_count:
            most = self._range(cells)[1] * np.minimum(level, 1)
            entries = np.where(~low & (x <= BEYOND * most), np.maximum(most, entries), entries)
        else:
            entries = np.maximum(entries, np.minimum(self.plausibility.floor[cells[1]], 0))
        smallest, largest = self._continued(cells)
        entries = np.where((x >= smallest) & (x <= largest), x, entries)
        return np.asarray(np.where(low, np.maximum(entries, x), np.minimum(entries, x)))

    def _common(self, steps: Int64[np.ndarray, " k"]) -> Numbers:
        """By how much all locations have changed at some steps: the median, robust to one of them.

        On New Year's night all are high, and so is what was to be expected of a location.
        """
        neutral = 1.0 if self.is_count else 0.0
        common = np.full(len(self.values), neutral)
        for step in np.unique(steps).tolist():
            columns = np.flatnonzero(np.isfinite(self.values[step]) & ~self.stuck[step])
            cells = np.full(len(columns), step), columns
            before, now = self._recent(cells), self._levels(cells, np.zeros(1, int), self.values)
            heard = self._at_level(cells, before) >= (1 if self.is_count else -np.inf)
            changes = (now[:, 0] / before if self.is_count else now[:, 0] - before)[heard]
            if len(changes) < MANY:
                continue
            change = float(np.median(changes))
            if self.is_count:
                is_clear = not 1 / CLEAR < change < CLEAR
            else:
                is_clear = abs(change) > CLEAR * float(np.median(self._spread(cells)))
            common[step] = change if is_clear else neutral
        return np.asarray(common[steps])

    def _usual(self, cells: Cells) -> tuple[Numbers, Numbers]:
        """The lowest and the highest of the values that may be called usual."""
        usual = self._at_level(cells, self._level(cells, self.trusted))
        levels = (
            self._levels(cells, days * self.day + np.arange(-1, 2), self.trusted)
            for days in (1, 2)
        )
        daily = [self._at_level(cells, _median(level, 2, np.nan)) for level in levels]
        lower, upper = np.fmin(usual, np.maximum(*daily)), np.fmax(usual, np.minimum(*daily))
        return lower, np.maximum(upper, self._mean(cells) / 2) if self.is_count else upper

    def _recent(self, cells: Cells) -> Numbers:
        """The median of three levels: of the last step, of the one before, and of the last day.

        Zeros of busy hours are left out: they may be an outage.
        """
        day, (steps, columns) = self._level(cells, self.trusted), cells
        levels = [day]
        for back in (1, 2):
            level = self._levels(cells, np.array([back]), self.trusted)[:, 0]
            earlier = np.maximum(steps - back, 0), columns
            busy = self.is_count & (self._mean(earlier) >= BUSY / BEYOND)
            silent = np.isnan(level) | (busy & (self.values[earlier] == 0))
            levels.append(np.where(silent, day, level))
        return np.asarray(np.median(levels, axis=0))

    def _level(self, cells: Cells, values: Float32[np.ndarray, "T N"]) -> Numbers:
        """The median, over the day before, of values against their training means."""
        levels = self._levels(cells, np.arange(1, self.day + 1), values)
        return _median(levels, max(self.day // 4, 2), 1.0 if self.is_count else 0.0)

    def _levels(
        self, cells: Cells, back: Int64[np.ndarray, " n"], values: Float32[np.ndarray, "T N"]
    ) -> Float64[np.ndarray, "k n"]:
        """Values some steps back against their training means: factors, or differences."""
        earlier, columns = cells[0][:, None] - back, cells[1][:, None]
        inside = np.maximum(earlier, 0)
        observed = np.where(earlier >= 0, values[inside, columns], np.nan)
        mean = self._mean((inside, columns))
        return np.asarray((observed + 1) / (mean + 1) if self.is_count else observed - mean)

    def _at_level(self, cells: Cells, level: Numbers) -> Numbers:
        """The training mean at a level: the inverse of `_levels`."""
        mean = self._mean(cells)
        return np.asarray(np.maximum(level * (mean + 1) - 1, 0) if self.is_count else mean + level)

    def _mean(self, cells: Cells) -> Float64[np.ndarray, "..."]:
        means = self.plausibility.means[self.slots[cells[0]], cells[1]]
        return np.asarray(means, dtype=np.float64)

    def _range(self, cells: Cells) -> tuple[Numbers, Numbers]:
        place = self.week_hours[cells[0]], cells[1]
        least, most = self.plausibility.least[place], self.plausibility.most[place]
        return least.astype(np.float64), most.astype(np.float64)

    def _spread(self, cells: Cells) -> Numbers:
        spread = self.plausibility.spread[self.hours[cells[0]], cells[1]]
        return np.asarray(spread, dtype=np.float64)

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


def _find(where: Bool[np.ndarray, "S N"], first: int) -> Cells:
    """The cells where something holds; the first row is step `first`."""
    steps, columns = np.divmod(np.flatnonzero(where), where.shape[1])  # faster than `nonzero`
    return steps + first, columns


def _in_parts(cells: Cells) -> Iterator[Cells]:
    """The cells in parts of a bounded size, at least one."""
    for start in range(0, max(len(cells[0]), 1), _CELLS):
        yield cells[0][start : start + _CELLS], cells[1][start : start + _CELLS]
