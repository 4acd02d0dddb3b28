import re
from dataclasses import replace

import numpy as np

from forecaster.panel.parts import Covariates, Locations
from forecaster.report.canvas import to_svg
from forecaster.report.material import Material
from forecaster.report.what_if_pictures import draw_change, what_if_section


def test_the_section_says_what_rain_changes_and_where(material: Material) -> None:
    section = what_if_section(material)
    (picture,) = section.pictures
    number = r"[+−]\d+(\.\d+)? %"
    assert re.match(
        rf"With rain .* forecasts [\d.]+ % (more|less) in all: {number} at ", picture.text
    )
    assert picture.words.startswith("Map or bars of the change")
    facts = section.facts["What was supposed"]
    assert facts["with rain"].startswith("rain 1:")  # the small city knows no amount
    assert facts["without"] == "rain 0"
    assert facts["model"] != "SeasonalNaive"  # which does not look at the weather


def test_a_panel_without_rain_has_no_such_section(material: Material) -> None:
    names = ("temperature", "drizzle")
    renamed = Covariates(names, material.panel.covariates.values)
    dry = replace(material, panel=replace(material.panel, covariates=renamed))
    assert not what_if_section(dry).pictures


def test_more_and_less_have_their_own_colours() -> None:
    places = Locations(("a", "b", "c"), ("a", "b", "c"), np.array([1.0, 2, 3]), np.arange(3.0))
    figure = draw_change(places, np.array([-4.0, 0.0, 2.0]), np.ones(3), "x")
    dots = figure.axes[0].collections[0]
    assert dots.get_clim() == (-4, 4)  # zero lies in the middle of the colours
    less, none, more = dots.to_rgba([-4, 0, 4])[:, [0, 2]]  # red and blue
    assert less[0] < less[1]
    assert more[0] > more[1]
    assert abs(none[0] - none[1]) < 0.1


def test_without_coordinates_the_largest_changes_are_bars() -> None:
    places = Locations.of_ids(f"p{n}" for n in range(23))
    figure = draw_change(places, np.arange(23.0) - 22, np.ones(23), "x")
    svg = to_svg(figure, "x").decode()
    assert ">p0<" in svg
    assert ">p22<" not in svg  # no change at all
