"""Locations and covariates from separate tables, matched to the panel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import expand_holidays
from forecaster.clock.zone import to_utc
from forecaster.config import PanelConfig
from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.panel.axis import Layers, SeriesTable, align_to_axis, clock_of
from forecaster.panel.parts import Covariates, LocalCovariates, Locations, stack_layers
from forecaster.panel.tables.columns import need_columns, numbers
from forecaster.panel.tables.readers import read_locations, read_long, read_wide, sort_ids
from forecaster.panel.tables.renames import Rename, apply_renames, inherit_opens, read_renames
from forecaster.panel.vintages import KNOWN_AT, first_origins, sort_vintages
from forecaster.reading.load import Table, load
from forecaster.reading.times import parse_times


@dataclass(frozen=True)
class SideTables:
    """The optional tables besides the values."""

    locations: Table | Locations | None = None
    covariates: Table | None = None
    local_covariates: Table | SeriesTable | None = None
    renames: Table | None = None  # `old`, `new`, `from`


@dataclass(frozen=True)
class Axis:
    """The time axis that covariates are aligned to."""

    config: PanelConfig
    start: np.datetime64
    steps: int  # number of steps with values: M


def drop_renamed(
    table: Table | Locations | None, values: SeriesTable, renames: Sequence[Rename], zone: str
) -> Locations | None:
    """Return the locations of a table without those that have another id now, or will get one.

    A successor has been open for as long as its predecessors.

    Args:
        table: the locations, old and new ones; None: none are described.
        values: after the renames.
        renames: of the values.
        zone: of dates without an offset.
    """
    if table is None:
        return None
    ids = values.ids
    locations = table if isinstance(table, Locations) else read_locations(table, zone)
    locations = inherit_opens(locations, renames, int(values.seconds[-1]))
    gone = {identity for rename in renames for identity in (rename.old, rename.new)} - {*ids}
    if not gone & {*locations.ids}:
        return locations
    return locations.take([n for n, i in enumerate(locations.ids) if i not in gone])


def match_locations(ids: tuple[str, ...], locations: Locations | None) -> Locations:
    """Return the locations, which must match those of the values; None: nothing but their ids."""
    if locations is None:
        return Locations.of_ids(ids)
    faults = Faults("locations")
    unknown = sorted(set(ids) - set(locations.ids))
    missing = sorted(set(locations.ids) - set(ids))
    if unknown:
        count = count_of(len(unknown), "unknown id")
        faults.add(f"{count} in the values: {name_some(unknown)}; add them to the locations")
    if missing:
        count = count_of(len(missing), "location")
        faults.add(f"{count} without a row: {name_some(missing)}; drop them or give null rows")
    faults.raise_any(DataError)
    return locations


def make_clock(config: PanelConfig, start: np.datetime64, steps: int) -> Clock:
    """Return the clock of a panel that begins at `start`, with the holidays of its country."""
    clock = clock_of(config)
    ends = clock.local(
        clock.axis(start, steps)[[0, -1]]
    )  # raises an error for years outside the calendar
    if config.country is None:
        return clock
    first, last = ends.astype("datetime64[Y]").astype(np.int64) + 1970
    return replace(clock, holidays=expand_holidays(config.country, int(first), int(last)))


def join_covariates(
    layers: Layers, tables: SideTables, axis: Axis, locations: Locations
) -> tuple[Covariates, LocalCovariates]:
    """Return all covariates, padded with NaN to the longest.

    Args:
        layers: local covariates from the table of the values.
        tables: tables of further covariates.
        axis: the time axis of the values.
        locations: in the order of the panel's columns.
    """
    shared = _read_covariates(tables.covariates, axis)
    local = _merge(layers, _read_local_covariates(tables, axis, locations))
    length = len(shared.values)
    S = max(length, *map(len, local.values())) if local else length
    padded = [_pad(layer, S) for layer in local.values()]
    return (
        replace(shared, values=_pad(shared.values, S)),
        LocalCovariates(tuple(local), stack_layers(padded, S, len(locations))),
    )


def _read_covariates(source: Table | None, axis: Axis) -> Covariates:
    if source is None:
        return Covariates.empty(axis.steps)
    table, name = load(source)
    time = "ds" if "ds" in table.column_names else "time"
    if KNOWN_AT in table.column_names:
        return _read_vintages(table, time, name, axis)
    series = read_wide(table, None, time, layer="covariates")
    aligned = align_to_axis(series, axis.config, axis.start, axis.steps)
    return Covariates(series.ids, aligned["covariates"])


def _read_vintages(table: pa.Table, time: str, name: str, axis: Axis) -> Covariates:
    """Return covariates with vintages: several rows of one step, each with when it was known."""
    need_columns(table, (time,), name)
    faults, config, clock = Faults(name), axis.config, clock_of(axis.config)
    columns = tuple(sort_ids([c for c in table.column_names if c not in (time, KNOWN_AT)]))
    layers = [numbers(table[c], c, faults) for c in columns]
    seconds, naive = parse_times(table[time], time, faults)
    known_seconds, known_naive = parse_times(table[KNOWN_AT], KNOWN_AT, faults)
    faults.raise_any(DataError)
    known_at = known_seconds.astype("datetime64[s]")
    if known_naive:  # of a local time that occurs twice the later: nothing is known too early
        known_at = to_utc(config.timezone, known_at).second
    _refuse_doubled(seconds, known_at, name)
    # Each time on its step, then the rows of that time; a local time may be two steps.
    unique, time_of_row = np.unique(seconds, return_inverse=True)
    number = np.arange(len(unique), dtype=np.float32)[:, None]
    rows = SeriesTable(unique, naive, ("row",), {"number": number})
    placed = align_to_axis(rows, config, axis.start, axis.steps)["number"][:, 0]
    steps = np.flatnonzero(np.isfinite(placed))
    by_time = np.argsort(time_of_row, kind="stable")
    ends = np.searchsorted(time_of_row[by_time], np.stack([placed[steps], placed[steps] + 1]))
    row = np.concatenate([by_time[a:b] for a, b in ends.T] or [by_time[:0]])
    known = first_origins(clock, axis.start, known_at[row])
    order = np.argsort(known_at[row], kind="stable")  # the last one known counts
    vintages = sort_vintages(
        columns,
        np.repeat(steps, ends[1] - ends[0])[order],
        known[order],
        np.column_stack(layers)[row][order],
    )
    every = np.arange(len(placed))
    return Covariates(columns, vintages.seen(every, every), vintages=vintages)


def _refuse_doubled(
    seconds: Int64[np.ndarray, " R"], known_at: Shaped[np.ndarray, " R"], name: str
) -> None:
    """Refuse rows of one time that were known at the same moment."""
    pairs = np.stack([seconds, known_at.astype(np.int64)], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    doubled = np.setdiff1d(np.arange(len(pairs)), first)
    if len(doubled):
        texts = name_some(f"row {row + 1} ({known_at[row]}Z)" for row in doubled)
        count = f"{count_of(len(doubled), 'row')} of a time and a {KNOWN_AT} given before"
        raise DataError(f"{name}: {count}: {texts}; give one row for each")


def _read_local_table(source: Table) -> SeriesTable:
    table, name = load(source)
    if KNOWN_AT in table.column_names:
        raise DataError(
            f"{name}: column {KNOWN_AT!r}: only covariates shared by all locations have vintages; "
            "give these in the table of covariates, or leave the column out"
        )
    return read_long(table, None)


def _read_local_covariates(tables: SideTables, axis: Axis, locations: Locations) -> Layers:
    """Return the covariates by name, their columns in the order of the locations."""
    if tables.local_covariates is None:
        return {}
    series = tables.local_covariates
    if not isinstance(series, SeriesTable):
        series = _read_local_table(series)
    aligned = align_to_axis(series, axis.config, axis.start, axis.steps)
    if tables.renames is not None:
        times = clock_of(axis.config).axis(axis.start, len(next(iter(aligned.values()))))
        seconds = times.astype(np.int64)
        renames = read_renames(tables.renames, axis.config.timezone)
        rows = SeriesTable(seconds, False, series.ids, aligned)
        series = apply_renames(rows, renames, axis.config.kind)
        aligned = series.layers
    unknown = sorted(set(series.ids) - set(locations.ids))
    if unknown:
        count = count_of(len(unknown), "unknown id")
        raise DataError(f"local covariates: {count}: {name_some(unknown)}; the panel lacks them")
    columns = [locations.ids.index(identity) for identity in series.ids]
    layers = {}
    for name, layer in aligned.items():
        layers[name] = np.full((len(layer), len(locations)), np.nan, dtype=np.float32)
        layers[name][:, columns] = layer
    return layers


def _merge(beside_values: Layers, from_table: Layers) -> Layers:
    """Join local covariates of two tables by name; common values must be equal."""
    merged = beside_values | from_table
    for name in beside_values.keys() & from_table.keys():
        early, late = beside_values[name], from_table[name][: len(beside_values[name])]
        apart = int(((early != late) & ~np.isnan(early) & ~np.isnan(late)).sum())
        if apart:
            message = f"local covariates: {count_of(apart, 'value')} of {name!r} differ from those"
            raise DataError(f"{message} in the table of values; give each in one table")
        late[:] = np.where(np.isnan(early), late, early)
    return dict(sorted(merged.items()))  # independent of the order of the columns


def _pad(layer: Float32[np.ndarray, "T K"], steps: int) -> Float32[np.ndarray, "S K"]:
    missing = np.full((steps - len(layer), layer.shape[1]), np.nan, dtype=np.float32)
    return np.asfortranarray(np.concatenate([layer, missing]))
