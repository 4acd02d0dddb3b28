"""Rows of long or wide tables: columns recognised, several files joined, the kind found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float32, Int64

from forecaster.choices import Kind
from forecaster.config import PanelConfig, TableConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some, nearest_name, setting
from forecaster.panel.axis import VALUES, Layers, SeriesTable, Step, to_instants
from forecaster.panel.parts import RESERVED
from forecaster.panel.tables.columns import need_columns
from forecaster.panel.tables.combine import (
    Combination,
    ParsedRows,
    combine_rows,
    explain_combination,
    find_combination,
)
from forecaster.panel.tables.readers import read_long, read_wide
from forecaster.panel.tables.sums import find_leaks, find_totals, leave_out
from forecaster.panel.vintages import KNOWN_AT
from forecaster.reading.layout import (
    EVENTS,
    ID_NAMES,
    JOIN,
    PERIOD_NAMES,
    TableLayout,
    complete_layout,
    explain_events,
    find_time,
    guess_layout,
    meaning_of,
    parse_layout,
    parts_of,
)
from forecaster.reading.load import ReadRules, Table, Tables, form_of, load, note_form
from forecaster.reading.reshape import join_columns, join_files, unpivot
from forecaster.reading.summary_rows import drop_summary_rows

NAMED = TableLayout("ds", "unique_id", VALUES)  # columns with these names are taken as they are
WIDE_TIME = "time"  # the column of times of a wide table that is taken as it is
_FAR = -99.0  # markers from here down are asked about beside other negative values
_MARKERS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0)  # that often stand for missing values
ONE_SERIES = "series"  # the id of a single one whose values have no name of their own


_MOST_REPEATED = 0.1  # of the rows may repeat others


@dataclass(frozen=True)
class Steps:
    """What is said of the steps of a table."""

    step: Step | None = None
    zone: str | None = None  # whose days are meant
    combination: Combination | None = None  # how rows become steps
    find: bool = False  # whether it is found, where rows are not regular


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, and how they were read."""

    series: SeriesTable  # values, and the covariates that were asked for
    layout: TableLayout
    form: str  # of the file: `semicolon-separated, cp1252`
    name: str = "table"  # of the file
    zone: str | None = None  # that the times carry
    recognised: bool = True  # False: the columns have our own names
    combination: Combination | None = None  # how rows became steps
    null_rows: int = 0  # rows without a value
    notes: tuple[str, ...] = ()  # what was taken for granted of it, and how it is changed
    left_out: tuple[str, ...] = ()  # locations

    def __str__(self) -> str:
        return f"{self.layout}; {self.form}"


def read_rows(
    sources: Tables,
    kind: Kind,
    rules: TableConfig,
    covariates: Sequence[str] = (),
    on: Steps | None = None,
) -> TableRows:
    """Return the rows of a table, and how they were read.

    Args:
        sources: the table, or several files of one.
        kind: of its values.
        rules: how it is read; without columns they are recognised.
        covariates: further columns of a long table that are read.
        on: the steps on which several rows are combined, if the rules say so.
    """
    table, name, layout = _open_with_layout(sources, rules)
    on = on or Steps()
    if rules.combine is not None and on.step is not None:
        on = replace(on, combination=Combination(rules.combine, on.step, rules.nearest))
    return _parse_rows(table, name, layout, kind, rules, covariates, on)


def guess_rows(sources: Tables, rules: TableConfig, on: Steps) -> TableRows:
    """Return the rows of a table with all columns of numbers, and what was found in them.

    Args:
        sources: the table, or several files of one.
        rules: what is said of it.
        on: what is said of its steps.
    """
    table, name, layout = _open_with_layout(sources, rules)
    on = replace(on, find=True)
    rows = _parse_rows(table, name, layout, "measurement", rules, layout.further, on)
    return without_sums(rows, rules.leave_out if "leave_out" in rules.model_fields_set else None)


def without_sums(rows: TableRows, left_out: Sequence[str] | None) -> TableRows:
    """Return the rows without totals of other locations, and without covariates that leak.

    Args:
        rows: as they were read.
        left_out: the locations that are left out; None: a total, if there is one.
    """
    series, notes = rows.series, [*rows.layout.notes]
    names = tuple(find_totals(series) if left_out is None else left_out)
    if names and left_out is None:
        keep = setting("leave_out", "")
        notes.append(f"location {names[0]!r} left out: the sum of all others ({keep} takes it)")
    series = leave_out(series, names)
    leaks = find_leaks(series)
    notes += [f"column {name!r} left out: {how}" for name, how in leaks.items()]
    layers = {name: layer for name, layer in series.layers.items() if name not in leaks}
    return replace(rows, series=replace(series, layers=layers), notes=(*notes,), left_out=names)


