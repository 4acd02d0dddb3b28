from xml.etree import ElementTree

from forecaster.report.draw.canvas import BLUE, INK, new_figure, to_svg
from forecaster.report.draw.svg import inline_svg

HARM = "<script>alert(1)</script> & #0072b2"


def inlined(words: str = "What it shows") -> str:
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    axes.plot([1, 3, 2], color=BLUE)
    axes.set_title(HARM, color=INK, parse_math=False)
    return inline_svg(to_svg(figure, "a"), words)


def test_a_picture_takes_the_colours_and_the_font_of_its_page() -> None:
    drawing = inlined()
    assert "stroke: var(--blue)" in drawing
    assert "fill: var(--ink)" in drawing
    assert "fill: var(--card)" in drawing
    assert BLUE not in drawing.replace("#0072b2</text>", "")  # but for the title's own letters
    assert "font-family" not in drawing


def test_a_picture_asks_for_nothing_and_rules_nothing_outside_itself() -> None:
    drawing = inlined()
    assert "http" not in drawing
    assert "<style" not in drawing
    assert '<g id="' not in drawing  # figure_1, axes_1 … would be there once for each picture
    assert 'href="#' in drawing  # marks are still found


def test_what_came_with_the_data_is_escaped() -> None:
    drawing = inlined('"><b>')
    assert "<script>" not in drawing
    assert "<b>" not in drawing
    root = ElementTree.fromstring(drawing)  # noqa: S314 (drawn here)
    assert root.attrib["aria-label"] == '"><b>'
    assert HARM in [text.text for text in root.iter("text")]
