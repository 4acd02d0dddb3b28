from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.report.doctor.coverage import (
    CLOSED,
    MISSING,
    OBSERVED,
    ZERO,
    coverage_colours,
    draw_coverage,
)
from forecaster.report.draw.canvas import to_png, to_svg
from forecaster.report.draw.maps import map_locations
from forecaster.report.draw.svg import COLOURS
from tests.report.labels import colliding, cut_off


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def panel_of(values: np.ndarray) -> Panel:
    steps, places = values.shape
    return Panel(
        values=values.astype(np.float32),
        start=np.datetime64("2015-01-01T00", "s"),
        clock=Clock("Asia/Kolkata"),
        kind="count",
        locations=Locations.of_ids(f"p{n}" for n in range(places)),
        covariates=Covariates((), np.empty((steps, 0), np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, steps, places), np.float32)),
    )


def test_each_cell_has_the_colour_of_its_state() -> None:
    values = np.array([[1, 0, np.nan], [2, 0, np.nan]], dtype=np.float32)
    colours = coverage_colours(values, np.ones(values.shape, dtype=bool))
    assert colours.shape == (3, 2, 3)  # locations down, time across
    for row, colour in zip(colours, (OBSERVED, ZERO, MISSING), strict=True):
        assert np.allclose(row, rgb(colour))


def test_a_closed_step_is_not_drawn_as_missing() -> None:
    values = np.array([[np.nan, np.nan], [5, 7]], dtype=np.float32)
    alive = np.array([[False, True], [True, True]])
    colours = coverage_colours(values, alive)
    assert np.allclose(colours[0, 0], rgb(CLOSED))
    assert np.allclose(colours[1, 0], rgb(MISSING))
    assert np.allclose(colours[:, 1], rgb(OBSERVED))


def test_one_missing_step_is_visible_in_a_wide_cell() -> None:
    values = np.ones((90_000, 1), dtype=np.float32)
    values[45_000] = np.nan
    colours = coverage_colours(values, np.ones(values.shape, dtype=bool))
    distance = np.abs(colours - rgb(OBSERVED)).max(axis=(0, 2))
    assert (distance > 0.1).sum() == 1


@pytest.mark.parametrize("shape", [(1, 1), (37, 2), (2_003, 701)])
def test_a_picture_is_drawn_for_any_size(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).poisson(1.0, shape).astype(float)
    values[: shape[0] // 7] = np.nan
    assert to_png(draw_coverage(panel_of(values))).startswith(b"\x89PNG")


def test_a_picture_is_drawn_even_if_nothing_was_observed() -> None:
    assert to_png(draw_coverage(panel_of(np.full((31, 3), np.nan)))).startswith(b"\x89PNG")


def test_a_map_needs_coordinates() -> None:
    panel = panel_of(np.ones((31, 3)))
    assert map_locations(panel) is None
    lat, lon = np.array([40.7, 40.8, np.nan]), np.array([-74.0, -73.9, np.nan])
    known = Locations(("a", "b", "c"), ("a", "b", "c"), lat, lon)
    picture = map_locations(replace(panel, locations=known))
    assert picture is not None
    assert to_png(picture).startswith(b"\x89PNG")


def test_one_place_can_be_mapped() -> None:
    here = Locations(("a",), ("a",), np.array([40.7]), np.array([-74.0]))
    assert map_locations(replace(panel_of(np.zeros((31, 1))), locations=here)) is not None


@pytest.mark.parametrize("places", [1, 3, 30])
def test_few_locations_have_their_names_on_the_axis(places: int) -> None:
    values = np.ones((97, places)) * np.arange(places)
    names = tuple(f"A station with a long name at platform {n}" for n in range(places))
    there = Locations(names, names, np.full(places, np.nan), np.full(places, np.nan))
    figure = draw_coverage(replace(panel_of(values), locations=there))
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert [label[-2:].strip() for label in labels] == [str(n) for n in range(places)][::-1]
    assert not colliding(figure)
    assert not cut_off(figure)


def test_many_locations_are_counted_and_have_no_fractions_on_the_axis() -> None:
    axes = draw_coverage(panel_of(np.ones((31, 43)))).axes[0]
    assert axes.get_ylabel() == "43 locations, busiest first"
    assert not axes.get_yticklabels()


def test_the_colours_of_the_cells_are_those_of_the_legend_on_a_dark_page_too() -> None:
    assert not {OBSERVED, ZERO, MISSING, CLOSED} & set(COLOURS)
    drawn = to_svg(draw_coverage(panel_of(np.eye(31, 3))), "coverage").decode()
    assert OBSERVED in drawn
