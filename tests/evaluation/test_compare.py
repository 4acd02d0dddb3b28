from dataclasses import replace

import numpy as np
import pytest

from forecaster.config import IntervalConfig, LagConfig, MetricConfig, TrainingConfig
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import HistoricalMean, SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import backtest
from forecaster.evaluation.compare import common_windows, evaluate, given_weather
from forecaster.panel.parts import Covariates
from forecaster.recipe import change
from forecaster.splits import Splits, cut_windows

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)


def test_fitted_and_unfitted_models_are_compared_on_the_same_windows() -> None:
    fitted = Ridge(RECIPE).fit(PANEL, SPLITS)
    found = evaluate([fitted, SeasonalNaive(RECIPE)], PANEL, SPLITS)
    assert [row.name for row in found.rows] == ["Ridge", "SeasonalNaive"]
    origins = cut_windows(PANEL, SPLITS, RECIPE.lags).test
    report = backtest(fitted, PANEL, origins)
    assert found.rows[0].spread("rmse", "observed")[0].mean == report.average.rmse.value
    assert found.to_dict()["covariates"] == ["temperature", "rain"]
    assert found.recommended is not None
    assert found.levels == RECIPE.intervals.quantiles


def test_models_that_differ_in_their_seed_share_a_row() -> None:
    seeded = [change(RECIPE, {"training": {"seed": seed}}, source="") for seed in range(2)]
    other = RECIPE.model_copy(update={"training": TrainingConfig(epochs=2, batch=256)})
    models = [*(Forecaster(recipe=recipe) for recipe in seeded), Forecaster(recipe=other)]
    found = evaluate(models, PANEL, SPLITS)
    assert [(row.name, list(row.found)) for row in found.rows] == [
        ("Forecaster", [0, 1]),
        ("Forecaster 2", [0]),
    ]
    assert found.rows[0].spread("rmse", "observed")[0].deviation is not None


def test_a_run_from_before_intervals_is_compared_without_any() -> None:
    fitted = Ridge(RECIPE).fit(PANEL, SPLITS)
    assert fitted.run is not None
    kept = {n: a for n, a in fitted.run.arrays.items() if not n.startswith("intervals.")}
    older = Ridge.from_run(replace(fitted.run, arrays=kept))
    found = evaluate([older, SeasonalNaive(RECIPE)], PANEL, SPLITS)
    assert [row.first.sureness is None for row in found.rows] == [True, False]
    assert "| Ridge | – | – | – | – | – |" in found.to_markdown()


def test_each_weather_is_tested() -> None:
    found = evaluate([Ridge(RECIPE)], PANEL, SPLITS, weather=("observed", "persist", "none"))
    assert found.weathers == ["observed", "persist", "none"]


def test_without_covariates_there_is_one_weather() -> None:
    bare = replace(PANEL, covariates=Covariates((), PANEL.covariates.values[:, :0]))
    assert given_weather(bare, ("observed", "persist")) == ["observed"]
    assert given_weather(PANEL, ("persist", "persist", "observed")) == ["persist", "observed"]
    with pytest.raises(ConfigError, match="weather: none given"):
        given_weather(PANEL, ())


def test_windows_are_those_that_all_lags_have_in_common() -> None:
    longer = RECIPE.model_copy(update={"lags": LagConfig(recent=30, seasons=(), horizon=2)})
    values = PANEL.values.copy()
    values[-40] = np.nan  # each drops other windows for it
    panel = replace(PANEL, values=values)
    both = common_windows(panel, SPLITS, [RECIPE, longer])
    each = [set(cut_windows(panel, SPLITS, r.lags).test.tolist()) for r in (RECIPE, longer)]
    assert each[0] != each[1]
    assert set(both.tolist()) == each[0] & each[1]


def test_what_cannot_be_compared_is_refused() -> None:
    far = RECIPE.model_copy(update={"lags": LagConfig(recent=3, seasons=(), horizon=5)})
    cut = RECIPE.model_copy(update={"metrics": MetricConfig(mape_cut=3.0)})
    with pytest.raises(ConfigError, match="no model to evaluate"):
        evaluate([], PANEL, SPLITS)
    with pytest.raises(ConfigError, match=r"forecast \[2, 5\] steps ahead"):
        evaluate([Ridge(RECIPE), Ridge(far)], PANEL, SPLITS)
    with pytest.raises(ConfigError, match=r"mape_cut \(\[3.0, 10.0\]\)"):
        evaluate([Ridge(RECIPE), Ridge(cut)], PANEL, SPLITS)
    wide = RECIPE.model_copy(update={"intervals": IntervalConfig(quantiles=(0.05, 0.95))})
    with pytest.raises(ConfigError, match=r"intervals.quantiles \(\[\(0.05, 0.95\), \(0.1"):
        evaluate([Ridge(RECIPE), Ridge(wide)], PANEL, SPLITS)
    with pytest.raises(ConfigError, match="HistoricalMean with seed 0 is there twice"):
        evaluate([HistoricalMean(RECIPE), HistoricalMean(RECIPE)], PANEL, SPLITS)


def test_models_without_a_window_in_common_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = iter([np.array([5]), np.array([6])])

    def cut(*_: object) -> object:
        return replace(cut_windows(PANEL, SPLITS, RECIPE.lags), test=next(windows))

    monkeypatch.setattr("forecaster.evaluation.compare.cut_windows", cut)
    longer = RECIPE.model_copy(update={"lags": LagConfig(recent=30, seasons=(), horizon=2)})
    with pytest.raises(DataError, match="no test window in common"):
        common_windows(PANEL, SPLITS, [RECIPE, longer])
