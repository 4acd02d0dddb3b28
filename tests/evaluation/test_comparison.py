import json
import statistics
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.config import IntervalConfig, LagConfig, MetricConfig, TrainingConfig
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.baselines.naive import HistoricalMean, SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.evaluation.backtest import (
    BacktestResult,
    CalibrationMode,
    IntervalResults,
    backtest,
)
from forecaster.evaluation.comparison import (
    Comparison,
    ModelResult,
    SeedMean,
    common_test_windows,
    evaluate,
    usable_weathers,
)
from forecaster.panel.parts import Covariates
from forecaster.recipe import change
from forecaster.splits import Splits, cut_windows

ABOUT = {"panel": "ab", "covariates": ["rain"]}
MakeResult = Callable[..., BacktestResult]
MakeIntervalResults = Callable[..., IntervalResults]


@pytest.fixture
def rows(make_result: MakeResult) -> list[ModelResult]:
    several = {seed: make_result(2.0 + seed / 7, seed) for seed in range(3)}
    return [
        ModelResult("Ridge", "Ridge", {0: make_result(4.0, 5, parameters=23)}),
        ModelResult(
            "Forecaster", "Forecaster", several, chosen={"threshold": "0.1"}, runs={0: "cells/a"}
        ),
        ModelResult("VAR", "VAR", {}, {"seed 0": "singular"}),
        ModelResult(
            "Forecaster, graph own", "Forecaster", {0: make_result(3.0, 9)}, of="Forecaster"
        ),
    ]


def test_mean_and_deviation_are_those_of_the_trainings(rows: list[ModelResult]) -> None:
    for figure in ("rmse", "mape", "mae", "wape", "bias"):
        found = rows[1].seed_means(figure, "observed")
        assert len(found) == 1 + 3
        for k, spread in enumerate(found):
            values = []
            for result in rows[1].results.values():
                errors = result.errors["observed"]
                chosen = slice(None) if k == 0 else slice(k - 1, k)
                total = {n: float(s[:, chosen].sum()) for n, s in vars(errors).items()}
                values.append(
                    {
                        "rmse": np.sqrt(total["squares"] / total["values"]),
                        "mape": total["shares"] / total["terms"],
                        "mae": total["absolutes"] / total["values"],
                        "wape": total["absolutes"] / total["sizes"],
                        "bias": total["signed"] / total["sizes"],
                    }[figure]
                )
            assert spread.mean == pytest.approx(np.mean(values))
            assert spread.deviation == pytest.approx(np.std(values, ddof=1))


def test_one_training_has_no_deviation(rows: list[ModelResult]) -> None:
    assert rows[0].seed_means("rmse", "observed")[0].deviation is None
    assert SeedMean.of([]) == SeedMean(None)
    assert SeedMean.of([None, None]) == SeedMean(None)
    assert SeedMean.of([3.0, 5.0]) == SeedMean(4.0, statistics.stdev([3.0, 5.0]))


def test_others_are_compared_with_forecaster_or_else_with_the_best(
    rows: list[ModelResult],
) -> None:
    comparison = Comparison(rows, 10.0, ABOUT)
    assert comparison.reference is rows[1]
    assert list(comparison.differences) == ["Ridge", "Forecaster, graph own"]
    found = comparison.differences["Ridge"].rmse
    assert found is not None
    assert found.value > 0
    assert Comparison([rows[0], rows[3]], 10.0, ABOUT).reference is rows[3]


def test_the_recommended_row_is_the_verdicts(rows: list[ModelResult]) -> None:
    comparison = Comparison(rows, 10.0, ABOUT)
    assert comparison.recommended is rows[1]
    assert comparison.verdict[0].startswith("Forecaster is ")
    assert comparison.verdict[-1] == "None of the ablations is better than Forecaster itself."


def test_models_of_different_windows_are_refused(make_result: MakeResult) -> None:
    other = make_result(1.0, origins=np.arange(48) * 3600 + 1)
    rows = [
        ModelResult("a", "Ridge", {0: make_result(1.0)}),
        ModelResult("b", "Ridge", {0: other}),
    ]
    with pytest.raises(DataError, match="different windows"):
        Comparison(rows, 10.0, ABOUT)


def test_plain_data_holds_everything(rows: list[ModelResult]) -> None:
    content = json.loads(Comparison(rows, 10.0, ABOUT).to_json())
    assert (content["windows"], content["days"], content["against"]) == (48, 8, "Forecaster")
    ridge, forecaster, var, own = content["rows"]
    assert var == {
        "model": "VAR", "estimator": "VAR", "ablation_of": None, "chosen": {},
        "failures": {"seed 0": "singular"}, "seeds": [], "runs": {},
        "without_fallback": False, "fallback": {},
    }  # fmt: skip
    assert own["ablation_of"] == "Forecaster"
    assert forecaster["seeds"] == [0, 1, 2]
    assert forecaster["runs"] == {"0": "cells/a"}
    assert (ridge["terms"], ridge["parameters"]) == (48 * 3 * 5, 23)
    assert ridge["seconds"] == 7.0
    assert ridge["milliseconds"] == 2.5
    assert len(forecaster["weather"]["observed"]["rmse"]) == 4
    assert content["panel"] == "ab"


