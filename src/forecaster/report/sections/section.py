"""Pictures with their text, and sections of pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from forecaster.report.draw.canvas import PAPER_DPI, to_png, to_svg
from forecaster.report.tables import HtmlTable


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its title and one or two sentences on its content."""

    name: str  # of its files
    title: str
    text: str  # the main result, computed from the data
    kind: str  # type and axes of the figure, for the text alternative
    figure: Any  # of matplotlib

    @property
    def alternative(self) -> str:
        """The text alternative for readers who cannot see the figure."""
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
    """Pictures on one topic, with a table and facts."""

    name: str  # the anchor in the page
    title: str
    text: str
    pictures: Sequence[Picture]
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by title and topic
    table: HtmlTable | None = None
    summary: str = ""  # the main result in a sentence; a section with it can be folded
