"""The served model and its forecasts."""

from dataclasses import replace

import numpy as np

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from tests.serve.conftest import HOURS


def test_a_model_tells_its_horizon_and_levels(model: ServedModel) -> None:
    assert (model.horizon, model.quantile_levels) == (3, (0.1, 0.5, 0.9))


def test_a_forecast_knows_its_instants(model: ServedModel, panel: Panel) -> None:
    forecast = SnapshotPredictor().predict_provisional(model, Snapshot(panel), HOURS - 1)
    hours = np.timedelta64(1, "h") * np.arange(1, 4)
    assert np.array_equal(forecast.times, panel.times[HOURS - 1] + hours)
    assert replace(forecast, panel=panel).locations is panel.locations
