"""The immutable panel with live observations laid over it: one state of the data, one version."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.splits import is_whole

Rows = Mapping[int, np.ndarray]  # by step
Cell = tuple[int, int, float | None]  # step, column, value; None: known to be missing
MAX_CHANGES = 1_000  # that are remembered
NEVER = 2**62  # a step that never comes


class Change(NamedTuple):
    """What a version changed."""

    version: int
    first: int  # step
    ahead: bool  # of covariates, which forecasts see before their time


@dataclass(frozen=True, eq=False)
class Overlay:
    """A panel and the rows that came since; never changed, so that any reader sees one state."""

    base: Panel
    version: int = 0
    rows: Rows = field(default_factory=dict)  # step → [N] values that stand for the panel's
    world: Rows = field(default_factory=dict)  # step → [P] covariates
    changes: tuple[Change, ...] = ()  # the last ones, oldest first
    early: Rows = field(default_factory=dict)  # step → [N], 1 where a value came before its end

    def with_cells(
        self, cells: Sequence[Cell], version: int, unfinished: Collection[tuple[int, int]] = ()
    ) -> "Overlay":
        """Return the state after some observations; null is missing, not zero.

        Args:
            cells: what was observed.
            version: of the state.
            unfinished: steps and columns of what came before its step was over: it may yet grow.
        """
        rows, early = _lay_cells(self.rows, cells, self._row), self.early
        if unfinished or early:
            marks = [(step, n, float((step, n) in unfinished)) for step, n, _ in cells]
            early = _lay_cells(early, marks, self._early)
            early = {step: row for step, row in early.items() if row.any()}
        changes = self._noted(Change(version, _first(cells), ahead=False))
        return replace(self, rows=rows, version=version, changes=changes, early=early)

    def with_covariates(self, cells: Sequence[Cell], version: int) -> "Overlay":
        """Return the state after some covariates."""
        world = _lay_cells(self.world, cells, self._covariates)
        changes = self._noted(Change(version, _first(cells), ahead=True))
        return replace(self, world=world, version=version, changes=changes)

    def changed_since(self, version: int, horizon: int) -> int:
        """Return the first origin whose forecast may have changed since an earlier version."""
        if version > self.version or not self.changes or version < self.changes[0].version - 1:
            return 0  # nobody remembers
        later = (one for one in self.changes if one.version > version)
        return min((one.first - horizon * one.ahead for one in later), default=NEVER)

    def _noted(self, change: "Change") -> tuple["Change", ...]:
        return (*self.changes, change)[-MAX_CHANGES:]

    def step_at(self, seconds: int) -> int | None:
        """Return the step that begins at an instant, given in seconds since 1970."""
        step, rest = divmod(seconds - self.start_seconds, self.step_seconds)
        return None if rest else step

    @property
    def start_seconds(self) -> int:
        """When the first step begins, in seconds since 1970."""
        return int(self.base.start.astype(np.int64))

    @property
    def step_seconds(self) -> int:
        """How long a step is."""
        return self.base.clock.step_minutes * 60

    def time_of(self, step: int) -> np.datetime64:
        """Return the instant at which a step begins, UTC."""
        return np.datetime64(self.base.start + step * self.base.clock.step)

    def newest(self, end: int) -> int | None:
        """Return the last step before `end` at which a forecast may begin.

        It is observed well enough, by the rule of all origins; what came before its step was
        over is no more than a part.
        """
        for step in sorted((s for s in self.rows if s < end), reverse=True):
            if step >= len(self.base.values) and is_whole(self.final(step, step + 1))[0]:
                return step
        for step in range(min(end, len(self.base.values)) - 1, -1, -1):
            if is_whole(self.final(step, step + 1))[0]:
                return step
        return None

    def values(self, first: int, end: int) -> Float32[np.ndarray, "T N"]:
        """Return the values of some steps, NaN where nothing is known."""
        return _lay(self.base.values, self.rows, first, end)

    def final(self, first: int, end: int) -> Float32[np.ndarray, "T N"]:
        """Return the same, NaN also where a value came before its step was over."""
        values = self.values(first, end)
        for step in self.early.keys() & set(range(first, end)):
            values[step - first, self.early[step] > 0] = np.nan
        return values

    def panel(self, first: int, end: int, known_end: int) -> Panel:
        """Return a part of the panel: values of first…end−1, covariates to known_end−1."""
        own = self.base.local_covariates
        local = np.full((len(own.names), known_end - first, len(self.base.locations)), np.nan)
        given = own.values[:, first:known_end]
        local[:, : given.shape[1]] = given
        world = _lay(self.base.covariates.values, self.world, first, known_end)
        return replace(
            self.base,
            values=self.values(first, end),
            start=self.time_of(first),
            covariates=Covariates(self.base.covariates.names, world),
            local_covariates=LocalCovariates(own.names, local.astype(np.float32)),
            digest=None,
        )

    def _row(self, step: int) -> Float32[np.ndarray, " N"]:
        return np.asarray(self.values(step, step + 1)[0])

    def _early(self, step: int) -> Float32[np.ndarray, " N"]:
        return np.asarray(self.early.get(step, np.zeros(self.base.values.shape[1], np.float32)))

    def _covariates(self, step: int) -> Float32[np.ndarray, " P"]:
        return np.asarray(_lay(self.base.covariates.values, self.world, step, step + 1)[0])


def _first(cells: Sequence[Cell]) -> int:
    return min((step for step, _, _ in cells), default=NEVER)


def _lay_cells(
    rows: Rows, cells: Sequence[Cell], present: Callable[[int], np.ndarray]
) -> dict[int, np.ndarray]:
    """Return rows with some cells replaced; the given ones are left as they are."""
    changed, own = dict(rows), set[int]()
    for step, column, value in cells:
        if step not in own:
            changed[step] = present(step).copy()
            own.add(step)
        changed[step][column] = np.nan if value is None else value
    return changed


def _lay(
    base: Float32[np.ndarray, "M n"], rows: Rows, first: int, end: int
) -> Float32[np.ndarray, "T n"]:
    """Return rows first…end−1: those that came since, else the panel's, else NaN."""
    laid = np.full((end - first, base.shape[1]), np.nan, dtype=np.float32)
    given = base[max(first, 0) : max(end, 0)]
    before = max(-first, 0)  # steps before the panel's
    laid[before : before + len(given)] = given
    for step in rows.keys() & set(range(first, end)):
        laid[step - first] = rows[step]
    return laid
