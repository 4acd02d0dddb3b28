import numpy as np
import pytest

from forecaster.estimators.naive import SeasonalNaive
from forecaster.estimators.sample import RECIPE, small_city
from forecaster.evaluation.backtest import backtest, targets
from forecaster.splits import Splits, cut_windows


def test_the_scores_are_those_of_the_forecasts() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = SeasonalNaive(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    report = backtest(fitted, panel, origins)
    squares, terms = 0.0, 0
    forecast = fitted.predict(panel, origins)
    for b, origin in enumerate(origins):
        for n in range(panel.values.shape[1]):
            truth = panel.values[origin + 2, n]
            if np.isfinite(truth):
                squares += float(forecast[b, 1, n] - truth) ** 2
                terms += 1
    assert report.steps[1].rmse.terms == terms
    assert report.steps[1].rmse.value == pytest.approx((squares / terms) ** 0.5, rel=1e-6)
    assert len(report.steps) == 2


def test_targets_are_the_steps_after_the_origin() -> None:
    panel = small_city()
    found = targets(panel, np.array([10, 20]), 3)
    assert np.array_equal(found[1], panel.values[21:24], equal_nan=True)
