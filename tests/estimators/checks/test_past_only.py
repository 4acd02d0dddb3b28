"""The check of past-only covariates finds estimators that see them ahead."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.checks.setup import make_setup
from forecaster.estimators.checks.suite import CHECKS
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData


class FitsOnTheFuture(Ridge):
    """Learns from covariates as if they were known ahead."""

    def fit_windows(self, data: TrainingData) -> FitResult:
        return super().fit_windows(replace(data, panel=data.panel.with_past_only(())))


class SeesTheFuture(SeasonalNaive):
    """Adds a covariate of the step after the origin."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        after = inputs.panel.covariates.values[inputs.origins + 1, -1]
        return super().predict_windows(arrays, inputs) + after[:, None, None]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (FitsOnTheFuture, "only targets changed the fit: weights"),
        (SeesTheFuture, "later covariates changed origin"),
    ],
)
def test_an_estimator_that_sees_past_only_covariates_ahead_is_found(
    broken: type[Estimator], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS["past only covariates are not seen ahead"](make_setup(broken))
