"""The ranges and longest runs of training values."""

from collections.abc import Callable

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.estimators.wrong_values.value_ranges import (
    LONGEST,
    RANGE,
    find_wrong,
    fit_ranges,
    run_lengths,
)
from forecaster.panel.panel import Panel

MakePanel = Callable[..., Panel]


def test_a_range_is_that_of_an_hour_and_its_neighbours_without_the_most_extreme_week(
    make_panel: MakePanel,
) -> None:
    hours = np.tile(np.arange(168.0), 5)[:, None] + np.array([0, 1000])
    hours[168 * 2 + 30, 0] = 5000  # once in five weeks
    hours[168 + 77, 1] = 0
    panel = make_panel(hours, clock=Clock("UTC"), start=np.datetime64("2018-01-01", "s"))
    least, most = fit_ranges(panel, np.ones(len(hours), dtype=bool))[RANGE]
    assert most[[10, 29, 30, 31], 0].tolist() == [11, 30, 31, 32]
    assert least[[10, 76, 77, 78], 1].tolist() == [1009, 1075, 1076, 1077]
    few = np.arange(len(hours)) >= 168 * 2  # three weeks: nothing is left out
    assert fit_ranges(panel, few)[RANGE][1, 30, 0] == 5000


def test_an_hour_without_training_values_has_the_range_of_its_location(
    make_panel: MakePanel,
) -> None:
    values = np.tile(np.arange(168.0), 5)[:, None] + np.array([0, 1000, 0])
    values[np.arange(len(values)) % 168 > 100, 0] = np.nan
    values[:, 2] = np.nan  # never observed
    panel = make_panel(values, clock=Clock("UTC"), start=np.datetime64("2018-01-01", "s"))
    arrays = fit_ranges(panel, np.ones(len(values), dtype=bool))
    assert arrays[RANGE][:, 150].tolist() == [[0, 1149, 0], [100, 1151, 0]]
    assert np.isfinite(arrays[RANGE]).all()


@pytest.mark.parametrize(("minutes", "bins"), [(5, 168), (60, 168), (180, 56), (1440, 7)])
def test_steps_of_any_length_have_ranges(make_panel: MakePanel, minutes: int, bins: int) -> None:
    values = np.random.default_rng(0).poisson(9, (5 * 7 * 24 * 60 // minutes, 3))
    panel = make_panel(values, clock=Clock("Europe/Berlin", step_minutes=minutes))
    arrays = fit_ranges(panel, np.ones(len(values), dtype=bool))
    assert arrays[RANGE].shape == (2, bins, 3)
    assert (arrays[RANGE][0] <= arrays[RANGE][1]).all()
    assert not find_wrong(arrays, panel.clock.season_slots, 3)
    assert find_wrong(arrays, panel.clock.season_slots, 2) == [RANGE, LONGEST]


def test_nothing_outside_training_reaches_ranges_and_runs(make_panel: MakePanel) -> None:
    values = np.random.default_rng(2).poisson(20, (24 * 84, 7))
    train = np.arange(len(values)) < 24 * 70
    later = np.where(train[:, None], values, 977)
    before, after = (fit_ranges(make_panel(each), train) for each in (values, later))
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_run_lengths_count_equal_values_and_missing_ones_interrupt() -> None:
    column = np.float32([3, 3, 0, 0, 0, np.nan, np.nan, 0, 5])
    assert run_lengths(column[:, None])[:, 0].tolist() == [1, 2, 1, 2, 3, 1, 1, 1, 1]
