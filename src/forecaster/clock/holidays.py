"""Holidays, recorded in the panel so that every later use has the same dates."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from forecaster.clock.zone import Times
from forecaster.errors import ConfigError, DataError, name_some, nearest_name, need_extra

YEARS_AHEAD = 10  # holidays are recorded this far past the last year of the data


@dataclass(frozen=True)
class Holidays:
    """The holidays of one country over a span of years."""

    country: str
    first_year: int
    last_year: int
    dates: tuple[str, ...]  # local dates, sorted: 2014-07-04

    def falls_on(self, local: Times) -> Bool[np.ndarray, " M"]:
        """A mask of the local times on a holiday; a year outside the span is an error."""
        years = np.unique(local.astype("datetime64[Y]").astype(np.int64) + 1970)
        missing = [y for y in years if not self.first_year <= y <= self.last_year]
        if missing:
            message = f"no holiday table for {name_some(missing)}; {self.country} is known for"
            span = f"{self.first_year}…{self.last_year}"
            raise DataError(f"{message} {span}: rebuild the panel with a country to extend it")
        days = np.array(self.dates, dtype="datetime64[D]")
        return np.isin(local.astype("datetime64[D]"), days)

    def since(self, year: int) -> "Holidays":
        """Return the same holidays from an earlier year on, which has none."""
        return replace(self, first_year=min(year, self.first_year))

    def to_json(self) -> dict[str, Any]:
        """Return the record for a manifest."""
        return {
            "country": self.country,
            "first_year": self.first_year,
            "last_year": self.last_year,
            "dates": list(self.dates),
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Holidays":
        """Return the holidays in a manifest; an invalid date is a ValueError."""
        np.array(list(content["dates"]), dtype="datetime64[D]")
        return Holidays(
            country=str(content["country"]),
            first_year=int(content["first_year"]),
            last_year=int(content["last_year"]),
            dates=tuple(map(str, content["dates"])),
        )


def expand_holidays(country: str, first_year: int, last_data_year: int) -> Holidays:
    """Return the holidays of a country (`US`) or subdivision (`US-NY`), ten years ahead."""
    library = need_extra("holidays", extra="ingest")
    code, _, part = country.partition("-")
    countries = library.list_supported_countries()
    if code not in countries or (part and part not in countries[code]):
        near = nearest_name(code.upper(), sorted(countries)) or "; give a code such as US or US-NY"
        hint = (
            f"; parts of {code}: {name_some(countries[code], 60)}" if code in countries else near
        )
        raise ConfigError(f"country {country!r} has no holiday calendar{hint}")
    years = range(first_year, last_data_year + YEARS_AHEAD + 1)
    calendar = library.country_holidays(code, subdiv=part or None, years=years)
    dates = sorted(day.isoformat() for day in calendar if day.year in years)
    present = {int(day[:4]) for day in dates}
    missing = [year for year in years if year not in present]
    last_year = min(missing, default=years.stop) - 1  # some tables end earlier
    if last_year < last_data_year:
        raise DataError(f"no holiday table of {country} for {name_some(missing)}; leave it out")
    recorded = tuple(day for day in dates if int(day[:4]) <= last_year)
    return Holidays(country, first_year, last_year, recorded)
