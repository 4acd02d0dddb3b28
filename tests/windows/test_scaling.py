import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates
from forecaster.windows.scaling import Scale, Scaler, fit_scaler

NAN = np.float32(np.nan)
FLAG = 1  # which covariate of the panel, and which of its locations, is 0 or 1
SIZES = st.floats(-1e6, 1e6, width=32)


def with_values(panel: Panel, change: Callable[[np.ndarray], None]) -> Panel:
    values = panel.values.copy()
    change(values)
    return replace(panel, values=values, kind="measurement")


def observed(layer: np.ndarray, train: np.ndarray) -> list[float]:
    """Return what was seen in the training steps, one value at a time."""
    return [
        v for v, inside in zip(layer.tolist(), train, strict=True) if inside and not math.isnan(v)
    ]


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.pstdev(values)


def assert_same(one: Scaler, other: Scaler) -> None:
    for name in ("values", "covariates", "local_covariates"):
        first, second = getattr(one, name), getattr(other, name)
        np.testing.assert_array_equal(first.mean, second.mean)
        np.testing.assert_array_equal(first.deviation, second.deviation)


def test_each_location_has_the_mean_and_deviation_of_its_training_steps(
    panel: Panel, train: np.ndarray
) -> None:
    scale = fit_scaler(panel, train).values
    expected = [mean_and_deviation(observed(column, train)) for column in panel.values.T]
    np.testing.assert_allclose(scale.mean, [mean for mean, _ in expected], rtol=1e-6)
    np.testing.assert_allclose(scale.deviation, [size for _, size in expected], rtol=1e-6)


def test_each_covariate_has_the_mean_and_deviation_of_its_training_steps(
    panel: Panel, train: np.ndarray
) -> None:
    scale = fit_scaler(panel, train).covariates
    for p in (0, 2):
        mean, deviation = mean_and_deviation(
            observed(panel.covariates.values[: len(train), p], train)
        )
        assert scale.mean[p] == pytest.approx(mean, rel=1e-6)
        assert scale.deviation[p] == pytest.approx(deviation, rel=1e-6)


def test_a_covariate_of_locations_has_one_scale_for_all_of_them(
    panel: Panel, train: np.ndarray
) -> None:
    scale = fit_scaler(panel, train).local_covariates
    everywhere = panel.local_covariates.values[0, : len(train)].T
    mean, deviation = mean_and_deviation([v for c in everywhere for v in observed(c, train)])
    assert scale.mean.shape == (2,)
    assert scale.mean[0] == pytest.approx(mean, rel=1e-5)
    assert scale.deviation[0] == pytest.approx(deviation, rel=1e-6)


