"""Calibrated quantiles of a forecast, by the residuals of the validation windows.

The base is an estimator's own quantiles, or its forecast plus the quantiles of its validation
residuals. Each level of each step ahead is then shifted by one correction, in units of the spread
σ of a location at that hour of the day, so that its share of validation outcomes lies below it
(conformal calibration). Where residuals are used twice they are cross-fitted: each half of the
days is compared with the quantiles of the other half.

A count x stands for the interval from x − ½ to x + ½ (`resolution` 1). Otherwise the many equal
counts of a quiet location would all lie on one side of a quantile. The calibrated quantiles are
those of x + V with V uniform in ± ½, whose probability integral transform is uniform (randomised
PIT: Smith 1985; Czado, Gneiting and Held 2009).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import ArtifactError, DataError, count_of
from forecaster.estimators.intervals.residuals import (
    DAY_HOURS,
    MIDDLE,
    count_needed,
    find_rank,
    fit_offsets,
    fit_spread,
    pick_hours,
)
from forecaster.panel.panel import Panel

LONG_DAYS = 28  # validation days from which halves alternate by week, not by day
MIN_STORED = 1_440  # last validation windows whose residuals a run stores; more if levels need it
LONG_HORIZON = 24  # steps; beyond it the windows stored are bounded by STORED_BYTES
STORED_BYTES = 50_000_000  # of stored residuals, and of which are observed
MAX_LEVELS = 99  # as in a recipe
LEAST_SIZE = 0.05  # counts per step, of a location whose size tells its spread
POISSON_SLOPE = 0.5  # of log σ by log size, where too few locations tell it
MIN_SIZES = 5  # locations that tell it

LEVELS = "intervals.levels"
CORRECTIONS = "intervals.corrections"
SPREAD = "intervals.spread"
OFFSETS = "intervals.offsets"
RESIDUALS = "intervals.residuals"
OBSERVED = "intervals.observed"
HOURS = "intervals.hours"
DAYS = "intervals.days"
RESOLUTION = "intervals.resolution"  # absent: 0
WIDEST = "intervals.widest"  # absent where the widths are those of the offsets, and in older runs

# Steps of the sequence R3 (Roberts 2018): 1/g, 1/g² and 1/g³ with g⁴ = g + 1. It fills an
# interval more evenly than random numbers, and is the same on every machine.
EVEN_STEPS = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes of V validation windows, compared with their forecasts."""

    residuals: Float32[np.ndarray, "V K N"]  # y − ŷ; NaN: missing
    quantiles: Float32[np.ndarray, "V Q K N"]  # the estimator's own, − ŷ; Q = 0: it has none
    hours: Int64[np.ndarray, "V K"]  # of the local day, of the targets
    days: Int64[np.ndarray, " V"]  # local, of the origins
    resolution: float = 0.0  # an outcome x stands for x ± half of it: 1 for counts


