"""The panel: values of steps × locations on a UTC axis, with their covariates."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.choices import Combine, DateOrder, DecimalMark, Kind
from forecaster.clock.clock import LAG_CLOCK, Clock
from forecaster.clock.hours import ALWAYS
from forecaster.clock.zone import tz_version
from forecaster.config import MONTH_MINUTES, LagConfig, PanelConfig, TableConfig
from forecaster.errors import (
    ArtifactError,
    ConfigError,
    DataError,
    Faults,
    count_of,
    name_some,
    nearest_name,
)
from forecaster.panel.axis import (
    DAY_MINUTES,
    VALUES,
    SeriesTable,
    Step,
    complete_axis,
    days_as_utc,
    settle_gaps,
    step_settings,
    with_step,
)
from forecaster.panel.hours import find_hours, given_hours, shared_hours
from forecaster.panel.observed import (
    CENSORED_BY,
    CLOSED,
    CLOSED_SUM,
    OUTSIDE,
    OUTSIDE_SUM,
    absent_as_zero,
    hide_censored,
    hide_closed,
    hide_outside_life,
)
from forecaster.panel.parts import (
    Covariates,
    LocalCovariates,
    Locations,
    read_only,
    select_names,
)
from forecaster.panel.past_only import UNSEEN, hide_unseen
from forecaster.panel.storage.deferred import Deferred, defer, read_deferred, read_part, stored_of
from forecaster.panel.storage.folder import (
    COVARIATES,
    FORMAT,
    LOCATIONS,
    VINTAGES,
    Read,
    cut_ahead,
    local_layer,
    matrix_files,
    open_stored,
    read_wide_format,
    step_fields,
)
from forecaster.panel.storage.folder import VALUES as VALUES_LAYER
from forecaster.panel.storage.tables import locations_writer
from forecaster.panel.tables.absent import judge_absent, refuse_null_rows
from forecaster.panel.tables.assemble import (
    Axis,
    SideTables,
    drop_renamed,
    join_covariates,
    make_clock,
    match_locations,
)
from forecaster.panel.tables.renames import apply_renames, read_renames
from forecaster.panel.tables.table_rows import (
    WIDE_TIME,
    Steps,
    TableRows,
    find_kind,
    read_long_rows,
    read_shared,
    read_wide_rows,
    refuse_markers,
    split_ahead,
    split_covariates,
    without_sums,
)
from forecaster.panel.vintages import vintages_writer
from forecaster.publish.manifest import Manifest, Progress, file_path, read_manifest, verify_files
from forecaster.publish.writing import Draft, Writer, bytes_writer, publish, replace_file
from forecaster.reading.load import Table, Tables
from forecaster.recipe import Recipe, check_stage, read_recipe

CSV_TIME = "%Y-%m-%dT%H:%M:%S%z"  # of all CSV output
Missing: TypeAlias = (
    str | int | float | Sequence[str | int | float]
)  # values that stand for missing ones
HOURS_FOUND = "hours_found"  # in the ledger: opening hours are those of regular gaps
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Panel:
    """Values of all locations at all steps, with covariates and a calendar.

    Missing values are NaN in memory and null on disk, never zero. A panel does not change: methods
    return new panels.
    """

    values: Float32[np.ndarray, "M N"]  # M steps of N locations
    start: np.datetime64  # beginning of the first step, UTC
    clock: Clock  # time zone, length of a step, holidays, opening hours
    kind: Kind  # `count` or `measurement`
    locations: Locations  # ids, names, coordinates, opening hours
    covariates: Covariates  # shared by all locations; may reach past the values
    local_covariates: LocalCovariates  # of each location; may reach past the values
    counts: Mapping[str, Any] = field(default_factory=dict)  # the ledger of ingest, JSON
    digest: str | None = None  # hash of its manifest, once it is saved

    def __post_init__(self) -> None:
        M, N = self.values.shape
        S = len(self.covariates.values)
        faults = Faults("panel")
        if len(self.locations) != N:
            faults.add(f"{N} columns of values, {len(self.locations)} locations")
        if M < 1 or N < 1:
            faults.add(f"{count_of(M, 'step')} × {count_of(N, 'location')}: empty")
        if S < M or self.local_covariates.values.shape[1:] != (S, N):
            faults.add(f"covariates cover {S} steps, values {M}: they must cover at least as many")
        if (self.values == np.inf).any() or (self.values == -np.inf).any():
            faults.add("infinite values; use null for missing ones")
        if self.kind == "count" and (self.values < 0).any():
            where = np.argwhere(self.values < 0)
            cells = (f"{self.locations.ids[n]} at {self.times[m]}Z" for m, n in where[:6])
            faults.add(f"{count_of(len(where), 'negative count')}: {name_some(cells)}")
        faults.raise_any(DataError)
        object.__setattr__(self, "values", read_only(self.values))

    def __repr__(self) -> str:
        M, N = self.shape
        span = " … ".join(local_texts(self, self.times[[0, -1]]))
        meaning = f"{self.clock.zone}, {self.clock.step_text}, {self.kind}"
        meaning += f", past-only {name_some(self.past_only)}" if self.past_only else ""
        return f"Panel({count_of(M, 'step')} × {count_of(N, 'location')}, {span}, {meaning})"

    @property
    def shape(self) -> tuple[int, int]:
        """The number of steps with values and the number of locations: M, N."""
        stored = stored_of(self)
        M, N = (self.values if stored is None else stored).shape
        return int(M), int(N)

    # ------------------------------------------------------------------------------ time

    @property
    def times(self) -> Shaped[np.ndarray, " M"]:
        """The instant at which each step begins, UTC."""
        return self.clock.axis(self.start, self.shape[0])

    @property
    def known_times(self) -> Shaped[np.ndarray, " S"]:
        """The beginnings of all steps with values or covariates, UTC."""
        return self.clock.axis(self.start, len(self.covariates.values))

    def instants(self, steps: Int64[np.ndarray, " T"]) -> Shaped[np.ndarray, " T"]:
        """The beginnings of steps, UTC; they may lie before or after the panel."""
        return self.clock.instants(self.start, steps)

    def instant(self, step: int) -> np.datetime64:
        """The beginning of one step, UTC; it may lie before or after the panel."""
        return np.datetime64(self.instants(np.array([step]))[0])

    def step_index(self, times: Shaped[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
        """The steps that begin nearest to instants; they may lie before or after the panel."""
        return self.clock.step_index(self.start, times.astype("datetime64[s]"))

    def alive(self, first: int, end: int) -> Bool[np.ndarray, "T N"]:
        """Which locations are open at steps first…end−1, which may lie after the panel.

        Without the dates `opens` and `closes` and without opening hours a location always is.
        """
        times = self.instants(np.arange(first, end))
        alive = self.locations.alive(times)
        if not self.locations.has_hours:
            return alive
        return np.asarray(alive & self.locations.within_hours(times, self.clock))

    def within_hours(self, first: int, end: int) -> Bool[np.ndarray, "T N"]:
        """Which locations are open at steps first…end−1 by their opening hours alone."""
        times = self.instants(np.arange(first, end))
        return self.locations.within_hours(times, self.clock)

    def open_at(self, steps: Int64[np.ndarray, "B K"]) -> Bool[np.ndarray, "B K N"] | None:
        """Which locations are open at some steps by their opening hours; None: none ever closes.

        Where lags skip a step, no location is open.
        """
        if not self.locations.has_hours:
            return None
        times = self.instants(steps.reshape(-1))
        within = self.locations.within_hours(times, self.clock)
        is_open = within & self.clock.is_open(times)[:, None]
        return np.asarray(is_open.reshape(*steps.shape, -1))

    @property
    def censored_by(self) -> str | None:
        """The local covariate by which values were censored (`censor`), if any."""
        return self.counts.get(CENSORED_BY)

    @property
    def past_only(self) -> tuple[str, ...]:
        """The covariates, shared and local, that are seen in the past and unknown ahead."""
        return (*self.covariates.past_only, *self.local_covariates.past_only)

    # ------------------------------------------------------------------------------ parts

    def steps(self, first: int, end: int, known_end: int | None = None) -> "Panel":
        """Return steps first…end−1 without copying, and covariates up to known_end−1.

        Args:
            first: the first step.
            end: the step after the last value.
            known_end: the step after the last covariate; None keeps all.
        """
        known_steps = slice(first, known_end)
        world, local = self.covariates, self.local_covariates
        vintages = world.vintages and world.vintages.between(first, known_end)
        return replace(
            self,
            values=read_part(self, slice(first, end), axis=0),
            start=self.instant(first),
            covariates=replace(world, values=world.values[known_steps], vintages=vintages),
            local_covariates=replace(local, values=read_part(local, known_steps, axis=1)),
            digest=None,
        )

    def with_earlier(self, steps: int) -> "Panel":
        """Return the panel with so many missing steps before its first.

        Their holidays may be unknown; such days are taken for ordinary ones.
        """
        if not steps:
            return self
        world, local, clock = self.covariates, self.local_covariates, self.clock
        start = self.instant(-steps)
        if clock.holidays is not None:
            year = int(clock.local(np.array([start])).astype("datetime64[Y]").astype(np.int64)[0])
            clock = replace(clock, holidays=clock.holidays.since(1970 + year))
        return replace(
            self,
            values=np.pad(self.values, ((steps, 0), (0, 0)), constant_values=np.nan),
            start=start,
            clock=clock,
            covariates=replace(
                world,
                values=np.pad(world.values, ((steps, 0), (0, 0)), constant_values=np.nan),
                vintages=world.vintages and world.vintages.between(-steps, None),
            ),
            local_covariates=replace(
                local,
                values=np.pad(local.values, ((0, 0), (steps, 0), (0, 0)), constant_values=np.nan),
            ),
            digest=None,
        )

    def with_later(self, steps: int) -> "Panel":
        """Return the panel with so many missing steps after its last; covariates ahead stay."""
        if steps <= 0:
            return self
        world, local = self.covariates, self.local_covariates
        further = max(len(self.values) + steps - len(world.values), 0)
        return replace(
            self,
            values=np.pad(self.values, ((0, steps), (0, 0)), constant_values=np.nan),
            covariates=replace(
                world, values=np.pad(world.values, ((0, further), (0, 0)), constant_values=np.nan)
            ),
            local_covariates=replace(
                local,
                values=np.pad(
                    local.values, ((0, 0), (0, further), (0, 0)), constant_values=np.nan
                ),
            ),
            digest=None,
        )

    def select(self, ids: tuple[str, ...]) -> "Panel":
        """Return the panel with exactly these locations, in this order."""
        if self.locations.ids == ids:
            return self
        place = {identity: column for column, identity in enumerate(self.locations.ids)}
        unknown = [identity for identity in ids if identity not in place]
        if unknown:
            problem = f"{count_of(len(unknown), 'unknown id')}: {name_some(unknown)}"
            raise DataError(f"panel: {problem}; it has {name_some(self.locations.ids)}")
        order = [place[identity] for identity in ids]
        local = self.local_covariates
        return replace(
            self,
            values=np.asfortranarray(self.values[:, order]),
            locations=self.locations.take(order),
            local_covariates=replace(local, values=local.values[:, :, order]),
            digest=None,
        )

    def with_absent(self, ids: Sequence[str]) -> "Panel":
        """Return the panel with further locations without any value, after its own.

        Their local covariates are the mean of the others.
        """
        if not ids:
            return self
        local = self.local_covariates.values
        observed = np.isfinite(local)
        total = np.where(observed, local, 0).sum(axis=2, keepdims=True, dtype=np.float64)
        count = observed.sum(axis=2, keepdims=True)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
        missing = np.full((len(self.values), len(ids)), np.nan, dtype=np.float32)
        return replace(
            self,
            values=np.concatenate([self.values, missing], axis=1),
            locations=self.locations.join(Locations.of_ids(ids)),
            local_covariates=replace(
                self.local_covariates,
                values=np.concatenate([local, np.repeat(mean, len(ids), axis=2)], axis=2),
            ),
            digest=None,
        )

    def select_covariates(self, names: tuple[str, ...], local: tuple[str, ...]) -> "Panel":
        """Return the panel with exactly these covariates and local covariates, in this order."""
        if (self.covariates.names, self.local_covariates.names) == (names, local):
            return self
        return replace(
            self,
            covariates=self.covariates.select(names),
            local_covariates=self.local_covariates.select(local),
            digest=None,
        )

    @property
    def known_ahead(self) -> tuple[str, ...]:
        """The covariates, shared and local, that are known ahead of an origin."""
        names = (*self.covariates.names, *self.local_covariates.names)
        return tuple(name for name in names if name not in self.past_only)

    def with_past_only(self, names: Sequence[str]) -> "Panel":
        """Return the panel with exactly these covariates past-only: unknown ahead of an origin.

        Args:
            names: of shared or local covariates; all others are known ahead.
        """
        if set(names) == set(self.past_only):
            return self
        shared, local = self.covariates, self.local_covariates
        covariates = (*shared.names, *local.names)
        faults = Faults("past-only covariates")
        for name in names:
            if name not in covariates:
                has = (
                    f"the panel has {name_some(covariates)}"
                    if covariates
                    else "the panel has none"
                )
                faults.add(f"{name!r}: no such covariate{nearest_name(name, covariates)}; {has}")
        faults.raise_any(DataError)
        return replace(
            self,
            covariates=replace(shared, past_only=select_names(shared.names, names)),
            local_covariates=replace(local, past_only=select_names(local.names, names)),
            digest=None,
        )

    # ---------------------------------------------------------------------------- changed

    def with_data(
        self,
        values: Float32[np.ndarray, "M N"] | None = None,
        covariates: Float32[np.ndarray, "S P"] | None = None,
        local_covariates: Float32[np.ndarray, "Q S N"] | None = None,
    ) -> "Panel":
        """Return the panel with other values or covariates of the same names; None keeps them."""
        world, local = self.covariates, self.local_covariates
        if covariates is not None:
            world = replace(world, values=covariates)
        if local_covariates is not None:
            local = replace(local, values=local_covariates)
        return replace(
            self,
            values=self.values if values is None else values,
            covariates=world,
            local_covariates=local,
            digest=None,
        )

    def without_vintages(self) -> "Panel":
        """Return the panel with covariates known ahead as they are, at every origin."""
        if self.covariates.vintages is None:
            return self
        return replace(self, covariates=replace(self.covariates, vintages=None), digest=None)

    def hide_steps(self, hidden: Bool[np.ndarray, " M"]) -> "Panel":
        """Return the panel with values and covariates of some steps missing.

        It keeps the digest, by which a run refers to its training panel.
        """
        steps, world, local = np.flatnonzero(hidden), self.covariates, self.local_covariates
        arrays = (self.values, world.values, local.values)
        values, world_values, local_values = (array.copy(order="K") for array in arrays)
        values[steps], world_values[steps], local_values[:, steps] = np.nan, np.nan, np.nan
        return replace(
            self,
            values=values,
            covariates=replace(
                world,
                values=world_values,
                vintages=world.vintages and world.vintages.hide(hidden),
            ),
            local_covariates=replace(local, values=local_values),
        )

    def within_lives(self) -> "Panel":
        """Return the panel with values missing before a location opens and after it closes.

        They are counted in the ledger; `from_long`, `from_wide` and ingest do this themselves.
        """
        if not self.locations.dated:
            return self
        values, counts = hide_outside_life(self.values, self.alive(0, len(self.values)))
        if counts[OUTSIDE_SUM]:
            hidden = count_of(counts[OUTSIDE], "value")
            log.warning(
                "%s outside the lives of their locations left out, together %g; check opens and "
                "closes",
                hidden,
                counts[OUTSIDE_SUM],
            )
        return replace(self, values=values, counts={**self.counts, **counts}, digest=None)

    def with_hours(self, hours: Sequence[str]) -> "Panel":
        """Return the panel with the opening hours of each location, and closed values missing.

        They are counted in the ledger. The hours of `from_long`, `from_wide` and ingest are given
        to those.

        Args:
            hours: of each location, such as `Mon-Fri 05:00-23:00`; empty: always open.
        """
        texts = tuple(hours)
        self.clock.check_hours(sorted({*texts} - {""}))
        panel = replace(
            self,
            clock=replace(self.clock, hours=shared_hours(texts)),
            locations=replace(self.locations, hours=texts),
            digest=None,
        )
        if not panel.locations.has_hours:
            return panel
        is_open = panel.within_hours(0, len(self.values))
        values, counts = hide_closed(self.values, is_open)
        if counts.get(CLOSED_SUM):
            log.warning(
                "%s outside opening hours left out, together %g; check the hours",
                count_of(counts[CLOSED], "value"),
                counts[CLOSED_SUM],
            )
        return replace(panel, values=values, counts={**self.counts, **counts})

    def censor(self, name: str) -> "Panel":
        """Return the panel with values missing where a local covariate is 1, without that one.

        Args:
            name: of a covariate that is 1 where a location could not serve: a dock was empty, a
                shop sold out. Such a value is no target, and the forecast is of demand.
        """
        local = self.local_covariates
        if name not in local.names:
            covariates = name_some(local.names) if local.names else "none"
            raise DataError(
                f"censored = {name!r}: no such local covariate; the panel has {covariates}; give "
                "it as a column of 0 and 1 beside the values"
            )
        flags = local.values[local.names.index(name)][: len(self.values)]
        values, counts = hide_censored(self.values, flags, name)
        return replace(
            self,
            values=values,
            local_covariates=local.select(tuple(n for n in local.names if n != name)),
            counts={**self.counts, **counts},
            digest=None,
        )

    def without_unseen(self) -> "Panel":
        """Return the panel without past-only covariates after its last observed value.

        They are counted in the ledger; `from_long`, `from_wide` and ingest do this themselves.
        """
        if not self.past_only:
            return self
        parts = hide_unseen(self.values, self.covariates, self.local_covariates)
        covariates, local, counts = parts
        if counts[UNSEEN]:
            log.warning(
                "%s of past-only covariates (%s) after the last value left out: they are unknown "
                "ahead",
                count_of(counts[UNSEEN], "value"),
                name_some(self.past_only),
            )
        counts[UNSEEN] += self.counts.get(UNSEEN, 0)
        counts = {**self.counts, **counts}
        return replace(
            self, covariates=covariates, local_covariates=local, counts=counts, digest=None
        )

    # ----------------------------------------------------------------------- from tables

    @classmethod
    def from_long(  # noqa: PLR0913 (one keyword per setting)
        cls,
        table: Tables,
        *,
        timezone: str | None = None,
        kind: Kind | None = None,
        step_minutes: int | None = None,
        step_months: int = 0,
        country: str | None = None,
        locations: Table | Locations | None = None,
        covariates: Table | None = None,
        local_covariates: Table | None = None,
        renames: Table | None = None,
        censored: str | None = None,
        hours: str | None = None,
        ambiguous: str = "null",
        nonexistent: str | None = None,
        gaps: str | None = None,
        past_only: Sequence[str] | None = None,
        columns: str | None = None,
        missing: Missing = (),
        decimal: DecimalMark | None = None,
        dates: DateOrder | None = None,
        combine: Combine | None = None,
        leave_out: Sequence[str] | None = None,
    ) -> "Panel":
        """Return the panel of a long table, one row per value, or of one series.

        Columns named `unique_id`, `ds` and `y` are taken as they are: further columns must be
        numbers and become local covariates, and a time without any row is refused, unless all
        places are closed then. Any other table is read as `forecaster run` reads it: columns are
        recognised, times without a row are missing, and covariates that the table does not hold
        ahead are past-only. A pair of id and time without a row is missing.

        Args:
            table: a frame of pandas or polars, an Arrow table, a relation of DuckDB, or the path
                of a file; several of them are joined.
            timezone: IANA name; times without an offset are local times of this zone. Default:
                the zone that the times carry, otherwise UTC.
            kind: `count` (never negative) or `measurement`. Default: found in the values.
            step_minutes: length of a step. Default: found in the table.
            step_months: length of a step in months: 1, 3 (quarters), 12 (years).
            country: the country whose holidays are recorded, such as `US` or `US-NY`.
            locations: table of `id`, `name`, `lat`, `lon`, `opens`, `closes`, `hours`; gives the
                order of the columns.
            covariates: table of `ds` and columns for all locations; may reach into the future.
                With a column `known_at` it has vintages, and an origin sees what was known then.
            local_covariates: table of `unique_id`, `ds` and columns; may reach into the future.
            renames: table of `old`, `new`, `from`: places renamed, merged or split.
            censored: the local covariate that is 1 where a location could not serve (`censor`).
            hours: opening hours of all places, such as `Mon-Fri 05:00-23:00; PH off`; None: as in
                the column `hours` of the locations, or else as found in regular gaps; `always`:
                gaps are not closings.
            ambiguous: local times that occur twice: `null` (both missing) or `split` (half each).
            nonexistent: local times that never occur: `refuse`, `null` or `next` (moved).
            gaps: times without any row: `refuse`, or `null` to add them as missing. `zero`: a
                location that is open has 0 where it has no row, from its first one on.
            past_only: covariates that are seen in the past and unknown ahead.
            columns: which columns are meant: `time=when,id=sensor,value=flow`, or
                `time=when,value=kwh` of one series; `date+hour` joins two.
            missing: values that stand for missing ones, such as -999 or `["-1", "n/a"]`.
            decimal: the decimal mark of a text file, where 1,234 could be either.
            dates: what comes first in 05/06/2022: `day-first` or `month-first`.
            combine: several rows of a location in one step: their `sum`, their `mean`, or the
                `count` of them. Default: there may be one, or as found where the columns are
                recognised.
            leave_out: locations that are left out. Default: one that is the sum of all others, if
                the columns are recognised.
        """
        given: dict[str, Any] = {
            "timezone": timezone, "kind": kind, "country": country,
            "ambiguous": ambiguous, "nonexistent": nonexistent, "censored": censored,
            "gaps": gaps, "past_only": None if past_only is None else list(past_only),
            "hours": hours,
            **step_settings(step_minutes, step_months),
        }  # fmt: skip
        config = _given_config(given, "Panel.from_long")
        rules = _given_rules(columns, missing, decimal, dates, combine)
        said = step_minutes or step_months
        step = Step(step_minutes or step_months * MONTH_MINUTES, step_months) if said else None
        on = Steps(step, timezone)
        rows = read_long_rows(table, config.kind if kind else "measurement", rules, on)
        if rows.recognised or leave_out is not None:
            rows = without_sums(rows, leave_out)
        tables = SideTables(locations, covariates, local_covariates, renames)
        return cls._from_rows(rows, config, rules, tables)

    @classmethod
    def from_wide(  # noqa: PLR0913 (as above)
        cls,
        table: Tables,
        *,
        timezone: str | None = None,
        time: str = WIDE_TIME,
        kind: Kind | None = None,
        step_minutes: int | None = None,
        step_months: int = 0,
        country: str | None = None,
        locations: Table | Locations | None = None,
        covariates: Table | None = None,
        local_covariates: Table | None = None,
        renames: Table | None = None,
        censored: str | None = None,
        hours: str | None = None,
        ambiguous: str = "null",
        nonexistent: str | None = None,
        gaps: str | None = None,
        past_only: Sequence[str] | None = None,
        missing: Missing = (),
        decimal: DecimalMark | None = None,
        dates: DateOrder | None = None,
        combine: Combine | None = None,
        leave_out: Sequence[str] | None = None,
    ) -> "Panel":
        """Return the panel of a wide table: a time column, then one column per location.

        A table without a column `time` is read as `forecaster run` reads it: the column of times
        is recognised, columns that are no numbers are left out, and times without a row are
        missing. The arguments are those of `from_long`.
        """
        given: dict[str, Any] = {
            "timezone": timezone, "kind": kind, "country": country,
            "ambiguous": ambiguous, "nonexistent": nonexistent, "censored": censored,
            "gaps": gaps, "past_only": None if past_only is None else list(past_only),
            "hours": hours,
            **step_settings(step_minutes, step_months),
        }  # fmt: skip
        config = _given_config(given, "Panel.from_wide")
        rules = _given_rules(None, missing, decimal, dates, combine)
        rows = read_wide_rows(table, config.kind if kind else "measurement", rules, time)
        if rows.recognised or leave_out is not None:
            rows = without_sums(rows, leave_out)
        tables = SideTables(locations, covariates, local_covariates, renames)
        return cls._from_rows(rows, config, rules, tables)

    @classmethod
    def _from_rows(
        cls, rows: TableRows, config: PanelConfig, rules: TableConfig, tables: SideTables
    ) -> "Panel":
        """Return the panel of rows, with what was not given as it is found."""
        given, series = config.model_fields_set, rows.series
        if rows.combination is not None:
            config = config.model_copy(update=rows.combination.step.settings())
        config = with_step(config, series)
        found: dict[str, Any] = {}
        if "timezone" not in given:
            found["timezone"] = rows.zone or config.timezone
            if series.naive and config.step_minutes < DAY_MINUTES:
                log.warning("no timezone=: times without UTC offset are read as UTC")
        if "kind" not in given:
            found["kind"] = find_kind(series.layers[VALUES], rows.name)
        config = config.model_copy(update=found)
        if rows.recognised:
            log.info("%s: %s", rows.name, rows)
            refuse_markers(series, rows.name)
            for note in rows.notes:
                log.warning("%s: %s", rows.name, note)
            series, config, tables = _as_the_command(rows, config, rules, tables)
        if config.gaps == "zero":
            refuse_null_rows(rows)
        return cls.from_series(series, config, tables)

    @classmethod
    def from_series(
        cls, series: SeriesTable, config: PanelConfig, tables: SideTables | None = None
    ) -> "Panel":
        """Return the panel of parsed rows, on a regular axis and joined with the other tables."""
        tables = tables or SideTables()
        config = days_as_utc(series, config)
        placed = complete_axis(series, config)
        renames = () if tables.renames is None else read_renames(tables.renames, config.timezone)
        placed = apply_renames(placed, renames, config.kind)
        values = placed.layers.pop(VALUES)
        start = np.datetime64(int(placed.seconds[0]), "s")
        places = drop_renamed(tables.locations, placed, renames, config.timezone)
        locations = match_locations(placed.ids, places)
        column = {identity: n for n, identity in enumerate(placed.ids)}
        order = [column[identity] for identity in locations.ids]
        layers = {name: layer[:, order] for name, layer in placed.layers.items()}
        axis = Axis(config, start, len(values))
        covariates, local_covariates = join_covariates(layers, tables, axis, locations)
        panel = cls(
            values=np.asfortranarray(values[:, order]),
            start=start,
            clock=make_clock(config, start, len(values)),
            kind=config.kind,
            locations=locations,
            covariates=covariates,
            local_covariates=local_covariates,
        )
        panel = panel.open_as(config)
        if config.gaps == "zero":
            alive = panel.alive(0, len(panel.values))
            values = absent_as_zero(panel.values, panel.times, panel.clock, alive)
            panel = replace(panel, values=values)
        counts = settle_gaps(placed, panel.clock.is_open(panel.times), config).counts
        panel = replace(panel, counts={**counts, **panel.counts}).within_lives()
        panel = panel if config.censored is None else panel.censor(config.censored)
        return panel.with_past_only(config.past_only).without_unseen()

    def open_as(self, config: PanelConfig) -> "Panel":
        """Return the panel with the opening hours of a recipe or of its locations, or as found."""
        hours = given_hours(self.locations, config.hours)
        if hours is not None:
            return self.with_hours(hours)
        hours = find_hours(self.values, self.times, self.clock)
        if not any(hours):
            return self
        panel = self.with_hours(hours)
        log.info("opening hours found: %s", describe_hours(panel))
        return replace(panel, counts={**panel.counts, HOURS_FOUND: True})

    # ------------------------------------------------------------------------- to tables

    def to_long(self) -> pd.DataFrame:
        """Return `unique_id`, `ds` (UTC), `y` and the covariates of each location."""
        M, N = self.values.shape
        columns: dict[str, Any] = {
            "unique_id": np.tile(np.array(self.locations.ids, dtype=object), M),
            "ds": pd.DatetimeIndex(np.repeat(self.times, N)).tz_localize("UTC"),
            "y": self.values.ravel(),
        }
        for name, layer in zip(
            self.local_covariates.names, self.local_covariates.values, strict=True
        ):
            columns[name] = layer[:M].ravel()
        return pd.DataFrame(columns)

    def to_wide(self) -> pd.DataFrame:
        """Return `time` (UTC) and one column per location."""
        frame = pd.DataFrame(self.values, columns=list(self.locations.ids))
        frame.insert(0, "time", pd.DatetimeIndex(self.times).tz_localize("UTC"))
        return frame

    # ---------------------------------------------------------------------------- on disk

    def save(
        self,
        folder: Path | str,
        recipe: Recipe | None = None,
        parents: Mapping[str, str] | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> "Panel":
        """Publish the panel as a folder, and return it with its hash.

        Args:
            folder: the folder to write; a panel that it holds becomes an older version.
            recipe: the recipe that made it, saved beside it.
            parents: hashes of the artifacts it was made from.
            about: what the manifest says of its source, such as up to where that was read.
        """
        files: dict[str, Writer] = {LOCATIONS: locations_writer(self.locations)}
        M, blocks = len(self.values), {}
        for layer, (names, matrix) in self._matrices().items():
            cut = cut_ahead(layer, M, len(matrix), len(names))
            blocks[layer] = cut.to_json()
            files |= matrix_files(cut, names, self.clock, self.start, _reader(matrix))
        vintages = self.covariates.vintages
        if vintages is not None:
            files[VINTAGES] = vintages_writer(vintages, self.clock, self.start)
        if recipe is not None:
            files["recipe.toml"] = bytes_writer(recipe.to_toml().encode())
        draft = Draft(
            kind="panel",
            version=FORMAT,
            files=files,
            about={**(about or {}), **self._about(), "blocks": blocks},
            parents=parents or {},
            recipe=recipe.digest() if recipe is not None else None,
            about_bytes=self.values.nbytes,
            keeps_versions=True,
        )
        return replace(self, digest=publish(Path(folder), draft).digest)

    @staticmethod
    def open(
        folder: Path | str,
        *,
        version: str | None = None,
        verify: bool = True,
        progress: Progress | None = None,
    ) -> "Panel":
        """Open a saved panel.

        Args:
            folder: the folder of a saved panel.
            version: the first characters of the hash of an older version; None: the current one.
            verify: compare every file with its hash first, and read all values. Otherwise values
                and local covariates are read when they are first needed: `steps` reads a part.
            progress: called with the number of bytes verified since the last call.
        """
        folder = Path(folder)
        manifest = read_manifest(folder, kind="panel", reads=FORMAT, version=version)
        if verify:
            verify_files(folder, manifest, progress)
        with refuse_inconsistent(folder):
            panel = _open(folder, manifest)
            if verify:
                read_deferred(panel)
                read_deferred(panel.local_covariates)
        return panel

    load = open  # noqa: A003 (the method, by the name that other libraries give it)

    def _matrices(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Return the matrices of the panel by name, each with the names of its columns."""
        ids, world = self.locations.ids, self.covariates
        layers = enumerate(self.local_covariates.values)
        return {
            VALUES_LAYER: (ids, self.values),
            COVARIATES: (world.names, world.values),
            **{local_layer(q): (ids, layer) for q, layer in layers},
        }

    def _about(self) -> dict[str, Any]:
        holidays, vintages = self.clock.holidays, self.covariates.vintages
        return {
            "timezone": self.clock.zone,
            **step_fields(self.clock),
            "kind": self.kind,
            "start": str(self.start),
            "steps": len(self.values),
            "known_steps": len(self.covariates.values),
            "locations": len(self.locations),
            "covariates": list(self.covariates.names),
            "local_covariates": list(self.local_covariates.names),
            **({"past_only": list(self.past_only)} if self.past_only else {}),
            **({"vintages": len(vintages.steps)} if vintages is not None else {}),
            "lag_clock": LAG_CLOCK,
            "tzdata": tz_version(),
            "holidays": holidays.to_json() if holidays is not None else None,
            "counts": dict(self.counts),
            **({"hours": list(self.clock.hours)} if self.locations.has_hours else {}),
        }


