"""A city to try forecasts on: everything about it is drawn from one seed, and known.

Cities of one seed, start and number of locations agree: the one with more hours begins with the
values of the other. Another start changes neither places, dependencies nor noise.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.zone import to_utc
from forecaster.errors import ConfigError, Faults, count_of
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.synthetic.demand import (
    DAY_HOURS,
    SENSITIVITY,
    Event,
    add_events,
    draw_counts,
    draw_events,
    draw_mean_demand,
    draw_noise,
    draw_profiles,
    expect_demand,
    find_slots,
    mean_ahead,
)
from forecaster.synthetic.dependencies import (
    Edges,
    describe_edges,
    draw_edges,
    to_precision,
)
from forecaster.synthetic.holidays import federal_holidays
from forecaster.synthetic.locations import Places, lay_out
from forecaster.synthetic.streams import BLOCK_HOURS, Stream, open_stream
from forecaster.synthetic.trips import draw_trips
from forecaster.synthetic.weather import WEATHER_NAMES, effect_on_demand, simulate_weather

ZONE = "America/New_York"
FUTURE_HOURS = 72  # how far weather is known past the last value
_YEARS = range(1987, 2100)  # whose federal holidays follow the rules we know
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class City:
    """A panel of counts with all that lies behind it."""

    panel: Panel
    edges: Edges
    precision: Float64[np.ndarray, "N N"]  # of the noise; unit diagonal
    events: tuple[Event, ...]
    expected: Float32[np.ndarray, "M N"]  # mean counts given calendar, weather and events
    noise: Float32[np.ndarray, "M N"]  # hidden, on the log of the rate
    seed: int

    @property
    def locations(self) -> Locations:
        """The city's locations, in the order of the panel's columns."""
        return self.panel.locations

    def floor(
        self, origins: Int64[np.ndarray, " B"], horizon: int = 3
    ) -> Float64[np.ndarray, " K"]:
        """Return the RMSE of each step ahead that no forecast from these steps can be below.

        It is the error of the mean given the hidden noise at the origin, the weather and the
        events to come: more than any forecast knows, so it bounds them and none attains it (up
        to chance, which vanishes with the number of origins).
        """
        M = len(self.expected)
        if horizon < 1 or not len(origins) or origins.min() < 0 or origins.max() + horizon >= M:
            message = f"floor of {count_of(len(origins), 'origin')}, {horizon} steps ahead"
            raise ConfigError(f"{message}: all must lie within the city's steps 0…{M - 1}")
        return np.array([self._rmse_ahead(origins, ahead + 1) for ahead in range(horizon)])

    def trips(self, first_step: int, last_step: int) -> Iterator[pa.Table]:
        """Yield the trips that were counted from the first to the last step, in chunks.

        Columns are `pickup_datetime` (naive local time), `pickup_longitude`, `pickup_latitude`.
        """
        M = len(self.expected)
        if not 0 <= first_step <= last_step < M:
            message = f"trips of steps {first_step}…{last_step}: the city has 0…{M - 1}"
            raise ConfigError(f"{message}; give a first and a last one of those")
        return draw_trips(self.panel, self.seed, first_step, last_step)

    def _rmse_ahead(self, origins: Int64[np.ndarray, " B"], ahead: int) -> float:
        squares = 0.0
        for begin in range(0, len(origins), BLOCK_HOURS):  # all at once would take gigabytes
            some = origins[begin : begin + BLOCK_HOURS]
            mean = mean_ahead(self.expected[some + ahead], self.noise[some], ahead)
            error = self.panel.values[some + ahead] - mean
            squares += float(np.square(error, dtype=np.float64).sum())
        return float(np.sqrt(squares / (len(origins) * len(self.locations))))


def make_city(
    locations: int = 996, start: str = "2009-01-01", hours: int = 65_711, seed: int = 0
) -> City:
    """Return the city of a seed; by default of the paper's size and span.

    Args:
        locations: how many.
        start: local date, or date and whole hour, of the first step.
        hours: how many steps.
        seed: another gives another city.
    """
    begin = _check(locations, start, hours, seed)
    places = lay_out(locations, open_stream(seed, Stream.PLACES))
    edges = draw_edges(places.distances, places.centre, open_stream(seed, Stream.DEPENDENCIES))
    precision = to_precision(edges, locations)
    _LOG.info("%s", describe_edges(edges, locations))

    known = hours + FUTURE_HOURS
    steps = -(-known // BLOCK_HOURS) * BLOCK_HOURS
    clock = _clock(begin, hours)
    times = clock.axis(begin, steps)
    weather = simulate_weather(clock.local(times), open_stream(seed, Stream.WEATHER))
    expected = _expect(places, find_slots(clock, times), weather, seed)
    hours_of_day = clock.slot_of_week(times) % DAY_HOURS
    events = draw_events(hours_of_day, locations, open_stream(seed, Stream.EVENTS))
    add_events(expected, events, places.distances)
    noise = draw_noise(precision, steps, open_stream(seed, Stream.NOISE))
    counts = draw_counts(expected, noise, open_stream(seed, Stream.COUNTS))
    panel = Panel(
        values=counts[:hours],
        start=begin,
        clock=clock,
        kind="count",
        locations=places.to_locations(),
        covariates=Covariates(WEATHER_NAMES, weather[:known]),
        local_covariates=LocalCovariates.empty(known, locations),
    )
    events = tuple(event for event in events if event.start < hours)
    return City(panel, edges, precision, events, expected[:hours], noise[:hours], seed)


def _check(locations: int, start: str, hours: int, seed: int) -> np.datetime64:
    """Return the first instant in UTC, or name all that is wrong with a call."""
    faults = Faults("city")
    if locations < 1 or hours < 1:
        faults.add(f"{locations} locations, {hours} hours: at least one of each is needed")
    if seed < 0:
        faults.add(f"seed {seed}: must not be negative")
    local = _parse(start)
    if local is None:
        years = f"from {_YEARS[0]} to {_YEARS[-1]}"
        faults.add(f"start {start!r}: a local date or whole hour {years} is needed")
    faults.raise_any(ConfigError)
    return np.datetime64(to_utc(ZONE, np.array([local], dtype="datetime64[s]")).first[0], "s")


def _parse(start: str) -> datetime | None:
    """Return a local time, or None where the text is not one that a city can start at."""
    try:
        local = datetime.fromisoformat(start)
    except ValueError:
        return None
    whole = (local.minute, local.second, local.microsecond) == (0, 0, 0)
    return local if whole and local.tzinfo is None and local.year in _YEARS else None


def _clock(begin: np.datetime64, hours: int) -> Clock:
    """Return New York's clock with the holidays of the span."""
    bare = Clock(ZONE)
    ends = bare.local(np.array([begin, begin + (hours - 1) * bare.step]))
    first, last = (int(str(end)[:4]) for end in ends)
    return Clock(ZONE, holidays=federal_holidays(first, last))


def _expect(
    places: Places,
    slots: Int64[np.ndarray, " T"],
    weather: Float32[np.ndarray, "T P"],
    seed: int,
) -> Float32[np.ndarray, "T N"]:
    """Return the mean counts given calendar and weather."""
    generator = open_stream(seed, Stream.CHARACTER)
    profiles = draw_profiles(places.neighbourhoods, generator)
    by_slot = draw_mean_demand(places.along, generator)[:, None] * profiles
    sensitivity = generator.uniform(*SENSITIVITY, len(places.along))
    return expect_demand(by_slot, slots, effect_on_demand(weather), sensitivity)
