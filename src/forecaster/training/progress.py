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

SPIKE = 2.0  # times the lowest training loss so far

Sums = list[float]  # Σ squared errors, Σ relative errors, and how many terms each has


@dataclass(frozen=True)
class EpochRecord:
    """One epoch."""

    epoch: int  # from 1
    step: int  # how many had been taken at its end
    learning_rate: float  # of its last step
    loss: float  # Eq. 7 over all its training windows, teacher forced
    terms: int  # targets that counted for MAPE
    empty_batches: int  # had no such target: their MAPE was 0
    validation_loss: float  # Eq. 7 over the validation windows, rolled out
    rmse: float  # of validation, in the values' units
    mape: float | None  # of validation, a fraction; None without terms
    validation_terms: int
    seconds: float


@dataclass
class Progress:
    """Where training stands; as JSON it is part of every checkpoint."""

    step: int = 0  # how many were taken
    sums: Sums = field(default_factory=lambda: [0.0] * 4)  # of this epoch
    empty_batches: int = 0  # of this epoch
    seconds: float = 0.0  # of this epoch
    records: list[EpochRecord] = field(default_factory=list)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Progress":
        """Return the progress that `to_json` described."""
        records = [EpochRecord(**record) for record in content["records"]]
        return Progress(**{**content, "records": records})

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON."""
        return asdict(self)

    def add(self, sums: Sums) -> None:
        """Take in one step: its errors and its counts."""
        self.step += 1
        self.sums = [old + new for old, new in zip(self.sums, sums, strict=True)]
        self.empty_batches += sums[-1] == 0

    def close(self, validation: Sums, learning_rate: float, eta: float) -> EpochRecord:
        """Record the epoch and begin the next."""
        squares, shares, values, terms = validation
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
        self.sums, self.empty_batches, self.seconds = [0.0] * 4, 0, 0.0
        return record

    @property
    def best(self) -> EpochRecord | None:
        """Return the epoch of the lowest validation loss, the first of equals."""
        return min(self.records, key=lambda record: record.validation_loss, default=None)

    @property
    def spike(self) -> str:
        """Return what is odd about the last training loss, if anything is."""
        *before, last = (record.loss for record in self.records)
        if not before or last <= SPIKE * min(before):
            return ""
        return f"loss spike: {last:.4g} in epoch {len(self.records)}, was {min(before):.4g}"

    def why_stop(self, config: TrainingConfig) -> str | None:
        """Return why there is nothing left to do, or None."""
        done, best = len(self.records), self.best
        if best is not None and done - best.epoch >= config.patience:
            waited = count_of(config.patience, "epoch")
            return f"no better validation loss for {waited} after epoch {best.epoch}"
        return f"all {count_of(done, 'epoch')} done" if done >= config.epochs else None


@dataclass(frozen=True)
class ProgressUpdate:
    """What there is to see at one moment of training."""

    epoch: int  # from 1
    epochs: int  # at most
    step: int  # how many were taken
    steps: int  # in all epochs
    loss: float | None  # of this epoch so far
    rmse: float | None  # of the last validation
    mape: float | None
    windows_per_second: float | None
    seconds_left: float | None
    message: str | None = None  # said once


ProgressCallback = Callable[[ProgressUpdate], None]


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What training found."""

    weights: dict[str, np.ndarray]  # by name; the best on validation, averaged ones if asked
    records: tuple[EpochRecord, ...]
    why: str  # it stopped


def loss_of(sums: Sums, eta: float) -> float:
    """Return η · RMSE² + MAPE of sums (Eq. 7)."""
    errors, counts = torch.tensor(sums, dtype=torch.float64).view(2, 2)
    return join_terms(errors, counts, eta).item()


EVERY = 1.0  # seconds that a line may wait for the disk

log = logging.getLogger(__name__)


class MetricsLog:
    """A log that is written as training goes on, and cut where it is resumed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._flushed = time.monotonic()
        self._begun = self._warned = False

    def rewind(self, step: int, epochs: int) -> None:
        """Forget what was written after so many steps and epochs: it will be done again."""
        if self._path is None:
            return
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(True)
            kept = [line for line in lines if _is_within(line, step, epochs)]
            if len(kept) < len(lines):
                replace_file(self._path, bytes_writer("".join(kept).encode()))
            self._begun = True
        except FileNotFoundError:
            if step:
                self._warn("is gone")
        except (OSError, RunError) as error:
            self._warn(str(error))

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line of an `epoch` or a `step`."""
        self._lines.append(json.dumps(line, allow_nan=False) + "\n")
        if time.monotonic() - self._flushed >= EVERY:
            self.flush()

    def flush(self) -> None:
        """Put all lines on disk, or lose them with one warning."""
        text, self._lines, self._flushed = "".join(self._lines), [], time.monotonic()
        if not text or self._path is None:
            return
        try:
            if self._begun and not self._path.exists():
                self._warn("is gone")
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._begun = True
        except OSError as error:
            self._warn(f"cannot be written ({error.strerror})")

    def _warn(self, what: str) -> None:
        if not self._warned:
            log.warning("%s: %s; training goes on, the log has a gap", self._path, what)
        self._warned = True


def _is_within(line: str, step: int, epochs: int) -> bool:
    """Tell whether a line is of the first steps or epochs; one that was cut short is of none."""
    try:
        content = json.loads(line)
        return bool(content["epoch"] <= epochs if "epoch" in content else content["step"] <= step)
    except (ValueError, KeyError, TypeError):
        return False


class TensorBoard:
    """Writes what there is to see as TensorBoard events; close it when training is over."""

    def __init__(self, folder: Path) -> None:
        """Refuse, where it is not installed, before anything is trained."""
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (few have it)
        except ImportError as error:
            message = "TensorBoard is not installed: pip install tensorboard, or leave it out"
            raise ConfigError(message) from error
        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def __call__(self, moment: ProgressUpdate) -> None:
        """Write one moment; steps that a resumed run does again replace the old ones."""
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=moment.step)
        for name in ("loss", "rmse", "mape"):
            value = getattr(moment, name)
            if value is not None:
                self._writer.add_scalar(name, value, moment.step)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
