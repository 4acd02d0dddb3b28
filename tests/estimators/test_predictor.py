from dataclasses import replace

import numpy as np
import pytest

from forecaster.errors import RunError
from forecaster.estimators.areas import Areas, area_predictors
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import HOURS, RECIPE, small_city
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.intervals.online import CYCLE
from forecaster.estimators.predictor import Predictor, WindowForecasts, finish
from forecaster.estimators.training_data import Arrays, hide_test
from forecaster.panel.parts import LocalCovariates
from forecaster.splits import Splits, cut_windows

PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15)
ORIGINS = np.arange(HOURS - 131, HOURS - 2)
RAIN = {"rain": np.array([1.0, np.nan], np.float32)}


class Counting(Ridge):
    """Remembers how many origins it was asked about."""

    asked = 0

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        self.asked += len(inputs.origins)
        return super().predict_windows(arrays, inputs)


@pytest.fixture(scope="module")
def fitted() -> Counting:
    return Counting(RECIPE).fit(PANEL, SPLITS)


@pytest.fixture
def predictor(fitted: Counting) -> Predictor:
    return fitted.predictor(PANEL, "observed")


def test_each_origin_is_answered_once_for_all_forms(
    fitted: Counting, predictor: Predictor
) -> None:
    fitted.asked = 0
    found = predictor.predict(ORIGINS)
    before = fitted.asked - len(ORIGINS)  # whose outcomes the first corrections rest on
    assert CYCLE <= before < 2 * CYCLE
    assert np.array_equal(found.forecast, fitted.predict(PANEL, ORIGINS))
    for form, online in ((found.static, False), (found.online, True)):
        assert np.array_equal(form, fitted.predict_quantiles(PANEL, ORIGINS, online=online))
    assert not np.array_equal(found.static, found.online)


@pytest.mark.parametrize("later", [np.nan, 977.0, 0.0])
def test_nothing_after_an_origin_is_seen_though_later_ones_are_asked(
    fitted: Counting, later: float
) -> None:
    values = PANEL.values.copy()
    values[ORIGINS[41] + 1 :] = later
    blind = replace(PANEL, values=values)
    seen = ORIGINS[[41]] if np.isnan(later) else ORIGINS[[97, 41]]  # it has a history, or not
    here, there = fitted.predict_all(PANEL, ORIGINS), fitted.predict_all(blind, seen)
    np.testing.assert_allclose(there.corrections[-1], here.corrections[41], rtol=1e-5)
    np.testing.assert_allclose(there.online[-1], here.online[41], rtol=1e-5)


class Wild(Ridge):
    """Its forecasts are often far beyond its own quantiles."""

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        usual = self.predict_windows(arrays, inputs)
        generator = np.random.default_rng(inputs.origins.tolist())
        mean = usual * generator.choice([0, 0.5, 1, 2, 50], size=usual.shape)
        quantiles = usual[:, None] + np.array([-5.0, 0, 5])[:, None, None]
        return WindowForecasts(mean.astype(np.float32), quantiles.astype(np.float32))


@pytest.mark.parametrize("missed", [-90, 90])
@pytest.mark.parametrize("resolution", [0.0, 1.0])
def test_L7_no_forecast_lies_outside_its_own_interval_in_any_form(
    fitted: Counting, resolution: float, missed: float
) -> None:
    generator, run, outside = np.random.default_rng(17), fitted.run, 0
    assert run is not None
    arrays = {name: array for name, array in run.arrays.items() if name != "intervals.offsets"}
    arrays["intervals.resolution"] = np.array(resolution)  # 0: a run of an earlier version
    arrays["intervals.residuals"] = arrays["intervals.residuals"] + np.float32(missed)
    run = replace(run, estimator="Wild", arrays=arrays)
    wild = Wild.from_run(run)
    areas = Areas(("x", "y"), np.array([[1, 1, 0, 0, 1], [0, 0, 1, 1, 0]], dtype=bool))
    for _ in range(5):  # times 50 origins and four parameters: 1,000 cases
        values = PANEL.values.copy()
        struck = generator.integers(0, values.size, 60)
        values.reshape(-1)[struck] *= generator.choice([0, 10, 50, 1000], size=60)
        panel = replace(PANEL, values=values)
        origins = np.sort(generator.integers(HOURS - 300, HOURS - 2, 50))
        predictor = wild.predictor(panel, "observed")
        for each in (predictor, *area_predictors(run, predictor, areas)):
            found = each.predict(origins)
            for form in (found, each.predict_changed(found, origins, RAIN)):
                for q in (form.static, form.online):
                    assert np.isfinite(q).all()
                    assert (q >= 0).all()
                    assert (np.diff(q, axis=1) >= 0).all()
                    assert (q[:, 0] <= form.forecast).all()
                    assert (form.forecast <= q[:, -1]).all()
                q = form.calibration.shift(form.base, form.corrections)
                outside += int(((form.forecast < q[:, 0]) | (form.forecast > q[:, -1])).sum())
    assert outside > 1000  # so many would have been


