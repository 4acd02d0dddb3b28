"""Noise that remembers: a first-order autoregression over whole arrays."""

import numpy as np
from jaxtyping import Float


def autoregress(
    shocks: Float[np.ndarray, "T N"],
    coefficient: float | Float[np.ndarray, " N"],
    before: Float[np.ndarray, " N"],
) -> Float[np.ndarray, "T N"]:
    """Return u_t = c·u_{t−1} + √(1−c²)·shock_t, which has the variance of the shocks."""
    noise = np.asarray(shocks * np.sqrt(1.0 - np.square(coefficient)).astype(shocks.dtype))
    for step in range(len(noise)):
        noise[step] += coefficient * before
        before = noise[step]
    return noise
