"""From a table to a forecast in one command: run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forecaster.choices import DateOrder, DecimalMark, Kind
from forecaster.cli import terminal
from forecaster.cli.models.evaluate import (
    Compared,
    Inputs,
    Models,
    Seeds,
    compare,
    evaluation_settings,
    print_comparison,
    write_report,
)
from forecaster.cli.options import (
    AbsentSteps,
    CombineRows,
    DatabaseQuery,
    Horizon,
    Hours,
    Json,
    LeaveOut,
    RecipeData,
    Settings,
    read_source,
    split_commas,
    with_horizon,
    with_settings,
)
from forecaster.errors import ConfigError, ForecasterError, count_of, need_extra

if TYPE_CHECKING:
    import pandas as pd

    from forecaster.databases.query import Query
    from forecaster.estimators.base import Estimator
    from forecaster.evaluation.model_specs import ModelSpec
    from forecaster.panel.panel import Panel
    from forecaster.recipe import Recipe
    from forecaster.remote import RemoteFile

QUICK_MODELS = "LastValue,SeasonalNaive,HistoricalMean,Ridge"  # trained in seconds
FORECAST, PICTURE = "forecast.csv", "forecast.png"
DAY = 24 * 60  # minutes
SHOWN_LOCATIONS, SHOWN_STEPS = 8, 3

Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns, if they are not recognised: time=when,id=sensor,value=flow (long), "
        "time=when,value=kwh (one series), time=when (a column for each location), "
        "time=day+hour (two columns)."
    ),
]
Missing = Annotated[
    str | None, typer.Option(help="Values that stand for missing ones, e.g. -999 or -1,n/a.")
]
Decimal = Annotated[
    DecimalMark | None, typer.Option(help="Decimal mark, where 1,234 could be either: , or .")
]
Dates = Annotated[
    DateOrder | None,
    typer.Option(help="What comes first in 05/06/2022: day-first or month-first."),
]


def run(  # noqa: PLR0913, PLR0917 (one option each)
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="A table or several files of one (my.csv, my.xlsx, jan.csv feb.csv), the folder "
            "of a panel, or a recipe (my.toml). A table or panel may lie in a bucket or on a web "
            "server (s3://…, gs://…, https://…), a table in a database (postgresql://…, --query).",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Output folder. Default: the name of INPUT.")
    ] = None,
    query: DatabaseQuery = None,
    columns: Columns = None,
    kind: Annotated[
        Kind | None,
        typer.Option(help="count (never negative) or measurement. Default: as found."),
    ] = None,
    horizon: Horizon = None,
    step: Annotated[
        str | None, typer.Option(help="Length of a step: 15min, 1h, 1d, 1 month. Default: found.")
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            help="Time zone of times without UTC offset, e.g. Europe/Berlin. Default: UTC."
        ),
    ] = None,
    country: Annotated[
        str | None, typer.Option(help="Country or region of the holidays, e.g. US or DE-BY.")
    ] = None,
    locations: Annotated[
        Path | None,
        typer.Option(
            help="Table of the locations, e.g. places.csv with id,name,lat,lon and further "
            "numbers, which models are given."
        ),
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(
            help="Table of what holds for all locations, e.g. weather.csv with time,temperature; "
            "rows after the last value are known ahead."
        ),
    ] = None,
    past_only: Annotated[
        str | None,
        typer.Option(
            help="Covariates that are unknown ahead, such as humidity,price. Default: those that "
            "the table does not hold for the whole horizon."
        ),
    ] = None,
    hours: Hours = None,
    combine: CombineRows = None,
    gaps: AbsentSteps = None,
    leave_out: LeaveOut = None,
    missing: Missing = None,
    decimal: Decimal = None,
    dates: Dates = None,
    models: Models = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help=f"Only models that are trained in seconds: {QUICK_MODELS}."),
    ] = False,
    seeds: Seeds = None,
    data: RecipeData = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel training processes.")] = 1,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Forecast a table: panel, graph, training, comparison, forecast, report.

    Finished steps are skipped when the command is repeated. Examples:

    forecaster run sales.xlsx

    forecaster run load.csv --timezone Europe/Berlin --horizon 24h --covariates weather.csv

    forecaster run jan.csv feb.csv --columns time=when,id=sensor,value=flow --quick
    """
    from forecaster.evaluation.model_specs import list_models

    chosen = models or (QUICK_MODELS if quick else None)
    overrides = [*(settings or []), *evaluation_settings(chosen, seeds, None, None)]
    reading: dict[str, Any] = {
        "panel": {
            "timezone": timezone, "country": country, "kind": kind, **_read_step(step),
            "past_only": split_commas(past_only) or None, "hours": hours,
            "gaps": gaps,
        },
        "table": {
            "columns": columns, "missing": split_commas(missing), "decimal": decimal,
            "dates": dates, "combine": combine,
            "leave_out": None if leave_out is None else split_commas(leave_out),
        },
    }  # fmt: skip
    sources = [read_source(text, query) for text in texts]
    folder = out or Path(PurePath(sources[0].name).name.split(".")[0])
    recipe, inputs = _find_inputs(sources, reading, (locations, covariates), data, horizon)
    recipe = with_settings(recipe, overrides)
    inputs = replace(inputs, jobs=jobs)
    recipe = with_horizon(recipe, horizon, inputs.panel)

    def list_entries(recipe: "Recipe") -> "list[ModelSpec]":
        return list_models(recipe, recipe.evaluation.models)

    compared = compare(recipe, list_entries, folder, inputs)
    forecasts = [] if as_json else _show_forecast(compared, folder)
    print_comparison(compared, folder, as_json)
    try:
        terminal.say(f"report: {write_report(folder)}")
    except ConfigError as missing_extra:
        terminal.say(f"no report: {missing_extra}")
    if forecasts:
        terminal.say(f"forecast, all steps and locations: {', '.join(map(str, forecasts))}")


