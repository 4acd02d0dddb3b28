import numpy as np
import pytest

from forecaster.panel.parts import Locations
from forecaster.report.canvas import to_svg
from forecaster.report.interval_charts import (
    draw_held,
    draw_held_at_places,
    draw_held_in_weather,
)
from forecaster.report.intervals import Held

WANTED = 0.8


def held(*shares: float) -> Held:
    online = np.array(shares)
    labels = tuple(f"{n}:00" for n in range(len(shares)))
    return Held(labels, np.full(len(shares), 1029), {"static": online - 0.05, "online": online})


@pytest.mark.parametrize("count", [2, 7, 24])
def test_bars_reach_from_what_is_wanted_to_what_came_within(count: int) -> None:
    shares = np.linspace(0.7, 0.9, count)
    axes = draw_held(held(*shares), WANTED, "hour").axes[0]
    static, online = axes.containers
    for bars, values in ((static, shares - 0.05), (online, shares)):
        assert [bar.get_y() for bar in bars] == pytest.approx([80.0] * count)
        ends = [bar.get_y() + bar.get_height() for bar in bars]
        assert ends == pytest.approx((100 * values).tolist())
    assert [line.get_ydata()[0] for line in axes.lines] == pytest.approx([80.0])
    low, high = axes.get_ylim()
    assert low < 65
    assert high > 90


def test_a_small_difference_does_not_look_large() -> None:
    near = Held(("+1",), np.array([7]), {"static": np.array([0.801]), "online": np.array([0.8])})
    low, high = draw_held(near, WANTED, "step").axes[0].get_ylim()
    assert high - low > 8


def test_the_axis_ends_where_shares_do() -> None:
    low, high = draw_held(held(0.1, 1.0), WANTED, "step").axes[0].get_ylim()
    assert (low, high) == (pytest.approx(0, abs=5), 100)


def test_every_kind_of_weather_has_a_row_with_its_steps() -> None:
    figure = draw_held_in_weather({"$rain$": held(0.8, 0.7), "fog": held(0.7, 0.8, 0.9)}, WANTED)
    drawing = to_svg(figure, "x")
    for text in (b"$rain$: 0:00 (1,029)", b"$rain$: 1:00 (1,029)", b"fog: 2:00 (1,029)"):
        assert text in drawing
    for text in (b"static", b"online", "wanted: 80 %, ± 2 shaded".encode()):
        assert text in drawing
    online = figure.axes[0].containers[1]
    ends = [bar.get_x() + bar.get_width() for bar in online]
    assert ends == pytest.approx([80, 70, 70, 80, 90])


def test_the_places_that_are_too_sure_are_named_on_the_map() -> None:
    names = ("north", "middle", "south", "lost", "east")
    lat, lon = np.array([3.0, 2, 1, np.nan, 5]), np.arange(5.0)
    places = Locations(tuple("abcde"), names, lat, lon)
    shares = np.array([0.9, 0.85, np.nan, 0.4, 0.7])
    figure = draw_held_at_places(places, shares, np.ones(5), WANTED)
    drawing = to_svg(figure, "x")
    assert b"east" in drawing
    assert b"lost" not in drawing
    assert b"south" not in drawing
    dots = figure.axes[0].collections[0]
    assert sum(dots.get_clim()) / 2 == pytest.approx(80)  # what is wanted has no colour


def test_many_places_without_coordinates_show_the_least_and_the_most() -> None:
    places = Locations.of_ids(f"p{n:02d}" for n in range(53))
    shares = np.linspace(0.6, 0.95, 53)
    drawing = to_svg(draw_held_at_places(places, shares, np.ones(53), WANTED), "x")
    assert all(f"p{n:02d}".encode() in drawing for n in [*range(10), *range(43, 53)])
    assert b"p25" not in drawing
    assert b"static" not in drawing
