"""Vintages of covariates: what was known of a step at each origin.

A weather forecast is issued anew every few hours, and what a model is given for a coming step is
the latest issue, not what was measured later. A table of covariates with a column `known_at` holds
all of them. An origin sees a value if it was known when the origin's step ended, as the values of
that step were.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError
from forecaster.panel.parquet import read_table, write_table
from forecaster.publish.writing import Writer

TIME = pa.timestamp("ms", tz="UTC")  # as in all files of a panel
KNOWN_AT = "known_at"
ALWAYS = -(2**31)  # the origin from which on a usual value is known
SPAN = 2**32  # of origins, in keys


@dataclass(frozen=True, eq=False)
class Vintages:
    """R values of covariates, ordered by step and then by the first origin that sees them."""

    names: tuple[str, ...]
    steps: Int64[np.ndarray, " R"]  # of the panel; ascending
    known: Int64[np.ndarray, " R"]  # the first origin that sees the value; ascending in a step
    values: Float32[np.ndarray, "R V"]  # NaN: no value was known yet

    @cached_property
    def keys(self) -> Int64[np.ndarray, " R"]:
        """Steps and origins as one ascending number."""
        return vintage_keys(self.steps, self.known)

    def seen(
        self, origins: Int64[np.ndarray, "*shape"], steps: Int64[np.ndarray, "*shape"]
    ) -> Float32[np.ndarray, "*shape V"]:
        """The latest values of steps that were known at their origins; NaN without any."""
        if not len(self.keys):
            return np.full((*steps.shape, len(self.names)), np.nan, dtype=np.float32)
        row = np.searchsorted(self.keys, vintage_keys(steps, origins), side="right") - 1
        none = (row < 0) | (self.steps[row] != steps)
        return np.where(none[..., None], np.float32(np.nan), self.values[row])

    def between(self, first: int, end: int | None) -> "Vintages":
        """The values of steps first…end−1, numbered from `first` on."""
        ends = (first, end if end is not None else int(self.steps.max(initial=first)) + 1)
        begin, stop = np.searchsorted(self.steps, ends)
        rows = slice(begin, stop)
        steps, known = self.steps[rows] - first, self.known[rows] - first
        return Vintages(self.names, steps, known, self.values[rows])

    def select(self, names: Sequence[str]) -> "Vintages | None":
        """Those of some covariates; None without any."""
        chosen = tuple(name for name in names if name in self.names)
        columns = [self.names.index(name) for name in chosen]
        return replace(self, names=chosen, values=self.values[:, columns]) if chosen else None

    def hide(self, steps: Bool[np.ndarray, " M"]) -> "Vintages":
        """The vintages without those of the given steps of the panel."""
        kept = ~np.append(steps, False)[np.minimum(self.steps, len(steps))]
        return Vintages(self.names, self.steps[kept], self.known[kept], self.values[kept])

    def add(self, later: "Vintages") -> "Vintages":
        """These and later vintages of the same covariates."""
        steps, known, values = (
            np.concatenate([getattr(self, name), getattr(later, name)])
            for name in ("steps", "known", "values")
        )
        return sort_vintages(self.names, steps, known, values)

    def complete(self, usual: Float32[np.ndarray, "S V"]) -> "Vintages":
        """The vintages with a value of every step at every origin: the usual one before any.

        Args:
            usual: of all steps of the panel.
        """
        steps = np.arange(len(usual))
        return self.add(Vintages(self.names, steps, np.full(len(usual), ALWAYS), usual))


def vintage_keys(
    steps: Int64[np.ndarray, "*shape"], origins: Int64[np.ndarray, "*shape"]
) -> Int64[np.ndarray, "*shape"]:
    """Steps and origins as numbers that ascend with the step, then with the origin."""
    return np.asarray(steps * SPAN + origins - ALWAYS)


def sort_vintages(
    names: tuple[str, ...],
    steps: Int64[np.ndarray, " R"],
    known: Int64[np.ndarray, " R"],
    values: Float32[np.ndarray, "R V"],
) -> Vintages:
    """The vintages of rows in any order.

    Of rows that the same origin is the first to see the last counts. What a row leaves open is as
    in the row before it, of the same step.
    """
    order = np.lexsort((known, steps))
    steps, known, values = steps[order], known[order], values[order]
    number, R = np.arange(len(steps)), len(steps)
    begins = np.maximum.accumulate(np.where(np.diff(steps, prepend=-1) != 0, number, 0))
    last = np.maximum.accumulate(np.where(np.isfinite(values), number[:, None], -1), axis=0)
    carried = np.take_along_axis(values, np.maximum(last, 0), axis=0) if R else values
    values = np.where(last >= begins[:, None], carried, np.float32(np.nan))
    keys = vintage_keys(steps, known)
    is_last = np.diff(keys, append=np.iinfo(np.int64).max) != 0
    return Vintages(names, steps[is_last], known[is_last], values[is_last])


def first_origins(
    clock: Clock, start: np.datetime64, instants: Shaped[np.ndarray, " R"]
) -> Int64[np.ndarray, " R"]:
    """The first origin that sees what was known at each instant: the step that ends then or later.

    Args:
        clock: of the panel.
        start: of its first step.
        instants: UTC.
    """
    nearest = clock.step_index(start, instants)
    later = clock.instants(start, nearest) < instants
    return np.asarray(np.maximum(nearest + later - 1, ALWAYS))


def vintages_writer(vintages: Vintages, clock: Clock, start: np.datetime64) -> Writer:
    """Return a function that writes `time`, `known_at` and the values, one row per vintage.

    `known_at` is the end of the first origin that sees them.
    """
    times = (clock.instants(start, steps) for steps in (vintages.steps, vintages.known + 1))
    stamps = [pa.array(t.astype("datetime64[ms]")).cast(TIME) for t in times]
    columns = [pa.array(np.ascontiguousarray(c), from_pandas=True) for c in vintages.values.T]
    table = pa.table([*stamps, *columns], names=["time", KNOWN_AT, *vintages.names])
    return lambda sink: write_table(table, sink)


def read_vintages(path: Path, clock: Clock, start: np.datetime64, rows: int) -> Vintages:
    """Return the vintages of a file; those off the time axis are refused.

    Args:
        path: the Parquet file, already known to have its manifest's size.
        clock: of the panel.
        start: of its first step.
        rows: how many there must be.
    """
    table = read_table(path, "panel", rows, _is_vintages)
    stamps = [c.cast(pa.int64()).fill_null(-1).to_numpy() for c in table.columns[:2]]
    times, known_at = (s.astype("datetime64[ms]").astype("datetime64[s]") for s in stamps)
    steps, known = clock.step_index(start, times), first_origins(clock, start, known_at)
    columns = [column.to_numpy(zero_copy_only=False) for column in table.columns[2:]]
    values = np.column_stack(columns).astype(np.float32)
    vintages = sort_vintages(tuple(table.column_names[2:]), steps, known, values)
    if not np.array_equal(clock.instants(start, steps), times) or (steps < 0).any():
        raise ArtifactError(f"{path}: its times are not steps of the panel")
    if not (np.array_equal(vintages.steps, steps) and np.array_equal(vintages.known, known)):
        raise ArtifactError(f"{path}: its rows are not in the order of {KNOWN_AT}")
    return vintages


def _is_vintages(schema: pa.Schema) -> bool:
    timed = schema.names[:2] == ["time", KNOWN_AT] and {*schema.types[:2]} == {TIME}
    return timed and len(schema) > 2 and {*schema.types[2:]} == {pa.float32()}  # noqa: PLR2004
