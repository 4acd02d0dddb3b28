from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.evaluation.comparison import Comparison, Row
from forecaster.report.groups import group_hours, group_steps
from forecaster.report.interval_pictures import sure_section
from forecaster.report.intervals import held_at_places, held_in
from forecaster.report.material import Material, read_material
from forecaster.report.picture import Section
from tests.report.comparisons import bare_panel, compare, daily_cycle


@pytest.fixture(scope="module")
def section(material: Material) -> Section:
    return sure_section(material)


def without_intervals(row: Row) -> Row:
    return replace(row, found={s: replace(f, sureness=None) for s, f in row.found.items()})


def test_the_section_says_what_an_interval_means(material: Material, section: Section) -> None:
    assert (section.name, section.title) == ("sure", "How sure")
    assert material.comparison.sureness is not None
    assert section.text.startswith(material.comparison.sureness)
    assert "If more than 80 % lies within" in section.text
    assert [picture.name for picture in section.pictures] == [
        "20-coverage-steps", "21-coverage-hours", "22-coverage-weather",
        "23-coverage-by-location", "24-interval-width",
    ]  # fmt: skip


def test_each_picture_says_what_it_shows(material: Material, section: Section) -> None:
    best = material.best
    assert best is not None
    pictures = {picture.name: picture for picture in section.pictures}
    steps = held_in(best, group_steps(best.first)).shares["online"]
    assert f"{100 * steps.min():.1f}" in pictures["20-coverage-steps"].text
    grouping = group_hours(best.first, material.panel)
    assert grouping is not None
    hours = held_in(best, grouping)
    least = int(hours.shares["online"].argmin())
    text = f"least lay within with {100 * hours.shares['online'][least]:.1f} % at "
    assert text + hours.labels[least] in pictures["21-coverage-hours"].text
    assert "differ most by" in pictures["22-coverage-weather"].text
    places = held_at_places(best)
    name = material.panel.locations.names[int(places.argmin())]
    text = f"From {100 * places.min():.1f} % at {name} to "
    assert pictures["23-coverage-by-location"].text.startswith(text)
    assert "Blue is less than wanted" in pictures["23-coverage-by-location"].text
    assert "narrowest with" in pictures["24-interval-width"].text


def test_alternatives_name_the_interval_and_the_models(section: Section) -> None:
    for picture in section.pictures[:3]:
        assert "lay within the 80 % interval of Ridge, static and online" in picture.words
    assert "Ridge, Forecaster and SeasonalNaive" in section.pictures[-1].words


def test_every_model_has_a_line_in_the_table(material: Material, section: Section) -> None:
    assert section.table is not None
    names = [line.name for _, lines in section.table.groups for line in lines]
    assert names == [row.name for row in material.comparison.tested]


def test_runs_from_before_intervals_have_no_such_section(material: Material) -> None:
    rows = [without_intervals(row) for row in material.comparison.rows]
    comparison = Comparison(rows, material.comparison.mape_cut, material.comparison.about)
    assert not sure_section(replace(material, comparison=comparison)).pictures
    some = [row if row is material.best else without_intervals(row) for row in material.drawn]
    comparison = Comparison(some, material.comparison.mape_cut, material.comparison.about)
    found = sure_section(replace(material, comparison=comparison))
    assert found.pictures
    assert "for Ridge." in found.pictures[-1].words  # nobody else has widths


def test_one_quantile_is_no_interval(tmp_path: Path) -> None:
    panel = bare_panel(daily_cycle())
    found = read_material(compare(tmp_path, panel, ["Ridge"], intervals={"quantiles": [0.3]}))
    assert not sure_section(found).pictures
    assert found.comparison.levels == (0.3,)


def test_days_have_widths_by_step_and_no_hours(tmp_path: Path) -> None:
    values = np.random.default_rng(0).poisson(30, (601, 3))
    lags = {"recent": 3, "seasons": [], "horizon": 2}
    place = compare(tmp_path, bare_panel(values, 1440), ["Ridge"], lags=lags)
    pictures = {picture.name: picture for picture in sure_section(read_material(place)).pictures}
    assert list(pictures) == ["20-coverage-steps", "23-coverage-by-location", "24-interval-width"]
    assert "by step ahead for Ridge" in pictures["24-interval-width"].words
    assert "Blue" not in pictures["23-coverage-by-location"].text  # bars, no map
