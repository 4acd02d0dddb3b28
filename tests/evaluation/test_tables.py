import csv
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.evaluation.backtest import (
    CALIBRATION_MODES,
    BacktestResult,
    IntervalResults,
    OwnErrors,
)
from forecaster.evaluation.comparison import Comparison, ModelResult
from forecaster.evaluation.tables import (
    format_bias,
    format_score,
    hour_range,
    interval_name,
    markdown_text,
    model_label,
)
from forecaster.metrics import ErrorSums

ABOUT = {"covariates": ["rain"]}
MakeResult = Callable[..., BacktestResult]


@pytest.fixture
def comparison(make_result: MakeResult, make_errors: Callable[..., ErrorSums]) -> Comparison:
    errors = {"observed": make_errors(2.0), "persist": make_errors(2.5)}
    several = {seed: make_result(2.0, errors=errors) for seed in range(2)}
    rows = [
        ModelResult("Ridge", "Ridge", {0: make_result(4.0, errors=errors)}),
        ModelResult("Forecaster", "Forecaster", several, {"seed 2": "lost"}, {"width": "64"}),
        ModelResult("VAR", "VAR", {}, {"seed 0": "it is, and stays, singular"}),
    ]
    return Comparison(rows, 10.0, ABOUT)


@pytest.mark.parametrize(
    ("mean", "deviation", "figure", "text"),
    [
        (5.18791, 0.00823, "rmse", "5.188 ± 0.008"),
        (0.201362, 0.000316, "mape", "20.14 ± 0.03"),
        (123.456, None, "rmse", "123.5"),
        (12345.6, 3.21, "mae", "12346 ± 3"),
        (0.0321, None, "rmse", "0.03210"),
        (1.5e-5, 2e-6, "rmse", "1.500e-05 ± 2.000e-06"),
        (1e30, None, "rmse", "1.000e+30"),
        (0.0, None, "rmse", "0.000"),
        (None, None, "mape", "n/a (0 terms)"),
    ],
)
def test_figures_have_four_digits(
    mean: float | None, deviation: float | None, figure: str, text: str
) -> None:
    assert format_score({"mean": mean, "deviation": deviation}, figure) == text


def test_a_label_says_what_was_chosen() -> None:
    row = {"model": "Transformer-best", "chosen": {"width": "256", "training": "dropout 0"}}
    assert model_label(row) == "Transformer-best (width 256; dropout 0)"


def test_markdown_has_the_papers_blocks_in_order(comparison: Comparison) -> None:
    text = comparison.to_markdown()
    heads = [line for line in text.splitlines() if line.startswith("| ") and "average" in line]
    assert heads == ["| RMSE | average | +1 | +2 | +3 |", "| MAPE % | average | +1 | +2 | +3 |"]
    assert "| VAR | failed | failed | failed | failed |" in text
    assert "- Forecaster, seed 2: lost" in text
    assert "48 test windows on 8 days; future covariates: observed; MAPE over targets ≥ 10" in text
    assert "| future covariates | observed: RMSE | observed: MAPE % | persist: RMSE |" in text
    assert "against Forecaster" in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| RMSE")}
    assert widths == {6}


def test_tables_show_what_is_served_and_beside_it_the_model_alone(
    make_result: MakeResult,
) -> None:
    alone = make_result(3.0)
    own = OwnErrors(alone.errors, alone.by_location)
    results = {
        0: make_result(2.0, own=own, fallback={"HistoricalMean": 2, "Ridge": 1}),
        1: make_result(2.0, fallback={}),
    }
    rows = [
        ModelResult("Ridge", "Ridge", {0: make_result(4.0)}),
        ModelResult("Forecaster", "Forecaster", results, {"seed 2": "lost"}),
        ModelResult("VAR", "VAR", {0: make_result(5.0, fallback={})}),
    ]
    comparison = Comparison(rows, 10.0, ABOUT)
    names = ["Ridge", "Forecaster", "Forecaster, without fallback", "VAR"]
    assert [row["model"] for row in comparison.to_dict()["rows"]] == names
    served, apart = comparison.to_dict()["rows"][1:3]
    assert served["weather"]["observed"]["rmse"][0]["mean"] == pytest.approx(2, rel=0.1)
    assert apart["weather"]["observed"]["rmse"][0]["mean"] == pytest.approx(2.5, rel=0.1)
    assert apart["without_fallback"]
    text = comparison.to_markdown()
    assert text.count("| Forecaster, without fallback |") >= 2
    assert text.count("lost") == 1
    assert (
        "Forecaster falls back at 3, 0 of 5 locations by seed: HistoricalMean 2, Ridge 1." in text
    )
    assert "VAR falls back at none of 5 locations." in text
    assert "without fallback is" not in " ".join(comparison.verdict)
    assert "Forecaster, without fallback" in comparison.to_csv()


