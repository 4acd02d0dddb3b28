"""From raw files to a panel: ingest trips, table, weather and recipe; and download."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.choices import EngineName, Kind
from forecaster.cli import terminal
from forecaster.cli.options import (
    AbsentSteps,
    AmbiguousTimes,
    CombineRows,
    Country,
    Data,
    DatabaseQuery,
    Hours,
    Json,
    LeaveOut,
    NonexistentTimes,
    Out,
    Renames,
    Watermark,
    Zone,
    name_source,
    open_panel,
    read_since,
    read_source,
    split_commas,
)
from forecaster.errors import ConfigError, count_of, name_some, printable

if TYPE_CHECKING:
    from forecaster.ingest.build import Sources
    from forecaster.panel.panel import Panel
    from forecaster.recipe import Recipe

app = typer.Typer(help="Build a panel from trips, tables and weather.", no_args_is_help=True)
download_app = typer.Typer(help="Download public data.", no_args_is_help=True)

FROM_TRIPS = "from-trips"
ROWS_PER_SECOND = 3e6  # measured on two cores; used only for estimates
BYTES_PER_ROW = 20
PEAK_BYTES = 3 << 29  # flat in the number of rows; docs/scale.md


@app.command()
def trips(  # noqa: PLR0913, PLR0917 (one option each)
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files of trips: .parquet, .csv or .csv.gz, here or in a bucket (s3://…, gs://…, "
            "https://…); or the address of a database."
        ),
    ],
    out: Out,
    timezone: Zone,
    query: DatabaseQuery = None,
    candidates: Annotated[
        str | None,
        typer.Option(help=f"File of candidate locations (id, lat, lon), or {FROM_TRIPS}."),
    ] = None,
    candidate_columns: Annotated[str | None, typer.Option(help="id=…,name=…,lat=…,lon=…")] = None,
    zones: Annotated[
        bool, typer.Option("--zones", help="The trips have zone ids instead of coordinates.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option(help="Column names, if not the usual ones: time=…,lat=…,lon=… (or zone=…)."),
    ] = None,
    min_demand: Annotated[
        float, typer.Option(help="Smallest mean of rides per hour of a location.")
    ] = 10.0,
    demand_hours: Annotated[
        str | None, typer.Option(help="FROM:TO, the days of that mean.")
    ] = None,
    max_distance: Annotated[
        float, typer.Option(help="Largest distance to a candidate, in metres.")
    ] = 200.0,
    bbox: Annotated[
        str | None, typer.Option(help="Bounding box: south,west,north,east in degrees.")
    ] = None,
    covers: Annotated[
        str | None,
        typer.Option(
            help="FROM:TO, the days for which the files are complete. Default: the month in a "
            "TLC file name, otherwise from the first event to the last; a day without any event "
            "is then missing."
        ),
    ] = None,
    max_reject: Annotated[
        float, typer.Option(help="Largest accepted share of faulty rows.")
    ] = 0.05,
    country: Country = None,
    hours: Hours = None,
    renames: Renames = None,
    ambiguous: AmbiguousTimes = "null",
    nonexistent: NonexistentTimes = "refuse",
    engine: Annotated[EngineName, typer.Option(help="Engine that reads the trips.")] = "duckdb",
    as_json: Json = False,
) -> None:
    """Count trips per hour at the locations with the highest demand."""
    if candidates is None and not zones:
        raise ConfigError(
            f"no locations given; give --candidates FILE, --candidates {FROM_TRIPS} or --zones"
        )
    sources = [read_source(file, query) for file in files]
    candidate_file = None if candidates in (None, FROM_TRIPS) else Path(candidates or "")
    recipe = _recipe(
        panel={
            "timezone": timezone, "country": country, "ambiguous": ambiguous,
            "nonexistent": nonexistent, "renames": renames.name if renames else None,
            "hours": hours,
        },
        trips={
            "files": list(map(name_source, sources)), "query": query, "columns": columns,
            "zones": zones,
            "candidates": name_source(candidate_file) if candidate_file else None,
            "candidate_columns": candidate_columns, "min_demand": min_demand,
            "demand_hours": demand_hours, "max_distance_m": max_distance,
            "bbox": _parse_bbox(bbox), "covers": covers, "max_reject": max_reject,
        },
    )  # fmt: skip
    from forecaster.ingest.build import Sources

    _build(recipe, Sources(sources, candidate_file, renames=renames), out, engine, as_json)


@app.command()
def table(  # noqa: PLR0913, PLR0917 (one option each)
    file: Annotated[
        str,
        typer.Argument(
            help="A table in long or wide form: .csv or .parquet, here or in a bucket (s3://…, "
            "gs://…, https://…); or the address of a database: "
            "postgresql://user@host/database, mariadb://…, duckdb://FILE, sqlite://FILE."
        ),
    ],
    out: Out,
    timezone: Zone,
    query: DatabaseQuery = None,
    watermark: Watermark = None,
    columns: Annotated[
        str | None, typer.Option(help="Column names: time=… (wide) or time=…,id=…,value=… (long).")
    ] = None,
    locations: Annotated[
        Path | None,
        typer.Option(help="File of locations: id, name, lat, lon, opens, closes, hours."),
    ] = None,
    location_columns: Annotated[str | None, typer.Option(help="id=…,name=…,lat=…,lon=…")] = None,
    renames: Renames = None,
    censored: Annotated[
        str | None,
        typer.Option(help="Column that is 1 where a place could not serve: no target."),
    ] = None,
    past_only: Annotated[
        str | None,
        typer.Option(help="Columns beside the values, seen in the past and unknown ahead."),
    ] = None,
    hours: Hours = None,
    kind: Annotated[
        Kind, typer.Option(help="Kind of the values; counts are never negative.")
    ] = "count",
    step_minutes: Annotated[
        int | None,
        typer.Option(help="Minutes per step. Default: the most frequent difference of times."),
    ] = None,
    step_months: Annotated[
        int | None, typer.Option(help="Months per step: 1, 3 for quarters, 12 for years.")
    ] = None,
    min_demand: Annotated[
        float | None, typer.Option(help="Smallest mean value of a location.")
    ] = None,
    demand_hours: Annotated[
        str | None, typer.Option(help="FROM:TO, the days of that mean.")
    ] = None,
    country: Country = None,
    ambiguous: AmbiguousTimes = "null",
    nonexistent: NonexistentTimes = "refuse",
    combine: CombineRows = None,
    gaps: AbsentSteps = None,
    leave_out: LeaveOut = None,
    as_json: Json = False,
) -> None:
    """Read a table of values. Steps without a row become missing values and are listed."""
    from forecaster.config import TableConfig
    from forecaster.databases.query import Query
    from forecaster.ingest.build import Sources
    from forecaster.ingest.guess import find_step
    from forecaster.panel.axis import step_settings
    from forecaster.panel.tables.table_rows import needed_columns
    from forecaster.remote import RemoteFile

    values = source = read_source(file, query)
    about: dict[str, Any] = {}
    if watermark is not None:
        values, about = read_since([source], watermark, {})
    elif isinstance(source, Query):
        values = source.read()
    if isinstance(values, RemoteFile):
        values = values.fetch(needed_columns(columns, [*split_commas(past_only), censored or ""]))
    step = step_settings(step_minutes, step_months or 0)
    if not step:
        guessed = find_step(values, TableConfig(columns=columns, combine=combine))
        step = guessed.settings()
        terminal.say(f"no --step-minutes: {guessed}, the most frequent difference of times")
    recipe = _recipe(
        panel={
            "timezone": timezone, "country": country, "ambiguous": ambiguous, "kind": kind,
            "nonexistent": nonexistent, **step, "gaps": gaps or "null",
            "renames": renames.name if renames else None, "censored": censored, "hours": hours,
            "past_only": split_commas(past_only),
        },
        table={
            "file": name_source(source), "query": query, "columns": columns,
            "min_demand": min_demand, "combine": combine, "leave_out": split_commas(leave_out),
            "demand_hours": demand_hours, "location_columns": location_columns,
            "locations": name_source(locations) if locations else None,
        },
    )  # fmt: skip
    sources = Sources([values], locations, renames=renames)
    _build(recipe, sources, out, "duckdb", as_json, about)


@app.command()
def weather(  # noqa: PLR0913, PLR0917 (one option each)
    file: Annotated[Path, typer.Argument(help="Table of a weather station: .csv or .parquet.")],
    into: Annotated[Path, typer.Option(help="Panel to add the weather to.")],
    columns: Annotated[
        str,
        typer.Option(help="Columns and their units; see above."),
    ],
    timezone: Annotated[
        str | None,
        typer.Option(help="Time zone of the station: -05:00 all year, or an IANA name."),
    ] = None,
    max_gap: Annotated[int, typer.Option(help="Longest gap to fill, in hours.")] = 3,
    past_only: Annotated[
        str | None,
        typer.Option(help="Variables that no weather forecast gives, as wind_mps,visibility_km."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add the weather of a station to a panel, as a new version of the panel.

    --columns maps variables to columns and units, as in
    time=when,temperature=t:F,wind=w:mph,precipitation=p:in,visibility=v:mi,codes=wx
    (units C, F; m/s, mph, kn; mm, in; km, mi; codes, METAR-style, are optional).
    """
    from forecaster.ingest.build import join_weather
    from forecaster.panel.panel import saved_recipe
    from forecaster.recipe import Recipe

    settings = {"file": file.name, "columns": columns, "timezone": timezone, "max_gap": max_gap}
    saved = saved_recipe(into) or Recipe()
    bare = open_panel(into)
    unknown_ahead = tuple(dict.fromkeys((*bare.past_only, *split_commas(past_only))))
    described = saved.panel.model_copy(update={"past_only": unknown_ahead})
    changes = {"weather": _recipe(weather=settings).weather, "panel": described}
    recipe = saved.model_copy(update=changes)
    panel, report = join_weather(bare, recipe, file)
    panel.save(into, recipe, parents={"panel": bare.digest or ""})
    if as_json:
        print(json.dumps(asdict(report), default=str))
        return
    for name, value in asdict(report).items():
        if name != "filled_spans":  # too long to print; stored in the panel
            terminal.show(f"{name.replace('_', ' '):14} {_value_text(value)}")