def test_P8_without_terms_there_is_no_mape(make_result: MakeResult) -> None:
    found = make_result(1.0)
    none = replace(found.errors["observed"], terms=np.zeros((48, 3), dtype=np.int64))
    row = ModelResult("Ridge", "Ridge", {0: replace(found, errors={"observed": none})})
    comparison = Comparison([row, replace(row, name="Other")], 10.0, ABOUT)
    assert row.seed_means("mape", "observed") == [SeedMean(None)] * 4
    assert "| Ridge | n/a (0 terms) | n/a (0 terms) |" in comparison.to_markdown()


def test_unknown_seconds_are_left_out(make_result: MakeResult) -> None:
    row = ModelResult("a", "Ridge", {0: make_result(1.0, seconds=None), 1: make_result(1.0, 1)})
    assert row.costs()["seconds"] == 7.0
    alone = ModelResult("a", "Ridge", {0: make_result(1.0, seconds=None)})
    assert alone.costs()["seconds"] is None
    assert "| – |" in Comparison([alone], 10.0, ABOUT).to_markdown()


def test_a_comparison_in_which_all_failed_says_so() -> None:
    comparison = Comparison([ModelResult("VAR", "VAR", {}, {"seed 0": "no\nmemory"})], 10.0, ABOUT)
    text = comparison.to_markdown()
    assert "No model was tested." in text
    assert "- VAR, seed 0: no memory" in text
    assert comparison.recommended is None
    assert comparison.to_csv().splitlines()[1].startswith("VAR,")


# ---------------------------------------------------------------------------- the intervals


@pytest.fixture
def sure(make_result: MakeResult, make_interval_results: MakeIntervalResults) -> Comparison:
    """Return a comparison of two models with intervals and one from before there were any."""
    results_by_seed = {seed: make_interval_results(4.0 + seed, 6.0 + seed) for seed in range(2)}
    several = {
        seed: make_result(2.0, seed, interval_results=results_by_seed[seed]) for seed in range(2)
    }
    rows = [
        ModelResult(
            "Ridge",
            "Ridge",
            {0: make_result(4.0, 5, interval_results=make_interval_results(3.0, 7.0))},
        ),
        ModelResult("Forecaster", "Forecaster", several),
        ModelResult("Old", "Ridge", {0: make_result(5.0, 7)}),
        ModelResult("VAR", "VAR", {}, {"seed 0": "singular"}),
    ]
    return Comparison(rows, 10.0, ABOUT)


@pytest.mark.parametrize("form", ["static", "online"])
def test_figures_of_intervals_are_those_of_the_trainings(
    sure: Comparison, form: CalibrationMode
) -> None:
    row = sure.rows[1]
    for figure in ("coverage", "width", "pinball"):
        found = row.interval_seed_means(figure, form)
        assert len(found) == 1 + 3
        for k, spread in enumerate(found):
            chosen, values = slice(None) if k == 0 else slice(k - 1, k), []
            for result in row.results.values():
                assert result.interval_results is not None
                sums = vars(result.interval_results.by_window[form])
                total = {name: float(part[:, chosen].sum()) for name, part in sums.items()}
                above = {"coverage": "inside", "width": "widths", "pinball": "pinballs"}[figure]
                values.append(total[above] / (48 * 5 * (3 if k == 0 else 1)))
            assert spread.mean == pytest.approx(np.mean(values))
            assert spread.deviation == pytest.approx(np.std(values, ddof=1))


def test_a_run_without_intervals_has_no_figures_of_them(sure: Comparison) -> None:
    assert sure.rows[2].interval_seed_means("coverage", "online") == []
    assert sure.rows[3].interval_seed_means("coverage", "online") == []
    content = sure.to_dict()
    assert content["rows"][2]["intervals"] == {}
    assert "intervals" not in content["rows"][3]
    assert content["quantiles"] == [0.1, 0.5, 0.9]


def test_plain_data_holds_both_forms_of_every_step(sure: Comparison) -> None:
    found = json.loads(sure.to_json())["rows"][1]["intervals"]
    assert list(found) == ["static", "online"]
    assert list(found["online"]) == ["coverage", "randomised", "width", "pinball"]
    assert found["online"]["width"][2]["mean"] == pytest.approx(13.0)  # 2 · (6 + 7) / 2
    assert found["static"]["width"][2]["mean"] == pytest.approx(9.0)
    assert len(found["static"]["coverage"]) == 4


