import re
from dataclasses import replace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.report.data import ReportData
from forecaster.report.draw.canvas import to_svg
from forecaster.report.sections.what_if import (
    RainEffect,
    draw_location_changes,
    measure_rain_effect,
    rain_scenarios,
    what_if_section,
)
from tests.report.comparisons import bare_panel

STEPS, NAN = 11, np.nan


def sky(**columns: list[float]) -> Panel:
    values = np.array(list(columns.values()), dtype=np.float32).T
    return replace(bare_panel(np.ones((STEPS, 3))), covariates=Covariates(tuple(columns), values))


def test_rain_comes_with_the_median_of_what_falls() -> None:
    rain = [1.0, 1, 1, 1, NAN, 0, 0, 0, 0, 0, 0]
    amount = [1.0, 3, 9, NAN, 99, 0, 0, 0, 99, NAN, 0]  # 99: snow, and where nobody saw rain
    dry, wet = rain_scenarios(sky(rain=rain, precipitation_mm=amount)) or ({}, {})
    assert dry == {"rain": 0, "precipitation_mm": 0}
    assert wet == {"rain": 1, "precipitation_mm": 3}


def test_rain_may_be_known_without_its_amount() -> None:
    for panel in (
        sky(rain=[0.0] * 5 + [1.0] * 6),
        sky(rain=[0.0] * 5 + [1.0] * 6, precipitation_mm=[NAN] * STEPS),
    ):
        assert rain_scenarios(panel) == ({"rain": 0}, {"rain": 1})


def test_rain_may_be_known_of_each_location() -> None:
    own = np.zeros((1, STEPS, 3), dtype=np.float32)
    own[0, 2, 1] = 1
    panel = replace(
        bare_panel(np.ones((STEPS, 3))), local_covariates=LocalCovariates(("rain",), own)
    )
    assert rain_scenarios(panel) == ({"rain": 0}, {"rain": 1})


@pytest.mark.parametrize("rain", [[0.0] * STEPS, [1.0] * STEPS, [NAN] * STEPS])
def test_without_wet_and_dry_steps_nothing_is_supposed(rain: list[float]) -> None:
    assert rain_scenarios(sky(rain=rain)) is None
    assert rain_scenarios(sky(temperature=rain)) is None


def test_what_a_model_makes_of_rain_is_measured_at_tested_origins(data: ReportData) -> None:
    row = next(row for row in data.drawn if row.estimator == "Ridge")
    estimator, panel, found = data.estimator_of(row), data.panel, row.first
    effect = measure_rain_effect(estimator, panel, found)
    assert effect is not None
    steps = (found.origins - int(panel.start.astype(np.int64))) // 3600
    assert effect.origins == min(len(steps), 240)
    some = steps[np.linspace(0, len(steps) - 1, effect.origins).astype(np.int64)]
    world = panel.covariates.values.copy()
    world[:, panel.covariates.names.index("rain")] = 1
    wet = replace(panel, covariates=Covariates(panel.covariates.names, world))
    expected = estimator.predict(wet, some).mean(axis=(0, 1), dtype=np.float64)
    assert effect.wet == pytest.approx(expected, rel=1e-5)  # Ridge looks at no past weather
    assert effect.dry != pytest.approx(expected, rel=1e-5)


def test_a_model_that_does_not_look_at_the_weather_has_no_effect(data: ReportData) -> None:
    naive = data.rival
    assert naive is not None
    assert measure_rain_effect(data.estimator_of(naive), data.panel, naive.first) is None


def test_changes_are_shares_of_counts_and_differences_of_measurements() -> None:
    dry, wet = np.array([10.0, 0.0, 30.0]), np.array([11.0, 1.0, 27.0])
    effect = RainEffect({"rain": 1.0}, 7, dry, wet)
    np.testing.assert_allclose(effect.change("count"), [0.1, NAN, -0.1])
    np.testing.assert_allclose(effect.change("measurement"), [1, 1, -3])
    assert effect.total_change == pytest.approx(-1 / 40)


def test_the_section_says_what_rain_changes_and_where(data: ReportData) -> None:
    section = what_if_section(data)
    (picture,) = section.pictures
    number = r"[+−]\d+(\.\d+)? %"
    assert re.match(
        rf"With rain .* is [\d.]+ % (higher|lower) in total, from {number} at ", picture.text
    )
    assert picture.alternative.startswith("Map or bar chart of the change")
    facts = section.facts["Scenarios"]
    assert facts["with rain"].startswith("rain 1 in all")  # the small city knows no amount
    assert facts["without rain"] == "rain 0"
    assert facts["model"] != "SeasonalNaive"  # which does not look at the weather


def test_a_panel_without_rain_has_no_such_section(data: ReportData) -> None:
    names = ("temperature", "drizzle")
    renamed = Covariates(names, data.panel.covariates.values)
    dry = replace(data, panel=replace(data.panel, covariates=renamed))
    assert not what_if_section(dry).pictures


def test_more_and_less_have_their_own_colours() -> None:
    places = Locations(("a", "b", "c"), ("a", "b", "c"), np.array([1.0, 2, 3]), np.arange(3.0))
    figure = draw_location_changes(places, np.array([-4.0, 0.0, 2.0]), np.ones(3), "x")
    dots = figure.axes[0].collections[0]
    assert dots.get_clim() == (-4, 4)  # zero lies in the middle of the colours
    less, none, more = dots.to_rgba([-4, 0, 4])[:, [0, 2]]  # red and blue
    assert less[0] < less[1]
    assert more[0] > more[1]
    assert abs(none[0] - none[1]) < 0.1


def test_without_coordinates_the_largest_changes_are_bars() -> None:
    places = Locations.of_ids(f"p{n}" for n in range(23))
    figure = draw_location_changes(places, np.arange(23.0) - 22, np.ones(23), "x")
    svg = to_svg(figure, "x").decode()
    assert ">p0<" in svg
    assert ">p22<" not in svg  # no change at all
