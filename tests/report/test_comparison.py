"""Every odd comparison has a report."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.report.comparison import make_sections
from forecaster.report.material import Material, read_material
from forecaster.report.page import render_comparison
from tests.report.comparisons import bare_panel, compare, daily_cycle

SIMPLE = ("SeasonalNaive", "Ridge")
SHORT = {"recent": 3, "seasons": []}
DISTANCE = {"graph": {"kind": "distance"}}  # which needs coordinates, and fails
DAYS = {"train": [["2021-03-01", "2021-04-05"]], "validation": [["2021-04-06", "2021-04-08"]]}
NOISE = np.random.default_rng(0).poisson(30, (12 * 24 * 5, 3))
TIMES = ["04-hours", "05-weekdays", "06-steps"]
WEEK = ["02-normal-week", "03-worst-day"]
PLACE = "08-error-by-location"
SURE = ["20-coverage-steps", "21-coverage-hours", "23-coverage-by-location", "24-interval-width"]

CASES: dict[str, tuple[Panel, tuple[str, ...], dict[str, Any], list[str]]] = {
    "one model": (bare_panel(daily_cycle()), ("Ridge",), {}, [*WEEK, *TIMES, PLACE, *SURE]),
    "one location": (bare_panel(daily_cycle(1)), SIMPLE, {}, [*WEEK, *TIMES, *SURE[:2], SURE[3]]),
    "horizon 1": (
        bare_panel(daily_cycle()), SIMPLE, {"lags": {**SHORT, "horizon": 1}},
        [*WEEK, *TIMES[:2], PLACE, *SURE],
    ),
    "five minutes": (
        bare_panel(NOISE, 5), SIMPLE, {"lags": {**SHORT, "horizon": 7}},
        [*WEEK, *TIMES, PLACE, *SURE],
    ),
    "days": (
        bare_panel(NOISE[:307], 1440), ("HistoricalMean", "Ridge"), {"lags": SHORT},
        [*WEEK, *TIMES[1:], PLACE, SURE[0], *SURE[2:]],
    ),
    "below zero": (
        bare_panel(daily_cycle() - 25, kind="measurement"), SIMPLE, {},
        [*WEEK, *TIMES, PLACE, *SURE],
    ),
    "no MAPE": (
        bare_panel(daily_cycle()), SIMPLE, {"metrics": {"mape_cut": 1e6}},
        [*WEEK, *TIMES, PLACE, *SURE],
    ),
    "one day": (
        bare_panel(daily_cycle()), SIMPLE,
        {"splits": {**DAYS, "test": [["2021-04-09", "2021-04-09"]]}},
        [*WEEK, TIMES[0], TIMES[2], PLACE, *SURE],
    ),
    "a failed row": (
        bare_panel(daily_cycle()), ("SeasonalNaive", "Forecaster"), DISTANCE,
        [*WEEK, *TIMES, PLACE, *SURE],
    ),
    "one quantile": (
        bare_panel(daily_cycle()), SIMPLE, {"intervals": {"quantiles": [0.3]}},
        [*WEEK, *TIMES, PLACE],
    ),
    "all failed": (bare_panel(daily_cycle()), ("Forecaster",), DISTANCE, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_odd_comparison_has_a_report(case: str, tmp_path: Path) -> None:
    panel, models, changes, expected = CASES[case]
    material = read_material(compare(tmp_path, panel, models, **changes))
    sections = make_sections(material, lambda _: None)
    assert [one.name for section in sections for one in section.pictures] == expected
    page = render_comparison(material, sections)
    assert page.count("<svg ") == len(expected)
    assert ("What failed" in page) == ("failed" in case)


def test_sections_come_in_the_order_of_questions(material: Material) -> None:
    said: list[str] = []
    sections = make_sections(material, said.append)
    names = [section.name for section in sections]
    expected = ["forecasts", "errors", "sure", "places", "learning"]
    assert [name for name in names if name in expected] == expected
    assert "How the graph was chosen" in sections[names.index("places")].facts
    assert said == ["forecasting with Ridge", "drawing"]


def test_names_of_figures_are_told_apart(material: Material) -> None:
    sections = make_sections(material, lambda _: None)
    names = [one.name for section in sections for one in section.pictures]
    assert len(set(names)) == len(names)
