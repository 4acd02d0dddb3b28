"""The command itself: its options, its commands, its exit codes."""

import logging
import os
import sys
import traceback
from typing import Annotated

import typer

from forecaster.cli import (
    check,
    demo,
    doctor,
    evaluate,
    explain,
    forecast,
    graph,
    ingest,
    serve,
    terminal,
    train,
)
from forecaster.errors import ForecasterError, RunError

GLOBAL_OPTIONS = ("--quiet", "-q", "--debug")
INTERRUPTED = 130  # typer's code for Ctrl-C

app = typer.Typer(
    name="forecaster",
    help="Forecasts spatial and time-dependent data with a graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo.demo, evaluate.run, doctor.doctor, graph.graph, train.train, evaluate.evaluate,
    evaluate.report, forecast.forecast, explain.explain, serve.serve, check.check,
):  # fmt: skip
    app.command()(command)
app.add_typer(ingest.app, name="ingest")
app.add_typer(ingest.download_app, name="download")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code: 2 usage, 3 data, 4 artifact, 5 runtime."""
    # Waiting threads of torch must sleep: on a busy machine spinning takes ten times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    given = sys.argv[1:] if arguments is None else arguments
    # Global options are understood anywhere, as people type them.
    leading = [word for word in given if word in GLOBAL_OPTIONS]
    rest = [word for word in given if word not in GLOBAL_OPTIONS]
    try:
        app(args=[*leading, *rest], prog_name="forecaster")
    except SystemExit as left:
        if left.code != INTERRUPTED:
            raise
        print("forecaster: interrupted; nothing is left half-written", file=sys.stderr)
        sys.exit(RunError.exit_code)
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Print an error for a person and return its exit code."""
    if terminal.MODE.debug:
        traceback.print_exception(error)
    if isinstance(error, ForecasterError):
        print(f"forecaster: {error}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, MemoryError):
        print(
            "forecaster: out of memory; use a smaller panel or a larger machine", file=sys.stderr
        )
    else:
        what = f"{type(error).__name__}: {error}"
        hint = "This is a fault of forecaster; --debug shows where it happened."
        print(f"forecaster: {what}\n{hint}", file=sys.stderr)
    return RunError.exit_code


def _version(wanted: bool) -> None:
    if wanted:
        from forecaster import __version__

        print(f"forecaster {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results only.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and debug messages.")
    ] = False,
    version: Annotated[  # noqa: ARG001 (handled by its callback)
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    terminal.MODE.quiet, terminal.MODE.debug = quiet, debug
    level = logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)
