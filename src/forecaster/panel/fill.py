"""What is usual at each step of the season, and the replacement of missing values by it."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.clock.clock import WEEKDAYS, Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import stack_layers
from forecaster.panel.past_only import carried_steps, carry_covariates, carry_local

ENOUGH = 10  # values from which a mean needs no neighbours
HOUR_MINUTES = 60
_BLOCK = 128  # columns at a time


@dataclass(frozen=True, eq=False)
class Fill:
    """Training means by step of the season, which replace missing values."""

    values: Float32[np.ndarray, "W N"]
    covariates: Float32[np.ndarray, "W P"]
    local_covariates: Float32[np.ndarray, "Q W N"]


def fit_fill(panel: Panel, train: Bool[np.ndarray, " M"]) -> Fill:
    """Return the means of the training steps by step of the season: by hour of the week.

    Steps below an hour that training never saw have the location's mean of that time of day.
    """
    clock, M = panel.clock, len(panel.values)
    slots = clock.slot_of_season(panel.times)[train]
    W, reach = clock.season_slots, smoothing_reach(clock)
    layers = panel.local_covariates.values
    local = [slot_means(layer[:M][train], slots, W, reach) for layer in layers]
    return Fill(
        values=_lean_on_days(panel.values[train], slots, clock),
        covariates=slot_means(panel.covariates.values[:M][train], slots, W, reach),
        local_covariates=stack_layers(local, W, len(panel.locations)),
    )


def fill_missing(panel: Panel, fill: Fill) -> Panel:
    """Return the panel with every missing value and covariate replaced by its mean.

    A past-only covariate first keeps its last value for a day. Outside its opening hours a
    location has its last value of before.
    """
    slots = panel.clock.slot_of_season(panel.known_times)
    most = carried_steps(panel.clock)
    covariates = carry_covariates(panel.covariates, most).values
    layers = carry_local(panel.local_covariates, most).values
    local = [_filled(v, m, slots) for v, m in zip(layers, fill.local_covariates, strict=True)]
    filled = panel.with_data(
        _carry_over_closings(panel, _filled(panel.values, fill.values, slots)),
        _filled(covariates, fill.covariates, slots),
        stack_layers(local, len(slots), len(panel.locations)),
    )
    return _fill_vintages(filled, fill.covariates[slots])


def _fill_vintages(panel: Panel, usual: Float32[np.ndarray, "S P"]) -> Panel:
    """The panel whose covariates have a value at every origin: the usual one before any other."""
    shared = panel.covariates
    if shared.vintages is None:
        return panel
    columns = [shared.names.index(name) for name in shared.vintages.names]
    complete = shared.vintages.complete(usual[:, columns])
    return replace(panel, covariates=replace(shared, vintages=complete))


def _carry_over_closings(
    panel: Panel, filled: Float32[np.ndarray, "M N"]
) -> Float32[np.ndarray, "M N"]:
    """The filled values, with the last value of before at closed steps."""
    if not panel.locations.has_hours:
        return filled
    steps = np.arange(len(filled), dtype=np.int32)[:, None]
    is_open = panel.within_hours(0, len(filled))
    last = np.maximum.accumulate(np.where(is_open, steps, np.int32(-1)), axis=0)
    return np.take_along_axis(filled, np.where(last < 0, steps, last), axis=0)


@dataclass(frozen=True, eq=False)
class UsualValues:
    """Means by slot, and the number of values that each comes from."""

    means: Float32[np.ndarray, "W n"]
    counts: Float64[np.ndarray, "W n"]  # with shares of neighbours' values
    visits: Float64[np.ndarray, "W n"]  # the same of one step: neighbours are no further weeks


def smoothing_reach(clock: Clock) -> int:
    """The number of neighbouring steps on which a mean may lean: those within an hour."""
    return max(HOUR_MINUTES // clock.step_minutes - 1, 0)


def _lean_on_days(
    values: Float32[np.ndarray, "T N"], slots: Int64[np.ndarray, " T"], clock: Clock
) -> Float32[np.ndarray, "W N"]:
    """Return the mean of each slot; below an hour, of one without values that of other days."""
    W, reach = clock.season_slots, smoothing_reach(clock)
    weekly = usual_values(values, slots, W, reach)
    unseen = weekly.counts == 0
    if not reach or not unseen.any():
        return weekly.means
    D = W // len(WEEKDAYS)
    daily = usual_values(values, slots % D, D, reach).means
    return np.where(unseen, np.tile(daily, (len(WEEKDAYS), 1)), weekly.means)


def slot_means(
    values: Float32[np.ndarray, "T n"], slots: Int64[np.ndarray, " T"], count: int, reach: int = 0
) -> Float32[np.ndarray, "W n"]:
    """Return the mean of each slot; else the mean of all slots, or 0 without any value."""
    return usual_values(values, slots, count, reach).means


def usual_values(
    values: Float32[np.ndarray, "T n"], slots: Int64[np.ndarray, " T"], count: int, reach: int = 0
) -> UsualValues:
    """Return the mean of each slot and the number of its values.

    Args:
        values: of some steps; NaN: missing.
        slots: of the same steps.
        count: the number of slots of the season.
        reach: the most neighbouring slots, on either side, on which a slot with few values leans.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415 (only fits need it)

    pick = csr_array((np.ones(len(slots)), (slots, np.arange(len(slots)))), (count, len(slots)))
    means = np.empty((count, values.shape[1]), dtype=np.float32)
    numbers = np.empty((2, count, values.shape[1]))
    for start in range(0, values.shape[1], _BLOCK):  # in double precision, a few at a time
        block = values[:, start : start + _BLOCK]
        observed = np.isfinite(block)
        sums: Float64[np.ndarray, "W k"] = pick @ np.where(observed, block, 0).astype(np.float64)
        counts: Float64[np.ndarray, "W k"] = pick @ observed.astype(np.float64)
        overall = sums.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)
        sums, counts, widths = _smooth(sums, counts, reach)
        present = counts > 0
        means[:, start : start + _BLOCK] = np.where(
            present, sums / np.where(present, counts, 1), overall
        )
        numbers[:, :, start : start + _BLOCK] = counts, counts / widths
    return UsualValues(means, *numbers)


