"""Intervals of totals follow the outcomes of the last days, and see nothing after the origin."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.config import LagConfig
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import HOURS, LOCATIONS, small_city
from forecaster.estimators.intervals.calibration import Calibration
from forecaster.estimators.predictor import Predictor
from forecaster.estimators.totals.past_totals import (
    PAST_DAYS,
    PastForecasts,
    PastTotals,
    correct_levels,
)
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

K = 31
LEVELS = (0.1, 0.5, 0.9)
NORMAL = np.array([-1.2816, 0.0, 1.2816], dtype=np.float32)  # quantiles of a spread of 1
STATIC = Calibration(LEVELS, np.zeros((3, 1)), np.ones((24, 7), np.float32), None, -np.inf)


@pytest.fixture(scope="module")
def fitted() -> tuple[Panel, SeasonalNaive]:
    panel = small_city()
    lags = LagConfig(recent=1, seasons=({"days": 7, "count": 1},), horizon=K)
    return panel, SeasonalNaive(Recipe(lags=lags)).fit(panel, Splits.by_share(panel, 0.3, 0.2))


def correct(outcome: np.ndarray) -> np.ndarray:
    """The corrections after some days on which nothing else was forecast than 0."""
    forecast, spread = np.zeros_like(outcome), np.ones(outcome.shape[1], np.float32)
    offsets = np.broadcast_to(NORMAL[:, None], (3, outcome.shape[1])).astype(np.float32)
    return correct_levels(np.zeros(3), forecast, outcome, offsets, spread, STATIC)


def test_intervals_of_totals_grow_and_shrink_to_the_errors_of_the_last_days() -> None:
    errors = np.random.default_rng(0).normal(size=(PAST_DAYS, 7)).astype(np.float32)
    for size in (0.5, 1.0, 3.0):
        q = NORMAL + correct(size * errors)
        assert q[2] - q[0] == pytest.approx(size * 2 * 1.2816, rel=0.35)
        assert q[0] < q[1] < q[2]
    bias = correct(errors + 2)
    assert bias[1] == pytest.approx(2, abs=0.7)


def test_only_the_last_weeks_count_and_missing_outcomes_do_not() -> None:
    errors = np.random.default_rng(1).normal(size=(3 * PAST_DAYS, 7)).astype(np.float32)
    recent = errors[-PAST_DAYS:]
    assert np.array_equal(correct(errors), correct(recent))
    gaps = np.insert(recent, 5, np.float32(np.nan), axis=0)
    assert np.array_equal(correct(gaps), correct(recent))
    assert np.array_equal(correct(np.full((5, 7), np.nan, np.float32)), np.zeros(3))


def test_closed_steps_add_nothing_and_a_closed_day_is_not_compared() -> None:
    forecasts, outcomes = np.ones((3, 4, 2), np.float32), 2 * np.ones((3, 4, 2), np.float32)
    closed = np.zeros((3, 4, 2), dtype=bool)
    closed[1, 1:, 0], closed[2, :, 0] = True, True
    outcomes[closed] = np.nan
    past = PastTotals(forecasts, outcomes, closed)
    forecast, outcome = past.of_steps(slice(0, 4))
    assert forecast[:2, 0].tolist() == [4, 1]
    assert outcome[:2, 0].tolist() == [8, 2]
    assert np.isnan(outcome[2, 0])
    area = past.sum_of(np.array([True, True]))
    assert area.of_steps(slice(0, 4))[1][:, 0].tolist() == [16, 10, 8]
    assert np.array_equal(past.locations([1]).of_steps(slice(1, 3))[0], 2 * np.ones((3, 1)))


def test_forecasts_of_the_same_hour_are_taken_each_day_once(
    fitted: tuple[Panel, SeasonalNaive], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, model = fitted
    asked: list[int] = []
    base = Predictor.base

    def listen(self: Predictor, origins: np.ndarray, *changes: object) -> object:
        asked.extend(origins.tolist())
        return base(self, origins, *changes)  # type: ignore[arg-type]

    monkeypatch.setattr(Predictor, "base", listen)
    forecasts, origin = PastForecasts(model.predictor(panel, "observed"), K), HOURS - 3
    past = forecasts.at(origin)
    assert past.forecasts.shape == (PAST_DAYS + 1, K, LOCATIONS)  # the horizon is two days
    known = past.outcomes[-1]
    np.testing.assert_array_equal(known[:24], panel.values[origin - 23 : origin + 1])
    assert np.isnan(known[24:]).all()  # after the origin
    compared = np.isfinite(past.forecasts[:, 0, 0])
    assert 7 < compared.sum() < PAST_DAYS  # others have training targets
    step = origin - 24 * 3
    np.testing.assert_array_equal(past.forecasts[-3], model.predict(panel, np.array([step]))[0])
    asked.clear()
    forecasts.at(origin + 24 - 24 * 2)
    forecasts.at(origin)
    assert len(asked) == len(set(asked))


def test_totals_see_nothing_after_the_origin_and_move_with_what_was_before(
    fitted: tuple[Panel, SeasonalNaive],
) -> None:
    panel, model = fitted
    origin = HOURS - 40
    at = f"{panel.times[origin]}Z"
    before = model.forecast_totals(panel, at)
    values = panel.values.copy()
    values[origin + 1 :] = 1e6
    assert model.forecast_totals(panel.with_data(values), at).equals(before)
    earlier = panel.values.copy()
    earlier[origin - 23 : origin + 1] += 15
    moved = model.forecast_totals(panel.with_data(earlier), at)
    assert (moved["q90"] - moved["y_hat"] > before["q90"] - before["y_hat"]).all()


def test_a_run_without_quantiles_has_no_past_totals(fitted: tuple[Panel, SeasonalNaive]) -> None:
    panel, model = fitted
    run = model.run
    assert run is not None
    bare = {n: a for n, a in run.arrays.items() if not n.startswith("intervals.")}
    older = SeasonalNaive.from_run(replace(run, arrays=bare))
    assert older.past_totals(panel, HOURS - 40) is None
