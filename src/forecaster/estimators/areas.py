"""Areas: sums of the forecasts of some locations, with their own intervals.

Quantiles do not add up: the sum of upper quantiles is reached only when every location is high at
once. An area is therefore treated as one more location. Its validation residuals are the sums of
its locations' residuals, calibrated, static and online, like those of a location.

Where a few residuals of its locations are missing, the sum is scaled up from the others; where
more are missing than a history may miss, so is the area's. Values are not scaled up: online, a
step at which any value is missing does not count.

A location that the run has never met has no residuals. Its errors are taken to be independent of
those of the others: the squares of the distances from forecast to quantile add up. A location that
is closed at all coming steps adds nothing, neither to the sum nor to its interval.
"""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some, nearest_name
from forecaster.estimators.base import Estimator
from forecaster.estimators.closed import describe_closed, find_closed
from forecaster.estimators.forecast_inputs import Changes, reach_origin
from forecaster.estimators.intervals.calibration import (
    DAYS,
    HOURS,
    LEVELS,
    OBSERVED,
    RESIDUALS,
    RESOLUTION,
    Calibration,
    Outcomes,
    calibrate,
)
from forecaster.estimators.intervals.residuals import DAY_HOURS, count_needed
from forecaster.estimators.match import is_new
from forecaster.estimators.predictor import ForecastOrigins, Predictor, WindowForecasts
from forecaster.estimators.table import quantile_name
from forecaster.estimators.totals.totals import Residuals, sum_table
from forecaster.estimators.what_if import CHANGED, WhatIf, read_changes
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations, check_names
from forecaster.panel.tables.columns import encode_ids, need_columns
from forecaster.reading.load import Table, load
from forecaster.splits import MAX_FILLED

RELATIVE = "y_relative"
DEGRADED = "degraded"
TINY = 1e-9  # in place of a spread of 0
SUMMED = ("y_hat", "y_hat_what_if", "difference")
log = logging.getLogger(__name__)
ChangeKey = frozenset[tuple[str, bytes]]  # changed covariates by name


@dataclass(frozen=True, eq=False)
class Areas:
    """The locations of each area; areas may share some."""

    names: tuple[str, ...]
    members: Bool[np.ndarray, "A N"]  # by the locations of a panel


def read_areas(source: Table, locations: Locations) -> Areas:
    """Read areas from a table of `area` and `id`, with a row for each location of each area."""
    table, name = load(source, texts=("area",))
    if "id" not in table.column_names and "unique_id" in table.column_names:
        table = table.rename_columns({"unique_id": "id"})
    need_columns(table, ("area", "id"), name)
    faults = Faults(name)
    (areas, names), (rows, ids) = (encode_ids(table[c], faults) for c in ("area", "id"))
    if not table.num_rows:
        faults.add("no rows; one for each location of each area is needed")
    faults.raise_any(DataError)
    check_names(names, "area", faults)
    like_locations = [area for area in names if area in locations.ids]
    if like_locations:
        count = f"{count_of(len(like_locations), 'area')} named like a location"
        faults.add(f"{count}: {name_some(like_locations)}; give it another name")
    _refuse_doubled(areas, rows, table, faults)
    position = {identity: n for n, identity in enumerate(locations.ids)}
    unknown = [identity for identity in ids if identity not in position]
    if unknown:
        count = f"{count_of(len(unknown), 'unknown id')}: {name_some(unknown)}"
        hint = nearest_name(unknown[0], locations.ids) or f"; known: {name_some(locations.ids)}"
        faults.add(f"{count}{hint}")
    faults.raise_any(DataError)
    members = np.zeros((len(names), len(locations)), dtype=bool)
    members[areas, np.array([position[identity] for identity in ids])[rows]] = True
    return Areas(tuple(names), members)