def _given_config(given: Mapping[str, Any], source: str) -> PanelConfig:
    """Return the settings that are given, without those that are found in the table."""
    settings = {name: value for name, value in given.items() if value is not None}
    return check_stage(PanelConfig, settings, source=source)


def _given_rules(
    columns: str | None,
    missing: Missing,
    decimal: DecimalMark | None,
    dates: DateOrder | None,
    combine: Combine | None,
) -> TableConfig:
    markers = [missing] if isinstance(missing, str | int | float) else missing
    texts = tuple(marker if isinstance(marker, str) else f"{marker:g}" for marker in markers)
    return TableConfig(
        columns=columns, missing=texts, decimal=decimal, dates=dates, combine=combine
    )


def _as_the_command(
    rows: TableRows, config: PanelConfig, rules: TableConfig, tables: SideTables
) -> tuple[SeriesTable, PanelConfig, SideTables]:
    """Return rows, settings and tables as `forecaster run` takes them: gaps, covariates ahead."""
    given = config.model_fields_set
    series, found = rows.series, dict[str, Any]()
    if "gaps" not in given:
        step = Step(config.step_minutes, config.step_months)
        found["gaps"], notes = judge_absent(rows, config.kind, step)
        for note in notes:
            log.warning("%s: %s", rows.name, note)
    if series.naive and "nonexistent" not in given:
        found["nonexistent"] = "null"
    config = config.model_copy(update=found)
    shared = None if tables.covariates is None else read_shared(tables.covariates, rules)
    ahead, past_only = split_covariates(series, shared, config, LagConfig().horizon)
    if "past_only" in given:
        ahead = [name for name in series.layers if name not in (VALUES, *config.past_only)]
    else:
        config = config.model_copy(update={"past_only": tuple(past_only)})
    tables = replace(tables, covariates=shared)
    if tables.local_covariates is None:
        series, local = split_ahead(series, ahead)
        tables = replace(tables, local_covariates=local)
    return series, config, tables


