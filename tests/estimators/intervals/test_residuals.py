import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.estimators.intervals.residuals import (
    count_needed,
    find_rank,
    fit_offsets,
    fit_spread,
    pick_hours,
    take_quantiles,
)

LEVELS = (0.1, 0.5, 0.9)


@pytest.mark.parametrize(
    ("levels", "needed"),
    [((0.5,), 1), (LEVELS, 9), ((0.05, 0.5), 19), ((0.5, 0.975), 39), ((0.7,), 3)],
)
def test_the_outermost_level_says_how_many_outcomes_are_needed(
    levels: tuple[float, ...], needed: int
) -> None:
    assert count_needed(levels) == needed
    ranks = [int(find_rank(level, np.array(needed))) for level in levels]
    assert all(1 <= rank <= needed for rank in ranks)
    fewer = [int(find_rank(level, np.array(needed - 1))) for level in levels]
    assert not all(1 <= rank <= needed - 1 for rank in fewer)


def test_ranks_are_those_of_split_conformal_prediction() -> None:
    count = np.array([9, 10, 99])
    assert find_rank(0.9, count).tolist() == [9, 10, 90]  # ⌈(n + 1) α⌉
    assert find_rank(0.1, count).tolist() == [1, 1, 10]  # ⌊(n + 1) α⌋
    assert find_rank(0.07, np.array([99])).tolist() == [7]  # 100 · 0.07 is a little more than 7


@given(
    st.lists(st.integers(0, 5), min_size=9, max_size=60),
    st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.8, 0.9]),
)
def test_no_more_lies_beyond_a_rank_than_wanted_however_many_are_equal(
    counts: list[int], level: float
) -> None:
    outcomes = np.array(counts)
    n = len(outcomes)
    q = np.sort(outcomes)[find_rank(level, np.array(n)) - 1]
    if level < 0.5:
        assert (outcomes < q).sum() < level * (n + 1)
    else:
        assert (outcomes <= q).sum() >= level * (n + 1) - 1e-9


@pytest.mark.parametrize("n", [9, 13, 29, 200])
def test_a_share_of_others_lies_below_however_few_there_are(n: int) -> None:
    drawn = np.random.default_rng(n).random((n, 20_000))  # uniform: a quantile is its share
    found = take_quantiles(drawn, LEVELS).mean(axis=1)
    np.testing.assert_allclose(found, LEVELS, atol=0.003)


def test_missing_outcomes_are_left_out_and_too_few_give_none() -> None:
    outcomes = np.full((23, 2), np.nan)
    outcomes[:19, 0] = np.arange(19)
    outcomes[:8, 1] = np.arange(8)
    found = take_quantiles(outcomes, LEVELS)
    np.testing.assert_array_equal(found[:, 0], [1, 9, 17])  # ranks 2, 10 and 18 of 19
    assert np.isnan(found[:, 1]).all()


def make_residuals(days: int, places: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return residuals that are 100 · hour + a number of the day, and the hours."""
    hours = np.tile(np.arange(24), days)[:, None]
    day = np.repeat(np.arange(days), 24)[:, None, None]
    residuals = 100.0 * hours[..., None] + day + np.zeros((1, 1, places))
    return residuals.astype(np.float32), hours


def test_offsets_are_the_quantiles_of_each_hour_where_it_has_enough() -> None:
    residuals, hours = make_residuals(days=19)
    offsets = fit_offsets(residuals, hours, LEVELS, np.ones((24, 3), np.float32))
    for hour in (0, 5, 23):
        expected = 100 * hour + np.array([1, 9, 17])
        np.testing.assert_array_equal(offsets[hour, :, 0, 0], expected)


def test_too_few_of_an_hour_are_pooled_with_its_neighbours_on_the_clock() -> None:
    residuals, hours = make_residuals(days=3)  # 3 an hour, 9 with both neighbours
    offsets = fit_offsets(residuals, hours, LEVELS, np.ones((24, 3), np.float32))
    np.testing.assert_array_equal(offsets[7, :, 0, 0], [600, 701, 802])
    np.testing.assert_array_equal(offsets[0, :, 0, 0], [0, 101, 2302])  # 23, 0 and 1 o'clock


def test_too_few_of_neighbours_are_pooled_over_the_day() -> None:
    residuals, hours = make_residuals(days=1)
    offsets = fit_offsets(residuals, hours, LEVELS, np.ones((24, 3), np.float32))
    np.testing.assert_array_equal(offsets[:, :, 0, 1], np.tile([150, 1150, 2150], (24, 1)))


def test_a_silent_location_takes_the_scores_of_the_others() -> None:
    residuals, hours = make_residuals(days=19)
    residuals[:, :, 2] = np.nan
    spread = np.ones((24, 3), np.float32)
    spread[:, 2] = 5
    offsets = fit_offsets(residuals, hours, LEVELS, spread)
    pooled = take_quantiles(residuals[:, 0, :2].reshape(-1), LEVELS)
    np.testing.assert_allclose(offsets[11, :, 0, 2], 5 * pooled)


def test_the_spread_is_the_root_mean_square_around_an_hour() -> None:
    residuals, hours = make_residuals(days=7)
    residuals = np.repeat(residuals, 2, axis=1)
    hours = np.repeat(hours, 2, axis=1)
    spread = fit_spread(residuals, hours, np.full(3, 77, np.float32))
    near = residuals[np.isin(hours[:, 0], [10, 11, 12])]
    np.testing.assert_allclose(spread[11], np.sqrt(np.square(near).mean(axis=(0, 1))), rtol=1e-6)


def test_a_spread_of_few_residuals_is_that_of_the_day_or_of_the_training_values() -> None:
    residuals, hours = make_residuals(days=1)
    residuals[:, :, 1] = np.nan
    spread = fit_spread(residuals, hours, np.full(3, 77, np.float32))
    whole = np.sqrt(np.square(residuals[:, 0, 0]).mean())
    np.testing.assert_allclose(spread[:, 0], np.full(24, whole), rtol=1e-6)
    np.testing.assert_array_equal(spread[:, 1], 77)


def test_offsets_are_picked_by_the_hour_of_each_step() -> None:
    offsets = np.arange(24 * 3 * 2 * 5, dtype=np.float32).reshape(24, 3, 2, 5)
    hours = np.array([[23, 0], [4, 5], [11, 11]])
    picked = pick_hours(offsets, hours)
    assert picked.shape == (3, 3, 2, 5)
    for row, (first, second) in enumerate(hours):
        np.testing.assert_array_equal(picked[row, :, 0], offsets[first, :, 0])
        np.testing.assert_array_equal(picked[row, :, 1], offsets[second, :, 1])
