"""The public suite passes on our estimators and gathers what is wrong with broken ones."""

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ConfigError
from forecaster.estimators.base import Estimator
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.suite import CHECKS, check_forecaster
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import ESTIMATORS, find_estimator
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change

# Networks whose authors' sizes would take most of the suite's time.
SMALL = {"staeformer": {"embedding": 4, "adaptive": 8, "hidden": 16, "n_layers": 1}}


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_every_estimator_passes(name: str) -> None:
    def make(recipe: Recipe) -> Estimator:
        return find_estimator(name)(recipe=change(recipe, SMALL, source="small"))

    assert check_forecaster(make) == list(CHECKS)


def test_the_best_preset_passes() -> None:
    best = {"preset": "best", "mixer": {"hidden": 8}}
    made = check_forecaster(lambda recipe: Forecaster(recipe=change(recipe, best, source="best")))
    assert made == list(CHECKS)


class Broken(SeasonalNaive):
    """Forgets a column, and lets the origins of one call influence each other."""

    def predict_windows(self, arrays: Arrays, inputs: ForecastInputs) -> np.ndarray:
        return super().predict_windows(arrays, inputs) + np.float32(len(inputs.origins))

    def forecast(self, panel: Panel, at: str, **given: object) -> pd.DataFrame:
        return super().forecast(panel, at, **given).drop(columns="ds_local")  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [SeasonalNaive(), lambda recipe: recipe])
def test_an_argument_that_makes_no_estimator_is_refused(make: object) -> None:
    # the shape checks, where they are on, refuse the instance before
    with pytest.raises((ConfigError, TypeError), match="Estimator"):
        check_forecaster(make)  # type: ignore[arg-type]


def test_passing_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    check_forecaster(SeasonalNaive)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_all_that_is_wrong_is_raised_together() -> None:
    with pytest.raises(AssertionError) as caught:
        check_forecaster(Broken)
    first, *lines = str(caught.value).splitlines()
    assert first == f"{len(lines)} checks failed"
    failed = {line.strip().split(":")[0] for line in lines}
    assert {"forecasts are a long table", "many origins equal one at a time"} <= failed < {*CHECKS}
