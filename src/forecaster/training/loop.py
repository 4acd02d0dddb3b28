"""The training loop, top to bottom.

`train` locks the folder and joins the process group. `TrainingLoop` takes a batch, has the
`Trainer` take a step (forward, loss of Eq. 6 and 7, gradient, clipping, AdamW), logs it, validates
after each epoch, writes checkpoints and decides when to stop. `train_together` (`together.py`)
lets several loops take turns.

The same call on the same folder resumes from the last checkpoint with a bit-identical result (on
the same machine type, torch build, number of threads and of processes).
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
from forecaster.kernels.sample import LocationSample
from forecaster.publish.writing import locked
from forecaster.training.checkpoint import Checkpoint, CheckpointStore
from forecaster.training.cuda_graphs import CudaGraphs
from forecaster.training.distributed import ProcessGroup, join_process_group
from forecaster.training.interrupts import Interrupts, interrupts
from forecaster.training.loss import join_terms, sum_pinball
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
from forecaster.training.task import TrainingTask, batch_locations
from forecaster.training.weights import Weights
from forecaster.windows.batches import Batch

LOG = "log.jsonl"
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # of AdamW, torch's defaults
WARM_UP = 10  # steps in which the average of the weights forgets faster
log = logging.getLogger(__name__)


def train(
    task: TrainingTask,
    *,
    folder: Path | None = None,
    identity: Mapping[str, str] | None = None,
    on_progress: ProgressCallback | None = None,
) -> TrainingResult:
    """Train a network and return its weights with the lowest validation loss (Eq. 7).

    Args:
        task: the network, its windows and the training configuration.
        folder: of the checkpoints and the metrics log; None trains in memory only.
        identity: hashes by name; a checkpoint is resumed only if all of them are equal.
        on_progress: called after every step or group of steps, every epoch and every warning.
    """
    with ExitStack() as stack:
        stack.enter_context(reproducible(task.device))
        group = stack.enter_context(join_process_group(task.device, task.config.timeout_seconds))
        own_folder = folder if group.is_first else None
        if own_folder is not None:
            lock_folder(own_folder, stack)
        signals = stack.enter_context(interrupts())
        return TrainingLoop(task, group, signals, own_folder, identity or {}, on_progress).run()


class TrainingLoop:
    """Runs steps, validations, logs and checkpoints, from step 0 or from a checkpoint."""

    def __init__(
        self,
        task: TrainingTask,
        group: ProcessGroup,
        signals: Interrupts,
        folder: Path | None,
        identity: Mapping[str, str],
        on_progress: ProgressCallback | None,
    ) -> None:
        self._task, self._group, self._folder = task, group, folder
        self._interrupts, self._on_progress = signals, on_progress
        self._identity, self._machine = describe_task(task, identity), describe_machine(group)
        self._log = MetricsLog(folder / LOG if folder else None)
        self._checkpoints = CheckpointStore(folder, self._warn) if folder else None
        self._trainer = Trainer(task, group, self._warn)
        self._progress = Progress()
        self._pending: list[Tensor] = []  # results of steps that are not read from the device yet
        self._order = -1, task.train  # an epoch and its shuffled windows
        self._saved: tuple[int, int] | None = None  # steps and epochs of the last checkpoint
        self._began = self._last_reading = time.monotonic()
        self._first_step = 0  # where this process began or resumed
        self._has_begun = False
        self._paused = self._began  # when it last gave up its turn to others

    def run(self) -> TrainingResult:
        """Train until all epochs are done or validation stops improving."""
        while self.advance():
            pass
        return self.finish()

    def advance(self) -> bool:
        """Resume, take one step or validate; return whether anything is left to do."""
        self._last_reading += time.monotonic() - self._paused
        try:
            if not self._has_begun:
                self._has_begun = True
                self._resume()
            elif self._stop_reason is None:
                self._advance()
        except BaseException:
            self._log.flush()
            raise
        self._paused = time.monotonic()
        return self._stop_reason is None

    def finish(self) -> TrainingResult:
        """Write the last checkpoint and return the weights with the lowest validation loss."""
        try:
            self._save()
        finally:
            self._log.flush()
        records, reason = tuple(self._progress.records), self._stop_reason or ""
        return TrainingResult(self._trainer.finish(), records, reason)

    @property
    def steps_left(self) -> int:
        """The number of steps in the epochs that are left."""
        return self._task.steps - self._progress.step

    @property
    def _stop_reason(self) -> str | None:
        return self._progress.stop_reason(self._task.config)

    def _advance(self) -> None:
        """Take one training step, or validate at the end of an epoch."""
        step = self._progress.step + len(self._pending)
        if step == self._task.epoch_steps * (len(self._progress.records) + 1):
            self._read_losses()
            self._validate()
            return
        self._pending.append(self._trainer.train_step(self._batch(step), step))
        due = (step + 1) % self._task.config.checkpoint_steps == 0
        if due or len(self._pending) >= steps_ahead(self._task.device):
            self._read_losses()
            if self._stop_requested():
                self._stop()
        if due:
            self._save()

    def _batch(self, step: int) -> Int64[np.ndarray, " B"]:
        """The forecast origins of a step, over all processes."""
        epoch, index = divmod(step, self._task.epoch_steps)
        if self._order[0] != epoch:
            self._order = epoch, shuffle(self._task.train, self._task.config.seed, epoch)
        size = self._task.config.batch
        return self._order[1][index * size : (index + 1) * size]

    def _read_losses(self) -> None:
        """Read and log the losses of the pending steps; raise if one is not finite."""
        rows = torch.stack(self._pending).tolist() if self._pending else []
        self._pending = []
        for loss, norm, *sums in rows:
            if not math.isfinite(loss + norm):
                raise RunError(self._describe_failure(loss, norm))
            self._progress.add(sums)
            line = {"step": self._progress.step, "loss": loss, "norm": norm}
            self._log.write({**line, "mape_terms": int(sums[-1])})
        reading = time.monotonic()
        self._progress.seconds += reading - self._last_reading
        self._last_reading = reading
        if rows:
            self._report()

    def _describe_failure(self, loss: float, norm: float) -> str:
        """The message for a step that is not finite; the weights are those before it."""
        step = self._progress.step
        origins = self._batch(step)
        culprit = self._trainer.find_non_finite(origins, step)
        hours = name_some(f"{time}Z" for time in np.sort(self._task.batches.times[origins]))
        numbers = f"step {step + 1:,}: loss {loss}, norm of the gradient {norm}"
        where = f"not finite: {culprit}, in the {count_of(len(origins), 'window')} from {hours}"
        return (
            f"{numbers}; {where}. Checkpoints are unchanged; "
            "check these windows, or lower training.learning_rate"
        )

    def _validate(self) -> None:
        """Close the epoch with its validation loss; keep the weights if it is the lowest."""
        sums = self._trainer.validate(self._stop_requested)
        if sums is None:
            self._stop()
            return
        self._read_losses()  # adds the seconds of the validation
        progress, rate = self._progress, self._trainer.rate(self._progress.step - 1)
        record = progress.close(sums.tolist(), rate, self._task.eta)
        if not math.isfinite(record.validation_loss):
            message = f"epoch {record.epoch}: validation loss {record.validation_loss}"
            raise RunError(f"{message}; checkpoints are unchanged; lower training.learning_rate")
        if progress.best is record:
            self._trainer.keep_best()
        self._log.write(asdict(record))
        if progress.spike:
            self._warn(progress.spike)
        self._report()

    def _stop_requested(self) -> bool:
        """Whether any process has received a signal; all processes must call this together."""
        return self._group.any(self._interrupts.received is not None)

    def _stop(self) -> None:
        self._save()
        outcome = (
            "saved; the same command resumes" if self._checkpoints else "nothing saved: no folder"
        )
        where = f"after step {self._progress.step:,} of {self._task.steps:,}"
        raise StoppedError(
            f"interrupted {where} by {self._interrupts.received or 'another process'}, {outcome}"
        )

    def _save(self) -> None:
        """Write a checkpoint, unless the last one is of the same step and epoch."""
        position = self._progress.step, len(self._progress.records)
        if self._checkpoints is None or position == self._saved:
            return
        self._log.flush()
        arrays = {name: vector.cpu().numpy() for name, vector in self._trainer.vectors.items()}
        self._checkpoints.save(Checkpoint(self._progress, arrays, self._identity, self._machine))
        self._saved = position

    def _resume(self) -> None:
        """Continue from the newest checkpoint, if the first process has one."""
        checkpoint = self._checkpoints.newest() if self._checkpoints else None
        if checkpoint is not None:
            self._check_identity(checkpoint)
        content = json.dumps(checkpoint and checkpoint.progress.to_json())
        progress = json.loads(self._group.broadcast_text(content))
        if progress is not None:
            self._progress = Progress.from_json(progress)
        step, epochs = self._progress.step, len(self._progress.records)
        self._trainer.begin(checkpoint.arrays if checkpoint else None, step)
        self._log.rewind(step, epochs)
        self._first_step = step
        if checkpoint is not None:
            self._saved = step, epochs
            lost = count_of(self._task.config.checkpoint_steps, "step")
            self._report(f"resuming from step {step:,} of {self._task.steps:,} (lost ≤ {lost})")

    def _check_identity(self, checkpoint: Checkpoint) -> None:
        """Refuse the checkpoint of another task; warn if the machine may change the last bits."""
        remedy = "restore them, or use another folder"
        faults = Faults(f"{self._folder}: training began with other settings; {remedy}")
        faults.messages = differences(checkpoint.identity, self._identity)
        faults.raise_any(ArtifactError)
        changes = differences(checkpoint.machine, self._machine)
        if changes:
            message = "same samples in the same order, but not bit-identical"
            self._warn(f"{message}: {'; '.join(changes)}")

    def _warn(self, message: str) -> None:
        log.warning(message)
        self._report(message)

    def _report(self, message: str | None = None) -> None:
        """Call the progress callback, in the first process only."""
        if self._on_progress is None or not self._group.is_first:
            return
        progress, task = self._progress, self._task
        taken, seconds = progress.step - self._first_step, time.monotonic() - self._began
        last = progress.records[-1] if progress.records else None
        self._on_progress(
            ProgressUpdate(
                epoch=min(progress.step // task.epoch_steps + 1, task.config.epochs),
                epochs=task.config.epochs,
                step=progress.step,
                steps=task.steps,
                loss=loss_of(progress.sums, task.eta) if progress.sums[3] else None,
                rmse=last.rmse if last else None,
                mape=last.mape if last else None,
                windows_per_second=self._windows(taken) / seconds if taken else None,
                seconds_left=(task.steps - progress.step) * seconds / taken if taken else None,
                message=message,
            )
        )

    def _windows(self, taken: int) -> int:
        """The number of windows in the steps taken by this call; batches may differ in size."""
        task = self._task

        def before(step: int) -> int:
            epochs, steps = divmod(step, task.epoch_steps)
            return epochs * len(task.train) + min(steps * task.config.batch, len(task.train))

        return before(self._first_step + taken) - before(self._first_step)


def steps_ahead(device: torch.device) -> int:
    """The number of steps that are queued on a device before their losses are read."""
    return 1 if device.type == "cpu" else 32


def lock_folder(folder: Path, stack: ExitStack) -> None:
    """Lock the folder against other trainings while this one runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(locked(folder))
    except OSError as error:
        message = f"{folder}: cannot be written ({error.strerror}); nothing was trained"
        raise RunError(f"{message}. Choose another folder") from error


