from pathlib import Path

import pytest

from forecaster.report.material import Material, read_material
from forecaster.report.picture import Section
from forecaster.report.why_pictures import why_section
from tests.report.comparisons import bare_panel, compare, daily_cycle


@pytest.fixture(scope="module")
def section(material: Material) -> Section:
    return why_section(material)


def test_a_few_forecasts_are_explained(section: Section) -> None:
    names = [picture.name for picture in section.pictures]
    assert names[0] == "31-why-busiest"
    assert set(names) <= {"31-why-busiest", "32-why-worst", "33-why-hub"}
    assert len({(picture.title, picture.text) for picture in section.pictures}) == len(names)
    assert section.title == "Why Forecaster says so"


def test_every_picture_says_what_is_in_it(section: Section) -> None:
    for picture in section.pictures:
        assert picture.text.startswith("At 2021-04-")
        assert "Attention goes to recent steps" in picture.text
        assert picture.words.startswith("Bars of past hours")


def test_agreement_and_the_city_wide_part_are_said_of_each(section: Section) -> None:
    titles = [picture.title for picture in section.pictures]
    assert list(section.facts) == ["City-wide", "How far the methods agree"]
    assert list(section.facts["City-wide"]) == titles
    explained, *pairs = section.facts["How far the methods agree"].items()
    assert explained[0] == "rank correlation"
    assert "hours: attention and ablation" in dict(pairs)
    for _, values in pairs:
        assert len(values.split(" · ")) == len(titles)


def test_the_busiest_location_is_the_busiest(section: Section, material: Material) -> None:
    busiest = material.panel.locations.names[4]  # 53 on average
    assert section.pictures[0].title == f"{busiest}, the busiest"


def test_without_a_model_that_can_be_explained_there_is_nothing(tmp_path: Path) -> None:
    compare(tmp_path, bare_panel(daily_cycle()), ["Ridge", "SeasonalNaive"])
    assert not why_section(read_material(tmp_path)).pictures
