"""The arrangement of pictures in two columns of about the same height, without holes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from forecaster.report.draw.canvas import WIDTH
from forecaster.report.sections.section import Picture

COLUMN = 520.0  # pixels inside a card of a wide window
LETTERS = 72  # of a line of text there
LINE, FRAME = 23.0, 60.0  # pixels of a line; of a card without its content
HOLE = 150.0  # pixels by which columns may differ: their last cards are stretched


class Arrangement(NamedTuple):
    """Two columns of pictures, and those below them that take the whole width."""

    columns: tuple[list[Picture], list[Picture]]
    wide: list[Picture]


def arrange(pictures: Sequence[Picture]) -> Arrangement:
    """Put each picture into the shorter column, and the last ones below if columns then fit."""
    for count in range(len(pictures), 1, -1):
        columns = _fill(pictures[:count])
        if abs(_height(columns[0]) - _height(columns[1])) <= HOLE:
            return Arrangement(columns, list(pictures[count:]))
    return Arrangement(([], []), list(pictures))


def estimate_height(picture: Picture) -> float:
    """Return the approximate height of a picture's card, in pixels of a wide window."""
    width, height = picture.figure.get_size_inches()
    lines = max(math.ceil(len(picture.text) / LETTERS), 1)
    return float(FRAME + LINE * lines + COLUMN / max(width, WIDTH) * height)


def _fill(pictures: Sequence[Picture]) -> tuple[list[Picture], list[Picture]]:
    left: list[Picture] = []
    right: list[Picture] = []
    for picture in pictures:
        (left if _height(left) <= _height(right) else right).append(picture)
    return left, right


def _height(column: Sequence[Picture]) -> float:
    return sum(map(estimate_height, column), start=0.0)
