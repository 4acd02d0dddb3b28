"""The weighted average of members' forecasts, where each of them can forecast."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64

from forecaster.estimators.predictor import WindowForecasts


@dataclass(frozen=True, eq=False)
class MemberForecasts:
    """The forecasts of a member, of the first n of N locations, and where they are to be used."""

    outputs: WindowForecasts
    available: Bool[np.ndarray, "B N"]


def average_means(
    means: Sequence[tuple[Float32[np.ndarray, "B K n"], Bool[np.ndarray, "B N"]]],
    weights: Float64[np.ndarray, " M"],
) -> Float32[np.ndarray, "B K N"]:
    """Σ_m w_m ŷ_m over the members that can forecast a location from an origin.

    Args:
        means: of each member, and where they are to be used.
        weights: of the members.
    """
    shares = share_weights(weights, [available for _, available in means])
    return _sum([mean for mean, _ in means], shares)


def average(
    forecasts: Sequence[MemberForecasts],
    mean_weights: Float64[np.ndarray, " M"],
    relative_weights: Float64[np.ndarray, " M"],
) -> WindowForecasts:
    """All outputs, averaged: quantiles as their distances from the mean, with its weights.

    Members without quantiles of their own move the mean only.
    """
    available = [each.available for each in forecasts]
    shares = share_weights(mean_weights, available)
    mean = _sum([each.outputs.mean for each in forecasts], shares)
    with_quantiles = [n for n, each in enumerate(forecasts) if each.outputs.quantiles.shape[1]]
    quantiles = np.empty((len(mean), 0, *mean.shape[1:]), dtype=np.float32)
    if with_quantiles:
        parts = [forecasts[n].outputs for n in with_quantiles]
        quantile_weights = share_weights(
            mean_weights[with_quantiles], [available[n] for n in with_quantiles]
        )
        distances = [part.quantiles - part.mean[:, None] for part in parts]
        levels = [
            _sum([distance[:, q] for distance in distances], quantile_weights)
            for q in range(distances[0].shape[1])
        ]
        quantiles = mean[:, None] + np.stack(levels, axis=1)
    relatives = [each.outputs.relative for each in forecasts]
    relative = None
    if all(part is not None for part in relatives):
        numbers = [part for part in relatives if part is not None]
        relative = _sum(numbers, share_weights(relative_weights, available))
    return WindowForecasts(mean, quantiles, relative)


def share_weights(
    weights: Float64[np.ndarray, " M"], available: Sequence[Bool[np.ndarray, "B N"]]
) -> Float32[np.ndarray, "M B N"]:
    """The weights of the members that can forecast, scaled up to add up to 1.

    Where all of these have a weight of 0, they weigh the same.
    """
    usable = np.stack(available)
    weighted = weights[:, None, None] * usable
    total = weighted.sum(axis=0)
    count = np.maximum(usable.sum(axis=0), 1)
    shares = np.where(total > 0, weighted / np.where(total > 0, total, 1), usable / count)
    return np.asarray(shares, dtype=np.float32)


def _sum(
    parts: Sequence[Float32[np.ndarray, "B K n"]], shares: Float32[np.ndarray, "M B N"]
) -> Float32[np.ndarray, "B K N"]:
    """Σ_m of parts times shares; parts may lack the last locations, where shares are 0."""
    B, K, _ = parts[0].shape
    total = np.zeros((B, K, shares.shape[2]), dtype=np.float32)
    for part, share in zip(parts, shares, strict=True):
        n = part.shape[2]
        total[..., :n] += part * share[:, None, :n]
    return total
