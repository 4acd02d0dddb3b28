"""The HTML page of a checkup."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from forecaster.errors import need_extra
from forecaster.report.doctor.checkup import Checkup
from forecaster.report.draw.canvas import to_svg
from forecaster.report.draw.sample import describe_shown
from forecaster.report.draw.svg import inline_svg
from forecaster.report.html import render_template


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of the page."""

    name: str
    drawing: Any  # of matplotlib
    alternative: str  # for readers who cannot see it
    caption: str

    @cached_property
    def svg(self) -> str:
        """The figure as an element of the page, in the page's colours."""
        return inline_svg(to_svg(self.drawing, self.name), self.alternative)


def render_checkup(
    title: str,
    checkup: Checkup,
    coverage: Any,
    location_map: Any | None,
    counts: tuple[int, int] = (0, 0),
) -> str:
    """Render the checkup with its figures of matplotlib; all text from the data is escaped.

    Args:
        title: the name of the panel.
        checkup: verdict, facts and findings.
        coverage: the figure of observed values.
        location_map: the map; None: no location has coordinates.
        counts: of locations, and of those with coordinates.
    """
    locations, placed = counts
    sample = describe_shown(locations, "the most missing values")
    observed = checkup.facts["observed"]
    figures = [
        Figure(
            "coverage",
            coverage,
            f"Heat map of locations over time: {observed} of the values are observed; missing and "
            "zero steps are coloured. Below it the sum of all locations over time.",
            f"Rows: locations, the busiest on top. Columns: time. {sample}".rstrip(),
        )
    ]
    if location_map is not None:
        text = "Map of the locations, larger where the mean is higher."
        caption = f"Locations by mean value per step. {describe_shown(placed)}".rstrip()
        figures.append(Figure("places", location_map, text, caption))
    return render_findings(title, "panel checkup", checkup, figures)


def render_findings(title: str, subject: str, checkup: Checkup, figures: Sequence[Figure]) -> str:
    """Render a page of findings.

    Args:
        title: the name of what was examined.
        subject: what the page is.
        checkup: verdict, facts and findings.
        figures: shown between facts and findings.
    """
    markup = need_extra("markupsafe", extra="report")
    return render_template(
        "forecaster.report.doctor",
        "doctor.html",
        title=title,
        subject=subject,
        checkup=checkup,
        figures=[(markup.Markup(figure.svg), figure.caption) for figure in figures],
    )
