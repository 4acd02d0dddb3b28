from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.errors import ArtifactError
from forecaster.estimators.forecast_inputs import ForecastInputs, look_ahead
from forecaster.estimators.match import Sizes
from forecaster.estimators.scaled_inputs import (
    bound_inputs,
    scale_ahead,
    scale_arrays,
    scale_shapes,
    scaler_of,
)
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.windows.scaling import Scaler, bound_values, fit_scaler

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


def test_what_is_asked_for_ahead_stands_in_place_of_the_panels(
    panel: Panel, scaler: Scaler
) -> None:
    origins = np.array([900])
    world, own = look_ahead(panel, origins, 2)
    inputs = ForecastInputs(panel, origins, world + 3, own - 5)
    auxiliary, local = scale_ahead(inputs, scaler)
    usual = ForecastInputs(panel, origins, world, own)
    before, local_before = scale_ahead(usual, scaler)
    moved = (auxiliary - before)[0, 0, :2] * scaler.covariates.deviation
    assert moved == pytest.approx([3, 3], rel=1e-4)
    assert np.array_equal(auxiliary[..., 2:], before[..., 2:])  # the calendar
    deviation = scaler.local_covariates.deviation[:, None]
    assert ((local - local_before) * deviation)[0, 1] == pytest.approx(-5, rel=1e-4)


def test_a_supposed_holiday_is_a_whole_local_day(panel: Panel, scaler: Scaler) -> None:
    # 2015-11-07T22:00 in New York: the steps ahead are 23:00 of that day and 0:00 of the next.
    origins = np.array([24 * 37 + 23])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, 2))
    usual, _ = scale_ahead(inputs, scaler)
    for holiday, ahead in (([1, np.nan], [1, 0]), ([np.nan, 1], [0, 1]), ([1, 1], [1, 1])):
        supposed = replace(inputs, holiday=np.array(holiday, np.float32))
        auxiliary, _ = scale_ahead(supposed, scaler)
        assert auxiliary[0, :, -1].tolist() == ahead
        assert np.array_equal(auxiliary[..., :-1], usual[..., :-1])


def test_a_holiday_may_be_supposed_to_be_none(panel: Panel, scaler: Scaler) -> None:
    clock = replace(panel.clock, holidays=Holidays("US", 2015, 2025, ("2015-11-08",)))
    origins = np.array([24 * 38 + 3, 24 * 40])
    inputs = ForecastInputs(replace(panel, clock=clock), origins, *look_ahead(panel, origins, 2))
    none = replace(inputs, holiday=np.zeros(2, np.float32))
    assert scale_ahead(inputs, scaler)[0][..., -1].tolist() == [[1, 1], [0, 0]]
    assert not scale_ahead(none, scaler)[0][..., -1].any()


def test_earlier_runs_of_small_steps_know_whole_hours(panel: Panel, scaler: Scaler) -> None:
    quarters, origins = replace(panel, clock=Clock("UTC", 15)), np.array([901])
    inputs = ForecastInputs(quarters, origins, *look_ahead(quarters, origins, 2))
    calendar, _ = scale_ahead(inputs, scaler)
    earlier, _ = scale_ahead(replace(inputs, whole_hours=True), scaler)
    assert (calendar[0, 0, 2 + 7 : -1] > 0).sum() == 2  # two hours have a share
    assert sorted(earlier[0, 0, 2 + 7 : -1].tolist())[-2:] == [0, 1]
    assert np.array_equal(calendar[..., : 2 + 7], earlier[..., : 2 + 7])


def test_scales_come_back_from_the_arrays_of_a_run(scaler: Scaler) -> None:
    arrays = scale_arrays(scaler)
    shapes = scale_shapes(Sizes(N=PLACES, P=2, Q=3, L=7, K=2))
    assert {name: array.shape for name, array in arrays.items()} == shapes
    again = scale_arrays(scaler_of(arrays))
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


RANGE = {
    "values.least": np.arange(PLACES, dtype=np.float32),
    "values.most": 20 + np.arange(PLACES, dtype=np.float32),
}


def test_values_within_the_range_of_training_stay_to_the_bit(panel: Panel) -> None:
    values = np.clip(np.nan_to_num(panel.values), RANGE["values.least"], RANGE["values.most"])
    inside = panel.with_data(values=values)
    origins = np.array([800])
    inputs = ForecastInputs(inside, origins, *look_ahead(inside, origins, 3))
    assert np.array_equal(bound_inputs(RANGE, inputs).panel.values, values)
    assert bound_inputs({}, inputs) is inputs  # a run of an earlier version


@settings(max_examples=50, deadline=None)
@given(value=st.floats(-(2.0**30), 2.0**30, width=32))
def test_values_beyond_the_range_of_training_are_at_most_one_range_further(value: float) -> None:
    least, most = (np.full(1, end, dtype=np.float32) for end in (5, 25))
    row = np.full((1, 1), value, dtype=np.float32)
    (bounded,) = bound_values(row, least, most)[0].tolist()
    assert 5 - 20 <= bounded <= 25 + 20
    assert abs(bounded - 15) <= abs(value - 15) + 1e-4  # never further out
    nearer = bound_values(row * np.float32(0.5), least, most)[0, 0]
    assert (bounded >= nearer) == (value >= value * 0.5) or np.isclose(bounded, nearer)


@pytest.mark.parametrize(
    "changes",
    [
        {"values.least": np.zeros(2, np.float32), "values.most": np.ones(2, np.float32)},
        {"values.least": np.full(PLACES, 99, np.float32)},
    ],
)
def test_impossible_ranges_of_a_run_are_refused(
    changes: dict[str, np.ndarray], panel: Panel
) -> None:
    origins = np.array([800])
    inputs = ForecastInputs(panel, origins, *look_ahead(panel, origins, 3))
    with pytest.raises(ArtifactError, match=r"values\.least and values\.most"):
        bound_inputs({**RANGE, **changes}, inputs)
