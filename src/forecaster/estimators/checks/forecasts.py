"""Checks of forecasts, which must not depend on data after the origin."""

from dataclasses import replace

import numpy as np
import pandas as pd

from forecaster.choices import Weather
from forecaster.errors import ArtifactError, ConfigError, DataError
from forecaster.estimators.checks.sample import HOURS, LOCATIONS, RECIPE, small_city
from forecaster.estimators.checks.setup import COLUMNS, Check, CheckSetup, need, refused
from forecaster.estimators.wrong_values.degraded import NEW_LOCATION
from forecaster.panel.parts import Locations

TOLERANCE = 1e-5  # relative, between one origin alone and the same among many


def _forecasts_are_a_long_table(setup: CheckSetup) -> None:
    table = setup.fitted.forecast(setup.panel, setup.at)
    second = ["y_relative"] if "y_relative" in table.columns else []
    wanted = [*COLUMNS, *second, "q10", "q50", "q90"]
    need(list(table.columns) == wanted, f"columns {list(table.columns)}, not {wanted}")
    horizon = RECIPE.lags.horizon
    need(len(table) == horizon * LOCATIONS, f"{len(table)} rows, not {horizon * LOCATIONS}")
    cutoff = pd.Timestamp(setup.at)
    need(bool((table["cutoff"] == cutoff).all()), "cutoff is not the origin")
    ahead = pd.TimedeltaIndex(table["ds"] - table["cutoff"]) / pd.Timedelta(hours=1)
    need(set(ahead) == set(range(1, horizon + 1)), f"steps ahead are {sorted(set(ahead))}")
    same = pd.to_datetime(table["ds_local"], utc=True) == table["ds"]
    need(bool(same.all()), "ds_local is another instant than ds")


def _counts_are_never_negative_or_nan(setup: CheckSetup) -> None:
    for factor in (0.0, 1.0, 1e4):
        panel = setup.panel.with_data(setup.panel.values * np.float32(factor))
        y = setup.fitted.forecast(panel, setup.at)["y_hat"]
        need(bool(np.isfinite(y).all() and (y >= 0).all()), f"demand × {factor:g} gave {y.min()}")


def _measurements_may_be_negative(setup: CheckSetup) -> None:
    panel = small_city("measurement")
    fitted = setup.make(RECIPE).fit(panel, setup.splits)
    y = fitted.forecast(panel, setup.at)["y_hat"]
    need(bool(np.isfinite(y).all() and (y < 0).any()), "values around −15 gave none below zero")


def _locations_are_matched_by_id(setup: CheckSetup) -> None:
    order = setup.panel.locations.ids[::-1]
    permuted = setup.fitted.forecast(setup.panel.select(order), setup.at)
    forecast = setup.fitted.forecast(setup.panel, setup.at)
    need(
        _by_id(permuted).equals(_by_id(forecast)), "permuted columns changed the forecast of an id"
    )


