"""Errors of what was forecast, beside the value a week before."""

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import PastForecast, PastForecasts, measure_accuracy
from forecaster.serve.forecasting.forecast import ServedModel
from tests.serve.conftest import HOURS


def record(y_hat: float, low: float, high: float) -> PastForecast:
    return PastForecast(
        *(np.full((3, 5), value, dtype=np.float32) for value in (y_hat, low, high))
    )


def test_a_constant_forecast_has_the_errors_of_a_constant(
    model: ServedModel, panel: Panel
) -> None:
    origins = range(HOURS - 20, HOURS - 3)
    records = {o: record(7.0, 0.0, 1e6) for o in origins}
    figures = measure_accuracy(model, Snapshot(panel), records, HOURS)
    truth = panel.values[np.array(origins)[:, None] + np.arange(1, 4)]
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((truth - 7) ** 2)), rel=1e-5)
    assert figures["coverage"] == 1.0
    assert figures["terms"] == truth.size
    first = np.sqrt(np.mean((truth[:, 0] - 7) ** 2))
    assert figures["by_step"][0]["rmse"] == pytest.approx(first, rel=1e-5)


def test_what_has_not_come_yet_does_not_count(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(model, Snapshot(panel), {HOURS - 2: record(7.0, 0.0, 1e6)}, HOURS)
    assert figures["terms"] == 5  # one of three hours is over
    assert figures["by_step"][2]["rmse"] is None


def test_an_hour_that_is_not_over_does_not_count(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(
        model, Snapshot(panel), {HOURS - 4: record(7.0, 0.0, 1e6)}, HOURS - 1
    )
    assert figures["terms"] == 2 * 5
    assert figures["by_step"][2]["coverage"] is None


def test_what_came_before_its_hour_was_over_does_not_count(
    model: ServedModel, panel: Panel
) -> None:
    snapshot = Snapshot(panel).with_observations([(HOURS - 1, 3, 1.0)], 1, {(HOURS - 1, 3)})
    figures = measure_accuracy(model, snapshot, {HOURS - 4: record(7.0, 0.0, 1e6)}, HOURS)
    assert figures["terms"] == 3 * 5 - 1


def test_without_forecasts_there_are_no_figures(model: ServedModel, panel: Panel) -> None:
    figures = measure_accuracy(model, Snapshot(panel), {}, HOURS)
    assert (figures["rmse"], figures["coverage"], figures["terms"]) == (None, None, 0)


def test_a_ledger_keeps_the_first_word_and_not_too_many(model: ServedModel) -> None:
    past_forecasts = PastForecasts(limit=23)
    for origin in range(3 * 23):
        past_forecasts._keep((model.digest, origin), record(1.0, 0.0, 2.0))
        past_forecasts._keep((model.digest, origin), record(9.0, 0.0, 2.0))
    found = past_forecasts.recent(model, 3 * 23, 10)
    assert sorted(found) == list(range(3 * 23 - 10, 3 * 23))
    assert found[3 * 23 - 1].y_hat[0, 0] == 1.0
    assert len(past_forecasts._forecasts) == 2 * 23


def test_a_ledger_knows_what_it_lacks(model: ServedModel) -> None:
    past_forecasts = PastForecasts(limit=23)
    past_forecasts.skip(model, 7)
    past_forecasts._keep((model.digest, 8), record(1.0, 0.0, 2.0))
    assert past_forecasts.missing_origins(model, 10, 5) == [5, 6, 9]
    assert past_forecasts.recent(model, 10, 5).keys() == {8}
