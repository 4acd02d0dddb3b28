"""Pictures inside a page: they take its colours and its font, in the light and in the dark."""

import re
from xml.etree import ElementTree

from forecaster.report.draw.canvas import BLUE, BUSY, FAINT, GREEN, INK, MISSING, ORANGE

# What a picture draws in, and the page's variable for it.
COLOURS = {
    INK: "ink", FAINT: "axis", "#ffffff": "card", BLUE: "blue", ORANGE: "orange", GREEN: "green",
    BUSY: "teal", MISSING: "red",
}  # fmt: skip
KNOWN_COLOUR = re.compile("|".join(COLOURS))
FONT = re.compile(r"font-family: [^;]*;? ?")
LINK = "{http://www.w3.org/1999/xlink}href"
LEFT_OUT = ("metadata", "style")


def inline_svg(svg: bytes, words: str) -> str:
    """Return a picture as a part of a page.

    Args:
        svg: the picture as a file.
        words: what it shows, for those who cannot see it.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 (drawn here)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in LEFT_OUT]:
            parent.remove(child)
    for element in root.iter():
        _adapt(element)
    root.attrib = {"role": "img", "aria-label": words, "viewBox": root.attrib["viewBox"]}
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(element: ElementTree.Element) -> None:
    """Leave to the page what belongs to it: names of groups, colours, fonts, line breaks."""
    given, element.tail = element.attrib, None
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    if element.tag == "g":
        given.pop("id", None)
    if LINK in given:
        given["href"] = given.pop(LINK)
    if "d" in given:
        given["d"] = given["d"].replace("\n", "")
    if "style" in given:
        styled = FONT.sub("", given["style"])
        given["style"] = KNOWN_COLOUR.sub(lambda found: f"var(--{COLOURS[found[0]]})", styled)
