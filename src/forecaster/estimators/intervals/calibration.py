"""Calibrated quantiles of a forecast, by the residuals of the validation windows.

An estimator's own quantiles, or its forecast with the quantiles of its validation residuals, are
the base. Each level of each step ahead is then moved by one correction, in units of the spread
σ of a location at that hour of the day, so that as many validation outcomes lie below it as it
says (conformal calibration). Where residuals serve twice they are cross-fitted: each half of the
days is compared with the quantiles of the other half.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import ArtifactError, DataError, count_of
from forecaster.estimators.intervals.residuals import (
    DAY_HOURS,
    count_needed,
    find_rank,
    fit_offsets,
    fit_spread,
    pick_hours,
)
from forecaster.panel.panel import Panel

LONG_DAYS = 28  # validation days from which halves alternate by week, not by day
MIN_KEPT = (
    1_440  # validation windows whose residuals are remembered, the last ones, or as levels need
)
MAX_LEVELS = 99  # as a recipe may ask for

LEVELS = "intervals.levels"
CORRECTIONS = "intervals.corrections"
SPREAD = "intervals.spread"
OFFSETS = "intervals.offsets"
RESIDUALS = "intervals.residuals"
OBSERVED = "intervals.observed"
HOURS = "intervals.hours"
DAYS = "intervals.days"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of V validation windows, against their forecasts."""

    residuals: Float32[np.ndarray, "V K N"]  # y − ŷ; NaN: missing
    own: Float32[np.ndarray, "V Q K N"]  # the estimator's own quantiles − ŷ; Q = 0: it has none
    hours: Int64[np.ndarray, "V K"]  # of the local day, of the targets
    days: Int64[np.ndarray, " V"]  # local, of the origins


@dataclass(frozen=True, eq=False)
class Base:
    """Forecasts, their quantiles before any correction, and the unit of corrections."""

    forecast: Float32[np.ndarray, "*B K N"]
    quantiles: Float32[np.ndarray, "*B Q K N"]
    spread: Float32[np.ndarray, "*B K N"]

    def row(self, number: int) -> "Base":
        """Those of one origin."""
        return Base(self.forecast[number], self.quantiles[number], self.spread[number])

    def rows(self, numbers: Int64[np.ndarray, " n"]) -> "Base":
        """Those of some origins."""
        return Base(self.forecast[numbers], self.quantiles[numbers], self.spread[numbers])

    def at(self, locations: Sequence[int]) -> "Base":
        """Those of some locations, in this order."""
        parts = (self.forecast, self.quantiles, self.spread)
        return Base(*(part[..., list(locations)] for part in parts))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Makes calibrated quantiles of forecasts, or of an estimator's own quantiles."""

    levels: tuple[float, ...]
    corrections: Float64[np.ndarray, "Q K"]  # in spreads
    spread: Float32[np.ndarray, "24 N"]
    offsets: Float32[np.ndarray, "24 Q K N"] | None  # None: the estimator has quantiles itself
    floor: float  # below which nothing can come: 0 for counts

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray], kind: str) -> "Calibration":
        """The calibration that a run keeps."""
        return Calibration(
            levels=tuple(arrays[LEVELS].tolist()),
            corrections=arrays[CORRECTIONS],
            spread=arrays[SPREAD],
            offsets=arrays.get(OFFSETS),
            floor=0.0 if kind == "count" else -np.inf,
        )

    def base(
        self,
        forecast: Float32[np.ndarray, "B K N"],
        own: Float32[np.ndarray, "B P K N"],
        hours: Int64[np.ndarray, "B K"],
    ) -> Base:
        """Return the estimator's own quantiles, or ŷ and those of residuals at that hour."""
        if self.offsets is not None:
            own = forecast[:, None] + pick_hours(self.offsets, hours)
        if own.shape[1] != len(self.levels):
            raise ArtifactError(f"a run without {OFFSETS} of an estimator that needs them")
        return Base(forecast, own, self.spread[hours])

    def correct(
        self, base: Base, corrections: Float64[np.ndarray, "*#B Q K"]
    ) -> Float32[np.ndarray, "*B Q K N"]:
        """Return q_α + c_α σ, in order and nowhere below what can come."""
        c = corrections.astype(np.float32)[..., None]
        moved = base.quantiles + c * base.spread[..., None, :, :]
        if (np.diff(moved, axis=-3) < 0).any():  # seldom, and sorting takes longer than all else
            moved = np.sort(moved, axis=-3)
        return np.asarray(np.maximum(moved, np.float32(self.floor)))


def no_intervals(K: int, N: int) -> dict[str, np.ndarray]:
    """The arrays of a run without quantiles."""
    spread = np.zeros((DAY_HOURS, N), dtype=np.float32)
    return {LEVELS: np.empty(0), CORRECTIONS: np.empty((0, K)), SPREAD: spread}