def test_scaled_training_values_have_mean_0_and_deviation_1(
    panel: Panel, train: np.ndarray
) -> None:
    scaled = fit_scaler(panel, train).values.apply(panel.values)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(np.nanmean(scaled[train], axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(np.nanstd(scaled[train], axis=0), 1, atol=1e-5)


def test_covariates_that_are_0_or_1_stay_as_they_are(panel: Panel, train: np.ndarray) -> None:
    scaler = fit_scaler(panel, train)
    assert np.isnan(panel.covariates.values[: len(train), FLAG][train]).any()  # holes allowed
    for scale in (scaler.covariates, scaler.local_covariates):
        assert (scale.mean[FLAG], scale.deviation[FLAG]) == (0.0, 1.0)
        assert scale.mean[0] != 0.0
        assert scale.deviation[0] != 1.0


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_a_flag_that_never_changes_stays_too(
    panel: Panel, train: np.ndarray, constant: float
) -> None:
    weather = panel.covariates.values.copy()
    weather[:, FLAG] = constant
    scale = fit_scaler(
        replace(panel, covariates=Covariates(panel.covariates.names, weather)), train
    ).covariates
    assert (scale.mean[FLAG], scale.deviation[FLAG]) == (0.0, 1.0)


def test_a_covariate_with_one_value_beyond_0_and_1_is_no_flag(
    panel: Panel, train: np.ndarray
) -> None:
    weather = panel.covariates.values.copy()
    weather[0, FLAG] = 2.0
    scale = fit_scaler(
        replace(panel, covariates=Covariates(panel.covariates.names, weather)), train
    ).covariates
    assert scale.mean[FLAG] == pytest.approx(0.3, abs=0.1)
    assert scale.deviation[FLAG] == pytest.approx(0.47, abs=0.1)


def test_a_location_that_only_counts_to_1_is_scaled_like_any_other(
    panel: Panel, train: np.ndarray
) -> None:
    def change(values: np.ndarray) -> None:
        values[:, 4] = np.arange(len(values)) % 2

    scale = fit_scaler(with_values(panel, change), train).values
    assert scale.mean[4] == pytest.approx(0.5, abs=0.01)
    assert scale.deviation[4] == pytest.approx(0.5, abs=0.01)


@given(constant=SIZES | st.sampled_from([0.1, 1e-30, 16_777_217.0, 3e38]))
def test_a_location_that_never_varies_keeps_its_size(
    panel: Panel, train: np.ndarray, constant: float
) -> None:
    def change(values: np.ndarray) -> None:
        values[::3, 2], values[1::3, 2], values[2::3, 2] = constant, constant, NAN

    changed = with_values(panel, change)
    scale = fit_scaler(changed, train).values
    assert scale.mean[2] == np.float32(constant)
    assert scale.deviation[2] == 1.0
    assert np.nanmax(np.abs(scale.apply(changed.values)[:, 2])) == 0.0


def test_a_location_that_varies_in_the_last_bit_alone_keeps_its_size(
    panel: Panel, train: np.ndarray
) -> None:
    def change(values: np.ndarray) -> None:
        values[:, 2] = np.float32(0.1)
        values[::2, 2] = np.nextafter(np.float32(0.1), np.float32(1))

    assert fit_scaler(with_values(panel, change), train).values.deviation[2] == 1.0


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1e9])
def test_small_and_large_values_are_scaled_alike(
    panel: Panel, train: np.ndarray, size: float
) -> None:
    def change(values: np.ndarray) -> None:
        values *= np.float32(size)

    scale = fit_scaler(panel, train).values
    other = fit_scaler(with_values(panel, change), train).values
    np.testing.assert_allclose(other.mean, scale.mean * size, rtol=1e-5)
    np.testing.assert_allclose(other.deviation, scale.deviation * size, rtol=1e-5)


def test_a_location_never_observed_in_training_stays_as_it_is(
    panel: Panel, train: np.ndarray
) -> None:
    def change(values: np.ndarray) -> None:
        values[train, 5] = NAN

    scale = fit_scaler(with_values(panel, change), train).values
    assert (scale.mean[5], scale.deviation[5]) == (0.0, 1.0)


def counts(panel: Panel, column: np.ndarray) -> Panel:
    """Return a panel of counts with other values of location 5."""
    values = panel.values.copy()
    values[:, 5] = np.resize(column, len(values))
    return replace(panel, values=values)


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_silent_counts_have_at_least_the_scale_of_a_tenth(
    panel: Panel, train: np.ndarray, value: float
) -> None:
    scale = fit_scaler(counts(panel, np.float32([value])), train).values
    assert scale.mean[5] == np.float32(0.1)
    assert math.sqrt(0.1) <= scale.deviation[5] + 1e-7
    assert scale.deviation[5] <= 1.0


def test_a_single_count_does_not_set_the_scale(panel: Panel, train: np.ndarray) -> None:
    column = np.zeros(len(panel.values), np.float32)
    column[5] = 1
    scale = fit_scaler(counts(panel, column), train).values
    assert scale.mean[5] == np.float32(0.1)
    assert scale.deviation[5] == pytest.approx(math.sqrt(0.1))
    assert column.std() < 0.1


def test_rare_large_counts_keep_their_wide_scale(panel: Panel, train: np.ndarray) -> None:
    column = np.zeros(len(panel.values), np.float32)
    column[5] = 30
    scale = fit_scaler(counts(panel, column), train).values
    assert scale.mean[5] == np.float32(0.1)  # of 0.0896
    assert scale.deviation[5] == pytest.approx(column[train].std(), rel=1e-5)
    assert scale.deviation[5] > 1


@pytest.mark.parametrize(("every", "floored"), [(9, False), (11, True)])
def test_the_floor_begins_below_a_tenth(
    panel: Panel, train: np.ndarray, every: int, floored: bool
) -> None:
    column = (np.arange(len(panel.values)) % every == 0).astype(np.float32)
    plain = mean_and_deviation(observed(column, train))
    scale = fit_scaler(counts(panel, column), train).values
    expected = (0.1, math.sqrt(0.1)) if floored else plain
    assert (scale.mean[5], scale.deviation[5]) == pytest.approx(expected, rel=1e-6)
    assert (plain[0] < 0.1) == floored