def add_areas(
    table: pd.DataFrame,
    areas: Areas,
    estimator: Estimator,
    panel: Panel,
    weather: Weather = "observed",
    what_if: WhatIf | None = None,
) -> pd.DataFrame:
    """Append a row for each area and coming step to a forecast's table.

    Args:
        table: as `estimator.forecast` returns it for the panel.
        areas: by the panel's locations.
        estimator: for the intervals of the sums.
        panel: as for the forecast.
        weather: as for the forecast.
        what_if: as for the forecast.
    """
    panel, origin = reach_origin(panel, table["cutoff"].iloc[0])
    run = estimator.adapt(panel, origin + 1)[0]
    predictor = estimator.predictor(panel, weather, origin + 1)
    horizon = predictor.calibration.corrections.shape[1]
    changes = None
    if what_if is not None:
        changes = read_changes(what_if, predictor.panel, origin, horizon)
    areas, ids = match_areas(areas, panel, predictor.panel), predictor.panel.locations.ids
    has_residuals = ~is_new(run) & ~_are_closed(run, predictor.panel, origin, horizon)
    calibrated = areas.members & has_residuals
    predictors = area_predictors(run, predictor, Areas(areas.names, calibrated))
    reasons = _read_reasons(table, describe_closed(run, predictor.panel, origin, horizon), ids)
    location = table["unique_id"].map({name: n for n, name in enumerate(ids)}).to_numpy()
    rows = [table]
    for number, name in enumerate(areas.names):
        area = next(predictors) if calibrated[number].any() else None
        chosen = areas.members[number]
        members = table[chosen[location]]
        if members.empty:
            log.warning("area %s: none of its locations is open", name)
            continue
        first = members.drop_duplicates("ds").sort_values("ds").reset_index(drop=True)
        sums = _sum_rows(members, first["ds"])
        columns = {column: sums[column].to_numpy() for column in sums.columns}
        if RELATIVE in table.columns:  # which does not add up
            columns[RELATIVE] = columns["y_hat"]
        if DEGRADED in table.columns:
            inside = {i for i, is_member in zip(ids, chosen, strict=True) if is_member}
            reason = _join_reasons({i: text for i, text in reasons.items() if i in inside})
            columns[DEGRADED] = np.full(len(first), reason, dtype=object)
        part = _sum_rows(table[calibrated[number][location]], first["ds"])
        quantiles = {}
        if area is not None:
            ahead = _steps_ahead(first, panel, origin)
            quantiles = _quantile_columns(area, np.array([origin]), changes, part.set_index(ahead))
        others = table[(chosen & ~has_residuals)[location]]
        if len(others):
            quantiles = _add_independent(sums, part, quantiles, others, predictor.calibration)
        whole = {"fallback": ""} if "fallback" in table.columns else {}  # of a location only
        rows.append(first.assign(unique_id=name, **columns, **quantiles, **whole))
    return pd.concat(rows, ignore_index=True)


def total_areas(
    table: pd.DataFrame,
    areas: Areas | None,
    estimator: Estimator,
    panel: Panel,
    weather: Weather = "observed",
) -> pd.DataFrame:
    """The totals over days and over the horizon of a forecast's table.

    Args:
        table: as `forecast` or `add_areas` returns it.
        areas: by the panel's locations; None: none.
        estimator: for the intervals of the totals.
        panel: as for the forecast.
        weather: the future covariates of the forecast.
    """
    panel, origin = reach_origin(panel, table["cutoff"].iloc[0])
    run, matched = estimator.adapt(panel, origin + 1)
    past = estimator.past_totals(panel, origin, weather)
    if areas is None:
        return sum_table(table, panel, origin, run, past=past)
    is_area = table["unique_id"].isin(areas.names)
    totals = [sum_table(table[~is_area], panel, origin, run, past=past)]
    residuals = Residuals.of(run) if estimator.quantile_levels else None
    for name, members in zip(areas.names, match_areas(areas, panel, matched).members, strict=True):
        rows = table[table["unique_id"] == name]
        if rows.empty:
            continue
        sums = residuals
        if residuals is not None:
            sums = replace(residuals, values=sum_members(run, members)[..., None])
        past_sums = None if past is None else past.sum_of(members)
        totals.append(sum_table(rows, panel, origin, run, sums, past_sums))
    return pd.concat(totals, ignore_index=True)


def match_areas(areas: Areas, panel: Panel, matched: Panel) -> Areas:
    """The areas by the locations of a panel that is matched to a run.

    Args:
        areas: by the panel's locations.
        panel: with the locations of the areas.
        matched: with the same locations in another order, and perhaps some that are absent.
    """
    position = {identity: n for n, identity in enumerate(matched.locations.ids)}
    members = np.zeros((len(areas.names), len(position)), dtype=bool)
    members[:, [position[identity] for identity in panel.locations.ids]] = areas.members
    return Areas(areas.names, members)


