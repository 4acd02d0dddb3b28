"""The progress of a training: its state, the metrics log, and TensorBoard events."""

import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from forecaster.config import TrainingConfig
from forecaster.errors import ConfigError, RunError, count_of
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.training.loss import join_terms

log = logging.getLogger(__name__)
SPIKE = 2.0  # times the lowest training loss so far

# Σ of the mean's term of the loss and of relative errors, Σ squared errors, counts of terms.
Sums = list[float]


@dataclass(frozen=True)
class EpochRecord:
    """The losses of one epoch."""

    epoch: int  # from 1
    step: int  # number of steps at its end
    learning_rate: float  # of its last step
    loss: float  # Eq. 7 over all its training windows, teacher forced
    terms: int  # targets that counted for MAPE
    empty_batches: int  # without such a target: their MAPE was 0
    validation_loss: float  # Eq. 7 over the validation windows, rolled out
    rmse: float  # of validation, in the values' units
    mape: float | None  # of validation, a fraction; None without terms
    validation_terms: int
    seconds: float


@dataclass
class Progress:
    """The state of a training; as JSON it is part of every checkpoint."""

    step: int = 0  # number of steps taken
    sums: Sums = field(default_factory=lambda: [0.0] * 5)  # of this epoch
    empty_batches: int = 0  # of this epoch
    seconds: float = 0.0  # of this epoch
    records: list[EpochRecord] = field(default_factory=list)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Progress":
        """The inverse of `to_json`."""
        records = [EpochRecord(**record) for record in content["records"]]
        sums = list(content["sums"])
        if len(sums) == 4:  # noqa: PLR2004 (of earlier versions: squares are the mean's term)
            sums.insert(2, sums[0])
        return Progress(**{**content, "sums": sums, "records": records})

    def to_json(self) -> dict[str, Any]:
        """The progress as JSON."""
        return asdict(self)

    def add(self, sums: Sums) -> None:
        """Add the errors and counts of one step."""
        self.step += 1
        self.sums = [old + new for old, new in zip(self.sums, sums, strict=True)]
        self.empty_batches += sums[-1] == 0

    def close(self, validation: Sums, learning_rate: float, eta: float) -> EpochRecord:
        """Close the epoch with its validation sums; begin the next."""
        _, shares, squares, values, terms = validation
        record = EpochRecord(
            epoch=len(self.records) + 1,
            step=self.step,
            learning_rate=learning_rate,
            loss=loss_of(self.sums, eta),
            terms=int(self.sums[-1]),
            empty_batches=self.empty_batches,
            validation_loss=loss_of(validation, eta),
            rmse=math.sqrt(squares / max(values, 1.0)),
            mape=shares / terms if terms else None,
            validation_terms=int(terms),
            seconds=self.seconds,
        )
        self.records.append(record)
        self.sums, self.empty_batches, self.seconds = [0.0] * 5, 0, 0.0
        return record

    @property
    def best(self) -> EpochRecord | None:
        """The epoch with the lowest validation loss; the first of equal ones."""
        return min(self.records, key=lambda record: record.validation_loss, default=None)

    @property
    def spike(self) -> str:
        """A warning if the last training loss is far above the lowest; otherwise empty."""
        *before, last = (record.loss for record in self.records)
        if not before or last <= SPIKE * min(before):
            return ""
        return f"loss spike: {last:.4g} in epoch {len(self.records)}, was {min(before):.4g}"

    def stop_reason(self, config: TrainingConfig) -> str | None:
        """Why training stops now, or None."""
        done, best = len(self.records), self.best
        if best is not None and done - best.epoch >= config.patience:
            waited = count_of(config.patience, "epoch")
            return f"no better validation loss for {waited} after epoch {best.epoch}"
        return f"all {count_of(done, 'epoch')} done" if done >= config.epochs else None


@dataclass(frozen=True)
class ProgressUpdate:
    """The state of a training as the progress callback receives it."""

    epoch: int  # from 1
    epochs: int  # at most
    step: int  # number of steps taken
    steps: int  # in all epochs
    loss: float | None  # of this epoch so far
    rmse: float | None  # of the last validation
    mape: float | None
    windows_per_second: float | None
    seconds_left: float | None
    message: str | None = None  # a warning or notice, given once
    unit: str = "epoch"  # what is counted: epochs, or the models of an estimator

    @staticmethod
    def stage(message: str) -> "ProgressUpdate":
        """The beginning of a stage without steps."""
        return ProgressUpdate(0, 0, 0, 0, None, None, None, None, None, message)


ProgressCallback = Callable[[ProgressUpdate], None]


def announce(message: str, on_progress: ProgressCallback | None) -> None:
    """Say something before a long training begins, in the log and to who listens."""
    log.info("%s", message)
    if on_progress is not None:
        on_progress(ProgressUpdate.stage(message))


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The weights, the losses of all epochs, and why training stopped."""

    weights: dict[str, np.ndarray]  # by name; the best on validation, averaged if `ema` is set
    records: tuple[EpochRecord, ...]
    stop_reason: str


def loss_of(sums: Sums, eta: float) -> float:
    """η · RMSE² + MAPE of sums of errors and counts (Eq. 7)."""
    terms = torch.tensor(sums, dtype=torch.float64)
    return join_terms(terms[:2], terms[3:], eta).item()


FLUSH_SECONDS = 1.0


class MetricsLog:
    """The metrics log: one JSON object per line, cut back on resume. It never fails training."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._flushed = time.monotonic()
        self._existed = self._warned = False

    def rewind(self, step: int, epochs: int) -> None:
        """Remove the lines after a step and an epoch: these will be repeated."""
        if self._path is None:
            return
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(True)
            valid = [line for line in lines if _is_within(line, step, epochs)]
            if len(valid) < len(lines):
                replace_file(self._path, bytes_writer("".join(valid).encode()))
            self._existed = True
        except FileNotFoundError:
            if step:
                self._warn("is gone")
        except (OSError, RunError) as error:
            self._warn(str(error))

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line of an `epoch` or a `step`."""
        self._lines.append(json.dumps(line, allow_nan=False) + "\n")
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all lines to disk; warn once if that fails."""
        text, self._lines, self._flushed = "".join(self._lines), [], time.monotonic()
        if not text or self._path is None:
            return
        try:
            if self._existed and not self._path.exists():
                self._warn("is gone")
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._existed = True
        except OSError as error:
            self._warn(f"cannot be written ({error.strerror})")

    def _warn(self, fault: str) -> None:
        if not self._warned:
            log.warning("%s: %s; training continues, and the log has a gap", self._path, fault)
        self._warned = True


def _is_within(line: str, step: int, epochs: int) -> bool:
    """Whether a line is of the first steps or epochs; a truncated line is of none."""
    try:
        content = json.loads(line)
        return bool(content["epoch"] <= epochs if "epoch" in content else content["step"] <= step)
    except (ValueError, KeyError, TypeError):
        return False


class TensorBoard:
    """A progress callback that writes TensorBoard events; close it after training."""

    def __init__(self, folder: Path) -> None:
        """Fail before training if TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (few have it)
        except ImportError as error:
            message = "TensorBoard is not installed: pip install tensorboard, or leave it out"
            raise ConfigError(message) from error
        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def __call__(self, update: ProgressUpdate) -> None:
        """Write one update; steps repeated after a resume replace the old ones."""
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=update.step)
        for name in ("loss", "rmse", "mape"):
            value = getattr(update, name)
            if value is not None:
                self._writer.add_scalar(name, value, update.step)

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._writer.close()
