from dataclasses import replace

import numpy as np
import pytest

from forecaster.evaluation.comparison import Comparison
from forecaster.report.data import ReportData
from forecaster.report.formatting import too_high_or_low
from forecaster.report.sections.bias import bias_section, draw_biases, overall_bias
from forecaster.report.sections.section import Section


def test_bias_is_drawn_by_size_and_by_hour_for_the_best_and_its_rivals(data: ReportData) -> None:
    section = bias_section(data)
    assert [picture.name for picture in section.pictures] == ["30-bias-by-size", "31-bias-by-hour"]
    best = data.best
    assert best is not None
    by_size, by_hour = (picture.figure.axes[0] for picture in section.pictures)
    sizes = [100 * (group.bias or 0) for group in best.size_bias()]
    lines = {line.get_label(): line.get_ydata() for line in by_size.lines[1:]}
    assert lines[best.name] == pytest.approx(sizes)
    assert set(lines) == {row.name for row in data.drawn[:3]}
    assert len(by_hour.lines[1].get_ydata()) == 24
    labels = [tick.get_text().split("\n")[0] for tick in by_size.get_xticklabels()]
    assert labels == ["smallest fifth", "2nd", "3rd", "4th", "largest fifth"]


def test_the_text_gives_the_overall_bias_and_the_ends(data: ReportData) -> None:
    section = bias_section(data)
    best = data.best
    assert best is not None
    bias = overall_bias(best)
    assert bias is not None
    assert f"Over all test windows: {best.name} {too_high_or_low(bias)}" in section.summary
    smallest = best.size_bias()[0].bias
    assert smallest is not None
    assert section.pictures[0].text.startswith(
        f"Forecasts of {best.name} are {too_high_or_low(smallest)} for the smallest fifth"
    )
    hours = [b for b in best.hour_bias() if b is not None]
    highest = best.hour_bias().index(max(hours))
    assert f"is highest at {highest}:00 (+" in section.pictures[1].text


def test_zero_is_in_the_middle_and_small_biases_look_small() -> None:
    figure = draw_biases({"a": [0.001, -0.002]}, ["x", "y"], "size")
    low, high = figure.axes[0].get_ylim()
    assert low == -high
    assert high >= 5


def test_a_rival_far_off_does_not_hide_the_model() -> None:
    figure = draw_biases({"a": [0.05, None], "b": [1.5, -0.6]}, ["x", "y"], "size")
    assert figure.axes[0].get_ylim()[1] == pytest.approx(1.08 * 2 * 5)


def test_a_line_that_leaves_the_picture_is_named(data: ReportData) -> None:
    section: Section = bias_section(_with_rival_bias(data, 0.9))
    rival = data.rival
    assert rival is not None
    assert section.pictures[0].text.endswith(f"The line of {rival.name} leaves the picture.")
    assert "leaves" not in bias_section(_with_rival_bias(data, 0.0)).pictures[0].text


def test_results_without_bias_have_no_section(data: ReportData) -> None:
    row = data.comparison.rows[0]
    errors = {w: replace(e, signed=np.nan * e.signed) for w, e in row.first.errors.items()}
    older = replace(row, results={0: replace(row.first, errors=errors)})
    comparison = Comparison([older], data.comparison.mape_cut, data.comparison.about)
    assert bias_section(replace(data, comparison=comparison)).pictures == []


def _with_rival_bias(data: ReportData, bias: float) -> ReportData:
    """Return the comparison with a bias of the rival's, and small ones of the best model."""
    best, rival = data.best, data.rival
    assert best is not None
    assert rival is not None
    rows = []
    for row, share in ((best, 0.01), (rival, bias)):
        errors = {w: replace(e, signed=share * e.sizes) for w, e in row.first.errors.items()}
        sums = row.first.by_location
        by_location = replace(sums, signed=share * sums.sizes)
        result = replace(row.first, errors=errors, by_location=by_location)
        rows.append(replace(row, results={0: result}))
    comparison = Comparison(rows, data.comparison.mape_cut, data.comparison.about)
    return replace(data, comparison=comparison)
