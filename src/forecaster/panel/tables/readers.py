"""Readers of long tables, wide tables and location tables."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float32, Int64, Shaped

from forecaster.choices import DateOrder, Kind
from forecaster.clock.hours import OpeningHours, normal_hours
from forecaster.clock.zone import to_utc
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some, setting
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.parts import DATES, MAX_NAME_LENGTH, Locations, Scalar
from forecaster.panel.tables.columns import encode_ids, need_columns, numbers
from forecaster.reading.load import Table, load
from forecaster.reading.times import parse_times

_LOCATION_COLUMNS = ("id", "name", "lat", "lon", *DATES, "hours")


def read_long(source: Table, kind: Kind | None, dates: DateOrder | None = None) -> SeriesTable:
    """Return a long table: `unique_id`, `ds`, then columns of numbers.

    With a `kind`, one of these is `y`, the values; without it all are covariates.
    """
    table, name = load(source)
    need_columns(table, ("unique_id", "ds", *((VALUES,) if kind else ())), name)
    faults = Faults(name)
    codes, ids = encode_ids(table["unique_id"], faults)
    seconds, naive = parse_times(table["ds"], "ds", faults, dates)
    columns = [c for c in table.column_names if c not in ("unique_id", "ds")]
    layers = {c: numbers(table[c], c, faults, _minimum(c, kind)) for c in columns}
    faults.raise_any(DataError)

    sorted_ids = sort_ids(ids)
    position = {identity: column for column, identity in enumerate(sorted_ids)}
    column_of = np.array([position[identity] for identity in ids], dtype=np.int64)
    unique, row = np.unique(seconds, return_inverse=True)
    cell = row * len(sorted_ids) + column_of[codes]
    _refuse_doubled(cell, len(unique) * len(sorted_ids), table, name)

    def spread(values: Float32[np.ndarray, " rows"]) -> Float32[np.ndarray, "U N"]:
        matrix = np.full(len(unique) * len(sorted_ids), np.nan, dtype=np.float32)
        matrix[cell] = values
        return matrix.reshape(len(unique), len(sorted_ids))

    return SeriesTable(unique, naive, tuple(sorted_ids), {c: spread(v) for c, v in layers.items()})


def read_wide(
    source: Table,
    kind: Kind | None,
    time: str,
    dates: DateOrder | None = None,
    layer: str = VALUES,
) -> SeriesTable:
    """Return a wide table: a time column, then one column of numbers per location."""
    table, name = load(source)
    need_columns(table, (time,), name)
    faults = Faults(name)
    ids = tuple(sort_ids([c for c in table.column_names if c != time]))
    seconds, naive = parse_times(table[time], time, faults, dates)
    columns = [numbers(table[c], c, faults, _minimum(layer, kind)) for c in ids]
    order = np.argsort(seconds, kind="stable")
    doubled = order[1:][np.diff(seconds[order]) == 0]
    if len(doubled):
        texts = name_some(f"row {i + 1} ({table[time][int(i)]})" for i in np.sort(doubled))
        faults.add(f"{count_of(len(doubled), 'duplicate row')} of one {time}: {texts}")
    faults.raise_any(DataError)
    values = np.column_stack(columns) if columns else np.empty((len(seconds), 0), np.float32)
    return SeriesTable(seconds[order], naive, ids, {layer: values[order]})


def read_locations(source: Table, zone: str = "UTC") -> Locations:
    """Return a location table: `id` (or `unique_id`), and what is known of the other columns.

    Args:
        source: `id`, `name`, `lat`, `lon`, `opens`, `closes`, `hours`, and further columns.
        zone: of the dates `opens` and `closes` that have no offset.
    """
    table, name = load(source, texts=(*DATES, "hours"))
    if "id" not in table.column_names and "unique_id" in table.column_names:
        table = table.rename_columns({"unique_id": "id"})
    need_columns(table, ("id",), name)
    faults = Faults(name)
    codes, unique_ids = encode_ids(table["id"], faults)
    ids = tuple(unique_ids[code] for code in codes)
    present = table.column_names
    names = ids
    if "name" in present:
        texts = table["name"].cast(pa.string()).to_pylist()
        names = tuple(text or identity for text, identity in zip(texts, ids, strict=True))
    lat, lon = (
        numbers(table[c], c, faults, digits=np.float64)
        if c in present
        else np.full(len(ids), np.nan)
        for c in ("lat", "lon")
    )
    extra = {c: _extra(table[c], c, faults) for c in present if c not in _LOCATION_COLUMNS}
    dates = {c: read_instants(table[c], c, zone, faults) for c in DATES if c in present}
    hours = _read_hours(table["hours"], faults) if "hours" in present else ()
    faults.raise_any(DataError)
    return Locations(ids, names, lat, lon, extra, **dates, hours=hours)


def _read_hours(column: pa.ChunkedArray, faults: Faults) -> tuple[str, ...]:
    """Return opening hours, empty for null and `always`; all unreadable ones are faults."""
    texts = [normal_hours(text or "") for text in column.cast(pa.string()).to_pylist()]
    for text in sorted({*texts} - {""}):
        try:
            OpeningHours.parse(text)
        except ConfigError as error:
            faults.add(f"column 'hours': {error}")
    return tuple(texts)


def read_instants(
    column: pa.ChunkedArray, name: str, zone: str, faults: Faults
) -> Shaped[np.ndarray, " rows"]:
    """Return a column of dates or times in UTC, NaT for null.

    A date is the beginning of its local day. Of a local time that the clock shows twice, the first
    is meant; one that it never shows stands for the moment at which the clock was put forward.
    """
    null = pc.is_null(column).to_numpy()
    if null.all():
        return np.full(len(column), "NaT", dtype="datetime64[s]")
    filled = column.fill_null(column.drop_null()[0])  # so that rows keep their numbers
    seconds, naive = parse_times(filled, name, faults)
    times = seconds.astype("datetime64[s]")
    instants = to_utc(zone, times).first if naive else times
    return np.where(null, np.datetime64("NaT", "s"), instants)


def sort_ids(ids: list[str]) -> list[str]:
    """Return the ids sorted, as numbers if all of them are."""
    if all(i.isascii() and i.isdigit() and len(i) <= MAX_NAME_LENGTH for i in ids):
        return sorted(ids, key=lambda identity: (int(identity), identity))
    return sorted(ids)


def _extra(column: pa.ChunkedArray, name: str, faults: Faults) -> tuple[Scalar, ...]:
    """Return a further column of the location table, of a type that a panel can store."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        values = numbers(column, name, faults, digits=np.float64)
        return tuple(None if np.isnan(value) else float(value) for value in values)
    plain = {pa.bool_(): pa.bool_(), pa.null(): pa.string(), pa.large_string(): pa.string()}
    kind = pa.int64() if pa.types.is_integer(column.type) else pa.string()
    try:
        return tuple(column.cast(plain.get(column.type, kind)).to_pylist())
    except pa.ArrowException:
        faults.add(
            f"column {name!r}: {column.type} cannot be stored; drop it or convert it to text"
        )
        return ()


def _minimum(column: str, kind: Kind | None) -> float | None:
    return 0.0 if kind == "count" and column == VALUES else None


def _refuse_doubled(
    cell: Int64[np.ndarray, " rows"], cells: int, table: pa.Table, source: str
) -> None:
    seen = np.zeros(cells, dtype=bool)
    seen[cell] = True
    doubled = len(cell) - int(seen.sum())
    if doubled:
        order = np.argsort(cell, kind="stable")
        rows = np.sort(order[1:][np.diff(cell[order]) == 0])
        ids, times = table["unique_id"], table["ds"]
        first = name_some(f"row {i + 1} ({ids[int(i)]}, {times[int(i)]})" for i in rows)
        problem = f"{source}: {count_of(doubled, 'duplicate row')} of an id and time: {first}"
        either = f"{setting('combine', 'sum')} or {setting('combine', 'mean')}"
        raise DataError(
            f"{problem}; where a clock change doubles an hour, give times with offsets; to add up "
            f"or average the rows of a step give {either}"
        )
