"""The checks of forecasts find what is wrong with broken estimators."""

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.setup import make_setup
from forecaster.estimators.checks.suite import CHECKS
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel


class Leaky(SeasonalNaive):
    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        later = np.minimum(inputs.origins + 1, len(inputs.panel.values) - 1)
        return super().predict_windows(arrays, inputs) + inputs.panel.values[later][:, None]


class Ordered(SeasonalNaive):
    """Gives its rows the names of the panel's columns, whatever their order."""

    def forecast(self, panel: Panel, at: str, **given: object) -> pd.DataFrame:
        table = super().forecast(panel, at, **given)  # type: ignore[arg-type]
        return table.assign(unique_id=np.repeat(np.array(panel.locations.ids, dtype=object), 2))


class Blocky(SeasonalNaive):
    """Lets the origins of one call influence each other."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        return super().predict_windows(arrays, inputs) + np.float32(len(inputs.origins))


class Silent(SeasonalNaive):
    def forecast(self, *args: object, **given: object) -> object:
        return super().forecast(*args, **given).drop(columns="degraded", errors="ignore")  # type: ignore[arg-type]


class Dull(SeasonalNaive):
    def forecast(self, *args: object, **given: object) -> object:
        return super().forecast(*args, **given).drop(columns="ds_local")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("broken", "check", "told"),
    [
        (Leaky, "nothing after the origin is seen", "later data changed origin"),
        (Ordered, "locations are matched by id", "permuted columns"),
        (Blocky, "many origins equal one at a time", "relative difference"),
        (Silent, "an unknown future is refused or labelled", "not labelled"),
        (Dull, "forecasts are a long table", "columns .* not"),
    ],
)
def test_a_broken_estimator_is_found(broken: type[Estimator], check: str, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        CHECKS[check](make_setup(broken))
