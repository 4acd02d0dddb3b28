"""How far training has come: a record of each epoch, and when to stop."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from forecaster.config import TrainingConfig
from forecaster.errors import count_of
from forecaster.training.loss import join_terms

SPIKE = 2.0  # times the lowest training loss so far

Sums = list[float]  # Σ squared errors, Σ relative errors, and how many terms each has


@dataclass(frozen=True)
class Record:
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
    records: list[Record] = field(default_factory=list)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Progress":
        """Return the progress that `to_json` described."""
        records = [Record(**record) for record in content["records"]]
        return Progress(**{**content, "records": records})

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON."""
        return asdict(self)

    def add(self, sums: Sums) -> None:
        """Take in one step: its errors and its counts."""
        self.step += 1
        self.sums = [old + new for old, new in zip(self.sums, sums, strict=True)]
        self.empty_batches += sums[-1] == 0

    def close(self, validation: Sums, learning_rate: float, eta: float) -> Record:
        """Record the epoch and begin the next."""
        squares, shares, values, terms = validation
        record = Record(
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
    def best(self) -> Record | None:
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
class Moment:
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


Watch = Callable[[Moment], None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What training found."""

    weights: dict[str, np.ndarray]  # by name; the best on validation, averaged ones if asked
    records: tuple[Record, ...]
    why: str  # it stopped


def loss_of(sums: Sums, eta: float) -> float:
    """Return η · RMSE² + MAPE of sums (Eq. 7)."""
    errors, counts = torch.tensor(sums, dtype=torch.float64).view(2, 2)
    return join_terms(errors, counts, eta).item()
