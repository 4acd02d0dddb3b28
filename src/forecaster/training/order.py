"""The order in which windows are learned from."""

import numpy as np
from jaxtyping import Int64


def shuffle(origins: Int64[np.ndarray, " B"], seed: int, epoch: int) -> Int64[np.ndarray, " B"]:
    """Return the windows in the order of an epoch, which depends on nothing but the arguments.

    Every window is sorted by a number drawn for (seed, epoch, its index). Philox counts instead of
    remembering, and its raw numbers, unlike numpy's permutations, are the same in every release.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    draws = np.random.Philox(key=key).random_raw(len(origins))
    return origins[np.argsort(draws, kind="stable")]