def area_predictors(run: Run, predictor: Predictor, areas: Areas) -> Iterator[Predictor]:
    """Yield a predictor of each area that has a location, as of a panel of one.

    Args:
        run: fitted.
        predictor: of the run's locations.
        areas: by the run's locations, which must have residuals.
    """
    if RESIDUALS not in run.arrays:
        raise ConfigError(
            "the run stores no validation residuals to calibrate sums; train it again"
        )
    cache = _ForecastCache(predictor.forecast_origins)
    for name, chosen in zip(areas.names, areas.members, strict=True):
        if not chosen.any():
            continue
        calibrated = calibrate_area(run, name, chosen)
        spreads = predictor.calibration.spread[:, chosen].mean(axis=0)
        weights = spreads / max(float(calibrated.spread.mean()), TINY)
        yield Predictor(
            panel=_as_panel(predictor.panel, chosen),
            forecast_origins=partial(cache.sum, chosen, weights),
            calibration=calibrated,
            counts=partial(_count_area, predictor, chosen),
            observed=partial(_observe_area, predictor, chosen),
        )


def calibrate_area(run: Run, name: str, members: Bool[np.ndarray, " N"]) -> Calibration:
    """The calibration of the sum of some locations, from their validation residuals."""
    arrays, levels = run.arrays, tuple(run.arrays[LEVELS].tolist())
    sums = sum_members(run, members)[..., None]  # [V, K, 1]
    least, needed = int(np.isfinite(sums).sum(axis=0).min()), 2 * count_needed(levels)
    if least < needed:
        message = f"area {name!r}: {count_of(least, 'validation window')} with enough values"
        raise DataError(f"{message}, and quantiles need ≥ {needed:,}; leave out dead locations")
    V, K, _ = sums.shape
    no_quantiles = np.empty((V, 0, K, 1), dtype=np.float32)
    resolution = float(arrays.get(RESOLUTION, 0.0))  # a sum of counts is a count
    outcomes = Outcomes(sums, no_quantiles, arrays[HOURS], arrays[DAYS], resolution)
    calibrated = calibrate(outcomes, levels, np.ones(1, dtype=np.float32))
    return Calibration.from_arrays(calibrated, run.about["kind"])


def sum_members(run: Run, members: Bool[np.ndarray, " N"]) -> Float32[np.ndarray, "V K"]:
    """The sums of the validation residuals of an area's locations; NaN: too few observed.

    A location with opening hours adds nothing at an hour of the day at which it is never open.
    """
    observed, residuals = (run.arrays[name][..., members] for name in (OBSERVED, RESIDUALS))
    values = np.where(observed, residuals, np.float32(np.nan))
    if "hours" in run.about:
        hours = run.arrays[HOURS]
        seen = np.stack([observed[hours == hour].any(axis=0) for hour in range(DAY_HOURS)])
        closed = ~seen[hours] & seen.any(axis=0) & observed.any(axis=-1, keepdims=True)
        values = np.where(closed, np.float32(0), values)
    return sum_observed(values)


def sum_observed(residuals: Float32[np.ndarray, "*B n"]) -> Float32[np.ndarray, "*B"]:
    """Sums over the locations of an area, scaled up for missing ones; NaN: too few observed."""
    observed = np.isfinite(residuals)
    share = observed.mean(axis=-1)
    total = np.where(observed, residuals, 0).sum(axis=-1, dtype=np.float64)
    scaled = total / np.maximum(share, 1e-9)
    return np.where(share >= 1 - MAX_FILLED, scaled, np.nan).astype(np.float32)


def _quantile_columns(
    area: Predictor, origin: Int64[np.ndarray, " 1"], changes: Changes | None, sums: pd.DataFrame
) -> dict[str, Float32[np.ndarray, " K"]]:
    """The quantiles of an area by the names of their columns; they contain the sums shown.

    Args:
        area: its predictor.
        origin: the last observed step.
        changes: covariates ahead to replace.
        sums: the sums shown, by the number of the step ahead, from 0.
    """
    shown_steps = sums.index.to_numpy()
    prediction = area.predict(origin)
    predictions = {"": prediction}
    if changes is not None:
        predictions[CHANGED] = area.predict_changed(prediction, origin, changes)
    columns = {}
    for suffix, each in predictions.items():
        base = each.base.row(0)
        shown = base.forecast.copy()
        shown[shown_steps, 0] = sums[f"y_hat{suffix}"]  # rounded in another order
        base = replace(base, forecast=shown)
        quantiles = area.calibration.correct(base, each.corrections[0])
        for level, quantile in zip(area.calibration.levels, quantiles, strict=True):
            columns[f"{quantile_name(level)}{suffix}"] = quantile[shown_steps, 0]
    return columns


