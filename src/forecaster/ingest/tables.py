"""Long or wide tables to a panel: columns recognised, several files joined, gaps completed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.choices import Kind
from forecaster.config import PanelConfig, TableConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some, nearest_name
from forecaster.ingest.files import parse_span
from forecaster.ingest.layout import (
    ID_NAMES,
    JOIN,
    PERIOD_NAMES,
    TableLayout,
    complete_layout,
    find_time,
    guess_layout,
    parse_layout,
    parts_of,
)
from forecaster.panel.assemble import SideTables
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.columns import need_columns
from forecaster.panel.panel import Panel
from forecaster.panel.parts import RESERVED, LocalCovariates, Locations
from forecaster.panel.tables import read_long, read_wide
from forecaster.panel.vintages import KNOWN_AT
from forecaster.reading.load import ReadRules, Table, form_of, load
from forecaster.reading.times import as_texts, looks_like_time

ONE_SERIES = "series"  # the id of a single one whose values have no name of their own
FILE = "file"  # the column that tells apart the series of several files
_MIN_TIMES = 3  # columns named as times that make a table one of times across


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, and how they were read."""

    series: SeriesTable  # values, and the covariates that were asked for
    layout: TableLayout
    form: str  # of the file: `semicolon-separated, cp1252`

    def __str__(self) -> str:
        return f"{self.layout}; {self.form}"


def ingest_table(
    sources: Table | Sequence[Path | pa.Table],
    config: PanelConfig,
    rules: TableConfig,
    locations: Table | Locations | None,
    renames: Table | None = None,
    covariates: Table | None = None,
) -> tuple[Panel, TableRows]:
    """Return the panel of a table, and how the table was read.

    Args:
        sources: the values: a table, or several files of one.
        config: of the panel.
        rules: how the table is read.
        locations: of the values; None: nothing is known of them but their ids.
        renames: `old`, `new`, `from`: places renamed, merged or split.
        covariates: shared by all locations, with a column of times.
    """
    flags = () if config.censored is None else (config.censored,)
    shared = None if covariates is None else read_shared(covariates, rules)
    past_only = [n for n in config.past_only if shared is None or n not in shared.column_names]
    beside = tuple(dict.fromkeys((*flags, *past_only, *rules.known_ahead)))
    rows = read_rows(sources, config.kind, rules, beside)
    values, ahead = _split_ahead(rows.series, rules.known_ahead)
    tables = SideTables(locations, shared, ahead, renames)
    panel = Panel.from_series(values, config, tables)
    return _keep_busy(_with_static(panel, rules.static), rules), rows


def read_rows(
    sources: Table | Sequence[Path | pa.Table],
    kind: Kind,
    rules: TableConfig,
    covariates: Sequence[str] | None = (),
) -> TableRows:
    """Return the rows of a table, and how they were read.

    Args:
        sources: the table, or several files of one.
        kind: of its values.
        rules: how it is read; without columns they are recognised.
        covariates: further columns of a long table that are read; None: all those of numbers.
    """
    mapped = parse_layout(rules.columns) if rules.columns else None
    table, name = open_table(sources, rules, mapped)
    layout = complete_layout(mapped, table) if mapped else guess_layout(table, name)
    covariates = layout.further if covariates is None else covariates
    _need(table, (layout.time, layout.id, layout.value, *covariates), name)
    table = _join_columns(table, layout)
    if layout.value is None:
        if covariates:
            raise DataError(
                f"{name}: a wide table has no column {name_some(covariates)} of each location; "
                "give a long table"
            )
        wide = table.drop_columns(list(layout.ignored))
        wide = _drop_markers(wide, rules.missing, (layout.time,))
        return TableRows(read_wide(wide, kind, layout.time, rules.dates), layout, form_of(table))
    table, identity = _with_id(table, layout)
    named = {"unique_id": identity, "ds": layout.time, VALUES: layout.value}
    named |= {covariate: covariate for covariate in covariates}
    plain = table.select(list(named.values())).rename_columns(list(named))
    plain = plain.replace_schema_metadata(table.schema.metadata)  # the file's name
    plain = _drop_markers(plain, rules.missing, ("unique_id", "ds"))
    return TableRows(read_long(plain, kind, rules.dates), layout, form_of(table))


