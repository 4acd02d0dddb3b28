"""A synthetic city for tests and demos, drawn from one seed, with known parameters.

Of two cities with the same seed, start and number of locations, the longer one begins with the
values of the shorter. Another start changes neither locations, dependencies nor noise.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from numbers import Real

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float32, Float64, Int64

from forecaster.clock.clock import Clock
from forecaster.clock.zone import to_utc
from forecaster.errors import ConfigError, Faults, count_of
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.synthetic.demand import (
    DAY_HOURS,
    NOISE_SD,
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
from forecaster.synthetic.lagged import (
    MAX_DELAY,
    LaggedEdges,
    LaggedFactors,
    no_edges,
    no_factors,
)
from forecaster.synthetic.locations import StreetGrid, draw_street_grid
from forecaster.synthetic.streams import BLOCK_HOURS, Stream, open_stream
from forecaster.synthetic.travel import OWN_HOURS, Travel, draw_travel
from forecaster.synthetic.trips import draw_trips
from forecaster.synthetic.weather import WEATHER_NAMES, effect_on_demand, simulate_weather

ZONE = "America/New_York"
FUTURE_HOURS = 72  # of weather after the last value
_YEARS = range(1987, 2100)  # with the rules of `federal_holidays`
_LOG = logging.getLogger(__name__)

Means = Iterator[Float32[np.ndarray, "_ N"]]  # of the counts, for each step ahead
MeansOf = Callable[[Int64[np.ndarray, " _"], int], Means]  # of origins and a horizon


@dataclass(frozen=True, eq=False)
class City:
    """A panel of counts with its hidden structure."""

    panel: Panel
    edges: DependencyEdges
    precision: Float64[np.ndarray, "N N"]  # of the noise that is new at an hour; unit diagonal
    events: tuple[Event, ...]
    expected: Float32[np.ndarray, "M N"]  # mean counts given calendar, weather and events
    noise: Float32[np.ndarray, "M N"]  # hidden, on the log of the rate
    seed: int
    travel: Travel | None  # how the noise travels; None: each location follows its own past
    factors: Float32[np.ndarray, "M F"]  # hidden series of the whole city; none without travel

    @property
    def locations(self) -> Locations:
        """The city's locations, in the order of the panel's columns."""
        return self.panel.locations

    @property
    def lagged_edges(self) -> LaggedEdges:
        """The true effects of one location's past on another; empty where nothing travels."""
        return no_edges() if self.travel is None else self.travel.edges

    @property
    def lagged_factors(self) -> LaggedFactors:
        """The true loadings and delays of `factors`."""
        return no_factors(len(self.locations)) if self.travel is None else self.travel.factors

    def floor(
        self, origins: Int64[np.ndarray, " B"], horizon: int = 3
    ) -> Float64[np.ndarray, " K"]:
        """Return a lower bound of the RMSE of each step ahead, for forecasts from these origins.

        It is the error of the conditional mean given the hidden noise and factors until the
        origin and the future weather and events. No forecast knows as much, so none falls below
        the bound, up to sampling error that vanishes with the number of origins.

        The noise given its past is normal. Its mean m_k follows the recursion with no new shocks,
        its variance v_k is that of the k shocks to come, so the mean of the count is

            e_{t+k}·E[exp(u_{t+k} − σ²/2) | past] = e_{t+k}·exp(m_k + v_k/2 − σ²/2).

        Where demand travels, origins start at step 2: the mean needs three hours.
        """
        first = 0 if self.travel is None else MAX_DELAY - 1
        self._check_origins(origins, horizon, first)
        if self.travel is None:
            return self._rmse(origins, horizon, self._means)
        variances = self.travel.variances_ahead(horizon)
        return self._rmse(origins, horizon, partial(self._means_of_travel, self.travel, variances))

    def floor_alone(
        self, origins: Int64[np.ndarray, " B"], horizon: int = 3
    ) -> Float64[np.ndarray, " K"]:
        """Return the lower bound for forecasts that see each location's own past alone.

        It is the error of the conditional mean given the location's own hidden noise of the last
        48 hours and the future weather and events: the best linear prediction under the true
        autocovariances, which for normal noise is the conditional mean. What lies between it and
        `floor` can only be won from the past of others. Where nothing travels both are the same.
        """
        if self.travel is None:
            return self.floor(origins, horizon)
        self._check_origins(origins, horizon, OWN_HOURS - 1)
        weights, variances = self.travel.predict_alone(horizon)
        return self._rmse(origins, horizon, partial(self._means_alone, weights, variances))

    def trips(self, first_step: int, last_step: int) -> Iterator[pa.Table]:
        """Yield the trips behind the counts from the first to the last step, in chunks.

        Columns are `pickup_datetime` (naive local time), `pickup_longitude`, `pickup_latitude`.
        """
        M = len(self.expected)
        if not 0 <= first_step <= last_step < M:
            message = f"trips of steps {first_step}…{last_step}: the city has 0…{M - 1}"
            raise ConfigError(f"{message}; give a first and a last step within these")
        return draw_trips(self.panel, self.seed, first_step, last_step)

    def _check_origins(self, origins: Int64[np.ndarray, " B"], horizon: int, first: int) -> None:
        M = len(self.expected)
        message = f"floor of {count_of(len(origins), 'origin')}, {horizon} steps ahead"
        if horizon < 1 or not len(origins) or origins.min() < 0 or origins.max() + horizon >= M:
            raise ConfigError(f"{message}: all targets must lie within the steps 0…{M - 1}")
        if origins.min() < first:
            raise ConfigError(f"{message}: it needs past hours; give origins from step {first} on")

    def _rmse(
        self, origins: Int64[np.ndarray, " B"], horizon: int, means_of: MeansOf
    ) -> Float64[np.ndarray, " K"]:
        """Return the RMSE of each step ahead of the means that a function yields for origins."""
        squares = np.zeros(horizon)
        for begin in range(0, len(origins), BLOCK_HOURS):  # in blocks to save memory
            squares += self._squares(origins[begin : begin + BLOCK_HOURS], horizon, means_of)
        return np.asarray(np.sqrt(squares / (len(origins) * len(self.locations))))

    def _squares(
        self, origins: Int64[np.ndarray, " B"], horizon: int, means_of: MeansOf
    ) -> Float64[np.ndarray, " K"]:
        """Return the sum of squared errors of each step ahead."""
        squares = np.empty(horizon)
        for step, mean in enumerate(means_of(origins, horizon)):
            error = self.panel.values[origins + step + 1] - mean
            squares[step] = np.square(error, dtype=np.float64).sum()
        return squares

    def _means(self, origins: Int64[np.ndarray, " _"], horizon: int) -> Means:
        for ahead in range(1, horizon + 1):
            yield mean_ahead(self.expected[origins + ahead], self.noise[origins], ahead)

    def _means_of_travel(
        self,
        travel: Travel,
        variances: Float64[np.ndarray, "_ N"],
        origins: Int64[np.ndarray, " _"],
        horizon: int,
    ) -> Means:
        means = travel.means_ahead(self.noise, self.factors, origins, horizon)
        for step, mean in enumerate(means):
            yield self._counts(origins + step + 1, mean, variances[step])

    def _means_alone(
        self,
        weights: Float64[np.ndarray, "_ _ N"],
        variances: Float64[np.ndarray, "_ N"],
        origins: Int64[np.ndarray, " _"],
        horizon: int,
    ) -> Means:
        means = np.zeros((horizon, len(origins), len(self.locations)), dtype=np.float32)
        for hour in range(weights.shape[1]):
            past = self.noise[origins - hour]
            for step in range(horizon):
                means[step] += weights[step, hour].astype(np.float32) * past
        for step, mean in enumerate(means):
            yield self._counts(origins + step + 1, mean, variances[step])

    def _counts(
        self,
        steps: Int64[np.ndarray, " B"],
        mean: Float[np.ndarray, "B N"],
        variance: Float64[np.ndarray, " N"],
    ) -> Float32[np.ndarray, "B N"]:
        """Return the mean counts at some steps if the noise has these means and variances."""
        exponent = (mean + (variance - NOISE_SD**2) / 2.0).astype(np.float32)
        return np.asarray(self.expected[steps] * np.exp(exponent))


