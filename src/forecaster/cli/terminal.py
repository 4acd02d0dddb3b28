"""Output on the terminal: messages, progress bars, estimates and tables."""

import contextlib
import logging
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from forecaster.errors import count_of, message_lines, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forecaster.metrics import ScoresByStep
    from forecaster.report.doctor.checkup import Checkup
    from forecaster.training.progress import ProgressCallback, ProgressUpdate

LONG_SECONDS = 60.0
WIDTH = 100  # characters of a line at most; fewer where the terminal is narrower
NAME_WIDTH = 26  # characters of a name in a table, which goes on below if it is longer
TITLE_WIDTH = 12  # characters of a column's title, likewise
COLUMN_GAP = 2  # characters: the padding of a cell, and a blank between columns
FACT_WIDTH = 13  # characters of the name of a fact
FAILED = "failed"
Advance = Callable[[int], None]


@dataclass
class Mode:
    """The verbosity of the command, set from the global options."""

    quiet: bool = False
    debug: bool = False


MODE = Mode()


def say(text: str) -> None:
    """Print a message on the error stream, unless quiet."""
    if not MODE.quiet:
        print(_folded(message_lines(text), sys.stderr), file=sys.stderr)


def show(text: str) -> None:
    """Print a line of the result."""
    print(_folded(message_lines(text), sys.stdout))


def say_command(command: str) -> None:
    """Print a command to copy on the error stream, in one line however long it is."""
    if not MODE.quiet:
        print(f"  {message_lines(command)}", file=sys.stderr)