@dataclass(frozen=True, eq=False)
class Base:
    """Forecasts, their quantiles before any correction, and the unit of corrections."""

    forecast: Float32[np.ndarray, "*B K N"]
    quantiles: Float32[np.ndarray, "*B Q K N"]
    spread: Float32[np.ndarray, "*B K N"]
    relative: Float32[np.ndarray, "*B K N"] | None = None  # for MAPE; None: the forecast itself
    doubt: Float32[np.ndarray, "*B N"] | None = None  # spreads that the outer quantiles move out
    closed: Bool[np.ndarray, "*B K N"] | None = None  # where there is nothing to forecast
    # The largest width between the outermost quantiles at that hour of validation; None: unknown.
    widest: Float32[np.ndarray, "*B K N"] | None = None

    @property
    def nbytes(self) -> int:
        """The memory of all its arrays."""
        return sum(array.nbytes for array in vars(self).values() if array is not None)

    def row(self, number: int) -> "Base":
        """The part of one origin."""
        return self._select(lambda array: array[number])

    def rows(self, numbers: Int64[np.ndarray, " n"]) -> "Base":
        """The part of some origins."""
        return self._select(lambda array: array[numbers])

    def at(self, locations: Sequence[int]) -> "Base":
        """The part of some locations, in this order."""
        return self._select(lambda array: array[..., list(locations)])

    def _select(self, part: Callable[[np.ndarray], np.ndarray]) -> "Base":
        optional = (self.relative, self.doubt, self.closed, self.widest)
        parts = (None if array is None else part(array) for array in optional)
        return Base(part(self.forecast), part(self.quantiles), part(self.spread), *parts)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Turns forecasts, or an estimator's own quantiles, into calibrated quantiles."""

    levels: tuple[float, ...]
    corrections: Float64[np.ndarray, "Q K"]  # in spreads
    spread: Float32[np.ndarray, "24 N"]
    offsets: Float32[np.ndarray, "24 Q K N"] | None  # None: the estimator has quantiles itself
    floor: float  # the lowest possible value: 0 for counts
    resolution: float = 0.0  # of the outcomes it was calibrated with
    sizes: "SpreadBySize | None" = None  # for locations whose spread is NaN, being new
    widest: Float32[np.ndarray, "24 K N"] | None = None  # of the estimator's own; None: unknown

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray], kind: str) -> "Calibration":
        """The calibration stored in a run."""
        new = np.isnan(arrays[SPREAD]).any()
        return Calibration(
            sizes=SpreadBySize.fit(arrays, kind) if new else None,
            levels=tuple(arrays[LEVELS].tolist()),
            corrections=arrays[CORRECTIONS],
            spread=arrays[SPREAD],
            offsets=arrays.get(OFFSETS),
            floor=0.0 if kind == "count" else -np.inf,
            resolution=float(arrays.get(RESOLUTION, 0.0)),
            widest=find_widest(arrays[OFFSETS]) if OFFSETS in arrays else arrays.get(WIDEST),
        )

    def base(
        self,
        forecast: Float32[np.ndarray, "B K N"],
        quantiles: Float32[np.ndarray, "B P K N"],
        hours: Int64[np.ndarray, "B K"],
        relative: Float32[np.ndarray, "B K N"] | None = None,
    ) -> Base:
        """The estimator's own quantiles, or ŷ plus the quantiles of residuals at that hour."""
        spread = self.spread[hours]
        if self.sizes is not None:
            spread = np.where(np.isnan(spread), self.sizes.spread(forecast), spread)
        if self.offsets is not None:
            offsets = pick_hours(self.offsets, hours)
            if self.sizes is not None and self.sizes.offsets is not None:
                usual = pick_hours(self.sizes.offsets[..., None], hours) * spread[:, None]
                offsets = np.where(np.isnan(offsets), usual, offsets)
            quantiles = forecast[:, None] + offsets
        if quantiles.shape[1] != len(self.levels):
            raise ArtifactError(f"the run lacks {OFFSETS}, which its estimator needs")
        widest = None if self.widest is None else pick_hours(self.widest[:, None], hours)[:, 0]
        return Base(forecast, quantiles, spread, relative, widest=widest)

    def correct(
        self, base: Base, corrections: Float64[np.ndarray, "*#B Q K"]
    ) -> Float32[np.ndarray, "*B Q K N"]:
        """The quantiles to show: not below the floor; the outermost two contain the forecast."""
        return self.cut(self.widen(base, corrections))

    def cut(self, quantiles: Float32[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*shape"]:
        """The quantiles, none below the floor."""
        return np.asarray(np.maximum(quantiles, np.float32(self.floor)))

    def widen(
        self, base: Base, corrections: Float64[np.ndarray, "*#B Q K"]
    ) -> Float32[np.ndarray, "*B Q K N"]:
        """The shifted quantiles; the outermost two are moved out to the forecast if need be.

        Where recent values are in doubt, all move out: the outermost by `doubt` spreads, the
        others in proportion to |α − ½|. The outermost are then at least as far apart as they would
        be from the widest of that hour of validation, also where the floor cuts the lower one:
        the window without the wrong value may have had a wide interval.
        """
        widened = self.shift(base, corrections)
        if base.doubt is not None and base.doubt.any():
            outward = np.array(self.levels, dtype=np.float32) - np.float32(MIDDLE)
            outward /= max(np.abs(outward).max(), np.finfo(np.float32).tiny)
            moves = (
                outward[:, None, None] * (base.doubt[..., None, :] * base.spread)[..., None, :, :]
            )
            widened = np.maximum(widened + moves, np.float32(self.floor - self.resolution / 2))
            if base.widest is not None:
                self._keep_wide(widened, base, corrections)
        if self.levels and self.levels[0] < MIDDLE:
            lowest = widened[..., 0, :, :]  # a view
            np.minimum(lowest, base.forecast, out=lowest)
        if self.levels and self.levels[-1] > MIDDLE:
            highest = widened[..., -1, :, :]
            np.maximum(highest, base.forecast, out=highest)
        if base.closed is not None:  # nothing is certain: 0 … 0; or there is no forecast
            nothing = np.float32(self.floor if np.isfinite(self.floor) else np.nan)
            widened = np.where(base.closed[..., None, :, :], nothing, widened)
        return widened

    def _keep_wide(
        self,
        quantiles: Float32[np.ndarray, "*B Q K N"],
        base: Base,
        corrections: Float64[np.ndarray, "*#B Q K"],
    ) -> None:
        """Moves the outermost quantiles out to the largest width, where values are in doubt."""
        if base.doubt is None or base.widest is None:
            return
        # Corrections inwards count as none: an interval that contains its forecast may not shrink.
        outward = np.maximum(corrections[..., -1, :], 0) - np.minimum(corrections[..., 0, :], 0)
        stretch = outward.astype(np.float32)[..., None]
        doubt = base.doubt[..., None, :]
        doubtful, spreads = doubt > 0, stretch + 2 * doubt
        width = np.where(doubtful, base.widest + spreads * base.spread, np.float32(0))
        low, high = quantiles[..., 0, :, :], quantiles[..., -1, :, :]  # views
        low -= np.maximum(width - (high - low), 0) / 2
        np.maximum(low, np.float32(self.floor), out=low, where=doubtful)
        np.maximum(high, low + width, out=high, where=doubtful)

    def shift(
        self, base: Base, corrections: Float64[np.ndarray, "*#B Q K"]
    ) -> Float32[np.ndarray, "*B Q K N"]:
        """Return q_α + c_α σ, ascending, and not below the interval that the floor stands for."""
        c = corrections.astype(np.float32)[..., None]
        shifted = base.quantiles + c * base.spread[..., None, :, :]
        crossed = shifted[..., 1:, :, :] < shifted[..., :-1, :, :]
        if crossed.any():  # rare, and sorting is slow
            shifted = np.sort(shifted, axis=-3)
        return np.asarray(np.maximum(shifted, np.float32(self.floor - self.resolution / 2)))


@dataclass(frozen=True, eq=False)
class SpreadBySize:
    """The spread σ of a location by its size, for new locations: log σ = a + b log ŷ."""

    intercept: float  # a
    slope: float  # b; 0 for measurements
    offsets: Float32[np.ndarray, "24 Q K"] | None  # median quantiles of residuals, in spreads

    @staticmethod
    def fit(arrays: Mapping[str, np.ndarray], kind: str) -> "SpreadBySize":
        """Fit it to the locations that the run knows; NaN: the others."""
        spread, means = arrays[SPREAD], arrays["shared.fill"].mean(axis=0, dtype=np.float64)
        sigma = np.sqrt(np.square(spread, dtype=np.float64).mean(axis=0))
        fitted = np.isfinite(sigma) & (sigma > 0) & np.isfinite(means)
        slope, size = 0.0, np.zeros(int(fitted.sum()))
        if kind == "count":
            size = np.log(np.maximum(means[fitted], LEAST_SIZE))
            slope = POISSON_SLOPE
        log_sigma = np.log(sigma[fitted])
        if kind == "count" and len(size) >= MIN_SIZES and np.ptp(size) > 0:
            slope = float(np.clip(np.polyfit(size, log_sigma, 1)[0], 0.0, 1.0))
        intercept = float(np.mean(log_sigma - slope * size)) if len(size) else 0.0
        offsets = None
        if OFFSETS in arrays and fitted.any():
            scaled = arrays[OFFSETS][..., fitted] / spread[:, None, None, fitted]
            offsets = np.nan_to_num(np.nanmedian(scaled, axis=3)).astype(np.float32)
        return SpreadBySize(intercept, slope, offsets)

    def spread(self, forecast: Float32[np.ndarray, "B K N"]) -> Float32[np.ndarray, "B K N"]:
        """The spread of locations with such forecasts."""
        if not self.slope:
            return np.full_like(forecast, np.exp(self.intercept))
        size = np.log(np.maximum(forecast, np.float32(LEAST_SIZE)))
        return np.asarray(np.exp(self.intercept + self.slope * size), dtype=np.float32)


def no_intervals(K: int, N: int) -> dict[str, np.ndarray]:
    """The arrays of a run without quantiles."""
    spread = np.zeros((DAY_HOURS, N), dtype=np.float32)
    return {LEVELS: np.empty(0), CORRECTIONS: np.empty((0, K)), SPREAD: spread}


def local_hours(panel: Panel, steps: Int64[np.ndarray, "B K"]) -> Int64[np.ndarray, "B K"]:
    """The hour of the local day of each step, which may lie after the panel."""
    local = panel.clock.local(panel.instants(steps.reshape(-1)))
    seconds = (local - local.astype("datetime64[D]")).astype(np.int64)
    return np.asarray(seconds.reshape(steps.shape) // 3600)


def calibrate(
    outcomes: Outcomes, levels: Sequence[float], deviation: Float32[np.ndarray, " N"]
) -> dict[str, np.ndarray]:
    """Calibrate quantiles of these levels; returns the arrays that a run stores.

    Args:
        outcomes: of the validation windows.
        levels: in (0, 1), ascending.
        deviation: of the training values, for locations with too few validation outcomes.
    """
    refuse_few(len(outcomes.days), levels)
    residuals, hours, resolution = outcomes.residuals, outcomes.hours, outcomes.resolution
    spread = fit_spread(residuals, hours, deviation)
    if resolution:  # the variance of x + V
        spread = np.sqrt(np.square(spread) + np.float32(resolution**2 / 12))
    arrays = {LEVELS: np.array(levels), SPREAD: spread}
    arrays |= {RESOLUTION: np.array(resolution)} if resolution else {}
    spaced = replace(outcomes, residuals=space_out(residuals, resolution))
    base = outcomes.quantiles
    if not base.shape[1]:
        arrays[OFFSETS] = fit_offsets(spaced.residuals, hours, levels, spread)
        base = cross_fit(spaced, levels, spread)
    else:
        arrays[WIDEST] = fit_widest(base, hours)
    arrays[CORRECTIONS] = fit_corrections(spaced.residuals[:, None] - base, levels, spread[hours])
    stored = choose_stored(residuals.shape, levels)
    observed = np.isfinite(residuals[stored])
    arrays |= {RESIDUALS: np.where(observed, residuals[stored], np.float32(0)), OBSERVED: observed}
    return {**arrays, HOURS: hours[stored], DAYS: outcomes.days[stored]}


def choose_stored(shape: tuple[int, ...], levels: Sequence[float]) -> Int64[np.ndarray, " S"]:
    """The validation windows whose residuals a run stores: the last ones.

    Of a long horizon with many locations, fewer windows, evenly spaced over all of them.
    """
    V, K, N = shape
    needed = 2 * count_needed(levels)
    last = np.arange(max(V - max(MIN_STORED, needed), 0), V)
    most = max(STORED_BYTES // max(K * N * 5, 1), needed)  # float32 and bool
    if K <= LONG_HORIZON or len(last) <= most:
        return last
    return np.asarray(np.linspace(0, V - 1, most).round(), dtype=np.int64)


def find_widest(quantiles: Float32[np.ndarray, "V Q K N"]) -> Float32[np.ndarray, "V K N"]:
    """The widths between the outermost quantiles around a forecast, which they contain."""
    if not quantiles.shape[1]:
        return np.zeros((len(quantiles), *quantiles.shape[2:]), dtype=np.float32)
    low, high = quantiles[:, 0], quantiles[:, -1]
    return np.asarray(np.maximum(high, 0) - np.minimum(low, 0))


def fit_widest(
    quantiles: Float32[np.ndarray, "V Q K N"], hours: Int64[np.ndarray, "V K"]
) -> Float32[np.ndarray, "24 K N"]:
    """The largest widths by hour of the targets; of all hours where there is none.

    0 where another model is served, whose quantiles are not these (NaN).
    """
    widths = np.nan_to_num(find_widest(quantiles))
    widest = np.tile(widths.max(axis=0), (DAY_HOURS, 1, 1))
    for k in range(widths.shape[1]):
        for hour in np.unique(hours[:, k]).tolist():
            widest[hour, k] = widths[hours[:, k] == hour, k].max(axis=0)
    return widest


def space_out(
    residuals: Float32[np.ndarray, "V K N"], resolution: float
) -> Float32[np.ndarray, "V K N"]:
    """The residuals of x + V in place of x, with V spaced evenly in ± half the resolution."""
    windows, steps, locations = (
        np.arange(n) * a for n, a in zip(residuals.shape, EVEN_STEPS, strict=True)
    )
    turns = windows[:, None, None] + steps[:, None] + locations
    return np.asarray(residuals + (resolution * (turns % 1 - 0.5)).astype(np.float32))


def find_wrong(arrays: Mapping[str, np.ndarray], N: int, K: int) -> list[str]:
    """The names of arrays that cannot come from `calibrate`; a run without quantiles has none."""
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
    if RESOLUTION in arrays:
        needed[RESOLUTION] = "float64", ()
    if WIDEST in arrays:
        needed[WIDEST] = "float32", (DAY_HOURS, K, N)
    wrong = [n for n, form in needed.items() if (arrays[n].dtype.name, arrays[n].shape) != form]
    ascending = 0 < Q <= MAX_LEVELS and (np.diff(levels, axis=0, prepend=0, append=1) > 0).all()
    wrong += [LEVELS] if not ascending else []
    wrong += [HOURS] if ((hours < 0) | (hours >= DAY_HOURS)).any() else []
    wrong += [RESOLUTION] if (arrays.get(RESOLUTION, np.zeros(())) < 0).any() else []
    return wrong + ([SPREAD] if (arrays[SPREAD] < 0).any() else [])


def refuse_few(windows: int, levels: Sequence[float], advice: str = "") -> None:
    """Refuse too few validation windows for the outermost level: both halves need enough.

    Args:
        windows: the number of validation windows.
        levels: of the quantiles.
        advice: what the panel lacks, which is said first; empty: it is long enough.
    """
    needed = 2 * count_needed(levels)
    if windows < needed:
        names = ", ".join(f"{level:g}" for level in levels)
        first = f"{advice.removeprefix('. ')}. Intervals" if advice else "intervals"
        raise DataError(
            f"{first}: {count_of(windows, 'validation window')}, and quantiles {names} need "
            f"≥ {needed:,}; validate on a longer span, or ask for quantiles nearer 0.5"
        )


def cross_fit(
    outcomes: Outcomes, levels: Sequence[float], spread: Float32[np.ndarray, "24 N"]
) -> Float32[np.ndarray, "V Q K N"]:
    """The quantiles of residuals for each half of the days, fitted on the other half."""
    half = halve(outcomes.days)
    base = np.empty((len(half), len(levels), *outcomes.residuals.shape[1:]), dtype=np.float32)
    for rows in (half, ~half):
        offsets = fit_offsets(outcomes.residuals[~rows], outcomes.hours[~rows], levels, spread)
        base[rows] = pick_hours(offsets, outcomes.hours[rows])
    return base


def halve(days: Int64[np.ndarray, " V"]) -> Bool[np.ndarray, " V"]:
    """Which windows are in the first half: every other week, or every other day of a short span.

    Neighbouring windows share outcomes, so they stay together. Where this leaves less than a
    third of the windows in one half, the span is cut in the middle.
    """
    since = days - days.min()
    length = 7 if since.max() + 1 >= LONG_DAYS else 1
    _, block = np.unique(since // length, return_inverse=True)  # numbered without gaps
    half = np.asarray(block % 2 == 0)
    if min(half.sum(), (~half).sum()) < len(half) / 3:
        half = np.arange(len(half)) < len(half) // 2
    return half


def fit_corrections(
    misses: Float32[np.ndarray, "V Q K N"],
    levels: Sequence[float],
    spread: Float32[np.ndarray, "V K N"],
) -> Float64[np.ndarray, "Q K"]:
    """c_α of each step ahead: the α-quantile of (y − q_α) / σ over windows and locations.

    Locations with σ = 0, whose forecasts were always right, are left out.
    """
    K = misses.shape[2]
    corrections = np.zeros((len(levels), K))
    for k in range(K):
        varied = spread[:, k] > 0
        for number, level in enumerate(levels):
            scores = misses[:, number, k][varied] / spread[:, k][varied]
            scores = scores[np.isfinite(scores)]
            rank = int(find_rank(level, np.array(len(scores))))
            if 1 <= rank <= len(scores):
                corrections[number, k] = np.partition(scores, rank - 1)[rank - 1]
    return corrections
