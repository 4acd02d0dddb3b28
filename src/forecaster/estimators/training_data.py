"""The data that an estimator is fitted to, with the test steps hidden, and the fit's result."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from forecaster.estimators.closed import fit_silence
from forecaster.estimators.forecast_inputs import fit_climatology
from forecaster.estimators.intervals.residuals import count_needed
from forecaster.estimators.what_if import training_ranges
from forecaster.estimators.wrong_values.value_ranges import fit_ranges
from forecaster.panel.fill import Fill, fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.splits import Splits, Windows
from forecaster.training.progress import ProgressCallback

Arrays = Mapping[str, np.ndarray]
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The data that an estimator is fitted to: a panel without its test steps, and windows.

    Code that fits cannot see a test step: its values and covariates are NaN here.
    """

    panel: Panel  # as observed
    splits: Splits
    windows: Windows  # of training and validation; test is empty
    train: Bool[np.ndarray, " M"]  # the training steps
    fill: Fill  # stands in for missing values
    folder: Path | None = None  # for the checkpoints of a long training
    on_progress: ProgressCallback | None = None  # called with its progress

    @cached_property
    def filled(self) -> Panel:
        """The panel with every missing value filled."""
        return fill_missing(self.panel, self.fill)

    def shared_arrays(self) -> dict[str, np.ndarray]:
        """Statistics of the training steps that every run stores, whatever the estimator."""
        panel, fill, train = self.panel, self.fill, self.train
        observed = panel.values[train]
        return {
            "shared.fill": fill.values,
            "shared.fill_covariates": fill.covariates,
            "shared.fill_local_covariates": fill.local_covariates,
            "shared.climatology": fit_climatology(panel, train),
            "shared.least": np.nan_to_num(np.fmin.reduce(observed, axis=0)),
            "shared.most": np.nan_to_num(np.fmax.reduce(observed, axis=0)),
            **training_ranges(panel, train),
            **fit_ranges(panel, train),
            **fit_silence(panel, train),
        }


MAX_JUDGED = 2**24  # forecast values of the validation windows that are held at once
MIN_JUDGED = 500  # windows
# Of more than so many locations, whose outcomes calibrate together, as many hours as a week has.
MANY_LOCATIONS, MIN_JUDGED_OF_MANY = 5_000, 168


def judged_windows(data: TrainingData, horizon: int, levels: Sequence[float]) -> TrainingData:
    """The data with fewer validation windows, evenly spaced, if the forecasts of all are too many.

    A trained model is judged and calibrated by forecasts of whole windows, each with several
    quantiles; those of a month of five minutes at 300 locations do not fit into memory. Its
    residuals of these windows are all that a run stores for intervals of areas and totals.

    Args:
        data: of the fit.
        horizon: K.
        levels: of the quantiles, which need some windows.
    """
    origins, N = data.windows.validation, len(data.panel.locations)
    least = MIN_JUDGED_OF_MANY if N > MANY_LOCATIONS else MIN_JUDGED
    most = max(MAX_JUDGED // (horizon * N), least, 2 * count_needed(levels))
    if len(origins) <= most:
        return data
    log.info("judged and calibrated by %d of %d validation windows", most, len(origins))
    spaced = origins[np.linspace(0, len(origins) - 1, most).astype(np.int64)]
    return replace(data, windows=replace(data.windows, validation=spaced))


@dataclass(frozen=True, eq=False)
class FitResult:
    """The result of a fit: the arrays that forecasts need, and a description of the fit."""

    arrays: Arrays
    about: Mapping[str, Any] = field(default_factory=dict)  # JSON
    parents: Mapping[str, str] = field(default_factory=dict)  # hashes, beside the panel's
    seconds: float | None = None  # of training, all resumed parts together


def hide_test(panel: Panel, splits: Splits, windows: Windows) -> TrainingData:
    """The training data of a panel whose windows are cut.

    Windows of training and validation have no test step in their history or targets
    (`cut_windows`), so hiding those steps changes none of them.
    """
    hidden = panel.hide_steps(splits.mask("test", panel.clock, panel.times))
    train = splits.mask("train", panel.clock, panel.times)
    windows = replace(windows, test=windows.test[:0])
    return TrainingData(hidden, splits, windows, train, fit_fill(hidden, train))