def test_without_any_comparison_nothing_is_said_about_fallbacks(comparison: Comparison) -> None:
    assert "fall" not in comparison.to_markdown()


def test_the_caption_says_when_there_is_no_weather(make_result: MakeResult) -> None:
    row = ModelResult("Ridge", "Ridge", {0: make_result(1.0)})
    assert (
        "no covariates but the calendar"
        in Comparison([row], 10.0, {"covariates": []}).to_markdown()
    )


def test_csv_has_a_line_for_each_model_and_weather(comparison: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    assert [(line["model"], line["weather"]) for line in lines] == [
        ("Ridge", "observed"),
        ("Ridge", "persist"),
        ("Forecaster", "observed"),
        ("Forecaster", "persist"),
        ("VAR", ""),
    ]
    first = comparison.rows[0].first.errors["observed"].report()
    assert float(lines[0]["rmse"]) == first.average.rmse.value
    assert float(lines[0]["rmse_2"]) == first.steps[1].rmse.value
    assert float(lines[0]["mape_3"]) == pytest.approx(100 * (first.steps[2].mape.value or 0))
    assert lines[0]["rmse_deviation"] == ""
    assert float(lines[2]["rmse_deviation"]) == 0.0  # both trainings are alike here
    assert lines[2]["chosen"] == "width 64"
    assert lines[4]["failures"] == "seed 0: it is, and stays, singular"


# --------------------------------------------------------------------- bias and two outputs

SIZES = np.array([5.0, 1.0, 3.0, 2.0, 4.0])
HOURS = np.arange(48)[:, None] % 24 + np.zeros((1, 3), dtype=np.int64)


def table_rows(text: str, head: str) -> dict[str, list[str]]:
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(head)) + 2
    end = next(n for n in range(first, len(lines)) if not lines[n].startswith("|"))
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[first:end]]
    return {name: row for name, *row in cells}


def test_bias_stands_in_the_tables_overall_by_size_and_by_hour(make_result: MakeResult) -> None:
    parts = {"location_sizes": SIZES, "hours": HOURS}
    several = {seed: make_result(2.0, seed, **parts) for seed in range(2)}
    rows = [
        ModelResult("Ridge", "Ridge", {0: make_result(4.0, **parts)}),
        ModelResult("Forecaster", "Forecaster", several),
        ModelResult("Old", "Ridge", {0: make_result(5.0)}),
        ModelResult("VAR", "VAR", {}, {"seed 0": "singular"}),
    ]
    comparison = Comparison(rows, 10.0, ABOUT)
    text = comparison.to_markdown()
    head = "| bias % | overall | smallest fifth | 2nd | 3rd | 4th | largest fifth | by hour |"
    cells = table_rows(text, head)
    assert list(cells) == ["Ridge", "Forecaster", "Old"]
    overall = [r.errors["observed"].scores().bias.value or 0.0 for r in several.values()]
    assert cells["Forecaster"][0] == format_bias(sum(overall) / 2)
    sizes, hours = rows[0].size_bias(), rows[0].hour_bias()
    assert cells["Ridge"][1:6] == [format_bias(group.bias) for group in sizes]
    assert [group.size for group in sizes] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert cells["Ridge"][6].startswith(format_bias(min(b for b in hours if b is not None)))
    assert cells["Old"][1:] == ["–"] * 6
    assert "relative to the sum observed: + is too high" in text
    ridge = next(csv.DictReader(io.StringIO(comparison.to_csv())))
    assert float(ridge["bias_size_5"]) == pytest.approx(100 * (sizes[4].bias or 0))
    assert float(ridge["bias_hour_23"]) == pytest.approx(100 * (hours[23] or 0))
    assert float(ridge["mean_error"]) == rows[0].first.errors["observed"].scores().mean_error.value
    content = comparison.to_dict()["rows"][0]
    assert content["bias_by_hour"] == hours
    assert content["bias_by_size"][0] == {"locations": 1, "size": 1.0, "bias": sizes[0].bias}


