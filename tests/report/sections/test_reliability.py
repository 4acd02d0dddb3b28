from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.evaluation.comparison import Comparison, Row
from forecaster.report.data import Material, read_material
from forecaster.report.doctor.checkup import Finding
from forecaster.report.groups import group_hours
from forecaster.report.sections.errors import place_rmse
from forecaster.report.sections.reliability import judge, key_figures
from tests.report.comparisons import bare_panel, compare, daily_cycle


def findings(material: Material) -> dict[str, Finding]:
    assert material.best is not None
    return {finding.topic: finding for finding in judge(material, material.best)}


def with_rows(material: Material, rows: list[Row]) -> Material:
    comparison = Comparison(rows, material.comparison.mape_cut, material.comparison.about)
    return replace(material, comparison=comparison)


def test_the_recommended_model_is_held_against_the_naive_one(material: Material) -> None:
    found = findings(material)["Against the naive"]
    assert material.best is not None
    assert material.naive is not None
    difference = material.comparison.compare(material.best, material.naive).rmse
    assert difference is not None
    assert difference.high < 0
    assert found.level == "good"
    assert f"{-100 * difference.value:.0f} % lower" in found.text


def test_places_where_the_naive_one_is_better_are_named(material: Material) -> None:
    assert material.best is not None
    assert material.naive is not None
    better = int((place_rmse(material.best) < place_rmse(material.naive)).sum())
    text = findings(material)["At every place"].text
    assert text.startswith(f"better than SeasonalNaive at {better} of 5 locations")
    assert ("not at" in text) == (better < 5)


def test_worries_come_first(material: Material) -> None:
    assert material.best is not None
    levels = [finding.level for finding in judge(material, material.best)]
    assert levels == sorted(levels, key=["warning", "note", "good"].index)


def test_known_weather_is_told_with_what_it_is_worth(material: Material) -> None:
    found = findings(material)["Weather"]
    assert "knew the coming weather (temperature, rain)" in found.text
    assert "without (persist) RMSE is" in found.text


def test_missing_values_of_the_test_are_counted(material: Material) -> None:
    assert material.best is not None
    panel, found = material.panel, material.best.first
    origins = np.searchsorted(panel.times.astype(np.int64), found.origins)
    share = np.isnan(panel.values[origins[:, None] + [1, 2]]).mean()
    text = findings(material)["Missing values"].text
    assert text == f"{100 * share:.1f} % of the values to forecast were not observed"


def test_failures_of_other_models_are_noted(material: Material) -> None:
    found = findings(material)["Failures"]
    assert found.level == "note"
    assert found.text == "2 trainings failed: Forecaster, graph distance"


def test_failures_of_the_model_itself_are_a_warning(material: Material) -> None:
    best = material.best
    assert best is not None
    other = with_rows(material, [replace(best, failures={"seed 1": "out of memory"})])
    assert findings(other)["Failures"].level == "warning"


def test_nothing_to_compare_with_is_told(material: Material) -> None:
    assert material.best is not None
    found = findings(with_rows(material, [material.best]))
    assert "SeasonalNaive was not tested" in found["Against the naive"].text
    assert "Against the next" not in found


def test_a_naive_best_model_is_a_warning(material: Material) -> None:
    assert material.naive is not None
    found = findings(with_rows(material, [material.naive]))
    assert found["Against the naive"].level == "warning"


def test_chance_is_told_of_networks_alone(material: Material) -> None:
    network = next(row for row in material.comparison.rows if row.name == "Forecaster")
    once = replace(network, found={0: network.found[0]})
    assert "trained 2 times" in findings(with_rows(material, [network]))["Chance"].text
    assert "trained once" in findings(with_rows(material, [once]))["Chance"].text
    assert "Chance" not in findings(material)  # Ridge has none


@pytest.mark.parametrize(
    ("share", "level"), [(0.8, "good"), (0.818, "good"), (0.76, "note"), (0.73, "warning")]
)
def test_intervals_that_hold_too_little_or_too_much_are_told(
    material: Material, share: float, level: str
) -> None:
    best = material.best
    assert best is not None
    known = best.first.sureness
    assert known is not None
    spans = np.full_like(known.windows["online"].spans, 1000)
    inside = np.full_like(spans, 800)  # at every hour as much as over all
    inside[:, 1] = round(1000 * share)
    online = replace(known.windows["online"], spans=spans, inside=inside)
    other = replace(known, windows={**known.windows, "online": online})
    row = replace(best, found={0: replace(best.first, sureness=other)})
    found = findings(with_rows(material, [row]))["Intervals"]
    assert found.level == level
    ends = " … ".join(dict.fromkeys(f"{100 * s:.1f}" for s in sorted((0.8, share))))
    assert f"its 80 % interval held {ends} % of what came" in found.text
    assert "but" not in found.text


def test_an_hour_at_which_intervals_fail_is_named(material: Material) -> None:
    best = material.best
    assert best is not None
    known, hours = best.first.sureness, group_hours(best.first, material.panel)
    assert known is not None
    assert hours is not None
    inside = np.where(hours.groups == 6, 700, 804)
    spans = np.full_like(inside, 1000)
    online = replace(known.windows["online"], spans=spans, inside=inside)
    other = replace(known, windows={**known.windows, "online": online})
    row = replace(best, found={0: replace(best.first, sureness=other)})
    found = findings(with_rows(material, [row]))["Intervals"]
    assert found.level == "note"
    assert "of what came, by step ahead, but 70.0 % at 6:00 (online)" in found.text


def test_runs_from_before_intervals_say_nothing_of_them(material: Material) -> None:
    best = material.best
    assert best is not None
    row = replace(best, found={0: replace(best.first, sureness=None)})
    older = with_rows(material, [row])
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
    material = read_material(tmp_path)
    found = findings(material)
    assert found["Length of test"].level == "warning"
    assert found["MAPE"].text == "no value is ≥ 1e+06: there is no MAPE"
    assert found["Weather"].text == "forecasts need nothing but the past and the calendar"
    assert material.best is not None
    assert key_figures(material, material.best)["MAPE where ≥ 1e+06"] == "n/a"


def test_the_key_figures_are_those_of_the_table(material: Material) -> None:
    best = material.best
    assert best is not None
    rmse = best.spread("rmse", "observed")[0].mean
    figures = key_figures(material, best)
    assert figures["RMSE, all steps ahead"] == pytest.approx(f"{rmse:.3g}")
    assert figures["RMSE against SeasonalNaive"].startswith("−")
    held = best.interval_spread("coverage", "online")[0].mean
    assert held is not None
    assert figures["within the 80 % interval"] == f"{100 * held:.1f} %"
    assert list(figures)[-1] == "days of test"