def _locations_may_be_absent(setup: CheckSetup) -> None:
    ids = setup.panel.locations.ids
    present = setup.fitted.forecast(setup.panel.select(ids[1:]), setup.at)["unique_id"].unique()
    need(set(present) == set(ids[1:]), f"without {ids[0]}, rows of {sorted(present)}")
    with refused(ArtifactError):  # more than half
        setup.fitted.forecast(setup.panel.select(ids[: LOCATIONS // 2]), setup.at)


def _new_locations_are_labelled_or_refused(setup: CheckSetup) -> None:
    ids = (*setup.panel.locations.ids[:-1], "new place")
    panel = replace(setup.panel, locations=Locations.of_ids(ids), digest=None)
    if not setup.fitted.accepts_new_locations:
        with refused(ArtifactError):
            setup.fitted.forecast(panel, setup.at)
        return
    table = setup.fitted.forecast(panel, setup.at)
    new = table["unique_id"] == "new place"
    labelled = "degraded" in table and table[new]["degraded"].str.contains(NEW_LOCATION).all()
    need(bool(new.any() and labelled), "a new location is not labelled as degraded")
    inside = (table["q10"] <= table["y_hat"]) & (table["y_hat"] <= table["q90"])
    need(bool(inside.all()), "an interval does not contain its forecast")


def _nothing_after_the_origin_is_seen(setup: CheckSetup) -> None:
    origins = np.arange(HOURS - 60, HOURS - RECIPE.lags.horizon, 11)
    for number, origin in enumerate(origins):
        pair = np.array([origin, HOURS - RECIPE.lags.horizon - 1])  # the later one may see more
        values = setup.panel.values.copy()
        values[origin + 1 :] = np.nan if number % 2 else 1e6
        covariates = setup.panel.covariates.values.copy()
        covariates[origin + RECIPE.lags.horizon + 1 :] = 1e6
        changed = setup.panel.with_data(values, covariates)
        before, after = (setup.fitted.predict(p, pair)[0] for p in (setup.panel, changed))
        need(np.array_equal(after, before), f"later data changed origin {origin}")


def _many_origins_equal_one_at_a_time(setup: CheckSetup) -> None:
    origins = np.arange(HOURS - 40, HOURS - 10)
    together = setup.fitted.predict(setup.panel, origins)
    rows = np.arange(0, len(origins), 3)
    alone = np.concatenate([setup.fitted.predict(setup.panel, origins[[row]]) for row in rows])
    scale = np.maximum(np.abs(alone), 1)
    worst = float((np.abs(together[rows] - alone) / scale).max())
    need(worst <= TOLERANCE, f"relative difference {worst:.1e}")


def _missing_history_follows_the_rule(setup: CheckSetup) -> None:
    values = setup.panel.values.copy()
    values[setup.origin - 2 : setup.origin + 1] = np.nan
    panel = setup.panel.with_data(values)
    masks = setup.fitted.masks_missing
    if not masks:
        with refused(DataError):
            setup.fitted.forecast(panel, setup.at)
    table = setup.fitted.forecast(panel, setup.at, allow_missing=not masks)
    label = "no value in the last 3 steps" if masks else "filled"
    labelled = "degraded" in table and table["degraded"].str.contains(label).all()
    need(bool(labelled), "a forecast without recent history is not labelled as degraded")
    values = setup.panel.values.copy()
    values[setup.origin - 24, 0] = np.nan  # one sensor, one hour
    table = setup.fitted.forecast(setup.panel.with_data(values), setup.at)
    need("degraded" not in table, "one missing value degrades the whole forecast")


def _an_unknown_future_is_refused_or_labelled(setup: CheckSetup) -> None:
    weather = setup.panel.covariates.values.copy()
    weather[setup.origin + 1 :] = np.nan
    panel = setup.panel.with_data(covariates=weather)
    with refused(DataError):
        setup.fitted.forecast(panel, setup.at)
    ways: tuple[Weather, ...] = ("persist", "climatology", "none")
    for way in ways:
        table = setup.fitted.forecast(panel, setup.at, weather=way)
        labelled = "degraded" in table and (table["degraded"] == f"weather {way}").all()
        need(bool(labelled), f"weather {way} is not labelled as degraded")


def _a_wrong_origin_is_refused(setup: CheckSetup) -> None:
    for at in ("2021-04-01T08:00", "yesterday", "2021-04-01T08:30Z", "2031-04-01T08:00Z", ""):
        with refused(ConfigError):
            setup.fitted.forecast(setup.panel, at)


def _short_history_is_labelled_or_refused(setup: CheckSetup) -> None:
    early = f"{setup.panel.times[5]}Z"
    masks = setup.fitted.masks_missing
    if not masks:
        with refused(DataError):
            setup.fitted.forecast(setup.panel, early)
    table = setup.fitted.forecast(setup.panel, early, allow_missing=not masks)
    label = "past values missing" if masks else "filled"
    labelled = "degraded" in table and table["degraded"].str.contains(label).all()
    need(bool(labelled), "a forecast on a short history is not labelled as degraded")
    need(bool(np.isfinite(table["y_hat"]).all()), "a forecast on a short history is not finite")


def _by_id(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["unique_id", "ds"], ignore_index=True)


FORECASTS: tuple[Check, ...] = (
    _forecasts_are_a_long_table,
    _counts_are_never_negative_or_nan,
    _measurements_may_be_negative,
    _locations_are_matched_by_id,
    _locations_may_be_absent,
    _new_locations_are_labelled_or_refused,
    _nothing_after_the_origin_is_seen,
    _many_origins_equal_one_at_a_time,
    _missing_history_follows_the_rule,
    _an_unknown_future_is_refused_or_labelled,
    _a_wrong_origin_is_refused,
    _short_history_is_labelled_or_refused,
)
