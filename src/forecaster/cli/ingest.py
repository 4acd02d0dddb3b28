"""From raw files to a panel: ingest trips, table, weather, recipe; and download."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.choices import EngineName, Kind
from forecaster.cli import terminal
from forecaster.cli.options import (
    Country,
    Data,
    Json,
    Never,
    Out,
    Twice,
    Zone,
    open_panel,
)
from forecaster.errors import ConfigError, count_of

if TYPE_CHECKING:
    from forecaster.ingest.build import Sources
    from forecaster.panel.panel import Panel
    from forecaster.recipe import Recipe

app = typer.Typer(help="Turn trips, tables and weather into a panel.", no_args_is_help=True)
download_app = typer.Typer(help="Fetch public data.", no_args_is_help=True)

FROM_TRIPS = "from-trips"
ROWS_PER_SECOND = 3e6  # both passes over Parquet on two cores; used only for estimates
BYTES_PER_ROW = 20
PEAK_BYTES = 3 << 29  # flat in the number of rows; docs/scale.md


@app.command()
def trips(  # noqa: PLR0913, PLR0917 (one option each)
    files: Annotated[list[Path], typer.Argument(help=".parquet, .csv or .csv.gz files of trips.")],
    out: Out,
    timezone: Zone,
    candidates: Annotated[
        str | None, typer.Option(help=f"File of places (id, lat, lon), or {FROM_TRIPS}.")
    ] = None,
    candidate_columns: Annotated[str | None, typer.Option(help="id=…,name=…,lat=…,lon=…")] = None,
    zones: Annotated[
        bool, typer.Option("--zones", help="Zone ids instead of coordinates.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="time=…,lat=…,lon=… (or zone=…) of other tables.")
    ] = None,
    min_demand: Annotated[
        float, typer.Option(help="Mean rides per hour of a chosen place.")
    ] = 10.0,
    demand_hours: Annotated[
        str | None, typer.Option(help="FROM:TO, the days that mean is taken over.")
    ] = None,
    max_distance: Annotated[float, typer.Option(help="Metres to the nearest candidate.")] = 200.0,
    bbox: Annotated[str | None, typer.Option(help="south,west,north,east in degrees.")] = None,
    covers: Annotated[
        str | None, typer.Option(help="FROM:TO, the days that the files hold completely.")
    ] = None,
    max_reject: Annotated[
        float, typer.Option(help="Share of faulty rows that is accepted.")
    ] = 0.05,
    country: Country = None,
    ambiguous: Twice = "null",
    nonexistent: Never = "refuse",
    engine: Annotated[EngineName, typer.Option(help="What runs the plan.")] = "duckdb",
    as_json: Json = False,
) -> None:
    """Count trips by the hour at the places where there are many."""
    if candidates is None and not zones:
        raise ConfigError(
            f"which places? give --candidates FILE, --candidates {FROM_TRIPS} or --zones"
        )
    places = None if candidates in (None, FROM_TRIPS) else Path(candidates or "")
    recipe = _recipe(
        panel={
            "timezone": timezone, "country": country, "ambiguous": ambiguous,
            "nonexistent": nonexistent,
        },
        trips={
            "files": [path.name for path in files], "columns": columns, "zones": zones,
            "candidates": places.name if places else None,
            "candidate_columns": candidate_columns, "min_demand": min_demand,
            "demand_hours": demand_hours, "max_distance_m": max_distance,
            "bbox": _parse_bbox(bbox), "covers": covers, "max_reject": max_reject,
        },
    )  # fmt: skip
    from forecaster.ingest.build import Sources

    _build(recipe, Sources(files, places), out, engine, as_json)


@app.command()
def table(  # noqa: PLR0913, PLR0917 (one option each)
    file: Annotated[Path, typer.Argument(help="A long or wide .csv or .parquet table.")],
    out: Out,
    timezone: Zone,
    columns: Annotated[
        str | None, typer.Option(help="time=… (wide) or time=…,id=…,value=… (long).")
    ] = None,
    locations: Annotated[Path | None, typer.Option(help="File of id, name, lat, lon.")] = None,
    location_columns: Annotated[str | None, typer.Option(help="id=…,name=…,lat=…,lon=…")] = None,
    kind: Annotated[Kind, typer.Option(help="Counts are never negative.")] = "count",
    step_minutes: Annotated[
        int | None, typer.Option(help="Length of a step; else what most times are apart.")
    ] = None,
    min_demand: Annotated[
        float | None, typer.Option(help="Mean of a location that is kept.")
    ] = None,
    demand_hours: Annotated[
        str | None, typer.Option(help="FROM:TO, the days that mean is taken over.")
    ] = None,
    country: Country = None,
    ambiguous: Twice = "null",
    nonexistent: Never = "refuse",
    as_json: Json = False,
) -> None:
    """Read a table of values; times that have no row become missing and are listed."""
    from forecaster.ingest.build import Sources
    from forecaster.ingest.guess import guess_step

    if step_minutes is None:
        step_minutes = guess_step(file, columns)
        terminal.say(f"no --step-minutes: steps of {step_minutes} min, as most times are apart")
    recipe = _recipe(
        panel={
            "timezone": timezone, "country": country, "ambiguous": ambiguous, "kind": kind,
            "nonexistent": nonexistent, "step_minutes": step_minutes, "gaps": "null",
        },
        table={
            "file": file.name, "columns": columns, "min_demand": min_demand,
            "demand_hours": demand_hours, "location_columns": location_columns,
            "locations": locations.name if locations else None,
        },
    )  # fmt: skip
    _build(recipe, Sources([file], locations), out, "duckdb", as_json)


@app.command()
def weather(
    file: Annotated[Path, typer.Argument(help="A station's .csv or .parquet table.")],
    into: Annotated[Path, typer.Option(help="The panel that gets the weather.")],
    columns: Annotated[
        str,
        typer.Option(help="Which column holds what, in which unit; see above."),
    ],
    timezone: Annotated[
        str | None, typer.Option(help="Of the station: -05:00 all year, or an IANA name.")
    ] = None,
    max_gap: Annotated[int, typer.Option(help="Hours in a row that may be filled.")] = 3,
    as_json: Json = False,
) -> None:
    """Add the weather of a station to a panel, as a new version of it.

    COLUMNS says which column holds what, in which unit, as in
    time=when,temperature=t:F,wind=w:mph,precipitation=p:in,visibility=v:mi,codes=wx
    (units C, F; m/s, mph, kn; mm, in; km, mi; codes, METAR-style, are optional).
    """
    from forecaster.ingest.build import join_weather
    from forecaster.panel.panel import saved_recipe
    from forecaster.recipe import Recipe

    given = {"file": file.name, "columns": columns, "timezone": timezone, "max_gap": max_gap}
    before = saved_recipe(into) or Recipe()
    recipe = before.model_copy(update={"weather": _recipe(weather=given).weather})
    old = open_panel(into)
    panel, report = join_weather(old, recipe, file)
    panel.save(into, recipe, parents={"panel": old.digest or ""})
    if as_json:
        print(json.dumps(asdict(report), default=str))
        return
    for name, value in asdict(report).items():
        if name != "filled_spans":  # kept in the panel; too long to read
            print(f"{name.replace('_', ' '):14} {_words(value)}")


@app.command("recipe")
def from_recipe(
    file: Annotated[Path, typer.Argument(help="A recipe with a section trips or table.")],
    out: Out,
    data: Data,
    engine: Annotated[EngineName, typer.Option(help="What runs the plan for trips.")] = "duckdb",
    as_json: Json = False,
) -> None:
    """Build the panel that a recipe describes from the files of a data folder."""
    from forecaster.ingest.build import find_sources
    from forecaster.recipe import read_recipe

    recipe = read_recipe(file)
    _build(recipe, find_sources(recipe, data), out, engine, as_json)


@download_app.command("nyc-taxi")
def nyc_taxi(
    months: Annotated[str, typer.Option(help="FROM:TO, as in 2009-01:2016-06.")],
    to: Annotated[Path, typer.Option(help="Folder for the files.")],
    host: Annotated[str | None, typer.Option(help="Another https host to fetch from.")] = None,
) -> None:
    """Fetch TLC's monthly yellow-taxi files; an interrupted download goes on where it ended."""
    from forecaster.ingest.fetch.months import NYC_TAXI, download_months, parse_months

    source = NYC_TAXI.at(host) if host else NYC_TAXI
    wanted = parse_months(months)
    with terminal.stages() as (say, advance):
        paths = download_months(source, wanted, to, progress=advance, say=say)
    print(f"{count_of(len(paths), 'file')} in {to}")