def read_long_rows(sources: Tables, kind: Kind, rules: TableConfig, on: Steps) -> TableRows:
    """Return the rows of a long table or of one series, with all further columns.

    Columns named `unique_id`, `ds` and `y` are taken as they are, others are recognised.
    """
    table, name, layout = _open_with_layout(sources, rules, NAMED)
    if layout.value is None:
        series = setting("columns", f"time={layout.time},value=…")
        raise DataError(
            f"{name}: {layout}; Panel.from_wide reads such a table; of one series give {series}"
        )
    recognised = replace(layout, further=(), ignored=(), notes=()) != NAMED
    on = replace(on, find=recognised or rules.combine is not None)
    rows = _parse_rows(table, name, layout, kind, rules, layout.further, on)
    return replace(rows, recognised=recognised)


def read_wide_rows(sources: Tables, kind: Kind, rules: TableConfig, time: str) -> TableRows:
    """Return the rows of a wide table; without a column `time` one of times is recognised."""
    table, name = _open_files(sources, rules, TableLayout(time))
    layout = TableLayout(time)
    if time == WIDE_TIME and time not in table.column_names:
        layout = complete_layout(TableLayout(find_time(table, name)), table)
    on = Steps(find=layout.time != time or rules.combine is not None)
    rows = _parse_rows(table, name, layout, kind, rules, on=on)
    return replace(rows, recognised=layout.time != time)


def _open_with_layout(
    sources: Tables,
    rules: TableConfig,
    named: TableLayout | None = None,
) -> tuple[pa.Table, str, TableLayout]:
    """Return a table, its name and its layout: as said, by the names of its columns, as found."""
    mapped = parse_layout(rules.columns) if rules.columns else None
    table, name = _open_files(sources, rules, mapped)
    columns = table.column_names
    if mapped is None and named is not None and {named.time, named.id, named.value} <= {*columns}:
        taken = (named.time, named.id, named.value)
        further = tuple(column for column in columns if column not in taken)
        return table, name, replace(named, further=further)
    table = unpivot(table)
    if mapped is None:
        return table, name, guess_layout(table, name)
    if mapped.value is None and (mapped.id is not None or rules.combine == "count"):
        mapped = replace(mapped, value=EVENTS)  # each row is an event
    return table, name, complete_layout(mapped, table)


def _parse_rows(  # noqa: PLR0913, PLR0917 (a table, and how it is read)
    table: pa.Table,
    name: str,
    layout: TableLayout,
    kind: Kind,
    rules: TableConfig,
    covariates: Sequence[str] = (),
    on: Steps | None = None,
) -> TableRows:
    if layout.value == EVENTS and EVENTS not in table.column_names:
        table = table.append_column(EVENTS, pa.array(np.ones(len(table), dtype=np.int64)))
    table, repeated = _drop_repeated(table, layout)
    layout = replace(layout, notes=(*layout.notes, *repeated))
    _need(table, (layout.time, layout.id, layout.value, *covariates), name)
    parts = [part for part in parts_of(table, layout.time) if part != layout.time]
    table = join_columns(table, layout)
    zone = _carried_zone(table[layout.time].type)
    on = on or Steps()
    on = replace(on, zone=on.zone or zone)
    if layout.value is None:
        if covariates:
            raise DataError(_explain_wide(table, name, covariates))
        wide = table.drop_columns([*layout.ignored, *parts])
        wide = _drop_markers(wide, rules.missing, (layout.time,))
        return _read_wide_rows(wide, name, layout, kind, rules, on)
    table, identity = _with_id(table, layout)
    named = {"unique_id": identity, "ds": layout.time, VALUES: layout.value}
    named |= {covariate: covariate for covariate in covariates}
    plain = table.select(list(named.values())).rename_columns(list(named))
    plain = plain.replace_schema_metadata(table.schema.metadata)  # the file's name
    plain = _drop_markers(plain, rules.missing, ("unique_id", "ds"))
    series, combination = _on_steps(plain, layout, kind, rules, on)
    if combination is not None:
        note = explain_combination(combination, len(plain), series)
        layout = replace(layout, notes=(*layout.notes, note))
    nulls = plain[VALUES].null_count
    return TableRows(series, layout, form_of(table), name, zone, True, combination, nulls)


