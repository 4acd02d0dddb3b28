from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.comparison import Comparison, ModelResult
from forecaster.evaluation.tables import format_bias
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.doctor.checkup import Finding
from forecaster.report.groups import group_by_hour
from forecaster.report.sections.errors import location_rmse
from forecaster.report.sections.reliability import check_reliability, key_figures
from tests.report.comparisons import bare_panel, compare, daily_cycle


def findings(data: ReportData) -> dict[str, Finding]:
    assert data.best is not None
    return {finding.topic: finding for finding in check_reliability(data, data.best)}


def with_rows(data: ReportData, rows: list[ModelResult]) -> ReportData:
    comparison = Comparison(rows, data.comparison.mape_cut, data.comparison.about)
    return replace(data, comparison=comparison)


def test_the_recommended_model_is_held_against_the_strongest_simple_one(data: ReportData) -> None:
    found = findings(data)["Simple models"]
    assert data.best is not None
    assert data.rival is not None
    difference = data.comparison.compare(data.best, data.rival).rmse
    assert difference is not None
    assert difference.high < 0
    assert found.level == "good"
    assert f"{-100 * difference.value:.0f} % lower" in found.text
    assert found.text.endswith("that of SeasonalNaive, the strongest other simple model")


def test_a_network_is_held_against_the_best_and_not_the_weakest_simple_model(
    data: ReportData,
) -> None:
    rows = {row.name: row for row in data.comparison.tested}
    ridge, naive = rows["Ridge"], rows["SeasonalNaive"]
    better = {seed: shrink(result) for seed, result in rows["Forecaster"].results.items()}
    network = replace(rows["Forecaster"], results=better)
    other = with_rows(data, [naive, ridge, network])
    assert other.best is network
    assert other.rival is ridge
    text = findings(other)["Simple models"].text
    assert text.endswith("than that of Ridge, the strongest simple model")
    assert "RMSE relative to Ridge, the strongest simple model" in key_figures(other, network)
    assert findings(other)["Locations"].text.startswith("better than Ridge at ")


def shrink(result: BacktestResult) -> BacktestResult:
    """Return the result of a model whose errors are a tenth as large."""
    errors = {w: replace(e, squares=e.squares / 100, shares=e.shares / 10)
              for w, e in result.errors.items()}  # fmt: skip
    by_location = replace(result.by_location, squares=result.by_location.squares / 100)
    return replace(result, errors=errors, by_location=by_location)


@pytest.mark.parametrize(
    ("surplus", "level"), [(0.0, "good"), (0.03, "note"), (-0.03, "note"), (0.3, "warning")]
)
def test_bias_is_checked(data: ReportData, surplus: float, level: str) -> None:
    best = data.best
    assert best is not None
    first = best.first
    errors = {w: replace(e, signed=surplus * e.sizes) for w, e in first.errors.items()}
    by_location = replace(first.by_location, signed=surplus * first.by_location.sizes)
    result = replace(first, errors=errors, by_location=by_location)
    other = with_rows(data, [replace(best, results={0: result})])
    found = findings(other)["Bias"]
    assert found.level == level
    direction = "high" if surplus > 0 else "low"
    size = {0.03: "3.0 %", 0.3: "30 %"}.get(abs(surplus))
    expected = f"{size} too {direction}" if size else "neither too high nor too low"
    assert found.text.startswith(f"forecasts are {expected} overall; ")


def test_a_fifth_with_a_large_bias_is_noted(data: ReportData) -> None:
    best = data.best
    assert best is not None
    sums = best.first.by_location
    unbiased = {w: replace(e, signed=0 * e.signed) for w, e in best.first.errors.items()}
    signed = 0 * sums.signed
    signed[:, 0], signed[:, 1] = 0.1 * sums.sizes[:, 0], -0.07 * sums.sizes[:, 1]
    result = replace(best.first, errors=unbiased, by_location=replace(sums, signed=signed))
    found = findings(with_rows(data, [replace(best, results={0: result})]))["Bias"]
    assert found.level == "note"
    assert found.text.endswith("−7.00 … +10.0 % by size of the locations")


def test_places_where_the_naive_one_is_better_are_named(data: ReportData) -> None:
    assert data.best is not None
    assert data.rival is not None
    better = int((location_rmse(data.best) < location_rmse(data.rival)).sum())
    text = findings(data)["Locations"].text
    assert text.startswith(f"better than SeasonalNaive at {better} of 5 locations")
    assert ("not at" in text) == (better < 5)


def test_worries_come_first(data: ReportData) -> None:
    assert data.best is not None
    levels = [finding.level for finding in check_reliability(data, data.best)]
    assert levels == sorted(levels, key=["warning", "note", "good"].index)


def test_known_weather_is_told_with_what_it_is_worth(data: ReportData) -> None:
    found = findings(data)["Weather"]
    assert "used the observed future weather (temperature, rain)" in found.text
    assert "without it (persist) RMSE changes by" in found.text


def test_missing_values_of_the_test_are_counted(data: ReportData) -> None:
    assert data.best is not None
    panel, found = data.panel, data.best.first
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    share = np.isnan(panel.values[origins[:, None] + [1, 2]]).mean()
    text = findings(data)["Missing values"].text
    assert text == f"{100 * share:.1f} % of the target values are missing"


