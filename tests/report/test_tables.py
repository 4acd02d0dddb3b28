from dataclasses import replace

import pytest

from forecaster.evaluation.backtest import CALIBRATION_MODES
from forecaster.evaluation.comparison import Comparison
from forecaster.evaluation.tables import format_bias
from forecaster.report.data import ReportData
from forecaster.report.tables import (
    HtmlTable,
    TableRow,
    ablation_table,
    cost_table,
    error_table,
    interval_table,
    weather_table,
)


def lines(sheet: HtmlTable | None) -> dict[str, TableRow]:
    assert sheet is not None
    return {line.name: line for _, several in sheet.groups for line in several}


def test_simple_models_and_networks_are_grouped(data: ReportData) -> None:
    sheet = error_table(data.comparison)
    assert [title for title, _ in sheet.groups] == ["Simple models", "Networks"]
    assert [title for title, _ in sheet.columns] == ["RMSE", "MAPE %"]
    assert sheet.columns[0][1] == ["all", "+1", "+2"]
    assert list(lines(sheet)) == ["SeasonalNaive", "Ridge", "Forecaster"]


def test_the_best_of_each_column_is_marked_and_bars_share_a_scale(data: ReportData) -> None:
    sheet = error_table(data.comparison)
    for column in range(6):
        cells = {name: line.cells[column] for name, line in lines(sheet).items()}
        values = {name: float(cell.text.split()[0]) for name, cell in cells.items()}
        best = [name for name, cell in cells.items() if cell.best]
        assert best == [min(values, key=lambda name: values[name])]
    rmse = {
        name: [float(cell.text.split()[0]) for cell in line.cells[:3]]
        for name, line in lines(sheet).items()
    }
    largest = max(value for row in rmse.values() for value in row)
    for name, line in lines(sheet).items():
        assert line.cells[0].share == pytest.approx(100 * rmse[name][0] / largest, abs=0.6)


def test_the_model_to_use_is_marked_once(data: ReportData) -> None:
    assert data.best is not None
    used = [name for name, line in lines(error_table(data.comparison)).items() if line.recommended]
    assert used == [data.best.name]


def test_a_variant_is_held_against_what_it_varies(data: ReportData) -> None:
    found = lines(ablation_table(data.comparison))
    assert list(found) == ["Forecaster", "Forecaster, graph own", "Forecaster, graph distance"]
    assert found["Forecaster"].cells[-1].text == "–"
    own = next(row for row in data.comparison.rows if row.name == "Forecaster, graph own")
    base = next(row for row in data.comparison.rows if row.name == "Forecaster")
    difference = data.comparison.compare(own, base).rmse
    assert difference is not None
    change = f"{100 * difference.value:+.1f} %".replace("-", "−")
    assert found["Forecaster, graph own"].cells[-1].text.startswith(change)
    assert found["Forecaster, graph distance"].failed
    assert [cell.text for cell in found["Forecaster, graph distance"].cells] == [
        "failed", "failed", "–",
    ]  # fmt: skip


def test_each_weather_has_its_column(data: ReportData) -> None:
    sheet = weather_table(data.comparison)
    assert sheet is not None
    assert sheet.columns[0] == ("RMSE", ["observed", "persist"])
    assert len(lines(sheet)["Ridge"].cells) == 4


def test_costs_and_differences_have_a_line_for_each_tested_model(data: ReportData) -> None:
    sheet = cost_table(data.comparison)
    found = lines(sheet)
    assert "Forecaster, graph distance" not in found
    assert sheet.columns[1][0] == "Relative to Forecaster"
    assert sheet.columns[0] == ("Errors", ["MAE", "WAPE %", "bias %"])
    bias = data.comparison.rows[0].seed_means("bias", "observed")[0].mean
    assert found["SeasonalNaive"].cells[2].text == format_bias(bias)
    assert found["Forecaster"].cells[3].text == "–"
    assert found["Forecaster"].cells[5].text == "2"  # trainings
    widths = {len(line.cells) for line in found.values()}
    assert widths == {sum(len(heads) for _, heads in sheet.columns)}


def test_intervals_have_both_forms_of_every_model(data: ReportData) -> None:
    sheet = interval_table(data.comparison)
    found = lines(sheet)
    assert sheet is not None
    assert [title for title, _ in sheet.columns] == [
        "Coverage %, static", "Coverage %, online", "Randomised %", "Width", "Pinball loss",
    ]  # fmt: skip
    assert list(found) == [row.name for row in data.comparison.tested]
    for row in data.comparison.tested:
        texts = [cell.text for cell in found[row.name].cells]
        assert len(texts) == 3 + 3 + 2 + 2 + 2
        spread_out = [row.judged_coverage(form)[0].mean or 0.0 for form in CALIBRATION_MODES]
        assert texts[6:8] == [f"{100 * share:.1f}" for share in spread_out]
        for start, form in ((0, "static"), (3, "online")):
            shares = [s.mean or 0.0 for s in row.interval_seed_means("coverage", form)]  # type: ignore[arg-type]
            assert texts[start : start + 3] == [f"{100 * share:.1f}" for share in shares]
    losses = {name: float(line.cells[-1].text) for name, line in found.items()}
    best = [name for name, line in found.items() if line.cells[-1].best]
    assert min(losses.values()) == losses[best[0]]
    assert data.best is not None
    assert [name for name, line in found.items() if line.recommended] == [data.best.name]


def test_runs_from_before_intervals_have_no_table_of_them(data: ReportData) -> None:
    row = data.comparison.rows[0]
    older = replace(row, results={0: replace(row.first, interval_results=None)})
    assert interval_table(Comparison([older], 10.0, {})) is None


def test_of_many_steps_three_are_shown(data: ReportData) -> None:
    def longer(sums: object) -> object:  # the same errors at twelve steps
        return replace(sums, **{n: part.repeat(6, axis=1) for n, part in vars(sums).items()})  # type: ignore[type-var]

    row = data.comparison.rows[0]
    found = replace(
        row.first,
        errors={weather: longer(sums) for weather, sums in row.first.errors.items()},
        by_location=replace(
            row.first.by_location,
            **{name: part.repeat(6, axis=0) for name, part in vars(row.first.by_location).items()},
        ),
    )
    comparison = Comparison([replace(row, results={0: found})], 10.0, {})
    assert error_table(comparison).columns[0][1] == ["all", "+1", "+6", "+12"]


def test_one_training_of_one_model_has_neither_variants_nor_weathers(data: ReportData) -> None:
    row = data.comparison.rows[0]
    found = replace(row.first, errors={"observed": row.first.errors["observed"]})
    comparison = Comparison([replace(row, results={0: found})], 10.0, {})
    assert ablation_table(comparison) is None
    assert weather_table(comparison) is None