def _steps_ahead(rows: pd.DataFrame, panel: Panel, origin: int) -> Int64[np.ndarray, " k"]:
    """The number of the step ahead of each row, from 0; some are left out where none is open."""
    times = rows["ds"].dt.tz_convert(None).to_numpy("datetime64[s]")
    steps = panel.step_index(times)
    return np.asarray(steps - origin - 1, dtype=np.int64)


def _are_closed(run: Run, panel: Panel, origin: int, horizon: int) -> Bool[np.ndarray, " N"]:
    """Which locations are closed at all coming steps."""
    closed = find_closed(run, panel, np.array([origin]), horizon)
    if closed is None:
        return np.zeros(len(panel.locations), dtype=bool)
    return np.asarray(closed[0].all(axis=0))


def _sum_rows(rows: pd.DataFrame, times: pd.Series) -> pd.DataFrame:
    """The sums of the rows of some locations at each of these times; 0 without any row."""
    summed = [name for name in SUMMED if name in rows.columns]
    sums = rows.groupby("ds", sort=True)[summed].sum().reindex(times, fill_value=0)
    return sums.astype(np.float32)


def _add_independent(
    sums: pd.DataFrame,
    part: pd.DataFrame,
    quantiles: Mapping[str, Float32[np.ndarray, " K"]],
    others: pd.DataFrame,
    calibration: Calibration,
) -> dict[str, Float32[np.ndarray, " K"]]:
    """The quantiles of an area by column: the squares of independent distances add up.

    A distance below the forecast counts as a negative square. So the sums ascend with the level,
    and the outermost quantiles contain the forecast, as those of the parts do.

    Args:
        sums: of the whole area, by time.
        part: the sums of its locations with residuals.
        quantiles: of that part, by column; none without such locations.
        others: the rows of the locations without.
        calibration: of the locations.
    """
    columns = {}
    suffixes = [suffix for suffix in ("", CHANGED) if f"y_hat{suffix}" in sums.columns]
    for suffix, level in itertools.product(suffixes, calibration.levels):
        mean, column = f"y_hat{suffix}", f"{quantile_name(level)}{suffix}"
        distance = others[column].astype(np.float64) - others[mean]
        squares = (distance * distance.abs()).groupby(others["ds"]).sum()
        total = squares.reindex(sums.index, fill_value=0).to_numpy()
        if column in quantiles:  # NaN: closed at that step
            within = np.nan_to_num(quantiles[column].astype(np.float64) - part[mean].to_numpy())
            total = total + within * np.abs(within)
        quantile = sums[mean].to_numpy(np.float64) + np.sign(total) * np.sqrt(np.abs(total))
        columns[column] = calibration.cut(quantile.astype(np.float32))
    return columns


def _read_reasons(
    table: pd.DataFrame, closed: Mapping[int, str], ids: Sequence[str]
) -> dict[str, list[str]]:
    """The reasons why a forecast is degraded, by location; also of closed ones without a row.

    Args:
        table: of a forecast.
        closed: why locations are closed, by column.
        ids: by column.
    """
    if DEGRADED not in table.columns:
        return {}
    by_location = table.groupby("unique_id", sort=False)[DEGRADED].first()
    reasons = {str(name): text.split("; ") for name, text in by_location.items()}
    shared = _shared_reasons(list(reasons.values()))
    without_row = {ids[n]: [*shared, text] for n, text in closed.items() if ids[n] not in reasons}
    return {**reasons, **without_row}


def _shared_reasons(parts: Sequence[Sequence[str]]) -> list[str]:
    """The reasons that all locations have."""
    return [reason for reason in parts[0] if reason and all(reason in p for p in parts)]


def _join_reasons(reasons: Mapping[str, Sequence[str]]) -> str:
    """The reasons why the forecast of an area is degraded: those of all, then of its locations."""
    shared = _shared_reasons(list(reasons.values()))
    own_columns = [
        f"{name}: {'; '.join(reason for reason in parts if reason not in shared)}"
        for name, parts in reasons.items()
        if set(parts) - {*shared, ""}
    ]
    return "; ".join([*shared, *([name_some(own_columns)] if own_columns else [])])