def test_the_table_says_which_number_each_metric_is_of(make_result: MakeResult) -> None:
    ridge = ModelResult("Ridge", "Ridge", {0: make_result(4.0)})
    both = ModelResult("Forecaster", "Forecaster", {0: make_result(2.0, has_relative=True)})
    text = Comparison([ridge, both], 10.0, ABOUT).to_markdown()
    assert (
        "RMSE, MAE and bias are of `y_hat`, the forecast mean. MAPE is of `y_relative`, the "
        "output with the lowest relative error, for Forecaster; the other models have one number "
        "for both."
    ) in text
    rows = Comparison([ridge, both], 10.0, ABOUT).to_dict()["rows"]
    assert [row["mape_of"] for row in rows] == ["y_hat", "y_relative"]
    alone = Comparison([ridge], 10.0, ABOUT).to_markdown()
    assert "so is MAPE, since no model here has a second output" in alone


def test_results_without_bias_have_no_table_of_it(make_result: MakeResult) -> None:
    errors = make_result(4.0).errors["observed"]
    older = replace(errors, signed=np.full_like(errors.signed, np.nan))
    row = ModelResult("Ridge", "Ridge", {0: make_result(4.0, errors={"observed": older})})
    assert "| bias %" not in Comparison([row], 10.0, ABOUT).to_markdown()


@pytest.mark.parametrize(
    ("bias", "text"),
    [(0.0042, "+0.42"), (-0.123, "−12.3"), (0.0, "+0.00"), (None, "–"), (-0.00001, "−0.00")],
)
def test_a_bias_has_its_sign(bias: float | None, text: str) -> None:
    assert format_bias(bias) == text


def test_the_hours_of_the_extremes_are_named() -> None:
    biases = [0.01, None, -0.02, 0.3]
    assert hour_range(biases) == "−2.00 (2:00) … +30.0 (3:00)"
    assert hour_range([None, None]) == hour_range([]) == "–"


# ---------------------------------------------------------------------------- the intervals


@pytest.fixture
def sure(
    make_result: MakeResult, make_interval_results: Callable[..., IntervalResults]
) -> Comparison:
    several = {
        seed: make_result(2.0, interval_results=make_interval_results(4.0, 6.0))
        for seed in range(2)
    }
    rows = [
        ModelResult(
            "Ridge",
            "Ridge",
            {0: make_result(4.0, interval_results=make_interval_results(3.0, 7.0))},
        ),
        ModelResult("Forecaster", "Forecaster", several),
        ModelResult("Old", "Ridge", {0: make_result(5.0)}),
        ModelResult("VAR", "VAR", {}, {"seed 0": "singular"}),
    ]
    return Comparison(rows, 10.0, ABOUT)


@pytest.mark.parametrize(
    ("levels", "name"),
    [
        ((0.1, 0.5, 0.9), "80 % interval"),
        ((0.05, 0.95), "90 % interval"),
        ((0.025, 0.5, 0.975), "95 % interval"),
        ((0.3,), "30 % quantile"),
    ],
)
def test_an_interval_is_called_by_its_outermost_levels(
    levels: tuple[float, ...], name: str
) -> None:
    assert interval_name(levels) == name


