"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.choices import Ambiguous, Nonexistent
from forecaster.cli import terminal

if TYPE_CHECKING:
    from forecaster.panel.panel import Panel

Json = Annotated[bool, typer.Option("--json", help="Print data instead of words.")]

Out = Annotated[Path, typer.Option(help="Folder of the panel to write.")]
Zone = Annotated[str, typer.Option(help="IANA time zone of the place, as in America/New_York.")]
Country = Annotated[str | None, typer.Option(help="Whose holidays to record: US, US-NY, …")]
Twice = Annotated[Ambiguous, typer.Option(help="Local times that the clock shows twice.")]
Never = Annotated[Nonexistent, typer.Option(help="Values at local times that it never shows.")]
RecipeData = Annotated[
    Path | None,
    typer.Option(envvar="FORECASTER_DATA", help="Folder with the files the recipe names."),
]
PanelFolder = Annotated[
    Path | None, typer.Option(help="The folder of a panel; else it is built into OUT.")
]
At = Annotated[
    str | None,
    typer.Option(
        help="Last observed step with its offset, 2014-06-01T08:00-04:00; else the panel's last."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another value than the recipe's, training.epochs=3; repeat."),
]
Data = Annotated[
    Path, typer.Option(envvar="FORECASTER_DATA", help="Folder with the files that a recipe names.")
]


def open_panel(folder: Path) -> "Panel":
    """Open a panel, verified, with a bar that shows how far that is."""
    from forecaster.panel.panel import Panel
    from forecaster.publish.manifest import read_manifest

    size = sum(file.size for file in read_manifest(folder).files.values())
    with terminal.progress(f"opening {folder.name}", size) as advance:
        return Panel.open(folder, progress=advance)


def tell_last_step(panel: "Panel") -> str:
    """Return the last step of a panel as --at takes it, and say which it is."""
    from forecaster.panel.panel import local_texts

    last = local_texts(panel, panel.times[-1:])[0]
    terminal.say(f"from the panel's last step, {last}; --at takes another")
    return last
