"""Cells one after the other in this process, or several at a time in processes of their own.

A cell that fails does not touch the others: neither by an error, nor by the death of its process.
"""

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread

from forecaster.errors import StoppedError
from forecaster.pipeline.experiment import Study
from forecaster.pipeline.train import Say
from forecaster.pipeline.trials import Cell, explain, run_cell
from forecaster.training.interrupts import interrupts
from forecaster.training.progress import ProgressCallback

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
INTERRUPTED = "interrupted"  # what a process says that was asked to stop
POLL_SECONDS = 0.1

Failures = dict[Path, str]  # why, by the folder of the cell


def run_cells(
    cells: Sequence[Cell], study: Study, jobs: int, say: Say, watch: ProgressCallback | None = None
) -> Failures:
    """Run cells that are not done yet, so many at a time; return why some of them failed."""
    several = {cell.folder: cell for cell in cells}  # two rows may share one
    if jobs == 1:
        return _run_here(list(several.values()), study, say, watch)
    return _run_apart(list(several.values()), study, jobs, say)


def _run_here(
    cells: Sequence[Cell], study: Study, say: Say, watch: ProgressCallback | None
) -> Failures:
    failures: Failures = {}
    for number, cell in enumerate(cells, start=1):
        say(f"{number} of {len(cells)}: {cell}")
        try:
            run_cell(cell, study, say, watch)
        except StoppedError:
            raise
        except Exception as error:  # whatever it is, the other cells go on
            failures[cell.folder] = explain(error)
            say(f"{cell} failed: {failures[cell.folder]}")
    return failures


@dataclass(frozen=True)
class _Worker:
    """A process at work on a cell."""

    cell: Cell
    process: SpawnProcess
    answer: Connection

    def end(self) -> str | None:
        """Return why the cell failed, once its process has ended; None: it did not."""
        self.process.join()
        try:
            said: str | None = self.answer.recv() if self.answer.poll() else "no answer"
        except EOFError:
            said = "no answer"
        if said == "no answer":
            code = self.process.exitcode
            return f"its process died (exit code {code}); it may have run out of memory"
        return said


def _run_apart(cells: Sequence[Cell], study: Study, jobs: int, say: Say) -> Failures:
    waiting, working, failures = list(cells), list[_Worker](), Failures()
    # Without what was loaded: each process opens the panel for itself, and must find the same.
    plain = replace(study, panel_hash=study.panel.digest)
    with interrupts() as noted, _few_threads(jobs):
        while waiting or working:
            while waiting and len(working) < jobs and not noted.asked:
                cell = waiting.pop(0)
                say(f"{len(cells) - len(waiting)} of {len(cells)}: {cell}")
                working.append(_start(cell, plain))
            for worker in [w for w in working if not w.process.is_alive()]:
                working.remove(worker)
                reason = worker.end()
                if reason is not None:
                    failures[worker.cell.folder] = reason
                    say(f"{worker.cell} failed: {reason}")
            if noted.asked:
                _stop(working)
                raise StoppedError(f"interrupted by {noted.asked}; the same command goes on")
            time.sleep(POLL_SECONDS)
    return failures


def _start(cell: Cell, study: Study) -> _Worker:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(cell, study, theirs))
    process.start()
    theirs.close()
    return _Worker(cell, process, mine)


def _stop(workers: Sequence[_Worker]) -> None:
    """Ask all to save and stop, and wait until they have."""
    for worker in workers:
        if worker.process.pid is not None:
            os.kill(worker.process.pid, signal.SIGTERM)
    for worker in workers:
        worker.process.join()


def _work(cell: Cell, study: Study, answer: Connection) -> None:
    """Run one cell in this process and say why it failed, if it did."""
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and asks to stop
    Thread(target=_stop_with_parent, daemon=True).start()
    try:
        run_cell(cell, study, _say_nothing)
    except StoppedError:
        answer.send(INTERRUPTED)
    except Exception as error:  # the parent tells it
        answer.send(explain(error))
    else:
        answer.send(None)


def _stop_with_parent() -> None:
    """Ask this process to save and stop when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _say_nothing(_: str) -> None:
    """Leave the screen to the first process."""


@contextmanager
def _few_threads(jobs: int) -> Iterator[None]:
    """Let processes that are started meanwhile share the processors."""
    share = str(max((os.cpu_count() or 1) // jobs, 1))
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, share))
    try:
        yield
    finally:
        _restore(before)


def _restore(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
