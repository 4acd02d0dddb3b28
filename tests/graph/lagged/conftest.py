"""A linear process of which the edges are known."""

from itertools import pairwise

import numpy as np

from forecaster.graph.lagged.deviations import LaggedSample

EDGES = ((0, 3, 1, 0.5), (1, 4, 2, -0.45), (2, 0, 5, 0.4))  # source, target, delay and effect


def follow(steps: int, places: int, seed: int = 0) -> np.ndarray:
    """Return noise of variance 1 in which some places follow others."""
    values = np.random.default_rng(seed).standard_normal((steps, places))
    for t in range(5, steps):
        for source, target, delay, effect in EDGES:
            values[t, target] += effect * values[t - delay, source]
    return values


def sample_of(deviations: np.ndarray) -> LaggedSample:
    """Return deviations of which all are observed, and all are training steps."""
    N, T = deviations.shape
    at = np.linspace(0, T, 5).astype(np.int64)
    return LaggedSample(
        deviations=deviations.astype(np.float32),
        observed=np.ones((N, T), dtype=bool),
        scale=deviations.any(axis=1).astype(np.float64),
        runs=tuple(np.array([[start, stop]]) for start, stop in pairwise(at)),
        blocks=np.arange(T) * 20 // T,
    )
