"""The table of a weather station → reports in UTC, in the units of the paper's seven fields.

**Units** are given in the mapping, one for each measured column; impossible values become
missing, and many of them are refused as a wrong unit.

**Zone.** Times without an offset need the station's zone: an IANA name if the table follows the
wall clock, a fixed offset if it keeps standard time all year, as airports often do.

**Rain, snow, fog** come from a column of METAR-style codes, or else from a rule: precipitation is
snow at 1 °C or below (the middle of the range in which both occur) and rain above; fog is
visibility below 1 km.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from forecaster.clock.zone import SECOND, check_zone, to_local, to_utc
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some, nearest_name
from forecaster.ingest.metar import decode_flags
from forecaster.panel.tables.columns import need_columns, numbers
from forecaster.reading.load import Table, load
from forecaster.reading.times import parse_times

FlagsFrom = Literal["codes", "rule"]


@dataclass(frozen=True)
class Quantity:
    """One measured field: its covariate, units and physical range."""

    name: str
    units: Mapping[str, tuple[float, float]]  # value · factor + offset is in the covariate's unit
    low: float
    high: float

    def convert(self, raw: Float64[np.ndarray, " R"], unit: str) -> Float64[np.ndarray, " R"]:
        """Return values of a unit in the unit of the covariate."""
        factor, offset = self.units[unit]
        return raw * factor + offset

    def is_impossible(self, values: Float64[np.ndarray, " R"]) -> Bool[np.ndarray, " R"]:
        """Mark the values, in the covariate's unit, that are physically impossible."""
        return np.asarray((values < self.low) | (values > self.high))


_CELSIUS = {"C": (1.0, 0.0), "F": (5 / 9, -160 / 9)}
_MPS = {"m/s": (1.0, 0.0), "mph": (1609.344 / 3600, 0.0), "kn": (1852 / 3600, 0.0)}
_MM = {"mm": (1.0, 0.0), "in": (25.4, 0.0)}
_KM = {"km": (1.0, 0.0), "mi": (1.609344, 0.0)}
QUANTITIES = {
    "temperature": Quantity("temperature_c", _CELSIUS, low=-60.0, high=60.0),
    "wind": Quantity("wind_mps", _MPS, low=0.0, high=80.0),
    "precipitation": Quantity("precipitation_mm", _MM, low=0.0, high=200.0),
    "visibility": Quantity("visibility_km", _KM, low=0.0, high=200.0),
}

_FIELDS = ("time", *QUANTITIES, "codes")
_FEW = 0.001  # the share of impossible values that is accepted as single errors
_SNOW_C, _FOG_KM = 1.0, 1.0
_OFFSET = re.compile(r"(?:UTC)?(?P<sign>[+-])(?P<hours>0?\d|1[0-5])(?::?(?P<minutes>[0-5]\d))?")


@dataclass(frozen=True)
class MeasuredColumn:
    """A column of the table and its unit."""

    column: str
    unit: str


@dataclass(frozen=True)
class WeatherMapping:
    """Columns and units of the table."""

    time: str
    measured: Mapping[str, MeasuredColumn]  # by field, as in `QUANTITIES`
    codes: str | None = None  # METAR-style

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        measured = (measurement.column for measurement in self.measured.values())
        return (self.time, *measured, *((self.codes,) if self.codes else ()))


class Outlier(NamedTuple):
    """An impossible value, in the unit of its covariate."""

    name: str
    time: str  # UTC
    value: float


@dataclass(frozen=True)
class StationReports:
    """The reports of a station, and counts of dropped ones."""

    source: str
    seconds: Int64[np.ndarray, " R"]  # UTC, since 1970, in the order of the table
    values: Float64[np.ndarray, "R 7"]  # the measured fields, then rain, snow, fog; NaN = missing
    ambiguous: int  # dropped rows at local times that occur twice
    outliers: tuple[Outlier, ...]  # made missing
    flags_from: FlagsFrom


