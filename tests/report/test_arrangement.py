from hypothesis import given
from hypothesis import strategies as st

from forecaster.report.arrangement import HOLE, arrange, estimate_height
from forecaster.report.draw.canvas import WIDTH, new_figure
from forecaster.report.sections.section import Picture


def picture(height: float, text: str = "It rises.") -> Picture:
    return Picture("x", "X", text, "Line of x", new_figure(WIDTH, height))


def test_equal_pictures_stand_side_by_side() -> None:
    pictures = [picture(3.0) for _ in range(4)]
    columns, wide = arrange(pictures)
    assert columns == (pictures[::2], pictures[1::2])
    assert not wide


def test_the_last_of_an_odd_number_takes_the_whole_width() -> None:
    pictures = [picture(3.0) for _ in range(3)]
    assert arrange(pictures) == (([pictures[0]], [pictures[1]]), [pictures[2]])
    assert arrange(pictures[:1]).wide == pictures[:1]
    assert arrange([]).wide == []


def test_two_low_pictures_stand_beside_a_high_one() -> None:
    high, *low = pictures = [picture(6.0), picture(2.5), picture(2.5)]
    assert arrange(pictures) == (([high], low), [])


def test_longer_texts_make_higher_cards() -> None:
    assert estimate_height(picture(3.0, "word " * 100)) > estimate_height(picture(3.0)) + 100


@given(st.lists(st.floats(1.0, 9.0), max_size=7))
def test_every_picture_is_shown_once_without_a_hole(heights: list[float]) -> None:
    pictures = [picture(height) for height in heights]
    (left, right), wide = arrange(pictures)
    assert sorted(map(id, (*left, *right, *wide))) == sorted(map(id, pictures))
    totals = [sum(map(estimate_height, column)) for column in (left, right)]
    assert abs(totals[0] - totals[1]) <= HOLE
