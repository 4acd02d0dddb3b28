"""Options that several commands share, and the parsing of their values."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from forecaster.choices import Ambiguous, Combine, Nonexistent
from forecaster.cli import terminal
from forecaster.errors import ConfigError, count_of

if TYPE_CHECKING:
    import pyarrow as pa

    from forecaster.config import Range
    from forecaster.databases.query import Query
    from forecaster.panel.panel import Panel
    from forecaster.pipeline.mlflow_record import MlflowRecord
    from forecaster.recipe import Recipe
    from forecaster.remote import RemoteFile

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Mlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        metavar="URI",
        help="Record recipe, metrics, verdict and files in MLflow: sqlite:///mlflow.db or the "
        "address of its server.",
    ),
]
Out = Annotated[Path, typer.Option(help="Output folder of the panel.")]
Zone = Annotated[str, typer.Option(help="IANA time zone of the data, e.g. America/New_York.")]
Country = Annotated[
    str | None, typer.Option(help="Country or region of the holidays, e.g. US or US-NY.")
]
Renames = Annotated[
    Path | None,
    typer.Option(help="Table old,new,from: places that were renamed, merged or split."),
]
DatabaseQuery = Annotated[
    str | None,
    typer.Option(
        "--query",
        help="What to read from a database: 'select …', or the name of a table. Passwords come "
        "from the environment, never from the address.",
    ),
]
Watermark = Annotated[
    str | None,
    typer.Option(
        help="Column of a database's rows that grows with what is new, such as updated_at: the "
        "next append reads from its largest value on."
    ),
]
AmbiguousTimes = Annotated[
    Ambiguous, typer.Option(help="Treatment of local times that occur twice (end of summer time).")
]
NonexistentTimes = Annotated[
    Nonexistent,
    typer.Option(help="Treatment of local times that do not exist (start of summer time)."),
]
CombineRows = Annotated[
    Combine | None,
    typer.Option(
        "--combine",
        help="Several rows of a location in one step: their sum, their mean, or the count of "
        "them. Default of run: as found.",
    ),
]
AbsentSteps = Annotated[
    Literal["null", "zero"] | None,
    typer.Option(
        "--gaps",
        help="Steps without a row: null (missing) or zero (nothing happened). Default: null; of "
        "run zero where each row is an event.",
    ),
]
LeaveOut = Annotated[
    str | None,
    typer.Option(
        help="Locations that are left out, e.g. total,other. Default of run: the sum of all "
        "others, if there is one; '' keeps it."
    ),
]
Hours = Annotated[
    str | None,
    typer.Option(
        help="Opening hours, such as 'Mon-Fri 05:00-23:00; PH off'. Default: those of the "
        "locations, or regular gaps; 'always': gaps are missing values."
    ),
]
RecipeData = Annotated[
    Path | None,
    typer.Option(envvar="FORECASTER_DATA", help="Folder of the files that the recipe names."),
]
Data = Annotated[
    Path, typer.Option(envvar="FORECASTER_DATA", help="Folder of the files that the recipe names.")
]
PanelFolder = Annotated[
    Path | None, typer.Option(help="Folder of the panel. Default: build it in OUT.")
]
At = Annotated[
    str | None,
    typer.Option(
        help="Forecast origin: the last observed step, with UTC offset, e.g. "
        "2014-06-01T08:00-04:00. Default: the last step of the panel."
    ),
]
Horizon = Annotated[
    str | None,
    typer.Option(
        help="How far ahead to forecast: 24h, 7d, 90min, 3 months or 12 steps. "
        "Default: the recipe's, or 3 steps."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a recipe value, e.g. training.epochs=3. Repeatable."),
]


def read_source(text: str, query: str | None) -> "Path | Query | RemoteFile":
    """Return the file of an argument, here or elsewhere, or the query of a database."""
    from forecaster.databases.connection import is_database
    from forecaster.databases.query import Query
    from forecaster.remote import RemoteFile, is_remote

    if is_database(text):
        return Query.parse(text, query)
    if query is not None:
        raise ConfigError(
            f"--query is for databases, and {text} is a file; leave it out, or give an address "
            "such as postgresql://user@host/database"
        )
    return RemoteFile.parse(text) if is_remote(text) else Path(text)


def read_since(
    sources: "Sequence[object]", column: str, about: Mapping[str, Any]
) -> "tuple[pa.Table, dict[str, Any]]":
    """Read a query from its watermark on; return its rows, and what a panel notes of it."""
    from forecaster.databases.query import Query

    if len(sources) != 1 or not isinstance(query := sources[0], Query):
        raise ConfigError("--watermark is for the rows of one database; give its address")
    rows, mark, noted = query.read_since(column, about)
    terminal.say(f"{count_of(rows.num_rows, 'row')} read of {query.name}: {mark}")
    return rows, noted


def name_source(source: "Path | Query | RemoteFile") -> str:
    """Return the name of a file, or the address of a remote one or a database, for a recipe."""
    from forecaster.databases.query import Query
    from forecaster.remote import RemoteFile, is_remote

    if isinstance(source, Path) and is_remote(source):
        return RemoteFile.parse(source).name
    return source.database.url if isinstance(source, Query) else source.name


def open_record(uri: str | None) -> "MlflowRecord | None":
    """Open the record of --mlflow, before anything is computed."""
    if uri is None:
        return None
    from forecaster.pipeline.mlflow_record import MlflowRecord

    return MlflowRecord(uri)


def open_panel(folder: Path) -> "Panel":
    """Open and verify a panel, with a progress bar."""
    from forecaster.panel.panel import Panel
    from forecaster.publish.manifest import read_manifest

    size = sum(file.size for file in read_manifest(folder).files.values())
    with terminal.progress(f"opening {folder.name}", size) as advance:
        return Panel.open(folder, progress=advance)


def last_step(panel: "Panel") -> str:
    """Print and return the last step of a panel in the form of --at."""
    from forecaster.panel.panel import local_texts

    origin = local_texts(panel, panel.times[-1:])[0]
    terminal.say(f"forecast origin: {origin}, the panel's last step; --at sets another")
    return origin


def with_settings(recipe: "Recipe", settings: list[str]) -> "Recipe":
    """Return the recipe with the values of --set, each given as `training.epochs=3`."""
    from forecaster.recipe import change

    values = [_read_setting(text) for text in settings]
    return change(recipe, *values, source="the recipe with --set") if values else recipe


def with_horizon(recipe: "Recipe", text: str | None, panel: Path | None = None) -> "Recipe":
    """Return the recipe with the horizon of --horizon.

    Args:
        recipe: whose panel has the steps, unless there is one.
        text: such as `24h`; None: the recipe's own.
        panel: the folder of a panel.
    """
    if text is None:
        return recipe
    from forecaster.clock.horizon import read_horizon
    from forecaster.panel.axis import clock_of
    from forecaster.panel.panel import Panel
    from forecaster.recipe import change

    clock = clock_of(recipe.panel)
    if panel is not None:
        clock = Panel.open(panel, verify=False).clock
    steps = read_horizon(text, clock)
    return change(recipe, {"lags": {"horizon": steps}}, source="the recipe with --horizon")


def _read_setting(text: str) -> dict[str, Any]:
    """Parse a setting as TOML; other values are strings, since shells remove quotes."""
    key, equals, value = text.partition("=")
    for line in (text, f"{key}{equals}{json.dumps(value.strip(), ensure_ascii=False)}"):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(line)
    example = "give section.key=value, as in training.epochs=3 or graph.kind=own"
    raise ConfigError(f"--set {text}: not a key and a value; {example}")


def split_commas(text: str | None) -> list[str]:
    """Return the items of a comma-separated list."""
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def read_choices(text: str | None, allowed: Sequence[T], option: str) -> list[T]:
    """Return the items of a comma-separated list, all of which must be allowed."""
    items = split_commas(text)
    unknown = [item for item in items if item not in allowed]
    if unknown:
        names = ", ".join(map(str, allowed))
        raise ConfigError(f"{option}: unknown {', '.join(unknown)}; choose from {names}")
    return [choice for item in items for choice in allowed if choice == item]


def read_integers(text: str | None, option: str) -> list[int]:
    """Return a comma-separated list of integers."""
    try:
        return [int(item) for item in split_commas(text)]
    except ValueError as error:
        raise ConfigError(
            f"{option}: {text!r} are not integers; give a comma-separated list of integers"
        ) from error


def read_numbers(text: str | None, option: str) -> list[float]:
    """Return a comma-separated list of numbers."""
    try:
        return [float(item) for item in split_commas(text)]
    except ValueError as error:
        raise ConfigError(
            f"{option}: {text!r} are not numbers; give a comma-separated list of numbers"
        ) from error


def read_days(text: str | None, option: str) -> "tuple[Range, ...]":
    """Return the date ranges of `FROM:TO,FROM:TO`."""
    pairs = [tuple(item.split(":")) for item in split_commas(text)]
    try:
        days = [[date.fromisoformat(day).isoformat() for day in pair] for pair in pairs]
        return tuple((first, last) for first, last in days)
    except ValueError as error:
        example = "give date ranges, as in 2020-03-01:2020-12-31"
        raise ConfigError(f"{option}: {text!r} are not date ranges; {example}") from error
