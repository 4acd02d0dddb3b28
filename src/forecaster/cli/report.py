"""Reporting on a comparison: report."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli import screen
from forecaster.errors import need_extra


def report(
    comparison: Annotated[
        Path, typer.Argument(help="The folder of `evaluate` or `run`, or one of its table.json.")
    ],
    panel: Annotated[
        Path | None, typer.Option(help="The folder of its panel; else COMPARISON/panel.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the figures; else COMPARISON/figures.")
    ] = None,
) -> None:
    """Write one page about a comparison, and its figures as PNG and SVG."""
    print(write_report(comparison, panel, figures))


def write_report(comparison: Path, panel: Path | None = None, figures: Path | None = None) -> Path:
    """Write the page and the figures of a comparison; return the path of the page."""
    for module in ("jinja2", "matplotlib"):  # what is lacking is said before anything is done
        need_extra(module, extra="report")
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.comparison import make_sections, render_comparison
    from forecaster.report.data import read_material

    with screen.stages() as (say, _):
        say("reading the comparison")
        material = read_material(comparison, panel)
        sections = make_sections(material, say)
        say("writing the page and the figures")
        folder = figures or material.folder / f"figures{material.suffix}"
        for picture in (one for section in sections for one in section.pictures):
            replace_file(folder / f"{picture.name}.svg", bytes_writer(picture.svg))
            replace_file(folder / f"{picture.name}.png", bytes_writer(picture.png))
        page = material.folder / f"report{material.suffix}.html"
        replace_file(page, bytes_writer(render_comparison(material, sections).encode()))
    screen.say(f"figures: {folder}")
    return page
