"""Checks of opening hours: closed steps are forecast at nothing, open ones as any others."""

import numpy as np
import pandas as pd

from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.forecasts import TOLERANCE
from forecaster.estimators.checks.sample import HOURS, LOCATIONS, RECIPE
from forecaster.estimators.checks.setup import Check, CheckSetup, need
from forecaster.panel.panel import Panel

HOURS_OF_ALL, SHORTER_HOURS = "05:00-23:00", "07:00-20:00"  # the latter of the first location


def _closed_steps_are_forecast_at_nothing(setup: CheckSetup) -> None:
    panel = setup.panel.with_hours([SHORTER_HOURS, *[HOURS_OF_ALL] * (LOCATIONS - 1)])
    fitted = setup.make(RECIPE).fit(panel, setup.splits)
    for origin in range(HOURS - 27, HOURS - RECIPE.lags.horizon):  # a day and a night
        _need_nothing_where_closed(fitted.forecast(panel, f"{panel.times[origin]}Z"), panel)
    _need_no_future(fitted, panel)
    _need_equal_alone(fitted, panel)


def _need_nothing_where_closed(table: pd.DataFrame, panel: Panel) -> None:
    steps = panel.step_index(table["ds"].dt.tz_convert(None).to_numpy("datetime64[s]"))
    columns = table["unique_id"].map(panel.locations.ids.index).to_numpy()
    closed = ~panel.alive(0, HOURS)[steps, columns]
    outputs = table[["y_hat", "q10", "q50", "q90"]].to_numpy()
    need(bool(np.isfinite(outputs).all()), "a forecast of counts with opening hours is not finite")
    need(not outputs[closed].any(), "a closed step is not forecast at 0")
    marked = np.zeros(len(table), dtype=bool)
    if "degraded" in table:
        marked = table["degraded"].str.contains("closed").to_numpy(dtype=bool)
    need(bool((marked == closed).all()), "closed steps and no others are to be marked as closed")


def _need_no_future(fitted: Estimator, panel: Panel) -> None:
    for origin in range(HOURS - 52, HOURS - 41, 2):  # from an evening to the next morning
        values = panel.values.copy()
        values[origin + 1 :] = np.where(np.isfinite(values[origin + 1 :]), np.float32(1e6), np.nan)
        pair = np.array([origin, HOURS - RECIPE.lags.horizon - 1])  # the later one may see more
        before, after = (fitted.predict(p, pair)[0] for p in (panel, panel.with_data(values)))
        need(np.array_equal(after, before), f"with opening hours, later data changed {origin}")


def _need_equal_alone(fitted: Estimator, panel: Panel) -> None:
    origins = np.arange(HOURS - 40, HOURS - 12, 3)
    together = fitted.predict(panel, origins)
    alone = np.concatenate([fitted.predict(panel, origins[[n]]) for n in range(len(origins))])
    worst = float((np.abs(together - alone) / np.maximum(np.abs(alone), 1)).max())
    need(worst <= TOLERANCE, f"with opening hours, origins differ when alone by {worst:.1e}")


OPENING_HOURS: tuple[Check, ...] = (_closed_steps_are_forecast_at_nothing,)
