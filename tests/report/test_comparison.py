"""Every odd comparison has a report."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.report.comparison import make_sections, render_comparison
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.sections.section import Section
from tests.report.comparisons import HOSTILE, bare_panel, compare, daily_cycle

SIMPLE = ("SeasonalNaive", "Ridge")
SHORT = {"recent": 3, "seasons": []}
DISTANCE = {"graph": {"kind": "distance"}}  # which needs coordinates, and fails
DAYS = {"train": [["2021-03-01", "2021-04-05"]], "validation": [["2021-04-06", "2021-04-08"]]}
NOISE = np.random.default_rng(0).poisson(30, (12 * 24 * 5, 3))
TIMES = ["04-hours", "05-weekdays", "06-steps"]
WEEK = ["00-next-steps", "02-normal-week", "03-worst-day"]
PLACE = "08-error-by-location"
BIAS = ["30-bias-by-size", "31-bias-by-hour"]
SURE = ["20-coverage-steps", "21-coverage-hours", "23-coverage-by-location", "24-interval-width"]

CASES: dict[str, tuple[Panel, tuple[str, ...], dict[str, Any], list[str]]] = {
    "one model": (
        bare_panel(daily_cycle()), ("Ridge",), {},
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS, *SURE],
    ),
    "one location": (
        bare_panel(daily_cycle(1)), SIMPLE, {},
        [*WEEK, *TIMES, BIAS[1], *SURE[:2], SURE[3]],
    ),
    "horizon 1": (
        bare_panel(daily_cycle()), SIMPLE, {"lags": {**SHORT, "horizon": 1}},
        [*WEEK, TIMES[0], PLACE, TIMES[1], *BIAS, *SURE],
    ),
    "five minutes": (
        bare_panel(NOISE, 5), SIMPLE, {"lags": {**SHORT, "horizon": 7}},
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS, *SURE],
    ),
    "days": (
        bare_panel(NOISE[:307], 1440), ("HistoricalMean", "Ridge"), {"lags": SHORT},
        [*WEEK, TIMES[1], PLACE, TIMES[2], BIAS[0], SURE[0], *SURE[2:]],
    ),
    "below zero": (
        bare_panel(daily_cycle() - 25, kind="measurement"), SIMPLE, {},
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS, *SURE],
    ),
    "no MAPE": (
        bare_panel(daily_cycle()), SIMPLE, {"metrics": {"mape_cut": 1e6}},
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS, *SURE],
    ),
    "one day": (
        bare_panel(daily_cycle()), SIMPLE,
        {"splits": {**DAYS, "test": [["2021-04-09", "2021-04-09"]]}},
        [*WEEK, TIMES[0], PLACE, TIMES[2], *BIAS, *SURE],
    ),
    "a failed row": (
        bare_panel(daily_cycle()), ("SeasonalNaive", "Forecaster"), DISTANCE,
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS, *SURE],
    ),
    "one quantile": (
        bare_panel(daily_cycle()), SIMPLE, {"intervals": {"quantiles": [0.3]}},
        [*WEEK, TIMES[0], PLACE, *TIMES[1:], *BIAS],
    ),
    "all failed": (bare_panel(daily_cycle()), ("Forecaster",), DISTANCE, []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_odd_comparison_has_a_report(case: str, tmp_path: Path) -> None:
    panel, models, changes, expected = CASES[case]
    data = read_report_data(compare(tmp_path, panel, models, **changes))
    sections = make_sections(data, lambda _: None)
    assert [one.name for section in sections for one in section.pictures] == expected
    page = render_comparison(data, sections)
    assert page.count("<svg ") == len(expected)
    assert ("<h2>Failures</h2>" in page) == ("failed" in case)


def test_sections_come_in_the_order_of_questions(
    data: ReportData, sections: list[Section], page: str
) -> None:
    said: list[str] = []
    again = make_sections(data, said.append)
    assert render_comparison(data, again) == page  # the same comparison gives the same page
    assert len(page) < 1_000_000
    names = [section.name for section in sections]
    expected = [
        "next",
        "forecasts",
        "errors",
        "conditions",
        "bias",
        "intervals",
        "locations",
        "training",
    ]
    assert [name for name in names if name in expected] == expected
    assert "Selection of the graph" in sections[names.index("locations")].facts
    assert said[0] == "forecasting with Ridge"


def test_a_report_opens_with_what_will_happen_next(
    page: str, data: ReportData, sections: list[Section]
) -> None:
    coming = sections[0]
    assert coming.title in page
    order = [coming.title, coming.summary, "Can this forecast be trusted?", "Errors of all models"]
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    assert data.unit in coming.table.columns[0][0]  # type: ignore[union-attr]


def test_only_sections_with_a_summary_are_folded(page: str, sections: list[Section]) -> None:
    folded = re.findall(r"<summary><h2>([^<]*)</h2><span>([^<]+)</span></summary>", page)
    expected = [section.title for section in sections[1:] if section.summary]
    assert [title for title, _ in folded] == [*expected, "Differences and costs", "Provenance"]
    assert [s.name for s in sections[1:] if not s.summary] == ["forecasts", "errors"]


def test_names_of_figures_are_told_apart(sections: list[Section]) -> None:
    names = [one.name for section in sections for one in section.pictures]
    assert len(set(names)) == len(names)


class Tags(HTMLParser):
    """Gathers the tags of a page with their attributes, and its words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def page(data: ReportData, sections: list[Section]) -> str:
    return render_comparison(data, sections)


