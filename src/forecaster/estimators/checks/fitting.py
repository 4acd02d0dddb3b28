"""Checks of fitting, saving and loading."""

import tempfile

import numpy as np

from forecaster.errors import ConfigError, DataError, RunError
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.checks.setup import Check, CheckSetup, need, refused
from forecaster.splits import Splits


def _test_steps_do_not_change_the_fit(setup: CheckSetup) -> None:
    panel = setup.panel
    held_out = setup.splits.mask("test", panel.clock, panel.times)
    values, weather = panel.values.copy(), panel.covariates.values.copy()
    values[held_out] = np.nan_to_num(values[held_out]) * 3 + 11
    weather[: len(values)][held_out] -= 7
    changed = panel.with_data(values, weather)
    refitted = setup.make(RECIPE).fit(changed, setup.splits)
    need(_same_arrays(setup.fitted, refitted), "test steps changed the fitted arrays")


def _fitting_again_changes_nothing(setup: CheckSetup) -> None:
    again = setup.make(RECIPE).fit(setup.panel, setup.splits)
    need(_same_arrays(setup.fitted, again), "a second estimator has other fitted arrays")
    again.fit(setup.panel, setup.splits)
    need(_same_arrays(setup.fitted, again), "fitting twice gave other arrays")


def _a_saved_estimator_forecasts_the_same(setup: CheckSetup) -> None:
    if not setup.fitted.saves:
        with tempfile.TemporaryDirectory() as folder, refused(ConfigError):
            setup.fitted.save(folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        setup.fitted.save(folder)
        loaded = type(setup.fitted).load(folder)
    before, after = (e.forecast(setup.panel, setup.at) for e in (setup.fitted, loaded))
    need(after.equals(before), "the loaded estimator forecasts differently")


def _inputs_are_not_changed(setup: CheckSetup) -> None:
    setup.fitted.forecast(setup.panel, setup.at)  # the panel that it was fitted to
    fresh = small_city()
    same = np.array_equal(setup.panel.values, fresh.values, equal_nan=True)
    same &= np.array_equal(setup.panel.covariates.values, fresh.covariates.values)
    need(same, "fit or forecast changed the panel")


def _unusable_training_data_is_refused(setup: CheckSetup) -> None:
    def refuse(values: np.ndarray) -> None:
        with refused(DataError):
            panel = setup.panel.with_data(values.astype(np.float32))
            setup.make(RECIPE).fit(panel, setup.splits)

    refuse(np.full_like(setup.panel.values, np.nan))  # no value at all
    infinite = setup.panel.values.copy()
    infinite[100, 2] = np.inf
    refuse(infinite)
    untrained = setup.panel.values.copy()
    untrained[setup.splits.mask("train", setup.panel.clock, setup.panel.times)] = np.nan
    refuse(untrained)  # no training target
    refuse(setup.panel.values[:0])  # empty
    with refused(DataError):  # too short for one window
        short = setup.panel.steps(0, 40, 40)
        setup.make(RECIPE).fit(short, Splits.by_share(short))


def _an_unfitted_estimator_says_so(setup: CheckSetup) -> None:
    with refused(RunError):
        setup.make(RECIPE).forecast(setup.panel, setup.at)


def _one_location_is_enough(setup: CheckSetup) -> None:
    panel = setup.panel.select(setup.panel.locations.ids[2:3])
    table = setup.make(RECIPE).fit(panel, setup.splits).forecast(panel, setup.at)
    need(len(table) == RECIPE.lags.horizon, f"{len(table)} rows for one location")


def _same_arrays(first: Estimator, second: Estimator) -> bool:
    if first.run is None or second.run is None:
        return False
    a, b = first.run.arrays, second.run.arrays
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


FITTING: tuple[Check, ...] = (
    _test_steps_do_not_change_the_fit,
    _fitting_again_changes_nothing,
    _a_saved_estimator_forecasts_the_same,
    _inputs_are_not_changed,
    _unusable_training_data_is_refused,
    _an_unfitted_estimator_says_so,
    _one_location_is_enough,
)
