"""The HTML page of a checkup."""

import base64

from forecaster.report.doctor.checkup import Checkup
from forecaster.report.html import render_template


def render_checkup(
    title: str, checkup: Checkup, coverage: bytes, location_map: bytes | None
) -> str:
    """Render the checkup with its figures as PNG; all text from the data is escaped."""
    return render_template(
        "forecaster.report.doctor",
        "doctor.html",
        title=title,
        checkup=checkup,
        coverage=base64.b64encode(coverage).decode(),
        location_map=base64.b64encode(location_map).decode() if location_map else "",
    )
