"""How the command speaks: modes, progress, estimates, tables."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forecaster.errors import count_of

if TYPE_CHECKING:
    from forecaster.metrics import Report
    from forecaster.report.doctor.checkup import Checkup
    from forecaster.training.progress import ProgressCallback, ProgressUpdate

LONG_SECONDS = 60.0
Advance = Callable[[int], None]


@dataclass
class Mode:
    """How the command speaks; set once from the global options."""

    quiet: bool = False
    debug: bool = False


MODE = Mode()


def say(text: str) -> None:
    """Print something for a person, beside the results and not among them."""
    if not MODE.quiet:
        print(text, file=sys.stderr)


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Show a bar on the terminal's error stream; nothing when it is not a terminal, or quiet."""
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)


@contextlib.contextmanager
def stages(total: int | None = None) -> Iterator[tuple[Callable[[str], None], Advance]]:
    """Show what is being done, with a bar where its size is known; plain lines elsewhere.

    Yields a function that names the next stage, and one that says how much of it is done.
    """
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda what: say(f"{what} …"), lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the files through" if total else "", total=total)

        def name(what: str) -> None:
            bar.reset(task, total=None, description=what)

        yield name, lambda done: bar.advance(task, done)


@contextlib.contextmanager
def training() -> "Iterator[tuple[Callable[[str], None], ProgressCallback]]":
    """Show how a training gets on: a live bar, or a line for each epoch where there is none.

    Yields a function that names a stage before it, and one that is told of its moments.
    """
    logger = logging.getLogger("forecaster.training.loop")  # warns of what the moments tell too
    with contextlib.ExitStack() as restored:
        restored.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        yield restored.enter_context(_training())


@contextlib.contextmanager
def _training() -> "Iterator[tuple[Callable[[str], None], ProgressCallback]]":
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda what: say(f"{what} …"), _EpochLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    figures = TextColumn("{task.fields[figures]}")
    columns = TextColumn("{task.description}"), BarColumn(bar_width=10), figures
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, figures="")

        def watch(moment: "ProgressUpdate") -> None:
            if moment.message:
                bar.console.print(moment.message, highlight=False, markup=False)
            text = f"epoch {moment.epoch}/{moment.epochs}"
            bar.update(task, total=moment.steps, completed=moment.step, description=text)
            bar.update(task, figures=_figures(moment, moment.loss))

        yield lambda what: bar.reset(task, total=None, description=what), watch


class _EpochLines:
    """Says the figures of each epoch once it was validated."""

    def __init__(self) -> None:
        self._before: ProgressUpdate | None = None

    def __call__(self, moment: "ProgressUpdate") -> None:
        before, self._before = self._before, moment
        if moment.message:
            say(moment.message)
        if before is not None and moment.step < before.step:  # another training has begun
            return
        if before is not None and moment.rmse != before.rmse:
            done = moment.step * moment.epochs // moment.steps
            say(f"epoch {done} of {moment.epochs}: {_figures(moment, before.loss)}")


def _figures(moment: "ProgressUpdate", loss: float | None) -> str:
    """Return what is known at a moment in few enough words for one line."""
    left = None if moment.seconds_left is None else divmod(round(moment.seconds_left), 60)
    known = {
        "loss {:.4g}": loss,
        "validation RMSE {:.4g}": moment.rmse,
        "MAPE {:.2f} %": None if moment.mape is None else 100 * moment.mape,
        "{:,.0f} windows/s": moment.windows_per_second,
        "{0[0]}:{0[1]:02d} left": left,
    }
    return ", ".join(form.format(value) for form, value in known.items() if value is not None)


def announce(seconds: float, memory_bytes: int, what: str) -> None:
    """Before a long job, say how long and how much memory it will take."""
    if seconds > LONG_SECONDS and not MODE.quiet:
        memory = f" and {memory_bytes / 2**30:.1f} GiB of memory" if memory_bytes else ""
        print(f"{what}: about {seconds / 60:.0f} min{memory}", file=sys.stderr)


def print_checkup(name: str, checkup: "Checkup") -> None:
    """Print a checkup as one page."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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


def print_reports(reports: "dict[str, Report]", floor: list[float]) -> None:
    """Print RMSE and MAPE of each model, average and per step, beside the floor."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

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
    whole_span = next(iter(reports.values())).average
    terms = f"{whole_span.rmse.terms:,} for RMSE, {whole_span.mape.terms:,} for MAPE"
    print(f"terms: {terms}, alike for all models")
    print("floor: the error left when the city's hidden state at the origin is known;")
    print("up to chance no forecast can be below it, and none attains it.")
