"""Forecasts of many origins, panels and runs: forecasts."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.choices import JobEngine
from forecaster.cli import terminal


def forecasts(
    jobs: Annotated[
        Path,
        typer.Argument(
            help="Table with columns run and panel, and perhaps at and weather: a row for each "
            "forecast."
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the Parquet files.")],
    engine: Annotated[
        JobEngine,
        typer.Option(
            help="What forecasts: this process, or Spark (the active session, or one of this "
            "machine)."
        ),
    ] = "process",
) -> None:
    """Forecast many origins, panels and runs, as Parquet files."""
    from forecaster.pipeline.forecast_jobs import forecast_jobs, read_jobs

    terminal.say(f"{out}: {forecast_jobs(read_jobs(jobs), out, engine)}")
