"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print data instead of words.")]
Weather = Literal["observed", "persist", "climatology", "none"]
Engine = Literal["duckdb", "spark"]
Kind = Literal["count", "measurement"]
Ambiguous = Literal["null", "split"]
Nonexistent = Literal["refuse", "null", "next"]

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