def _recipe(**stages: dict[str, Any]) -> "Recipe":
    from forecaster.recipe import Recipe, check_stage

    return check_stage(Recipe, stages, source="options")


def _parse_bbox(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        south, west, north, east = map(float, text.split(","))
    except ValueError as error:
        message = f"bbox {text!r}: four numbers are needed"
        raise ConfigError(f"{message}, south,west,north,east as in 40.5,-74.3,41,-73.6") from error
    return [south, west, north, east]


def _build(
    recipe: "Recipe", sources: "Sources", out: Path, engine: EngineName, as_json: bool
) -> None:
    from forecaster.ingest.build import build_panel

    size = sum(path.stat().st_size for path in sources.values if path.is_file())
    terminal.announce(size / BYTES_PER_ROW / ROWS_PER_SECOND, PEAK_BYTES, "ingest")
    with terminal.stages(size) as (say, advance):
        panel = build_panel(recipe, sources, engine, say, advance)
        say("writing the panel")
        saved = panel.save(out, recipe)
    if as_json:
        print(json.dumps({"panel": str(out), "hash": saved.digest, **panel.counts}, default=str))
        return
    _print_panel(saved, out)


def _print_panel(panel: "Panel", out: Path) -> None:
    """Print what became of every row, and where the panel lies."""
    counts = dict(panel.counts)
    rejected = counts.pop("rejected", {})
    examples = counts.pop("examples", {})
    gaps = counts.pop("gaps", [])
    for name, value in counts.items():
        if not isinstance(value, dict):
            print(f"{name.replace('_', ' '):26} {_words(value)}")
    if gaps:
        longest = count_of(max(steps for _, steps in gaps), "step")
        print(f"{'gaps':26} {len(gaps):,}, the longest {longest}")
    for reason, count in rejected.items():
        if count:
            shown = f"   e.g. {ascii(examples[reason][0])[1:-1]}" if examples.get(reason) else ""
            print(f"  rejected {reason:24} {count:>12,}{shown}")
    M, N = panel.values.shape
    print(
        f"{out}: {count_of(M, 'step')} × {count_of(N, 'location')}; see `forecaster doctor {out}`"
    )


def _words(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value) if not isinstance(value, list) else f"{len(value)}: {value[:6]}"
    return f"{value:,}"
