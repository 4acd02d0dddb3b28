"""Quantiles of validation residuals, by hour of the day, step ahead and location."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

DAY_HOURS = 24
REACHES = (0, 1, 2, 12)  # hours to either side that are pooled until there are enough
MIN_SPREAD = 10  # residuals needed for a spread
MIDDLE = 0.5


def count_needed(levels: Sequence[float]) -> int:
    """The number of outcomes that the outermost level needs: ⌈1 / min(α, 1 − α)⌉ − 1.

    With fewer, even the most extreme outcome is not far enough out.
    """
    outermost = min(min(level, 1 - level) for level in levels)
    return int(np.ceil(1 / outermost - 1e-9)) - 1


def find_rank(level: float, count: Int64[np.ndarray, "*n"]) -> Int64[np.ndarray, "*n"]:
    """The rank, from the lowest of n outcomes, of a level's conformal quantile.

    ⌈(n + 1) α⌉ for α ≥ 0.5: at least a share α of outcomes is no higher. ⌊(n + 1) α⌋ below 0.5:
    less than a share α is strictly lower, which matters where many outcomes are equal.
    """
    position = (count + 1) * level
    outer = np.ceil(position - 1e-9) if level >= MIDDLE else np.floor(position + 1e-9)
    return np.asarray(outer, dtype=np.int64)


def take_quantiles(
    outcomes: Float[np.ndarray, " V *n"], levels: Sequence[float]
) -> Float[np.ndarray, " Q *n"]:
    """The quantiles over the first axis; NaN where too few outcomes are observed.

    Interpolated at position (n + 1) α: on average a share α of new outcomes lies below, for any n.
    """
    ordered = np.sort(outcomes, axis=0)  # NaN go last
    count = np.asarray(np.isfinite(outcomes).sum(axis=0))
    enough = count >= count_needed(levels)
    quantiles = []
    for level in levels:
        position = np.where(enough, np.clip((count + 1) * level, 1, count), 1)
        low = position.astype(np.int64)
        high = np.minimum(low + 1, np.maximum(count, 1))
        ends = [np.take_along_axis(ordered, rank[None] - 1, axis=0)[0] for rank in (low, high)]
        quantiles.append(ends[0] + (position - low) * (ends[1] - ends[0]))
    return np.where(enough, np.stack(quantiles), np.nan)


def fit_spread(
    residuals: Float32[np.ndarray, "V K N"],
    hours: Int64[np.ndarray, "V K"],
    deviation: Float32[np.ndarray, " N"],
) -> Float32[np.ndarray, "24 N"]:
    """σ = √(mean (y − ŷ)²) of each location by hour of the day, over all steps ahead.

    An hour is pooled with its neighbours, or with all hours where they have too few outcomes;
    where those are too few as well, the deviation of the training values is used.
    """
    observed = np.isfinite(residuals)
    squares = np.square(np.where(observed, residuals, 0), dtype=np.float64)
    spread = np.empty((DAY_HOURS, residuals.shape[2]), dtype=np.float32)
    for hour in range(DAY_HOURS):
        pools = [_hours_apart(hours, hour) <= reach for reach in (1, DAY_HOURS)]
        spread[hour] = deviation
        for near in reversed(pools):
            count = observed[near].sum(axis=0)
            mean = squares[near].sum(axis=0) / np.maximum(count, 1)
            spread[hour] = np.where(count >= MIN_SPREAD, np.sqrt(mean), spread[hour])
    return spread


def fit_offsets(
    residuals: Float32[np.ndarray, "V K N"],
    hours: Int64[np.ndarray, "V K"],
    levels: Sequence[float],
    spread: Float32[np.ndarray, "24 N"],
) -> Float32[np.ndarray, "24 Q K N"]:
    """The quantiles of residuals by hour of the day, step ahead and location.

    Where an hour has too few residuals, its neighbours are pooled with it, then all hours; where
    the location has too few, the quantiles of all locations in units of their spread are used.
    """
    K, N = residuals.shape[1:]
    offsets = np.full((DAY_HOURS, len(levels), K, N), np.nan, dtype=np.float32)
    for k in range(K):
        pooled = _pool_locations(residuals[:, k], spread[hours[:, k]], levels)
        for hour in range(DAY_HOURS):
            apart = _hours_apart(hours[:, k], hour)
            quantiles = offsets[hour, :, k]  # a view
            for reach in REACHES:
                lacking = np.isnan(quantiles[0])
                near = residuals[apart <= reach, k]
                if lacking.any() and len(near):
                    quantiles[:, lacking] = take_quantiles(near[:, lacking], levels)
            substitute = pooled[:, None] * spread[hour]
            quantiles[:] = np.where(np.isnan(quantiles), substitute, quantiles)
    return offsets


def _hours_apart(hours: Int64[np.ndarray, "*V"], hour: int) -> Int64[np.ndarray, "*V"]:
    """The distance to an hour on the 24-hour clock."""
    apart = np.abs(hours - hour)
    return np.asarray(np.minimum(apart, DAY_HOURS - apart))


def _pool_locations(
    residuals: Float32[np.ndarray, "V N"],
    spread: Float32[np.ndarray, "V N"],
    levels: Sequence[float],
) -> Float64[np.ndarray, " Q"]:
    """The quantiles of (y − ŷ) / σ over all locations."""
    scores = residuals[spread > 0] / spread[spread > 0]
    quantiles = take_quantiles(scores, levels) if len(scores) else np.zeros(len(levels))
    return np.asarray(np.nan_to_num(quantiles), dtype=np.float64)


def pick_hours(
    offsets: Float32[np.ndarray, "24 Q K N"], hours: Int64[np.ndarray, "B K"]
) -> Float32[np.ndarray, "B Q K N"]:
    """The offsets of each step ahead at its hour of the day."""
    picked = offsets[hours, :, np.arange(hours.shape[1])]  # [B, K, Q, N]
    return picked.swapaxes(1, 2)