def test_the_coverage_of_the_recommended_model_is_described(
    sure: Comparison, make_result: MakeResult
) -> None:
    assert sure.interval_verdict is not None
    assert sure.interval_verdict.startswith("The 80 % interval of F")
    shares = [
        sure.rows[1].interval_seed_means("coverage", f)[0].mean for f in ("static", "online")
    ]
    assert (
        f"{100 * (shares[0] or 0):.3g} % of the observed values when calibrated once"
        in sure.interval_verdict
    )
    assert f"{100 * (shares[1] or 0):.3g} % when updated" in sure.interval_verdict
    without = Comparison([ModelResult("Ridge", "Ridge", {0: make_result(1.0)})], 10.0, ABOUT)
    assert (without.interval_verdict, without.levels) == (None, ())


def test_models_of_different_quantiles_are_refused(
    make_result: MakeResult, make_interval_results: MakeIntervalResults
) -> None:
    other = make_interval_results(4.0, 6.0, levels=(0.05, 0.95))
    rows = [
        ModelResult(
            "a", "Ridge", {0: make_result(1.0, interval_results=make_interval_results(4.0, 6.0))}
        ),
        ModelResult("b", "Ridge", {0: make_result(1.0, interval_results=other)}),
    ]
    with pytest.raises(DataError, match="different quantiles"):
        Comparison(rows, 10.0, ABOUT)


PANEL = small_city()
SPLITS = Splits.by_share(PANEL, validation=0.15, test=0.2)


def test_fitted_and_unfitted_models_are_compared_on_the_same_windows() -> None:
    fitted = Ridge(RECIPE).fit(PANEL, SPLITS)
    found = evaluate([fitted, SeasonalNaive(RECIPE)], PANEL, SPLITS)
    assert [row.name for row in found.rows] == ["Ridge", "SeasonalNaive"]
    origins = cut_windows(PANEL, SPLITS, RECIPE.lags).test
    report = backtest(fitted, PANEL, origins).errors["observed"].report()
    assert found.rows[0].seed_means("rmse", "observed")[0].mean == report.average.rmse.value
    assert found.to_dict()["covariates"] == ["temperature", "rain"]
    assert found.recommended is not None
    assert found.levels == RECIPE.intervals.quantiles


def test_models_that_differ_in_their_seed_share_a_row() -> None:
    seeded = [change(RECIPE, {"training": {"seed": seed}}, source="") for seed in range(2)]
    other = RECIPE.model_copy(update={"training": TrainingConfig(epochs=2, batch=256)})
    models = [*(Forecaster(recipe=recipe) for recipe in seeded), Forecaster(recipe=other)]
    found = evaluate(models, PANEL, SPLITS)
    assert [(row.name, list(row.results)) for row in found.rows] == [
        ("Forecaster", [0, 1]),
        ("Forecaster 2", [0]),
    ]
    assert found.rows[0].seed_means("rmse", "observed")[0].deviation is not None


def test_a_run_from_before_intervals_is_compared_without_any() -> None:
    fitted = Ridge(RECIPE).fit(PANEL, SPLITS)
    assert fitted.run is not None
    kept = {n: a for n, a in fitted.run.arrays.items() if not n.startswith("intervals.")}
    older = Ridge.from_run(replace(fitted.run, arrays=kept))
    found = evaluate([older, SeasonalNaive(RECIPE)], PANEL, SPLITS)
    assert [row.first.interval_results is None for row in found.rows] == [True, False]
    assert "| Ridge | – | – | – | – | – |" in found.to_markdown()


def test_each_weather_is_tested() -> None:
    found = evaluate([Ridge(RECIPE)], PANEL, SPLITS, weather=("observed", "persist", "none"))
    assert found.weathers == ["observed", "persist", "none"]


def test_without_covariates_there_is_one_weather() -> None:
    bare = replace(PANEL, covariates=Covariates((), PANEL.covariates.values[:, :0]))
    assert usable_weathers(bare, ("observed", "persist")) == ["observed"]
    assert usable_weathers(PANEL, ("persist", "persist", "observed")) == ["persist", "observed"]
    with pytest.raises(ConfigError, match="weather: none given"):
        usable_weathers(PANEL, ())


def test_windows_are_those_that_all_lags_have_in_common() -> None:
    longer = RECIPE.model_copy(update={"lags": LagConfig(recent=30, seasons=(), horizon=2)})
    values = PANEL.values.copy()
    values[-40] = np.nan  # each drops other windows for it
    panel = replace(PANEL, values=values)
    both = common_test_windows(panel, SPLITS, [RECIPE, longer])
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
    with pytest.raises(ConfigError, match="HistoricalMean with seed 0 is given twice"):
        evaluate([HistoricalMean(RECIPE), HistoricalMean(RECIPE)], PANEL, SPLITS)


def test_models_without_a_window_in_common_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = iter([np.array([5]), np.array([6])])

    def cut(*_: object) -> object:
        return replace(cut_windows(PANEL, SPLITS, RECIPE.lags), test=next(windows))

    monkeypatch.setattr("forecaster.evaluation.comparison.cut_windows", cut)
    longer = RECIPE.model_copy(update={"lags": LagConfig(recent=30, seasons=(), horizon=2)})
    with pytest.raises(DataError, match="no test window in common"):
        common_test_windows(PANEL, SPLITS, [RECIPE, longer])
