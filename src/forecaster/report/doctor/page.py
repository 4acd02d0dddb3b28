"""The HTML page of a checkup."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from forecaster.report.doctor.checkup import Checkup
from forecaster.report.html import render_template


@dataclass(frozen=True)
class Figure:
    """A figure of the page, as PNG."""

    png: bytes
    alternative: str  # for readers who cannot see it
    caption: str
    is_map: bool = False

    @property
    def content(self) -> str:
        """The PNG in base64."""
        return base64.b64encode(self.png).decode()


def render_checkup(
    title: str, checkup: Checkup, coverage: bytes, location_map: bytes | None
) -> str:
    """Render the checkup with its figures as PNG; all text from the data is escaped."""
    observed = checkup.facts["observed"]
    figures = [
        Figure(
            coverage,
            f"Heat map of locations over time: {observed} of the values are observed; missing and "
            "zero steps are coloured. Below it the sum of all locations over time.",
            "Rows: locations, the busiest on top. Columns: time.",
        )
    ]
    if location_map is not None:
        text = "Map of the locations, larger where the mean is higher."
        figures.append(Figure(location_map, text, "Locations by mean value per step.", True))
    return render_findings(title, "panel checkup", checkup, figures)


def render_findings(title: str, subject: str, checkup: Checkup, figures: Sequence[Figure]) -> str:
    """Render a page of findings.

    Args:
        title: the name of what was examined.
        subject: what the page is.
        checkup: verdict, facts and findings.
        figures: shown between facts and findings.
    """
    return render_template(
        "forecaster.report.doctor",
        "doctor.html",
        title=title,
        subject=subject,
        checkup=checkup,
        figures=figures,
    )