class _ForecastCache:
    """Forecasts of locations, made once for all areas, by step and changed covariates."""

    def __init__(self, forecast_origins: ForecastOrigins) -> None:
        self._forecast_origins = forecast_origins
        self._forecasts: dict[tuple[int, ChangeKey], np.ndarray] = {}  # [K, N]
        self._doubts: dict[int, np.ndarray] = {}  # by step: [N]
        self._closed: dict[int, np.ndarray] = {}  # by step: [K N]

    def sum(
        self,
        members: Bool[np.ndarray, " N"],
        weights: Float32[np.ndarray, " n"],
        steps: Int64[np.ndarray, " S"],
        changes: Changes | None = None,
    ) -> WindowForecasts:
        """The forecasts of an area [S K 1], and no quantiles; closed locations add nothing.

        Args:
            members: the locations of the area.
            weights: their spreads, in spreads of the area.
            steps: the origins.
            changes: covariates ahead to replace.
        """
        forecast = self._look_up(steps, changes)
        open_forecasts = np.nan_to_num(forecast[..., members])
        sums = open_forecasts.sum(axis=-1, dtype=np.float64, keepdims=True)
        S, K, _ = sums.shape
        no_closed = np.zeros(forecast.shape[1:], dtype=bool)
        by_location = np.stack([self._closed.get(step, no_closed) for step in steps.tolist()])
        closed = np.asarray(by_location[..., members].all(axis=-1, keepdims=True))
        doubts = [self._doubts.get(step) for step in steps.tolist()]
        doubt = [np.zeros(1) if d is None else d[members] @ weights[:, None] for d in doubts]
        no_quantiles = np.empty((S, 0, K, 1), dtype=np.float32)
        return WindowForecasts(
            sums.astype(np.float32),
            no_quantiles,
            doubt=np.stack(doubt).astype(np.float32),
            closed=closed if closed.any() else None,
        )

    def _look_up(
        self, steps: Int64[np.ndarray, " S"], changes: Changes | None
    ) -> Float32[np.ndarray, "S K N"]:
        changed = frozenset((name, column.tobytes()) for name, column in (changes or {}).items())
        keys = [(step, changed) for step in steps.tolist()]
        new = [key for key in keys if key not in self._forecasts]
        if new:
            steps = np.array([step for step, _ in new])
            outputs = self._forecast_origins(steps, changes)
            self._forecasts |= dict(zip(new, outputs.mean, strict=True))
            if outputs.doubt is not None:
                self._doubts |= dict(zip(steps.tolist(), outputs.doubt, strict=True))
            if outputs.closed is not None:
                self._closed |= dict(zip(steps.tolist(), outputs.closed, strict=True))
        return np.stack([self._forecasts[key] for key in keys])


def _count_area(
    predictor: Predictor, members: Bool[np.ndarray, " N"], steps: Int64[np.ndarray, " S"]
) -> Bool[np.ndarray, " S"]:
    """Whether the forecasts of all locations of an area count."""
    counts = predictor.counts(steps)
    return counts if counts.ndim == 1 else np.asarray(counts[:, members].all(axis=1))


def _observe_area(
    predictor: Predictor, members: Bool[np.ndarray, " N"], steps: Int64[np.ndarray, " S"]
) -> Float32[np.ndarray, "S 1"]:
    """The sums of an area's outcomes; NaN where one of an open location is missing or doubtful."""
    values = predictor.outcomes(steps)
    if predictor.panel.locations.can_close:
        first, end = int(steps.min(initial=0)), int(steps.max(initial=0)) + 1
        alive = predictor.panel.alive(first, end)[steps - first]
        values = np.where(alive, values, np.float32(0))
    return _sum_values(values, members)


def _sum_values(
    values: Float32[np.ndarray, "S N"], members: Bool[np.ndarray, " N"]
) -> Float32[np.ndarray, "S 1"]:
    sums = values[:, members].sum(axis=1, dtype=np.float64, keepdims=True)
    return np.asarray(sums, dtype=np.float32)


def _as_panel(panel: Panel, members: Bool[np.ndarray, " N"]) -> Panel:
    """An area as a panel of one location."""
    steps = len(panel.covariates.values)
    return replace(
        panel,
        values=_sum_values(panel.values, members),
        locations=Locations.of_ids(("area",)),
        local_covariates=LocalCovariates.empty(steps, 1),
        digest=None,
    )


def _refuse_doubled(
    areas: Int64[np.ndarray, " R"], rows: Int64[np.ndarray, " R"], table: pa.Table, faults: Faults
) -> None:
    """Add a fault for locations listed twice in an area, which would count twice."""
    pairs = np.column_stack([areas, rows])
    _, first = np.unique(pairs, axis=0, return_index=True)
    doubled = np.setdiff1d(np.arange(len(pairs)), first).tolist()
    if doubled:
        texts = (f"row {n + 1} ({table['area'][n]}, {table['id'][n]})" for n in doubled)
        faults.add(f"{count_of(len(doubled), 'row')} given twice: {name_some(texts)}")
