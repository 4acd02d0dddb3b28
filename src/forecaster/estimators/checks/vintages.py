"""Checks of vintages, of which no model may see one that became known after the origin."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from forecaster.errors import name_some
from forecaster.estimators.checks.past_only import (
    TRAINED,
    VALIDATED,
    apart,
    model_arrays,
)
from forecaster.estimators.checks.sample import HOURS, KNOWN_AHEAD, RECIPE
from forecaster.estimators.checks.setup import Check, CheckSetup, need
from forecaster.panel.panel import Panel
from forecaster.panel.vintages import Vintages, sort_vintages

Choice: TypeAlias = Callable[[Vintages], np.ndarray]  # which vintages: Bool[R]
LEADS = (7, 3, 1, 0, -2)  # steps before its own at which a value is known; −2: measured late


def _no_vintage_is_seen_before_it_was_known(setup: CheckSetup) -> None:
    panel, splits = _with_vintages(setup.panel), apart(setup.panel)
    fitted = setup.make(RECIPE).fit(panel, splits)
    for origin in range(HOURS - 60, HOURS - RECIPE.lags.horizon, 13):
        changed = _change(panel, _later_than(origin))
        origins = np.array([origin - 1, origin])
        before, after = (fitted.predict(p, origins) for p in (panel, changed))
        need(np.array_equal(after, before), f"later vintages changed origin {origin}")
    # The last step of a range is a target only: no origin there has its targets in the range.
    targets = [TRAINED[1] - 1, VALIDATED[1] - 1]
    changed = _change(panel, lambda v: np.isin(v.steps, targets) & (v.known >= v.steps))
    refitted = setup.make(RECIPE).fit(changed, splits)
    first, second = model_arrays(fitted), model_arrays(refitted)
    different = [name for name in first if not np.array_equal(first[name], second[name])]
    need(
        not different,
        f"vintages of targets that no origin knew changed the fit: {name_some(different)}",
    )


def _later_than(origin: int) -> Choice:
    """Chooses the vintages that an origin must not see."""
    return lambda vintages: np.asarray(vintages.known > origin)


def _with_vintages(panel: Panel) -> Panel:
    """The small city with an event that was announced and taken back several times: 0 or 1."""
    generator, steps = np.random.default_rng(11), HOURS + KNOWN_AHEAD
    events = generator.integers(0, 2, (steps * len(LEADS), 1)).astype(np.float32)
    step = np.repeat(np.arange(steps), len(LEADS))
    known_at = step - np.tile(np.array(LEADS), steps)
    vintages = sort_vintages(("event",), step, known_at, events)
    shared = panel.covariates
    values = np.concatenate([shared.values, np.zeros((steps, 1), np.float32)], axis=1)
    added = replace(shared, names=(*shared.names, "event"), values=values)
    return _put(replace(panel, covariates=added), vintages)


def _change(panel: Panel, chosen: Choice) -> Panel:
    """The panel with 0 for 1 and 1 for 0 in some vintages."""
    vintages = panel.covariates.vintages
    if vintages is None:
        return panel
    changed = chosen(vintages)[:, None]
    return _put(
        panel, replace(vintages, values=np.where(changed, 1 - vintages.values, vintages.values))
    )


def _put(panel: Panel, vintages: Vintages) -> Panel:
    """The panel with vintages of its last covariate, whose values are those known in the end."""
    every, values = np.arange(len(panel.covariates.values)), panel.covariates.values.copy()
    values[:, -1:] = vintages.seen(every, every)
    shared = replace(panel.covariates, values=values, vintages=vintages)
    return replace(panel, covariates=shared, digest=None)


VINTAGES: tuple[Check, ...] = (_no_vintage_is_seen_before_it_was_known,)
