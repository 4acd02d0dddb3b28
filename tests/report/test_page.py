import re
from html.parser import HTMLParser

import pytest

from forecaster.report.comparison import make_sections
from forecaster.report.doctor import Checkup, Finding
from forecaster.report.material import Material
from forecaster.report.page import render_checkup, render_comparison
from forecaster.report.picture import Section
from tests.report.comparisons import HOSTILE


def test_what_came_with_the_data_is_escaped() -> None:
    finding = Finding("locations", "warning", "<script>alert(1)</script>", ("<img onerror=x>",))
    checkup = Checkup({"observed": "50.00 %", "span": '"><b>'}, (finding,))
    page = render_checkup("<i>city</i>", checkup, b"png", b"map")
    assert "<script>" not in page
    assert "<img onerror" not in page
    assert "<i>city" not in page
    assert "&lt;script&gt;" in page


def test_the_verdict_counts_the_warnings() -> None:
    facts = {"observed": "100.00 %"}
    calm = render_checkup("city", Checkup(facts, (Finding("gaps", "good", "none"),)), b"", None)
    worried = render_checkup(
        "city", Checkup(facts, (Finding("gaps", "warning", "many"),)), b"", None
    )
    assert "Nothing stands in the way" in calm
    assert "1 thing to look into" in worried


def test_the_picture_has_words_for_those_who_cannot_see_it() -> None:
    page = render_checkup("city", Checkup({"observed": "97.00 %"}, ()), b"", None)
    assert 'alt="Heat map of locations over time: 97.00 % of the values are observed' in page


def test_a_map_is_shown_where_there_are_coordinates() -> None:
    checkup = Checkup({"observed": "97.00 %"}, ())
    assert "Map of the locations" in render_checkup("city", checkup, b"", b"map")
    assert "Map of the locations" not in render_checkup("city", checkup, b"", None)


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
def sections(material: Material) -> list[Section]:
    return make_sections(material, lambda _: None)


@pytest.fixture(scope="module")
def page(material: Material, sections: list[Section]) -> str:
    return render_comparison(material, sections)


def test_a_report_shows_the_verdict_the_table_and_what_was_run(
    page: str, material: Material
) -> None:
    words = Tags(page).words
    assert material.comparison.verdict[0].replace(" -", " −") in words
    for row in material.comparison.rows:
        assert row.name in words
    assert str(material.panel.digest) in words
    assert material.recipe.digest() in words
    assert "a distance graph needs lat and lon" in words  # why one failed
    assert 'kind = "inverse"' in words  # of the recipe


def test_how_sure_each_model_is_is_a_table_in_its_section(material: Material, page: str) -> None:
    start = page.index('<h2 id="sure">How sure</h2>')
    section = page[start : page.index("<h2 id=", start + 1)]
    assert 'aria-label="How sure"' in section
    assert section.count('<th scope="row">') == len(material.comparison.tested)
    assert material.comparison.sureness is not None
    assert material.comparison.sureness in section


def test_a_report_asks_for_nothing_outside_itself(page: str) -> None:
    assert "http" not in page
    assert not re.search(r"url\((?!#)", page)
    for tag, attributes in Tags(page).found:
        assert tag not in ("script", "link", "iframe", "img", "object", "embed")
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))


def test_every_figure_of_a_report_has_an_alternative(page: str, sections: list[Section]) -> None:
    labels = [given["aria-label"] for tag, given in Tags(page).found if tag == "svg"]
    assert labels == [one.words for section in sections for one in section.pictures]
    assert all(label and len(label) > 40 for label in labels)


def test_hostile_names_are_only_words(page: str) -> None:
    tags = Tags(page)
    assert "<script" not in page
    assert not any("onerror" in given for _, given in tags.found)
    assert HOSTILE[0] in tags.words


def test_no_name_of_a_part_is_used_twice(page: str) -> None:
    names = [given["id"] for _, given in Tags(page).found if "id" in given]
    assert len(set(names)) == len(names)


def test_the_same_comparison_gives_the_same_page(
    material: Material, page: str, sections: list[Section]
) -> None:
    assert render_comparison(material, make_sections(material, lambda _: None)) == page
    assert len(page) < 1_000_000
    assert sections


def test_every_colour_of_a_figure_is_one_of_the_page(page: str) -> None:
    used = set(re.findall(r"var\(--([a-z-]+)\)", page))
    for scheme in page.split("@media screen and (prefers-color-scheme: dark)")[:2]:
        assert used - {"share"} <= set(re.findall(r"--([a-z-]+):", scheme))
