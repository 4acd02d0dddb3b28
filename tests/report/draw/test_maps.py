import numpy as np
import pytest

from forecaster.panel.parts import Locations
from forecaster.report.draw.canvas import to_svg
from forecaster.report.draw.maps import (
    SIDES,
    location_means,
    map_locations,
    map_values,
    new_map,
    write_names,
)
from forecaster.report.draw.svg import COLOURS
from tests.report.comparisons import bare_panel

NAN = np.nan


def places(lat: list[float], lon: list[float]) -> Locations:
    names = tuple(f"$x_{n}$ <b>" for n in range(len(lat)))
    return Locations(tuple(map(str, range(len(lat)))), names, np.array(lat), np.array(lon))


def test_the_scale_is_a_round_number_of_kilometres() -> None:
    _, axes = new_map(places([52.0, 52.1], [13.0, 13.0]))  # 11 km from south to north
    assert [text.get_text() for text in axes.texts] == ["2 km"]
    _, axes = new_map(places([0.0, 0.0], [0.0, 100.0]))  # 11,120 km from west to east
    assert [text.get_text() for text in axes.texts] == ["2000 km"]
    line = axes.lines[0].get_xdata()
    assert line[1] - line[0] == pytest.approx(2_000 / 111.2)


def test_one_place_has_no_scale() -> None:
    _, axes = new_map(places([52.0], [13.0]))
    assert not axes.texts


def test_only_places_with_coordinates_and_values_are_dots() -> None:
    where = places([1.0, 2.0, NAN, 4.0], [1.0, 2.0, 3.0, 4.0])
    figure = map_values(where, np.array([5.0, NAN, 7.0, 8.0]), np.ones(4), "x", ranked=[0, 1, 2])
    dots = figure.axes[0].collections[0].get_offsets()
    assert np.array_equal(dots, [[1.0, 1.0], [4.0, 4.0]])
    assert b"$x_0$ &lt;b&gt;" in to_svg(figure, "x")
    assert b"$x_1$" not in to_svg(figure, "x")  # not drawn, not named


def test_names_are_written_as_far_as_none_hides_another() -> None:
    where = places([1.0, 1.001, 2.0, NAN, 3.0, 4.0], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    _, axes = new_map(where)
    written = len(axes.texts)
    write_names(axes, where, dict(enumerate("abcdef")), most=3)
    assert [text.get_text() for text in axes.texts[written:]] == ["a", "c", "e"]


def test_a_name_is_written_where_it_ends_on_the_map_or_hides_fewer_dots() -> None:
    where = places([1.0, 1.0, 1.0, 1.0, 5.0], [0.0, 4.0, 5.0, 6.0, 10.0])
    _, axes = new_map(where)
    written = len(axes.texts)
    write_names(axes, where, {0: "west", 4: "east"}, most=2)
    write_names(axes, where, {1: "crowded"}, most=1)
    sides = [text.get_ha() for text in axes.texts[written:]]
    assert sides == ["left", "right", "right"]  # the side that is at the place


def test_two_sided_colours_lie_around_their_middle_and_stay_in_the_dark() -> None:
    where = places([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    figure = map_values(where, np.array([70.0, 80.0, 85.0]), np.ones(3), "x", around=80.0)
    assert figure.axes[0].collections[0].get_clim() == (70.0, 90.0)
    assert not {*SIDES} & {*COLOURS}  # which a page replaces by its own


def test_means_leave_out_what_is_missing() -> None:
    panel = bare_panel(np.array([[1.0, NAN, 2.0], [3.0, NAN, NAN]]))
    assert location_means(panel).tolist() == [2.0, 0.0, 2.0]
    assert map_locations(panel) is None  # nobody knows where they are


def test_of_very_many_locations_a_sample_is_drawn_and_told() -> None:
    count, generator = 3_019, np.random.default_rng(1)
    lat, lon = generator.uniform(40, 41, (2, count))
    where = places(lat.tolist(), lon.tolist())
    values = generator.random(count)
    figure = map_values(where, values, generator.random(count), "error")
    axes = figure.axes[0]
    dots = np.asarray(axes.collections[0].get_offsets())
    assert len(dots) == 3_000
    worst = int(values.argmax())
    assert (dots == [lon[worst], lat[worst]]).all(axis=1).any()
    assert "3,000 of 3,019 locations" in [text.get_text() for text in axes.texts]