@app.command("recipe")
def from_recipe(
    file: Annotated[Path, typer.Argument(help="Recipe with a section [trips] or [table].")],
    out: Out,
    data: Data,
    engine: Annotated[EngineName, typer.Option(help="Engine that reads trips.")] = "duckdb",
    as_json: Json = False,
) -> None:
    """Build the panel of a recipe from the files in a data folder."""
    from forecaster.ingest.build import find_sources
    from forecaster.recipe import read_recipe

    recipe = read_recipe(file)
    _build(recipe, find_sources(recipe, data), out, engine, as_json)


@download_app.command("nyc-taxi")
def nyc_taxi(
    months: Annotated[str, typer.Option(help="FROM:TO, as in 2009-01:2016-06.")],
    to: Annotated[Path, typer.Option(help="Folder for the files.")],
    host: Annotated[str | None, typer.Option(help="Another https host to download from.")] = None,
) -> None:
    """Download TLC's monthly yellow-taxi files; an interrupted download is resumed."""
    from forecaster.ingest.fetch.months import NYC_TAXI, download_months, parse_months

    source = NYC_TAXI.at(host) if host else NYC_TAXI
    parsed = parse_months(months)
    with terminal.stages() as (say, advance):
        paths = download_months(source, parsed, to, progress=advance, say=say)
    terminal.show(f"{count_of(len(paths), 'file')} in {to}")


