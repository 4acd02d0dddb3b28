"""The training loop: steps, validation, checkpoints, and when to stop.

The same call on the same folder goes on where the last one ended, to the same bits (on the same
machine type, torch build, number of threads and of processes).
"""

import json
import logging
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from forecaster.errors import ArtifactError, Faults, RunError, StoppedError, count_of, name_some
from forecaster.publish.writing import locked
from forecaster.training.checkpoint import Checkpoint, Shelf
from forecaster.training.determinism import reproducible
from forecaster.training.distributed import Team, join
from forecaster.training.identity import describe_machine, describe_task, differences
from forecaster.training.interrupts import Interrupts, interrupts
from forecaster.training.journal import Journal
from forecaster.training.learner import Learner
from forecaster.training.order import shuffle
from forecaster.training.progress import Moment, Outcome, Progress, Watch, loss_of
from forecaster.training.task import Task

LOG = "log.jsonl"
log = logging.getLogger(__name__)


def train(
    task: Task,
    *,
    folder: Path | None = None,
    identity: Mapping[str, str] | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Return the weights with the lowest validation loss (Eq. 7).

    Args:
        task: what is to be learned.
        folder: where checkpoints and the log live; None trains in memory alone.
        identity: hashes, by name, that a training in the same folder must share to go on.
        watch: called with every moment there is something to see at.
    """
    with ExitStack() as stack:
        stack.enter_context(reproducible(task.device))
        team = stack.enter_context(join(task.device, task.config.timeout_seconds))
        here = folder if team.is_first else None
        if here is not None:
            _hold(here, stack)
        noted = stack.enter_context(interrupts())
        return _Training(task, team, noted, here, identity or {}, watch).run()


class _Training:
    """One training, from where it stands to its end."""

    def __init__(
        self,
        task: Task,
        team: Team,
        noted: Interrupts,
        folder: Path | None,
        identity: Mapping[str, str],
        watch: Watch | None,
    ) -> None:
        self._task, self._team, self._noted, self._watch = task, team, noted, watch
        self._folder = folder
        self._known, self._machine = describe_task(task, identity), describe_machine(team)
        self._journal = Journal(folder / LOG if folder else None)
        self._shelf = Shelf(folder, self._say) if folder else None
        self._learner = Learner(task, team, self._say)
        self._progress = Progress()
        self._pending: list[Tensor] = []  # steps whose losses nobody has read yet
        self._order = -1, task.train  # of an epoch
        self._saved: tuple[int, int] | None = None  # steps and epochs
        self._began = self._looked = time.monotonic()
        self._first = 0  # step of this process

    def run(self) -> Outcome:
        """Go on until there is nothing left to do."""
        self._resume()
        try:
            while (why := self._progress.why_stop(self._task.config)) is None:
                self._advance()
            self._save()
        finally:
            self._journal.flush()
        return Outcome(self._learner.finish(), tuple(self._progress.records), why)

    def _advance(self) -> None:
        """Take a step, or validate where an epoch is over."""
        step = self._progress.step + len(self._pending)
        if step == self._task.epoch_steps * (len(self._progress.records) + 1):
            self._settle()
            self._validate()
            return
        self._pending.append(self._learner.learn(self._batch(step), step))
        due = (step + 1) % self._task.config.checkpoint_steps == 0
        if due or len(self._pending) >= steps_ahead(self._task.device):
            self._settle()
            if self._asked():
                self._stop()
        if due:
            self._save()

    def _batch(self, step: int) -> Int64[np.ndarray, " B"]:
        """Return the windows of a step, over all processes."""
        epoch, index = divmod(step, self._task.epoch_steps)
        if self._order[0] != epoch:
            self._order = epoch, shuffle(self._task.train, self._task.config.seed, epoch)
        size = self._task.config.batch
        return self._order[1][index * size : (index + 1) * size]

    def _settle(self) -> None:
        """Read the losses of the steps taken since the last time, and refuse those that failed."""
        rows = torch.stack(self._pending).tolist() if self._pending else []
        self._pending = []
        for loss, norm, *sums in rows:
            if not math.isfinite(loss + norm):
                raise RunError(self._explain(loss, norm))
            self._progress.add(sums)
            line = {"step": self._progress.step, "loss": loss, "norm": norm}
            self._journal.write({**line, "mape_terms": int(sums[-1])})
        now = time.monotonic()
        self._progress.seconds += now - self._looked
        self._looked = now
        if rows:
            self._show()

    def _explain(self, loss: float, norm: float) -> str:
        """Return what is known of the step that failed; the weights are as they were before it."""
        step = self._progress.step
        origins = self._batch(step)
        found = self._learner.find_non_finite(origins, step)
        hours = name_some(f"{time}Z" for time in np.sort(self._task.batches.times[origins]))
        what = f"step {step + 1:,}: loss {loss}, norm of the gradient {norm}"
        where = f"not finite: {found}, in the {count_of(len(origins), 'window')} from {hours}"
        return f"{what}; {where}. Checkpoints are as before; look there, or learn more slowly"

    def _validate(self) -> None:
        """Close the epoch with what the weights do on the validation windows."""
        found = self._learner.validate(self._asked)
        if found is None:
            self._stop()
            return
        self._settle()  # for the time it took
        progress, rate = self._progress, self._learner.rate(self._progress.step - 1)
        record = progress.close(found.tolist(), rate, self._task.eta)
        if not math.isfinite(record.validation_loss):
            message = f"epoch {record.epoch}: validation loss {record.validation_loss}"
            raise RunError(f"{message}; checkpoints are as before; learn more slowly")
        if progress.best is record:
            self._learner.keep_best()
        self._journal.write(asdict(record))
        if progress.spike:
            self._say(progress.spike)
        self._show()

    def _asked(self) -> bool:
        """Tell whether any process was asked to stop; all must ask together."""
        return self._team.any(self._noted.asked is not None)

    def _stop(self) -> None:
        self._save()
        kept = "saved; the same command resumes" if self._shelf else "nothing saved: no folder"
        where = f"after step {self._progress.step:,} of {self._task.steps:,}"
        raise StoppedError(
            f"interrupted {where} by {self._noted.asked or 'another process'}, {kept}"
        )

    def _save(self) -> None:
        """Write a checkpoint, unless the last one is of this very moment."""
        now = self._progress.step, len(self._progress.records)
        if self._shelf is None or now == self._saved:
            return
        self._journal.flush()
        arrays = {name: vector.cpu().numpy() for name, vector in self._learner.vectors.items()}
        self._shelf.save(Checkpoint(self._progress, arrays, self._known, self._machine))
        self._saved = now

    def _resume(self) -> None:
        """Go on from the newest checkpoint, if the first process has one."""
        found = self._shelf.newest() if self._shelf else None
        if found is not None:
            self._refuse_others(found)
        told = self._team.tell(json.dumps(found and found.progress.to_json()))
        progress = json.loads(told)
        if progress is not None:
            self._progress = Progress.from_json(progress)
        step, epochs = self._progress.step, len(self._progress.records)
        self._learner.begin(found.arrays if found else None, step)
        self._journal.rewind(step, epochs)
        self._first = step
        if found is not None:
            self._saved = step, epochs
            lost = count_of(self._task.config.checkpoint_steps, "step")
            self._show(f"resuming from step {step:,} of {self._task.steps:,} (lost ≤ {lost})")

    def _refuse_others(self, found: Checkpoint) -> None:
        """Refuse another task, by name and hash; say what may move the last bits."""
        faults = Faults(f"{self._folder}: begun otherwise; go back to that, or use another folder")
        faults.found = differences(found.known, self._known)
        faults.raise_any(ArtifactError)
        other = differences(found.machine, self._machine)
        if other:
            self._say(f"same samples in the same order, but not bit-identical: {'; '.join(other)}")

    def _say(self, message: str) -> None:
        log.warning(message)
        self._show(message)

    def _show(self, message: str | None = None) -> None:
        """Tell the watcher of the first process."""
        if self._watch is None or not self._team.is_first:
            return
        progress, task = self._progress, self._task
        taken, seconds = progress.step - self._first, time.monotonic() - self._began
        last = progress.records[-1] if progress.records else None
        self._watch(
            Moment(
                epoch=min(progress.step // task.epoch_steps + 1, task.config.epochs),
                epochs=task.config.epochs,
                step=progress.step,
                steps=task.steps,
                loss=loss_of(progress.sums, task.eta) if progress.sums[2] else None,
                rmse=last.rmse if last else None,
                mape=last.mape if last else None,
                windows_per_second=self._windows(taken) / seconds if taken else None,
                seconds_left=(task.steps - progress.step) * seconds / taken if taken else None,
                message=message,
            )
        )

    def _windows(self, taken: int) -> int:
        """Return how many windows the steps of this process held; an epoch's last has fewer."""
        task = self._task

        def before(step: int) -> int:
            epochs, rest = divmod(step, task.epoch_steps)
            return epochs * len(task.train) + min(rest * task.config.batch, len(task.train))

        return before(self._first + taken) - before(self._first)


def steps_ahead(device: torch.device) -> int:
    """Return how many steps a device may be ahead of whoever reads its losses."""
    return 1 if device.type == "cpu" else 32


def _hold(folder: Path, stack: ExitStack) -> None:
    """Keep other trainings out of the folder for as long as this one runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(folder))
    except OSError as error:
        message = f"{folder}: cannot be written ({error.strerror}); nothing was trained"
        raise RunError(f"{message}. Choose another folder") from error