def parse_mapping(text: str) -> WeatherMapping:
    """Return the mapping of a text such as `time=date,temperature=temp_f:F,…`."""
    faults = Faults("columns")
    columns: dict[str, str] = {}
    for part in text.split(","):
        field, _, column = (piece.strip() for piece in part.partition("="))
        if not column:
            faults.add(f"{part.strip()!r} is not a mapping; give e.g. temperature=temp_f:F")
        elif field not in _FIELDS:
            hint = nearest_name(field, _FIELDS) or f"; known: {', '.join(_FIELDS)}"
            faults.add(f"{field}: unknown field{hint}")
        elif field in columns:
            faults.add(f"{field}: given twice, as {columns[field]!r} and {column!r}")
        else:
            columns[field] = column
    for field in ("time", *QUANTITIES):
        if field not in columns:
            faults.add(f"{field}: no column given; all but codes are needed")
    measured = {f: _parse_measured(f, columns[f], faults) for f in QUANTITIES if f in columns}
    faults.raise_any(ConfigError)
    return WeatherMapping(columns["time"], measured, columns.get("codes"))


def read_reports(source: Table, mapping: WeatherMapping, timezone: str | None) -> StationReports:
    """Return the reports of a table; its faults are raised together."""
    table, name = load(source)
    need_columns(table, mapping.columns, name)
    if not table.num_rows:
        raise DataError(f"{name}: no rows; a table of reports is needed")
    faults = Faults(name)
    clock, naive = parse_times(table[mapping.time], mapping.time, faults)
    names = {field: mapping.measured[field].column for field in QUANTITIES}
    raw = {f: numbers(table[c], c, faults, digits=np.float64) for f, c in names.items()}
    coded = decode_flags(table[mapping.codes], mapping.codes, faults) if mapping.codes else None
    faults.raise_any(DataError)
    _refuse_several_stations(clock, name)
    seconds, certain = to_instants(clock, naive, timezone, name)
    values = np.column_stack([_convert(f, mapping.measured[f], raw[f], faults) for f in raw])
    if coded is not None and (raw["precipitation"] > 0.0).any() and not coded.any():
        hint = "leave it out to derive rain, snow and fog from the other fields"
        fault = (
            f"column {mapping.codes!r}: no code of rain, snow or fog, though precipitation fell"
        )
        faults.add(f"{fault}; {hint}")
    faults.raise_any(DataError)
    outliers = _drop_impossible(values, seconds)
    temperature, _, precipitation, visibility = values.T
    flags = flags_by_rule(temperature, precipitation, visibility) if coded is None else coded
    return StationReports(
        source=name,
        seconds=seconds[certain],
        values=np.column_stack([values, flags])[certain],
        ambiguous=int((~certain).sum()),
        outliers=outliers,
        flags_from="rule" if coded is None else "codes",
    )


def to_instants(
    clock: Int64[np.ndarray, " R"], naive: bool, timezone: str | None, source: str
) -> tuple[Int64[np.ndarray, " R"], Bool[np.ndarray, " R"]]:
    """Return the instants of the times, and a mask of the unambiguous ones."""
    certain = np.ones(len(clock), dtype=bool)
    if not naive:
        if timezone is not None:
            message = f"{source}: times carry their offset, so a time zone ({timezone}) is not"
            raise ConfigError(f"{message} needed; leave it out, or drop the offsets if wrong")
        return clock, certain
    if timezone is None:
        raise ConfigError(
            f"{source}: times have no offset and the station's time zone is not given. Airport"
            " files are often in standard time all year, so the local time zone may be an hour"
            " off: give a fixed offset such as -05:00 for standard time all year, or a name such"
            " as America/New_York if the table follows the wall clock"
        )
    offset = fixed_offset(timezone)
    if offset is not None:
        return clock - offset, certain
    try:
        check_zone(timezone)
    except ConfigError as error:
        message = "a fixed offset such as -05:00 stands for standard time all year"
        raise ConfigError(f"{error}; {message}") from error
    return _by_wall_clock(clock, timezone, source)


def fixed_offset(timezone: str) -> int | None:
    """Return the offset of `-05:00` or `UTC-5` in seconds east of UTC, or None for a name."""
    match = _OFFSET.fullmatch(timezone)
    if match is None:
        return None
    seconds = int(match["hours"]) * 3600 + int(match["minutes"] or 0) * 60
    return -seconds if match["sign"] == "-" else seconds


