from collections.abc import Callable

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.graph import covariance
from forecaster.graph.covariance import (
    Moments,
    collinear_pairs,
    correlate,
    find_scale,
    measure,
    take_sample,
)
from forecaster.panel.panel import Panel

STEPS, PLACES = 24 * 7 * 3 + 11, 5  # three weeks and a bit
ALL = np.ones(STEPS, dtype=bool)

MakePanel = Callable[..., Panel]


@pytest.fixture
def values() -> np.ndarray:
    """Return five locations that share a daily cycle and some noise."""
    generator = np.random.default_rng(7)
    daily = 20 + 9 * np.sin(np.arange(STEPS)[:, None] * np.pi / 12)
    noise = generator.normal(size=(STEPS, PLACES)) + generator.normal(size=(STEPS, 1))
    return (daily + noise).astype(np.float32)


def covariance_of(panel: Panel, train: np.ndarray = ALL, subtract: str = "nothing") -> np.ndarray:
    sample = take_sample(panel, train, subtract)  # type: ignore[arg-type]
    return measure(sample, sample.steps).covariance()


def test_the_covariance_is_that_of_numpy(values: np.ndarray, panel_of: MakePanel) -> None:
    expected = np.cov(values.astype(np.float64), rowvar=False)  # divides by M − 1 (Eq. 5)
    assert covariance_of(panel_of(values)) == pytest.approx(expected, rel=1e-12)


def test_a_hand_made_covariance() -> None:
    # x = (1, 2), (3, 2), (5, 8): μ = (3, 4), S = ½ Σ (x − μ)(x − μ)ᵀ = [[4, 6], [6, 12]]
    x = np.array([[1.0, 2.0], [3.0, 2.0], [5.0, 8.0]])
    moments = Moments(3, x.sum(axis=0), x.T @ x)
    assert moments.covariance().tolist() == [[4.0, 6.0], [6.0, 12.0]]


def test_the_mean_of_each_hour_of_the_week_is_subtracted(
    values: np.ndarray, panel_of: MakePanel
) -> None:
    panel = panel_of(values)
    slots = panel.clock.slot_of_season(panel.times)
    means = np.stack([values[slots == s].mean(axis=0, dtype=np.float64) for s in range(168)])
    expected = np.cov(values - means[slots], rowvar=False)
    assert covariance_of(panel, subtract="hour_of_week") == pytest.approx(expected, rel=1e-5)


def test_less_than_two_weeks_have_no_mean_to_subtract(
    values: np.ndarray, panel_of: MakePanel
) -> None:
    train = np.arange(STEPS) < 2 * 168 - 1
    sample = take_sample(panel_of(values), train, "hour_of_week")
    assert sample.subtracted == "nothing"
    assert take_sample(panel_of(values), ALL, "hour_of_week").subtracted == "hour_of_week"


