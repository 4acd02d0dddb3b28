"""A synthetic city for tests and demos, drawn from one seed, with known parameters.

Of two cities with the same seed, start and number of locations, the longer one begins with the
values of the shorter. Another start changes neither locations, dependencies nor noise.
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
    expected_demand,
    find_slots,
    mean_ahead,
)
from forecaster.synthetic.dependencies import (
    DependencyEdges,
    describe_edges,
    draw_edges,
    to_precision,
)
from forecaster.synthetic.holidays import federal_holidays
from forecaster.synthetic.locations import StreetGrid, draw_street_grid
from forecaster.synthetic.streams import BLOCK_HOURS, Stream, open_stream
from forecaster.synthetic.trips import draw_trips
from forecaster.synthetic.weather import WEATHER_NAMES, effect_on_demand, simulate_weather

ZONE = "America/New_York"
FUTURE_HOURS = 72  # of weather after the last value
_YEARS = range(1987, 2100)  # with the rules of `federal_holidays`
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class City:
    """A panel of counts with its hidden structure."""

    panel: Panel
    edges: DependencyEdges
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
        """Return a lower bound of the RMSE of each step ahead, for forecasts from these origins.

        It is the error of the conditional mean given the hidden noise at the origin and the
        future weather and events. No forecast knows as much, so none falls below the bound,
        up to sampling error that vanishes with the number of origins.
        """
        M = len(self.expected)
        if horizon < 1 or not len(origins) or origins.min() < 0 or origins.max() + horizon >= M:
            message = f"floor of {count_of(len(origins), 'origin')}, {horizon} steps ahead"
            raise ConfigError(f"{message}: all targets must lie within the steps 0…{M - 1}")
        return np.array([self._rmse_ahead(origins, ahead + 1) for ahead in range(horizon)])

    def trips(self, first_step: int, last_step: int) -> Iterator[pa.Table]:
        """Yield the trips behind the counts from the first to the last step, in chunks.

        Columns are `pickup_datetime` (naive local time), `pickup_longitude`, `pickup_latitude`.
        """
        M = len(self.expected)
        if not 0 <= first_step <= last_step < M:
            message = f"trips of steps {first_step}…{last_step}: the city has 0…{M - 1}"
            raise ConfigError(f"{message}; give a first and a last step within these")
        return draw_trips(self.panel, self.seed, first_step, last_step)

    def _rmse_ahead(self, origins: Int64[np.ndarray, " B"], ahead: int) -> float:
        squares = 0.0
        for begin in range(0, len(origins), BLOCK_HOURS):  # in blocks to save memory
            block = origins[begin : begin + BLOCK_HOURS]
            mean = mean_ahead(self.expected[block + ahead], self.noise[block], ahead)
            error = self.panel.values[block + ahead] - mean
            squares += float(np.square(error, dtype=np.float64).sum())
        return float(np.sqrt(squares / (len(origins) * len(self.locations))))


def make_city(
    locations: int = 996, start: str = "2009-01-01", hours: int = 65_711, seed: int = 0
) -> City:
    """Generate a city; by default with the size and span of the paper's data.

    Its `panel` holds the counts, `trips` the single trips behind them, `edges` and `precision`
    the true dependencies, and `floor` a lower bound of the RMSE.

    Args:
        locations: number of locations.
        start: local date, or date and whole hour, of the first step.
        hours: number of steps.
        seed: of all random numbers.
    """
    begin = _check(locations, start, hours, seed)
    grid = draw_street_grid(locations, open_stream(seed, Stream.LOCATIONS))
    edges = draw_edges(grid.distances, grid.centre, open_stream(seed, Stream.DEPENDENCIES))
    precision = to_precision(edges, locations)
    _LOG.info("%s", describe_edges(edges, locations))

    weather_hours = hours + FUTURE_HOURS
    steps = -(-weather_hours // BLOCK_HOURS) * BLOCK_HOURS
    clock = _clock(begin, hours)
    times = clock.axis(begin, steps)
    weather = simulate_weather(clock.local(times), open_stream(seed, Stream.WEATHER))
    expected = _expected_demand(grid, find_slots(clock, times), weather, seed)
    hours_of_day = clock.slot_of_season(times) % DAY_HOURS
    events = draw_events(hours_of_day, locations, open_stream(seed, Stream.EVENTS))
    add_events(expected, events, grid.distances)
    noise = draw_noise(precision, steps, open_stream(seed, Stream.NOISE))
    counts = draw_counts(expected, noise, open_stream(seed, Stream.COUNTS))
    panel = Panel(
        values=counts[:hours],
        start=begin,
        clock=clock,
        kind="count",
        locations=grid.to_locations(),
        covariates=Covariates(WEATHER_NAMES, weather[:weather_hours]),
        local_covariates=LocalCovariates.empty(weather_hours, locations),
    )
    events = tuple(event for event in events if event.start < hours)
    return City(panel, edges, precision, events, expected[:hours], noise[:hours], seed)


def _check(locations: int, start: str, hours: int, seed: int) -> np.datetime64:
    """Check all arguments of a city, and return its start in UTC."""
    faults = Faults("city")
    if locations < 1 or hours < 1:
        faults.add(f"{locations} locations, {hours} hours: both must be at least 1")
    if seed < 0:
        faults.add(f"seed {seed}: must not be negative")
    local = _parse(start)
    if local is None:
        years = f"from {_YEARS[0]} to {_YEARS[-1]}"
        faults.add(f"start {start!r}: give a local date or whole hour {years}")
    faults.raise_any(ConfigError)
    return np.datetime64(to_utc(ZONE, np.array([local], dtype="datetime64[s]")).first[0], "s")


def _parse(start: str) -> datetime | None:
    """Parse a local time; None unless it is a whole hour of a supported year."""
    try:
        local = datetime.fromisoformat(start)
    except ValueError:
        return None
    whole = (local.minute, local.second, local.microsecond) == (0, 0, 0)
    return local if whole and local.tzinfo is None and local.year in _YEARS else None


def _clock(begin: np.datetime64, hours: int) -> Clock:
    """Return New York's clock with the holidays of the span."""
    clock = Clock(ZONE)
    ends = clock.local(np.array([begin, begin + (hours - 1) * clock.step]))
    first, last = (int(str(end)[:4]) for end in ends)
    return Clock(ZONE, holidays=federal_holidays(first, last))


def _expected_demand(
    grid: StreetGrid,
    slots: Int64[np.ndarray, " T"],
    weather: Float32[np.ndarray, "T P"],
    seed: int,
) -> Float32[np.ndarray, "T N"]:
    """Draw profiles and mean demand; return the mean counts given calendar and weather."""
    generator = open_stream(seed, Stream.CHARACTER)
    profiles = draw_profiles(grid.neighbourhoods, generator)
    by_slot = draw_mean_demand(grid.along, generator)[:, None] * profiles
    sensitivity = generator.uniform(*SENSITIVITY, len(grid.along))
    return expected_demand(by_slot, slots, effect_on_demand(weather), sensitivity)
