"""What the site does to every page: equations become MathML, SVG figures become part of the page.

Both need nothing from elsewhere, at build or at view.
"""

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

MATH = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\(?:\(|\[)(?P<latex>.*?)\\(?:\)|\])\s*</(?P=tag)>',
    re.DOTALL,
)
IMAGE = re.compile(r'<p><img alt="(?P<alt>[^"]*)" src="(?P<src>[^"]+\.svg)"\s*/?></p>')
STYLE = re.compile(r"<style>.*?</style>\s*", re.DOTALL)
CDN = re.compile(r"https://unpkg\.com/[\w@./-]+")  # scripts that the theme would load on demand


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page with MathML for LaTeX and with its SVG figures inline.

    Inline, the figures follow the reader's choice of a light or dark page; their own styles are
    for readers outside the site.
    """
    folder = Path(config["docs_dir"]) / Path(page.file.src_uri).parent

    def figure(match: re.Match[str]) -> str:
        svg = STYLE.sub("", (folder / match["src"]).read_text(encoding="utf-8"))
        opening = f'<svg role="img" aria-label="{escape(unescape(match["alt"]))}" '
        return f'<figure class="figure">{svg.replace("<svg ", opening, 1)}</figure>'

    return IMAGE.sub(figure, MATH.sub(_mathml, html))


def on_post_build(config: Any, **_: Any) -> None:
    """Removes addresses of scripts that the theme would fetch from elsewhere on demand."""
    for script in (Path(config["site_dir"]) / "assets" / "javascripts").glob("bundle.*.min.js"):
        script.write_text(CDN.sub("", script.read_text(encoding="utf-8")), encoding="utf-8")


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match["tag"] == "div" else "inline"
    return convert(unescape(match["latex"].strip()), display=display)
