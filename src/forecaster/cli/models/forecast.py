"""Forecasts from a saved estimator: forecast."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from forecaster.choices import Weather
from forecaster.cli import terminal
from forecaster.cli.options import At, Json, last_step, open_panel
from forecaster.errors import ConfigError, count_of, need_extra

if TYPE_CHECKING:
    import pandas as pd

    from forecaster.databases.upsert import ForecastTable
    from forecaster.panel.panel import Panel

MAPS = (".png", ".svg")
By = Literal["step", "day"]  # the rows of the table


def forecast(  # noqa: C901, PLR0913, PLR0917 (one option each)
    run: Annotated[Path, typer.Argument(help="Folder of a saved estimator.")],
    panel: Annotated[Path, typer.Option(help="Folder of the panel.")],
    at: At = None,
    out: Annotated[
        Path | None, typer.Option(help="Output file: .csv, .parquet or .geojson.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Table of a database, as postgresql://user@host/database/table: rows of the same "
            "unique_id, ds and cutoff are replaced, others added, in one transaction."
        ),
    ] = None,
    weather: Annotated[Weather, typer.Option(help="Covariates ahead.")] = "observed",
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Forecast even if much of the history is missing."),
    ] = False,
    what_if: Annotated[
        str | None,
        typer.Option(help="Other covariates ahead: rain=1,precip=5mm, or a table with column ds."),
    ] = None,
    area: Annotated[
        Path | None,
        typer.Option(
            help="Table with columns area and id: adds the sums of areas with intervals."
        ),
    ] = None,
    what_if_map: Annotated[
        Path | None,
        typer.Option("--map", help="Map of the difference that --what-if makes: .png or .svg."),
    ] = None,
    by: Annotated[
        By, typer.Option(help="Rows of steps, or of days: totals with their own intervals.")
    ] = "step",
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps the online corrections of intervals, so that the next "
            "step needs one forecast in place of those of one to two weeks."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast the next steps of every location with a saved estimator."""
    from forecaster.clock.clock import DAY_MINUTES
    from forecaster.estimators.areas import add_areas, read_areas, total_areas
    from forecaster.estimators.registry import load_estimator
    from forecaster.estimators.table import check_form, write_forecast

    if what_if_map is not None:
        _check_map(what_if_map, what_if)
    if by == "day" and what_if is not None:
        raise ConfigError("--by day adds up the forecast itself; leave out --what-if")
    target = None if to is None else _read_target(to, by)
    data = open_panel(panel)
    if by == "day" and data.clock.step_minutes > DAY_MINUTES:
        raise ConfigError(
            f"--by day adds up the steps of a day, and the panel has steps of "
            f"{data.clock.step_text}; leave out --by"
        )
    if out is not None:
        check_form(data, out)
    areas = read_areas(area, data.locations) if area is not None else None
    estimator = load_estimator(run)
    origin = at
    if at is None:
        data, origin = _next_origin(data, estimator.recipe.lags.horizon)
    table = estimator.forecast(
        data, origin, weather=weather, allow_missing=allow_missing, what_if=what_if, state=state
    )
    if "degraded" in table and table["degraded"].str.startswith("closed").all():
        terminal.say(
            "every step ahead is closed; a model trained with a longer --horizon, or an earlier "
            "--at, reaches open ones"
        )
    if what_if_map is not None:
        _write_map(table, data, what_if_map)
    if areas is not None:
        table = add_areas(table, areas, estimator, data, weather, what_if)
    if by == "day":
        table = total_areas(table, areas, estimator, data, weather)
    if target is not None:
        terminal.say(f"{count_of(target.upsert(table), 'row')} in {target.name}")
    if out is not None:
        write_forecast(table, data, out)
        terminal.say(f"{count_of(len(table), 'row')} in {out}")
    if target is None and out is None:
        _print_table(table, as_json)


def _next_origin(data: "Panel", horizon: int) -> "tuple[Panel, str]":
    """Print and return the origin of the next steps, and the panel, which reaches it."""
    from forecaster.estimators.forecast_inputs import await_opening, find_origin
    from forecaster.panel.panel import local_texts

    awaited, step = await_opening(data, horizon)
    if step == find_origin(data, None):
        return data, last_step(data)
    origin = local_texts(awaited, awaited.times[[step]])[0]
    terminal.say(
        f"forecast origin: {origin}, the last closed step before places open; --at sets another"
    )
    return awaited, origin


def _print_table(table: "pd.DataFrame", as_json: bool) -> None:
    from forecaster.panel.panel import CSV_TIME

    if as_json:
        print(table.to_json(orient="records", date_format="iso"))
    else:
        print(table.to_csv(index=False, date_format=CSV_TIME), end="")


def _read_target(to: str, by: By) -> "ForecastTable":
    """Return the table of --to, before anything is computed."""
    from forecaster.databases.upsert import ForecastTable

    if by == "day":
        raise ConfigError("--to takes rows of steps; leave out --by day, or write it with --out")
    return ForecastTable.parse(to)


def _check_map(path: Path, what_if: str | None) -> None:
    """Check that the map can be drawn before anything is computed."""
    if what_if is None:
        raise ConfigError("--map draws the difference that --what-if makes; give --what-if too")
    if path.suffix not in MAPS:
        raise ConfigError(
            f"{path}: a map is written as .png or .svg; choose one of these suffixes"
        )
    need_extra("matplotlib", extra="report")


def _write_map(table: "pd.DataFrame", panel: "Panel", path: Path) -> None:
    """Write a map of the mean difference of each location over the forecast steps."""
    import numpy as np

    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.draw.canvas import to_png, to_svg
    from forecaster.report.sections.what_if import draw_location_changes

    means = table.groupby("unique_id")[["difference", "y_hat"]].mean()
    means = means.reindex(list(panel.locations.ids))  # NaN: not open, and not drawn
    difference, level = means.to_numpy(float).T
    sizes = abs(np.nan_to_num(level))
    figure = draw_location_changes(panel.locations, difference, sizes, "difference per step")
    drawn = to_png(figure) if path.suffix == ".png" else to_svg(figure, path.stem)
    replace_file(path, bytes_writer(drawn))
    terminal.say(f"map of the difference: {path}")
