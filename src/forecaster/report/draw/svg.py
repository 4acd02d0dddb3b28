"""SVG figures inside a page, with the colours and the font of the page in light and dark."""

import re
from xml.etree import ElementTree

from forecaster.report.draw.canvas import BLUE, BUSY, FAINT, GREEN, INK, MISSING, ORANGE, WIDTH

# Colours of the figures, and the page's CSS variables for them.
COLOURS = {
    INK: "ink", FAINT: "axis", "#ffffff": "card", BLUE: "blue", ORANGE: "orange", GREEN: "green",
    BUSY: "teal", MISSING: "red",
}  # fmt: skip
COLOUR = re.compile("|".join(COLOURS))
FONT = re.compile(r"font-family: [^;]*;? ?")
LINK = "{http://www.w3.org/1999/xlink}href"
POINTS_PER_INCH = 72
REMOVED = ("metadata", "style")


def inline_svg(svg: bytes, alternative: str) -> str:
    """Return a figure as an element of a page.

    Args:
        svg: the bytes of an SVG file.
        alternative: the text for readers who cannot see it.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 (drawn here)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in REMOVED]:
            parent.remove(child)
    for element in root.iter():
        _adapt(element)
    box = root.attrib["viewBox"]
    width = float(box.split()[2]) / POINTS_PER_INCH / WIDTH  # of a column
    root.attrib = {"role": "img", "aria-label": alternative, "viewBox": box}
    root.attrib["style"] = f"max-width: {round(100 * min(width, 1))}%"
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(element: ElementTree.Element) -> None:
    """Remove ids, fonts and line breaks, and replace colours by the page's variables."""
    attributes, element.tail = element.attrib, None
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    if element.tag == "g":
        attributes.pop("id", None)
    if LINK in attributes:
        attributes["href"] = attributes.pop(LINK)
    if "d" in attributes:
        attributes["d"] = attributes["d"].replace("\n", "")
    if "style" in attributes:
        styled = FONT.sub("", attributes["style"])
        attributes["style"] = COLOUR.sub(lambda match: f"var(--{COLOURS[match[0]]})", styled)
