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

VALUES_PER_SECOND = 4e6  # measured on one core; used only for estimates


def doctor(
    panel: Annotated[Path, typer.Argument(help="Folder of the panel.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report and its figures. Default: PANEL-doctor, beside it."
        ),
    ] = None,
    recipe_file: Annotated[
        Path | None,
        typer.Option(
            "--recipe", help="Recipe with the lags and the MAPE threshold. Default: the panel's."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Examine a panel for problems in its data, and write a report with figures."""
    from forecaster.panel.panel import saved_recipe
    from forecaster.recipe import Recipe, read_recipe

    recipe = read_recipe(recipe_file) if recipe_file else saved_recipe(panel) or Recipe()
    data = open_panel(panel)
    checkup = _examine(data, recipe)
    if as_json:
        print(json.dumps(checkup.to_json(), ensure_ascii=False))
    else:
        terminal.print_checkup(panel.resolve().name, checkup)
    target = out or panel.resolve().with_name(f"{panel.resolve().name}-doctor")
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
    """Write the report and its figures; without the extra `report` only print a message."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.remaining import track
    from forecaster.report.doctor.coverage import draw_coverage
    from forecaster.report.doctor.page import render_checkup
    from forecaster.report.draw.canvas import PAPER_DPI, to_png
    from forecaster.report.draw.maps import map_locations

    draw = {"doctor.png": draw_coverage, "places.png": map_locations}
    pictures, files = dict[str, Any](), dict[str, bytes]()
    try:
        with terminal.stages() as (begin, _):
            for file in track(list(draw), "picture", begin):
                pictures[file] = draw[file](panel)
                if pictures[file] is not None:
                    files[file] = to_png(pictures[file], PAPER_DPI)
            drawn = pictures["doctor.png"], pictures["places.png"]
            counts = len(panel.locations), int(panel.locations.placed.sum())
            page = render_checkup(name, checkup, *drawn, counts)
    except ConfigError as missing_extra:
        print(f"no report and no figures: {missing_extra}", file=sys.stderr)
        return None
    for file, content in files.items():
        replace_file(folder / file, bytes_writer(content))
    replace_file(folder / "doctor.html", bytes_writer(page.encode()))
    if not terminal.MODE.quiet:
        print(
            f"report: {folder / 'doctor.html'}   figure: {folder / 'doctor.png'}", file=sys.stderr
        )
    return folder / "doctor.html"
