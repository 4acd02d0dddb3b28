"""Totals of a forecast over days and over its horizon, with their own intervals.

Quantiles do not add up: the sum of the upper quantiles of 24 hours is reached only when every hour
is high. A total is therefore calibrated like the forecast of a step: its validation residuals are
the sums of the residuals of the same windows over the same steps ahead.

A span of whole days is calibrated by the windows of all hours, a shorter one by those that end at
about the same hour of the day. A closed step adds nothing. Where a few residuals of a window are
missing, its sum is scaled up; where more are missing than a history may miss, it does not count.
Locations without enough residuals, such as new ones, and those whose recent values are in doubt
have the sums of their steps' quantiles: an interval that is too wide.

Then they follow the outcomes of the last weeks' days, as far as forecasts from these are given
(`past_totals`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.errors import ConfigError
from forecaster.estimators.intervals.calibration import (
    DAYS,
    HOURS,
    LEVELS,
    OBSERVED,
    RESIDUALS,
    Base,
    Calibration,
    fit_corrections,
    halve,
    local_hours,
    no_intervals,
    space_out,
)
from forecaster.estimators.intervals.residuals import (
    DAY_HOURS,
    count_needed,
    take_quantiles,
)
from forecaster.estimators.table import quantile_name
from forecaster.estimators.totals.past_totals import PastTotals, correct_levels
from forecaster.panel.panel import Panel, local_texts
from forecaster.splits import MAX_FILLED

HORIZON = "horizon"  # the name of the total of all steps
NEAR_HOURS = 1  # to either side, of windows that calibrate a part of a day
FEWEST_NEAR = 60  # such windows; with fewer those of all hours are taken


@dataclass(frozen=True)
class Span:
    """Consecutive steps ahead that are added up."""

    name: str  # the local date, or HORIZON
    first: int  # step ahead, from 1
    last: int  # included
    is_whole: bool  # whether it consists of whole days

    @property
    def steps(self) -> slice:
        """Its part of an array by step ahead."""
        return slice(self.first - 1, self.last)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Validation residuals of a run's locations, or of an area."""

    values: Float32[np.ndarray, "V K N"]  # y − ŷ; NaN: missing
    hours: Int64[np.ndarray, "V K"]  # of the local day, of the targets
    days: Int64[np.ndarray, " V"]  # local, of the origins

    @staticmethod
    def of(run: Run) -> "Residuals":
        """The residuals that a run stores."""
        arrays = run.arrays
        if RESIDUALS not in arrays:
            raise ConfigError(
                "the run stores no validation residuals to calibrate totals; train it again"
            )
        values = np.where(arrays[OBSERVED], arrays[RESIDUALS], np.float32(np.nan))
        return Residuals(values, arrays[HOURS], arrays[DAYS])


class Totals(NamedTuple):
    """The totals of one forecast over J spans."""

    spans: Sequence[Span]
    y_hat: Float32[np.ndarray, "J N"]  # the sums of the means
    quantiles: Float32[np.ndarray, "Q J N"]  # of the sums


@dataclass(frozen=True, eq=False)
class TotalIntervals:
    """The calibrated distances of quantiles from the totals of J spans."""

    offsets: Float32[np.ndarray, "Q J N"]  # NaN: too few residuals
    spread: Float32[np.ndarray, "J N"]
    corrections: Float64[np.ndarray, "Q J"]


def find_spans(panel: Panel, origin: int, horizon: int) -> list[Span]:
    """The whole local days that a horizon covers, and the horizon if it is not one of them."""
    local = panel.clock.local(panel.instants(np.arange(origin, origin + horizon + 2)))
    dates = local.astype("datetime64[D]")
    begins = np.flatnonzero(dates[1:] != dates[:-1]) + 1  # steps ahead that begin a day
    spans = [
        Span(str(dates[first]), first, end - 1, is_whole=True)
        for first, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True)
        if end > first + 1  # a day of one step is no total
    ]
    seconds = horizon * panel.clock.step_minutes * 60
    whole = Span(HORIZON, 1, horizon, is_whole=seconds % (DAY_HOURS * 3600) == 0)
    return spans if any(span.steps == whole.steps for span in spans) else [*spans, whole]


