"""Checks of quantiles: ascending, calibrated, and blind to what comes after the origin."""

from dataclasses import replace

import numpy as np

from forecaster.config import IntervalConfig
from forecaster.errors import DataError
from forecaster.estimators.checks.sample import HOURS, RECIPE
from forecaster.estimators.checks.setup import COLUMNS, Check, CheckSetup, need, refused

LEAST_INSIDE, MOST_INSIDE = 0.7, 0.95  # of what comes, in an interval for 80 % of it


def _quantiles_rise_and_hold(world: CheckSetup) -> None:
    origins = np.arange(HOURS - 200, HOURS - RECIPE.lags.horizon)
    truth = world.panel.values[origins[:, None] + np.arange(1, RECIPE.lags.horizon + 1)]
    need(
        world.fitted.quantile_levels == RECIPE.intervals.quantiles,
        f"levels {world.fitted.quantile_levels}",
    )
    for online in (False, True):
        q = world.fitted.predict_quantiles(world.panel, origins, online=online)
        need(q.shape == (len(origins), 3, *truth.shape[1:]), f"quantiles are {q.shape}")
        need(bool(np.isfinite(q).all() and (q >= 0).all()), "quantiles of counts below zero")
        need(bool((np.diff(q, axis=1) >= 0).all()), "quantiles cross")
        within = (q[:, 0] <= truth) & (truth <= q[:, 2])
        inside = float(within[np.isfinite(truth)].mean())
        need(LEAST_INSIDE <= inside <= MOST_INSIDE, f"{100 * inside:.0f} % in an 80 % interval")


def _quantiles_see_nothing_after_the_origin(world: CheckSetup) -> None:
    origin = np.array([HOURS - 60])
    values = world.panel.values.copy()
    values[origin[0] + 1 :] = 1e6
    changed = world.panel.with_data(values)
    before, after = (world.fitted.predict_quantiles(p, origin) for p in (world.panel, changed))
    need(np.array_equal(after, before), "later outcomes changed the quantiles of an origin")
    values[origin[0] - 48 : origin[0]] = 1e6
    moved = world.fitted.predict_quantiles(world.panel.with_data(values), origin)
    need(not np.array_equal(moved, before), "outcomes up to the origin change no quantile")


def _quantiles_are_matched_by_id(world: CheckSetup) -> None:
    order, origin = world.panel.locations.ids[::-1], np.array([world.origin])
    there = world.fitted.predict_quantiles(world.panel.select(order), origin)
    here = world.fitted.predict_quantiles(world.panel, origin)
    need(np.array_equal(there[..., ::-1], here), "permuted columns changed quantiles of an id")


def _too_few_validation_windows_are_refused(world: CheckSetup) -> None:
    narrow = RECIPE.model_copy(update={"intervals": IntervalConfig(quantiles=(0.001, 0.999))})
    with refused(DataError):
        world.make(narrow).fit(world.panel, world.splits)


def _a_run_without_quantiles_still_forecasts(world: CheckSetup) -> None:
    run = world.fitted.run
    if run is None:
        raise AssertionError("fit has learned nothing")
    own = ("intervals.", "model.quantiles.")
    arrays = {name: array for name, array in run.arrays.items() if not name.startswith(own)}
    older = type(world.fitted).from_run(replace(run, arrays=arrays))
    table, now = (e.forecast(world.panel, world.at) for e in (older, world.fitted))
    need(older.quantile_levels == (), f"an older run has the levels {older.quantile_levels}")
    need(table.equals(now.filter(COLUMNS)), "an older run forecasts something else")


QUANTILES: tuple[Check, ...] = (
    _quantiles_rise_and_hold,
    _quantiles_see_nothing_after_the_origin,
    _quantiles_are_matched_by_id,
    _too_few_validation_windows_are_refused,
    _a_run_without_quantiles_still_forecasts,
)
