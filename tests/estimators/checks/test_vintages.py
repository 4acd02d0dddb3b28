"""The check of vintages finds estimators that see them before they were known."""

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
from forecaster.panel.panel import Panel


def final(panel: Panel) -> Panel:
    """The panel as if every value had always been known."""
    return panel.without_vintages()


class FitsOnTheFuture(Ridge):
    """Learns from covariates as they were known in the end."""

    def fit_windows(self, data: TrainingData) -> FitResult:
        return super().fit_windows(replace(data, panel=final(data.panel)))


class SeesTheFuture(SeasonalNaive):
    """Adds a covariate of the step after the origin."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        vintages = inputs.panel.covariates.vintages
        if vintages is None:
            return super().predict_windows(arrays, inputs)
        ahead = vintages.seen(inputs.origins + 1, inputs.origins + 1)[:, 0]
        return super().predict_windows(arrays, inputs) + ahead[:, None, None]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (FitsOnTheFuture, "targets that no origin knew changed the fit"),
        (SeesTheFuture, "later vintages changed origin"),
    ],
)
def test_an_estimator_that_sees_later_vintages_is_found(
    broken: type[Estimator], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS["no vintage is seen before it was known"](make_setup(broken))
