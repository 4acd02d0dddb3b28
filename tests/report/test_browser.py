"""The report and the checkup in a real browser: both widths, both themes, and on paper."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forecaster.recipe import Recipe
from forecaster.report.comparison import render_comparison
from forecaster.report.data import ReportData
from forecaster.report.doctor.checkup import examine
from forecaster.report.doctor.coverage import draw_coverage
from forecaster.report.doctor.page import render_checkup
from forecaster.report.draw.maps import map_locations
from forecaster.report.sections.section import Section
from tests.serve.page.test_accessible import violations

pytestmark = pytest.mark.browser
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCREENS = [(width, theme) for width in (1280, 400) for theme in ("light", "dark")]
OPENED = "document.querySelectorAll('details').forEach(part => part.open = true)"
LARGEST_HOLE = 24  # pixels below the last row of the table beside the picture, besides padding
MOST_PAGES = 7

Show = Callable[[int, str], Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a browser without a window."""
    import shutil  # noqa: PLC0415 (a test without a browser needs neither)

    api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, data: ReportData, sections: list[Section]
) -> dict[str, Path]:
    """Return the files of a report and of a checkup."""
    folder, panel = tmp_path_factory.mktemp("pages"), data.panel
    checkup = examine(panel, Recipe())
    texts = {
        "report": render_comparison(data, sections),
        "checkup": render_checkup("city", checkup, draw_coverage(panel), map_locations(panel)),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def shown(browser: Any, path: Path, width: int, theme: str) -> Any:
    """Return the page in a new tab with all of its parts open."""
    view = {"width": width, "height": 900}
    tab = browser.new_context(viewport=view, color_scheme=theme).new_page()
    tab.goto(path.as_uri())
    tab.evaluate(OPENED)
    return tab


@pytest.mark.parametrize("name", ["report", "checkup"])
@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_a_page_fits_and_passes_wcag_aa(
    browser: Any, pages: dict[str, Path], name: str, width: int, theme: str
) -> None:
    tab = shown(browser, pages[name], width, theme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(tab) == []
    tab.context.close()


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_the_table_of_the_next_steps_fills_its_card(
    browser: Any, pages: dict[str, Path], width: int, theme: str
) -> None:
    tab = shown(browser, pages["report"], width, theme)
    hole = tab.evaluate("""() => {
        const card = document.querySelector("#next .narrow .card");
        const padding = parseFloat(getComputedStyle(card).paddingBottom);
        const { bottom } = card.querySelector("table").getBoundingClientRect();
        return card.getBoundingClientRect().bottom - padding - bottom;
    }""")
    assert abs(hole) <= LARGEST_HOLE
    tab.context.close()


def test_pictures_and_their_text_are_readable_in_the_dark(
    browser: Any, pages: dict[str, Path]
) -> None:
    for name, path in pages.items():
        colours = []
        for theme in ("light", "dark"):
            tab = shown(browser, path, 1280, theme)
            colours.append(
                tab.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
            )
            tab.context.close()
        assert colours[0] != colours[1], name


def test_the_report_prints_on_a_few_pages_in_light_colours(
    browser: Any, pages: dict[str, Path]
) -> None:
    tab = browser.new_context(color_scheme="dark").new_page()
    tab.goto(pages["report"].as_uri())
    printed = tab.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 1 < len(re.findall(rb"/Type\s*/Page\b", printed)) <= MOST_PAGES
    tab.emulate_media(media="print")
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    tab.context.close()
