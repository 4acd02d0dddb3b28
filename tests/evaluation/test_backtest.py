import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.transformer import Transformer
from forecaster.estimators.predictor import WindowForecasts
from forecaster.estimators.training_data import Arrays
from forecaster.evaluation.backtest import TIMED, backtest, count_parameters, targets
from forecaster.evaluation.bias import location_sizes
from forecaster.metrics import sum_errors
from forecaster.splits import Splits, cut_windows


def test_the_scores_are_those_of_the_forecasts() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = SeasonalNaive(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    report = backtest(fitted, panel, origins).errors["observed"].report()
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
    result = targets(panel, np.array([10, 20]), 3)
    assert np.array_equal(result[1], panel.values[21:24], equal_nan=True)


def test_a_result_holds_the_errors_by_window_and_by_location() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = Ridge(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    result = backtest(fitted, panel, origins, ["observed", "none"])
    truth, forecast = targets(panel, origins, 2), fitted.predict(panel, origins)
    expected = sum_errors(truth, forecast, RECIPE.metrics.mape_cut)
    for name, sums in vars(result.errors["observed"]).items():
        assert np.array_equal(sums, getattr(expected, name)), name
    for k in range(2):
        for n in range(5):
            miss = truth[:, k, n] - forecast[:, k, n]
            square = np.nansum(np.square(miss.astype(np.float64)))
            assert result.by_location.squares[k, n] == pytest.approx(square, rel=1e-6)
    assert result.weather == "observed"
    blind = fitted.predict(panel, origins, "none")
    assert result.errors["none"].report() == sum_errors(truth, blind, 10.0).report()
    assert result.seconds == fitted.seconds
    assert result.milliseconds > 0


class TwoNumbers(Ridge):
    """A model with an output of its own for relative error."""

    def predict_outputs(self, arrays: Arrays, inputs: ForecastInputs) -> WindowForecasts:
        """The forecasts of Ridge, and nine tenths of them."""
        outputs = super().predict_outputs(arrays, inputs)
        return outputs._replace(relative=outputs.mean * np.float32(0.9))


class Partial(Ridge):
    """Ridge, far too high at two of the five places."""

    falls_back = True

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        """The forecasts of Ridge, four times as high at two places."""
        forecast = super().predict_windows(arrays, inputs)
        return np.asarray(forecast * np.array([1, 1, 4, 1, 4], dtype=np.float32))


def test_a_fallback_is_scored_as_served_and_the_model_alone_beside_it() -> None:
    panel = small_city()
    splits = Splits.by_share(panel, validation=0.3, test=0.2)
    fitted = Partial(RECIPE).fit(panel, splits)
    run = fitted.run
    assert run is not None
    backwards = panel.select(panel.locations.ids[::-1])
    origins = cut_windows(panel, splits, RECIPE.lags).test
    result = backtest(fitted, backwards, origins, ["observed", "none"])
    assert result.fallback == {"Ridge": 2}
    assert result.own is not None
    truth = targets(backwards, origins, 2)
    for weather in ("observed", "none"):
        served = fitted.predict(backwards, origins, weather)
        alone = fitted.own_forecasts(run, panel, weather, origins).mean[..., ::-1]
        for sums, forecast in ((result.errors, served), (result.own.errors, alone)):
            expected = sum_errors(truth, forecast, 10.0)
            for name, part in vars(expected).items():
                assert np.allclose(getattr(sums[weather], name), part, rtol=1e-12), name
    ratio = result.own.by_location.squares / result.by_location.squares
    assert (ratio[:, [0, 2]] > 4).all()  # the two places, the last one first
    assert np.allclose(ratio[:, [1, 3, 4]], 1)
    other = result.under(["none"])
    assert list(other.errors) == ["none"]
    assert other.own is not None
    assert list(other.own.errors) == ["none"]


def test_weights_of_a_served_simple_model_are_not_counted_as_the_models() -> None:
    panel = small_city()
    fitted = Partial(RECIPE).fit(panel, Splits.by_share(panel, validation=0.3, test=0.2))
    assert fitted.run is not None
    assert any(name.startswith("fallback.Ridge.") for name in fitted.run.arrays)
    plain = Ridge(RECIPE).fit(panel, Splits.by_share(panel, validation=0.3, test=0.2)).run
    assert plain is not None
    assert count_parameters(fitted.run) == count_parameters(plain)


def test_a_model_served_everywhere_has_no_errors_of_its_own() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    result = backtest(Ridge(RECIPE).fit(panel, splits), panel, np.array([900, 950]))
    assert result.own is None
    assert result.fallback is None


def test_mape_is_of_the_second_output_under_every_weather() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = TwoNumbers(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    result = backtest(fitted, panel, origins, ["observed", "persist"])
    assert result.has_relative
    truth = targets(panel, origins, 2)
    for weather in ("observed", "persist"):
        mean = fitted.predict(panel, origins, weather)  # type: ignore[arg-type]
        scores = result.errors[weather].scores()  # type: ignore[index]
        of_mean, of_relative = (sum_errors(truth, x, 10.0).scores() for x in (mean, mean * 0.9))
        assert scores.mape.value == pytest.approx(of_relative.mape.value, rel=1e-5)
        assert scores.mape.value != pytest.approx(of_mean.mape.value, rel=1e-2)
        for name in ("rmse", "mae", "bias"):
            assert getattr(scores, name) == getattr(of_mean, name)
    by_location = result.by_location.scores()
    assert by_location.mape.value == pytest.approx(
        result.errors["observed"].scores().mape.value, rel=1e-9
    )


def test_a_result_holds_sizes_in_training_and_local_hours() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = Ridge(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test[:7]
    result = backtest(fitted, panel, origins)
    assert fitted.run is not None
    assert not result.has_relative
    assert result.has_bias
    assert np.array_equal(result.location_sizes, location_sizes(fitted.run, panel))
    assert result.hours is not None
    local = panel.clock.local(panel.times[origins[:, None] + [1, 2]])
    assert np.array_equal(result.hours, local.astype("datetime64[h]").astype(np.int64) % 24)


@pytest.mark.parametrize("kind", [SeasonalNaive, Ridge])
def test_a_result_holds_the_scores_of_both_calibration_modes(
    kind: type[Estimator],
) -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = kind(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    result = backtest(fitted, panel, origins, ["persist", "observed"]).interval_results
    assert result is not None
    assert result.levels == fitted.quantile_levels == (0.1, 0.5, 0.9)
    assert result.nominal_coverage == pytest.approx(0.8)
    truth = targets(panel, origins, 2)
    seen = np.isfinite(truth)
    for form, online in (("static", False), ("online", True)):
        q = fitted.predict_quantiles(panel, origins, "persist", online=online)
        inside = seen & (q[:, 0] <= truth) & (truth <= q[:, -1])
        assert np.array_equal(result.by_window[form].inside, inside.sum(axis=2))
        assert np.array_equal(result.by_window[form].values, seen.sum(axis=2))
        assert np.array_equal(result.by_location[form].inside, inside.sum(axis=0))
        width = np.where(seen, q[:, -1] - q[:, 0], 0).sum(axis=0, dtype=np.float64)
        np.testing.assert_allclose(result.by_location[form].widths, width, rtol=1e-6)
    static, online_sums = result.by_window["static"], result.by_window["online"]
    assert not np.array_equal(static.widths, online_sums.widths)


def test_each_origin_is_forecast_once_for_all_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    fitted = Ridge(RECIPE).fit(panel, splits)
    origins = cut_windows(panel, splits, RECIPE.lags).test
    answered: list[int] = []
    answer = Ridge.predict_windows

    def counted(self: Ridge, arrays: Arrays, forecast_inputs: ForecastInputs) -> np.ndarray:
        first = forecast_inputs.panel.times[forecast_inputs.origins]
        answered.extend(np.searchsorted(panel.times, first).tolist())
        return answer(self, arrays, forecast_inputs)

    monkeypatch.setattr(Ridge, "predict_windows", counted)
    backtest(fitted, panel, origins)
    times = [answered.count(step) for step in origins.tolist()]
    timed = len(answered) - len(set(answered))  # how long a forecast takes is seen by itself
    assert timed <= TIMED + 1
    assert sum(times) == len(origins) + timed


def test_days_are_those_of_the_first_target_on_the_local_clock() -> None:
    panel = small_city()  # Europe/Berlin; 2021-03-01T22Z is the last origin of a local day
    fitted = SeasonalNaive(RECIPE).fit(panel, Splits.by_share(panel))
    origins = np.array([24 * 10 + 21, 24 * 10 + 22])
    result = backtest(fitted, panel, origins)
    assert np.diff(result.days).tolist() == [1]  # 22:00Z + 1 h is midnight in Berlin
    assert result.origins.tolist() == panel.times[origins].astype(np.int64).tolist()


def test_parameters_are_the_numbers_fitted_to_targets() -> None:
    panel = small_city()
    splits = Splits.by_share(panel)
    assert count_parameters(of(SeasonalNaive(RECIPE).fit(panel, splits))) == 0
    inputs = RECIPE.lags.length + 2 + 32  # lags, weather, calendar
    ridge = of(Ridge(RECIPE).fit(panel, splits))
    assert count_parameters(ridge) == 2 * inputs * 5 + 1  # and the penalty
    assert any(name.startswith("intervals.") for name in ridge.arrays)
    for kind in (Transformer, DCRNN):
        network = of(kind(RECIPE).fit(panel, splits))
        weights = [a.size for name, a in network.arrays.items() if name.startswith("model.")]
        assert count_parameters(network) == sum(weights)


def of(estimator: Estimator) -> Run:
    assert estimator.run is not None
    return estimator.run
