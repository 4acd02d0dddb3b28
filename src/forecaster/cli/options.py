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
Data = Annotated[
    Path, typer.Option(envvar="FORECASTER_DATA", help="Folder with the files that a recipe names.")
]