@pytest.mark.parametrize("block", [1, 13, 10_000])
def test_blocks_do_not_change_the_covariance(
    block: int, values: np.ndarray, panel_of: MakePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = covariance_of(panel_of(values))
    monkeypatch.setattr(covariance, "BLOCK_STEPS", block)
    assert covariance_of(panel_of(values)) == pytest.approx(expected, rel=1e-12)


def test_the_parts_of_a_sample_add_up(values: np.ndarray, panel_of: MakePanel) -> None:
    sample = take_sample(panel_of(values), ALL, "hour_of_week")
    parts = [measure(sample, sample.steps[start::3]) for start in range(3)]
    whole = measure(sample, sample.steps).covariance()
    assert (parts[0] + parts[1] + parts[2]).covariance() == pytest.approx(whole, rel=1e-12)


def test_G5_missing_values_are_the_training_mean_of_their_hour_of_the_week(
    panel_of: MakePanel,
) -> None:
    values = np.random.default_rng(1).normal(5, 1, (STEPS, 11)).astype(np.float32)
    panel = panel_of(values)
    slots = panel.clock.slot_of_season(panel.times)
    filled, lacking = values.copy(), values.copy()
    for step in (3, 200):
        lacking[step, step % 11] = np.nan
        same = (slots == slots[step]) & (np.arange(STEPS) != step)
        filled[step, step % 11] = values[same, step % 11].mean(dtype=np.float64)
    expected = np.cov(filled.astype(np.float64), rowvar=False)
    assert covariance_of(panel_of(lacking)) == pytest.approx(expected, rel=1e-6)
    assert take_sample(panel_of(lacking), ALL, "nothing").filled == 2


def test_G5_a_step_counts_if_nine_locations_in_ten_were_observed(panel_of: MakePanel) -> None:
    values = np.ones((STEPS, 20), dtype=np.float32)
    values[3, :2] = np.nan  # a tenth
    values[5, :3] = np.nan  # more
    sample = take_sample(panel_of(values), ALL, "nothing")
    assert 3 in sample.steps
    assert 5 not in sample.steps
    assert (sample.dropped, sample.filled) == (1, 2)


def test_G5_one_of_a_few_locations_may_be_dead(values: np.ndarray, panel_of: MakePanel) -> None:
    values[:, 3] = np.nan  # one in five, all the time
    assert len(take_sample(panel_of(values), ALL, "nothing").steps) == STEPS


def test_G5_too_many_nulls_are_refused_with_the_worst_locations(
    values: np.ndarray, panel_of: MakePanel
) -> None:
    values[:, [1, 3]] = np.nan  # two in five, all the time
    with pytest.raises(DataError, match=r"0 training steps observed .* p1 100 %, p3 100 %; leave"):
        take_sample(panel_of(values), ALL, "nothing")


def test_G6_only_training_steps_are_looked_at(values: np.ndarray, panel_of: MakePanel) -> None:
    train = np.arange(STEPS) % 7 != 0
    before = covariance_of(panel_of(values), train, "hour_of_week")
    values[~train] = np.where(values[~train] > 20, np.nan, -3e30)
    after = covariance_of(panel_of(values), train, "hour_of_week")
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("constant", [0.0, 1e-9, 0.1, 16_777_216.0, -3e30])
def test_G1_a_constant_location_has_no_deviation(
    constant: float, values: np.ndarray, panel_of: MakePanel
) -> None:
    values[:, 2] = constant
    sample = take_sample(panel_of(values), ALL, "nothing")
    matrix = measure(sample, sample.steps).covariance()
    scale = find_scale(sample, matrix)
    assert scale.constant.tolist() == [False, False, True, False, False]
    correlation = correlate(matrix, scale)
    assert correlation[2].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert np.array_equal(correlation, correlation.T)


def test_G1_rounding_to_single_precision_is_no_variance(
    values: np.ndarray, panel_of: MakePanel
) -> None:
    generator = np.random.default_rng(2)
    values[:, 2] = np.float32(1e7) + generator.integers(0, 2, STEPS)  # its last bit
    values[:, 4] = np.float32(1e7) + generator.integers(-99, 99, STEPS)  # small, but measured
    sample = take_sample(panel_of(values), ALL, "nothing")
    constant = find_scale(sample, measure(sample, sample.steps).covariance()).constant
    assert constant.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_G3_the_correlation_does_not_depend_on_scales(
    factor: float, values: np.ndarray, panel_of: MakePanel
) -> None:
    scaled = values * np.array([1.0, factor, 1.0, 1.0, 1 / factor])
    sample = take_sample(panel_of(scaled), ALL, "nothing")
    matrix = measure(sample, sample.steps).covariance()
    expected = np.corrcoef(values.astype(np.float64), rowvar=False)
    assert correlate(matrix, find_scale(sample, matrix)) == pytest.approx(expected, abs=1e-5)


def test_G3_collinear_locations_are_found(values: np.ndarray, panel_of: MakePanel) -> None:
    values[:, 3] = -7 * values[:, 1]
    sample = take_sample(panel_of(values), ALL, "nothing")
    matrix = measure(sample, sample.steps).covariance()
    pairs = collinear_pairs(correlate(matrix, find_scale(sample, matrix)))
    assert pairs.tolist() == [[1, 3]]