def test_a_report_shows_the_verdict_the_table_and_what_was_run(
    page: str, data: ReportData
) -> None:
    words = Tags(page).words
    assert data.comparison.verdict[0].replace(" -", " −") in words
    for row in data.comparison.rows:
        assert row.name in words
    assert str(data.panel.digest) in words
    assert data.recipe.digest() in words
    assert "a distance graph needs lat and lon" in words  # why one failed
    assert 'kind = "inverse"' in words  # of the recipe


def test_how_sure_each_model_is_is_a_table_in_its_section(data: ReportData, page: str) -> None:
    start = page.index("<h2>Prediction intervals</h2>")
    section = page[start : page.index("</details>", start)]
    assert 'aria-label="Prediction intervals"' in section
    assert section.count('<th scope="row">') == len(data.comparison.tested)
    assert data.comparison.interval_verdict is not None
    assert data.comparison.interval_verdict in section


def test_a_report_asks_for_nothing_outside_itself(page: str) -> None:
    assert "http" not in page
    assert not re.search(r"url\((?!#)", page)
    for tag, attributes in Tags(page).found:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))


def test_every_figure_of_a_report_has_an_alternative(page: str, sections: list[Section]) -> None:
    labels = [given["aria-label"] for tag, given in Tags(page).found if tag == "svg"]
    expected = [one.alternative for section in sections for one in section.pictures]
    assert sorted(map(str, labels)) == sorted(expected)  # columns change the order
    assert all(label and len(label) > 40 for label in labels)


def test_hostile_names_are_only_words(page: str) -> None:
    tags = Tags(page)
    assert "<script" not in page
    assert not any("onerror" in given for _, given in tags.found)
    assert HOSTILE[0] in tags.words


def test_no_name_of_a_part_is_used_twice(page: str) -> None:
    names = [given["id"] for _, given in Tags(page).found if "id" in given]
    assert len(set(names)) == len(names)


def test_every_colour_of_a_figure_is_one_of_the_page(page: str) -> None:
    used = set(re.findall(r"var\(--([a-z-]+)\)", page))
    for scheme in page.split("@media screen and (prefers-color-scheme: dark)")[:2]:
        assert used - {"share"} <= set(re.findall(r"--([a-z-]+):", scheme))
