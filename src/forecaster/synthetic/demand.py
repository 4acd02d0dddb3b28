"""Demand: what calendar, weather and events let expect, hidden noise on its log, and counts.

A count is Poisson with rate e_t·exp(u_t − σ²/2). The noise u has deviation σ at every location,
one AR(1) coefficient φ, and the city's partial correlations; e_t is then the mean of the count.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.synthetic.noise import autoregress
from forecaster.synthetic.places import LENGTH_KM
from forecaster.synthetic.streams import BLOCK_HOURS

NOISE_SD = 0.4  # σ
NOISE_AR = 0.7  # φ
MEAN_DEMAND = (3.0, 1.0)  # mean and deviation of the log of a location's mean demand per hour
SENSITIVITY = (0.6, 1.4)  # how much of the weather's effect a location shows
# Products of numbers on these grids, and sums of them, fit a double without rounding: the noise is
# the same however many threads multiply, and in whichever order.
_NORMAL_BITS, _MIX_BITS = 16, 24


def draw_mean_demand(
    along: Float64[np.ndarray, " N"], generator: np.random.Generator
) -> Float64[np.ndarray, " N"]:
    """Return the mean demand of an ordinary week, lognormal; the middle of the strip has most."""
    means = np.sort(generator.lognormal(*MEAN_DEMAND, len(along)))
    calm = (2.0 * along / LENGTH_KM) ** 2 + generator.normal(0.0, 0.5, len(along))
    demand = np.empty_like(means)
    demand[np.argsort(-calm)] = means
    return demand


def expect_demand(
    by_slot: Float64[np.ndarray, "N slots"],
    slots: Int64[np.ndarray, " T"],
    effect: Float64[np.ndarray, " T"],
    sensitivity: Float64[np.ndarray, " N"],
) -> Float32[np.ndarray, "T N"]:
    """Return the mean count given calendar and weather: the slot's demand, moved by the effect."""
    table = np.ascontiguousarray(by_slot.T, dtype=np.float32)
    shown, felt = sensitivity.astype(np.float32), effect.astype(np.float32)
    expected = np.empty((len(slots), len(by_slot)), dtype=np.float32)
    for block in _blocks(len(slots)):
        expected[block] = table[slots[block]] * np.exp(np.outer(felt[block], shown))
    return expected


def draw_noise(
    precision: Float64[np.ndarray, "N N"], steps: int, generator: np.random.Generator
) -> Float32[np.ndarray, "T N"]:
    """Return u: stationary Gaussian noise whose partial correlations are the precision's.

    Scaling every location to the deviation σ leaves partial correlations as they are.
    """
    N = len(precision)
    mix = np.linalg.inv(np.linalg.cholesky(precision))  # L⁻¹, where L·Lᵀ = precision
    mix *= NOISE_SD / np.sqrt((mix**2).sum(axis=0))  # z·L⁻¹ then has the covariance wanted
    mix = _on_grid(mix, _MIX_BITS)
    state = _shocks(1, mix, generator)[0]
    noise = np.empty((steps, N), dtype=np.float32)
    for block in _blocks(steps):
        shocks = _shocks(block.stop - block.start, mix, generator)
        noise[block] = autoregress(shocks, NOISE_AR, state)
        state = noise[block.stop - 1]
    return noise


def draw_counts(
    expected: Float32[np.ndarray, "T N"],
    noise: Float32[np.ndarray, "T N"],
    generator: np.random.Generator,
) -> Float32[np.ndarray, "T N"]:
    """Return Poisson counts."""
    counts = np.empty_like(expected)
    for block in _blocks(len(expected)):
        counts[block] = generator.poisson(mean_ahead(expected[block], noise[block], ahead=0))
    return counts


def mean_ahead(
    expected: Float32[np.ndarray, "B N"], noise: Float32[np.ndarray, "B N"], ahead: int
) -> Float32[np.ndarray, "B N"]:
    """Return the mean of the counts `ahead` steps after noise that is known.

    e_{t+k}·E[exp(u_{t+k} − σ²/2) | u_t] = e_{t+k}·exp(φᵏ·u_t − φ²ᵏ·σ²/2).
    """
    kept = NOISE_AR**ahead
    centred = np.float32(kept) * noise - np.float32((kept * NOISE_SD) ** 2 / 2.0)
    return np.asarray(expected * np.exp(centred))


def _shocks(
    count: int, mix: Float64[np.ndarray, "N N"], generator: np.random.Generator
) -> Float32[np.ndarray, "count N"]:
    """Return independent rows with the covariance that the mix gives."""
    normal = _on_grid(generator.standard_normal((count, len(mix))), _NORMAL_BITS)
    return np.asarray(normal @ mix, dtype=np.float32)


def _on_grid(values: Float64[np.ndarray, "K N"], bits: int) -> Float64[np.ndarray, "K N"]:
    """Return the values as multiples of 2^−bits."""
    return np.asarray(np.rint(values * 2.0**bits) * 2.0**-bits)


def _blocks(steps: int) -> list[slice]:
    begins = range(0, steps, BLOCK_HOURS)
    return [slice(begin, min(begin + BLOCK_HOURS, steps)) for begin in begins]
