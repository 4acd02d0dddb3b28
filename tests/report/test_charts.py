import numpy as np
import pytest

from forecaster.panel.parts import Locations
from forecaster.report.breakdown import Breakdown
from forecaster.report.canvas import FAINT, to_svg
from forecaster.report.charts import (
    draw_breakdown,
    draw_place_errors,
    draw_weather,
    looks,
    rank,
    shorten,
)


def breakdown(labels: int, models: int) -> Breakdown:
    rmse = {f"model {n}": np.arange(1.0, labels + 1) for n in range(models)}
    return Breakdown(tuple(f"{n}:00" for n in range(labels)), np.full(labels, 29), rmse)


def test_models_are_told_apart_by_colour_and_by_mark() -> None:
    found = looks(["SeasonalNaive", "a", "b", "c"])
    assert len({look.colour for look in found.values()}) == 4
    assert len({look.mark for look in found.values()}) == 4
    assert found["SeasonalNaive"].colour == FAINT


@pytest.mark.parametrize(("labels", "models"), [(2, 1), (7, 3), (24, 3)])
def test_every_model_has_a_line(labels: int, models: int) -> None:
    figure = draw_breakdown(breakdown(labels, models), "hour")
    lines = figure.axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [
        [*np.arange(1.0, labels + 1)]
    ] * models
    assert figure.axes[0].get_ylim()[0] == 0  # a small difference must not look large
    for n in range(models):
        assert f"model {n}".encode() in to_svg(figure, "x")


def test_every_kind_of_weather_has_a_row_with_its_steps() -> None:
    drawing = to_svg(draw_weather({"$rain$": breakdown(2, 2), "fog": breakdown(3, 2)}), "x")
    for text in (b"$rain$: 0:00 (29)", b"$rain$: 1:00 (29)", b"fog: 2:00 (29)"):
        assert text in drawing


def test_errors_are_ranked_where_there_are_any() -> None:
    assert rank(np.array([0.2, np.nan, 0.7, 0.1])).tolist() == [2, 0, 3]


def test_many_places_without_coordinates_show_the_worst_and_the_best() -> None:
    places = Locations.of_ids(f"p{n:02d}" for n in range(53))
    drawing = to_svg(draw_place_errors(places, np.arange(53.0), np.ones(53), "WAPE, %"), "x")
    assert all(f"p{n:02d}".encode() in drawing for n in [*range(10), *range(43, 53)])
    assert b"p25" not in drawing


def test_the_worst_places_are_named_on_the_map() -> None:
    names = ("north", "middle", "south", "lost")
    places = Locations(tuple("abcd"), names, np.array([3.0, 2, 1, np.nan]), np.arange(4.0))
    errors = np.array([0.1, 0.2, np.nan, 0.4])
    drawing = to_svg(draw_place_errors(places, errors, np.ones(4), "WAPE, %"), "x")
    assert b"middle" in drawing
    assert b"lost" not in drawing
    assert b"WAPE, %" in drawing


def test_long_names_leave_room() -> None:
    assert shorten("Upper East Side") == "Upper East Side"
    assert shorten("x" * 40) == "x" * 27 + "…"
