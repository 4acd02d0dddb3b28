"""Examining a panel: doctor."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json, open_panel
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.panel.panel import Panel
    from forecaster.report.doctor.checkup import Checkup

VALUES_PER_SECOND = 10e6  # examining, measured on one core


def doctor(
    panel: Annotated[Path, typer.Argument(help="The folder of a panel.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the page and the pictures; else NAME-doctor."),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe with the lags and the MAPE cut; else the panel's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what to know of a panel before trusting it, with a picture."""
    from forecaster.panel.panel import saved_recipe
    from forecaster.recipe import Recipe, read_recipe

    rules = read_recipe(recipe) if recipe else saved_recipe(panel) or Recipe()
    data = open_panel(panel)
    checkup = _examine(data, rules)
    if as_json:
        print(json.dumps(checkup.to_json(), ensure_ascii=False))
    else:
        terminal.print_checkup(panel.resolve().name, checkup)
    target = out or Path(f"{panel.resolve().name}-doctor")
    if out or not as_json:
        write_checkup(target, panel.resolve().name, data, checkup)


def _examine(panel: "Panel", recipe: Any) -> "Checkup":
    from forecaster.report.doctor.checkup import examine

    terminal.announce(
        panel.values.size / VALUES_PER_SECOND, 3 * panel.values.nbytes, "the checkup"
    )
    with terminal.progress("examining", panel.values.shape[1]) as advance:
        return examine(panel, recipe, advance)


def write_checkup(folder: Path, name: str, panel: "Panel", checkup: "Checkup") -> Path | None:
    """Write the page and the picture; without the extra say in one line what is lacking."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.doctor.coverage import draw_coverage, draw_location_map
    from forecaster.report.doctor.page import render_checkup

    try:
        picture, places = draw_coverage(panel), draw_location_map(panel)
        page = render_checkup(name, checkup, picture, places)
    except ConfigError as lacking:
        print(f"no page and no picture: {lacking}", file=sys.stderr)
        return None
    replace_file(folder / "doctor.png", bytes_writer(picture))
    if places is not None:
        replace_file(folder / "places.png", bytes_writer(places))
    replace_file(folder / "doctor.html", bytes_writer(page.encode()))
    if not terminal.MODE.quiet:
        print(
            f"page: {folder / 'doctor.html'}   picture: {folder / 'doctor.png'}", file=sys.stderr
        )
    return folder / "doctor.html"