def sum_residuals(residuals: Residuals, spans: Sequence[Span]) -> Float32[np.ndarray, "V J N"]:
    """The residuals of totals; NaN where too few steps are observed."""
    observed = np.isfinite(residuals.values)
    sums = []
    for span in spans:
        count = observed[:, span.steps].sum(axis=1)
        usual = count.max(axis=0)  # closed steps are never observed
        total = np.nansum(residuals.values[:, span.steps], axis=1, dtype=np.float64)
        scaled = total * (usual / np.maximum(count, 1))
        enough = (count >= (1 - MAX_FILLED) * usual) & (count > 0)
        sums.append(np.where(enough, scaled, np.nan))
    return np.stack(sums, axis=1).astype(np.float32)


def calibrate_totals(
    residuals: Residuals,
    spans: Sequence[Span],
    hours: Int64[np.ndarray, " J"],
    levels: Sequence[float],
    resolution: float,
) -> TotalIntervals:
    """Calibrate the quantiles of totals by the sums of validation residuals.

    Args:
        residuals: of the validation windows.
        spans: the steps to add up.
        hours: of the local day, of the last step of each span.
        levels: of the quantiles.
        resolution: 1 for counts, as for single steps.
    """
    sums = space_out(sum_residuals(residuals, spans), resolution)
    for j, (span, hour) in enumerate(zip(spans, hours.tolist(), strict=True)):
        if not span.is_whole:
            apart = np.abs(residuals.hours[:, span.last - 1] - hour)
            near = np.minimum(apart, DAY_HOURS - apart) <= NEAR_HOURS
            if near.sum() >= FEWEST_NEAR:
                sums[~near, j] = np.nan
    count = np.isfinite(sums).sum(axis=0)
    squares = np.nansum(np.square(sums, dtype=np.float64), axis=0)
    spread = np.sqrt(squares / np.maximum(count, 1)).astype(np.float32)
    half = halve(residuals.days)
    base = np.full((len(sums), len(levels), *sums.shape[1:]), np.nan, dtype=np.float32)
    for rows in (half, ~half):
        base[rows] = take_quantiles(sums[~rows], levels)
    misses = sums[:, None] - base
    enough = count >= 2 * count_needed(levels)
    return TotalIntervals(
        offsets=np.where(enough, take_quantiles(sums, levels), np.nan).astype(np.float32),
        spread=spread,
        corrections=fit_corrections(misses, levels, np.broadcast_to(spread, sums.shape)),
    )


def follow_outcomes(
    spans: Sequence[Span], intervals: TotalIntervals, calibration: Calibration, past: PastTotals
) -> TotalIntervals:
    """The intervals of totals, corrected by the outcomes of the last days.

    Args:
        spans: the steps to add up.
        intervals: of these spans, as calibrated on validation.
        calibration: of single steps; its levels, lowest value and resolution are taken.
        past: forecasts of earlier days, by the same locations.
    """
    corrections = [
        correct_levels(
            intervals.corrections[:, j],
            *past.of_steps(span.steps),
            intervals.offsets[:, j],
            intervals.spread[j],
            calibration,
        )
        for j, span in enumerate(spans)
    ]
    return replace(intervals, corrections=np.stack(corrections, axis=1))


