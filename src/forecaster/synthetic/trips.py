"""The raw trips behind the counts, with the columns of the taxi commission's files."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.synthetic.locations import KM_PER_DEGREE
from forecaster.synthetic.streams import Stream, open_stream

CHUNK_TRIPS = 1_000_000  # a chunk ends with the hour that reaches it
MAX_RADIUS_KM = 0.05
# Ingestion rounds coordinates to 1e-4°, which moves a point by up to 7 m.
ROUNDING_KM = 0.008
_DECIMALS = 6  # of the coordinates, 0.1 m


def draw_trips(panel: Panel, seed: int, first_step: int, last_step: int) -> Iterator[pa.Table]:
    """Yield the trips of every hour from the first to the last step, in chunks of whole hours.

    The rows of an hour depend on seed and step only, not on the chunks. They are ordered by
    location, and each lies nearer to its own location than to any other. Times are naive local.
    """
    radius = _radius_km(panel.locations)
    hours = panel.clock.local(panel.times[first_step : last_step + 1])
    tables: list[pa.Table] = []
    rows = 0
    for step, hour in enumerate(hours, start=first_step):
        counts = panel.values[step].astype(np.int64)
        generator = open_stream(seed, Stream.TRIPS, step)
        tables.append(_trips_of_hour(panel.locations, radius, hour, counts, generator))
        rows += len(tables[-1])
        if rows >= CHUNK_TRIPS:
            yield pa.concat_tables(tables).combine_chunks()
            tables, rows = [], 0
    if tables:
        yield pa.concat_tables(tables).combine_chunks()


def _trips_of_hour(
    locations: Locations,
    radius: Float64[np.ndarray, " N"],
    hour: np.datetime64,
    counts: Int64[np.ndarray, " N"],
    generator: np.random.Generator,
) -> pa.Table:
    """Draw the counted trips, spread over the hour and over a disc around each location."""
    location = np.repeat(np.arange(len(counts)), counts)
    seconds = generator.integers(0, 3_600, len(location))
    distance = radius[location] * np.sqrt(generator.random(len(location)))
    angle = generator.uniform(0.0, 2.0 * np.pi, len(location))
    lon = locations.lon[location] + distance * np.cos(angle) / KM_PER_DEGREE[1]
    lat = locations.lat[location] + distance * np.sin(angle) / KM_PER_DEGREE[0]
    return pa.table(
        {
            "pickup_datetime": (hour + seconds).astype("datetime64[us]"),
            "pickup_longitude": lon.round(_DECIMALS),
            "pickup_latitude": lat.round(_DECIMALS),
        }
    )


def _radius_km(locations: Locations) -> Float64[np.ndarray, " N"]:
    """Return the radius around each location within which it is the nearest one."""
    north, east = locations.lat * KM_PER_DEGREE[0], locations.lon * KM_PER_DEGREE[1]
    apart = np.hypot(north[:, None] - north, east[:, None] - east)
    np.fill_diagonal(apart, np.inf)
    return np.asarray(np.clip(apart.min(axis=1) / 2.0 - ROUNDING_KM, 0.0, MAX_RADIUS_KM))