def test_the_floor_changes_no_other_location_and_no_measurement(
    panel: Panel, train: np.ndarray
) -> None:
    scale, silent = (fit_scaler(p, train).values for p in (panel, counts(panel, np.float32([0]))))
    others = np.arange(len(scale.mean)) != 5
    assert np.array_equal(scale.mean[others], silent.mean[others])
    assert np.array_equal(scale.deviation[others], silent.deviation[others])
    small = replace(counts(panel, np.float32([0.01, 0.03])), kind="measurement")
    scale = fit_scaler(small, train).values
    assert (scale.mean[5], scale.deviation[5]) == pytest.approx((0.02, 0.01), rel=0.01)


def test_holes_are_left_out_and_not_taken_for_zero(panel: Panel) -> None:
    def change(values: np.ndarray) -> None:
        values[:, 0] = NAN
        values[[3, 5], 0] = 10.0, 14.0

    scale = fit_scaler(with_values(panel, change), np.ones(len(panel.values), dtype=bool)).values
    assert (scale.mean[0], scale.deviation[0]) == (12.0, 2.0)


@given(seed=st.integers(0, 2**32 - 1))
def test_held_out_steps_do_not_matter(panel: Panel, train: np.ndarray, seed: int) -> None:
    generator = np.random.default_rng(seed)
    known = np.zeros((len(panel.covariates.values), 1), dtype=bool)
    known[: len(train), 0] = train

    def change(array: np.ndarray) -> np.ndarray:
        noise = generator.choice(np.array([NAN, 0, 0.5, 1e30], np.float32), array.shape)
        return np.where(known[: array.shape[-2]], array, noise)

    weather, own = panel.covariates, panel.local_covariates
    other = replace(
        panel,
        values=change(panel.values),
        covariates=Covariates(weather.names, change(weather.values)),
        local_covariates=LocalCovariates(own.names, change(own.values)),
    )
    assert_same(fit_scaler(panel, train), fit_scaler(other, train))


def test_training_steps_do_matter(panel: Panel, train: np.ndarray) -> None:
    def change(values: np.ndarray) -> None:
        values[5, 3] = 1e4

    one, other = (fit_scaler(p, train).values for p in (panel, with_values(panel, change)))
    assert np.flatnonzero(one.mean != other.mean).tolist() == [3]
    assert np.flatnonzero(one.deviation != other.deviation).tolist() == [3]


@given(
    arrays(np.float32, (11, 3), elements=SIZES | st.just(float("nan"))),
    arrays(np.float32, 3, elements=SIZES),
    arrays(np.float32, 3, elements=st.floats(0.5, 1e4, width=32)),
)
def test_undo_takes_apply_back(
    values: np.ndarray, mean: np.ndarray, deviation: np.ndarray
) -> None:
    scale = Scale(mean, deviation)
    back = scale.undo(scale.apply(values))
    assert back.dtype == np.float32
    room = 1e-6 * (np.abs(values) + np.abs(mean)) + 1e-30  # a few roundings
    close = np.isclose(back, values, rtol=0, atol=np.nan_to_num(room), equal_nan=True)
    assert close.all()


def test_apply_and_undo_are_their_formulas() -> None:
    scale = Scale(np.float32([10, -1]), np.float32([4, 0.5]))
    values = np.float32([[14, -1], [2, 0], [math.nan, 1]])
    np.testing.assert_array_equal(scale.apply(values), np.float32([[1, 0], [-2, 2], [NAN, 4]]))
    np.testing.assert_array_equal(
        scale.undo(values), np.float32([[66, -1.5], [18, -1], [NAN, -0.5]])
    )


def test_a_panel_without_covariates_has_scales_without_entries(
    panel: Panel, train: np.ndarray
) -> None:
    bare = replace(
        panel,
        covariates=Covariates((), panel.covariates.values[:, :0]),
        local_covariates=LocalCovariates((), panel.local_covariates.values[:0]),
    )
    scaler = fit_scaler(bare, train)
    for scale in (scaler.covariates, scaler.local_covariates):
        assert scale.mean.shape == scale.deviation.shape == (0,)
