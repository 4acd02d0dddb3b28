from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.fallback import choice
from forecaster.estimators.fallback.choice import (
    choose_models,
    fit_factor,
    reject,
    sum_squares,
)
from forecaster.estimators.training_data import FitResult
from forecaster.paired import MAX_BLOCKS, block_days
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from tests.estimators.fallback.conftest import PLACES, Partial

DAYS, SIMPLE = 60, 4


def choose(days: np.ndarray, **facts: np.ndarray) -> np.ndarray:
    """The choice by daily squared errors [models days N] of locations whose values vary."""
    blocks = block_days(np.arange(days.shape[1]))
    sums = np.zeros((len(days), MAX_BLOCKS, days.shape[2]))
    for day, block in enumerate(blocks):
        sums[:, block] += days[:, day]
    counts = np.zeros(sums.shape[1:])
    counts[: blocks.max() + 1] = 72.0
    N = days.shape[2]
    varies = facts.get("varies", np.ones(N, dtype=bool))
    return choose_models(sums, counts, varies, facts.get("unit", np.ones(N, dtype=np.float32)))


def simulate(generator: np.random.Generator, places: int, correlation: float) -> np.ndarray:
    """Squared errors of equally good models: heavy tails, shared and correlated days."""
    shared = generator.standard_normal((DAYS, places))
    for day in range(1, DAYS):
        shared[day] = correlation * shared[day - 1] + shared[day] * np.sqrt(1 - correlation**2)
    own = generator.standard_normal((1 + SIMPLE, DAYS, places))
    for day in range(1, DAYS):
        own[:, day] = correlation * own[:, day - 1] + own[:, day] * np.sqrt(1 - correlation**2)
    return np.asarray(np.exp(0.7 * shared + 0.3 * own))


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_equally_good_models_seldom_fall_back_anywhere(correlation: float) -> None:
    generator = np.random.default_rng(0)
    towns = [choose(simulate(generator, 31, correlation)).any() for _ in range(300)]
    assert np.mean(towns) <= 0.05


def test_a_clearly_worse_model_falls_back_to_the_best_simple_one() -> None:
    days = simulate(np.random.default_rng(1), 31, 0.4)
    days[3, :, 7] *= 0.3  # the third simple model is better there
    days[0, :, 11] *= 0.3  # and the model itself here
    assert choose(days)[7] == 3
    assert not np.delete(choose(days), 7).any()


def test_one_bad_day_is_chance() -> None:
    days = simulate(np.random.default_rng(2), 5, 0.0)
    days[0, 17, 3] += days[0].sum(axis=0)[3]  # as much as all days together
    assert not choose(days).any()


def test_fewer_than_seven_days_say_nothing() -> None:
    days = np.ones((1 + SIMPLE, 6, 3))
    days[0] = 100.0
    assert not choose(days).any()
    assert choose(np.repeat(days, 2, axis=1)).all()


def test_holms_rule_stops_at_the_first_that_may_be_chance() -> None:
    p = np.array([0.04, 0.012, 0.3, 0.02])  # 0.012 · 4 ≤ 5 % < 0.02 · 3
    assert reject(p).tolist() == [False, True, False, False]
    assert reject(np.full(3, 1e-9)).all()


def test_an_unchanged_location_keeps_a_model_that_is_nearly_right() -> None:
    days = np.zeros((1 + SIMPLE, DAYS, 3))
    days[0] = 72 * np.array([0.01, 1.0, 1.0])  # root mean square 0.1, 1 and 1
    unit = np.array([1.0, 1.0, 4.0], dtype=np.float32)
    chosen = choose(days, varies=np.zeros(3, dtype=bool), unit=unit)
    assert chosen.tolist() == [0, 1, 0]


@given(st.permutations(range(5)), st.integers(0, 99))
def test_the_order_of_locations_does_not_matter(order: list[int], seed: int) -> None:
    days = simulate(np.random.default_rng(seed), 5, 0.0)
    days[0, :, seed % 5] *= 4
    assert np.array_equal(choose(days)[order], choose(days[..., order]))


def test_missing_targets_count_for_nobody() -> None:
    truth = np.array([[[3.0, np.nan]], [[5.0, 1.0]]], dtype=np.float32)
    sums = sum_squares(truth, np.zeros((2, 1, 2), dtype=np.float32), np.array([0, 2]))
    assert sums[[0, 2]].tolist() == [[9.0, 0.0], [25.0, 1.0]]
    assert sums.sum() == 35.0


def test_the_factor_gives_the_lowest_relative_error() -> None:
    generator = np.random.default_rng(3)
    truth = generator.poisson(20, (97, 3)).astype(np.float32)
    forecast = generator.uniform(15, 30, (97, 3)).astype(np.float32)
    best = fit_factor(truth, forecast, 10.0)
    counted = truth >= 10

    def mape(factor: float) -> float:
        return float((np.abs(truth - factor * forecast) / np.maximum(truth, 1))[counted].mean())

    assert mape(best) <= min(mape(factor) for factor in np.linspace(0.3, 1.5, 997)) + 1e-9
    assert fit_factor(truth, forecast, 1e9) == 1.0  # no target counts


def test_a_few_validation_days_are_not_compared(
    town: Panel, splits: Splits, short_recipe: Recipe
) -> None:
    run = Partial(short_recipe).fit(town, splits).run  # four days
    assert run is not None
    assert "fallback" not in run.about
    assert not any(name.startswith("fallback.") for name in run.arrays)


def test_a_simple_model_that_cannot_be_fitted_is_left_out(
    fitted: Partial,
    town: Panel,
    weeks: Splits,
    short_recipe: Recipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> FitResult:
        raise choice.DataError("no")

    monkeypatch.setattr(Ridge, "fit_windows", fail)
    run = Partial(short_recipe).fit(town, weeks).run
    assert run is not None
    assert fitted.run is not None
    assert fitted.run.about["fallback"]["models"] == {"Ridge": 2}
    assert run.about["fallback"]["models"] == {"HistoricalMean": 2}


def test_the_choice_does_not_see_test_steps(
    fitted: Partial, town: Panel, weeks: Splits, short_recipe: Recipe
) -> None:
    values = town.values.copy()
    values[weeks.mask("test", town.clock, town.times)] = 1e4
    other = Partial(short_recipe).fit(replace(town, values=values), weeks)
    assert fitted.run is not None
    assert other.run is not None
    for name, array in fitted.run.arrays.items():
        assert np.array_equal(array, other.run.arrays[name]), name


def test_a_model_better_than_all_keeps_every_place(
    town: Panel, weeks: Splits, short_recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.estimators.fallback.conftest.NOISY", ())
    run = Partial(short_recipe).fit(town, weeks).run
    assert run is not None
    assert run.about["fallback"] == {"locations": 0, "of": PLACES, "models": {}}


def test_squares_are_the_same_in_blocks_of_few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(7)
    truth, forecast = generator.normal(size=(2, 23, 5, 3)).astype(np.float32)
    truth[::3, 1] = np.nan
    blocks = np.arange(23) // 4
    whole = sum_squares(truth, forecast, blocks)
    monkeypatch.setattr(choice, "BLOCK_VALUES", 5 * 3 * 7)
    assert np.array_equal(sum_squares(truth, forecast, blocks), whole)
