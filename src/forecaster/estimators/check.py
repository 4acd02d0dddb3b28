"""The suite that every estimator passes, ours and anyone else's: `check_forecaster(make)`."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from forecaster.config import IntervalConfig, Recipe, Weather
from forecaster.errors import ArtifactError, ConfigError, DataError, ForecasterError, RunError
from forecaster.estimators.contract import Estimator
from forecaster.estimators.sample import HOURS, PLACES, RECIPE, small_city, until_step
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, Locations
from forecaster.splits import Splits

Make = Callable[[Recipe], Estimator]

COLUMNS = ["unique_id", "ds", "ds_local", "cutoff", "y_hat", "q10", "q50", "q90"]
LEAST_INSIDE, MOST_INSIDE = 0.7, 0.95  # of what comes, in an interval for 80 % of it
TOLERANCE = 1e-5  # relative, between one origin alone and the same among many


@dataclass(frozen=True)
class World:
    """What the checks work on: an estimator fitted to a small city."""

    make: Make
    panel: Panel
    splits: Splits
    fitted: Estimator

    @property
    def origin(self) -> int:
        """A step late in the test period."""
        return HOURS - 7

    def at(self, origin: int | None = None) -> str:
        """Return an origin as users write it."""
        return f"{self.panel.times[self.origin if origin is None else origin]}Z"


def check_forecaster(make: Make) -> list[str]:
    """Run every check on an estimator and return their names; failures are raised together.

    Args:
        make: returns a new, unfitted estimator for the given recipe.
    """
    panel = small_city()
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    world = World(make, panel, splits, make(RECIPE).fit(panel, splits))
    failures = []
    for name, check in CHECKS.items():
        try:
            check(world)
        except (AssertionError, ForecasterError) as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise AssertionError("\n  ".join([f"{len(failures)} checks failed", *failures]))
    return list(CHECKS)


def _forecasts_are_a_long_table(world: World) -> None:
    table = world.fitted.forecast(world.panel, world.at())
    _need(list(table.columns) == COLUMNS, f"columns {list(table.columns)}, not {COLUMNS}")
    horizon = RECIPE.lags.horizon
    _need(len(table) == horizon * PLACES, f"{len(table)} rows, not {horizon * PLACES}")
    cutoff = pd.Timestamp(world.at())
    _need(bool((table["cutoff"] == cutoff).all()), "cutoff is not the origin")
    ahead = pd.TimedeltaIndex(table["ds"] - table["cutoff"]) / pd.Timedelta(hours=1)
    _need(set(ahead) == set(range(1, horizon + 1)), f"steps ahead are {sorted(set(ahead))}")
    same = pd.to_datetime(table["ds_local"], utc=True) == table["ds"]
    _need(bool(same.all()), "ds_local is another instant than ds")


def _counts_are_never_negative_or_nan(world: World) -> None:
    for factor in (0.0, 1.0, 1e4):
        panel = replace(world.panel, values=world.panel.values * np.float32(factor))
        y = world.fitted.forecast(panel, world.at())["y_hat"]
        _need(bool(np.isfinite(y).all() and (y >= 0).all()), f"demand × {factor:g} gave {y.min()}")


def _measurements_may_be_negative(world: World) -> None:
    panel = small_city("measurement")
    fitted = world.make(RECIPE).fit(panel, world.splits)
    y = fitted.forecast(panel, world.at())["y_hat"]
    _need(bool(np.isfinite(y).all() and (y < 0).any()), "values around −15 gave none below zero")


def _locations_are_matched_by_id(world: World) -> None:
    order = world.panel.locations.ids[::-1]
    there = world.fitted.forecast(world.panel.select(order), world.at())
    here = world.fitted.forecast(world.panel, world.at())
    _need(_by_id(there).equals(_by_id(here)), "permuted columns changed the forecast of an id")


def _other_locations_are_refused(world: World) -> None:
    with _refused(ArtifactError):
        fewer = world.panel.select(world.panel.locations.ids[1:])
        world.fitted.forecast(fewer, world.at())
    renamed = replace(world.panel, locations=Locations.of_ids(f"spot {n}" for n in range(PLACES)))
    with _refused(ArtifactError):
        world.fitted.forecast(renamed, world.at())


def _nothing_after_the_origin_is_seen(world: World) -> None:
    origins = np.arange(HOURS - 60, HOURS - RECIPE.lags.horizon, 11)
    for number, origin in enumerate(origins):
        pair = np.array([origin, HOURS - RECIPE.lags.horizon - 1])  # the later one may see more
        values = world.panel.values.copy()
        values[origin + 1 :] = np.nan if number % 2 else 1e6
        covariates = world.panel.covariates.values.copy()
        covariates[origin + RECIPE.lags.horizon + 1 :] = 1e6
        changed = replace(
            world.panel, values=values, covariates=Covariates(("temperature", "rain"), covariates)
        )
        before, after = (world.fitted.predict(p, pair)[0] for p in (world.panel, changed))
        _need(np.array_equal(after, before), f"later data changed origin {origin}")


def _quantiles_rise_and_hold(world: World) -> None:
    origins = np.arange(HOURS - 200, HOURS - RECIPE.lags.horizon)
    truth = world.panel.values[origins[:, None] + np.arange(1, RECIPE.lags.horizon + 1)]
    _need(world.fitted.levels == RECIPE.intervals.quantiles, f"levels {world.fitted.levels}")
    for online in (False, True):
        q = world.fitted.predict_quantiles(world.panel, origins, online=online)
        _need(q.shape == (len(origins), 3, *truth.shape[1:]), f"quantiles are {q.shape}")
        _need(bool(np.isfinite(q).all() and (q >= 0).all()), "quantiles of counts below zero")
        _need(bool((np.diff(q, axis=1) >= 0).all()), "quantiles cross")
        within = (q[:, 0] <= truth) & (truth <= q[:, 2])
        inside = float(within[np.isfinite(truth)].mean())
        _need(LEAST_INSIDE <= inside <= MOST_INSIDE, f"{100 * inside:.0f} % in an 80 % interval")


def _quantiles_see_nothing_after_the_origin(world: World) -> None:
    origin = np.array([HOURS - 60])
    values = world.panel.values.copy()
    values[origin[0] + 1 :] = 1e6
    changed = replace(world.panel, values=values)
    before, after = (world.fitted.predict_quantiles(p, origin) for p in (world.panel, changed))
    _need(np.array_equal(after, before), "later outcomes changed the quantiles of an origin")
    values[origin[0] - 48 : origin[0]] = 1e6
    moved = world.fitted.predict_quantiles(replace(world.panel, values=values), origin)
    _need(not np.array_equal(moved, before), "outcomes up to the origin change no quantile")


def _quantiles_are_matched_by_id(world: World) -> None:
    order, origin = world.panel.locations.ids[::-1], np.array([world.origin])
    there = world.fitted.predict_quantiles(world.panel.select(order), origin)
    here = world.fitted.predict_quantiles(world.panel, origin)
    _need(np.array_equal(there[..., ::-1], here), "permuted columns changed quantiles of an id")


def _too_few_validation_windows_are_refused(world: World) -> None:
    narrow = RECIPE.model_copy(update={"intervals": IntervalConfig(quantiles=(0.001, 0.999))})
    with _refused(DataError):
        world.make(narrow).fit(world.panel, world.splits)


def _a_run_without_quantiles_still_forecasts(world: World) -> None:
    run = world.fitted.run
    if run is None:
        raise AssertionError("fit has learned nothing")
    own = ("intervals.", "model.quantiles.")
    arrays = {name: array for name, array in run.arrays.items() if not name.startswith(own)}
    older = type(world.fitted).from_run(replace(run, arrays=arrays))
    table, now = (e.forecast(world.panel, world.at()) for e in (older, world.fitted))
    _need(older.levels == (), f"an older run has the levels {older.levels}")
    same = table.equals(now.drop(columns=COLUMNS[5:], errors="ignore"))
    _need(same, "an older run forecasts something else")


def _test_steps_do_not_change_what_is_learned(world: World) -> None:
    panel = world.panel
    held_out = world.splits.mask("test", panel.clock, panel.times)
    values, weather = panel.values.copy(), panel.covariates.values.copy()
    values[held_out] = np.nan_to_num(values[held_out]) * 3 + 11
    weather[: len(values)][held_out] -= 7
    changed = replace(panel, values=values, covariates=replace(panel.covariates, values=weather))
    other = world.make(RECIPE).fit(changed, world.splits)
    _need(_same_memory(world.fitted, other), "test steps changed what was learned")


def _fitting_again_changes_nothing(world: World) -> None:
    again = world.make(RECIPE).fit(world.panel, world.splits)
    _need(_same_memory(world.fitted, again), "a second estimator learned something else")
    again.fit(world.panel, world.splits)
    _need(_same_memory(world.fitted, again), "fitting twice learned something else")


def _a_saved_estimator_answers_the_same(world: World) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world.fitted.save(folder)
        loaded = type(world.fitted).load(folder)
    here, there = (e.forecast(world.panel, world.at()) for e in (world.fitted, loaded))
    _need(here.equals(there), "the loaded estimator forecasts differently")


def _inputs_are_not_changed(world: World) -> None:
    panel = small_city()
    world.make(RECIPE).fit(panel, world.splits).forecast(panel, world.at())
    fresh = small_city()
    same = np.array_equal(panel.values, fresh.values, equal_nan=True)
    same &= np.array_equal(panel.covariates.values, fresh.covariates.values)
    _need(same, "fit or forecast changed the panel")


def _what_cannot_be_learned_from_is_refused(world: World) -> None:
    def refuse(values: np.ndarray) -> None:
        with _refused(DataError):
            panel = replace(world.panel, values=values.astype(np.float32))
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
    with _refused(DataError):  # too short for one window
        short = until_step(world.panel, 40)
        world.make(RECIPE).fit(short, Splits.by_share(short))


def _an_unfitted_estimator_says_so(world: World) -> None:
    with _refused(RunError):
        world.make(RECIPE).forecast(world.panel, world.at())


def _one_location_is_enough(world: World) -> None:
    panel = world.panel.select(world.panel.locations.ids[2:3])
    table = world.make(RECIPE).fit(panel, world.splits).forecast(panel, world.at())
    _need(len(table) == RECIPE.lags.horizon, f"{len(table)} rows for one location")


def _many_origins_equal_one_at_a_time(world: World) -> None:
    origins = np.arange(HOURS - 40, HOURS - 10)
    together = world.fitted.predict(world.panel, origins)
    rows = np.arange(0, len(origins), 3)
    alone = np.concatenate([world.fitted.predict(world.panel, origins[[row]]) for row in rows])
    scale = np.maximum(np.abs(alone), 1)
    worst = float((np.abs(together[rows] - alone) / scale).max())
    _need(worst <= TOLERANCE, f"relative difference {worst:.1e}")


def _missing_history_follows_the_rule(world: World) -> None:
    values = world.panel.values.copy()
    values[world.origin - 2 : world.origin + 1] = np.nan
    panel = replace(world.panel, values=values)
    with _refused(DataError):
        world.fitted.forecast(panel, world.at())
    table = world.fitted.forecast(panel, world.at(), allow_missing=True)
    labelled = "degraded" in table and table["degraded"].str.contains("filled").all()
    _need(bool(labelled), "a forecast on filled history is not labelled as degraded")
    values = world.panel.values.copy()
    values[world.origin - 24, 0] = np.nan  # one sensor, one hour
    table = world.fitted.forecast(replace(world.panel, values=values), world.at())
    _need("degraded" not in table, "one missing value silenced the city")


def _an_unknown_future_is_refused_or_labelled(world: World) -> None:
    weather = world.panel.covariates.values.copy()
    weather[world.origin + 1 :] = np.nan
    panel = replace(world.panel, covariates=Covariates(("temperature", "rain"), weather))
    with _refused(DataError):
        world.fitted.forecast(panel, world.at())
    ways: tuple[Weather, ...] = ("persist", "climatology", "none")
    for way in ways:
        table = world.fitted.forecast(panel, world.at(), weather=way)
        labelled = "degraded" in table and (table["degraded"] == f"weather {way}").all()
        _need(bool(labelled), f"weather {way} is not labelled as degraded")


def _a_wrong_origin_is_refused(world: World) -> None:
    for at in ("2021-04-01T08:00", "yesterday", "2021-04-01T08:30Z", "2031-04-01T08:00Z", ""):
        with _refused(ConfigError):
            world.fitted.forecast(world.panel, at)
    with _refused(DataError):
        world.fitted.forecast(world.panel, f"{world.panel.times[5]}Z")  # too little history


def _same_memory(one: Estimator, other: Estimator) -> bool:
    if one.run is None or other.run is None:
        return False
    left, right = one.run.arrays, other.run.arrays
    return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)


def _by_id(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["unique_id", "ds"], ignore_index=True)


def _need(right: bool, otherwise: str) -> None:
    if not right:
        raise AssertionError(otherwise)


@contextmanager
def _refused(error: type[ForecasterError]) -> Iterator[None]:
    try:
        yield
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")


CHECKS: dict[str, Callable[[World], None]] = {
    check.__name__.strip("_").replace("_", " "): check
    for check in (
        _forecasts_are_a_long_table,
        _counts_are_never_negative_or_nan,
        _measurements_may_be_negative,
        _locations_are_matched_by_id,
        _other_locations_are_refused,
        _nothing_after_the_origin_is_seen,
        _quantiles_rise_and_hold,
        _quantiles_see_nothing_after_the_origin,
        _quantiles_are_matched_by_id,
        _too_few_validation_windows_are_refused,
        _a_run_without_quantiles_still_forecasts,
        _test_steps_do_not_change_what_is_learned,
        _fitting_again_changes_nothing,
        _a_saved_estimator_answers_the_same,
        _inputs_are_not_changed,
        _what_cannot_be_learned_from_is_refused,
        _an_unfitted_estimator_says_so,
        _one_location_is_enough,
        _many_origins_equal_one_at_a_time,
        _missing_history_follows_the_rule,
        _an_unknown_future_is_refused_or_labelled,
        _a_wrong_origin_is_refused,
    )
}
