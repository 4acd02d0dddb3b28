"""The training loop: steps, validation, checkpoints, and when to stop.

The same call on the same folder goes on where the last one ended, to the same bits (on the same
machine type, torch build, number of threads and of processes).
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor
from torch.optim.adamw import adamw  # the class would load torch's compiler: seconds

from forecaster.errors import ArtifactError, Faults, RunError, StoppedError, count_of, name_some
from forecaster.publish.writing import locked
from forecaster.training.checkpoint import Checkpoint, CheckpointStore
from forecaster.training.cuda_graphs import Recorder
from forecaster.training.distributed import ProcessGroup, join_process_group
from forecaster.training.interrupts import Interrupts, interrupts
from forecaster.training.loss import count_terms, join_terms, sum_errors, sum_pinball
from forecaster.training.micro_batches import MicroBatches
from forecaster.training.progress import (
    MetricsLog,
    Progress,
    ProgressCallback,
    ProgressUpdate,
    TrainingResult,
    loss_of,
)
from forecaster.training.reproducibility import (
    describe_machine,
    describe_task,
    differences,
    reproducible,
    seed_dropout,
)
from forecaster.training.schedule import one_cycle, shuffle
from forecaster.training.task import TrainingTask
from forecaster.training.weights import Weights
from forecaster.windows.batches import Batch

LOG = "log.jsonl"
log = logging.getLogger(__name__)


def train(
    task: TrainingTask,
    *,
    folder: Path | None = None,
    identity: Mapping[str, str] | None = None,
    watch: ProgressCallback | None = None,
) -> TrainingResult:
    """Return the weights with the lowest validation loss (Eq. 7).

    Args:
        task: what is to be learned.
        folder: where checkpoints and the log live; None trains in memory alone.
        identity: hashes, by name, that a training in the same folder must share to go on.
        watch: called with every moment there is something to see at.
    """
    with ExitStack() as stack:
        stack.enter_context(reproducible(task.device))
        team = stack.enter_context(join_process_group(task.device, task.config.timeout_seconds))
        here = folder if team.is_first else None
        if here is not None:
            _hold(here, stack)
        noted = stack.enter_context(interrupts())
        return _Training(task, team, noted, here, identity or {}, watch).run()


class _Training:
    """One training, from where it stands to its end."""

    def __init__(
        self,
        task: TrainingTask,
        team: ProcessGroup,
        noted: Interrupts,
        folder: Path | None,
        identity: Mapping[str, str],
        watch: ProgressCallback | None,
    ) -> None:
        self._task, self._team, self._noted, self._watch = task, team, noted, watch
        self._folder = folder
        self._known, self._machine = describe_task(task, identity), describe_machine(team)
        self._journal = MetricsLog(folder / LOG if folder else None)
        self._shelf = CheckpointStore(folder, self._say) if folder else None
        self._learner = Trainer(task, team, self._say)
        self._progress = Progress()
        self._pending: list[Tensor] = []  # steps whose losses nobody has read yet
        self._order = -1, task.train  # of an epoch
        self._saved: tuple[int, int] | None = None  # steps and epochs
        self._began = self._looked = time.monotonic()
        self._first = 0  # step of this process

    def run(self) -> TrainingResult:
        """Go on until there is nothing left to do."""
        self._resume()
        try:
            while (why := self._progress.why_stop(self._task.config)) is None:
                self._advance()
            self._save()
        finally:
            self._journal.flush()
        return TrainingResult(self._learner.finish(), tuple(self._progress.records), why)

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
            ProgressUpdate(
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


BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # of AdamW, as torch has them
WARM_UP = 10  # steps: an average of few steps may not look back further than there were


class Trainer:
    """The weights of a network, and how they move.

    A step whose loss or gradient is not finite moves nothing, and neither do those after it: the
    weights wait, as they were before it, for somebody to look. A GPU need not be waited for.
    """

    def __init__(self, task: TrainingTask, team: ProcessGroup, say: Callable[[str], None]) -> None:
        self._task, self._team, self._rations = task, team, MicroBatches(task, say)
        alone_on_a_gpu = task.device.type == "cuda" and team.size == 1
        self._recorder = Recorder(say) if alone_on_a_gpu else None
        self.weights = Weights(task.network, task.config.precision)
        vector = self.weights.vector
        names = ("first_moment", "second_moment", "best", "average")
        self.vectors = {"weights": vector, **{name: torch.zeros_like(vector) for name in names}}
        if not task.config.ema:
            del self.vectors["average"]
        parts = len(self.weights.parts(vector))
        *self._taken, self._failed = vector.new_zeros(parts + 1, dtype=torch.float32).unbind()
        task.network.train()

    def begin(self, arrays: Mapping[str, np.ndarray] | None, step: int) -> None:
        """Go on from the first process's arrays, or from its fresh weights at step 0."""
        if arrays is not None:
            lengths = {name: array.shape for name, array in arrays.items()}
            if lengths != {name: vector.shape for name, vector in self.vectors.items()}:
                raise ArtifactError("a checkpoint of another network; use another folder")
            for name, vector in self.vectors.items():
                vector.copy_(torch.from_numpy(arrays[name]))
        elif step == 0 and "average" in self.vectors:
            self.vectors["average"].copy_(self.vectors["weights"])
        for vector in self.vectors.values():
            self._team.spread(vector)
        for taken in self._taken:
            taken.fill_(step)
        self.weights.show()

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self._task.config.learning_rate * one_cycle(step, self._task.steps)

    def learn(self, origins: Int64[np.ndarray, " B"], step: int) -> Float64[Tensor, "6"]:
        """Take a step, counted from 0; return its loss, the gradient's norm, errors and counts.

        With quantiles there are two gradients; the larger norm is returned.
        """
        config = self._task.config
        errors, counts = self._differentiate(origins, step)
        gradient = self._team.add(self.weights.collect_gradient())
        self._team.add(errors)
        parts = self.weights.parts(gradient)
        norms = torch.stack([part.norm().double() for part in parts])
        loss, norm = join_terms(errors, counts, self._task.eta), norms.max()
        self._failed.logical_or_(~torch.isfinite(loss + norm))
        for part, own in zip(parts, norms, strict=True):
            part.mul_((config.clip / own).clamp(max=1.0))
        self._move(step)
        return torch.cat([torch.stack([loss, norm]), errors, counts])

    def validate(self, stop: Callable[[], bool]) -> Float64[Tensor, "4"] | None:
        """Return errors and counts over all validation windows, or None if told to stop."""
        origins, batch = self._task.validation, self._task.config.batch
        totals = torch.zeros(4, dtype=torch.float64, device=self._task.device)
        with self._ready_to_forecast():
            for start in range(0, len(origins), batch):
                if stop():
                    return None
                share = self._team.share(origins[start : start + batch])
                totals += self._rations.serve(partial(self._score, share))
        return self._team.add(totals)

    def keep_best(self) -> None:
        """Remember the weights that were validated."""
        self.vectors["best"].copy_(self._chosen())

    def finish(self) -> dict[str, np.ndarray]:
        """Give the network its best weights, and return them by name."""
        self._recorder = None  # it holds memory of the GPU
        self.weights.vector.copy_(self.vectors["best"])
        self._task.network.eval()
        return self.weights.release()

    def find_non_finite(self, origins: Int64[np.ndarray, " B"], step: int) -> str:
        """Return the first tensors that are not finite in a step that has moved nothing."""
        batch = self._task.batches.cut(self._team.share(origins))
        for name, values in vars(batch).items():
            if not values.isfinite().all():
                return f"the input {name}"
        if wrong := self.weights.name_non_finite(self.weights.vector):
            return f"the weights {wrong}"
        self._differentiate(origins, step)
        wrong = self.weights.name_non_finite(self.weights.collect_gradient())
        return f"the gradient of {wrong}" if wrong else "the loss (none of this process's tensors)"

    def _move(self, step: int) -> None:
        """Move the weights along the gradient, unless a step has failed; then their average."""
        config, parts = self._task.config, self.weights.parts
        adamw(
            parts(self.weights.vector),
            parts(self.weights.gradient),
            exp_avgs=parts(self.vectors["first_moment"]),
            exp_avg_sqs=parts(self.vectors["second_moment"]),
            max_exp_avg_sqs=[],
            state_steps=self._taken,
            fused=True,
            found_inf=self._failed,
            amsgrad=False,
            beta1=BETA_1,
            beta2=BETA_2,
            lr=self.rate(step),
            weight_decay=config.weight_decay,
            eps=EPSILON,
            maximize=False,
        )
        if config.ema:
            decay = min(config.ema, (1 + step) / (WARM_UP + step))
            for average, now in zip(
                parts(self.vectors["average"]), parts(self.weights.vector), strict=True
            ):
                average.lerp_(now, 1 - decay)
        self.weights.show()

    def _differentiate(
        self, origins: Int64[np.ndarray, " B"], step: int
    ) -> tuple[Float64[Tensor, "2"], Float64[Tensor, "2"]]:
        """Sum up the gradient of this process's share; return its errors, and all counts."""
        share = self._team.share(origins)
        places = self._task.batches.locate(share)
        if self._recorder is not None and len(share) <= self._rations.windows:
            shown, seed = self._task.shown(step), partial(self._seed, step)
            inputs = (places,) if shown is None else (places, shown)
            found = self._recorder.play("learn", self._sum_up_whole, inputs, seed)
            if found is not None:
                return found[:2], found[2:]
        whole = self._task.batches.gather(places)
        counts = self._team.add(self._count(whole))
        return self._rations.serve(partial(self._sum_up, share, whole, counts, step)), counts

    def _sum_up_whole(
        self, places: Int64[Tensor, "B T"], shown: Bool[Tensor, " S"] | None = None
    ) -> Float64[Tensor, "4"]:
        """Sum up gradient, errors and counts of a batch that no other process shares."""
        whole = self._task.batches.gather(places)
        counts = self._count(whole)
        self.weights.clear_gradient()
        errors = self._learn_from(whole, counts, shown)
        return torch.cat([errors, counts])

    def _sum_up(
        self,
        share: Int64[np.ndarray, " B"],
        whole: Batch,
        counts: Float64[Tensor, "2"],
        step: int,
        windows: int,
    ) -> Float64[Tensor, "2"]:
        """Sum up gradient and errors of a batch, some windows at a time."""
        self._seed(step)
        shown = self._task.shown(step)
        self.weights.clear_gradient()
        errors = torch.zeros_like(counts)
        for part in [whole] if len(share) <= windows else self._cut(share, windows):
            errors += self._learn_from(part, counts, shown)
        return errors

    def _learn_from(
        self, part: Batch, counts: Float64[Tensor, "2"], shown: Bool[Tensor, " S"] | None
    ) -> Float64[Tensor, "2"]:
        """Add the gradient of some windows; return their errors.

        Quantiles have a loss of their own, in scaled numbers, so that all locations count alike.
        """
        forecast, quantiles = self._task.teach_quantiles(part, shown)
        errors = self._errors(forecast, part)
        loss = join_terms(errors, counts, self._task.eta)
        if quantiles.shape[1]:
            levels = self._task.levels
            pinball = sum_pinball(quantiles, part.next_values, part.observed, levels)
            loss = loss + pinball / (counts[0].clamp(min=1.0) * len(levels))
        self.weights.differentiate(loss)
        return errors.detach()

    def _score(self, share: Int64[np.ndarray, " B"], windows: int) -> Float64[Tensor, "4"]:
        totals = torch.zeros(4, dtype=torch.float64, device=self._task.device)
        for start in range(0, len(share), windows):
            places = self._task.batches.locate(share[start : start + windows])
            found = None
            if self._recorder is not None and len(share) <= windows:
                found = self._recorder.play("score", self._score_part, (places,), _nothing)
            totals += self._score_part(places) if found is None else found
        return totals

    def _score_part(self, places: Int64[Tensor, "B T"]) -> Float64[Tensor, "4"]:
        part = self._task.batches.gather(places)
        errors = self._errors(self._task.roll_out(part), part)
        return torch.cat([errors, self._count(part)])

    def _seed(self, step: int) -> None:
        seed_dropout(self._task.device, self._task.config.seed, step, self._team.rank)

    def _count(self, batch: Batch) -> Float64[Tensor, "2"]:
        return count_terms(batch.target, batch.observed, self._task.mape_cut)

    def _errors(self, forecast: Float[Tensor, "N B K"], batch: Batch) -> Float64[Tensor, "2"]:
        return sum_errors(forecast, batch.target, batch.observed, self._task.mape_cut)

    def _cut(self, origins: Int64[np.ndarray, " B"], windows: int) -> Iterator[Batch]:
        for start in range(0, len(origins), windows):
            yield self._task.batches.cut(origins[start : start + windows])

    def _chosen(self) -> Float[Tensor, " W"]:
        return self.vectors.get("average", self.vectors["weights"])

    @contextmanager
    def _ready_to_forecast(self) -> Iterator[None]:
        """Let the network forecast with the weights that are chosen from, for a while."""
        vector, network = self.weights.vector, self._task.network
        moving = vector.clone()
        vector.copy_(self._chosen())
        self.weights.show()
        network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            network.train()
            vector.copy_(moving)
            self.weights.show()


def _nothing() -> None:
    """Prepare nothing: validation draws no numbers."""
