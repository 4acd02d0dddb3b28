from dataclasses import replace

import numpy as np
import pytest

from forecaster.clock.clock import Clock
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.report.doctor.coverage import (
    BUSY,
    CLOSED,
    MISSING,
    ZERO,
    coverage_colours,
    draw_coverage,
    draw_location_map,
)


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
    for row, colour in zip(colours, (BUSY, ZERO, MISSING), strict=True):
        assert np.allclose(row, rgb(colour))


def test_a_closed_step_is_not_drawn_as_missing() -> None:
    values = np.array([[np.nan, np.nan], [5, 7]], dtype=np.float32)
    alive = np.array([[False, True], [True, True]])
    colours = coverage_colours(values, alive)
    assert np.allclose(colours[0, 0], rgb(CLOSED))
    assert np.allclose(colours[1, 0], rgb(MISSING))
    assert np.allclose(colours[:, 1], rgb(BUSY))


def test_one_missing_step_is_visible_in_a_wide_cell() -> None:
    values = np.ones((90_000, 1), dtype=np.float32)
    values[45_000] = np.nan
    colours = coverage_colours(values, np.ones(values.shape, dtype=bool))
    distance = np.abs(colours - rgb(BUSY)).max(axis=(0, 2))
    assert (distance > 0.1).sum() == 1


@pytest.mark.parametrize("shape", [(1, 1), (37, 2), (2_003, 701)])
def test_a_picture_is_drawn_for_any_size(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).poisson(1.0, shape).astype(float)
    values[: shape[0] // 7] = np.nan
    assert draw_coverage(panel_of(values)).startswith(b"\x89PNG")


def test_a_picture_is_drawn_even_if_nothing_was_observed() -> None:
    assert draw_coverage(panel_of(np.full((31, 3), np.nan))).startswith(b"\x89PNG")


def test_a_map_needs_coordinates() -> None:
    panel = panel_of(np.ones((31, 3)))
    assert draw_location_map(panel) is None
    lat, lon = np.array([40.7, 40.8, np.nan]), np.array([-74.0, -73.9, np.nan])
    known = Locations(("a", "b", "c"), ("a", "b", "c"), lat, lon)
    picture = draw_location_map(replace(panel, locations=known))
    assert picture is not None
    assert picture.startswith(b"\x89PNG")


def test_one_place_can_be_mapped() -> None:
    here = Locations(("a",), ("a",), np.array([40.7]), np.array([-74.0]))
    assert draw_location_map(replace(panel_of(np.zeros((31, 1))), locations=here)) is not None
