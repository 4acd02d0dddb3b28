"""What an estimator learns from, with the test period out of its reach; and what it learned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from forecaster.config import LagConfig
from forecaster.panel.fill import Fill, fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.splits import Splits, Windows, cut_windows
from forecaster.training.progress import ProgressCallback

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A panel in which the test steps are missing, and the windows of the others.

    No code that learns can look at a test step, whatever it does: there is nothing to see.
    """

    panel: Panel  # as observed
    splits: Splits
    windows: Windows  # of training and validation
    train: Bool[np.ndarray, " M"]  # the training steps
    fill: Fill  # what stands for a missing value
    folder: Path | None = None  # where a long training keeps what must survive a kill
    watch: ProgressCallback | None = None  # told how a long training gets on

    @cached_property
    def whole(self) -> Panel:
        """The panel with every missing value filled."""
        return fill_missing(self.panel, self.fill)


@dataclass(frozen=True, eq=False)
class FitResult:
    """Everything that has to be remembered."""

    arrays: Arrays
    about: Mapping[str, Any] = field(default_factory=dict)  # JSON
    parents: Mapping[str, str] = field(default_factory=dict)  # hashes, beside the panel's
    seconds: float | None = None  # that it took, if that is more than this process's


def prepare(panel: Panel, splits: Splits, lags: LagConfig) -> TrainingData:
    """Return the lesson of a panel: what its training and validation steps say."""
    held_out = splits.mask("test", panel.clock, panel.times)
    seen = panel.hide_steps(held_out)
    windows = cut_windows(seen, splits, lags, needed=("train", "validation"))
    train = splits.mask("train", panel.clock, panel.times)
    return TrainingData(seen, splits, windows, train, fit_fill(seen, train))
