from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead, look_back
from forecaster.estimators.networks.states import window_states
from forecaster.panel.fill import fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.recipe import Recipe
from forecaster.windows.batches import Batches
from forecaster.windows.scaling import Scaler, fit_scaler

HOURS, PLACES = 24 * 47, 5
TRAIN = np.arange(HOURS) < 700
MakePanel = Callable[..., Panel]


@pytest.fixture
def panel(make_panel: MakePanel) -> Panel:
    generator = np.random.default_rng(0)
    values = generator.poisson(13, (HOURS, PLACES)).astype(float)
    values[generator.random(values.shape) < 0.02] = np.nan
    weather = generator.normal(7, 3, (HOURS + 9, 2)).astype(np.float32)
    own = generator.normal(2, 5, (3, HOURS + 9, PLACES)).astype(np.float32)
    return make_panel(
        values,
        covariates=Covariates(("wind", "rain"), weather),
        local_covariates=LocalCovariates(("queue", "price", "noise"), own),
    )


@pytest.fixture
def scaler(panel: Panel) -> Scaler:
    return fit_scaler(panel, TRAIN)


@pytest.mark.parametrize("origins", [[900], [1123, 800, 911]])
@pytest.mark.parametrize("holiday", [None, np.full(3, np.nan, np.float32)])
def test_forecasts_see_what_the_batches_of_training_hold(
    panel: Panel,
    scaler: Scaler,
    recipe: Recipe,
    origins: list[int],
    holiday: np.ndarray | None,
) -> None:
    fill, steps = fit_fill(panel, TRAIN), np.array(origins)
    batch = Batches(panel, scaler, fill, recipe.lags).cut(steps)
    part, places = look_back(panel, recipe.lags, steps)
    ahead = look_ahead(part, places, 3)
    inputs = ForecastInputs(fill_missing(part, fill), places, *ahead, holiday)
    history, coming = window_states(inputs, scaler, recipe.lags, slots=168)
    assert np.array_equal(history.slots, batch.slots)
    assert np.array_equal(coming.slots, batch.next_slots)
    assert np.array_equal(history.signal, batch.signal)
    assert np.array_equal(history.auxiliary, batch.auxiliary)
    assert np.array_equal(coming.auxiliary, batch.next_auxiliary)
    assert np.array_equal(coming.signal, batch.next_local)


def test_L10_who_is_open_ahead_is_the_same_in_training_and_in_use(
    panel: Panel, scaler: Scaler, recipe: Recipe
) -> None:
    metro = panel.with_hours(["06:00-22:00", "08:00-20:00", *["06:00-22:00"] * (PLACES - 2)])
    fill, origins = fit_fill(metro, TRAIN), np.arange(900, 930)
    batch = Batches(metro, scaler, fill, recipe.lags).cut(origins)
    part, places = look_back(metro, recipe.lags, origins)
    inputs = ForecastInputs(fill_missing(part, fill), places, *look_ahead(part, places, 3))
    _, coming = window_states(inputs, scaler, recipe.lags)
    assert batch.next_open is not None
    assert np.array_equal(coming.open, batch.next_open)
    assert np.array_equal(batch.next_open & batch.observed, batch.observed)
    assert (batch.next_open[1] & ~batch.next_open[0]).sum() == 0
    assert 0 < batch.next_open[1].sum() < batch.next_open[0].sum() < batch.next_open[0].numel()
    assert Batches(panel, scaler, fill, recipe.lags).cut(origins).next_open is None


def test_covariates_assumed_ahead_take_the_place_of_the_panels(
    panel: Panel, scaler: Scaler
) -> None:
    origins, lags = np.array([900, 907]), LagConfig(recent=3, seasons=(), horizon=2)
    filled = fill_missing(panel, fit_fill(panel, TRAIN))
    world, local = look_ahead(filled, origins, 2)
    here = window_states(ForecastInputs(filled, origins, world, local), scaler, lags)
    there = window_states(ForecastInputs(filled, origins, world + 3, local - 5), scaler, lags)
    assert np.array_equal(here[0].signal, there[0].signal)
    assert np.array_equal(here[0].auxiliary, there[0].auxiliary)
    moved = (there[1].auxiliary - here[1].auxiliary).numpy()
    assert moved[0, 1, 1] * scaler.covariates.deviation[0] == pytest.approx(3, rel=1e-4)
    assert not moved[2:].any()  # the calendar
    apart = (there[1].signal - here[1].signal).numpy()[4, 2] * scaler.local_covariates.deviation[2]
    assert apart == pytest.approx(-5, rel=1e-4)


def test_networks_of_earlier_runs_know_hours_of_the_week_at_any_step(
    panel: Panel, scaler: Scaler
) -> None:
    origins, lags = np.array([900, 907]), LagConfig(recent=5, seasons=(), horizon=2)
    quarters = replace(panel, clock=Clock("America/New_York", 15))
    filled = fill_missing(quarters, fit_fill(quarters, TRAIN))
    inputs = ForecastInputs(filled, origins, *look_ahead(filled, origins, 2))
    history, coming = window_states(inputs, scaler, lags, slots=4 * 168)
    assert history.slots is not None
    assert (history.slots.diff() == 1).all()
    earlier = window_states(inputs, scaler, lags, slots=168)
    for now, before in zip((history, coming), earlier, strict=True):
        assert np.array_equal(now.slots // 4, before.slots)
    assert window_states(inputs, scaler, lags)[0].slots is None


def test_a_supposed_holiday_is_a_whole_local_day(panel: Panel, scaler: Scaler) -> None:
    # 2015-11-07T22:00 in New York: the steps ahead are 23:00 of that day and 0:00 of the next.
    origins, lags = np.array([24 * 37 + 23]), LagConfig(recent=30, seasons=(), horizon=2)
    filled = fill_missing(panel, fit_fill(panel, TRAIN))
    inputs = ForecastInputs(filled, origins, *look_ahead(filled, origins, 2))
    for holiday, seen, ahead in (
        ([1, np.nan], [0] * 7 + [1] * 23, [1, 0]),
        ([np.nan, 1], [0] * 30, [0, 1]),
        ([1, 1], [0] * 7 + [1] * 23, [1, 1]),
    ):
        supposed = replace(inputs, holiday=np.array(holiday, np.float32))
        history, coming = window_states(supposed, scaler, lags)
        assert history.auxiliary[-1, 0].tolist() == seen
        assert coming.auxiliary[-1, 0].tolist() == ahead
