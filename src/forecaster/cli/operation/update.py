"""Keeping a run up to date: update."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json, Mlflow, open_panel, open_record
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.pipeline.mlflow_record import MlflowRecord
    from forecaster.pipeline.update import Updated

KEPT = 10  # exit code of --exit-code
Promote = Literal["never", "auto", "always"]


def update(  # noqa: PLR0913, PLR0917 (one option each)
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of versions.")],
    panel: Annotated[Path, typer.Option(help="Folder of the panel, with newer data.")],
    promote: Annotated[
        Promote, typer.Option(help="Whether the challenger becomes current: auto by the verdict.")
    ] = "auto",
    held_out: Annotated[
        int, typer.Option(help="Newest days that are compared on, not learned from.", min=7)
    ] = 14,
    accept_fewer_places: Annotated[
        bool,
        typer.Option(
            "--accept-fewer-places", help="Accept a panel without half of the run's locations."
        ),
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help=f"Exit with {KEPT} if the champion is kept.")
    ] = False,
    mlflow: Mlflow = None,
    as_json: Json = False,
) -> None:
    """Train a challenger from the current version, compare both, and promote the better one.

    The same command resumes an interrupted update. Repeated afterwards, it changes nothing: a
    version that was rolled back stays so until newer data or --promote always.
    """
    from forecaster.pipeline.update import UpdateSettings
    from forecaster.pipeline.update import update as update_runs

    settings = UpdateSettings(promote, held_out, accept_fewer_places)
    record = open_record(mlflow)
    with terminal.training() as (say, on_progress):
        updated = update_runs(runs, open_panel(panel), settings, say, on_progress)
    _write_page(updated)
    if record is not None:
        _record(record, updated)
    if updated.was_finished:
        terminal.say(_describe_finished(updated))
    if as_json:
        content = {name: updated.verdict[name] for name in updated.verdict if name != "daily"}
        print(json.dumps({**content, "promoted": updated.is_promoted, "current": updated.current}))
    else:
        _print_verdict(updated)
    if exit_code and not updated.is_promoted:
        raise typer.Exit(KEPT)


def _record(record: "MlflowRecord", updated: "Updated") -> None:
    """Record a challenger and the verdict about it."""
    from forecaster.artifact import load_run
    from forecaster.pipeline.mlflow_record import MlflowEntry
    from forecaster.versions import VERDICT_PAGE

    folder, run = updated.version.folder, load_run(updated.version.folder)
    entry = MlflowEntry(folder.name, run.digest or "", run.recipe)
    entry.files = [folder / VERDICT_PAGE, folder / "manifest.json"]
    entry.tags["current"] = updated.current
    entry.add_epochs(run.about.get("training", {}).get("epochs", ()))
    entry.add_verdict(updated.verdict)
    record.write(entry)


def _print_verdict(updated: "Updated") -> None:
    verdict = updated.verdict
    outcome = "promoted" if updated.is_promoted else f"kept {updated.current}"
    print(f"{updated.version.name}: {outcome}; {verdict['reason']}")


def _describe_finished(updated: "Updated") -> str:
    name = updated.version.name
    text = f"{name} was trained on this panel and compared before"
    if updated.is_promoted or not updated.was_taken_back:
        return text
    return f"{text}, and taken back; newer data or --promote always may replace {updated.current}"


def _write_page(updated: "Updated") -> None:
    """Write the page about the verdict; without the extra `report` only say so."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.challenge import render_challenge
    from forecaster.versions import VERDICT_PAGE

    path = updated.version.folder / VERDICT_PAGE
    try:
        page = render_challenge(updated.verdict)
    except ConfigError as missing_extra:
        terminal.say(f"no page: {missing_extra}")
        return
    replace_file(path, bytes_writer(page.encode()))
    terminal.say(f"verdict: {path}")