def local_hours(panel: Panel, steps: Int64[np.ndarray, "B K"]) -> Int64[np.ndarray, "B K"]:
    """Return the hour of the local day of each step, which may lie after the panel."""
    local = panel.clock.local(panel.start + steps.reshape(-1) * panel.clock.step)
    seconds = (local - local.astype("datetime64[D]")).astype(np.int64)
    return np.asarray(seconds.reshape(steps.shape) // 3600)


def calibrate(
    outcomes: Outcomes, levels: Sequence[float], deviation: Float32[np.ndarray, " N"]
) -> dict[str, np.ndarray]:
    """Return what a run remembers of its validation windows, for quantiles of these levels.

    Args:
        outcomes: what came, against what was forecast.
        levels: in (0, 1), ascending.
        deviation: of the training values, for locations that validation says too little of.
    """
    refuse_few(len(outcomes.days), levels)
    residuals, hours = outcomes.residuals, outcomes.hours
    spread = fit_spread(residuals, hours, deviation)
    arrays = {LEVELS: np.array(levels), SPREAD: spread}
    base = outcomes.own
    if not base.shape[1]:
        arrays[OFFSETS] = fit_offsets(residuals, hours, levels, spread)
        base = cross_fit(outcomes, levels, spread)
    arrays[CORRECTIONS] = fit_corrections(residuals[:, None] - base, levels, spread[hours])
    last = slice(-max(MIN_KEPT, 2 * count_needed(levels)), None)
    seen = np.isfinite(residuals[last])
    arrays |= {RESIDUALS: np.where(seen, residuals[last], np.float32(0)), OBSERVED: seen}
    return {**arrays, HOURS: hours[last], DAYS: outcomes.days[last]}


def find_wrong(arrays: Mapping[str, np.ndarray], N: int, K: int) -> list[str]:
    """Return which arrays of a run cannot be what `calibrate` gives; an older run has none."""
    if LEVELS not in arrays:
        return []
    levels, hours = arrays[LEVELS], arrays[HOURS]
    Q, V = levels.size, len(hours)
    needed = {
        LEVELS: ("float64", (Q,)),
        CORRECTIONS: ("float64", (Q, K)),
        SPREAD: ("float32", (DAY_HOURS, N)),
        RESIDUALS: ("float32", (V, K, N)),
        OBSERVED: ("bool", (V, K, N)),
        HOURS: ("int64", (V, K)),
        DAYS: ("int64", (V,)),
    }
    if OFFSETS in arrays:
        needed[OFFSETS] = "float32", (DAY_HOURS, Q, K, N)
    wrong = [n for n, form in needed.items() if (arrays[n].dtype.name, arrays[n].shape) != form]
    rising = 0 < Q <= MAX_LEVELS and (np.diff(levels, axis=0, prepend=0, append=1) > 0).all()
    wrong += [LEVELS] if not rising else []
    wrong += [HOURS] if ((hours < 0) | (hours >= DAY_HOURS)).any() else []
    return wrong + ([SPREAD] if (arrays[SPREAD] < 0).any() else [])


def refuse_few(windows: int, levels: Sequence[float]) -> None:
    """Refuse too few validation windows for a level: both halves need enough."""
    need = 2 * count_needed(levels)
    if windows < need:
        asked = ", ".join(f"{level:g}" for level in levels)
        found = f"{count_of(windows, 'validation window')}, and quantiles {asked} need ≥ {need:,}"
        raise DataError(
            f"intervals: {found}; validate on a longer span, or ask for quantiles nearer 0.5"
        )


def cross_fit(
    outcomes: Outcomes, levels: Sequence[float], spread: Float32[np.ndarray, "24 N"]
) -> Float32[np.ndarray, "V Q K N"]:
    """Return, for each half of the days, the quantiles of residuals of the other half."""
    half = halve(outcomes.days)
    base = np.empty((len(half), len(levels), *outcomes.residuals.shape[1:]), dtype=np.float32)
    for rows in (half, ~half):
        offsets = fit_offsets(outcomes.residuals[~rows], outcomes.hours[~rows], levels, spread)
        base[rows] = pick_hours(offsets, outcomes.hours[rows])
    return base


def halve(days: Int64[np.ndarray, " V"]) -> Bool[np.ndarray, " V"]:
    """Tell which windows are in the one half: every other week, of a short span every other day.

    Neighbouring windows share their outcomes, so they stay together. Of a single day, or where a
    half would be less than a third, the first half of the windows is the one.
    """
    since = days - days.min()
    length = 7 if since.max() + 1 >= LONG_DAYS else 1
    _, block = np.unique(since // length, return_inverse=True)  # of those that occur
    half = np.asarray(block % 2 == 0)
    if min(half.sum(), (~half).sum()) < len(half) / 3:
        half = np.arange(len(half)) < len(half) // 2
    return half


def fit_corrections(
    misses: Float32[np.ndarray, "V Q K N"],
    levels: Sequence[float],
    spread: Float32[np.ndarray, "V K N"],
) -> Float64[np.ndarray, "Q K"]:
    """Return c_α of each step ahead: the α-quantile of (y − q_α) / σ over windows and locations.

    Where σ = 0 the forecast was always right, and says nothing of others.
    """
    K = misses.shape[2]
    corrections = np.zeros((len(levels), K))
    for k in range(K):
        some = spread[:, k] > 0
        for number, level in enumerate(levels):
            scores = misses[:, number, k][some] / spread[:, k][some]
            scores = scores[np.isfinite(scores)]
            rank = int(find_rank(level, np.array(len(scores))))
            if 1 <= rank <= len(scores):
                corrections[number, k] = np.partition(scores, rank - 1)[rank - 1]
    return corrections
