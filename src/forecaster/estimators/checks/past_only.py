"""Checks of past-only covariates, which no model may see ahead of an origin."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forecaster.errors import name_some
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import HOURS, KNOWN_AHEAD, LOCATIONS, RECIPE
from forecaster.estimators.checks.setup import Check, CheckSetup, need
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.splits import Splits

TRAINED, VALIDATED = (0, 650), (730, 850)  # steps; no window reaches from one into the other
STATISTICS = "shared."  # names of arrays with means and ranges of all training steps


def _past_only_covariates_are_not_seen_ahead(setup: CheckSetup) -> None:
    panel, splits = _with_past_only(setup.panel), apart(setup.panel)
    fitted = setup.make(RECIPE).fit(panel, splits)
    _need_equal_forecasts(fitted, panel)
    _need_no_future(fitted, panel, setup)
    # The last step of a range is a target only: no origin there has its targets in the range.
    targets = [TRAINED[1] - 1, VALIDATED[1] - 1]
    refitted = setup.make(RECIPE).fit(_change_at(panel, targets), splits)
    first, second = (model_arrays(fitted), model_arrays(refitted))
    need(first.keys() == second.keys(), "another fit has other arrays")
    different = [name for name in first if not np.array_equal(first[name], second[name])]
    need(
        not different,
        f"covariates of steps that are only targets changed the fit: {name_some(different)}",
    )


def _need_equal_forecasts(fitted: Estimator, panel: Panel) -> None:
    for origin in range(HOURS - 60, HOURS - RECIPE.lags.horizon, 13):
        changed = _change_at(panel, range(origin + 1, len(panel.covariates.values)))
        origins = np.array([origin - 1, origin])
        before, after = (fitted.predict(p, origins) for p in (panel, changed))
        need(np.array_equal(after, before), f"later covariates changed origin {origin}")


def _need_no_future(fitted: Estimator, panel: Panel, setup: CheckSetup) -> None:
    shared, local = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    shared[setup.origin :, panel.covariates.past_columns] = np.nan  # also at the origin
    local[:, setup.origin :] = np.nan
    table = fitted.forecast(panel.with_data(None, shared, local), setup.at)
    need("degraded" not in table, "without past-only covariates ahead a forecast is degraded")
    need(bool(np.isfinite(table["y_hat"]).all()), "such a forecast is not finite")


def _with_past_only(panel: Panel) -> Panel:
    """The small city with a shared and a local past-only covariate of 0 and 1."""
    generator = np.random.default_rng(7)
    shared, steps = panel.covariates, HOURS + KNOWN_AHEAD
    flags = generator.integers(0, 2, (steps, 1)).astype(np.float32)
    local = generator.integers(0, 2, (1, steps, LOCATIONS)).astype(np.float32)
    names = (*shared.names, "siren")
    return replace(
        panel,
        covariates=Covariates(names, np.concatenate([shared.values, flags], axis=1), ("siren",)),
        local_covariates=LocalCovariates(("crowd",), local, ("crowd",)),
        digest=None,
    )


def apart(panel: Panel) -> Splits:
    """Training and validation with steps between them that are in neither."""
    spans = (TRAINED, VALIDATED, (VALIDATED[1], HOURS))
    return Splits(
        *([(f"{panel.times[first]}Z", f"{panel.times[end - 1]}Z")] for first, end in spans)
    )


def _change_at(panel: Panel, steps: Sequence[int]) -> Panel:
    """The panel with 0 for 1 and 1 for 0 in the past-only covariates of some steps."""
    shared, local = panel.covariates.values.copy(), panel.local_covariates.values.copy()
    rows, columns = np.array(steps)[:, None], np.array(panel.covariates.past_columns)
    shared[rows, columns] = 1 - shared[rows, columns]
    local[:, rows[:, 0]] = 1 - local[:, rows[:, 0]]
    return panel.with_data(None, shared, local)


def model_arrays(fitted: Estimator) -> Arrays:
    """The arrays of a fit without statistics of all training steps."""
    run = fitted.run
    need(run is not None, "fit left no run")
    arrays = {} if run is None else run.arrays
    return {name: array for name, array in arrays.items() if not name.startswith(STATISTICS)}


PAST_ONLY: tuple[Check, ...] = (_past_only_covariates_are_not_seen_ahead,)