def make_city(
    locations: int = 996,
    start: str = "2009-01-01",
    hours: int = 65_711,
    seed: int = 0,
    travel: float = 0.0,
) -> City:
    """Generate a city; by default with the size and span of the paper's data.

    Its `panel` holds the counts, `trips` the single trips behind them, `edges` and `precision`
    the true dependencies, and `floor` a lower bound of the RMSE. With `travel` above 0, the past
    of others tells about a location's future: `lagged_edges` and `lagged_factors` hold how.

    Args:
        locations: number of locations.
        start: local date, or date and whole hour, of the first step.
        hours: number of steps.
        seed: of all random numbers.
        travel: from 0, where every location's noise follows its own past alone, to 1, where
            crowds, congestion and rain reach others one to three hours later.
    """
    begin = _check(locations, start, hours, seed, travel)
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
    flows = draw_travel(grid, precision, travel, seed) if travel else None
    noise, factors = _noise(precision, flows, steps, seed)
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
    return City(
        panel=panel,
        edges=edges,
        precision=precision,
        events=events,
        expected=expected[:hours],
        noise=noise[:hours],
        seed=seed,
        travel=flows,
        factors=factors[:hours],
    )


def _noise(
    precision: Float64[np.ndarray, "N N"], travel: Travel | None, steps: int, seed: int
) -> tuple[Float32[np.ndarray, "T N"], Float32[np.ndarray, "T F"]]:
    """Draw the hidden noise, and the factors of the city where it travels."""
    if travel is not None:
        return travel.draw_noise(steps, seed)
    noise = draw_noise(precision, steps, open_stream(seed, Stream.NOISE))
    return noise, np.empty((steps, 0), dtype=np.float32)


def _check(locations: int, start: str, hours: int, seed: int, travel: object) -> np.datetime64:
    """Check all arguments of a city, and return its start in UTC."""
    faults = Faults("city")
    if locations < 1 or hours < 1:
        faults.add(f"{locations} locations, {hours} hours: both must be at least 1")
    if seed < 0:
        faults.add(f"seed {seed}: must not be negative")
    if not isinstance(travel, Real) or not 0.0 <= float(travel) <= 1.0:
        faults.add(f"travel {travel!r}: give a number between 0 and 1")
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
