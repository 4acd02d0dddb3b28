"""Checks of fitting, saving and loading."""

import tempfile

import numpy as np

from forecaster.errors import DataError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.checks.setup import Check, CheckSetup, need, refused
from forecaster.splits import Splits


def _test_steps_do_not_change_what_is_learned(world: CheckSetup) -> None:
    panel = world.panel
    held_out = world.splits.mask("test", panel.clock, panel.times)
    values, weather = panel.values.copy(), panel.covariates.values.copy()
    values[held_out] = np.nan_to_num(values[held_out]) * 3 + 11
    weather[: len(values)][held_out] -= 7
    changed = panel.with_data(values, weather)
    other = world.make(RECIPE).fit(changed, world.splits)
    need(_same_memory(world.fitted, other), "test steps changed what was learned")


def _fitting_again_changes_nothing(world: CheckSetup) -> None:
    again = world.make(RECIPE).fit(world.panel, world.splits)
    need(_same_memory(world.fitted, again), "a second estimator learned something else")
    again.fit(world.panel, world.splits)
    need(_same_memory(world.fitted, again), "fitting twice learned something else")


def _a_saved_estimator_answers_the_same(world: CheckSetup) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world.fitted.save(folder)
        loaded = type(world.fitted).load(folder)
    here, there = (e.forecast(world.panel, world.at) for e in (world.fitted, loaded))
    need(here.equals(there), "the loaded estimator forecasts differently")


def _inputs_are_not_changed(world: CheckSetup) -> None:
    world.fitted.forecast(world.panel, world.at)  # it was fitted to that very panel
    fresh = small_city()
    same = np.array_equal(world.panel.values, fresh.values, equal_nan=True)
    same &= np.array_equal(world.panel.covariates.values, fresh.covariates.values)
    need(same, "fit or forecast changed the panel")


def _what_cannot_be_learned_from_is_refused(world: CheckSetup) -> None:
    def refuse(values: np.ndarray) -> None:
        with refused(DataError):
            panel = world.panel.with_data(values.astype(np.float32))
            world.make(RECIPE).fit(panel, world.splits)

    nothing = np.full_like(world.panel.values, np.nan)
    refuse(nothing)  # no value at all
    infinite = world.panel.values.copy()
    infinite[100, 2] = np.inf
    refuse(infinite)
    untaught = world.panel.values.copy()
    untaught[world.splits.mask("train", world.panel.clock, world.panel.times)] = np.nan
    refuse(untaught)  # no training target
    refuse(world.panel.values[:0])  # empty
    with refused(DataError):  # too short for one window
        short = world.panel.steps(0, 40, 40)
        world.make(RECIPE).fit(short, Splits.by_share(short))


def _an_unfitted_estimator_says_so(world: CheckSetup) -> None:
    with refused(RunError):
        world.make(RECIPE).forecast(world.panel, world.at)


def _one_location_is_enough(world: CheckSetup) -> None:
    panel = world.panel.select(world.panel.locations.ids[2:3])
    table = world.make(RECIPE).fit(panel, world.splits).forecast(panel, world.at)
    need(len(table) == RECIPE.lags.horizon, f"{len(table)} rows for one location")


def _same_memory(one: Estimator, other: Estimator) -> bool:
    if one.run is None or other.run is None:
        return False
    left, right = one.run.arrays, other.run.arrays
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


LEARNING: tuple[Check, ...] = (
    _test_steps_do_not_change_what_is_learned,
    _fitting_again_changes_nothing,
    _a_saved_estimator_answers_the_same,
    _inputs_are_not_changed,
    _what_cannot_be_learned_from_is_refused,
    _an_unfitted_estimator_says_so,
    _one_location_is_enough,
)