# ------------------------------------------------------------------------------------ inputs


def _find_inputs(
    given: "Sequence[Path | Query | RemoteFile]",
    reading: dict[str, Any],
    beside: tuple[Path | None, Path | None],
    data: Path | None,
    horizon: str | None,
) -> "tuple[Recipe, Inputs]":
    """Return the recipe of a table, a panel or a recipe file, and where its data is."""
    from forecaster.publish.manifest import MANIFEST
    from forecaster.recipe import read_recipe
    from forecaster.remote import is_remote

    first = _as_path(given[0])
    if len(given) == 1 and (is_remote(first) or (first / MANIFEST).exists()):
        _refuse_reading(first, "a panel", reading, beside)
        return _recipe_of_panel(first), Inputs(None, data, first)
    if len(given) == 1 and first.suffix == ".toml":
        _refuse_reading(first, "a recipe", reading, beside)
        return read_recipe(first), Inputs(first, data or first.parent, None)
    from forecaster.ingest.build import Sources
    from forecaster.ingest.guess import common_folder, describe, guess_recipe

    places, covariates = beside
    sources = Sources(_tables(given), places=places, covariates=covariates)
    for path in (*sources.files, *sources.tables):
        if not (is_remote(path) or path.is_file()):
            raise ConfigError(
                f"{path}: no such file; give a table, the folder of a panel or a recipe"
            )
    recipe, rows = guess_recipe(sources, {**reading, "lags": {"horizon": horizon}})
    terminal.say(describe(sources, recipe, rows))
    _say_zone(recipe, reading["panel"]["timezone"])
    return recipe, Inputs(None, common_folder(sources), None)


def _as_path(source: "Path | Query | RemoteFile") -> Path:
    """Return the path of a folder or file; a remote table has none, a remote panel has."""
    from forecaster.databases.query import Query
    from forecaster.reading.load import TABLE_SUFFIXES

    if isinstance(source, Path):
        return source
    if isinstance(source, Query) or source.name.lower().endswith(TABLE_SUFFIXES):
        return Path()
    return Path(source.url)


def _tables(sources: "Sequence[Path | Query | RemoteFile]") -> "list[Path | Query | RemoteFile]":
    """Return the tables; those of a folder by their suffix."""
    from forecaster.reading.load import JSON_SUFFIXES, TABLE_SUFFIXES

    files: list[Path | Query | RemoteFile] = []
    for path in sources:
        if not isinstance(path, Path):
            files.append(path)
            continue
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        tables = [file for file in inside if file.name.lower().endswith(TABLE_SUFFIXES)]
        descriptions = [f for f in tables if f.name.lower().endswith(JSON_SUFFIXES)]
        if len(descriptions) < len(tables):  # JSON beside tables tells about them
            tables = [file for file in tables if file not in descriptions]
        if path.is_dir() and not tables:
            raise ConfigError(f"{path}: a folder without tables and not a panel; give a table")
        files += tables if path.is_dir() else [path]
    return files


def _recipe_of_panel(folder: Path) -> "Recipe":
    """Return the recipe that a panel was made by, or one that suits it."""
    from forecaster.ingest.guess import recipe_of_panel
    from forecaster.panel.panel import Panel, saved_recipe

    return recipe_of_panel(Panel.open(folder, verify=False), saved_recipe(folder))


def _refuse_reading(
    path: Path, noun: str, reading: dict[str, Any], beside: tuple[Path | None, Path | None]
) -> None:
    """Refuse options that say how a table is read."""
    given = [name for part in reading.values() for name, value in part.items() if value]
    given += [n for n, path in zip(("locations", "covariates"), beside, strict=True) if path]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"{path}: {options} are for tables; {noun} has its own; leave them out")


def _say_zone(recipe: "Recipe", timezone: str | None) -> None:
    from forecaster.clock.clock import DAY_MINUTES

    if timezone is None and recipe.panel.step_minutes < DAY_MINUTES:
        terminal.say("no --timezone: times without UTC offset are read as UTC")
    if timezone not in (None, recipe.panel.timezone):
        terminal.say(f"days without a time: read as UTC, not as {timezone}")


def _read_step(text: str | None) -> dict[str, int]:
    from forecaster.clock.horizon import read_step

    return {} if text is None else read_step(text)


# ---------------------------------------------------------------------------------- forecast


