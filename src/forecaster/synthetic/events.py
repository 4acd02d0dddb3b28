"""Concerts, matches, fairs: for a few hours one place draws far more people than usual."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.synthetic.streams import BLOCK_HOURS

REACH_KM = 0.4  # at this distance the boost of the log rate is down to 1/e
LOCATIONS_PER_VENUE = 50
EVENTS_PER_VENUE = 4.0  # on average in a block of six weeks
START_HOURS = (17, 22)  # the local hours at which events begin, from … to before
LENGTH_HOURS = (2, 6)  # how long they last, likewise
FACTORS = (1.5, 3.5)  # how many times the usual demand their place has


@dataclass(frozen=True)
class Event:
    """A boost of demand around one location."""

    location: int
    start: int  # step
    hours: int
    factor: float


def draw_events(
    hours_of_day: Int64[np.ndarray, " T"], locations: int, generator: np.random.Generator
) -> tuple[Event, ...]:
    """Return the events at the city's few venues, block by block."""
    venues = generator.choice(locations, -(-locations // LOCATIONS_PER_VENUE), replace=False)
    first, stop = START_HOURS
    events: list[Event] = []
    for begin in range(0, len(hours_of_day), BLOCK_HOURS):
        of_day = hours_of_day[begin : begin + BLOCK_HOURS]
        evenings = begin + np.flatnonzero((of_day >= first) & (of_day < stop))
        count = generator.poisson(EVENTS_PER_VENUE * len(venues))
        drawn = zip(
            generator.choice(venues, count).tolist(),
            generator.choice(evenings, count).tolist(),
            generator.integers(*LENGTH_HOURS, count).tolist(),
            generator.uniform(*FACTORS, count).tolist(),
            strict=True,
        )
        events += [Event(*event) for event in drawn]
    return tuple(events)


def add_events(
    expected: Float32[np.ndarray, "T N"],
    events: tuple[Event, ...],
    distances: Float64[np.ndarray, "N N"],
) -> None:
    """Multiply the demand expected during each event, the less the farther away (in place)."""
    for event in events:
        nearness = np.exp(-((distances[event.location] / REACH_KM) ** 2))
        boost = (event.factor**nearness).astype(np.float32)
        expected[event.start : event.start + event.hours] *= boost
