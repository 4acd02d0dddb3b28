"""The command `forecaster`. Heavy imports happen inside commands, so --help answers at once."""

import contextlib
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forecaster.errors import ForecasterError, RunError, count_of

if TYPE_CHECKING:
    from forecaster.metrics import Report
    from forecaster.panel.panel import Panel
    from forecaster.report.doctor import Checkup

app = typer.Typer(
    name="forecaster",
    help="Forecasts spatial and time-dependent data with a graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

GLOBAL_OPTIONS = ("--quiet", "-q", "--debug")
BYTES_PER_SECOND = 400e6  # hashing, measured on one core; used only for estimates
VALUES_PER_SECOND = 10e6  # examining, measured on one core
LONG_SECONDS = 60.0

Json = Annotated[bool, typer.Option("--json", help="Print data instead of words.")]
Weather = Literal["observed", "persist", "climatology", "none"]
Advance = Callable[[int], None]


@dataclass
class Mode:
    """How the command speaks; set once from the global options."""

    quiet: bool = False
    debug: bool = False


MODE = Mode()


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code: 2 usage, 3 data, 4 artifact, 5 runtime."""
    given = sys.argv[1:] if arguments is None else arguments
    # Global options are understood anywhere, as people type them.
    leading = [word for word in given if word in GLOBAL_OPTIONS]
    rest = [word for word in given if word not in GLOBAL_OPTIONS]
    try:
        app(args=[*leading, *rest], prog_name="forecaster")
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Print an error for a person and return its exit code."""
    if MODE.debug:
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
        from importlib.metadata import version  # noqa: PLC0415

        print(f"forecaster {version('forecaster')}")
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
    MODE.quiet, MODE.debug = quiet, debug
    level = logging.DEBUG if debug else logging.ERROR if quiet else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(message)s", stream=sys.stderr)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("demo"),
) -> None:
    """Show the whole path on a built-in city: panel, checkup, models, their errors."""
    from forecaster.pipeline import run_demo  # noqa: PLC0415

    with _stages() as say:
        made = run_demo(out, say)
    _print_checkup("a city with known truth", made.checkup)
    print(f"\n{made.windows}\n")
    _print_reports(made.reports, made.floor.tolist())
    page = _write_checkup(out, "A city with known truth", made.panel, made.checkup)
    if page is not None:
        print(f"\nThe report lies in {page}")


