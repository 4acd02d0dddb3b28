"""The checks of learning find what is wrong with broken estimators."""

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.setup import make_setup
from forecaster.estimators.checks.suite import CHECKS
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.training_data import Arrays, FitResult, TrainingData
from forecaster.panel.panel import Panel
from forecaster.splits import Splits


class Peeking(SeasonalNaive):
    """Looks past its lesson, in which there is nothing to see."""

    def fit(self, panel: Panel, splits: Splits, **given: object) -> "Peeking":
        self.total = np.nan_to_num(panel.values).sum(axis=0)
        return super().fit(panel, splits, **given)  # type: ignore[arg-type]

    def fit_windows(self, data: TrainingData) -> FitResult:
        del data
        return FitResult({"total": self.total})


class Restless(SeasonalNaive):
    calls = 0

    def fit_windows(self, data: TrainingData) -> FitResult:
        del data
        Restless.calls += 1
        return FitResult({"calls": np.array([Restless.calls])})


class Forgetful(SeasonalNaive):
    """Answers from something that is not saved."""

    extra = 0.0

    def fit_windows(self, data: TrainingData) -> FitResult:
        del data
        self.extra = 7.0
        return FitResult({})

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        return super().predict_windows(arrays, inputs) + np.float32(self.extra)


@pytest.mark.parametrize(
    ("broken", "check", "told"),
    [
        (Peeking, "test steps do not change the fit", "test steps changed"),
        (Restless, "fitting again changes nothing", "a second estimator"),
        (Forgetful, "a saved estimator forecasts the same", "loaded estimator"),
    ],
)
def test_a_broken_estimator_is_found(broken: type[Estimator], check: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS[check](make_setup(broken))