def _show_forecast(compared: Compared, folder: Path) -> list[Path]:
    """Print and write the forecast of the recommended model from the last observed step.

    Returns:
        The table and the picture of all steps and locations; none without a forecast.
    """
    import numpy as np

    from forecaster.estimators.forecast_inputs import await_opening, choose_weather
    from forecaster.estimators.registry import load_estimator
    from forecaster.estimators.table import write_forecast

    best, panel = compared.comparison.recommended, compared.panel
    if best is None or not best.runs:
        return []
    estimator = load_estimator(folder / next(iter(best.runs.values())))
    panel, origin = await_opening(panel, estimator.recipe.lags.horizon)
    weather, reason = choose_weather(panel, origin, estimator.recipe.lags.horizon)
    try:
        table = estimator.forecast(panel, weather=weather)
    except ForecasterError as error:  # such as too many missing values at the panel's end
        terminal.say(f"no forecast of the next steps: {error}")
        return []
    write_forecast(table, panel, folder / FORECAST)
    local = panel.clock.local(panel.times[[origin]])[0]
    last = np.datetime_as_string(local, unit=_time_unit(panel)).replace("T", " ")
    title = f"Forecast of {best.name} after {last} ({panel.clock.zone})"
    print_next_steps(table, panel, title)
    if reason:
        terminal.say(reason)
    return [folder / FORECAST, *_draw_forecast(estimator, panel, folder)]


def _draw_forecast(estimator: "Estimator", panel: "Panel", folder: Path) -> list[Path]:
    """Draw the recent past and the next steps; without matplotlib there is no picture."""
    try:
        need_extra("matplotlib", extra="report")
    except ConfigError:
        return []
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.draw.canvas import to_png
    from forecaster.report.sections.next_steps import draw_next, forecast_next

    try:
        picture = to_png(draw_next(forecast_next(estimator, panel)))
    except ForecasterError:  # such as an outage at the panel's end, which the report explains
        return []
    replace_file(folder / PICTURE, bytes_writer(picture))
    return [folder / PICTURE]


def print_next_steps(table: "pd.DataFrame", panel: "Panel", title: str) -> None:
    """Print a forecast: the steps of one location, or some steps of the largest locations."""
    from rich.text import Text

    quantiles = [c for c in table.columns if c.startswith("q") and c[1:2].isdigit()]
    low, high = (quantiles[0], quantiles[-1]) if len(quantiles) > 1 else ("y_hat", "y_hat")
    steps = _shown_times(table, panel)
    named = dict(zip(panel.locations.ids, panel.locations.names, strict=True))
    means = table.groupby("unique_id", sort=False)["y_hat"].mean().sort_values(ascending=False)
    shown = means.index[:SHOWN_LOCATIONS]
    rows = table.assign(degraded=table.get("degraded", "")).set_index(["unique_id", "ds"])
    columns = {"location": [named.get(identity, identity) for identity in shown]}
    for ds, text in steps.items():
        columns[text] = [_cell(rows, (identity, ds), low, high) for identity in shown]
    screen = terminal.console()
    screen.print(Text(title, style="bold"))
    terminal.print_table(columns)
    others = f"{count_of(len(means) - len(shown), 'further location')}; " * (
        len(means) > len(shown)
    )
    if quantiles:
        level = float(high[1:]) - float(low[1:])
        note = f"{others}in brackets: where {level:g} % of outcomes are expected\n"
        screen.print(Text(note, style="dim"))


def _cell(rows: "pd.DataFrame", key: tuple[str, Any], low: str, high: str) -> str:
    """Return a forecast and its interval; closed measurements have no row."""
    if key not in rows.index or str(rows["degraded"].get(key, "")).startswith("closed"):
        return "closed"
    row = rows.loc[key]
    numbers = (float(f"{row[name]:.3g}") for name in ("y_hat", low, high))
    number, least, most = (f"{value:,.10g}" for value in numbers)
    return f"{number} ({least}–{most})"


def _shown_times(table: "pd.DataFrame", panel: "Panel") -> "dict[pd.Timestamp, str]":
    """Return some of the steps of a forecast, the first and the last among them, as text."""
    import numpy as np
    import pandas as pd

    times = np.unique(table["ds"].dt.tz_convert(None).to_numpy("datetime64[s]"))
    count = min(SHOWN_STEPS, len(times))
    times = times[np.linspace(0, len(times) - 1, count).round().astype(int)]
    unit = _time_unit(panel)
    local: Any = panel.clock.local(times)
    texts = np.datetime_as_string(local, unit=unit).tolist()
    stamps = pd.DatetimeIndex(times).tz_localize("UTC")
    shorter = 5 if unit == "m" else 0  # without the year, which the title tells
    return {
        stamp: text[shorter:].replace("T", " ") for stamp, text in zip(stamps, texts, strict=True)
    }


def _time_unit(panel: "Panel") -> Literal["M", "D", "m"]:
    """Return the unit that names a step: a month, a day or a minute."""
    if panel.clock.step_months:
        return "M"
    return "D" if panel.clock.step_minutes >= DAY else "m"
