"""The locations that a picture shows of very many: the busiest, the most extreme and random ones.

Tables, texts and errors are of all locations; a picture of all of 20,000 shows none of them.
"""

import numpy as np
from jaxtyping import Float64, Int64

MOST_SHOWN = 3_000  # locations in one picture
SEED = 0


def choose_shown(
    sizes: Float64[np.ndarray, " N"],
    extremes: Float64[np.ndarray, " N"] | None = None,
    most: int = MOST_SHOWN,
) -> Int64[np.ndarray, " S"]:
    """The locations of a picture, in their order: all, or as many as it can show.

    A third are the busiest, a third of the others the most extreme, and the rest is random. The
    same numbers give the same locations.

    Args:
        sizes: such as the mean of each location.
        extremes: larger where a location should rather be seen; None: the others are random.
        most: the number of locations.
    """
    N = len(sizes)
    if most >= N:
        return np.arange(N)
    is_shown = np.zeros(N, dtype=bool)
    is_shown[_largest(sizes, most // 3)] = True
    if extremes is not None:
        is_shown[_largest(np.where(is_shown, np.nan, extremes), most // 3)] = True
    others = np.flatnonzero(~is_shown)
    drawn = np.random.default_rng(SEED).choice(others, most - int(is_shown.sum()), replace=False)
    is_shown[drawn] = True
    return np.flatnonzero(is_shown)


def describe_shown(count: int, extremes: str | None = None) -> str:
    """Say which locations a picture shows, as a sentence; empty if it shows all.

    Args:
        count: of all locations.
        extremes: what the most extreme ones have, such as `the highest values`.
    """
    if count <= MOST_SHOWN:
        return ""
    third = MOST_SHOWN // 3
    chosen = f"the {third:,} busiest, "
    chosen += f"{third:,} of the others with {extremes}, " if extremes else ""
    return f"The picture shows {MOST_SHOWN:,} of {count:,} locations: {chosen}and random ones."


def _largest(values: Float64[np.ndarray, " N"], count: int) -> Int64[np.ndarray, " S"]:
    """The positions of the largest finite values, the first of equal ones."""
    order = np.argsort(-values, kind="stable")  # NaN goes last
    return np.asarray(order[: min(count, int(np.isfinite(values).sum()))])
