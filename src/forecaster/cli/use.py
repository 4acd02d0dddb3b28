"""Using models: demo and forecast."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli import screen
from forecaster.cli.inspect import open_panel, write_checkup
from forecaster.cli.options import Json, Weather
from forecaster.cli.report import write_report
from forecaster.errors import count_of


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
) -> None:
    """Show the whole path on a built-in city: trips, panel, graph, models, their errors."""
    from forecaster.pipeline.demo import DEMO_TRAINING, run_demo

    with screen.training(DEMO_TRAINING.epochs) as (say, watch):
        made = run_demo(out, say, watch)
    screen.print_checkup("a city with known truth", made.checkup)
    print(f"\n{made.city}\n{made.windows}\n")
    rows = made.comparison.tested
    reports = {row.name: row.first.errors[row.first.weather].report() for row in rows}
    screen.print_reports(reports, made.floor.tolist())
    print("\n".join(["", *made.comparison.verdict]))
    checkup = write_checkup(out, "A city with known truth", made.panel, made.checkup)
    if checkup is not None:  # else it has said which extra is lacking
        print(f"\nThe checkup of the panel lies in {checkup}, the report in {write_report(out)}")


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
