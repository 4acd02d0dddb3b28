"""An immutable state of the live data: the panel with later observations and covariates."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, Locations
from forecaster.panel.vintages import Vintages, first_origins, sort_vintages
from forecaster.serve.data.registration import Registration, to_locations

RowsByStep = Mapping[int, np.ndarray]
CellUpdate = tuple[int, int, float | None]  # step, column, value; None: known to be missing
WEEK_DAYS = 7
REPORTING_DAYS = 14  # a location that has sent nothing for so long stops no forecast
DAY_MINUTES = 24 * 60
MAX_CHANGES = 1_000  # that are recorded
NEVER = 2**62  # after all steps


class Change(NamedTuple):
    """The steps that a version changed."""

    version: int
    first: int  # step
    ahead: bool  # covariates, which forecasts see before their time


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A panel and the rows received since; immutable, so every reader sees one state.

    Locations registered since follow those of the panel; a row from before a registration is
    shorter, and ends with the locations of its time.
    """

    base: Panel
    version: int = 0
    observed: RowsByStep = field(default_factory=dict)  # step → [N], for the panel's
    covariates: RowsByStep = field(default_factory=dict)  # step → [P] covariates
    changes: tuple[Change, ...] = ()  # the latest, oldest first
    partial: RowsByStep = field(default_factory=dict)  # step → [N], 1: received before its end
    registered: tuple[Registration, ...] = ()  # locations that the panel does not have
    joined: Locations | None = None  # those of the panel and the registered; None: the panel's
    later: Vintages | None = None  # of covariates with vintages, received since

    @property
    def locations(self) -> Locations:
        """All locations, in the order of the columns."""
        return self.base.locations if self.joined is None else self.joined

    def with_locations(self, registrations: Sequence[Registration], version: int) -> "Snapshot":
        """Return the state after some registrations; nothing is known of them yet."""
        registered = (*self.registered, *registrations)
        if not registered:
            return replace(self, version=version)
        return replace(
            self,
            registered=registered,
            joined=self.base.locations.join(to_locations(registered)),
            version=version,
            changes=self._add_change(Change(version, NEVER, ahead=False)),
        )

    def with_observations(
        self,
        cells: Sequence[CellUpdate],
        version: int,
        unfinished: Collection[tuple[int, int]] = (),
    ) -> "Snapshot":
        """Return the state after some observations; null is missing, not zero.

        Args:
            cells: the observed values.
            version: of the new state.
            unfinished: steps and columns of values received before their step was over: they may
                still grow.
        """
        observed, partial = _replace_cells(self.observed, cells, self._values_row), self.partial
        if unfinished or partial:
            marks = [(step, n, float((step, n) in unfinished)) for step, n, _ in cells]
            partial = _replace_cells(partial, marks, self._partial_row)
            partial = {step: row for step, row in partial.items() if row.any()}
        changes = self._add_change(Change(version, _first_step(cells), ahead=False))
        return replace(self, observed=observed, version=version, changes=changes, partial=partial)

    def with_covariates(
        self, cells: Sequence[CellUpdate], version: int, received: Sequence[int]
    ) -> "Snapshot":
        """Return the state after some covariates.

        Args:
            cells: the new values.
            version: of the new state.
            received: when each cell was received, in seconds since 1970.
        """
        covariates = _replace_cells(self.covariates, cells, self._covariates_row)
        return replace(
            self,
            covariates=covariates,
            version=version,
            changes=self._add_change(Change(version, _first_step(cells), ahead=True)),
            later=self._add_vintages(cells, received),
        )

    def _add_vintages(
        self, cells: Sequence[CellUpdate], received: Sequence[int]
    ) -> Vintages | None:
        """The vintages received up to now: each is known from when it was received."""
        names, vintages = self.base.covariates.names, self.base.covariates.vintages
        if vintages is None or not cells:
            return self.later
        instants = np.array(received).astype("datetime64[s]")
        first_seen = first_origins(self.base.clock, self.base.start, instants)
        values = np.full((len(cells), len(names)), np.nan, dtype=np.float32)
        for row, (_, column, value) in enumerate(cells):
            values[row, column] = np.nan if value is None else value
        columns = [names.index(name) for name in vintages.names]
        steps = np.array([step for step, _, _ in cells])
        later = sort_vintages(vintages.names, steps, first_seen, values[:, columns])
        return later if self.later is None else self.later.add(later)

    def first_changed_origin(self, version: int, horizon: int) -> int:
        """Return the first origin whose forecast may have changed since an earlier version."""
        forgotten = not self.changes or version < self.changes[0].version - 1
        if version > self.version or forgotten:
            return 0
        later = (change for change in self.changes if change.version > version)
        return min((change.first - horizon * change.ahead for change in later), default=NEVER)

    def step_at(self, seconds: int) -> int | None:
        """Return the step that begins at an instant, given in seconds since 1970."""
        if not self.base.clock.step_months:
            step, remainder = divmod(seconds - self.start_seconds, self.step_seconds)
            return None if remainder else step
        time = np.datetime64(seconds, "s")
        step = int(self.base.step_index(np.array([time]))[0])
        return step if self.time_of(step) == time else None

    def count_over(self, now: float) -> int:
        """Return the number of steps that are over at an instant, in seconds since 1970."""
        if not self.base.clock.step_months:
            return math.floor((now - self.start_seconds) / self.step_seconds)
        time = np.datetime64(math.floor(now), "s")
        step = int(self.base.step_index(np.array([time]))[0])
        return step if self.time_of(step) <= time else step - 1

    def end_of(self, step: int) -> int:
        """Return when a step is over, in seconds since 1970."""
        if not self.base.clock.step_months:
            return self.start_seconds + (step + 1) * self.step_seconds
        return int(self.time_of(step + 1).astype(np.int64))

    @property
    def start_seconds(self) -> int:
        """When the first step begins, in seconds since 1970."""
        return int(self.base.start.astype(np.int64))

    @property
    def step_seconds(self) -> int:
        """The length of a step; of months, the mean."""
        return self.base.clock.step_minutes * 60

    def time_of(self, step: int) -> np.datetime64:
        """Return the instant at which a step begins, UTC."""
        return self.base.instant(step)

    def newest_origin(self, end: int) -> int | None:
        """Return the last step before `end` from which a forecast may be made.

        It is observed at half or more of the locations that have reported in the two weeks up to
        it; values received before their step was over do not count. While all places are closed,
        it is the last closed step.
        """
        M = len(self.base.values)
        later = sorted((step for step in self.observed if M <= step < end), reverse=True)
        steps = chain(later, range(min(end, M) - 1, -1, -1))
        newest = next((step for step in steps if self._is_origin(step)), None)
        if newest is None or not self.base.clock.hours:
            return newest
        is_open = self.base.clock.is_open(self.base.instants(np.arange(newest + 1, end)))
        return newest + (int(np.argmax(is_open)) if is_open.any() else len(is_open))

    def is_reporting(self, step: int) -> Bool[np.ndarray, " N"]:
        """Which locations are open at a step, and have reported in the two weeks up to it.

        While all places are closed, those that were open at the last open step.
        """
        step -= int(self.base.clock.last_open(self.base.instants(np.array([step])))[0])
        first = step + 1 - REPORTING_DAYS * steps_per_day(self.base.clock)
        reported = np.isfinite(self.final_values(first, step + 1)).any(axis=0)
        return np.asarray(reported & self.alive(step, step + 1)[0])

    def alive(self, first: int, end: int) -> Bool[np.ndarray, "T N"]:
        """Which locations are open at steps first…end−1, by their dates and opening hours."""
        times = self.base.instants(np.arange(first, end))
        alive = self.locations.alive(times)
        if not self.locations.has_hours:
            return alive
        return np.asarray(alive & self.locations.within_hours(times, self.base.clock))

    def _is_origin(self, step: int) -> bool:
        observed = int(np.isfinite(self.final_values(step, step + 1)).sum())
        if 2 * observed >= len(self.locations):  # so it is half of any of them
            return True
        return observed > 0 and 2 * observed >= int(self.is_reporting(step).sum())

    def values(self, first: int, end: int) -> Float32[np.ndarray, "T N"]:
        """Return the values of steps first…end−1, NaN where unknown or outside a life."""
        values = _merge_rows(self.base.values, {}, first, end)
        if self.registered:
            unknown = np.full((len(values), len(self.registered)), np.nan, dtype=np.float32)
            values = np.concatenate([values, unknown], axis=1)
        values = _put_rows(values, self.observed, first)
        if self.locations.can_close:  # what arrives while a location is closed
            values[~self.alive(first, end)] = np.nan
        return values

    def final_values(self, first: int, end: int) -> Float32[np.ndarray, "T N"]:
        """Return the values of steps first…end−1, NaN also where the step was not over yet."""
        values = self.values(first, end)
        for step in self.partial.keys() & set(range(first, end)):
            early = np.flatnonzero(self.partial[step])
            values[step - first, early] = np.nan
        return values

    def values_at(self, steps: Int64[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*shape N"]:
        """Return the values of some steps, NaN where unknown or the step is negative."""
        return self._gather(self.values, steps)

    def final_values_at(
        self, steps: Int64[np.ndarray, "*shape"]
    ) -> Float32[np.ndarray, "*shape N"]:
        """Return the values of some steps, NaN also where the step was not over yet."""
        return self._gather(self.final_values, steps)

    def week_before(
        self, origins: Int64[np.ndarray, " B"], horizon: int
    ) -> Int64[np.ndarray, "B K"]:
        """Return the steps at the wall-clock times of t+1…t+K a week before.

        Negative where that is before the data, or after the origin t.
        """
        clock, ahead = self.base.clock, np.arange(1, horizon + 1)
        times = self.base.instants(origins)
        back = clock.same_time_steps(ahead, np.array([WEEK_DAYS]), times)[:, 0]
        return np.where(back >= 0, origins[:, None] - back, -1)

    def panel(self, first: int, end: int, known_end: int) -> Panel:
        """Return a part of the panel: values of first…end−1, covariates of first…known_end−1."""
        base, N = self.base, len(self.locations)
        known_local = base.local_covariates.values[:, first:known_end]
        shape = len(known_local), known_end - first, N
        local = np.full(shape, np.nan, dtype=np.float32)
        local[:, : known_local.shape[1], : known_local.shape[2]] = known_local
        for n, registration in enumerate(self.registered, start=known_local.shape[2]):
            for q, name in enumerate(base.local_covariates.names):
                local[q, :, n] = registration.covariates.get(name, np.nan)
        return replace(
            base,
            values=self.values(first, end),
            start=self.time_of(first),
            locations=self.locations,
            covariates=self._covariates(first, known_end),
            local_covariates=replace(base.local_covariates, values=local),
            digest=None,
        )

    def _covariates(self, first: int, end: int) -> Covariates:
        """The covariates of steps first…end−1, and their vintages."""
        covariates, values = self.base.covariates, self._shared(first, end)
        vintages = covariates.vintages and covariates.vintages.between(first, end)
        if vintages is not None and self.later is not None:
            vintages = vintages.add(self.later.between(first, end))
            steps = np.arange(end - first)
            columns = [covariates.names.index(name) for name in vintages.names]
            values[:, columns] = vintages.seen(steps, steps)
        return replace(covariates, values=values, vintages=vintages)

    def _shared(self, first: int, end: int) -> Float32[np.ndarray, "S P"]:
        return _merge_rows(self.base.covariates.values, self.covariates, first, end)

    def _add_change(self, change: Change) -> tuple[Change, ...]:
        return (*self.changes, change)[-MAX_CHANGES:]

    def _gather(
        self, read: Callable[[int, int], np.ndarray], steps: Int64[np.ndarray, "*shape"]
    ) -> Float32[np.ndarray, "*shape N"]:
        if not steps.size:
            return np.empty((*steps.shape, len(self.locations)), dtype=np.float32)
        first = max(int(steps.min()), 0)
        values = read(first, max(int(steps.max()), first) + 1)
        chosen = values[np.maximum(steps - first, 0)]
        return np.where((steps < 0)[..., None], np.float32(np.nan), chosen)

    def _values_row(self, step: int) -> Float32[np.ndarray, " N"]:
        return np.asarray(self.values(step, step + 1)[0])

    def _partial_row(self, step: int) -> Float32[np.ndarray, " N"]:
        row = np.zeros(len(self.locations), np.float32)
        early = self.partial.get(step, row)
        row[: len(early)] = early
        return row

    def _covariates_row(self, step: int) -> Float32[np.ndarray, " P"]:
        return np.asarray(self._shared(step, step + 1)[0])


def steps_per_day(clock: Clock) -> int:
    """Return the number of steps in a day, at least one."""
    return max(DAY_MINUTES // clock.step_minutes, 1)


def _first_step(cells: Sequence[CellUpdate]) -> int:
    return min((step for step, _, _ in cells), default=NEVER)


def _replace_cells(
    rows: RowsByStep, cells: Sequence[CellUpdate], read_row: Callable[[int], np.ndarray]
) -> dict[int, np.ndarray]:
    """Return the rows with some cells replaced; the input is not changed."""
    replaced = dict(rows)
    copied = set[int]()
    for step, column, value in cells:
        if step not in copied:
            replaced[step] = read_row(step).copy()
            copied.add(step)
        replaced[step][column] = np.nan if value is None else value
    return replaced


def _merge_rows(
    base: Float32[np.ndarray, "M n"], rows: RowsByStep, first: int, end: int
) -> Float32[np.ndarray, "T n"]:
    """Return rows first…end−1: those received since, else the panel's, else NaN."""
    merged = np.full((end - first, base.shape[1]), np.nan, dtype=np.float32)
    from_base = base[max(first, 0) : max(end, 0)]
    before = max(-first, 0)  # steps before the panel's
    merged[before : before + len(from_base)] = from_base
    return _put_rows(merged, rows, first)


def _put_rows(
    values: Float32[np.ndarray, "T n"], rows: RowsByStep, first: int
) -> Float32[np.ndarray, "T n"]:
    """Put the rows received since into the values of the steps from `first` on; return them."""
    for step in rows.keys() & set(range(first, first + len(values))):
        row = rows[step]
        values[step - first, : len(row)] = row  # the rest was registered later
    return values
