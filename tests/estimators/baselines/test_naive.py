from collections.abc import Callable

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig, Season
from forecaster.errors import DataError
from forecaster.estimators.baselines import naive as module
from forecaster.estimators.baselines.naive import HistoricalMean, LastValue, SeasonalNaive
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

HOURS = 24 * 47
MakePanel = Callable[..., Panel]


def local_hours(panel: Panel) -> np.ndarray:
    """Return how long each step is after the local beginning of the panel, on the wall clock."""
    local = panel.clock.local(panel.times)
    return (local - local[0]).astype(np.int64) // 3600


def test_the_last_value_is_repeated_for_every_step_and_location(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(np.arange(HOURS)[:, None] * np.array([1.0, 10.0, 100.0]))
    fitted = LastValue(recipe).fit(panel, splits)
    forecast = fitted.predict(panel, np.array([1000, 1003]))
    assert forecast.shape == (2, 3, 3)
    for k in range(3):
        assert forecast[0, k].tolist() == [1000.0, 10_000.0, 100_000.0]
        assert forecast[1, k].tolist() == [1003.0, 10_030.0, 100_300.0]


def test_the_last_value_needs_no_seasons(make_panel: MakePanel, splits: Splits) -> None:
    panel = make_panel(np.arange(HOURS)[:, None] * np.ones((1, 2)))
    recipe = Recipe(lags=LagConfig(recent=1, seasons=(), horizon=5))
    fitted = LastValue(recipe).fit(panel, splits)
    assert np.array_equal(fitted.predict(panel, np.array([1000]))[0], np.full((5, 2), 1000.0))


def test_a_missing_last_value_is_the_usual_one(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    by_hour = local_hours(make_panel(np.zeros((HOURS, 1)))) % 24
    values = by_hour[:, None] * np.ones((1, 3))
    fitted = LastValue(recipe).fit(make_panel(values), splits)
    values[1000, 1] = np.nan
    forecast = fitted.predict(make_panel(values), np.array([1000]))[0]
    assert np.array_equal(forecast, np.full((3, 3), by_hour[1000]))


def test_the_naive_forecast_is_last_week_on_the_wall_clock(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    bare = make_panel(np.zeros((HOURS, 1)))
    panel = make_panel(local_hours(bare)[:, None] * np.ones((1, 3)))  # the value is its own time
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    # 2015-11-01 06:00Z ends daylight saving: a week before lies 169 real hours back
    for origin in np.flatnonzero(panel.times >= np.datetime64("2015-11-02T12"))[[0, 40, 90]]:
        forecast = fitted.predict(panel, np.array([origin]))[0]
        expected = local_hours(panel)[origin + np.arange(1, 4)] - 7 * 24
        assert np.array_equal(forecast, np.repeat(expected[:, None], 3, axis=1))


def test_without_seasons_the_naive_forecast_is_the_last_value(
    make_panel: MakePanel, splits: Splits
) -> None:
    panel = make_panel(np.arange(HOURS)[:, None] * np.ones((1, 2)))
    recipe = Recipe(lags=LagConfig(recent=2, seasons=(), horizon=3))
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    assert np.array_equal(fitted.predict(panel, np.array([1000]))[0], np.full((3, 2), 1000.0))


def test_a_horizon_beyond_the_season_goes_back_further(
    make_panel: MakePanel, splits: Splits
) -> None:
    bare = make_panel(np.zeros((HOURS, 1)))
    panel = make_panel(local_hours(bare)[:, None] * np.ones((1, 2)))
    season = Season(days=1, count=2, before=0, after=0)
    recipe = Recipe(lags=LagConfig(recent=1, seasons=(season,), horizon=30))
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    origin = 1000
    forecast = fitted.predict(panel, np.array([origin]))[0, :, 0]
    assert (forecast <= local_hours(panel)[origin]).all()  # nothing after the origin
    assert np.array_equal(forecast % 24, local_hours(panel)[origin + np.arange(1, 31)] % 24)


def test_the_mean_is_over_the_chosen_steps(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    generator = np.random.default_rng(0)
    panel = make_panel(generator.poisson(20, (HOURS, 2)))
    fitted = HistoricalMean(recipe).fit(panel, splits)
    assert fitted.run is not None
    recent, days, weeks = fitted.run.arrays["counts"].tolist()
    origin = 1100
    expected = []
    for ahead in (1, 2, 3):
        steps = [origin - i for i in range(recent)]
        steps += [origin + ahead - 24 * j for j in range(1, days + 1)]
        steps += [origin + ahead - 168 * j for j in range(1, weeks + 1)]
        expected.append(panel.values[steps].mean(axis=0))
    forecast = fitted.predict(panel, np.array([origin]))[0]
    assert np.allclose(forecast, expected, rtol=1e-6)


def test_noise_around_a_level_asks_for_many_steps(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    panel = make_panel(np.random.default_rng(1).poisson(20, (HOURS, 5)))
    fitted = HistoricalMean(recipe).fit(panel, splits)
    assert fitted.run is not None
    assert fitted.run.arrays["counts"].sum() >= 6


def test_a_random_walk_asks_for_the_last_step_alone(
    make_panel: MakePanel, splits: Splits, recipe: Recipe
) -> None:
    steps = np.random.default_rng(2).normal(size=(HOURS, 5)).cumsum(axis=0)
    fitted = HistoricalMean(recipe).fit(make_panel(steps, "measurement"), splits)
    assert fitted.run is not None
    assert fitted.run.arrays["counts"].tolist() == [1, 0, 0]


def test_steps_beyond_the_season_go_back_as_few_seasons_as_they_must(
    make_panel: MakePanel, splits: Splits
) -> None:
    bare = make_panel(np.zeros((HOURS, 1)))
    panel = make_panel(local_hours(bare)[:, None] * np.ones((1, 2)))  # the value is its own time
    season = Season(days=1, count=3, before=0, after=0)
    recipe = Recipe(lags=LagConfig(recent=1, seasons=(season,), horizon=53))
    fitted = SeasonalNaive(recipe).fit(panel, splits)
    origin, ahead = 1000, np.arange(1, 54)
    expected = local_hours(panel)[origin + ahead] - 24 * np.ceil(ahead / 24)
    assert np.array_equal(fitted.predict(panel, np.array([origin]))[0, :, 1], expected)


def test_the_mean_of_five_minute_steps_without_seasons_is_one_for_all_steps(
    make_panel: MakePanel,
) -> None:
    values = np.random.default_rng(4).normal(40, 5, (HOURS, 2))
    panel = make_panel(values, "measurement", clock=Clock("UTC", 5))
    recipe = Recipe(lags=LagConfig(recent=11, seasons=(), horizon=17))
    fitted = HistoricalMean(recipe).fit(panel, Splits.by_share(panel))
    forecast = fitted.predict(panel, np.array([1000]))
    assert forecast.shape == (1, 17, 2)
    assert fitted.run is not None
    count = int(fitted.run.arrays["counts"][0])
    assert np.allclose(forecast[0, 16], values[1001 - count : 1001].mean(axis=0))


def test_memory_is_bounded_by_blocks_that_change_nothing(
    make_panel: MakePanel, splits: Splits, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = make_panel(np.random.default_rng(5).poisson(20, (HOURS, 2)))
    recipe = Recipe(lags=LagConfig(recent=2, seasons=(Season(days=7, count=2),), horizon=29))
    origins = np.arange(1000, 1019)
    whole = HistoricalMean(recipe).fit(panel, splits).predict(panel, origins)
    monkeypatch.setattr(module, "BLOCK_VALUES", 997)  # five origins at a time
    parts = HistoricalMean(recipe).fit(panel, splits).predict(panel, origins)
    assert np.array_equal(parts, whole)


def test_too_little_history_for_a_long_horizon_is_said_in_steps(make_panel: MakePanel) -> None:
    panel = make_panel(np.ones((HOURS, 1)))
    with pytest.raises(
        DataError, match=r"200 steps ahead by 4 × 7 days before: need ≥ 672 .* 171 more"
    ):
        module._season_steps(panel, np.array([500]), 7, 4, 200)
