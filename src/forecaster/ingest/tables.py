"""Long or wide tables to a panel: columns recognised by name, gaps completed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.choices import Kind
from forecaster.config import PanelConfig, TableConfig
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some, nearest_name
from forecaster.ingest.files import parse_span
from forecaster.ingest.mapping import parse_pairs
from forecaster.panel.assemble import SideTables
from forecaster.panel.axis import SeriesTable
from forecaster.panel.columns import Table, load, need_columns
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.panel.tables import read_long, read_wide

FIELDS = ("time", "id", "value")
TIME_NAMES = ("ds", "time", "timestamp", "datetime", "date_time", "date", "hour")
PERIOD_NAMES = ("day", "week", "month", "quarter", "year")  # where no other is a time
ID_NAMES = ("unique_id", "id", "location", "location_id", "station", "station_id", "sensor",
            "sensor_id", "zone", "zone_id", "site", "node", "region", "cell")  # fmt: skip
VALUE_NAMES = ("y", "value", "count", "demand", "pickups", "trips", "flow", "load", "cases")


@dataclass(frozen=True)
class TableLayout:
    """The columns of a table: long with an id and a value, else wide."""

    time: str
    id: str | None = None
    value: str | None = None
    ignored: tuple[str, ...] = ()  # further columns of a long table

    def __str__(self) -> str:
        if self.id is None:
            return f"wide: time = {self.time}, every other column a location"
        ignored = f"; ignored: {name_some(self.ignored)}" if self.ignored else ""
        return f"long: time = {self.time}, id = {self.id}, value = {self.value}{ignored}"


def ingest_table(
    source: Table,
    config: PanelConfig,
    rules: TableConfig,
    locations: Table | Locations | None,
    renames: Table | None = None,
) -> tuple[Panel, TableLayout]:
    """Return the panel of a table, and the layout of the table.

    Args:
        source: the values.
        config: of the panel.
        rules: how the table is read.
        locations: of the values; None: nothing is known of them but their ids.
        renames: `old`, `new`, `from`: places renamed, merged or split.
    """
    flags = () if config.censored is None else (config.censored,)
    covariates = tuple(dict.fromkeys((*flags, *config.past_only)))
    rows, layout = read_rows(source, config.kind, rules.columns, covariates)
    panel = Panel.from_series(rows, config, SideTables(locations, renames=renames))
    return _keep_busy(panel, rules), layout


def read_rows(
    source: Table, kind: Kind, columns: str | None = None, covariates: Sequence[str] = ()
) -> tuple[SeriesTable, TableLayout]:
    """Return the rows of a table, and its layout.

    Args:
        source: the table.
        kind: of its values.
        columns: the mapping of its columns; None: by their names.
        covariates: further columns of a long table that are read.
    """
    mapped = parse_layout(columns) if columns else None
    texts = (*ID_NAMES, *PERIOD_NAMES) if mapped is None else (mapped.id or mapped.time,)
    table, name = load(source, texts=texts)
    need_columns(table, (), name)  # refuses columns given twice
    if not table.num_rows:
        raise DataError(f"{name}: no rows; at least one time is needed")
    layout = mapped or guess_layout(table, name)
    needed = layout.time, layout.id, layout.value, *covariates
    missing = [c for c in needed if c and c not in table.column_names]
    if missing:
        hint = nearest_name(missing[0], table.column_names)
        columns_present = name_some(table.column_names, 20)
        raise DataError(f"{name}: no column {name_some(missing)}{hint}; found: {columns_present}")
    if layout.id is None:
        if covariates:
            raise DataError(
                f"{name}: a wide table has no column {name_some(covariates)} of each location; "
                "give a long table"
            )
        return read_wide(table, kind, layout.time), layout
    named = {"unique_id": layout.id, "ds": layout.time, "y": layout.value}
    named |= {covariate: covariate for covariate in covariates}
    plain = table.select(list(named.values())).rename_columns(list(named))
    plain = plain.replace_schema_metadata(table.schema.metadata)  # the file's name
    ignored = tuple(c for c in table.column_names if c not in named.values())
    return read_long(plain, kind), replace(layout, ignored=ignored)


def parse_layout(text: str) -> TableLayout:
    """Return the layout of `time=when` (wide) or `time=when,id=sensor,value=flow` (long)."""
    faults = Faults(f"columns {text!r}")
    columns = parse_pairs(text, FIELDS, "time=when,id=sensor,value=flow", faults)
    if set(columns) not in ({"time"}, set(FIELDS)):
        faults.add("give time, and for a long table also id and value")
    faults.raise_any(ConfigError)
    return TableLayout(columns["time"], columns.get("id"), columns.get("value"))


def guess_layout(table: pa.Table, name: str) -> TableLayout:
    """Return the layout that the column names suggest; an unclear one is refused."""
    lower = {column.strip().lower(): column for column in table.column_names}
    time = _first(lower, TIME_NAMES) or _only(
        [c for c in table.column_names if _is_time(table, c)]
    )
    time = time or _first(lower, PERIOD_NAMES)
    columns_present = name_some(table.column_names, 20)
    ask = "give --columns time=…,id=…,value=… (long) or --columns time=… (wide)"
    if time is None:
        raise DataError(f"{name}: no unique time column; found: {columns_present}; {ask}")
    candidates = [c for c in table.column_names if c != time]
    identity, why = (
        _first(lower, ID_NAMES),
        "a column is named as an id",
    )  # even with a single location
    value = _first({c.strip().lower(): c for c in candidates}, VALUE_NAMES)  # text or not
    if pc.count_distinct(table[time], mode="all").as_py() < table.num_rows:
        identity = identity or _only([c for c in candidates if c != value and _is_text(table, c)])
        why = "times repeat"
    elif identity is None:
        return TableLayout(time)
    remaining = [c for c in candidates if c != identity]
    value = value or _only([c for c in remaining if _is_number(table, c)]) or _only(remaining)
    if identity is None or value is None:
        which = f"{why}, so it is long, but id and value are not recognised"
        raise DataError(f"{name}: {which}; found: {columns_present}; {ask}")
    return TableLayout(time, identity, value)


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


def _first(present: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((present[name] for name in names if name in present), None)


def _only(columns: list[str]) -> str | None:
    return columns[0] if len(columns) == 1 else None


def _is_time(table: pa.Table, column: str) -> bool:
    return bool(pa.types.is_temporal(table[column].type))


def _is_text(table: pa.Table, column: str) -> bool:
    return bool(
        pa.types.is_string(table[column].type) or pa.types.is_dictionary(table[column].type)
    )


def _is_number(table: pa.Table, column: str) -> bool:
    kind = table[column].type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