def flags_by_rule(
    temperature: Float64[np.ndarray, " R"],
    precipitation: Float64[np.ndarray, " R"],
    visibility: Float64[np.ndarray, " R"],
) -> Float64[np.ndarray, "R 3"]:
    """Return rain, snow and fog by the rule above; NaN where a field is missing."""
    falls, cold = precipitation > 0.0, temperature <= _SNOW_C
    unknown = np.isnan(precipitation) | (falls & np.isnan(temperature))
    flags = np.column_stack([falls & ~cold, falls & cold, visibility < _FOG_KM])
    lacking = np.column_stack([unknown, unknown, np.isnan(visibility)])
    return np.where(lacking, np.nan, flags)


def _parse_measured(field: str, text: str, faults: Faults) -> MeasuredColumn:
    column, _, unit = (piece.strip() for piece in text.rpartition(":"))
    unit, units = unit.removeprefix("°"), QUANTITIES[field].units
    if not column:
        choice = " or ".join(f"{text}:{unit_name}" for unit_name in units)
        faults.add(f"{field}: column {text!r} has no unit; give {choice}")
    elif unit not in units:
        faults.add(f"{field}: unknown unit {unit!r}; known: {', '.join(units)}")
    return MeasuredColumn(column, unit)


def _by_wall_clock(
    clock: Int64[np.ndarray, " R"], timezone: str, source: str
) -> tuple[Int64[np.ndarray, " R"], Bool[np.ndarray, " R"]]:
    """Return the instants of local times and a mask; nonexistent times are refused."""
    meant = to_utc(timezone, clock.astype("datetime64[s]"))
    if meant.nonexistent.any():
        before = meant.first[meant.nonexistent][:1] - SECOND
        standard = _offset_text(int((to_local(timezone, before) - before)[0].astype(np.int64)))
        never = clock[meant.nonexistent].astype("datetime64[s]")
        message = f"{source}: {count_of(len(never), 'report')} at local times that do not occur in"
        remedy = f"if the table uses standard time all year, give its offset ({standard})"
        raise DataError(f"{message} {timezone}: {name_some(never)}; {remedy}")
    return meant.first.astype(np.int64), ~meant.ambiguous


def _refuse_several_stations(clock: Int64[np.ndarray, " R"], source: str) -> None:
    """Refuse a table in which most times repeat, as in one of several stations."""
    again = len(clock) - len(np.unique(clock))
    if again > len(clock) / 3:
        message = f"{source}: {again:,} of {count_of(len(clock), 'row')} repeat the time of"
        raise DataError(f"{message} another; if it has several stations, keep one")


def _convert(
    field: str, measured: MeasuredColumn, raw: Float64[np.ndarray, " R"], faults: Faults
) -> Float64[np.ndarray, " R"]:
    """Return a column in the covariate's unit; many impossible values are a fault."""
    quantity = QUANTITIES[field]
    telling = np.count_nonzero((raw != 0) & ~np.isnan(raw))  # zero is zero in any unit
    few = max(1, int(_FEW * telling))
    wrong = {u: quantity.is_impossible(quantity.convert(raw, u)) for u in quantity.units}
    beyond = raw[wrong[measured.unit]]
    if len(beyond) > few:
        fitting = [unit for unit in wrong if wrong[unit].sum() <= few]
        hint = "no known unit fits; check the column, or a placeholder for missing values"
        if fitting:
            hint = f"the unit is probably wrong: {' or '.join(fitting)} would fit"
        fault = f"column {measured.column!r}: {len(beyond):,} of {len(raw):,} values"
        bounds = (
            f"in {measured.unit} outside {quantity.low:g}…{quantity.high:g} of {quantity.name}"
        )
        faults.add(f"{fault} {bounds}: {name_some(f'{v:g}' for v in beyond)}; {hint}")
    return quantity.convert(raw, measured.unit)


def _drop_impossible(
    values: Float64[np.ndarray, "R 4"], seconds: Int64[np.ndarray, " R"]
) -> tuple[Outlier, ...]:
    """Make impossible values missing, in place, and return them."""
    outliers = []
    for quantity, column in zip(QUANTITIES.values(), values.T, strict=True):
        for row in np.flatnonzero(quantity.is_impossible(column)):
            time = seconds[row].astype("datetime64[s]")
            outliers.append(Outlier(quantity.name, f"{time}Z", float(column[row])))
            column[row] = np.nan
    return tuple(outliers)


def _offset_text(seconds: int) -> str:
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02d}:{minutes:02d}"
