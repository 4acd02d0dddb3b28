"""New data of a panel: append."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import (
    DatabaseQuery,
    Json,
    Watermark,
    read_since,
    read_source,
    split_commas,
)
from forecaster.cli.run import Columns, Dates, Decimal, Missing
from forecaster.errors import ConfigError, count_of, name_some

if TYPE_CHECKING:
    from forecaster.ingest.build import Sources
    from forecaster.panel.append import Appended
    from forecaster.panel.panel import Panel

SHORT = 12  # digits of a hash
STORES = "stores"  # in a panel's manifest: when what was appended of each was received


def append(  # noqa: PLR0913, PLR0917 (one option each)
    panel: Annotated[Path, typer.Argument(metavar="PANEL", help="Folder of the panel.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="New tables or trips, as those that the panel was made of; or the address of a "
            "database.",
        ),
    ] = None,
    weather: Annotated[
        Path | None, typer.Option(help="New reports of the panel's weather station.")
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(help="Table of covariates of all locations, with `known_at` or without."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Store of a service: what it has received since. It may be running."),
    ] = None,
    revise: Annotated[
        bool,
        typer.Option("--revise", help="Values that the panel has may change; they are counted."),
    ] = False,
    locations: Annotated[
        Path | None,
        typer.Option(help="Table of new locations; of trips the candidates, as at first."),
    ] = None,
    renames: Annotated[
        Path | None, typer.Option(help="Table old,new,from: places of the data renamed since.")
    ] = None,
    query: DatabaseQuery = None,
    watermark: Watermark = None,
    covers: Annotated[
        str | None, typer.Option(help="FROM:TO, the days for which files of trips are complete.")
    ] = None,
    columns: Columns = None,
    missing: Missing = None,
    decimal: Decimal = None,
    dates: Dates = None,
    as_json: Json = False,
) -> None:
    """Append new data to a panel, as a new version. The same data again changes nothing.

    Values that the panel has may not change, unless --revise is given. Earlier versions stay
    readable. Examples:

    forecaster append panel june.csv

    forecaster append panel june.csv --weather june-weather.csv

    forecaster append panel yellow_tripdata_2020-06.parquet --locations zones.csv

    forecaster append panel --store panel.sqlite --revise

    forecaster append panel postgresql://user@host/db --query sales --watermark updated_at
    """
    from forecaster.ingest.build import Sources
    from forecaster.panel.panel import Panel

    files = [read_source(text, query) for text in data or []]
    sources = Sources(files, locations, weather, renames, covariates)
    before = Panel.open(panel, verify=False)
    if store is not None:
        if files or sources.tables:
            raise ConfigError(
                "--store: what a service received is appended alone; leave out files"
            )
        appended = _append_store(panel, before, store, revise)
    else:
        settings: dict[str, dict[str, Any]] = {
            "table": {
                "columns": columns, "missing": split_commas(missing), "decimal": decimal,
                "dates": dates,
            },
            "trips": {"covers": covers},
        }  # fmt: skip
        sources, about = _read_since(panel, sources, watermark)
        appended = _append_files(panel, before, sources, settings, revise, about)
    after = Panel.open(panel, verify=False)
    if as_json:
        described = {"before": before.digest, "version": after.digest, "shape": after.shape}
        print(json.dumps({"panel": str(panel), **described, **asdict(appended)}))
    else:
        _print_appended(panel, before, after, appended)


def _read_since(
    folder: Path, sources: "Sources", column: str | None
) -> "tuple[Sources, dict[str, Any]]":
    """Read a query from its watermark on; return its rows, and what the panel notes of it."""
    from forecaster.publish.manifest import read_manifest

    if column is None:
        return sources, {}
    rows, about = read_since(sources.values, column, read_manifest(folder).about)
    return replace(sources, values=[rows] if rows.num_rows else []), about


def _append_files(
    folder: Path,
    panel: "Panel",
    sources: "Sources",
    settings: dict[str, dict[str, Any]],
    revise: bool,
    about: dict[str, Any],
) -> "Appended":
    """Append the data of files, read as those that the panel was made of."""
    from forecaster.ingest.newer import newer_recipe, read_newer
    from forecaster.panel.append import Appended, append_panel
    from forecaster.panel.panel import saved_recipe

    saved = saved_recipe(folder)
    is_trips = saved is not None and saved.trips is not None
    if about and is_trips:
        raise ConfigError(
            "--watermark: trips are counted by whole hours; leave it out, narrow --query, and "
            "give --covers"
        )
    if about and not (sources.values or sources.tables):
        return Appended()
    _refuse_missing(sources)
    section = "trips" if is_trips else "table"
    chosen = {name: value for name, value in settings[section].items() if value}
    others = [n for part in settings if part != section for n, v in settings[part].items() if v]
    if others:
        options = ", ".join(f"--{name}" for name in others)
        raise ConfigError(f"{options}: {folder} was made of {section}; leave {options} out")
    recipe = newer_recipe(panel, saved, {section: chosen} if chosen else None)
    paths = [*sources.files, *sources.tables]
    with terminal.stages(sum(path.stat().st_size for path in paths)) as (say, advance):
        newer = read_newer(panel, recipe, sources, say=say, progress=advance)
        say("appending")
        return append_panel(folder, newer, revised=revise, about=about)[1]


def _append_store(folder: Path, panel: "Panel", store: Path, revise: bool) -> "Appended":
    """Append what a service has received since this was done last."""
    from forecaster.panel.append import Appended, append_panel
    from forecaster.publish.manifest import read_manifest
    from forecaster.serve.data.export import read_store

    marks = read_manifest(folder).about.get(STORES, {})
    with terminal.stages() as (say, _):
        say(f"reading {store.name}")
        stored = read_store(store, panel, since=int(marks.get(store.name, 0)))
        if stored is None:
            return Appended()
        say("appending")
        about = {STORES: {**marks, store.name: stored.received}}
        appended = append_panel(
            folder, stored.panel, revised=revise, withdrawn=stored.withdrawn, about=about
        )[1]
    if stored.unfinished:
        terminal.say(
            f"{count_of(stored.unfinished, 'value')} received before their step was over: left out"
        )
    return appended


def _refuse_missing(sources: "Sources") -> None:
    if not sources.values and not sources.tables:
        raise ConfigError(
            "nothing to append; give tables or trips, --weather, --covariates or --store"
        )
    if absent := [str(path) for path in (*sources.files, *sources.tables) if not path.is_file()]:
        raise ConfigError(f"{name_some(absent)}: no such file; give files with new data")


def _print_appended(folder: Path, before: "Panel", after: "Panel", appended: "Appended") -> None:
    """Print what is new, what has changed, and the version."""
    if not appended:
        noted = "stays" if after.digest == before.digest else "notes up to where was read"
        terminal.show(f"{folder}: nothing new; version {(after.digest or '')[:SHORT]} {noted}")
        return
    terminal.show(f"{folder}: {_describe_new(before, after, appended)}")
    changed = f"{appended.filled:,} missing filled, {appended.revised:,} revised"
    terminal.show(f"{changed}, {appended.withdrawn:,} withdrawn{_name(appended.first_revised)}")
    M, N = after.shape
    size = f"{count_of(M, 'step')} × {count_of(N, 'location')}"
    versions = f"{(after.digest or '')[:SHORT]}, before {(before.digest or '')[:SHORT]}"
    terminal.show(f"version {versions}: {size}")


def _describe_new(before: "Panel", after: "Panel", appended: "Appended") -> str:
    from forecaster.panel.panel import local_texts

    text = f"{count_of(appended.steps, 'step')} more"
    if appended.steps:
        ends = local_texts(after, after.times[[before.shape[0], -1]])
        text += f" ({ends[0]} … {ends[1]})"
    text += f", {count_of(appended.values, 'value')}, {appended.covariates:,} of covariates"
    if appended.completed:
        text += f"; a hole of {count_of(appended.completed, 'step')} before them: all missing"
    if appended.locations:
        number = count_of(len(appended.locations), "new location")
        text += f"; {number}: {name_some(appended.locations)}"
    return text


def _name(changes: tuple[str, ...]) -> str:
    return f": {name_some(changes)}" if changes else ""
