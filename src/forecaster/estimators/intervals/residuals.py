"""Quantiles of validation residuals, by hour of the day, step ahead and location."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

DAY_HOURS = 24
REACHES = (0, 1, 2, 12)  # hours to either side that are pooled until there are enough
MIN_SPREAD = 10  # residuals that a spread rests on
MIDDLE = 0.5


def count_needed(levels: Sequence[float]) -> int:
    """Return how many outcomes the outermost level needs: ⌈1 / min(α, 1 − α)⌉ − 1.

    Of fewer, even the most extreme one lies too far in.
    """
    outermost = min(min(level, 1 - level) for level in levels)
    return int(np.ceil(1 / outermost - 1e-9)) - 1


def find_rank(level: float, count: Int64[np.ndarray, "*n"]) -> Int64[np.ndarray, "*n"]:
    """Return which of so many outcomes, from the lowest, stands for a level: away from 0.5.

    ⌈(n + 1) α⌉ from 0.5 on: at least a share α is no higher. ⌊(n + 1) α⌋ below: less than a share
    α is strictly lower, which is what counts where many outcomes are equal.
    """
    place = (count + 1) * level
    outer = np.ceil(place - 1e-9) if level >= MIDDLE else np.floor(place + 1e-9)
    return np.asarray(outer, dtype=np.int64)


def take_quantiles(
    outcomes: Float[np.ndarray, " V *n"], levels: Sequence[float]
) -> Float[np.ndarray, " Q *n"]:
    """Return the quantiles over the first axis, NaN where too few outcomes are not NaN.

    Between two outcomes, at place (n + 1) α: on average a share α of others lies below, however
    many there are.
    """
    ordered = np.sort(outcomes, axis=0)  # NaN go last
    count = np.asarray(np.isfinite(outcomes).sum(axis=0))
    enough = count >= count_needed(levels)
    found = []
    for level in levels:
        place = np.where(enough, np.clip((count + 1) * level, 1, count), 1)
        low = place.astype(np.int64)
        high = np.minimum(low + 1, np.maximum(count, 1))
        ends = [np.take_along_axis(ordered, rank[None] - 1, axis=0)[0] for rank in (low, high)]
        found.append(ends[0] + (place - low) * (ends[1] - ends[0]))
    return np.where(enough, np.stack(found), np.nan)


def fit_spread(
    residuals: Float32[np.ndarray, "V K N"],
    hours: Int64[np.ndarray, "V K"],
    deviation: Float32[np.ndarray, " N"],
) -> Float32[np.ndarray, "24 N"]:
    """Return σ = √(mean (y − ŷ)²) of each location by hour of the day, steps ahead together.

    An hour is pooled with its neighbours. Where few were observed all hours are, and where that
    is not enough the deviation of the training values stands for it.
    """
    seen = np.isfinite(residuals)
    squares = np.square(np.where(seen, residuals, 0), dtype=np.float64)
    spread = np.empty((DAY_HOURS, residuals.shape[2]), dtype=np.float32)
    for hour in range(DAY_HOURS):
        rows = [_apart(hours, hour) <= reach for reach in (1, DAY_HOURS)]
        spread[hour] = deviation
        for near in reversed(rows):
            count = seen[near].sum(axis=0)
            mean = squares[near].sum(axis=0) / np.maximum(count, 1)
            spread[hour] = np.where(count >= MIN_SPREAD, np.sqrt(mean), spread[hour])
    return spread


def fit_offsets(
    residuals: Float32[np.ndarray, "V K N"],
    hours: Int64[np.ndarray, "V K"],
    levels: Sequence[float],
    spread: Float32[np.ndarray, "24 N"],
) -> Float32[np.ndarray, "24 Q K N"]:
    """Return the quantiles of residuals by hour of the day, step ahead and location.

    Where an hour has too few, its neighbours are pooled with it, then all hours; where a location
    has too few at all, those of all locations in units of their spread.
    """
    K, N = residuals.shape[1:]
    offsets = np.full((DAY_HOURS, len(levels), K, N), np.nan, dtype=np.float32)
    for k in range(K):
        alike = _pool_locations(residuals[:, k], spread[hours[:, k]], levels)
        for hour in range(DAY_HOURS):
            apart, found = _apart(hours[:, k], hour), offsets[hour, :, k]
            for reach in REACHES:
                lacking = np.isnan(found[0])
                near = residuals[apart <= reach, k]
                if lacking.any() and len(near):
                    found[:, lacking] = take_quantiles(near[:, lacking], levels)
            found[:] = np.where(np.isnan(found), alike[:, None] * spread[hour], found)
    return offsets


def _apart(hours: Int64[np.ndarray, "*V"], hour: int) -> Int64[np.ndarray, "*V"]:
    """Return how many hours of the clock lie between."""
    away = np.abs(hours - hour)
    return np.asarray(np.minimum(away, DAY_HOURS - away))


def _pool_locations(
    residuals: Float32[np.ndarray, "V N"],
    spread: Float32[np.ndarray, "V N"],
    levels: Sequence[float],
) -> Float64[np.ndarray, " Q"]:
    """Return quantiles of (y − ŷ) / σ over all locations."""
    scores = residuals[spread > 0] / spread[spread > 0]
    found = take_quantiles(scores, levels) if len(scores) else np.zeros(len(levels))
    return np.asarray(np.nan_to_num(found), dtype=np.float64)


def pick_hours(
    offsets: Float32[np.ndarray, "24 Q K N"], hours: Int64[np.ndarray, "B K"]
) -> Float32[np.ndarray, "B Q K N"]:
    """Return the offsets of each step ahead at its hour of the day."""
    picked = offsets[hours, :, np.arange(hours.shape[1])]  # [B, K, Q, N]
    return picked.swapaxes(1, 2)
