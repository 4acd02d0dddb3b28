"""Runs trials one after the other in this process, or in parallel in processes of their own.

A trial that fails, by an error or by the death of its process, does not affect the others.
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

from forecaster.choices import TrialEngine
from forecaster.errors import StoppedError
from forecaster.pipeline.experiment import Experiment
from forecaster.pipeline.train import MessageCallback
from forecaster.pipeline.trials import Trial, failure_reason, run_trial
from forecaster.training.interrupts import interrupts
from forecaster.training.progress import ProgressCallback

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
INTERRUPTED = "interrupted"  # reported by a process that was stopped by a signal
NO_REPORT = "no report"
POLL_SECONDS = 0.1

Failures = dict[Path, str]  # reasons, by the folder of the trial


def run_trials(
    trials: Sequence[Trial],
    experiment: Experiment,
    jobs: int,
    say: MessageCallback,
    on_progress: ProgressCallback | None = None,
    engine: TrialEngine = "processes",
) -> Failures:
    """Run the unfinished trials, `jobs` at a time; return the reasons of those that failed."""
    distinct = {trial.folder: trial for trial in trials}  # two models may share one
    if engine == "ray":
        from forecaster.pipeline.ray_workers import run_on_ray  # noqa: PLC0415 (an extra)

        failures = run_on_ray(list(distinct.values()), experiment, jobs, say)
        return {trial.folder: reason for trial, reason in failures}
    if jobs == 1:
        return _run_here(list(distinct.values()), experiment, say, on_progress)
    return _run_apart(list(distinct.values()), experiment, jobs, say)


def _run_here(
    trials: Sequence[Trial],
    experiment: Experiment,
    say: MessageCallback,
    on_progress: ProgressCallback | None,
) -> Failures:
    failures: Failures = {}
    for number, trial in enumerate(trials, start=1):
        say(f"{number} of {len(trials)}: {trial}")
        try:
            run_trial(trial, experiment, say, on_progress)
        except StoppedError:
            raise
        except Exception as error:  # any error: the other trials continue
            failures[trial.folder] = failure_reason(error)
            say(f"{trial} failed: {failures[trial.folder]}")
    return failures


@dataclass(frozen=True)
class _Worker:
    """A process that runs a trial."""

    trial: Trial
    process: SpawnProcess
    report: Connection

    def end(self) -> str | None:
        """Wait for the process; return why the trial failed, or None."""
        self.process.join()
        try:
            reason: str | None = self.report.recv() if self.report.poll() else NO_REPORT
        except EOFError:
            reason = NO_REPORT
        if reason == NO_REPORT:
            code = self.process.exitcode
            return f"its process died (exit code {code}); it may have run out of memory"
        return reason


def _run_apart(
    trials: Sequence[Trial], experiment: Experiment, jobs: int, say: MessageCallback
) -> Failures:
    waiting, working, failures = list(trials), list[_Worker](), Failures()
    # Without cached properties: each process opens the panel itself and checks its hash.
    unloaded = replace(experiment, panel_hash=experiment.panel.digest)
    with interrupts() as signals, _few_threads(jobs):
        while waiting or working:
            while waiting and len(working) < jobs and not signals.received:
                trial = waiting.pop(0)
                say(f"{len(trials) - len(waiting)} of {len(trials)}: {trial}")
                working.append(_start(trial, unloaded))
            for worker in [w for w in working if not w.process.is_alive()]:
                working.remove(worker)
                reason = worker.end()
                if reason is not None:
                    failures[worker.trial.folder] = reason
                    say(f"{worker.trial} failed: {reason}")
            if signals.received:
                _stop(working)
                raise StoppedError(f"interrupted by {signals.received}; the same command resumes")
            time.sleep(POLL_SECONDS)
    return failures


def _start(trial: Trial, experiment: Experiment) -> _Worker:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(trial, experiment, sender))
    process.start()
    sender.close()
    return _Worker(trial, process, receiver)


def _stop(workers: Sequence[_Worker]) -> None:
    """Ask all workers to save and stop, and wait for them."""
    for worker in workers:
        if worker.process.pid is not None:
            os.kill(worker.process.pid, signal.SIGTERM)
    for worker in workers:
        worker.process.join()


def _work(trial: Trial, experiment: Experiment, report: Connection) -> None:
    """Run one trial in this process and report why it failed, or None."""
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it too, and asks to stop
    Thread(target=_stop_with_parent, daemon=True).start()
    try:
        run_trial(trial, experiment, _ignore)
    except StoppedError:
        report.send(INTERRUPTED)
    except Exception as error:  # the parent reports it
        report.send(failure_reason(error))
    else:
        report.send(None)


def _stop_with_parent() -> None:
    """Ask this process to save and stop when its parent has ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def _ignore(_: str) -> None:
    """Print nothing: only the parent process writes to the screen."""


@contextmanager
def _few_threads(jobs: int) -> Iterator[None]:
    """Limit the threads of processes started meanwhile to their share of the processors."""
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
