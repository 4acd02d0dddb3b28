"""Paired comparisons of two models over blocks of days: is one better by more than chance?

The steps of a day share weather and events, and so do neighbouring days. So errors are summed over
blocks of whole days, and a one-sided t-test of the differences of the blocks gives a p-value.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int64

MAX_BLOCKS, MIN_BLOCKS = 20, 7  # blocks are as long as 20 of them allow


def block_days(
    days: Int64[np.ndarray, " V"], horizon_days: float = 0.0
) -> Int64[np.ndarray, " V"]:
    """The block of each window: neighbouring days, in at most `MAX_BLOCKS` blocks.

    A block is as long as the horizon at least: windows closer than that share targets.
    """
    distinct, day = np.unique(days, return_inverse=True)
    shortest = max(int(np.ceil(horizon_days)), 1)
    count = max(min(len(distinct) // shortest, MAX_BLOCKS), 1)
    return np.asarray(day * count // len(distinct))


def p_values(
    differences: Float64[np.ndarray, "D N"], observed: Bool[np.ndarray, "D N"]
) -> Float64[np.ndarray, " N"]:
    """The one-sided p-value of each location's mean difference (Student's t over blocks).

    1 where fewer than `MIN_BLOCKS` blocks are observed, or where a difference is not finite. What
    neighbouring blocks still have in common, over all locations, widens the error of the mean.
    """
    count = observed.sum(axis=0)
    usable = (count >= MIN_BLOCKS) & np.isfinite(differences).all(axis=0)
    counted = observed & usable
    n = np.maximum(count, 2)
    mean = np.where(counted, differences, 0).sum(axis=0) / n
    centred = np.where(counted, differences - mean, 0)
    deviation = np.sqrt(np.square(centred).sum(axis=0) / (n - 1))
    scaled = np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 0)
    error = deviation * np.sqrt((1 + 2 * shared_correlation(scaled, counted)) / n)
    t = np.divide(mean, error, out=np.where(mean > 0, np.inf, -np.inf), where=error > 0)
    from scipy.special import stdtr  # noqa: PLC0415 (forecasts do without)

    return np.where(usable & (mean > 0), stdtr(n - 1, -t), 1.0)


def shared_correlation(
    scaled: Float64[np.ndarray, "D N"], observed: Bool[np.ndarray, "D N"]
) -> float:
    """The correlation of neighbouring blocks over all locations, not below 0.

    Args:
        scaled: differences with mean 0 and deviation 1; 0 where not observed.
        observed: which of them are observed.
    """
    pairs = observed[1:] & observed[:-1]
    if not pairs.any():
        return 0.0
    products = float((scaled[1:] * scaled[:-1]).sum() / pairs.sum())
    unbiased = products + 1 / float(observed.sum(axis=0).max())  # subtracting a mean lowers it
    return max(unbiased, 0.0)