def read_shared(source: Table, rules: TableConfig) -> pa.Table:
    """Return the covariates of all locations: `ds`, then columns of numbers."""
    table, name = open_table(source, rules)
    layout = complete_layout(TableLayout(find_time(table, name)), table)
    table = _join_columns(table, layout)
    left_out = {layout.time, *layout.ignored} - {KNOWN_AT}
    kept = [c for c in table.column_names if c not in left_out]
    kept = [c for c in kept if c not in parts_of(table, layout.time)]
    named = table.select([layout.time, *kept]).rename_columns(["ds", *kept])
    return _drop_markers(named, rules.missing, ("ds",))


def open_table(
    sources: Table | Sequence[Path | pa.Table],
    rules: TableConfig,
    mapped: TableLayout | None = None,
) -> tuple[pa.Table, str]:
    """Return the table of one source or of several files, and its name for messages."""
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
    table, name = parts[0] if len(parts) == 1 else _join_files(parts)
    return _unpivot_times(table), name


def _need(table: pa.Table, columns: Sequence[str | None], name: str) -> None:
    """Refuse a table without some columns; `a+b` means two of them."""
    needed = [part for column in columns if column for part in parts_of(table, column)]
    missing = [column for column in needed if column not in table.column_names]
    if missing:
        hint = nearest_name(missing[0], table.column_names)
        columns_present = name_some(table.column_names, 20)
        raise DataError(f"{name}: no column {name_some(missing)}{hint}; found: {columns_present}")


# ----------------------------------------------------------------------------- other shapes


def _join_files(parts: Sequence[tuple[pa.Table, str]]) -> tuple[pa.Table, str]:
    """Return one table of several files with the same columns.

    Files that hold a series each, of the same times, are told apart by their names.
    """
    tables, names = [table for table, _ in parts], [name for _, name in parts]
    columns = set(tables[0].column_names)
    for table, name in parts[1:]:
        if set(table.column_names) != columns:
            apart = name_some(sorted(columns ^ set(table.column_names)))
            raise DataError(
                f"{name}: other columns than {names[0]} ({apart}); give files of the same columns"
            )
    layout = guess_layout(tables[0], names[0])
    if layout.id is None and _share_times(tables, layout.time):
        tables = [
            table.append_column(FILE, pa.array([_stem(name)] * len(table)))
            for table, name in parts
        ]
    plain = [table.replace_schema_metadata(None) for table in tables]
    joined = pa.concat_tables(plain, promote_options="permissive")
    return joined.replace_schema_metadata(tables[0].schema.metadata), name_some(names, 3)


def _share_times(tables: Sequence[pa.Table], time: str) -> bool:
    """Whether two files have a time in common."""
    seen: set[tuple[object, ...]] = set()
    for table in tables:
        columns = (table[column].to_pylist() for column in parts_of(table, time))
        times = set(zip(*columns, strict=True))
        if seen & times:
            return True
        seen |= times
    return False


def _stem(name: str) -> str:
    return Path(name).name.split(".")[0]


def _unpivot_times(table: pa.Table) -> pa.Table:
    """Return a table with a column for each time as one with a row for each."""
    times = [n for n in table.column_names if looks_like_time(n)]
    other = [n for n in table.column_names if n not in times]
    across = len(times) >= max(_MIN_TIMES, len(other)) and len({len(n) for n in times}) == 1
    if not across or any(_holds_times(table[name]) for name in other):
        return table
    parts = [
        table.select(other)
        .append_column("time", pa.array([time] * len(table)))
        .append_column("value", table[time])
        for time in times
    ]
    joined = pa.concat_tables(parts, promote_options="permissive")
    return joined.replace_schema_metadata(table.schema.metadata)


