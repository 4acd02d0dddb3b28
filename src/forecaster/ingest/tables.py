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
from forecaster.ingest.reshape import join_columns, join_files, unpivot
from forecaster.panel.assemble import SideTables
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.columns import need_columns
from forecaster.panel.panel import Panel
from forecaster.panel.parts import RESERVED, LocalCovariates, Locations
from forecaster.panel.tables import read_long, read_wide
from forecaster.panel.vintages import KNOWN_AT
from forecaster.reading.load import ReadRules, Table, form_of, load

ONE_SERIES = "series"  # the id of a single one whose values have no name of their own


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
    return _keep_busy(with_static(panel, rules.static), rules), rows


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
    parts = [part for part in parts_of(table, layout.time) if part != layout.time]
    table = join_columns(table, layout)
    if layout.value is None:
        if covariates:
            raise DataError(
                f"{name}: a wide table has no column {name_some(covariates)} of each location; "
                "give a long table"
            )
        wide = table.drop_columns([*layout.ignored, *parts])
        wide = _drop_markers(wide, rules.missing, (layout.time,))
        return TableRows(read_wide(wide, kind, layout.time, rules.dates), layout, form_of(table))
    table, identity = _with_id(table, layout)
    named = {"unique_id": identity, "ds": layout.time, VALUES: layout.value}
    named |= {covariate: covariate for covariate in covariates}
    plain = table.select(list(named.values())).rename_columns(list(named))
    plain = plain.replace_schema_metadata(table.schema.metadata)  # the file's name
    plain = _drop_markers(plain, rules.missing, ("unique_id", "ds"))
    return TableRows(read_long(plain, kind, rules.dates), layout, form_of(table))


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


def read_shared(source: Table, rules: TableConfig) -> pa.Table:
    """Return the covariates of all locations: `ds`, then columns of numbers."""
    table, name = open_table(source, rules)
    layout = complete_layout(TableLayout(find_time(table, name)), table)
    left_out = {layout.time, *parts_of(table, layout.time), *layout.ignored} - {KNOWN_AT}
    table = join_columns(table, layout)
    kept = [c for c in table.column_names if c not in left_out]
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
    table, name = parts[0] if len(parts) == 1 else join_files(parts)
    return unpivot(table), name


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


def with_static(panel: Panel, names: Sequence[str]) -> Panel:
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
        if rules.demand_hours:
            message = "they are those of min_demand, which is not set; give both, or neither"
            raise ConfigError(f"demand hours {rules.demand_hours}: {message}")
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
