"""Versions of runs: runs."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.versions import Version, Versions

SHORT = 12  # digits of a hash
DATE, MODEL_WIDTH = 10, 15  # characters


def runs(
    folder: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder of versions.")],
    add: Annotated[
        Path | None,
        typer.Option(
            help="Copy a run as the newest version and make it current. A new RUNS is made."
        ),
    ] = None,
    promote: Annotated[str | None, typer.Option(help="Version to make current.")] = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Make current what was current before.")
    ] = False,
    remove: Annotated[
        list[str] | None, typer.Option(help="Version to remove for good. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the versions of a run, and move the current one."""
    from forecaster.versions import Versions

    actions = [add is not None, promote is not None, rollback, bool(remove)]
    if sum(actions) > 1:
        raise ConfigError("--add, --promote, --rollback and --remove: give one at a time")
    versions = Versions.begin(folder) if add is not None else Versions(folder)
    before = versions.current
    if add is not None:
        versions.add(add)
    if promote is not None:
        versions.promote(promote)
    if rollback:
        versions.rollback()
    for name in remove or []:
        versions.remove(name)
    if any(actions[:3]):
        _say_move(versions, before)
    rows = [_describe(version, versions) for version in versions.entries()]
    if as_json:
        print(json.dumps({"current": versions.current, "versions": rows}))
    else:
        _print_versions(rows)


def _say_move(versions: "Versions", before: str | None) -> None:
    current = versions.current
    same = f"{current} is current already; nothing to do"
    terminal.say(same if current == before else f"current: {current} (was {before or 'none'})")


def _describe(version: "Version", versions: "Versions") -> dict[str, Any]:
    """A version as JSON: its state, its lineage and its verdict."""
    from forecaster.versions import PARENT

    names = {v.manifest.digest: v.name for v in versions.entries()}
    parents, verdict = version.manifest.parents, version.verdict
    began = parents.get(PARENT)
    return {
        "version": version.name,
        "current": version.name == versions.current,
        "finished": version.is_finished,
        "estimator": version.estimator,
        "run": version.manifest.digest if version.is_finished else None,
        "began_from": None if began is None else names.get(began, began[:SHORT]),
        "panel": parents.get("panel"),
        "recipe": version.manifest.recipe,
        "learned_until": version.learned_until,
        "verdict": None if verdict is None else verdict["verdict"],
        "reason": None if verdict is None else verdict["reason"],
    }


def _print_versions(rows: list[dict[str, Any]]) -> None:
    """Print a table that is readable at 80 columns; hashes and full verdicts are in the JSON."""
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("", "version", "model", "from", "learned until", "verdict"):
        width = MODEL_WIDTH if column == "model" else None
        table.add_column(column, no_wrap=column not in {"model", "verdict"}, max_width=width)
    for row in rows:
        cells = [
            "→" if row["current"] else "",
            row["version"],
            row["estimator"] if row["finished"] else f"{row['estimator']}, unfinished",
            row["began_from"] or "",
            (row["learned_until"] or "")[:DATE],
            _shorten(row["verdict"], row["reason"]),
        ]
        table.add_row(*(Text(cell) for cell in cells))
    terminal.console().print(table)
    if any(row["verdict"] for row in rows):
        terminal.say("in full: verdict.html in the folder of a version, or --json")


def _shorten(verdict: str | None, reason: str | None) -> str:
    """A verdict with the first difference of its reason, without the interval."""
    first, *further = (reason or "").split("; ")
    text = re.sub(r" \(.*?\)", "", first) + (f"; {len(further)} more" if further else "")
    return f"{verdict}: {text}" if verdict else ""
