from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.intervals.calibration import (
    CORRECTIONS,
    DAYS,
    HOURS,
    LEVELS,
    MIN_STORED,
    OBSERVED,
    OFFSETS,
    RESIDUALS,
    RESOLUTION,
    SPREAD,
    STORED_BYTES,
    WIDEST,
    Base,
    Calibration,
    Outcomes,
    calibrate,
    choose_stored,
    cross_fit,
    find_wrong,
    fit_corrections,
    fit_widest,
    halve,
    local_hours,
    refuse_few,
    space_out,
)
from forecaster.panel.panel import Panel

ASKED = (0.1, 0.5, 0.9)
ONES = np.ones(5, dtype=np.float32)


def make_outcomes(days: int, own: int = 0, seed: int = 0) -> Outcomes:
    """Return residuals of 5 locations, two steps ahead, whose spread depends on the hour."""
    generator = np.random.default_rng(seed)
    hours = np.tile(np.arange(24), days)[:, None] + np.arange(2)
    scale = np.array([1.0, 2.0, 3.0, 5.0, 7.0]) * (1 + hours % 24 / 24)[..., None]
    residuals = generator.normal(size=(24 * days, 2, 5)) * scale
    return Outcomes(
        residuals=residuals.astype(np.float32),
        quantiles=np.zeros((24 * days, own, 2, 5), dtype=np.float32),
        hours=hours % 24,
        days=np.repeat(np.arange(days), 24),
    )


def calibration_of(outcomes: Outcomes, kind: str = "measurement") -> Calibration:
    return Calibration.from_arrays(calibrate(outcomes, ASKED, ONES), kind)


def share_below(calibration: Calibration, fresh: Outcomes) -> np.ndarray:
    """Return which share of fresh outcomes lies below each quantile around a forecast of 0."""
    nothing = np.zeros_like(fresh.residuals)
    base = calibration.base(nothing, fresh.quantiles, fresh.hours)
    q = calibration.correct(base, calibration.corrections)
    return (fresh.residuals[:, None] <= q).mean(axis=(0, 2, 3))


@pytest.mark.parametrize("days", [11, 20, 60])
def test_quantiles_hold_on_days_that_were_not_calibrated_on(days: int) -> None:
    found = share_below(calibration_of(make_outcomes(days)), make_outcomes(400, seed=1))
    np.testing.assert_allclose(found, ASKED, atol=0.02)


def test_own_quantiles_that_say_nothing_are_corrected_until_they_hold() -> None:
    calibration = calibration_of(make_outcomes(60, own=3))
    assert calibration.offsets is None
    found = share_below(calibration, make_outcomes(400, own=3, seed=1))
    np.testing.assert_allclose(found, ASKED, atol=0.015)


def test_own_quantiles_that_hold_are_left_alone() -> None:
    outcomes = make_outcomes(200, own=3)
    scale = np.array([1.0, 2.0, 3.0, 5.0, 7.0]) * (1 + outcomes.hours / 24)[..., None]
    normal = np.array([-1.2815516, 0.0, 1.2815516])  # quantiles of the normal distribution
    outcomes.quantiles[:] = normal[:, None, None] * scale[:, None]
    corrections = calibrate(outcomes, ASKED, ONES)[CORRECTIONS]
    np.testing.assert_allclose(corrections, 0, atol=0.03)


def test_each_half_gets_the_offsets_of_the_other() -> None:
    outcomes = make_outcomes(40)
    half = halve(outcomes.days)
    outcomes.residuals[half] += 1000
    base = cross_fit(outcomes, ASKED, np.ones((24, 5), np.float32))
    assert (base[half] < 500).all()
    assert (base[~half] > 500).all()


def test_halves_alternate_by_week_and_in_a_short_span_by_day() -> None:
    long = halve(np.arange(100, 142))
    assert long.tolist() == ([True] * 7 + [False] * 7) * 3
    assert halve(np.arange(3, 8)).tolist() == [True, False, True, False, True]


def test_halves_are_halves_where_days_are_one_or_lie_apart() -> None:
    assert halve(np.full(6, 9)).tolist() == [True] * 3 + [False] * 3  # one day
    fortnights = np.arange(0, 14 * 8, 14)  # a step of two weeks
    assert halve(fortnights).tolist() == [True, False] * 4


def test_corrections_are_ranks_of_scores_over_windows_and_locations() -> None:
    misses = np.arange(1.0, 100.0, dtype=np.float32).reshape(33, 1, 1, 3)  # 1 … 99
    spread = np.full((33, 1, 3), 2, dtype=np.float32)
    for level, expected in ((0.1, 10 / 2), (0.5, 50 / 2), (0.9, 90 / 2)):
        assert fit_corrections(misses, [level], spread).tolist() == [[expected]]


