"""The random numbers of a city: an independent stream for each purpose, and AR(1) noise."""

from enum import IntEnum

import numpy as np
from jaxtyping import Float

# Hours are drawn in whole blocks and then cut to length, so that a block does not depend on the
# length of the city.
BLOCK_HOURS = 1_024


class Stream(IntEnum):
    """The purposes of random numbers; the values define every city and must not change."""

    LOCATIONS = 0
    DEPENDENCIES = 1
    WEATHER = 2
    CHARACTER = 3
    EVENTS = 4
    NOISE = 5
    COUNTS = 6
    TRIPS = 7
    TRAVEL = 8


def open_stream(seed: int, stream: Stream, *part: int) -> np.random.Generator:
    """Return the generator of a purpose, or of one numbered part of it."""
    sequence = np.random.SeedSequence(seed, spawn_key=(int(stream), *part))
    return np.random.Generator(
        np.random.PCG64(sequence)
    )  # explicit, since NumPy's default may change


def autoregress(
    shocks: Float[np.ndarray, "T N"],
    coefficient: float | Float[np.ndarray, " N"],
    previous: Float[np.ndarray, " N"],
) -> Float[np.ndarray, "T N"]:
    """Return u_t = c·u_{t−1} + √(1−c²)·shock_t, which has the variance of the shocks."""
    noise = np.asarray(shocks * np.sqrt(1.0 - np.square(coefficient)).astype(shocks.dtype))
    for step in range(len(noise)):
        noise[step] += coefficient * previous
        previous = noise[step]
    return noise
