"""Replacement of missing values by the training mean of their hour of the week."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from scipy.sparse import csr_array

from forecaster.panel.panel import Panel
from forecaster.panel.parts import stack_layers

_BLOCK = 128  # columns at a time


@dataclass(frozen=True, eq=False)
class Fill:
    """Training means by hour of the week, which replace missing values."""

    values: Float32[np.ndarray, "W N"]
    covariates: Float32[np.ndarray, "W P"]
    local_covariates: Float32[np.ndarray, "Q W N"]


def fit_fill(panel: Panel, train: Bool[np.ndarray, " M"]) -> Fill:
    """Return the hour-of-week means of the training steps."""
    slots = panel.clock.slot_of_season(panel.times)[train]
    M, W = len(panel.values), panel.clock.season_slots
    local = [slot_means(layer[:M][train], slots, W) for layer in panel.local_covariates.values]
    return Fill(
        values=slot_means(panel.values[train], slots, W),
        covariates=slot_means(panel.covariates.values[:M][train], slots, W),
        local_covariates=stack_layers(local, W, len(panel.locations)),
    )


def fill_missing(panel: Panel, fill: Fill) -> Panel:
    """Return the panel with every missing value and covariate replaced by its mean.

    Outside its opening hours a location has its last value of before.
    """
    slots = panel.clock.slot_of_season(panel.known_times)
    layers = panel.local_covariates.values
    local = [_filled(v, m, slots) for v, m in zip(layers, fill.local_covariates, strict=True)]
    return panel.with_data(
        _carry_over_closings(panel, _filled(panel.values, fill.values, slots)),
        _filled(panel.covariates.values, fill.covariates, slots),
        stack_layers(local, len(slots), len(panel.locations)),
    )


def _carry_over_closings(
    panel: Panel, filled: Float32[np.ndarray, "M N"]
) -> Float32[np.ndarray, "M N"]:
    """The filled values, with the last value of before at closed steps."""
    if not panel.locations.has_hours:
        return filled
    steps = np.arange(len(filled))[:, None]
    is_open = panel.within_hours(0, len(filled))
    last = np.maximum.accumulate(np.where(is_open, steps, -1), axis=0)
    return np.take_along_axis(filled, np.where(last < 0, steps, last), axis=0)


def slot_means(
    values: Float32[np.ndarray, "T n"], slots: Int64[np.ndarray, " T"], count: int
) -> Float32[np.ndarray, "W n"]:
    """Return the mean of each slot; else the mean of all slots, or 0 without any value."""
    pick = csr_array((np.ones(len(slots)), (slots, np.arange(len(slots)))), (count, len(slots)))
    parts = []
    for start in range(0, max(values.shape[1], 1), _BLOCK):  # in double precision, a few at a time
        block = values[:, start : start + _BLOCK]
        observed = np.isfinite(block)
        sums: Float[np.ndarray, "W k"] = pick @ np.where(observed, block, 0).astype(np.float64)
        counts: Float[np.ndarray, "W k"] = pick @ observed.astype(np.float64)
        overall = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
        parts.append(np.where(counts > 0, sums / np.maximum(counts, 1), overall))
    return np.concatenate(parts, axis=1).astype(np.float32)


def _filled(
    values: Float32[np.ndarray, "T n"],
    means: Float32[np.ndarray, "W n"],
    slots: Int64[np.ndarray, " S"],
) -> Float32[np.ndarray, "T n"]:
    filled = values.copy(order="K")
    steps, columns = np.nonzero(np.isnan(filled))
    filled[steps, columns] = means[slots[steps], columns]
    return filled