def test_failures_of_other_models_are_noted(data: ReportData) -> None:
    found = findings(data)["Failures"]
    assert found.level == "note"
    assert found.text == "2 trainings failed: Forecaster, graph distance"


def test_failures_of_the_model_itself_are_a_warning(data: ReportData) -> None:
    best = data.best
    assert best is not None
    other = with_rows(data, [replace(best, failures={"seed 1": "out of memory"})])
    assert findings(other)["Failures"].level == "warning"


def test_nothing_to_compare_with_is_told(data: ReportData) -> None:
    assert data.best is not None
    found = findings(with_rows(data, [data.best]))
    assert "no other simple model was tested" in found["Simple models"].text
    assert "Next best model" not in found


def test_a_naive_best_model_is_a_warning(data: ReportData) -> None:
    assert data.rival is not None
    found = findings(with_rows(data, [data.rival]))
    assert found["Simple models"].level == "warning"
    assert "no trained model is better than repeating past values" in found["Simple models"].text


def test_chance_is_told_of_networks_alone(data: ReportData) -> None:
    network = next(row for row in data.comparison.rows if row.name == "Forecaster")
    once = replace(network, results={0: network.results[0]})
    assert "trained 2 times" in findings(with_rows(data, [network]))["Random seed"].text
    assert "trained once" in findings(with_rows(data, [once]))["Random seed"].text
    assert "Random seed" not in findings(data)  # Ridge has none


@pytest.mark.parametrize(
    ("share", "level"), [(0.8, "good"), (0.818, "good"), (0.76, "note"), (0.73, "warning")]
)
def test_intervals_that_hold_too_little_or_too_much_are_told(
    data: ReportData, share: float, level: str
) -> None:
    best = data.best
    assert best is not None
    known = best.first.interval_results
    assert known is not None
    spans = np.full_like(known.by_window["online"].spans, 1000)
    inside = np.full_like(spans, 800)  # at every hour as much as over all
    inside[:, 1] = round(1000 * share)
    online = replace(known.by_window["online"], spans=spans, overlaps=1.0 * inside)
    other = replace(known, by_window={**known.by_window, "online": online})
    row = replace(best, results={0: replace(best.first, interval_results=other)})
    found = findings(with_rows(data, [row]))["Intervals"]
    assert found.level == level
    ends = " … ".join(dict.fromkeys(f"{100 * s:.1f}" for s in sorted((0.8, share))))
    assert f"online coverage of the 80 % interval is {ends} % by step ahead" in found.text
    assert "but" not in found.text


def test_an_hour_at_which_intervals_fail_is_named(data: ReportData) -> None:
    best = data.best
    assert best is not None
    known, hours = best.first.interval_results, group_by_hour(best.first, data.panel)
    assert known is not None
    assert hours is not None
    inside = np.where(hours.groups == 6, 700, 804)
    spans = np.full_like(inside, 1000)
    online = replace(known.by_window["online"], spans=spans, overlaps=1.0 * inside)
    other = replace(known, by_window={**known.by_window, "online": online})
    row = replace(best, results={0: replace(best.first, interval_results=other)})
    found = findings(with_rows(data, [row]))["Intervals"]
    assert found.level == "note"
    assert "by step ahead, but 70.0 % at 6:00" in found.text


def test_runs_from_before_intervals_say_nothing_of_them(data: ReportData) -> None:
    best = data.best
    assert best is not None
    row = replace(best, results={0: replace(best.first, interval_results=None)})
    older = with_rows(data, [row])
    assert "Intervals" not in findings(older)
    assert not any("interval" in name for name in key_figures(older, row))


def test_few_days_and_no_targets_are_told(tmp_path: Path) -> None:
    splits = {
        "train": [["2021-03-01", "2021-04-05"]],
        "validation": [["2021-04-06", "2021-04-08"]],
        "test": [["2021-04-09", "2021-04-10"]],
    }
    panel, metrics = bare_panel(daily_cycle()), {"mape_cut": 1e6}
    compare(tmp_path, panel, ["SeasonalNaive", "Ridge"], splits=splits, metrics=metrics)
    data = read_report_data(tmp_path)
    found = findings(data)
    assert found["Test length"].level == "warning"
    assert found["MAPE"].text == "no value is ≥ 1e+06, so there is no MAPE"
    assert found["Weather"].text == "forecasts use past values and the calendar only"
    assert data.best is not None
    assert key_figures(data, data.best)["MAPE of values ≥ 1e+06"] == "n/a"


def test_the_key_figures_are_those_of_the_table(data: ReportData) -> None:
    best = data.best
    assert best is not None
    rmse = best.seed_means("rmse", "observed")[0].mean
    figures = key_figures(data, best)
    assert figures["RMSE, all steps ahead, counts per hour"] == pytest.approx(f"{rmse:.3g}")
    name = "RMSE relative to SeasonalNaive, the strongest other simple model"
    assert figures[name].startswith("−")
    bias = best.seed_means("bias", "observed")[0].mean
    assert figures["bias"] == f"{format_bias(bias)} %"
    held = best.interval_seed_means("coverage", "online")[0].mean
    assert held is not None
    assert figures["coverage of the 80 % interval"] == f"{100 * held:.1f} %"
    assert list(figures)[-1] == "test days"