def test_every_row_says_how_sure_it_is_in_both_forms(sure: Comparison) -> None:
    lines = sure.to_markdown().splitlines()
    head = lines.index("| 80 % interval | coverage % | +1 | +2 | +3 | width | pinball |")
    cells = [part.strip() for part in lines[head + 2].split("|")[1:-1]]
    intervals = sure.rows[0].first.interval_results
    assert intervals is not None
    for cell, scores in zip(
        cells[1:5],
        zip(
            intervals.by_window["static"].report(),
            intervals.by_window["online"].report(),
            strict=True,
        ),
        strict=True,
    ):
        shares = [100 * (one.coverage.value or 0) for one in scores]
        assert cell == f"{shares[0]:.1f} / {shares[1]:.1f}"
    assert cells[0] == "Ridge"
    assert cells[5] == "6.000 / 14.00"
    assert lines[head + 4] == "| Old | – | – | – | – | – | – |"
    assert lines[head + 5] == "| VAR | – | – | – | – | – | – |"
    text = "\n".join(lines)
    assert "Coverage is the share of values within the interval; it should be 80 %" in text
    assert "The 80 % interval of Forecaster contained" in text
    assert text.index("| MAPE %") < text.index("| 80 % interval") < text.index("| MAE |")


def test_intervals_of_counts_have_a_randomised_coverage(
    make_result: MakeResult, make_interval_results: Callable[..., IntervalResults]
) -> None:
    intervals = make_interval_results(4.0, 6.0, counts=True)
    row = ModelResult("Ridge", "Ridge", {0: make_result(4.0, interval_results=intervals)})
    comparison = Comparison([row], 10.0, ABOUT)
    text = comparison.to_markdown()
    shares = [
        100 * (intervals.by_window[mode].scores().randomised.value or 0)
        for mode in CALIBRATION_MODES
    ]
    assert "| 80 % interval | coverage % | +1 | +2 | +3 | randomised | width | pinball |" in text
    assert f" | {shares[0]:.1f} / {shares[1]:.1f} | 8.000 / 12.00 | " in text
    assert "spreads every count evenly over ± ½" in text
    sentence = f"over ± ½ it contained {shares[0]:.3g} % and {shares[1]:.3g} %."
    assert sentence in (comparison.interval_verdict or "")
    (line,) = csv.DictReader(io.StringIO(comparison.to_csv()))
    assert float(line["online_randomised"]) == pytest.approx(shares[1])
    older = comparison.to_dict()  # as stored before there was this metric
    for mode in CALIBRATION_MODES:
        del older["rows"][0]["intervals"][mode]["randomised"]
    assert "randomised" not in markdown_text(older)


def test_one_quantile_is_no_interval(
    make_result: MakeResult, make_interval_results: Callable[..., IntervalResults]
) -> None:
    intervals = make_interval_results(4.0, 6.0, levels=(0.3,))
    row = ModelResult("Ridge", "Ridge", {0: make_result(4.0, interval_results=intervals)})
    text = Comparison([row], 10.0, ABOUT).to_markdown()
    assert "| Ridge | n/a / n/a | n/a / n/a | n/a / n/a | n/a / n/a | n/a / n/a | " in text
    assert "it should be" not in text
    assert "contained" not in text


def test_without_intervals_the_table_is_as_before(comparison: Comparison) -> None:
    assert "interval |" not in comparison.to_markdown()
    assert "coverage" not in comparison.to_csv()


def test_csv_has_the_intervals_of_the_first_weather(
    make_result: MakeResult,
    make_errors: Callable[..., ErrorSums],
    make_interval_results: Callable[..., IntervalResults],
) -> None:
    errors = {"observed": make_errors(2.0), "persist": make_errors(2.5)}
    result = make_result(4.0, errors=errors, interval_results=make_interval_results(3.0, 7.0))
    table = Comparison([ModelResult("Ridge", "Ridge", {0: result})], 10.0, ABOUT).to_csv()
    observed, persist = csv.DictReader(io.StringIO(table))
    assert result.interval_results is not None
    online = result.interval_results.by_window["online"].report()
    assert float(observed["online_coverage"]) == 100 * (online[0].coverage.value or 0)
    assert float(observed["online_pinball_3"]) == online[3].pinball.value
    assert float(observed["static_width"]) == 6.0
    assert observed["static_width_deviation"] == ""
    assert persist["online_coverage"] == ""