def _read_wide_rows(
    table: pa.Table, name: str, layout: TableLayout, kind: Kind, rules: TableConfig, on: Steps
) -> TableRows:
    """Return the rows of a wide table without other columns."""
    form, zone = form_of(table), _carried_zone(table[layout.time].type)
    combination = on.combination
    if (combination is not None or on.find) and len(table.column_names) > 1:
        parsed = ParsedRows.of_wide(table, layout.time, rules.dates)
        meanings = {meaning_of(column) for column in parsed.ids}
        meaning = meanings.pop() if len(meanings) == 1 else "unknown"
        combination = combination or find_combination(parsed, meaning, rules.combine, on.step)
        if combination is not None:
            series = combine_rows(parsed, combination, on.zone or "UTC")
            note = explain_combination(combination, len(parsed.seconds), series)
            layout = replace(layout, notes=(*layout.notes, note))
            return TableRows(series, layout, form, name, zone, True, combination)
    series = read_wide(table, kind, layout.time, rules.dates)
    nulls = int(np.isnan(series.layers[VALUES]).sum())
    return TableRows(series, layout, form, name, zone, null_rows=nulls)


def _on_steps(
    plain: pa.Table, layout: TableLayout, kind: Kind, rules: TableConfig, on: Steps
) -> tuple[SeriesTable, Combination | None]:
    """Return the rows of a long table, several of a step combined where this is said or found."""
    combination, value = on.combination, layout.value or VALUES
    if combination is None and not on.find:
        if value == EVENTS:
            raise DataError(f"{load(plain)[1]}: {explain_events(layout)}")
        return read_long(plain, kind, rules.dates), None
    parsed = ParsedRows.of(plain, rules.dates)
    if combination is None:
        if value == EVENTS and rules.combine is None and parsed.are_regular():
            raise DataError(f"{parsed.name}: {explain_events(layout)}")
        how = rules.combine or ("count" if value == EVENTS else None)
        combination = find_combination(parsed, meaning_of(value), how, on.step)
    if combination is None:
        return read_long(plain, kind, rules.dates), None
    series = combine_rows(parsed, combination, on.zone or "UTC")
    if combination.how != "mean" and not combination.nearest:  # covariates of events are none
        series = replace(series, layers={VALUES: series.layers[VALUES]})
    return series, combination


def _carried_zone(kind: pa.DataType) -> str | None:
    """Return the time zone of a column of times; an offset such as +02:00 is none."""
    zone = kind.tz if pa.types.is_timestamp(kind) else None
    return zone if zone is not None and zone in available_timezones() else None


def _explain_wide(table: pa.Table, name: str, covariates: Sequence[str]) -> str:
    """Say how covariates are given beside a wide table."""
    shared = [column for column in covariates if column in table.column_names]
    beside = setting("covariates", "FILE")
    if shared:
        return (
            f"{name}: the table is wide, so that its column {name_some(shared)} is a location; "
            f"give covariates of all locations in a table of their own ({beside}), or a long table"
        )
    return (
        f"{name}: a wide table has no column {name_some(covariates)} of each location; give a "
        f"long table, or covariates of all locations in a table of their own ({beside})"
    )


def read_shared(source: Table, rules: TableConfig) -> pa.Table:
    """Return the covariates of all locations: `ds`, then columns of numbers."""
    table, name = open_table(source, rules)
    layout = complete_layout(TableLayout(find_time(table, name)), table)
    left_out = {layout.time, *parts_of(table, layout.time), *layout.ignored} - {KNOWN_AT}
    table = join_columns(table, layout)
    covariates = [c for c in table.column_names if c not in left_out]
    named = table.select([layout.time, *covariates]).rename_columns(["ds", *covariates])
    return _drop_markers(named, rules.missing, ("ds",))