class Trainer:
    """The weights, their optimiser and their validation: one training step at a time.

    A step whose loss or gradient is not finite changes nothing, and neither do those after it, so
    that a GPU need not be waited for: the weights are still those before the failure.
    """

    def __init__(
        self, task: TrainingTask, group: ProcessGroup, say: Callable[[str], None]
    ) -> None:
        self._task, self._group, self._micro_batches = task, group, MicroBatches(task, say)
        alone_on_a_gpu = task.device.type == "cuda" and group.size == 1
        self._graphs = CudaGraphs(say) if alone_on_a_gpu else None
        self.weights = Weights(task.network, task.config.precision)
        vector = self.weights.vector
        names = ("first_moment", "second_moment", "best", "average")
        self.vectors = {"weights": vector, **{name: torch.zeros_like(vector) for name in names}}
        if not task.config.ema:
            del self.vectors["average"]
        parts = len(self.weights.parts(vector))
        *self._adam_steps, self._has_failed = vector.new_zeros(
            parts + 1, dtype=torch.float32
        ).unbind()
        task.network.train()

    def begin(self, arrays: Mapping[str, np.ndarray] | None, step: int) -> None:
        """Start from the arrays of a checkpoint, or from fresh weights at step 0."""
        if arrays is not None:
            lengths = {name: array.shape for name, array in arrays.items()}
            if lengths != {name: vector.shape for name, vector in self.vectors.items()}:
                raise ArtifactError("a checkpoint of another network; use another folder")
            for name, vector in self.vectors.items():
                vector.copy_(torch.from_numpy(arrays[name]))
        elif step == 0 and "average" in self.vectors:
            self.vectors["average"].copy_(self.vectors["weights"])
        for vector in self.vectors.values():
            self._group.broadcast(vector)
        for count in self._adam_steps:
            count.fill_(step)
        self.weights.update_network()

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self._task.config.learning_rate * one_cycle(step, self._task.steps)

    def train_step(self, origins: Int64[np.ndarray, " B"], step: int) -> Float64[Tensor, "7"]:
        """Take a step, counted from 0: forward, loss, gradient, clipping, AdamW.

        Returns the loss, the norm of the gradient, the sums of errors and the counts of targets.
        The forecast and the quantile head are clipped apart; the larger norm is returned.
        """
        config = self._task.config
        errors, counts = self._sum_gradient(origins, step)  # forward, loss (Eq. 6, 7), gradient
        gradient = self._group.all_reduce(self.weights.collect_gradient())
        self._group.all_reduce(errors)
        parts = self.weights.parts(gradient)
        norms = torch.stack([part.norm().double() for part in parts])
        loss, norm = join_terms(errors[:2], counts, self._task.eta), norms.max()
        self._has_failed.logical_or_(~torch.isfinite(loss + norm))
        for part, part_norm in zip(parts, norms, strict=True):
            part.mul_((config.clip / part_norm).clamp(max=1.0))
        self._update_weights(step)
        return torch.cat([torch.stack([loss, norm]), errors, counts])

    def _sum_gradient(
        self, origins: Int64[np.ndarray, " B"], step: int
    ) -> tuple[Float64[Tensor, "3"], Float64[Tensor, "2"]]:
        """Sum the gradient over this process's windows; return their errors and the whole counts.

        One CUDA graph for the whole batch where possible, else launch by launch in micro-batches.
        """
        share, sample = self._group.share(origins), self._task.sample(step)
        indices = self._task.batches.locate(share)
        fits = len(share) <= self._micro_batches.windows
        if self._graphs is not None and sample is None and fits:
            forced, seed = self._task.teacher_forcing(step), partial(self._seed, step)
            inputs = (indices,) if forced is None else (indices, forced)
            sums = self._graphs.replay("learn", self._backward_whole, inputs, seed)
            if sums is not None:
                return sums[:3], sums[3:]
        whole = self._task.batches.gather(indices, batch_locations(sample))
        counts = self._group.all_reduce(self._task.count_terms(whole))
        backward = partial(self._backward_parts, share, (whole, sample), counts, step)
        return self._micro_batches.run(backward), counts

    def _backward_whole(
        self, indices: Int64[Tensor, "B T"], forced: Bool[Tensor, " S"] | None = None
    ) -> Float64[Tensor, "5"]:
        """Gradient, errors and counts of a whole batch in one process, for a CUDA graph."""
        whole = self._task.batches.gather(indices)
        counts = self._task.count_terms(whole)
        self.weights.zero_gradient()
        errors = self._backward(whole, counts, forced)
        return torch.cat([errors, counts])

    def _backward_parts(
        self,
        share: Int64[np.ndarray, " B"],
        whole: tuple[Batch, LocationSample | None],
        counts: Float64[Tensor, "2"],
        step: int,
        windows: int,
    ) -> Float64[Tensor, "3"]:
        """Gradient and errors of a batch, in micro-batches of at most `windows` windows."""
        self._seed(step)
        forced, (batch, sample) = self._task.teacher_forcing(step), whole
        self.weights.zero_gradient()
        errors = counts.new_zeros(3)
        for part in [batch] if len(share) <= windows else self._cut(share, windows, sample):
            errors += self._backward(part, counts, forced, sample)
        return errors

    def _backward(
        self,
        part: Batch,
        counts: Float64[Tensor, "2"],
        forced: Bool[Tensor, " S"] | None,
        sample: LocationSample | None = None,
    ) -> Float64[Tensor, "3"]:
        """Add the gradient of a micro-batch; return its errors.

        Quantiles add a pinball loss of scaled values, so that all locations weigh the same.
        """
        outputs = self._task.teacher_forced(part, forced, sample)
        errors = self._task.sum_errors(outputs, part)  # Eq. 6
        loss = join_terms(errors[:2], counts, self._task.eta)  # Eq. 7
        if outputs.quantiles.shape[1]:
            levels, windows = self._task.levels, outputs.quantiles.shape[2]
            target, observed = part.next_values[:, :windows], part.observed[:, :windows]
            pinball = sum_pinball(outputs.quantiles, target, observed, levels)
            share = windows / part.observed.shape[1]  # of the windows that have quantiles
            loss = loss + pinball / (counts[0].clamp(min=1.0) * len(levels) * share)
        self.weights.backward(loss)
        return errors.detach()

    def _update_weights(self, step: int) -> None:
        """AdamW, unless a step has failed, and the moving average of the weights."""
        config, parts = self._task.config, self.weights.parts
        adamw(
            parts(self.weights.vector),
            parts(self.weights.gradient),
            exp_avgs=parts(self.vectors["first_moment"]),
            exp_avg_sqs=parts(self.vectors["second_moment"]),
            max_exp_avg_sqs=[],
            state_steps=self._adam_steps,
            fused=True,
            found_inf=self._has_failed,
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
            averages = parts(self.vectors["average"])
            for average, weights in zip(averages, parts(self.weights.vector), strict=True):
                average.lerp_(weights, 1 - decay)
        self.weights.update_network()

    def validate(self, stop: Callable[[], bool]) -> Float64[Tensor, "5"] | None:
        """Sums of errors and counts of the rolled-out validation windows; None if interrupted."""
        origins, batch = self._task.scored, self._task.scored_at_once
        totals = torch.zeros(5, dtype=torch.float64, device=self._task.device)
        with self._evaluating():
            for start in range(0, len(origins), batch):
                if stop():
                    return None
                share = self._group.share(origins[start : start + batch])
                totals += self._micro_batches.run(partial(self._score_share, share))
        return self._group.all_reduce(totals)

    def _score_share(self, share: Int64[np.ndarray, " B"], windows: int) -> Float64[Tensor, "5"]:
        totals = torch.zeros(5, dtype=torch.float64, device=self._task.device)
        for start in range(0, len(share), windows):
            indices = self._task.batches.locate(share[start : start + windows])
            sums = None
            if self._graphs is not None and len(share) <= windows:
                sums = self._graphs.replay("score", self._score_batch, (indices,), _no_seed)
            totals += self._score_batch(indices) if sums is None else sums
        return totals

    def _score_batch(self, indices: Int64[Tensor, "B T"]) -> Float64[Tensor, "5"]:
        part = self._task.batches.gather(indices)
        errors = self._task.sum_errors(self._task.roll_out(part), part)
        return torch.cat([errors, self._task.count_terms(part)])

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The network in evaluation mode, with the averaged weights if there are any."""
        vector, network = self.weights.vector, self._task.network
        training_weights = vector.clone()
        vector.copy_(self._evaluated_weights())
        self.weights.update_network()
        network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            network.train()
            vector.copy_(training_weights)
            self.weights.update_network()

    def keep_best(self) -> None:
        """Keep the validated weights as the best."""
        self.vectors["best"].copy_(self._evaluated_weights())

    def finish(self) -> dict[str, np.ndarray]:
        """Load the best weights into the network and return them by name."""
        self._graphs = None  # frees its GPU memory
        self.weights.vector.copy_(self.vectors["best"])
        self._task.network.eval()
        return self.weights.release()

    def find_non_finite(self, origins: Int64[np.ndarray, " B"], step: int) -> str:
        """Name the first tensors that are not finite in a failed step, which changed nothing."""
        share, sample = self._group.share(origins), self._task.sample(step)
        batch = self._task.batches.cut(share, batch_locations(sample))
        for name, values in vars(batch).items():
            if values is not None and not values.isfinite().all():
                return f"the input {name}"
        if wrong := self.weights.name_non_finite(self.weights.vector):
            return f"the weights {wrong}"
        self._sum_gradient(origins, step)
        wrong = self.weights.name_non_finite(self.weights.collect_gradient())
        return f"the gradient of {wrong}" if wrong else "the loss (none of this process's tensors)"

    def _evaluated_weights(self) -> Float[Tensor, " W"]:
        return self.vectors.get("average", self.vectors["weights"])

    def _seed(self, step: int) -> None:
        seed_dropout(self._task.device, self._task.config.seed, step, self._group.rank)

    def _cut(
        self, origins: Int64[np.ndarray, " B"], windows: int, sample: LocationSample | None
    ) -> Iterator[Batch]:
        for start in range(0, len(origins), windows):
            yield self._task.batches.cut(origins[start : start + windows], batch_locations(sample))


def _no_seed() -> None:
    """Nothing to seed: validation draws no random numbers."""
