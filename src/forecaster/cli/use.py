"""Using models: demo and forecast."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli import screen
from forecaster.cli.inspect import open_panel, write_checkup
from forecaster.cli.options import Json, Weather
from forecaster.errors import count_of


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
) -> None:
    """Show the whole path on a built-in city: panel, checkup, models, their errors."""
    from forecaster.pipeline.demo import run_demo

    with screen.stages() as (say, _):
        made = run_demo(out, say)
    screen.print_checkup("a city with known truth", made.checkup)
    print(f"\n{made.city}\n{made.windows}\n")
    screen.print_reports(made.reports, made.floor.tolist())
    page = write_checkup(out, "A city with known truth", made.panel, made.checkup)
    if page is not None:
        print(f"\nThe report lies in {page}")


def forecast(  # noqa: PLR0913, PLR0917 (one option each)
    run: Annotated[Path, typer.Argument(help="The folder of a saved estimator.")],
    panel: Annotated[Path, typer.Option(help="The folder of a panel.")],
    at: Annotated[
        str, typer.Option(help="Last observed step with its offset, 2014-06-01T08:00-04:00.")
    ],
    out: Annotated[Path | None, typer.Option(help="FILE.csv, .parquet or .geojson.")] = None,
    weather: Annotated[
        Weather, typer.Option(help="What to take for covariates ahead.")
    ] = "observed",
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Forecast although much history is missing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Forecast the next steps of every location from a saved estimator."""
    from forecaster.estimators.registry import load_estimator
    from forecaster.estimators.table import write_forecast
    from forecaster.panel.panel import CSV_TIME

    data = open_panel(panel)
    estimator = load_estimator(run)
    table = estimator.forecast(data, at, weather=weather, allow_missing=allow_missing)
    if out is not None:
        write_forecast(table, data, out)
        screen.say(f"{count_of(len(table), 'row')} in {out}")
    elif as_json:
        print(table.to_json(orient="records", date_format="iso"))
    else:
        print(table.to_csv(index=False, date_format=CSV_TIME), end="")
