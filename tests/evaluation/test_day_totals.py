from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.config import LagConfig
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import small_city
from forecaster.estimators.totals.totals import Span
from forecaster.evaluation.backtest import BacktestResult, backtest
from forecaster.evaluation.comparison import Comparison, ModelResult, describe_panel
from forecaster.evaluation.day_totals import observed_totals
from forecaster.evaluation.storage import load_backtest, save_backtest
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits, cut_windows

Tested = tuple[Panel, SeasonalNaive, np.ndarray, BacktestResult]


@pytest.fixture(scope="module")
def tested() -> Tested:
    panel = small_city("count")
    splits = Splits.by_share(panel, 0.3, 0.25)
    lags = LagConfig(recent=1, seasons=({"days": 7, "count": 1},), horizon=49)
    model = SeasonalNaive(Recipe(lags=lags)).fit(panel, splits)
    origins = cut_windows(panel, splits, lags).test
    return panel, model, origins, backtest(model, panel, origins)


def test_totals_are_scored_from_the_end_of_each_day(tested: Tested) -> None:
    panel, model, origins, result = tested
    assert result.day_totals is not None
    local = panel.clock.local(panel.times[origins])
    last_hours = origins[local.astype("datetime64[h]").astype(int) % 24 == 23]
    errors = result.day_totals.errors
    assert errors.squares.shape == (len(last_hours), 2)
    forecast = model.predict(panel, last_hours)
    steps = last_hours[:, None] + np.arange(1, 50)
    misses = (forecast - panel.values[steps])[:, :48].reshape(len(last_hours), 2, 24, -1).sum(2)
    np.testing.assert_allclose(errors.squares, np.nansum(np.square(misses), axis=-1), rtol=1e-4)
    intervals = result.day_totals.intervals
    assert 0.5 < intervals.inside.sum() / intervals.values.sum() <= 1


def test_totals_are_stored_and_shown(tested: Tested, tmp_path: Path) -> None:
    panel, _, _, result = tested
    save_backtest(tmp_path / "test", result, "0" * 64)
    loaded = load_backtest(tmp_path / "test", "0" * 64)
    assert loaded is not None
    assert loaded.day_totals is not None
    assert result.day_totals is not None
    np.testing.assert_array_equal(
        loaded.day_totals.intervals.inside, result.day_totals.intervals.inside
    )
    row = ModelResult("SeasonalNaive", "SeasonalNaive", {0: loaded})
    comparison = Comparison([row], 10.0, describe_panel(panel))
    scores = comparison.to_dict()["rows"][0]["day_totals"]
    assert [len(scores[name]) for name in ("rmse", "coverage")] == [3, 3]  # both days, then each
    text = comparison.to_markdown()
    assert "| totals of days | RMSE all | RMSE day 1 | RMSE day 2 | coverage % all |" in text
    assert "| +7–24 h |" in text
    older = replace(row, results={0: replace(loaded, day_totals=None)})
    assert "totals of days" not in Comparison([older], 10.0, describe_panel(panel)).to_markdown()


def test_a_day_with_a_missing_value_has_no_total(tested: Tested) -> None:
    panel = tested[0]
    values = np.nan_to_num(panel.values)
    whole = values[124:148].sum(axis=0)
    values[105, 2] = np.nan
    spans = [Span("a", 1, 24, is_whole=True), Span("b", 25, 48, is_whole=True)]
    totals = observed_totals(replace(panel, values=values), 99, spans)
    assert np.isnan(totals[0, 2])
    np.testing.assert_allclose(totals[1], whole, rtol=1e-6)
    assert np.isfinite(totals).sum() == 2 * len(panel.locations) - 1
