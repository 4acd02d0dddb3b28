"""Several networks trained in one process, each as it would be alone.

On a CPU the loops take turns in threads. A step of one network on all cores waits at every
operation until its threads have met; a step on one core does not, so that the cores are better
used by several networks, each on its share of them. A loop has its own order of windows, random
numbers, checkpoints and end, so that neither turns nor threads change its result.

On a GPU, and under `torchrun`, networks are trained one after another.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from forecaster.errors import StoppedError
from forecaster.training.distributed import ProcessGroup
from forecaster.training.interrupts import interrupts
from forecaster.training.loop import TrainingLoop, lock_folder, train
from forecaster.training.progress import ProgressCallback, ProgressUpdate, TrainingResult
from forecaster.training.reproducibility import reproducible
from forecaster.training.task import TrainingTask

IDLE_SECONDS = 0.05  # until a thread without a turn looks again
SIGNAL_SECONDS = 0.1  # until a signal is noticed


@dataclass(frozen=True, eq=False)
class Training:
    """A training among others: the arguments of `train`, and a name for messages."""

    name: str
    task: TrainingTask
    folder: Path | None = None
    identity: Mapping[str, str] | None = None


def train_together(
    trainings: Sequence[Training], on_progress: ProgressCallback | None = None
) -> list[TrainingResult]:
    """Train several networks and return the result of each.

    The same call on the same folders resumes each of them from its last checkpoint, to the bits
    that it would have had.

    Args:
        trainings: with a folder each, or none.
        on_progress: called with the progress of all of them as one.
    """
    workers = count_workers(trainings)
    shown = _JoinedProgress(trainings, on_progress)
    if workers == 1:
        return [
            train(t.task, folder=t.folder, identity=t.identity, on_progress=shown.of(number))
            for number, t in enumerate(trainings)
        ]
    with ExitStack() as stack:
        for training in trainings:
            if training.folder is not None:
                lock_folder(training.folder, stack)
        signals = stack.enter_context(interrupts())
        stack.enter_context(_threads(torch.get_num_threads() // workers))
        group = ProcessGroup(trainings[0].task.device)
        loops = [
            TrainingLoop(t.task, group, signals, t.folder, t.identity or {}, shown.of(number))
            for number, t in enumerate(trainings)
        ]
        return _Turns(loops).run(workers)


def count_workers(trainings: Sequence[Training]) -> int:
    """The number of networks that are trained at the same time."""
    on_cpu = all(training.task.device.type == "cpu" for training in trainings)
    if not on_cpu or int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return 1
    return max(min(len(trainings), torch.get_num_threads()), 1)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let operations of threads that begin meanwhile use so many threads each."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(count, 1))
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Turns:
    """Loops that take turns: a free thread advances the one with the most work left."""

    def __init__(self, loops: Sequence[TrainingLoop]) -> None:
        self._loops = loops
        self._waiting = set(range(len(loops)))
        self._unfinished = len(loops)
        self._seconds = dict.fromkeys(self._waiting, 0.0)  # of a step, as last measured
        self._results: dict[int, TrainingResult] = {}
        self._stopped: list[StoppedError] = []  # loops that were interrupted, and have saved
        self._ends = False  # no further turns: a loop failed, or the process is to end
        self._lock = threading.Lock()

    def run(self, workers: int) -> list[TrainingResult]:
        """Advance all loops to their ends; an interruption waits until all have saved."""
        with ThreadPoolExecutor(workers, thread_name_prefix="training") as pool:
            try:
                running = [pool.submit(self._work) for _ in range(workers)]
                while wait(running, timeout=SIGNAL_SECONDS).not_done:
                    pass  # signals are handled by this thread, and only when it runs
                for worker in running:
                    worker.result()
            finally:
                self._ends = True
        if self._stopped:
            raise self._stopped[0]
        return [self._results[number] for number in range(len(self._loops))]

    def _work(self) -> None:
        """Take turns until none is left."""
        with reproducible(torch.device("cpu")):
            while self._unfinished and not self._ends:
                number = self._next()
                if number is None:
                    time.sleep(IDLE_SECONDS)
                    continue
                try:
                    self._advance(number)
                except BaseException:
                    self._ends = True
                    raise

    def _next(self) -> int | None:
        """Take the loop with the most work left; None: all of them are being advanced."""
        with self._lock:
            if not self._waiting:
                return None
            number = max(self._waiting, key=self._seconds_left)
            self._waiting.remove(number)
            return number

    def _seconds_left(self, number: int) -> float:
        seconds = self._seconds[number] or float("inf")  # not measured yet
        return seconds * self._loops[number].steps_left

    def _advance(self, number: int) -> None:
        """Advance a loop by one turn."""
        loop, began = self._loops[number], time.monotonic()
        try:
            goes_on = loop.advance()
            if not goes_on:
                self._results[number] = loop.finish()
        except StoppedError as stopped:
            self._stopped.append(stopped)
            goes_on = False
        with self._lock:
            self._seconds[number] = time.monotonic() - began
            if goes_on:
                self._waiting.add(number)
            else:
                self._unfinished -= 1


class _JoinedProgress:
    """The progress of several trainings as one."""

    def __init__(
        self, trainings: Sequence[Training], on_progress: ProgressCallback | None
    ) -> None:
        self._trainings, self._on_progress = trainings, on_progress
        self._latest: dict[int, ProgressUpdate] = {}
        self._lock = threading.Lock()

    def of(self, number: int) -> ProgressCallback | None:
        """The callback of one training."""
        return None if self._on_progress is None else partial(self._report, number)

    def _report(self, number: int, update: ProgressUpdate) -> None:
        with self._lock:
            self._latest[number] = update
            if self._on_progress is not None:
                self._on_progress(self._join(number))

    def _join(self, number: int) -> ProgressUpdate:
        """All steps together, the means of errors, and the message of one training."""
        update, latest = self._latest[number], list(self._latest.values())
        message = update.message
        if message is not None and len(self._trainings) > 1:
            message = f"{self._trainings[number].name}: {message}"

        def mean(read: Callable[[ProgressUpdate], float | None]) -> float | None:
            values = [value for part in latest if (value := read(part)) is not None]
            return sum(values) / len(values) if values else None

        complete = len(latest) == len(self._trainings)
        speeds = [part.windows_per_second for part in latest if part.windows_per_second]
        return replace(
            update,
            epoch=min(part.epoch for part in latest) if complete else 1,
            step=sum(part.step for part in latest),
            steps=sum(training.task.steps for training in self._trainings),
            loss=mean(lambda part: part.loss),
            rmse=mean(lambda part: part.rmse) if complete else None,
            mape=mean(lambda part: part.mape) if complete else None,
            windows_per_second=sum(speeds) if speeds else None,
            seconds_left=self._seconds_left(update),
            message=message,
        )

    def _seconds_left(self, update: ProgressUpdate) -> float | None:
        """The time of the training that ends last, and of those that have not begun."""
        seconds = [u.seconds_left for u in self._latest.values() if u.seconds_left is not None]
        if not seconds or update.seconds_left is None:
            return max(seconds, default=None)
        later = sum(
            training.task.steps
            for number, training in enumerate(self._trainings)
            if number not in self._latest
        )
        return max(seconds) + later * update.seconds_left / max(update.steps - update.step, 1)