@app.command()
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
    from forecaster.estimators.registry import load_estimator  # noqa: PLC0415
    from forecaster.estimators.table import write_forecast  # noqa: PLC0415

    data = _open_panel(panel)
    estimator = load_estimator(run)
    table = estimator.forecast(data, at, weather=weather, allow_missing=allow_missing)
    if out is not None:
        write_forecast(table, data, out)
        if not MODE.quiet:
            print(f"{count_of(len(table), 'row')} in {out}", file=sys.stderr)
    elif as_json:
        print(table.to_json(orient="records", date_format="iso"))
    else:
        print(table.to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%SZ"), end="")


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A panel, graph or run, or a folder of them.")],
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove old and unfinished files.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify every file of an artifact against its manifest."""
    from forecaster.publish.manifest import artifacts_below, read_manifest  # noqa: PLC0415

    folders = artifacts_below(path) or [path]  # a folder without any manifest says why itself
    reports = [_check_one(folder) for folder in folders]
    if prune:
        from forecaster.publish.writing import prune as remove_old  # noqa: PLC0415

        for report, folder in zip(reports, folders, strict=True):
            report["pruned"] = [old.name for old in remove_old(folder)]
            report["leftovers"] = []
            read_manifest(folder)
    if as_json:
        print(json.dumps(reports))
        return
    for report in reports:
        _print_check(report)


def _check_one(folder: Path) -> dict[str, Any]:
    from forecaster.publish.manifest import leftovers, read_manifest, verify_files  # noqa: PLC0415

    manifest = read_manifest(folder)
    size = sum(file.size for file in manifest.files.values())
    _announce(size / BYTES_PER_SECOND, 0, f"verifying {folder}")
    with _progress(f"verifying {folder.name}", size) as advance:
        verify_files(folder, manifest, advance)
    report: dict[str, Any] = {
        "path": str(folder),
        "kind": manifest.kind,
        "format": manifest.version,
        "hash": manifest.digest,
        "files": len(manifest.files),
        "bytes": size,
        "leftovers": [old.name for old in leftovers(folder, manifest)],
    }
    if manifest.kind == "panel":
        report["observed"] = _observed(folder)
    return report


def _observed(folder: Path) -> float:
    """Return the share of values that are not missing, having read the panel as its users will."""
    import numpy as np  # noqa: PLC0415

    from forecaster.panel.panel import Panel  # noqa: PLC0415

    return float(np.isfinite(Panel.open(folder, verify=False).values).mean())


def _print_check(report: dict[str, Any]) -> None:
    observed = f", {100 * report['observed']:.2f} % observed" if "observed" in report else ""
    size = f"{count_of(report['files'], 'file')}, {report['bytes'] / 1e6:,.1f} MB"
    name = f"{report['kind']} (format {report['format']}, {report['hash'][:12]})"
    print(f"{report['path']}: {name}: {size}, all as published{observed}")
    for old in report.get("pruned", []):
        print(f"  removed {old}")
    if report["leftovers"]:
        what = count_of(len(report["leftovers"]), "old or unfinished file")
        print(f"  {what}; --prune removes them")


@app.command()
def doctor(
    panel: Annotated[Path, typer.Argument(help="The folder of a panel.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the page and the picture. [default: NAME-doctor]"),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe with the lags and the MAPE cut.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what to know of a panel before trusting it, with a picture."""
    from forecaster.config import Recipe, read_recipe  # noqa: PLC0415

    rules = read_recipe(recipe) if recipe else Recipe()
    data = _open_panel(panel)
    checkup = _examine(data, rules)
    if as_json:
        print(json.dumps(checkup.to_json(), ensure_ascii=False))
    else:
        _print_checkup(panel.resolve().name, checkup)
    target = out or Path(f"{panel.resolve().name}-doctor")
    if out or not as_json:
        _write_checkup(target, panel.resolve().name, data, checkup)


def _open_panel(folder: Path) -> "Panel":
    from forecaster.panel.panel import Panel  # noqa: PLC0415
    from forecaster.publish.manifest import read_manifest  # noqa: PLC0415

    size = sum(file.size for file in read_manifest(folder).files.values())
    with _progress(f"opening {folder.name}", size) as advance:
        return Panel.open(folder, progress=advance)


def _examine(panel: "Panel", recipe: Any) -> "Checkup":
    from forecaster.report.doctor import examine  # noqa: PLC0415

    _announce(panel.values.size / VALUES_PER_SECOND, 3 * panel.values.nbytes, "the checkup")
    with _progress("examining", panel.values.shape[1]) as advance:
        return examine(panel, recipe, advance)


def _print_checkup(name: str, checkup: "Checkup") -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    colours = {"good": "green", "note": "cyan", "warning": "bold red"}
    facts = Table.grid(padding=(0, 2))
    for fact, value in checkup.facts.items():
        facts.add_row(Text(fact, style="dim"), Text(value))
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in checkup.findings:
        words = Text(finding.text)
        for detail in finding.details:
            words.append(f"\n  {detail}", style="dim")
        style = colours[finding.level]
        table.add_row(Text(finding.level, style=style), Text(finding.topic), words)
    console = Console(highlight=False)
    console.print(Text(name, style="bold"))
    console.print(facts)
    console.print()
    console.print(table)
    console.print()
    what = f"{count_of(checkup.warnings, 'thing')} to look into before trusting this panel"
    console.print(Text(what if checkup.warnings else "nothing stands in the way of using it"))


def _write_checkup(folder: Path, name: str, panel: "Panel", checkup: "Checkup") -> Path | None:
    """Write the page and the picture; without the extra say in one line what is lacking."""
    from forecaster.errors import ConfigError  # noqa: PLC0415
    from forecaster.publish.writing import bytes_writer, replace_file  # noqa: PLC0415
    from forecaster.report.figures import draw_coverage  # noqa: PLC0415
    from forecaster.report.page import render_checkup  # noqa: PLC0415

    try:
        picture = draw_coverage(panel)
        page = render_checkup(name, checkup, picture)
    except ConfigError as lacking:
        print(f"no page and no picture: {lacking}", file=sys.stderr)
        return None
    replace_file(folder / "doctor.png", bytes_writer(picture))
    replace_file(folder / "doctor.html", bytes_writer(page.encode()))
    if not MODE.quiet:
        print(
            f"page: {folder / 'doctor.html'}   picture: {folder / 'doctor.png'}", file=sys.stderr
        )
    return folder / "doctor.html"


def _print_reports(reports: "dict[str, Report]", floor: list[float]) -> None:
    """Print RMSE and MAPE of each model, average and per step, beside the floor."""
    from rich.box import SIMPLE  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    steps = range(1, len(floor) + 1)
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0), title_justify="left")
    table.title = "Error on the test windows, average and k steps ahead (weather as observed)"
    table.add_column("model", no_wrap=True)
    for column in ("RMSE", *(f"+{k}" for k in steps), "MAPE %", *(f"+{k}" for k in steps)):
        table.add_column(column, justify="right")
    for name, report in reports.items():
        scores = (report.average, *report.steps)
        rmse = [score.rmse.show() for score in scores]
        table.add_row(name, *rmse, *(score.mape.show(percent=True) for score in scores))
    whole = (sum(value**2 for value in floor) / len(floor)) ** 0.5
    table.add_row("floor", *(f"{value:.2f}" for value in (whole, *floor)), style="dim")
    Console().print(table)
    print("floor: the error left when the city's hidden state at the origin is known;")
    print("no forecast can be below it, and none attains it.")


@contextlib.contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """Show what is being done and for how long; plain lines when not on a terminal."""
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda what: None if MODE.quiet else print(f"{what} …", file=sys.stderr)
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status("") as status:
        yield lambda what: status.update(f"{what} …")


@contextlib.contextmanager
def _progress(what: str, total: int) -> Iterator[Advance]:
    """Show a bar on the terminal's error stream; nothing when it is not a terminal, or quiet."""
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


def _announce(seconds: float, memory_bytes: int, what: str) -> None:
    """Before a long job, say how long and how much memory it will take."""
    if seconds > LONG_SECONDS and not MODE.quiet:
        memory = f" and {memory_bytes / 2**30:.1f} GiB of memory" if memory_bytes else ""
        print(f"{what}: about {seconds / 60:.0f} min{memory}", file=sys.stderr)
