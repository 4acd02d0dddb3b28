"""All training weeks or the newest with decay, chosen on validation."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.config import LagConfig, Season
from forecaster.estimators.baselines.naive import HistoricalMean
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.spans import ALL, REACH_WEEKS, RECENT, fit_best_span
from forecaster.estimators.training_data import FitResult, TrainingData, hide_test
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows
from forecaster.synthetic.city import make_city

RECIPE = Recipe(lags=LagConfig(recent=2, seasons=(Season(days=7, count=1),), horizon=2))
WEEK = 24 * 7
START = Run("TrainingMean", RECIPE, {}, {}, digest="0" * 64)


class TrainingMean:
    """Forecasts the mean of the training steps, and remembers what it was fitted to."""

    recipe = RECIPE

    def __init__(self) -> None:
        self.seen: list[TrainingData] = []

    def fit_windows(self, data: TrainingData) -> FitResult:
        self.seen.append(data)
        return FitResult({"mean": np.nanmean(data.panel.values[data.train], axis=0)})

    def own_forecasts(
        self, run: Run, panel: Panel, weather: str, origins: np.ndarray
    ) -> WindowForecasts:
        assert weather == "observed"
        mean = np.broadcast_to(run.arrays["mean"], (len(origins), 2, len(panel.locations)))
        return WindowForecasts(mean, np.empty((len(origins), 0, *mean.shape[1:]), np.float32))


@pytest.fixture(scope="module")
def year() -> Panel:
    return make_city(3, hours=53 * WEEK).panel


def data_of(panel: Panel) -> TrainingData:
    splits = Splits.by_share(panel, validation=0.1, test=0.1)
    return hide_test(panel, splits, cut_windows(panel, splits, RECIPE.lags))


def flat(panel: Panel, week: int) -> Panel:
    """The panel with noise alone, three times as high from a week on."""
    noise = np.random.default_rng(0).poisson(9, panel.values.shape).astype(np.float32)
    noise[week * WEEK :] *= 3
    return panel.with_data(noise)


@pytest.mark.parametrize(("change", "best"), [(53, ALL), (24, RECENT)])
def test_after_a_change_the_newest_weeks_are_kept_and_without_one_all(
    change: int, best: str, year: Panel
) -> None:
    data = data_of(flat(year, change))
    result, span = fit_best_span(TrainingMean(), data, START)
    assert result.about["start"]["span"] == best
    assert min(result.about["start"]["rmse"].items(), key=lambda item: item[1])[0] == best
    assert (span.train.sum() < data.train.sum()) == (best == RECENT)


def test_the_newest_windows_are_thinned_by_their_age(year: Panel) -> None:
    model, data = TrainingMean(), data_of(year)
    for _ in range(2):
        fit_best_span(model, data, START)
    whole, recent, _, again = model.seen
    assert len(whole.windows.train) == len(data.windows.train)
    ages = (whole.windows.train[-1] - recent.windows.train) / WEEK
    assert ages.max() <= REACH_WEEKS
    weeks = np.bincount(ages.astype(int), minlength=24)
    assert weeks[0] > 140  # of 168
    assert 55 < weeks[8] < 100  # a half
    assert 5 < weeks[23] < 40  # an eighth
    np.testing.assert_array_equal(again.windows.train, recent.windows.train)


def test_a_short_training_has_one_span(year: Panel) -> None:
    data = data_of(year.steps(0, 20 * WEEK))
    result, span = fit_best_span(TrainingMean(), data, START)
    assert list(result.about["start"]["rmse"]) == [ALL]
    assert span is data


def test_a_fit_that_goes_on_names_the_run_it_began_from(year: Panel) -> None:
    first = HistoricalMean(RECIPE).fit(year, Splits.by_share(year))
    coming = HistoricalMean(RECIPE)
    coming.start = replace(first.run, digest="0" * 64)
    coming.fit(year, Splits.by_share(year))
    assert coming.run.parents["run"] == "0" * 64
