"""What a page shows: figures with what to see in them, by section."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from forecaster.report.draw.canvas import PAPER_DPI, to_png, to_svg
from forecaster.report.tables import Sheet


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with what to see in it."""

    name: str  # of its files
    title: str
    text: str  # what to see, computed from the data
    kind: str  # what it is, for those who cannot see it
    figure: Any

    @property
    def words(self) -> str:
        """The text alternative."""
        return f"{self.kind}. {self.text}"

    @cached_property
    def svg(self) -> bytes:
        """The figure as an SVG file."""
        return to_svg(self.figure, self.name)

    @cached_property
    def png(self) -> bytes:
        """The figure as a PNG file."""
        return to_png(self.figure, PAPER_DPI)


@dataclass(frozen=True, eq=False)
class Section:
    """Pictures that belong together, and what else is known of them."""

    name: str
    title: str
    text: str
    pictures: Sequence[Picture]
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by title and topic
    table: Sheet | None = None