def total_forecasts(
    spans: Sequence[Span],
    intervals: TotalIntervals,
    calibration: Calibration,
    forecast: Float32[np.ndarray, "K N"],
    quantiles: Float32[np.ndarray, "Q K N"],
    doubtful: Bool[np.ndarray, " N"],
) -> tuple[Float32[np.ndarray, "J N"], Float32[np.ndarray, "Q J N"]]:
    """The totals of a forecast and their quantiles.

    Args:
        spans: the steps to add up.
        intervals: of these spans.
        calibration: of single steps; its levels and lowest value are taken.
        forecast: the mean of each step; NaN: closed.
        quantiles: of each step, as shown; NaN: closed.
        doubtful: locations whose recent values are in doubt.
    """
    closed = np.isnan(forecast) | (
        (forecast == 0) & (quantiles == 0).all(axis=0) & np.isfinite(calibration.floor)
    )
    totals, steps = (
        np.stack([_sum(part[..., span.steps, :]) for span in spans], axis=-2)
        for part in (forecast, quantiles)
    )
    base = Base(totals, totals + intervals.offsets, intervals.spread)
    calibrated = calibration.correct(base, intervals.corrections)
    summed = np.isnan(calibrated[0]) | doubtful
    is_closed = np.stack([closed[span.steps].all(axis=0) for span in spans])
    nothing = np.float32(0 if np.isfinite(calibration.floor) else np.nan)
    shown = np.where(summed, steps, calibrated)
    return np.where(is_closed, nothing, totals), np.where(is_closed, nothing, shown)


