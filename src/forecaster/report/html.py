"""Rendering of templates to self-contained HTML pages."""

from importlib.resources import files
from typing import Any

from forecaster.errors import need_extra, visible


def render_template(package: str, name: str, **content: Any) -> str:
    """Render a template of a package; all values are escaped, and visible."""
    jinja2 = need_extra("jinja2", extra="report")
    template = files(package).joinpath(name).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=_to_visible,
    )  # fmt: skip
    page: str = environment.from_string(template).render(**content)
    return page


def _to_visible(value: Any) -> Any:
    """Return a text without hidden characters; what is markup already stays."""
    return visible(value) if type(value) is str else value
