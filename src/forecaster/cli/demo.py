"""The whole path on a built-in city: demo."""

from pathlib import Path
from typing import Annotated

import typer

from forecaster.cli import terminal
from forecaster.cli.models.evaluate import write_report
from forecaster.cli.panels.doctor import write_checkup


def demo(
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("demo"),
) -> None:
    """Run all steps on a synthetic city: trips, panel, graph, models and their errors."""
    from forecaster.pipeline.demo import run_demo

    with terminal.training() as (say, on_progress):
        result = run_demo(out, say, on_progress)
    terminal.print_checkup("a city with known truth", result.checkup)
    print(f"\nthe city's true dependencies: {result.city}\n{result.windows}\n")
    rows = result.comparison.tested
    reports = {row.name: row.first.errors[row.first.weather].report() for row in rows}
    terminal.print_reports(reports, result.floor.tolist())
    print(result.comparison.scored_outputs)
    texts = (*result.comparison.verdict, *result.comparison.ensembles)
    print("\n".join(["", *texts, *result.comparison.fallbacks]))
    checkup = write_checkup(out, "A city with known truth", result.panel, result.checkup)
    if checkup is not None:  # None: an extra is missing; a message was printed
        print(f"\nThe checkup of the panel: {checkup}; the report: {write_report(out)}")
