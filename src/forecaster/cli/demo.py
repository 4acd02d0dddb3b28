"""The whole path on a built-in city: demo."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli import terminal
from forecaster.cli.doctor import write_checkup
from forecaster.cli.evaluate import write_report


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
) -> None:
    """Show the whole path on a built-in city: trips, panel, graph, models, their errors."""
    from forecaster.pipeline.demo import run_demo

    with terminal.training() as (say, watch):
        made = run_demo(out, say, watch)
    terminal.print_checkup("a city with known truth", made.checkup)
    print(f"\nthe city's own dependencies: {made.city}\n{made.windows}\n")
    rows = made.comparison.tested
    reports = {row.name: row.first.errors[row.first.weather].report() for row in rows}
    terminal.print_reports(reports, made.floor.tolist())
    print("\n".join(["", *made.comparison.verdict]))
    checkup = write_checkup(out, "A city with known truth", made.panel, made.checkup)
    if checkup is not None:  # else it has said which extra is lacking
        print(f"\nThe checkup of the panel lies in {checkup}, the report in {write_report(out)}")
