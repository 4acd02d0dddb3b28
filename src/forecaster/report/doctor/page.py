"""The page of a checkup."""

import base64

from forecaster.report.doctor.checkup import Checkup
from forecaster.report.html import render_template


def render_checkup(title: str, checkup: Checkup, picture: bytes, places: bytes | None) -> str:
    """Return the page with its pictures; everything that came with the data is escaped."""
    return render_template(
        "forecaster.report.doctor",
        "doctor.html",
        title=title,
        checkup=checkup,
        picture=base64.b64encode(picture).decode(),
        places=base64.b64encode(places).decode() if places else "",
    )
