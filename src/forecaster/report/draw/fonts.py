"""Fonts for names in any script: those that are installed, or the codes of letters none has."""

import contextlib
import logging
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

LOG = logging.getLogger(__name__)
MOST_CODES = 4  # letters of a name that are written by their codes
# Packages of Debian and Ubuntu by the first word of a letter's Unicode name.
PACKAGES = dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"), "fonts-noto-cjk")
OTHER_PACKAGE = "fonts-noto-core"
# Families that are tried first: made for many scripts, and without ornaments.
BOXES = "LastResort"  # a font that comes with matplotlib: a box for each script
BROAD = ("Noto Sans CJK", "Noto Sans", "Source Han", "WenQuanYi", "Droid", "Unifont", "FreeSans")


def use_fitting_fonts(figure: Any) -> None:
    """Give each text of a figure further fonts for the letters that its own lacks."""
    for text in _foreign_texts(figure):
        text.set_fontfamily(_with_further(text.get_fontfamily(), text.get_text()))
    for axis, labels in _foreign_axes(figure):
        families = axis.get_ticklabels()[0].get_fontfamily()
        axis.set_tick_params(labelfontfamily=_with_further(families, labels))


@contextlib.contextmanager
def readable_texts(figure: Any) -> Iterator[None]:
    """Write letters that no installed font has by their codes, while a picture is made of dots."""
    with contextlib.ExitStack() as restored:
        for text in _foreign_texts(figure):
            written, lacking = text.get_text(), _lacking(text, text.get_text())
            if lacking:
                text.set_text(_coded(written, lacking))
                restored.callback(text.set_text, written)
        for axis, labels in _foreign_axes(figure):
            lacking = _lacking(axis.get_ticklabels()[0], labels)
            if lacking:
                named = axis.get_major_formatter()
                axis.set_major_formatter(
                    lambda at, n, named=named, lacking=lacking: _coded(named(at, n), lacking)
                )
                restored.callback(axis.set_major_formatter, named)
        yield


def _with_further(families: list[str], text: str) -> list[str]:
    """Return font families, and those that have the letters which these lack."""
    further = map(_family_with, missing_letters(text, families))
    return [*families, *dict.fromkeys(name for name in further if name)]


def _lacking(text: Any, written: str) -> list[str]:
    """Return the letters that no font of a text has, and tell what to install."""
    lacking = missing_letters(written, text.get_fontfamily())
    for letter in lacking[:1]:
        _tell(_package(letter))
    return lacking


def missing_letters(text: str, families: list[str]) -> list[str]:
    """Return the letters of a text that none of the font families has."""
    maps = _letters_of(tuple(families))
    return [
        letter
        for letter in dict.fromkeys(text)
        if not letter.isascii() and letter.isprintable() and ord(letter) not in maps
    ]


def _foreign_texts(figure: Any) -> list[Any]:
    """Return the texts of a figure with letters outside ASCII."""
    from matplotlib.text import Text  # noqa: PLC0415 (an extra)

    return [text for text in figure.findobj(Text) if not text.get_text().isascii()]


def _foreign_axes(figure: Any) -> list[tuple[Any, str]]:
    """Return the axes whose labels have letters outside ASCII, and these labels.

    An axis writes its labels anew whenever it is drawn, so that each has to be told.
    """
    labelled = [
        (axis, "".join(label.get_text() for label in axis.get_ticklabels()))
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
    ]
    return [(axis, labels) for axis, labels in labelled if not labels.isascii()]


@cache
def _letters_of(families: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that font families have together."""
    from matplotlib.font_manager import FontProperties, findfont  # noqa: PLC0415 (an extra)

    return frozenset[int]().union(
        *(_charmap(findfont(FontProperties(family=[name]))) for name in families)
    )


@cache
def _charmap(path: str) -> frozenset[int]:
    """Return the code points that a font file has; none if it cannot be read."""
    from matplotlib.font_manager import get_font  # noqa: PLC0415 (an extra)

    try:
        return frozenset(get_font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _family_with(letter: str) -> str | None:
    """Return an installed font family that has a letter, a broad one if possible; else None."""
    for name, path in _installed():
        if ord(letter) in _charmap(path):
            return name
    return None


def _installed() -> list[tuple[str, str]]:
    """Return families and files of the installed fonts, broad ones first."""
    from matplotlib.font_manager import fontManager  # noqa: PLC0415 (an extra)

    def rank(font: Any) -> tuple[int, str, str]:
        broad = [n for n, start in enumerate(BROAD) if font.name.startswith(start)]
        style = f"{font.style}{font.weight}" != "normal400"
        return (min(broad, default=len(BROAD)), f"{style} {font.name}", font.fname)

    fonts = sorted(fontManager.ttflist, key=rank)
    return [
        (font.name, font.fname)
        for font in fonts
        if Path(font.fname).suffix != ".afm" and not Path(font.fname).name.startswith(BOXES)
    ]


def _coded(text: str, lacking: list[str]) -> str:
    """Write the letters that are lacking by their codes: `東京 2` is `U+6771 U+4EAC 2`."""
    codes, coded = 0, ""
    for letter in text:
        if letter not in lacking:
            coded += letter
        elif codes < MOST_CODES:
            codes += 1
            coded += f"{'' if coded.endswith(' ') or not coded else ' '}U+{ord(letter):04X}"
        elif not coded.endswith("…"):
            coded += "…"
    return coded


def _package(letter: str) -> str:
    return PACKAGES.get(unicodedata.name(letter, "").split(" ")[0], OTHER_PACKAGE)


@cache
def _tell(package: str) -> None:
    """Say once, for each package of fonts, how the names in pictures become readable."""
    LOG.warning(
        "PNG pictures write codes such as U+6771 for letters of names that no installed font has; "
        "install one, such as the package %s of Debian and Ubuntu, or open the page in a browser",
        package,
    )