def _recipe(**stages: dict[str, Any]) -> "Recipe":
    from forecaster.recipe import Recipe, check_stage

    return check_stage(Recipe, stages, source="options")


def _parse_bbox(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        south, west, north, east = map(float, text.split(","))
    except ValueError as error:
        message = f"bbox {text!r}: not four numbers"
        raise ConfigError(
            f"{message}; give south,west,north,east as in 40.5,-74.3,41,-73.6"
        ) from error
    return [south, west, north, east]


def _build(
    recipe: "Recipe",
    sources: "Sources",
    out: Path,
    engine: EngineName,
    as_json: bool,
    about: dict[str, Any] | None = None,
) -> None:
    from forecaster.ingest.build import build_panel

    size = sum(path.stat().st_size for path in sources.files if path.is_file())
    terminal.announce(size / BYTES_PER_ROW / ROWS_PER_SECOND, PEAK_BYTES, "ingest")
    with terminal.stages(size) as (say, advance):
        panel = build_panel(recipe, sources, engine, say, advance)
        say("writing the panel")
        saved = panel.save(out, recipe, about=about)
    if as_json:
        print(json.dumps({"panel": str(out), "hash": saved.digest, **panel.counts}, default=str))
        return
    _print_panel(saved, out)


def _print_panel(panel: "Panel", out: Path) -> None:
    """Print the counts of accepted and rejected rows, and the folder of the panel."""
    from forecaster.panel.panel import HOURS_FOUND, describe_hours

    counts = dict(panel.counts)
    rejected = counts.pop("rejected", {})
    examples = counts.pop("examples", {})
    gaps, hours_found = counts.pop("gaps", []), counts.pop(HOURS_FOUND, False)
    for name, value in counts.items():
        if not isinstance(value, dict):
            terminal.show(f"{name.replace('_', ' '):26} {_value_text(value)}")
    if gaps:
        longest = count_of(max(steps for _, steps in gaps), "step")
        terminal.show(f"{'gaps':26} {len(gaps):,}, the longest {longest}")
    for reason, count in rejected.items():
        if count:
            example = f"   e.g. {printable(examples[reason][0])}" if examples.get(reason) else ""
            terminal.show(f"  rejected {reason:24} {count:>12,}{example}")
    if panel.locations.has_hours:
        source = "found" if hours_found else "given"
        terminal.show(f"{'opening hours':26} {describe_hours(panel)} ({source})")
    M, N = panel.values.shape
    terminal.show(
        f"{out}: {count_of(M, 'step')} × {count_of(N, 'location')}; see `forecaster doctor {out}`"
    )


def _value_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return f"{len(value)}: {name_some(value)}" if value else "none"
        return str(value) if not isinstance(value, list) else f"{len(value)}: {value[:6]}"
    return f"{value:,}"
