from forecaster.report.draw.canvas import new_figure
from forecaster.report.sections.section import Picture


def test_a_picture_says_what_it_is_and_what_is_to_be_seen() -> None:
    picture = Picture("01-x", "X", "It rises.", "Line of x", new_figure(2.0, 1.0))
    assert picture.alternative == "Line of x. It rises."
    assert picture.png.startswith(b"\x89PNG")
    assert picture.svg is picture.svg  # drawn once, for the page and for the file