def _holds_times(column: pa.ChunkedArray) -> bool:
    texts = as_texts(column.slice(0, 9).drop_null())
    if texts is None:
        return bool(pa.types.is_temporal(column.type))
    return len(texts) > 0 and all(map(looks_like_time, texts.to_pylist()))


def _join_columns(table: pa.Table, layout: TableLayout) -> pa.Table:
    """Return the table with the columns that its layout joins: a day and a clock, or ids."""
    for column, between in ((layout.time, "T"), (layout.id, " / ")):
        if column is None or column in table.column_names:
            continue
        texts = [_piece(table[part]) for part in parts_of(table, column)]
        if column == layout.time:
            texts = [_days(texts[0]), *(_clocks(text) for text in texts[1:])]
        joined = pc.binary_join_element_wise(*texts, between)
        table = table.append_column(column, joined)
    return table


def _piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = as_texts(column)
    return column.cast(pa.string()) if texts is None else texts


def _days(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return days without a time of day at midnight, as frames and workbooks have it."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"[T ]00:00(:00)?$", "")


def _clocks(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of day as 13:05; hours from 1 to 24 are those that end then."""
    if pc.any(pc.match_substring(texts, ":")).as_py():
        return pc.utf8_trim_whitespace(texts)
    hours = pc.replace_substring_regex(texts, r"[.:]00$", "").cast(pa.int64())
    if pc.max(hours).as_py() == 24 and pc.min(hours).as_py() == 1:  # noqa: PLR2004
        hours = pc.subtract(hours, 1)
    return pc.binary_join_element_wise(
        pc.utf8_lpad(hours.cast(pa.string()), 2, "0"), pa.scalar("00"), ":"
    )


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


# ------------------------------------------------------------------------------- the panel


def _split_ahead(
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


def _with_static(panel: Panel, names: Sequence[str]) -> Panel:
    """Return the panel with numbers of its locations as covariates that never change.

    They are past-only: a model carries them ahead as they are.
    """
    if not names:
        return panel
    missing = [name for name in names if name not in panel.locations.extra]
    if missing:
        columns = name_some(panel.locations.extra) or "none"
        raise DataError(
            f"static = {name_some(missing)}: no such column of the locations; found: {columns}"
        )
    local, extra = panel.local_covariates, panel.locations.extra
    layers = np.array([extra[n] for n in names], dtype=np.float32)  # null becomes NaN
    steps = local.values.shape[1]
    constant = np.repeat(layers[:, None], steps, axis=1)
    joined = LocalCovariates(
        (*local.names, *names),
        np.concatenate([local.values, constant]),
        (*local.past_only, *names),
    )
    return replace(panel, local_covariates=joined, digest=None).without_unseen()


def _keep_busy(panel: Panel, rules: TableConfig) -> Panel:
    """Return the panel without locations whose mean is below the minimum."""
    if rules.min_demand is None:
        return panel
    inside = np.ones(len(panel.values), dtype=bool)
    if rules.demand_hours:
        span = parse_span(rules.demand_hours)
        local = panel.clock.local(panel.times)
        inside = (local >= span.first) & (local < span.end)
    if not inside.any():
        raise ConfigError(f"demand hours {rules.demand_hours}: not in the table")
    observed = np.isfinite(panel.values[inside])
    total = np.where(observed, panel.values[inside], 0).sum(axis=0, dtype=np.float64)
    mean = total / np.maximum(observed.sum(axis=0), 1)
    busy = [i for i, m in zip(panel.locations.ids, mean, strict=True) if m >= rules.min_demand]
    if not busy:
        message = f"none of {count_of(len(mean), 'location')} has a mean of {rules.min_demand:g}"
        raise DataError(f"{message}; the largest is {mean.max():g}: lower min_demand")
    return panel.select(tuple(busy))
