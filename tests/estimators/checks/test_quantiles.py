"""The checks of quantiles find what is wrong with broken estimators."""

import numpy as np
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.setup import make_setup
from forecaster.estimators.checks.suite import CHECKS
from forecaster.panel.panel import Panel


class Crossing(SeasonalNaive):
    def predict_quantiles(self, *args: object, **given: object) -> np.ndarray:
        return super().predict_quantiles(*args, **given)[:, ::-1]  # type: ignore[arg-type]


class Certain(SeasonalNaive):
    """Says that it is always right."""

    def predict_quantiles(self, *args: object, **given: object) -> np.ndarray:
        del given
        forecast = self.predict(*args)[:, None]  # type: ignore[arg-type]
        return np.repeat(forecast, len(self.quantile_levels), axis=1)


class Prophetic(SeasonalNaive):
    def predict_quantiles(self, panel: Panel, *args: object, **given: object) -> np.ndarray:
        found = super().predict_quantiles(panel, *args, **given)  # type: ignore[arg-type]
        return found + np.nanmean(panel.values)


@pytest.mark.parametrize(
    ("broken", "check", "told"),
    [
        (Crossing, "quantiles are ascending and calibrated", "quantiles cross"),
        (Certain, "quantiles are ascending and calibrated", "% in an 80 % interval"),
        (Prophetic, "quantiles see nothing after the origin", "later outcomes"),
    ],
)
def test_a_broken_estimator_is_found(broken: type[Estimator], check: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS[check](make_setup(broken))
