"""Schemas of trip files: the columns of time and position, known by name or mapped."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecaster.errors import ConfigError, DataError, Faults, name_some, nearest_name
from forecaster.reading.mapping import parse_pairs

FIELDS = ("time", "lat", "lon", "zone")


@dataclass(frozen=True)
class Schema:
    """The columns of a file that hold the time and position of a pickup."""

    name: str
    time: str
    lat: str | None = None
    lon: str | None = None
    zone: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a file of this schema must have."""
        return tuple(c for c in (self.time, self.lat, self.lon, self.zone) if c is not None)

    @property
    def has_coordinates(self) -> bool:
        """Whether positions are coordinates; else they are zone ids."""
        return self.lat is not None


KNOWN = (
    Schema("TLC 2009", "Trip_Pickup_DateTime", lat="Start_Lat", lon="Start_Lon"),
    Schema("TLC 2010–2014", "pickup_datetime", lat="pickup_latitude", lon="pickup_longitude"),
    Schema("TLC 2015–2016", "tpep_pickup_datetime", lat="pickup_latitude", lon="pickup_longitude"),
    Schema("TLC today", "tpep_pickup_datetime", zone="PULocationID"),
    Schema("FiveThirtyEight Uber", "Date/Time", lat="Lat", lon="Lon"),
)


def parse_columns(text: str) -> Schema:
    """Return the schema of a mapping such as `time=when,lat=y,lon=x` or `time=when,zone=area`."""
    faults = Faults(f"columns {text!r}")
    columns = parse_pairs(text, FIELDS, "time=pickup,lat=y,lon=x", faults)
    if set(columns) not in ({"time", "lat", "lon"}, {"time", "zone"}):
        faults.add("give time, and either lat and lon, or zone")
    faults.raise_any(ConfigError)
    return Schema("given", **columns)


def possible_columns(mapping: str | None) -> tuple[str, ...]:
    """Return the columns that a file of trips may be read by."""
    if mapping is not None:
        return parse_columns(mapping).columns
    return tuple({column for schema in KNOWN for column in schema.columns})


def recognise(file: str, columns: Sequence[str], zones: bool, mapped: Schema | None) -> Schema:
    """Return the schema of a file by its columns; an unknown one is refused."""
    candidates = (
        [mapped] if mapped is not None else [s for s in KNOWN if s.has_coordinates != zones]
    )
    stripped = {column.strip() for column in columns}  # some TLC headers have spaces
    for schema in candidates:
        if stripped.issuperset(schema.columns):
            return schema
    unknown = f"{file}: unknown schema: columns [{name_some(columns, 30)}]"
    if mapped is not None:
        missing = [c for c in mapped.columns if c not in stripped]
        hint = nearest_name(missing[0], sorted(stripped))
        raise DataError(f"{unknown}; the mapping needs {name_some(missing)}{hint}")
    if not zones and any(stripped.issuperset(s.columns) for s in KNOWN if not s.has_coordinates):
        message = "zone ids, no coordinates (TLC's Parquet files lost them from 2011 on)"
        raise DataError(f"{unknown}; {message}: use --zones")
    if zones and any(stripped.issuperset(s.columns) for s in KNOWN if s.has_coordinates):
        raise DataError(f"{unknown}; coordinates, no zone ids: leave --zones out")
    nearest = max(KNOWN, key=lambda schema: len(stripped.intersection(schema.columns)))
    schemas = "; ".join(f"{s.name}: {', '.join(s.columns)}" for s in KNOWN)
    message = f"the nearest known is {nearest.name} ({', '.join(nearest.columns)})"
    mapping = "time=…,zone=…" if zones else "time=…,lat=…,lon=…"
    raise DataError(f"{unknown}; {message}; known: {schemas}; others by --columns {mapping}")
