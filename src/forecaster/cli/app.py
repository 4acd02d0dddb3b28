"""The entry point: global options, commands and exit codes."""

import errno
import logging
import os
import sys
import traceback
from typing import Annotated

import typer

from forecaster.cli import demo, run, terminal
from forecaster.cli.models import evaluate, explain, forecast, forecasts, graph, train
from forecaster.cli.operation import backup, drift, runs, serve, update
from forecaster.cli.panels import append, check, doctor, ingest
from forecaster.errors import ForecasterError, RunError, message_lines, naming_options

GLOBAL_OPTIONS = ("--quiet", "-q", "--debug")
OUT_OF_MEMORY = (  # how libraries say it, in other types of errors
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",
    "can't start new thread",
    "thread creation failed",
    "without setting an exception",  # a SystemError
    "without exception set",
)
INTERRUPTED = 130  # typer's code for Ctrl-C

app = typer.Typer(
    name="forecaster",
    help="Forecast spatial time series with a graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo.demo, run.run, doctor.doctor, graph.graph, train.train, evaluate.evaluate,
    evaluate.report, forecast.forecast, forecasts.forecasts, explain.explain, append.append,
    drift.drift, update.update, runs.runs, serve.serve, backup.backup, backup.restore, check.check,
):  # fmt: skip
    app.command()(command)
app.add_typer(ingest.app, name="ingest")
app.add_typer(ingest.download_app, name="download")


def main(arguments: list[str] | None = None) -> None:
    """Run the command and exit with its code: 2 usage, 3 data, 4 artifact, 5 runtime."""
    # Idle threads of torch sleep: spinning takes ten times as long on a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = sys.argv[1:] if arguments is None else arguments
    # Global options are allowed anywhere on the command line.
    leading = [word for word in words if word in GLOBAL_OPTIONS]
    remaining = [word for word in words if word not in GLOBAL_OPTIONS]
    try:
        with naming_options():
            app(args=[*leading, *remaining], prog_name="forecaster")
    except SystemExit as leaving:
        if leaving.code != INTERRUPTED:
            raise
        sys.exit(_print_interrupted())
    except KeyboardInterrupt:
        sys.exit(_print_interrupted())
    except Exception as error:
        sys.exit(_print_error(error))


def _print_interrupted() -> int:
    print("forecaster: interrupted; no incomplete file was left", file=sys.stderr)
    return RunError.exit_code


def _print_error(error: Exception) -> int:
    """Print an error message and return the exit code."""
    if terminal.MODE.debug:
        traceback.print_exception(error)
    if isinstance(error, ForecasterError):
        print(f"forecaster: {error}", file=sys.stderr)
        return error.exit_code
    if _is_out_of_memory(error):
        print(
            "forecaster: out of memory; use a smaller panel or a larger machine", file=sys.stderr
        )
    elif isinstance(error, OSError):
        cause = error.strerror or error
        place = f"{error.filename}: " if error.filename else ""
        print(f"forecaster: {message_lines(f'{place}{cause}')}; check it", file=sys.stderr)
    else:
        message = message_lines(f"{type(error).__name__}: {error}")
        hint = "This is a bug in forecaster; --debug shows the traceback."
        print(f"forecaster: {message}\n{hint}", file=sys.stderr)
    return RunError.exit_code


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, says that memory or threads are used up."""
    if error is None:
        return False
    used_up = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    text = str(error).lower()
    return (
        used_up
        or any(sign in text for sign in OUT_OF_MEMORY)
        or _is_out_of_memory(error.__cause__ or error.__context__)
    )


def _print_version(requested: bool) -> None:
    if requested:
        from forecaster import __version__

        print(f"forecaster {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only results.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and debug messages.")
    ] = False,
    version: Annotated[  # noqa: ARG001 (handled by its callback)
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    terminal.MODE.quiet, terminal.MODE.debug = quiet, debug
    level = logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(terminal.LogFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