def test_a_forecast_that_is_always_right_needs_no_correction() -> None:
    nothing = np.zeros((33, 1, 1, 3), dtype=np.float32)
    found = fit_corrections(nothing, [0.9], np.zeros((33, 1, 3), dtype=np.float32))
    assert found.tolist() == [[0.0]]


def test_corrected_quantiles_rise_and_counts_are_never_negative() -> None:
    calibration = calibration_of(make_outcomes(60), kind="count")
    quantiles = np.array([3.0, 1.0, 2.0], np.float32)[:, None, None] * np.ones((2, 5), np.float32)
    base = Base(quantiles[1], quantiles, np.ones((2, 5), np.float32))
    found = calibration.correct(base, np.array([[-9.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
    np.testing.assert_array_equal(found[:, 0, 0], [0, 1, 2])  # −6, 1, 2
    np.testing.assert_array_equal(found[:, 1, 0], [1, 2, 3])


LEVEL_SETS = ((0.1, 0.5, 0.9), (0.025, 0.3, 0.9), (0.2,), (0.8,), (0.5,), (0.1, 0.4), (0.6, 0.9))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(LEVEL_SETS),
    st.sampled_from(["count", "measurement"]),
    st.sampled_from([0.0, 1.0]),
    st.floats(-6, 6),
    st.integers(0, 2**32 - 1),
)
def test_L7_quantiles_rise_contain_their_forecast_and_keep_above_the_floor(
    levels: tuple[float, ...], kind: str, resolution: float, power: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    Q, size = len(levels), (7, len(levels), 2, 5)
    arrays = {
        LEVELS: np.array(levels),
        CORRECTIONS: generator.normal(size=(Q, 2)) * 10**power,
        SPREAD: generator.exponential(size=(24, 5)).astype(np.float32),
        RESOLUTION: np.array(resolution),
    }
    calibration = Calibration.from_arrays(arrays, kind)
    forecast, quantiles = (
        (generator.normal(size=shape) * 10**power).astype(np.float32)
        for shape in ((7, 2, 5), size)
    )
    forecast = np.maximum(forecast, np.float32(calibration.floor))
    base = Base(forecast, quantiles, calibration.spread[generator.integers(0, 24, (7, 2))])
    found = calibration.correct(base, calibration.corrections)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found >= calibration.floor).all()
    assert levels[0] >= 0.5 or (found[:, 0] <= forecast).all()
    assert levels[-1] <= 0.5 or (found[:, -1] >= forecast).all()
    # Nothing is moved that need not be.
    shifted = calibration.cut(calibration.shift(base, calibration.corrections))
    outer = [number for number, level in ((0, levels[0]), (Q - 1, levels[-1])) if level != 0.5]
    inner = [number for number in range(Q) if number not in outer]
    np.testing.assert_array_equal(found[:, inner], shifted[:, inner])
    moved = (found != shifted)[:, outer]
    at_forecast = (found == forecast[:, None])[:, outer]
    assert (at_forecast | ~moved).all()


def test_counts_stand_for_the_interval_around_them() -> None:
    # F of x + V, with x Poisson of mean 0.5 and V uniform in ± ½, is linear between its values at
    # −½, ½, 1½ …: scipy.stats.poisson.cdf(range(-1, 5), 0.5).
    ends = np.array([0, 0.60653066, 0.90979599, 0.98561232, 0.99824838, 1])
    counts = np.random.default_rng(3).poisson(0.5, size=(24 * 400, 2, 5))
    hours = np.tile(np.arange(24), 400)[:, None] + np.arange(2)
    outcomes = Outcomes(
        residuals=(counts - 0.5).astype(np.float32),  # the forecast is the mean
        quantiles=np.empty((24 * 400, 0, 2, 5), np.float32),
        hours=hours % 24,
        days=np.repeat(np.arange(400), 24),
        resolution=1.0,
    )
    calibration = calibration_of(outcomes, kind="count")
    assert calibration.resolution == 1
    day = slice(24)
    mean = np.full((24, 2, 5), 0.5, np.float32)
    base = calibration.base(mean, outcomes.quantiles[day], outcomes.hours[day])
    found = calibration.shift(base, calibration.corrections)
    below = np.interp(found, np.arange(-0.5, 5), ends).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(below, ASKED, atol=0.005)
    np.testing.assert_allclose(calibration.spread, np.sqrt(0.5 + 1 / 12), rtol=0.1)
    assert calibration.correct(base, calibration.corrections).min() == 0


def test_outcomes_are_spaced_evenly_around_themselves() -> None:
    zeros = np.zeros((24 * 30, 3, 7), np.float32)
    np.testing.assert_array_equal(space_out(zeros, 0.0), zeros)
    spaced = space_out(zeros, 1.0)
    assert np.abs(spaced).max() <= 0.5
    for part in (spaced[:, 1, 3], spaced[5::24, 0], spaced[400], spaced[::168]):
        shares = (np.sort(part, axis=None) + 0.5) - (np.arange(part.size) + 0.5) / part.size
        assert np.abs(shares).max() < 3 / np.sqrt(part.size)


def test_a_run_of_an_earlier_version_takes_counts_as_they_are() -> None:
    arrays = calibrate(make_outcomes(11), ASKED, ONES)
    assert RESOLUTION not in arrays
    older = Calibration.from_arrays(arrays, "count")
    assert older.resolution == 0
    spread = np.ones((2, 5), dtype=np.float32)
    below = Base(*(np.full(shape, -3, np.float32) for shape in ((2, 5), (3, 2, 5))), spread)
    assert older.shift(below, np.zeros((3, 2))).max() == 0  # as it was compared with outcomes


def test_each_origin_may_have_its_own_correction() -> None:
    calibration = calibration_of(make_outcomes(60), kind="measurement")
    generator = np.random.default_rng(0)
    quantiles = np.sort(generator.normal(size=(7, 3, 2, 5)).astype(np.float32), axis=1)
    spread = generator.random((7, 2, 5)).astype(np.float32)
    base, corrections = Base(quantiles[:, 1], quantiles, spread), generator.normal(size=(7, 3, 2))
    found = calibration.correct(base, corrections)
    for row in range(7):
        alone = calibration.correct(base.row(row), corrections[row])
        np.testing.assert_array_equal(found[row], alone)


@pytest.mark.parametrize("kind", ["count", "measurement"])
@pytest.mark.parametrize("own", [0, 3])
def test_L6_where_values_are_in_doubt_intervals_are_as_wide_as_ever_and_wider(
    own: int, kind: str
) -> None:
    outcomes, generator = make_outcomes(20, own), np.random.default_rng(3)
    if own:  # quantiles of a network, whose width differs from window to window
        size = generator.uniform(1, 9, (*outcomes.quantiles.shape[:1], 1, 2, 5))
        quantiles = (np.array([-1, 0, 1])[:, None, None] * size).astype(np.float32)
        outcomes = replace(outcomes, quantiles=quantiles)
    arrays = calibrate(outcomes, ASKED, ONES)
    assert (WIDEST in arrays) == bool(own)
    calibration = Calibration.from_arrays(arrays, kind)
    forecast = generator.uniform(0, 30, outcomes.residuals.shape).astype(np.float32)
    quantiles = forecast[:, None] + outcomes.quantiles
    base = calibration.base(forecast, quantiles, outcomes.hours)
    narrow = replace(base, quantiles=forecast[:, None] + (base.quantiles - forecast[:, None]) / 9)
    doubt = np.zeros(forecast.shape[::2], np.float32)
    doubt[:, 2] = 1
    before = calibration.correct(base, calibration.corrections)
    after = calibration.correct(replace(narrow, doubt=doubt), calibration.corrections)
    width, was = (np.ptp(each, axis=1) for each in (after, before))
    assert (width[..., 2] > was[..., 2]).all()
    trusted = np.delete(np.arange(5), 2)
    plain = calibration.correct(narrow, calibration.corrections)
    np.testing.assert_array_equal(after[..., trusted], plain[..., trusted])
    assert (np.diff(after, axis=1) >= 0).all()


def test_the_largest_width_is_that_of_its_hour() -> None:
    hours = np.array([[3, 4], [4, 5], [3, 4]])
    quantiles = np.zeros((3, 2, 2, 1), dtype=np.float32)
    quantiles[:, 0, :, 0], quantiles[:, 1, :, 0] = -1, [[1, 2], [3, 4], [5, 6]]
    widest = fit_widest(quantiles, hours)
    assert widest[[3, 4, 5], :, 0].tolist() == [[6, 7], [4, 7], [6, 5]]  # none: that of all
    quantiles[:, 0] = 0.5  # a forecast below its interval, which is widened to contain it
    assert fit_widest(quantiles, hours)[3, 0, 0] == 5


def test_locations_of_a_base_are_put_in_order() -> None:
    spread = np.arange(10, dtype=np.float32).reshape(2, 5)
    turned = Base(spread, spread[None] + 100, spread + 200).at([4, 0, 2])
    assert turned.forecast[0].tolist() == [4, 0, 2]
    assert turned.quantiles[0, 1].tolist() == [109, 105, 107]
    assert turned.spread[1].tolist() == [209, 205, 207]


@pytest.mark.parametrize("windows", [0, 17])
def test_too_few_windows_are_refused_with_the_number_needed(windows: int) -> None:
    with pytest.raises(DataError, match=rf"{windows} validation windows.* need ≥ 18"):
        refuse_few(windows, ASKED)
    refuse_few(18, ASKED)


def test_a_run_remembers_the_last_residuals_and_which_were_observed() -> None:
    outcomes = make_outcomes(70)
    outcomes.residuals[-1, 0, 3] = np.nan
    arrays = calibrate(outcomes, ASKED, ONES)
    assert arrays[RESIDUALS].shape == (MIN_STORED, 2, 5)
    np.testing.assert_array_equal(arrays[RESIDUALS][-2], outcomes.residuals[-2])
    assert arrays[RESIDUALS][-1, 0, 3] == 0
    assert not arrays[OBSERVED][-1, 0, 3]
    assert arrays[OBSERVED].sum() == arrays[OBSERVED].size - 1
    np.testing.assert_array_equal(arrays[HOURS], outcomes.hours[-MIN_STORED:])
    np.testing.assert_array_equal(arrays[DAYS], outcomes.days[-MIN_STORED:])
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_what_calibration_gives_is_what_a_run_may_hold() -> None:
    for own in (0, 3):
        for resolution in (0.0, 1.0):
            outcomes = replace(make_outcomes(11, own), resolution=resolution)
            assert find_wrong(calibrate(outcomes, ASKED, ONES), N=5, K=2) == []
    assert find_wrong({}, N=5, K=2) == []


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (LEVELS, np.array([0.1, 0.9, 0.5])),
        (LEVELS, np.array([0.1, 0.5, 1.0])),
        (LEVELS, np.linspace(0.001, 0.999, 100)),
        (CORRECTIONS, np.zeros((2, 3))),
        (SPREAD, np.full((24, 5), -1, np.float32)),
        (OFFSETS, np.zeros((24, 3, 2, 5))),
        (HOURS, np.full((264, 2), 24)),
        (OBSERVED, np.zeros((264, 2, 4), bool)),
        (RESOLUTION, np.ones(2)),
        (RESOLUTION, np.array(-1.0)),
    ],
)
def test_arrays_that_cannot_be_are_named(name: str, array: np.ndarray) -> None:
    arrays = calibrate(make_outcomes(11), ASKED, ONES)
    assert name in find_wrong({**arrays, name: array}, N=5, K=2)


def test_an_estimator_without_quantiles_needs_those_of_its_residuals() -> None:
    arrays = calibrate(make_outcomes(11), ASKED, ONES)
    del arrays[OFFSETS]
    calibration = Calibration.from_arrays(arrays, "count")
    nothing = np.zeros((1, 2, 5), np.float32)
    with pytest.raises(ArtifactError, match=r"intervals\.offsets"):
        calibration.base(nothing, nothing[:, None][:, :0], np.zeros((1, 2), np.int64))


def test_hours_are_those_of_the_wall_clock(make_panel: Callable[..., Panel]) -> None:
    panel = make_panel(np.zeros((24 * 40, 2)))  # from 2015-10-01 00:00 in New York
    change = 24 * 31 + 1  # 01:00 on 2015-11-01, shown twice
    hours = local_hours(panel, np.array([[0, 23], [change, change + 1], [24 * 40, 24 * 40 + 3]]))
    assert hours.tolist() == [[0, 23], [1, 1], [23, 2]]


def test_a_long_horizon_stores_fewer_windows_spread_over_all() -> None:
    levels = (0.1, 0.5, 0.9)
    assert choose_stored((1700, 24, 1000), levels).tolist() == [*range(260, 1700)]
    assert choose_stored((1700, 168, 11), levels).tolist() == [*range(260, 1700)]  # small enough
    few = choose_stored((1700, 168, 1000), levels)
    assert few[0] == 0
    assert few[-1] == 1699
    assert len(few) * 168 * 1000 * 5 <= STORED_BYTES
    assert len(set((few % 24).tolist())) > 12  # of many hours
    assert len(choose_stored((1700, 336, 9000), levels)) == 18  # as many as the levels need
