"""The check of opening hours finds estimators that see beyond an origin, or feed on each other."""

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import LastValue
from forecaster.estimators.checks.setup import make_setup
from forecaster.estimators.checks.suite import CHECKS
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.training_data import Arrays


class WaitsForTheMorning(LastValue):
    """Takes the last values of the panel where the origin is closed."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        forecast, panel = super().predict_windows(arrays, inputs), inputs.panel
        closed = ~panel.clock.is_open(panel.times[inputs.origins])
        return np.where(closed[:, None, None], panel.values[-3:].mean(axis=0), forecast)


class ForgetsTheDay(LastValue):
    """Adds the number of origins of a call where hours are known."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        added = len(inputs.origins) if inputs.panel.clock.hours else 0
        return super().predict_windows(arrays, inputs) + np.float32(added)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (WaitsForTheMorning, "with opening hours, later data changed"),
        (ForgetsTheDay, "with opening hours, origins differ when alone"),
    ],
)
def test_L10_an_estimator_that_breaks_at_closed_steps_is_found(
    broken: type[Estimator], told: str
) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS["closed steps are forecast at nothing"](make_setup(broken))