def needed_columns(mapping: str | None, further: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns that are read of a table; None: all.

    Args:
        mapping: its columns, such as `time=…,id=…,value=…`.
        further: columns beside the values.
    """
    layout = parse_layout(mapping) if mapping else None
    if layout is None or layout.value is None:
        return None
    named = (layout.time, layout.id or "", layout.value)
    return (*(part for name in named for part in (name, *name.split("+"))), *further)


def open_table(
    sources: Tables,
    rules: TableConfig,
    mapped: TableLayout | None = None,
) -> tuple[pa.Table, str]:
    """Return the table of one source or of several files, and its name for messages."""
    table, name = _open_files(sources, rules, mapped)
    return unpivot(table), name


def _open_files(
    sources: Tables, rules: TableConfig, mapped: TableLayout | None
) -> tuple[pa.Table, str]:
    names = [*ID_NAMES, *PERIOD_NAMES]
    if mapped is not None:
        names = [n for c in (mapped.id, mapped.time) if c for n in (c, *c.split(JOIN))]
    read = ReadRules(rules.decimal, rules.missing)
    several = isinstance(sources, list | tuple)
    parts = [load(each, names, read) for each in (sources if several else [sources])]  # type: ignore[union-attr]
    if not parts:
        raise DataError("no table given; give a file")
    for table, name in parts:
        need_columns(table, (), name)  # refuses columns given twice
        if not table.num_rows:
            raise DataError(f"{name}: no rows; at least one time is needed")
    parts = [(_observations(table), name) for table, name in parts]
    return parts[0] if len(parts) == 1 else join_files(parts)


def _drop_repeated(table: pa.Table, layout: TableLayout) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the table without repeated rows, if they are few and all that share id and time."""
    keys = [p for c in (layout.time, layout.id) if c for p in parts_of(table, c)]
    named = {NAMED.time, NAMED.id, NAMED.value} <= {*table.column_names}
    if named or layout.value == EVENTS or not {*keys} <= {*table.column_names}:
        return table, ()
    rows = table.select(keys).group_by(keys).aggregate([]).num_rows
    repeated = len(table) - rows
    if not 0 < repeated <= _MOST_REPEATED * len(table):
        return table, ()
    names = table.column_names
    distinct = table.group_by(names, use_threads=False).aggregate([])
    if len(distinct) != rows:
        return table, ()
    metadata = table.schema.metadata
    plain = distinct.select(names).replace_schema_metadata(metadata)
    return plain, (f"{count_of(repeated, 'row')} that repeat others as a whole left out",)


def _observations(table: pa.Table) -> pa.Table:
    """Return the table without totals and notes; one with our own names stays as it is."""
    if {NAMED.time, NAMED.id, NAMED.value} <= {*table.column_names}:
        return table
    observations, notes = drop_summary_rows(table)
    return note_form(observations, notes) if notes else observations


def _need(table: pa.Table, columns: Sequence[str | None], name: str) -> None:
    """Refuse a table without some columns; `a+b` means two of them."""
    needed = [part for column in columns if column for part in parts_of(table, column)]
    missing = [column for column in needed if column not in table.column_names]
    if missing:
        hint = nearest_name(missing[0], table.column_names)
        columns_present = name_some(table.column_names, 20)
        raise DataError(f"{name}: no column {name_some(missing)}{hint}; found: {columns_present}")


# ---------------------------------------------------------------------------------- columns


def _with_id(table: pa.Table, layout: TableLayout) -> tuple[pa.Table, str]:
    """Return the table with a column of ids, and its name; of one series it is its name."""
    if layout.id is not None:
        return table, layout.id
    identity = ONE_SERIES if layout.value in RESERVED else layout.value
    ids = pa.array([identity]).dictionary_encode().take(pa.array([0] * len(table)))
    return table.append_column("unique_id", ids), "unique_id"


def _drop_markers(table: pa.Table, missing: Sequence[str], kept: Sequence[str]) -> pa.Table:
    """Return the table with what stands for missing values as null."""
    markers = []
    for text in missing:
        try:
            markers.append(float(text))
        except ValueError:  # of texts
            continue
    for index, field in enumerate(table.schema):
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        column = table.column(index)
        if field.name in kept or not missing:
            continue
        if field.type == pa.string():
            marked = pc.is_in(column, value_set=pa.array(missing, pa.string()))
        elif is_number and markers:
            marked = pc.is_in(column.cast(pa.float64(), safe=False), value_set=pa.array(markers))
        else:
            continue
        empty = pa.scalar(None, field.type)
        table = table.set_column(index, field.name, pc.if_else(marked, empty, column))
    return table


# ------------------------------------------------------------------------- kind, covariates


def refuse_markers(series: SeriesTable, name: str) -> None:
    """Ask about values of covariates that stand far below all others, such as -999."""
    for column, layer in series.layers.items():
        observed = layer[np.isfinite(layer)]
        marker = _find_marker(observed) if column != VALUES else None
        if marker is not None and marker <= _FAR:
            count = count_of(int((observed == marker).sum()), "value")
            least = observed[observed != marker].min()
            raise ConfigError(
                f"{name}: column {column!r}: {count} of {marker:g}, all others from {least:g} up; "
                f"give {setting('missing', f'{marker:g}')} if it stands for missing"
            )


def find_kind(values: Float32[np.ndarray, "U N"], name: str) -> Kind:
    """Return `count` for whole numbers from zero up, else `measurement`.

    A value that often stands for a missing one is asked about: the only negative one, or one far
    below all others.
    """
    observed = values[np.isfinite(values)]
    marker = _find_marker(observed)
    if marker is not None:
        count = count_of(int((observed == marker).sum()), "value")
        least = observed[observed != marker].min()
        raise ConfigError(
            f"{name}: {count} of {marker:g}, all others from {least:g} up; if it "
            f"stands for missing give {setting('missing', f'{marker:g}')}, otherwise "
            f"{setting('kind', 'measurement')}"
        )
    is_count = (observed >= 0).all() and (observed == np.round(observed)).all()
    return "count" if is_count else "measurement"


def _find_marker(observed: Float32[np.ndarray, " K"]) -> float | None:
    """Return a value that may stand for missing ones; None if there is none."""
    lowest = np.unique(observed)[:2]
    if len(lowest) < 2 or float(lowest[0]) not in _MARKERS:  # noqa: PLR2004
        return None
    marker, least = map(float, lowest)
    if least < 0:
        return marker if marker <= _FAR and least > marker / 3 else None
    remaining = observed[observed >= 0]
    is_odd = marker < -1 or bool((remaining == np.round(remaining)).all())
    return marker if is_odd else None


def split_ahead(
    rows: SeriesTable, known_ahead: Sequence[str]
) -> tuple[SeriesTable, SeriesTable | None]:
    """Return the rows up to the last value, and the covariates that go on after it."""
    if not known_ahead:
        return rows, None
    observed = np.flatnonzero(np.isfinite(rows.layers[VALUES]).any(axis=1))
    end = int(observed[-1]) + 1 if len(observed) else len(rows.seconds)
    values = {n: layer[:end] for n, layer in rows.layers.items() if n not in known_ahead}
    ahead = {n: rows.layers[n] for n in known_ahead}
    return replace(rows, seconds=rows.seconds[:end], layers=values), replace(rows, layers=ahead)


def split_covariates(
    rows: SeriesTable, shared: pa.Table | None, config: PanelConfig, horizon: int
) -> tuple[list[str], list[str]]:
    """Return the covariates of a table that are known ahead, and all that are past-only.

    A covariate is known ahead if it is held for the whole horizon after the last value.

    Args:
        rows: values and covariates of single locations.
        shared: covariates of all locations, with a column `ds`.
        config: of the panel; what it names as past-only is.
        horizon: in steps.
    """
    instants = to_instants(rows, config)
    observed = np.flatnonzero(np.isfinite(instants.layers[VALUES]).any(axis=1))
    end = int(instants.seconds[observed[-1] if len(observed) else -1])
    further = {n: layer for n, layer in instants.layers.items() if n != VALUES}
    ahead = _held_ahead(instants.seconds, further, end, horizon)
    ahead -= {*config.past_only}
    ahead_names = [name for name in further if name in ahead]
    past_only = [name for name in further if name not in ahead and name != config.censored]
    if shared is not None and KNOWN_AT not in shared.column_names:  # vintages say it themselves
        series = to_instants(read_wide(shared, None, "ds"), config)
        layers = {n: series.layers[VALUES][:, [i]] for i, n in enumerate(series.ids)}
        ahead = _held_ahead(series.seconds, layers, end, horizon) - {*config.past_only}
        past_only += [name for name in series.ids if name not in ahead]
    return ahead_names, past_only


def _held_ahead(
    seconds: Int64[np.ndarray, " U"], layers: Layers, end: int, horizon: int
) -> set[str]:
    """Return the layers that have a value at so many times after the last value."""
    after = seconds > end
    held = {name: np.isfinite(layer[after]).any(axis=1).sum() for name, layer in layers.items()}
    return {name for name, count in held.items() if count >= horizon}
