"""Areas: sums of the forecasts of some locations, with intervals of their own.

Quantiles do not add up: the sum of upper ones is reached only when every location is high at
once. An area is therefore treated as one more location. Its validation residuals are the sums of
its locations', and go through the same calibration, static and online, as those of a location.

Where a few residuals of its locations are missing, the others stand for them; with more than the
share that a history may miss, the area's is missing. Values of a location are no guide to those
of another: online, a step at which any is missing does not count.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from jaxtyping import Bool, Float32, Int64

from forecaster.artifact import Run
from forecaster.config import Weather
from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some, nearest_name
from forecaster.estimators.asking import learned_steps
from forecaster.estimators.contract import Estimator
from forecaster.estimators.intervals import (
    DAYS,
    HOURS,
    LEVELS,
    OBSERVED,
    RESIDUALS,
    Base,
    Calibration,
    Outcomes,
    calibrate,
    local_hours,
)
from forecaster.estimators.match import match
from forecaster.estimators.question import find_origin
from forecaster.estimators.residuals import count_needed
from forecaster.estimators.table import name_quantile
from forecaster.estimators.tracking import can_count, follow
from forecaster.panel.columns import Table, encode_ids, load, need_columns
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates, Locations, check_names
from forecaster.splits import MAX_FILLED

SUMMED = ("y_hat", "y_hat_what_if", "difference")


@dataclass(frozen=True, eq=False)
class Areas:
    """Which locations each area has; areas may share some."""

    names: tuple[str, ...]
    members: Bool[np.ndarray, "A N"]  # by the locations of a panel


def read_areas(source: Table, locations: Locations) -> Areas:
    """Return the areas of a table of `area` and `id`, a row for each location of each area."""
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
    like_places = [area for area in names if area in locations.ids]
    if like_places:
        what = f"{count_of(len(like_places), 'area')} named like a location"
        faults.add(f"{what}: {name_some(like_places)}; give it another name")
    _refuse_doubled(areas, rows, table, faults)
    place = {identity: n for n, identity in enumerate(locations.ids)}
    unknown = [identity for identity in ids if identity not in place]
    if unknown:
        what = f"{count_of(len(unknown), 'unknown id')}: {name_some(unknown)}"
        hint = nearest_name(unknown[0], locations.ids) or f"; known: {name_some(locations.ids)}"
        faults.add(f"{what}{hint}")
    faults.raise_any(DataError)
    members = np.zeros((len(names), len(locations)), dtype=bool)
    members[areas, np.array([place[identity] for identity in ids])[rows]] = True
    return Areas(tuple(names), members)


def add_areas(
    table: pd.DataFrame,
    areas: Areas,
    estimator: Estimator,
    panel: Panel,
    weather: Weather = "observed",
) -> pd.DataFrame:
    """Return a forecast's table with a row for each area and coming step below its own.

    Args:
        table: what `estimator.forecast` gave for the panel.
        areas: what to sum, by the panel's locations.
        estimator: for the intervals of the sums.
        panel: as for the forecast.
        weather: as for the forecast.
    """
    origin = np.array([find_origin(panel, table["cutoff"].iloc[0].isoformat())])
    quantiles = predict_areas(estimator, panel, origin, areas, weather)[0]  # [Q, K, A]
    summed = [name for name in SUMMED if name in table.columns]
    place = table["unique_id"].map({name: n for n, name in enumerate(panel.locations.ids)})
    rows = [table]
    for number, name in enumerate(areas.names):
        own = table[areas.members[number][place.to_numpy()]]
        first = own[own["unique_id"] == own["unique_id"].iloc[0]].reset_index(drop=True)
        sums = own.groupby("ds", sort=True)[summed].sum().reset_index(drop=True)
        levels = {name_quantile(level): q[:, number]
                  for level, q in zip(estimator.levels, quantiles, strict=True)}  # fmt: skip
        rows.append(first.assign(unique_id=name, **sums, **levels))
    return pd.concat(rows, ignore_index=True)


def predict_areas(
    estimator: Estimator,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    areas: Areas,
    weather: Weather = "observed",
    *,
    online: bool = True,
) -> Float32[np.ndarray, "B Q K A"]:
    """Return the quantiles of the sums over areas, as `Estimator.predict_quantiles` does.

    Args:
        estimator: fitted.
        panel: what was observed, and what is known of the steps after each origin.
        origins: the last observed steps.
        areas: what to sum, by the panel's locations.
        weather: what to take for covariates ahead.
        online: correct them by the outcomes that were observed up to each origin.
    """
    run = estimator.run
    if run is None or RESIDUALS not in run.arrays:
        raise ConfigError(
            "the run keeps no validation residuals to calibrate sums; train it again"
        )
    known = match(run, panel)
    place = {identity: n for n, identity in enumerate(panel.locations.ids)}
    members = areas.members[:, [place[identity] for identity in known.locations.ids]]
    memory = _Memory(estimator, known, members, weather)
    judge = partial(can_count, known, run.recipe.lags, weather, learned_steps(run, known))
    quantiles = []
    for number, (name, own) in enumerate(zip(areas.names, members, strict=True)):
        calibration = calibrate_area(run, name, own)
        ask = partial(memory.ask, calibration, number)
        if online:
            found = follow(calibration, _as_panel(known, own), origins, judge, ask)
        else:
            found = calibration.correct(ask(origins), calibration.corrections)
        quantiles.append(found[..., 0])
    return np.stack(quantiles, axis=-1)


def calibrate_area(run: Run, name: str, members: Bool[np.ndarray, " N"]) -> Calibration:
    """Return what makes quantiles of the sum of some locations hold, from validation residuals."""
    arrays, levels = run.arrays, tuple(run.arrays[LEVELS].tolist())
    seen, residuals = (arrays[part][..., members] for part in (OBSERVED, RESIDUALS))
    sums = sum_observed(np.where(seen, residuals, np.float32(np.nan)))[..., None]  # [V, K, 1]
    least, needed = int(np.isfinite(sums).sum(axis=0).min()), 2 * count_needed(levels)
    if least < needed:
        message = f"area {name!r}: {count_of(least, 'validation window')} with enough values"
        raise DataError(f"{message}, and quantiles need ≥ {needed:,}; leave out dead locations")
    V, K, _ = sums.shape
    own = np.empty((V, 0, K, 1), dtype=np.float32)
    outcomes = Outcomes(sums, own, arrays[HOURS], arrays[DAYS])
    found = calibrate(outcomes, levels, np.ones(1, dtype=np.float32))
    return Calibration.from_arrays(found, run.about["kind"])


def sum_observed(residuals: Float32[np.ndarray, "*B n"]) -> Float32[np.ndarray, "*B"]:
    """Return sums over the locations of an area, NaN where too few of them were observed."""
    seen = np.isfinite(residuals)
    share = seen.mean(axis=-1)
    total = np.where(seen, residuals, 0).sum(axis=-1, dtype=np.float64) / np.maximum(share, 1e-9)
    return np.where(share >= 1 - MAX_FILLED, total, np.nan).astype(np.float32)


class _Memory:
    """Forecasts of areas, each step asked once for all of them."""

    def __init__(
        self,
        estimator: Estimator,
        panel: Panel,
        members: Bool[np.ndarray, "A N"],
        weather: Weather,
    ) -> None:
        self._estimator, self._panel, self._weather = estimator, panel, weather
        self._members = members.astype(np.float32)
        self._sums: dict[int, np.ndarray] = {}  # [K, A] by step

    def ask(self, calibration: Calibration, area: int, steps: Int64[np.ndarray, " S"]) -> Base:
        """Return the quantiles of an area at some steps, before any correction."""
        new = np.array([s for s in steps.tolist() if s not in self._sums], dtype=np.int64)
        forecast = self._estimator.predict(self._panel, new, self._weather) @ self._members.T
        self._sums |= dict(zip(new.tolist(), forecast, strict=True))
        sums = np.stack([self._sums[s][:, area] for s in steps.tolist()])[..., None]  # [S, K, 1]
        S, K, _ = sums.shape
        hours = local_hours(self._panel, steps[:, None] + np.arange(1, K + 1))
        return calibration.base(sums, np.empty((S, 0, K, 1), dtype=np.float32), hours)


def _as_panel(panel: Panel, members: Bool[np.ndarray, " N"]) -> Panel:
    """Return an area as a panel of one location."""
    steps = len(panel.covariates.values)
    return replace(
        panel,
        values=panel.values[:, members].sum(axis=1, dtype=np.float64).astype(np.float32)[:, None],
        locations=Locations.of_ids(("area",)),
        local_covariates=LocalCovariates((), np.empty((0, steps, 1), dtype=np.float32)),
        digest=None,
    )


def _refuse_doubled(
    areas: Int64[np.ndarray, " R"], rows: Int64[np.ndarray, " R"], table: pa.Table, faults: Faults
) -> None:
    """Add a fault for locations that an area has twice: they would count twice."""
    pairs = np.column_stack([areas, rows])
    _, first = np.unique(pairs, axis=0, return_index=True)
    doubled = np.setdiff1d(np.arange(len(pairs)), first).tolist()
    if doubled:
        texts = (f"row {n + 1} ({table['area'][n]}, {table['id'][n]})" for n in doubled)
        faults.add(f"{count_of(len(doubled), 'row')} given twice: {name_some(texts)}")
