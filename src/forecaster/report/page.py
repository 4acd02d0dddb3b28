"""The checkup as one HTML file that needs nothing else."""

import base64
from importlib.resources import files

from forecaster.errors import need_extra
from forecaster.report.doctor import Checkup


def render_checkup(title: str, checkup: Checkup, picture: bytes, places: bytes | None) -> str:
    """Return the page with its pictures; everything that came with the data is escaped."""
    jinja2 = need_extra("jinja2", extra="report")
    template = files("forecaster.report").joinpath("doctor.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    page: str = environment.from_string(template).render(
        title=title,
        checkup=checkup,
        picture=base64.b64encode(picture).decode(),
        places=base64.b64encode(places).decode() if places else "",
    )
    return page