def show_facts(facts: "Mapping[str, str]") -> None:
    """Print names and what they hold, in lines of the result that the terminal can show."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, COLUMN_GAP))
    table.add_column(min_width=FACT_WIDTH)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        table.add_row(Text(name, style="dim"), Text(message_lines(text)))
    console().print(table)


def width() -> int:
    """Return the characters of a line: those of the terminal, at most 100; 100 on a pipe."""
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def console() -> "Console":
    """Return a console for results, whose lines are never longer than `width`."""
    from rich.console import Console

    return Console(highlight=False, width=width())


def _folded(text: str, stream: TextIO) -> str:
    """Fold long lines between words on a terminal; on a pipe a message stays one line."""
    if not stream.isatty():
        return text
    fold = textwrap.TextWrapper(
        width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines = text.splitlines() or [""]
    return "\n".join(line if len(line) <= fold.width else fold.fill(line) for line in lines)


class LogFormatter(logging.Formatter):
    """Makes lines of a log that show what they hold."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text, with hidden characters written out."""
        return message_lines(super().format(record))


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Show a progress bar on the error stream, if it is a terminal and not quiet."""
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.advance(task, done)


@contextlib.contextmanager
def stages(total: int | None = None) -> Iterator[tuple[Callable[[str], None], Advance]]:
    """Show the current stage with a progress bar; on a pipe print a line per stage.

    Yields a function that begins the next stage, and one that advances the bar.
    """
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda stage: say(f"{stage} …"), lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the files" if total else "", total=total)

        def begin(stage: str) -> None:
            bar.reset(task, total=None, description=printable(stage))

        yield begin, lambda done: bar.advance(task, done)


@contextlib.contextmanager
def training() -> "Iterator[tuple[Callable[[str], None], ProgressCallback]]":
    """Show the progress of a training: a live bar, or a line per epoch on a pipe.

    Yields a function that names a stage before training, and the progress callback.
    """
    logger = logging.getLogger("forecaster.training.loop")  # its warnings are also in the updates
    with contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        yield stack.enter_context(_training())


@contextlib.contextmanager
def _training() -> "Iterator[tuple[Callable[[str], None], ProgressCallback]]":
    if MODE.quiet or not sys.stderr.isatty():
        yield lambda stage: say(f"{stage} …"), _EpochLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    figures = TextColumn("{task.fields[figures]}")
    columns = TextColumn("{task.description}"), BarColumn(bar_width=10), figures
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, figures="")
        loss: float | None = None  # the last one known: an epoch begins without any

        def on_progress(update: "ProgressUpdate") -> None:
            nonlocal loss
            if update.message:
                bar.console.print(update.message, highlight=False, markup=False)
            if not update.steps:  # a stage without a bar
                return
            loss = loss if update.loss is None else update.loss
            text = f"{update.unit} {update.epoch}/{update.epochs}"
            bar.update(task, total=update.steps, completed=update.step, description=text)
            bar.update(task, figures=_figures(update, loss))

        yield lambda stage: bar.reset(task, total=None, description=stage), on_progress


class _EpochLines:
    """Prints the metrics of each epoch after its validation."""

    def __init__(self) -> None:
        self._previous: ProgressUpdate | None = None

    def __call__(self, update: "ProgressUpdate") -> None:
        if update.message:
            say(update.message)
        if not update.steps:  # a stage without epochs
            return
        previous, self._previous = self._previous, update
        if previous is not None and update.step < previous.step:  # a new training
            return
        if previous is not None and update.rmse != previous.rmse:
            done = update.step * update.epochs // update.steps
            say(f"epoch {done} of {update.epochs}: {_figures(update, previous.loss)}")


def _figures(update: "ProgressUpdate", loss: float | None) -> str:
    """Return the metrics of an update in one line."""
    time_left = None if update.seconds_left is None else divmod(round(update.seconds_left), 60)
    metrics = {
        "loss {:.4g}": loss,
        "validation RMSE {:.4g}": update.rmse,
        "MAPE {:.2f} %": None if update.mape is None else 100 * update.mape,
        "{:,.0f} windows/s": update.windows_per_second,
        "{0[0]}:{0[1]:02d} left": time_left,
    }
    return ", ".join(form.format(value) for form, value in metrics.items() if value is not None)


def announce(seconds: float, memory_bytes: int, job: str) -> None:
    """Print the estimated time and memory of a long job."""
    if seconds > LONG_SECONDS and not MODE.quiet:
        memory = f" and {memory_bytes / 2**30:.1f} GiB of memory" if memory_bytes else ""
        print(f"{job}: about {seconds / 60:.0f} min{memory}", file=sys.stderr)


def print_checkup(name: str, checkup: "Checkup") -> None:
    """Print the findings of a checkup."""
    from rich.table import Table
    from rich.text import Text

    colours = {"good": "green", "note": "cyan", "warning": "bold red"}
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in checkup.by_level:
        text = Text(message_lines(finding.text))
        for detail in finding.details:
            text.append(f"\n  {printable(detail)}", style="dim")
        style = colours[finding.level]
        table.add_row(Text(finding.level, style=style), Text(finding.topic), text)
    screen = console()
    screen.print(Text(name, style="bold"))
    show_facts(checkup.facts)
    screen.print()
    screen.print(table)
    screen.print()
    warnings = f"{count_of(checkup.warnings, 'warning')}; check them before using this panel"
    screen.print(Text(checkup.advice or (warnings if checkup.warnings else "no warnings")))


def print_reports(reports: "dict[str, ScoresByStep]", floor: list[float]) -> None:
    """Print RMSE and MAPE of each model, average and per step, with the lower bound."""
    from rich.box import SIMPLE
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
    overall = (sum(value**2 for value in floor) / len(floor)) ** 0.5
    table.add_row("floor", *(f"{value:.2f}" for value in (overall, *floor)), style="dim")
    console().print(table)
    whole_span = next(iter(reports.values())).average
    terms = f"{whole_span.rmse.terms:,} for RMSE, {whole_span.mape.terms:,} for MAPE"
    print(f"terms: {terms}, the same for all models")
    print("floor: the error of a forecast that knows the city's hidden state at the origin;")
    print("apart from chance, no forecast can be better.")


# --------------------------------------------------------------------------------- comparison


def print_scores(content: "Mapping[str, Any]") -> None:
    """Print a comparison in short: the verdict and a row of scores for each model.

    Args:
        content: the comparison, as `Comparison.to_dict` returns it.
    """
    from rich.text import Text

    from forecaster.evaluation.tables import describe_failures, describe_windows

    screen = console()
    for line in content["verdict"]:
        screen.print(Text(line, style="bold"))
    tested = [row for row in content["rows"] if row["seeds"]]
    if tested:
        weather = next(iter(tested[0]["weather"]))
        print_table(_score_columns(content, weather))
        screen.print(Text(describe_windows(content, weather), style="dim"))
    for line in describe_failures(content["rows"]):
        screen.print(Text(message_lines(f"failed: {line.removeprefix('- ')}"), style="red"))


def _score_columns(content: "Mapping[str, Any]", weather: str) -> dict[str, list[str]]:
    """Return the columns of the table, the most important first; a row without seeds failed."""
    from forecaster.evaluation import tables

    rows = content["rows"]

    def error_cells(metric: str) -> list[str]:
        scores = [row["weather"][weather][metric][0] if row["seeds"] else None for row in rows]
        form = tables.format_bias if metric == "bias" else None
        return [
            FAILED if score is None
            else form(score["mean"]) if form else tables.format_score(score, metric)
            for score in scores
        ]  # fmt: skip

    columns = {
        "model": [tables.model_label(row) for row in rows],
        "RMSE": error_cells("rmse"),
        "MAPE %": error_cells("mape"),
    }
    if any(row.get("intervals") for row in rows):
        title = f"% inside {tables.interval_name(content['quantiles'])}"
        columns[title] = [tables.coverage_text(row) for row in rows]
    if any(difference["rmse"] for difference in content["differences"].values()):
        title = f"RMSE against {content['against']}"
        columns[title] = [tables.difference_text(content, row["model"]) for row in rows]
    columns["bias %"] = error_cells("bias")
    columns["training s"] = [tables.format_cost(row.get("seconds")) for row in rows]
    return columns


def print_table(columns: "Mapping[str, Sequence[str]]") -> None:
    """Print a table of the columns that fit into a line, between blank lines."""
    screen = console()
    screen.print()
    screen.print(fitting_table(columns, screen.width))
    screen.print()


def fitting_table(columns: "Mapping[str, Sequence[str]]", line: int) -> "Table":
    """Return a table of the columns that fit into a line; the last ones are left out first.

    Args:
        columns: cells by title, the most important first; the first column names the rows.
        line: its width in characters.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, COLUMN_GAP - 1, 0, 0), show_edge=False)
    free, shown = line, list[Sequence[str]]()
    for title, cells in columns.items():
        longest_word = max(map(cell_len, title.split()), default=0)
        widest = max(map(cell_len, (*cells, title[:TITLE_WIDTH])), default=0)
        widest = max(widest, longest_word) if shown else min(widest, NAME_WIDTH)
        if shown and widest + COLUMN_GAP - 1 > free:
            continue
        free -= widest + COLUMN_GAP
        justify: Any = "right" if shown else "left"
        table.add_column(
            Text(title), justify=justify, min_width=widest, max_width=widest, overflow="fold"
        )
        shown.append(cells)
    for row in zip(*shown, strict=True):
        table.add_row(*map(Text, row))
    return table