def _smooth(
    sums: Float64[np.ndarray, "W k"], counts: Float64[np.ndarray, "W k"], reach: int
) -> tuple[Float64[np.ndarray, "W k"], Float64[np.ndarray, "W k"], Float64[np.ndarray, "W k"]]:
    """Sums and counts, of slots with few values with shares of their neighbours', and h + 1.

    A slot d away counts 1 − |d| / (h + 1). Each slot has the smallest h of at most `reach` that
    gives it enough values; the last slot of the season is a neighbour of the first.
    """
    smooth = np.stack([sums, counts])
    parts, boxes, cones = smooth.copy(), smooth.copy(), smooth.copy()
    widths = np.ones_like(counts)
    for h in range(1, reach + 1):
        lacking = smooth[1] < ENOUGH
        if not lacking.any():
            break
        boxes += np.roll(parts, h, axis=1) + np.roll(parts, -h, axis=1)  # Σ over |d| ≤ h
        cones += boxes  # (h + 1) Σ (1 − |d| / (h + 1))
        smooth, widths = (
            np.where(lacking, cones / (h + 1), smooth),
            np.where(lacking, h + 1, widths),
        )
    return smooth[0], smooth[1], widths


def _filled(
    values: Float32[np.ndarray, "T n"],
    means: Float32[np.ndarray, "W n"],
    slots: Int64[np.ndarray, " S"],
) -> Float32[np.ndarray, "T n"]:
    filled = values.copy(order="K")
    steps, columns = np.nonzero(np.isnan(filled))
    filled[steps, columns] = means[slots[steps], columns]
    return filled
