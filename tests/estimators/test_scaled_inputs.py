from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.holidays import Holidays
from forecaster.config import LagConfig
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead, look_back
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import coming, past, scale_arrays, scale_shapes, scaler_of
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
def test_a_question_says_what_the_batches_of_training_say(
    panel: Panel, scaler: Scaler, recipe: Recipe, origins: list[int]
) -> None:
    fill, asked = fit_fill(panel, TRAIN), np.array(origins)
    batch = Batches(panel, scaler, fill, recipe.lags).cut(asked)
    part, own = look_back(panel, recipe.lags, asked)
    question = ForecastInputs(fill_missing(part, fill), own, *look_ahead(part, own, 3))
    signal, auxiliary = past(question, scaler, recipe.lags)
    next_auxiliary, next_local = coming(question, scaler)
    assert np.array_equal(signal.transpose(3, 2, 0, 1), batch.signal.numpy())
    assert np.array_equal(auxiliary.transpose(2, 0, 1), batch.auxiliary.numpy())
    assert np.array_equal(next_auxiliary.transpose(2, 0, 1), batch.next_auxiliary.numpy())
    assert np.array_equal(next_local.transpose(3, 2, 0, 1), batch.next_local.numpy())


def test_what_is_asked_for_ahead_stands_in_place_of_the_panels(
    panel: Panel, scaler: Scaler
) -> None:
    origins = np.array([900])
    world, own = look_ahead(panel, origins, 2)
    question = ForecastInputs(panel, origins, world + 3, own - 5)
    auxiliary, local = coming(question, scaler)
    usual = ForecastInputs(panel, origins, world, own)
    before, local_before = coming(usual, scaler)
    moved = (auxiliary - before)[0, 0, :2] * scaler.covariates.deviation
    assert moved == pytest.approx([3, 3], rel=1e-4)
    assert np.array_equal(auxiliary[..., 2:], before[..., 2:])  # the calendar
    deviation = scaler.local_covariates.deviation[:, None]
    assert ((local - local_before) * deviation)[0, 1] == pytest.approx(-5, rel=1e-4)


def test_a_supposed_holiday_is_a_whole_local_day(panel: Panel, scaler: Scaler) -> None:
    # 2015-11-07T22:00 in New York: the steps ahead are 23:00 of that day and 0:00 of the next.
    origins, lags = np.array([24 * 37 + 23]), LagConfig(recent=30, seasons=(), horizon=2)
    question = ForecastInputs(panel, origins, *look_ahead(panel, origins, 2))
    for given, seen, ahead in (
        ([1, np.nan], [0] * 7 + [1] * 23, [1, 0]),
        ([np.nan, 1], [0] * 30, [0, 1]),
        ([1, 1], [0] * 7 + [1] * 23, [1, 1]),
    ):
        supposed = replace(question, holiday=np.array(given, np.float32))
        (_, history), (usual, _) = past(supposed, scaler, lags), coming(question, scaler)
        auxiliary, _ = coming(supposed, scaler)
        assert history[0, :, -1].tolist() == seen
        assert auxiliary[0, :, -1].tolist() == ahead
        assert np.array_equal(auxiliary[..., :-1], usual[..., :-1])


def test_a_holiday_may_be_supposed_to_be_none(panel: Panel, scaler: Scaler) -> None:
    clock = replace(panel.clock, holidays=Holidays("US", 2015, 2025, ("2015-11-08",)))
    origins = np.array([24 * 38 + 3, 24 * 40])
    question = ForecastInputs(replace(panel, clock=clock), origins, *look_ahead(panel, origins, 2))
    none = replace(question, holiday=np.zeros(2, np.float32))
    assert coming(question, scaler)[0][..., -1].tolist() == [[1, 1], [0, 0]]
    assert not coming(none, scaler)[0][..., -1].any()


def test_scales_come_back_from_the_arrays_of_a_run(scaler: Scaler) -> None:
    arrays = scale_arrays(scaler)
    shapes = scale_shapes(Sizes(N=PLACES, P=2, Q=3, L=7, K=2))
    assert {name: array.shape for name, array in arrays.items()} == shapes
    again = scale_arrays(scaler_of(arrays))
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)
