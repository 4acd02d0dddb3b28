"""Checks of quantiles: ascending, calibrated, and independent of data after the origin."""

from copy import copy
from dataclasses import replace

import numpy as np

from forecaster.artifact import Run
from forecaster.config import IntervalConfig
from forecaster.errors import DataError
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import HOURS, RECIPE
from forecaster.estimators.checks.setup import COLUMNS, Check, CheckSetup, need, refused

MIN_COVERAGE, MAX_COVERAGE = 0.7, 0.95  # of an 80 % interval


def _quantiles_are_ascending_and_calibrated(setup: CheckSetup) -> None:
    origins = np.arange(HOURS - 200, HOURS - RECIPE.lags.horizon)
    truth = setup.panel.values[origins[:, None] + np.arange(1, RECIPE.lags.horizon + 1)]
    forecast = setup.fitted.predict(setup.panel, origins)
    need(
        setup.fitted.quantile_levels == RECIPE.intervals.quantiles,
        f"levels {setup.fitted.quantile_levels}",
    )
    for online in (False, True):
        q = setup.fitted.predict_quantiles(setup.panel, origins, online=online)
        need(q.shape == (len(origins), 3, *truth.shape[1:]), f"quantiles are {q.shape}")
        need(bool(np.isfinite(q).all() and (q >= 0).all()), "quantiles of counts below zero")
        need(bool((np.diff(q, axis=1) >= 0).all()), "quantiles cross")
        contained = (q[:, 0] <= forecast) & (forecast <= q[:, 2])
        need(bool(contained.all()), "an interval excludes its own forecast")
        inside = (q[:, 0] <= truth) & (truth <= q[:, 2])
        coverage = float(inside[np.isfinite(truth)].mean())
        calibrated = MIN_COVERAGE <= coverage <= MAX_COVERAGE
        need(calibrated, f"{100 * coverage:.0f} % in an 80 % interval")


def _quantiles_see_nothing_after_the_origin(setup: CheckSetup) -> None:
    origin = np.array([HOURS - 60])
    values = setup.panel.values.copy()
    values[origin[0] + 1 :] = 1e6
    changed = setup.panel.with_data(values)
    before, after = (setup.fitted.predict_quantiles(p, origin) for p in (setup.panel, changed))
    need(np.array_equal(after, before), "later outcomes changed the quantiles of an origin")
    values[origin[0] - 48 : origin[0]] = 1e6
    moved = setup.fitted.predict_quantiles(setup.panel.with_data(values), origin)
    need(not np.array_equal(moved, before), "outcomes up to the origin change no quantile")


def _quantiles_are_matched_by_id(setup: CheckSetup) -> None:
    order, origin = setup.panel.locations.ids[::-1], np.array([setup.origin])
    permuted = setup.fitted.predict_quantiles(setup.panel.select(order), origin)
    quantiles = setup.fitted.predict_quantiles(setup.panel, origin)
    same = np.array_equal(permuted[..., ::-1], quantiles)
    need(same, "permuted columns changed quantiles of an id")


def _too_few_validation_windows_are_refused(setup: CheckSetup) -> None:
    narrow = RECIPE.model_copy(update={"intervals": IntervalConfig(quantiles=(0.001, 0.999))})
    with refused(DataError):
        setup.make(narrow).fit(setup.panel, setup.splits)


def _a_run_without_quantiles_still_forecasts(setup: CheckSetup) -> None:
    run = setup.fitted.run
    if run is None:
        raise AssertionError("fit has set no run")
    prefixes = ("intervals.", "model.quantiles.")
    arrays = {name: array for name, array in run.arrays.items() if not name.startswith(prefixes)}
    older = _with_run(setup.fitted, replace(run, arrays=arrays))
    without, table = (e.forecast(setup.panel, setup.at) for e in (older, setup.fitted))
    without = without.filter(COLUMNS)
    need(older.quantile_levels == (), f"an older run has the levels {older.quantile_levels}")
    need(without.equals(table.filter(COLUMNS)), "an older run forecasts something else")


def _with_run(fitted: Estimator, run: Run) -> Estimator:
    """An estimator as it would be loaded from a run, or a copy if none can be loaded."""
    if fitted.saves:
        return type(fitted).from_run(run)
    estimator = copy(fitted)
    estimator.run = run
    return estimator


QUANTILES: tuple[Check, ...] = (
    _quantiles_are_ascending_and_calibrated,
    _quantiles_see_nothing_after_the_origin,
    _quantiles_are_matched_by_id,
    _too_few_validation_windows_are_refused,
    _a_run_without_quantiles_still_forecasts,
)
