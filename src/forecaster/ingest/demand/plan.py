"""The trip plan, written once for every engine: classify each row, then two groupings.

1. Round each pickup to the nearest 1e-4° (about 7 m at New York) and count rides per cell.
2. Join trips with the cells' locations and count rides per location and hour.

The engines run no Python functions, and both passes use the same classification.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Int64, Shaped

from forecaster.clock.zone import to_utc
from forecaster.errors import DataError
from forecaster.ingest.demand.row_counts import REASONS
from forecaster.ingest.demand.schemas import Schema
from forecaster.ingest.files import TimeSpan
from forecaster.ingest.hot_locations.cells import CELLS_PER_DEGREE

HOUR = 3600
_PLAIN = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}$"
_ISO = r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$"
_US = r"^\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}(:\d{2})?$"
_LARGEST = float(np.finfo(np.float64).max)  # not infinite
_FARTHEST = 1e9  # above all coordinates and zones; what is larger may not fit a cell's number
_CODES = {reason: code for code, reason in enumerate(REASONS, start=1)}  # 0: to be counted


@dataclass(frozen=True)
class BoundingBox:
    """A box of coordinates, edges included."""

    south: float
    west: float
    north: float
    east: float


@dataclass(frozen=True)
class HourGrid:
    """Hours of the panel's axis since 1970; in time zones such as India's they begin at :30."""

    zone: str
    phase: int  # seconds after the full hour of UTC

    @staticmethod
    def of(zone: str, first: np.datetime64) -> "HourGrid":
        """Return the grid on which a local time falls."""
        return HourGrid(
            zone, int(to_utc(zone, np.array([first])).first.astype(np.int64)[0]) % HOUR
        )

    def hours(self, instants: Shaped[np.ndarray, "*shape"]) -> Int64[np.ndarray, "*shape"]:
        """Return the hour that each instant lies in."""
        seconds = instants.astype("datetime64[s]").astype(np.int64)
        return np.asarray((seconds - self.phase) // HOUR)

    def instants(self, hours: Int64[np.ndarray, "*shape"]) -> Shaped[np.ndarray, "*shape"]:
        """Return the instant at which each hour begins."""
        return (hours * HOUR + self.phase).astype("datetime64[s]")

    def span(self, covered: TimeSpan) -> tuple[int, int]:
        """Return the first hour of a span of local time, and its end (exclusive)."""
        ends = self.hours(to_utc(self.zone, np.array([covered.first, covered.end])).first)
        return int(ends[0]), int(ends[1])


@dataclass(frozen=True)
class HourRules:
    """Interpretation of the hours of one file."""

    grid: HourGrid
    covered: TimeSpan
    demand: tuple[TimeSpan, ...]  # where rides count for the selection; empty: everywhere
    keep_ambiguous: bool
    keep_nonexistent: bool

    def bounds(self, span: TimeSpan, aware: bool) -> tuple[int, int]:
        """Return the first hour of a span and its end (exclusive), in UTC or local time."""
        if aware:
            return self.grid.span(span)
        ends = np.array([span.first, span.end]).astype("datetime64[s]").astype(np.int64) // HOUR
        return int(ends[0]), int(ends[1])

    def odd(self) -> tuple[list[int], list[int]]:
        """Return the covered local hours that occur twice, and those that do not occur."""
        first, end = self.bounds(self.covered, aware=False)
        hours = np.arange(first, end)
        instants = to_utc(self.grid.zone, (hours * HOUR).astype("datetime64[s]"))
        return hours[instants.ambiguous].tolist(), hours[instants.nonexistent].tolist()


def classify(
    table: Any,
    schema: Schema,
    types: dict[str, pa.DataType] | None,
    area: BoundingBox | None,
    hours: HourRules,
) -> Any:
    """Return one row per trip.

    Columns: `code` (0 or the reason of rejection), `accepted` (true if it is 0), `a` and `b` (its
    cell or zone, if accepted), `hour`, `aware`, `chosen` (within the demand hours) and `text`.
    """
    import ibis  # noqa: PLC0415 (an extra)

    stored = types[schema.time] if types else None
    moment, hour, aware = _moment(ibis, table[schema.time], stored, hours.grid.phase)
    if schema.has_coordinates:
        lat, lon = (_number(table[name]) for name in (schema.lat, schema.lon))
        finite = lat.between(-_LARGEST, _LARGEST) & lon.between(-_LARGEST, _LARGEST)
        inside = finite if area is None else _inside(area, lat, lon)
        swapped = ibis.literal(False) if area is None else _inside(area, lon, lat).fill_null(False)
        broken, scale = ~finite.fill_null(False), CELLS_PER_DEGREE
        shown = [table[schema.time], table[schema.lat], table[schema.lon]]
    else:
        zone = table[schema.zone].cast("string").re_extract(r"^(\d{1,9})(\.0*)?$", 1)
        lat, lon, scale = _try_cast(zone.nullif(""), "int64"), ibis.literal(0), 1
        broken, inside, swapped = ibis.literal(False), lat.notnull(), ibis.literal(False)
        shown = [table[schema.time], table[schema.zone]]
    flat = table.select(
        moment=moment, hour=hour, aware=aware, broken=broken, inside=inside, swapped=swapped,
        lat=lat, lon=lon, **{f"shown_{n}": column for n, column in enumerate(shown)},
    )  # fmt: skip
    return _judge(ibis, flat, hours, scale)


def count_times(
    table: Any, schema: Schema, types: dict[str, pa.DataType] | None, phase: int
) -> Any:
    """Before pass 1, where the covered hours are not said: rows, first and last event per hour."""
    import ibis  # noqa: PLC0415 (an extra)

    stored = types[schema.time] if types else None
    moment, hour, aware = _moment(ibis, table[schema.time], stored, phase)
    timed = table.select(moment=moment, hour=hour, aware=aware)
    timed = timed.filter(timed.moment.notnull())
    moments = {"first": timed.moment.min(), "last": timed.moment.max()}
    return timed.group_by("hour", "aware").agg(rows=timed.count(), **moments)


def count_cells(rows: Any) -> Any:
    """Pass 1: rows, rides in the demand hours and two examples, per reason and cell."""
    import ibis  # noqa: PLC0415 (an extra)

    is_counted = rows.code == 0
    rows = rows.mutate(
        a=ibis.ifelse(is_counted, rows.a, 0),
        b=ibis.ifelse(is_counted, rows.b, 0),
        text=ibis.ifelse(is_counted, ibis.null("string"), rows.text),
    )
    return rows.group_by("code", "a", "b").agg(**_sums(rows), **_examples(rows))


def count_cells_apart(rows: Any) -> tuple[Any, ...]:
    """Pass 1 of a database, which takes twice as long to group numbers together with texts."""
    accepted, rejected = rows.filter(rows.accepted), rows.filter(rows.code != 0)
    cells = accepted.group_by("a", "b").agg(**_sums(accepted))
    reasons = rejected.group_by("code").agg(**_sums(rejected), **_examples(rejected))
    return cells.mutate(code=0), reasons


def count_hours(rows: Any, lookup: pa.Table) -> Any:
    """Pass 2: rides per location and hour; `lookup` gives a location for (a, b)."""
    import ibis  # noqa: PLC0415 (an extra)

    joined = rows.filter(rows.accepted).join(ibis.memtable(lookup), ["a", "b"])
    return joined.group_by("location", "hour", "aware").agg(rides=joined.count())


def reason_of(code: int) -> str:
    """Return the name of a code."""
    return REASONS[code - 1]


def _sums(rows: Any) -> dict[str, Any]:
    return {"rows": rows.count(), "rides": rows.chosen.ifelse(1, 0).sum()}


def _examples(rows: Any) -> dict[str, Any]:
    return {"low": rows.text.min(), "high": rows.text.max()}


def _judge(ibis: Any, flat: Any, hours: HourRules, scale: int) -> Any:
    """Add the code of each row: the first reason that applies, in order.

    Databases repeat an expression wherever it is used, so what is compared are plain columns, and
    those of `accepted` are conditions that they can estimate.
    """
    twice, never = hours.odd()

    def between(first: int, end: int, aware: bool) -> Any:
        """Whether a time lies in some hours, the last one excluded."""
        low, high = (
            _at(ibis, flat.moment, hour, hours.grid.phase, aware) for hour in (first, end)
        )
        return (flat.moment >= low) & (flat.moment < high)

    def within(span: TimeSpan) -> Any:
        utc, local = (between(*hours.bounds(span, aware), aware) for aware in (True, False))
        return _by_clock(ibis, flat, utc, local)

    def among(odd: list[int], is_kept: bool) -> Any:
        if is_kept or not odd:
            return ibis.literal(False)
        local = reduce(or_, (between(hour, hour + 1, aware=False) for hour in odd))
        return _by_clock(ibis, flat, ibis.literal(False), local)

    covered = within(hours.covered)
    ambiguous, nonexistent = (
        among(twice, hours.keep_ambiguous),
        among(never, hours.keep_nonexistent),
    )
    code = ibis.cases(
        (flat.moment.isnull(), _CODES["bad_timestamp"]),
        (flat.broken, _CODES["non_finite"]),
        (~flat.inside.fill_null(False), _CODES["out_of_area"]),
        (~covered, _CODES["time_outside_file"]),
        (ambiguous, _CODES["ambiguous_local_time"]),
        (nonexistent, _CODES["nonexistent_local_time"]),
        else_=0,
    )
    chosen = reduce(or_, map(within, hours.demand)) if hours.demand else ibis.literal(True)
    places = (flat[name].clip(-_FARTHEST, _FARTHEST) for name in ("lat", "lon"))
    a, b = ((place * scale).round().cast("int64") for place in places)
    hint = ibis.ifelse(flat.swapped, ibis.literal("swapped? "), ibis.literal(""))
    shown = _joined(ibis, [flat[c] for c in flat.columns if c.startswith("shown_")])
    return flat.select(
        code=code.cast("int64"),
        accepted=flat.inside & covered & ~ambiguous & ~nonexistent,
        a=a,
        b=b,
        hour=flat.hour,
        aware=flat.aware,
        chosen=chosen,
        text=hint.concat(shown),
    )


def _by_clock(ibis: Any, flat: Any, utc: Any, local: Any) -> Any:
    """Return the condition for times with an offset where there is one, else for local times."""
    if flat.moment.type().is_timestamp():
        return utc if flat.moment.type().timezone else local
    return ibis.ifelse(flat.aware, utc, local)


def _at(ibis: Any, moment: Any, hour: int, phase: int, aware: bool) -> Any:
    """Return the beginning of an hour, of the type of the times."""
    if not moment.type().is_timestamp():
        return hour * HOUR
    instant = np.datetime64(hour * HOUR + (phase if aware else 0), "s")
    return ibis.literal(str(instant), type=moment.type())


def _moment(
    ibis: Any, column: Any, stored: pa.DataType | None, phase: int
) -> tuple[Any, Any, Any]:
    """Return the time of each pickup, its hour since 1970, and whether these are UTC or local.

    The time is a timestamp, or in text the seconds since 1970, less the phase if they are UTC.
    """
    if stored is not None and pa.types.is_timestamp(stored):
        seconds = column.epoch_seconds()  # with fractions in some databases: not to be rounded up
        seconds = seconds - phase if phase and stored.tz is not None else seconds
        return column, (seconds // HOUR).cast("int64"), ibis.literal(stored.tz is not None)
    if stored is not None and not (pa.types.is_string(stored) or pa.types.is_large_string(stored)):
        raise DataError(
            f"the time column is {stored}; give times or text such as 2014-01-01 08:00"
        )
    plain = column.re_search(_PLAIN)  # nearly every row; other formats need ten patterns each
    fast = _try_cast(column.replace("T", " "), "timestamp").epoch_seconds().cast("int64")
    slow, zoned = _parse_slowly(ibis, column, phase)
    seconds = ibis.ifelse(plain, fast, slow)
    aware = ibis.ifelse(plain, ibis.literal(False), zoned)
    return seconds, (seconds // HOUR).cast("int64"), aware.fill_null(False)


def _parse_slowly(ibis: Any, column: Any, phase: int) -> tuple[Any, Any]:
    """Return the seconds of ISO times with fractions or offsets and of US times."""
    iso = column.re_search(_ISO)
    clock = column.re_extract(r"^(\d{4}-\d{2}-\d{2})", 1)
    clock = clock.concat(" ", column.re_extract(r"[ T](\d{2}:\d{2}(:\d{2})?)", 1))
    day, month, year = (
        column.re_extract(pattern, 1)
        for pattern in (r"^\d{1,2}/(\d{1,2})/", r"^(\d{1,2})/", r"^\d{1,2}/\d{1,2}/(\d{4})")
    )
    hour, minutes_and_seconds = (
        column.re_extract(r" (\d{1,2}):", 1),
        column.re_extract(r" \d{1,2}(:.*)$", 1),
    )
    american = year.concat("-", month.lpad(2, "0"), "-", day.lpad(2, "0"))
    american = american.concat(" ", hour.lpad(2, "0"), minutes_and_seconds)
    text = ibis.cases((iso, clock), (column.re_search(_US), american), else_=ibis.null("string"))
    offset = column.re_extract(r"([+-]\d{2}):?\d{2}$", 1).nullif("")
    minutes = column.re_extract(r"[+-]\d{2}:?(\d{2})$", 1).nullif("")
    west = column.re_search(r"-\d{2}:?\d{2}$")
    offset, minutes = (_try_cast(text, "int64") for text in (offset, minutes))
    shift = (offset * HOUR + ibis.ifelse(west, -minutes, minutes) * 60).fill_null(0)
    aware = iso & column.re_search(r"(Z|[+-]\d{2}:?\d{2})$")
    seconds = _try_cast(text, "timestamp").epoch_seconds().cast("int64")
    return seconds - ibis.ifelse(aware, shift + phase, 0), aware


def _try_cast(column: Any, kind: str) -> Any:
    """Return a column as another type, null where that fails; in SQLite no cast fails."""
    return (column.cast if column.get_backend().name == "sqlite" else column.try_cast)(kind)


def _number(column: Any) -> Any:
    is_number = column.type().is_numeric()
    return column.cast("float64") if is_number else _try_cast(column, "float64")


def _inside(area: BoundingBox, lat: Any, lon: Any) -> Any:
    return lat.between(area.south, area.north) & lon.between(area.west, area.east)


def _joined(ibis: Any, columns: list[Any]) -> Any:
    """Return a row's values as one text, an example in the report of rejected rows."""
    texts = [column.cast("string").fill_null("null") for column in columns]
    joined = texts[0]
    for text in texts[1:]:
        joined = joined.concat(ibis.literal(", "), text)
    return joined.substr(0, 120)