@contextmanager
def refuse_inconsistent(folder: Path) -> Iterator[None]:
    """Turn the errors of a manifest and files that do not fit into errors of the artifact."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, DataError, ConfigError) as error:
        raise ArtifactError(f"{folder}: not a forecaster panel ({error})") from error


def _open(folder: Path, manifest: Manifest) -> Panel:
    """Open the panel of a folder, values deferred; wrong files raise errors of various types."""
    ledger: dict[str, Any] = {"counts": dict(manifest.about["counts"]), "digest": manifest.digest}
    if manifest.version < FORMAT:
        return Panel(**read_wide_format(folder, manifest), **ledger)
    stored = open_stored(folder, manifest)
    fields = {
        "start": stored.start,
        "clock": stored.clock,
        "kind": stored.kind,
        "locations": stored.locations,
        "covariates": stored.read_covariates(),
        "local_covariates": stored.defer_local(),
    }
    return defer(Panel, stored.values, {**fields, **ledger})


def _reader(matrix: Float32[np.ndarray, "T n"]) -> Read:
    return lambda first, end: matrix[first:end]


# Read when they are first needed, if the panel was opened without verification.
Panel.values = Deferred()  # type: ignore[assignment]
LocalCovariates.values = Deferred()  # type: ignore[assignment]


def saved_recipe(folder: Path | str) -> Recipe | None:
    """Return the recipe saved with a panel, if any."""
    manifest = read_manifest(Path(folder), kind="panel", reads=FORMAT)
    if "recipe.toml" not in manifest.files:
        return None
    return read_recipe(file_path(Path(folder), manifest, "recipe.toml"))


def describe_hours(panel: Panel) -> str:
    """Return the opening hours of a panel in words: `Mon-Fri 05:00-23:00 (all 7 locations)`."""
    texts, counts = np.unique(np.array(panel.locations.hours, dtype=object), return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    if len(order) == 1:
        return f"{texts[0] or ALWAYS}"
    return name_some(
        f"{texts[n] or ALWAYS} ({count_of(int(counts[n]), 'location')})" for n in order
    )


def local_texts(panel: Panel, times: np.ndarray) -> list[str]:
    """Return local times with their offset: 2014-06-01T09:00:00-04:00."""
    local = panel.clock.local(times)
    minutes = ((local - times).astype(np.int64) // 60).tolist()
    offsets = [f"{'-' if m < 0 else '+'}{abs(m) // 60:02d}:{abs(m) % 60:02d}" for m in minutes]
    return [f"{time}{offset}" for time, offset in zip(local, offsets, strict=True)]


def write_table(frame: pd.DataFrame, path: Path | str) -> None:
    """Write a table as CSV or Parquet by the path's suffix, atomically."""
    path = Path(path)
    if path.suffix == ".csv":
        text = frame.to_csv(index=False, date_format=CSV_TIME)
        replace_file(path, bytes_writer(text.encode()))
    elif path.suffix == ".parquet":
        replace_file(path, lambda sink: frame.to_parquet(sink, index=False))
    else:
        raise ConfigError(f"{path}: a table is written as .csv or .parquet; choose such a suffix")
