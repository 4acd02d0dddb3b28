"""Squares and the deviance of counts: what trees learn, and what their sums stand for."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from forecaster.errors import ConfigError
from forecaster.estimators.baselines import boosting as module
from forecaster.estimators.baselines.boosting import Boosting
from forecaster.estimators.baselines.objectives import Poisson, Squares, objective_of
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.registry import load_estimator
from forecaster.recipe import change
from forecaster.splits import Splits
from forecaster.windows.scaling import Scale

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)
POISSON = change(RECIPE, {"boosting": {"objective": "poisson"}}, source="test")
SCALE = Scale(np.array([2, 8, 0], dtype=np.float32), np.array([1, 3, 1], dtype=np.float32))


def test_squares_are_of_scaled_values() -> None:
    squares = objective_of("squares", SCALE)
    assert isinstance(squares, Squares)
    targets = squares.targets(np.array([5, 2], dtype=np.float32), np.array([1, 0]))
    assert targets.tolist() == [-1, 0]
    sums = np.array([[[0, -1, 0]]], dtype=np.float32)
    assert squares.forecasts(sums).tolist() == [[[2, 5, 0]]]
    assert squares.deviation.tolist() == [1, 3, 1]


def test_a_sum_of_trees_is_the_logarithm_of_a_share_of_the_mean() -> None:
    poisson = objective_of("poisson", SCALE)
    assert isinstance(poisson, Poisson)
    targets = poisson.targets(np.array([4, 4, 3], dtype=np.float32), np.array([0, 1, 2]))
    assert targets.tolist() == [2, 0.5, 3]
    sums = np.log(np.array([[[2, 0.5, 7]]], dtype=np.float32))
    assert poisson.forecasts(sums)[0, 0] == pytest.approx([4, 4, 0], rel=1e-6)
    assert poisson.deviation == pytest.approx([np.sqrt(2), np.sqrt(8), 1])


def test_weighted_shares_have_the_optimum_of_the_deviance_of_counts() -> None:
    counts, location = np.array([1, 3, 4, 9], dtype=np.float32), np.array([0, 0, 1, 1])
    poisson = Poisson(SCALE)
    shares, weights = poisson.targets(counts, location), np.square(poisson.deviation)[location]
    means = SCALE.mean[location]

    def deviance(s: float) -> float:
        forecast = means * np.exp(s)
        return float((forecast - counts * np.log(forecast)).sum())

    def weighted(s: float) -> float:
        return float((weights * (np.exp(s) - shares * s)).sum())

    expected = minimize_scalar(deviance).x
    assert minimize_scalar(weighted).x == pytest.approx(expected, abs=1e-5)
    assert weighted(0.3) - weighted(-0.2) == pytest.approx(deviance(0.3) - deviance(-0.2))


def test_a_run_forecasts_what_lightgbm_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROUNDS", 23)
    monkeypatch.setattr(Boosting, "falls_back", False)
    lightgbm, boosters = pytest.importorskip("lightgbm"), []
    train = lightgbm.train

    def keep(*arguments: object, **options: object) -> object:
        boosters.append((train(*arguments, **options), arguments[0]))
        return boosters[-1][0]

    monkeypatch.setattr(lightgbm, "train", keep)
    fitted, tables = Boosting(POISSON).fit(PANEL, SPLITS), []
    make = module.make_inputs
    monkeypatch.setattr(
        module, "make_inputs", lambda *given: tables.append(make(*given)) or tables[-1]
    )
    origins = np.array([900])
    forecast = fitted.predict(PANEL, origins)[0]
    assert fitted.run is not None
    means = fitted.run.arrays["values.mean"]
    for k, (booster, parameters) in enumerate(boosters):
        assert parameters["objective"] == "poisson"  # type: ignore[index]
        assert forecast[k] == pytest.approx(means * booster.predict(tables[k]), rel=1e-5)
    assert (forecast > 0).all()
    fitted.save(tmp_path / "run")
    loaded = load_estimator(tmp_path / "run")
    assert np.array_equal(loaded.predict(PANEL, origins)[0], forecast)
    assert not np.allclose(Boosting(RECIPE).fit(PANEL, SPLITS).predict(PANEL, origins), forecast)


def test_measurements_have_no_such_deviance() -> None:
    speeds = small_city(kind="measurement")
    with pytest.raises(ConfigError, match="for counts, and these are measurements"):
        Boosting(POISSON).fit(speeds, SPLITS)


def test_counts_that_are_all_zero_are_forecast_as_by_squares() -> None:
    silent, origins = replace(PANEL, values=np.zeros_like(PANEL.values)), np.array([1_000])
    poisson, squares = (Boosting(recipe).fit(silent, SPLITS) for recipe in (POISSON, RECIPE))
    assert np.array_equal(poisson.predict(silent, origins), squares.predict(silent, origins))