def test_what_is_supposed_is_corrected_like_what_is_given(predictor: Predictor) -> None:
    found = predictor.predict(ORIGINS)
    changed = predictor.predict_changed(found, ORIGINS, RAIN)
    assert not np.array_equal(changed.forecast[:, 0], found.forecast[:, 0])
    assert np.array_equal(changed.forecast[:, 1], found.forecast[:, 1])  # only the first step
    moved, apart = (changed.online - found.online), (changed.forecast - found.forecast)[:, None]
    free = (found.online > 0) & (changed.online > 0)  # counts are cut there
    assert free.mean() > 0.9
    np.testing.assert_allclose(moved[free], (apart + 0 * moved)[free], atol=1e-4)


def test_outcomes_count_in_the_weather_that_there_was(predictor: Predictor) -> None:
    found = predictor.predict(ORIGINS)
    changed = predictor.predict_changed(found, ORIGINS, {"rain": np.full(2, 97, np.float32)})
    assert np.array_equal(changed.corrections, found.corrections)


def test_a_run_without_quantiles_has_forecasts_alone(fitted: Counting) -> None:
    run = fitted.run
    assert run is not None
    kept = {name: array for name, array in run.arrays.items() if not name.startswith("intervals.")}
    old = Ridge.from_run(replace(run, arrays=kept, estimator="Ridge"))
    found = old.predict_all(PANEL, ORIGINS)
    assert np.array_equal(found.forecast, fitted.predict(PANEL, ORIGINS))
    assert found.static.shape == found.online.shape == (len(ORIGINS), 0, 2, 5)
    assert "q10" not in old.forecast(PANEL, f"{PANEL.times[900]}Z").columns


def test_intervals_are_learned_from_validation_alone(fitted: Counting) -> None:
    run = fitted.run
    assert run is not None
    test = SPLITS.mask("test", PANEL.clock, PANEL.times)
    other = replace(PANEL, values=np.where(test[:, None], np.float32(977), PANEL.values))
    one, two = (
        fitted.calibrate(
            run, data, fitted.own_forecasts(run, data.panel, "observed", data.windows.validation)
        )
        for data in (
            hide_test(panel, SPLITS, cut_windows(panel, SPLITS, RECIPE.lags))
            for panel in (PANEL, other)
        )
    )
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert one["intervals.residuals"].any()


def test_counts_are_not_negative_and_nothing_is_nan(fitted: Counting) -> None:
    run = fitted.run
    assert run is not None
    forecast = np.array([[[-1.0, 2.0]]], dtype=np.float32)
    assert finish(run, forecast).tolist() == [[[0, 2]]]
    measured = replace(run, about={**run.about, "kind": "measurement"})
    assert finish(measured, forecast).tolist() == [[[-1, 2]]]
    with pytest.raises(RunError, match="Counting gave NaN or infinity"):
        finish(run, forecast * np.float32(np.inf))


def test_an_outlier_does_not_move_later_intervals_even_of_a_single_location() -> None:
    whole = small_city()
    steps = len(whole.known_times)
    alone = replace(
        whole.select(("place 4",)), local_covariates=LocalCovariates.empty(steps, 1), digest=None
    )
    estimator = Ridge(RECIPE).fit(alone, Splits.by_share(alone, validation=0.15))
    values, at = alone.values.copy(), HOURS - 190
    values[at] *= 50
    spoiled, origins = replace(alone, values=values), np.arange(at + 1, HOURS - 2)

    def moved(model: Ridge) -> float:
        one, two = (model.predict_all(panel, origins).corrections for panel in (alone, spoiled))
        return float(np.abs(one - two).max())

    assert moved(estimator) < 0.1  # spreads
    run = estimator.run
    assert run is not None
    stored = "shared.range", "shared.longest_run"
    arrays = {name: array for name, array in run.arrays.items() if name not in stored}
    older = Ridge.from_run(replace(run, arrays=arrays))  # which takes values as they are
    assert moved(older) > 0.2