class TotalCalibration:
    """The calibrated totals of some locations of a run; intervals are kept by their spans."""

    def __init__(self, run: Run, residuals: Residuals | None) -> None:
        """Take the residuals of a run.

        Args:
            run: its levels, horizon and kind of values are taken.
            residuals: of the locations, or of an area; None: the run has no quantiles.
        """
        arrays = {**no_intervals(run.recipe.lags.horizon, 0), **run.arrays}
        self._calibration = Calibration.from_arrays(arrays, run.about["kind"])
        self._residuals, self._horizon = residuals, run.recipe.lags.horizon
        self._intervals: dict[tuple[tuple[int, int, int], ...], TotalIntervals] = {}

    @staticmethod
    def of(run: Run, ids: Sequence[str]) -> "TotalCalibration":
        """The totals of some of the run's locations, in this order."""
        if not run.arrays.get(LEVELS, np.empty(0)).size:
            return TotalCalibration(run, None)
        position = {name: n for n, name in enumerate(run.about["ids"])}
        residuals = Residuals.of(run)
        values = residuals.values[..., [position[name] for name in ids]]
        return TotalCalibration(run, replace(residuals, values=values))

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of the quantiles."""
        return self._calibration.levels

    def forecast(
        self,
        panel: Panel,
        origin: int,
        forecast: Float32[np.ndarray, "K N"],
        quantiles: Float32[np.ndarray, "Q K N"],
        doubtful: Bool[np.ndarray, " N"] | None = None,
        past: PastTotals | None = None,
    ) -> Totals:
        """The totals of a forecast.

        Args:
            panel: for the local days.
            origin: the last observed step, in the panel.
            forecast: the mean of each step; NaN: closed.
            quantiles: of each step, as shown.
            doubtful: locations whose recent values are in doubt; None: none.
            past: forecasts of earlier days, by whose outcomes intervals are corrected; None: they
                stay as calibrated on validation.
        """
        spans = find_spans(panel, origin, self._horizon)
        if self._residuals is None:
            totals = np.stack([_sum(forecast[span.steps]) for span in spans])
            return Totals(spans, totals, np.empty((0, *totals.shape), dtype=np.float32))
        hours = local_hours(panel, np.array([[origin + span.last for span in spans]]))[0]
        key = tuple((s.first, s.last, h) for s, h in zip(spans, hours.tolist(), strict=True))
        if key not in self._intervals:
            resolution = self._calibration.resolution
            self._intervals[key] = calibrate_totals(
                self._residuals, spans, hours, self.levels, resolution
            )
        if doubtful is None:
            doubtful = np.zeros(forecast.shape[1], dtype=bool)
        intervals = self._intervals[key]
        if past is not None:
            intervals = follow_outcomes(spans, intervals, self._calibration, past)
        return Totals(
            spans,
            *total_forecasts(spans, intervals, self._calibration, forecast, quantiles, doubtful),
        )


def sum_table(
    table: pd.DataFrame,
    panel: Panel,
    origin: int,
    run: Run,
    residuals: Residuals | None = None,
    past: PastTotals | None = None,
) -> pd.DataFrame:
    """The totals of a forecast's table, a row for each location and span.

    Args:
        table: as `Estimator.forecast` returns it, or a part of it.
        panel: as for the forecast.
        origin: the last observed step.
        run: with the locations of the table, or of an area.
        residuals: of an area; None: those of the run's locations.
        past: forecasts of earlier days, by the run's locations, or of the area; None: unknown.
    """
    times = panel.instants(np.arange(origin, origin + run.recipe.lags.horizon + 1))
    steps = pd.DatetimeIndex(times[1:]).tz_localize("UTC")
    ids = list(dict.fromkeys(table["unique_id"]))
    calibration = (
        TotalCalibration.of(run, ids) if residuals is None else TotalCalibration(run, residuals)
    )
    names = [quantile_name(level) for level in calibration.levels]
    forecast, *quantiles = (
        table.pivot_table(index="ds", columns="unique_id", values=name, sort=False)
        .reindex(index=steps, columns=ids)
        .to_numpy(np.float32)
        for name in ("y_hat", *names)
    )
    stacked = np.array(quantiles, dtype=np.float32).reshape(len(names), *forecast.shape)
    reasons = _read_reasons(table, ids)
    if past is not None and residuals is None:
        position = {identity: n for n, identity in enumerate(run.about["ids"])}
        past = past.locations([position[identity] for identity in ids])
    doubtful = _are_doubtful(reasons)
    totals = calibration.forecast(panel, origin, forecast, stacked, doubtful, past)
    first = [span.first for span in totals.spans]
    J, N = totals.y_hat.shape
    columns = {
        "unique_id": np.repeat(np.array(ids, dtype=object), J),
        "day": np.tile(np.array([span.name for span in totals.spans], dtype=object), N),
        "ds": pd.DatetimeIndex(np.tile(times[first], N)).tz_localize("UTC"),
        "ds_local": np.tile(np.array(local_texts(panel, times[first]), dtype=object), N),
        "steps": np.tile([span.last - span.first + 1 for span in totals.spans], N),
        "cutoff": pd.DatetimeIndex(np.repeat(times[:1], N * J)).tz_localize("UTC"),
        "y_hat": totals.y_hat.T.reshape(-1),
        **{n: q.T.reshape(-1) for n, q in zip(names, totals.quantiles, strict=True)},
    }
    if any(reasons):
        columns["degraded"] = np.repeat(np.array(reasons, dtype=object), J)
    rows = pd.DataFrame(columns)
    return rows[rows["y_hat"].notna()].reset_index(drop=True)


def _sum(values: Float32[np.ndarray, "*B k N"]) -> Float32[np.ndarray, "*B N"]:
    """Sums over steps ahead; closed steps, which have no forecast, add nothing."""
    return np.asarray(np.nansum(values, axis=-2, dtype=np.float64), dtype=np.float32)


def _read_reasons(table: pd.DataFrame, ids: Sequence[str]) -> list[str]:
    """Why the forecasts of locations are degraded; that single steps are closed is no reason."""
    if "degraded" not in table.columns:
        return [""] * len(ids)
    texts = table["degraded"].str.replace(r"^closed(; |$)", "", regex=True)
    return [str(text) for text in texts.groupby(table["unique_id"]).first().reindex(list(ids))]


def _are_doubtful(reasons: Sequence[str]) -> Bool[np.ndarray, " N"]:
    """Which locations have a reason of their own to be degraded, not shared by all."""
    parts = [set(filter(None, text.split("; "))) for text in reasons]
    shared = set.intersection(*parts) if parts else set()
    return np.array([bool(part - shared) for part in parts], dtype=bool)
