"""Whether a run is out of date: drift."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forecaster.cli import terminal
from forecaster.cli.options import Json, open_panel
from forecaster.errors import ConfigError

if TYPE_CHECKING:
    from forecaster.evaluation.drift.drift import Drift
    from forecaster.panel.panel import Panel


def drift(
    run: Annotated[Path, typer.Argument(help="Folder of a saved estimator.")],
    panel: Annotated[
        Path, typer.Option(help="Folder of the panel, with what came since the training.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page drift.html. Default: NAME-drift.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell whether the world is still the one that a run has learned, and what to do."""
    from forecaster.estimators.registry import load_estimator
    from forecaster.evaluation.drift.drift import find_drift
    from forecaster.report.drift.findings import to_findings

    data = open_panel(panel)
    estimator = load_estimator(run)
    steps = len(data.values) // max(estimator.recipe.lags.horizon, 1)
    with terminal.progress("forecasting", steps) as advance:
        drift = find_drift(estimator, data, advance)
    if as_json:
        print(json.dumps(drift.to_json(), ensure_ascii=False))
    else:
        terminal.print_checkup(run.resolve().name, to_findings(drift))
    if out or not as_json:
        _write_page(out or Path(f"{run.resolve().name}-drift"), run.resolve().name, drift, data)


def _write_page(folder: Path, name: str, drift: "Drift", panel: "Panel") -> None:
    """Write the page; without the extra `report` only print a message."""
    from forecaster.publish.writing import bytes_writer, replace_file
    from forecaster.report.drift.findings import to_findings
    from forecaster.report.drift.page import render_drift

    try:
        page = render_drift(name, drift, to_findings(drift), panel)
    except ConfigError as missing_extra:
        print(f"no page: {missing_extra}", file=sys.stderr)
        return
    replace_file(folder / "drift.html", bytes_writer(page.encode()))
    terminal.say(f"report: {folder / 'drift.html'}")
