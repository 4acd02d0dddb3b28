"""Regressors of scikit-learn as estimators."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import forecaster as fc
from forecaster.errors import ConfigError, RunError
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.checks.suite import check_forecaster
from forecaster.panel.panel import Panel
from forecaster.splits import Splits


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_city()


@pytest.fixture(scope="module")
def splits(panel: Panel) -> Splits:
    return Splits.by_share(panel, validation=0.15, test=0.2)


def test_a_regressor_passes_the_checks_of_every_estimator() -> None:
    assert check_forecaster(lambda recipe: fc.Regression(LinearRegression, recipe))


def test_a_linear_regressor_is_near_ridge(panel: Panel, splits: Splits) -> None:
    models = [fc.Regression(LinearRegression, RECIPE), fc.Ridge(RECIPE), fc.LastValue(RECIPE)]
    comparison = fc.evaluate(models, panel, splits)
    means = [row.seed_means("rmse", "observed")[0].mean for row in comparison.rows]
    linear, ridge, last = means
    assert linear < last
    assert linear == pytest.approx(ridge, rel=0.25)  # one for all locations, one for each


def test_regressors_are_named_by_their_models(panel: Panel, splits: Splits) -> None:
    models = [
        fc.Regression(DummyRegressor, RECIPE),
        fc.Regression(lambda: KNeighborsRegressor(5), RECIPE, rows=997),
    ]
    names = [row.name for row in fc.evaluate(models, panel, splits).rows]
    assert names == ["Regression(DummyRegressor)", "Regression(KNeighborsRegressor)"]


def test_two_regressors_of_one_class_are_two_rows(panel: Panel, splits: Splits) -> None:
    models = [fc.Regression(lambda n=n: KNeighborsRegressor(n), RECIPE, rows=997) for n in (3, 7)]
    names = [row.name for row in fc.evaluate(models, panel, splits).rows]
    assert names == ["Regression(KNeighborsRegressor)", "Regression(KNeighborsRegressor) 2"]


def test_a_regressor_is_not_refitted_on_the_way(panel: Panel, splits: Splits) -> None:
    with pytest.raises(ConfigError, match="cannot be refitted"):
        fc.evaluate([fc.Regression(LinearRegression, RECIPE)], panel, splits, refit="7d")


def test_a_long_horizon_has_a_model_for_some_steps(panel: Panel, splits: Splits) -> None:
    recipe = RECIPE.model_copy(update={"lags": RECIPE.lags.model_copy(update={"horizon": 30})})
    model = fc.Regression(LinearRegression, recipe, rows=997).fit(panel, splits)
    assert len(model._models) == 6  # 1, 3, 6, 12, 24 and 30 steps ahead
    assert model.predict(panel, np.array([len(panel.values) - 40])).shape[1] == 30


def test_saving_is_refused_in_words(panel: Panel, splits: Splits, tmp_path: Path) -> None:
    model = fc.Regression(LinearRegression, RECIPE, rows=997).fit(panel, splits)
    with pytest.raises(ConfigError, match="can only be pickled, and a pickle runs code when it i"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_instance_is_refused() -> None:
    with pytest.raises((ConfigError, TypeError)):  # the latter where types are checked
        fc.Regression(LinearRegression())  # type: ignore[arg-type]


def test_what_is_no_number_for_each_row_is_refused(panel: Panel, splits: Splits) -> None:
    class Wrong(DummyRegressor):
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.full(len(X), np.nan)

    with pytest.raises(RunError, match=r"Wrong\.predict returned float64 .* rows; one finite"):
        fc.Regression(Wrong, RECIPE, rows=997).fit(panel, splits)
