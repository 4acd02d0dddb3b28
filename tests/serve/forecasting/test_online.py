"""Intervals step by step are those of the estimator at once."""

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS


@pytest.fixture
def model(run) -> ServedModel:  # type: ignore[no-untyped-def]
    return load_model(run)


def ask(
    forecasts: SnapshotPredictor, model: ServedModel, snapshot: Snapshot, origin: int
) -> Forecast:
    while (answer := forecasts.predict(model, snapshot, origin)) is None:
        pass
    return answer


def check(answer: Forecast, model: ServedModel, snapshot: Snapshot, origin: int) -> None:
    table = model.estimator.forecast(
        snapshot.panel(0, HOURS, HOURS + 3), f"{snapshot.time_of(origin)}+00:00"
    )
    for name, values in zip(("q10", "q50", "q90"), answer.quantiles, strict=True):
        assert np.allclose(values.T.ravel(), table[name], rtol=1e-5, atol=1e-5)
    assert np.allclose(answer.y_hat.T.ravel(), table["y_hat"], rtol=1e-5, atol=1e-5)


def test_origins_in_any_order_are_those_of_the_whole_panel(
    model: ServedModel, panel: Panel
) -> None:
    forecasts, snapshot = SnapshotPredictor(), Snapshot(panel)
    for origin in (HOURS - 9, HOURS - 1, HOURS - 8, 400, HOURS - 350, 401, HOURS - 9):
        check(ask(forecasts, model, snapshot, origin), model, snapshot, origin)


def test_late_data_changes_all_that_saw_it(model: ServedModel, panel: Panel) -> None:
    forecasts, snapshot = SnapshotPredictor(), Snapshot(panel)
    generator = np.random.default_rng(0)
    for version in range(1, 12):
        step, column = HOURS - 1 - int(generator.integers(40)), int(generator.integers(5))
        value = None if version % 4 == 0 else float(generator.integers(99))
        snapshot = snapshot.with_observations([(step, column, value)], version)
        if version % 3 == 0:
            ahead = HOURS - 10 + version
            snapshot = snapshot.with_covariates([(ahead, 0, float(version))], version)
        origin = HOURS - 1 - int(generator.integers(20))
        check(ask(forecasts, model, snapshot, origin), model, snapshot, origin)


def test_an_earlier_state_may_be_asked_after_a_later_one(model: ServedModel, panel: Panel) -> None:
    forecasts, first = SnapshotPredictor(), Snapshot(panel)
    second = first.with_observations([(HOURS - 3, 1, 88.0)], 1)
    for snapshot in (first, second, first, second):
        check(ask(forecasts, model, snapshot, HOURS - 1), model, snapshot, HOURS - 1)


def test_two_states_in_turn_do_not_spoil_each_others_work(
    model: ServedModel, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecaster.serve.forecasting.predictor.VALUES_AT_ONCE", 5 * 7
    )  # seven origins
    forecasts, first = SnapshotPredictor(), Snapshot(panel)
    states = [first, first.with_observations([(HOURS - 2, 1, 88.0)], 1)]
    found: dict[int, Forecast] = {}
    for turn in range(200):
        if len(found) == len(states):
            break
        snapshot = states[turn % 2]
        if answer := forecasts.predict(model, snapshot, HOURS - 1):
            found[snapshot.version] = answer
    assert sorted(found) == [0, 1]
    for snapshot in states:
        check(found[snapshot.version], model, snapshot, HOURS - 1)


def test_the_next_origin_costs_one_answer(model: ServedModel, panel: Panel) -> None:
    forecasts, snapshot = SnapshotPredictor(), Snapshot(panel)
    ask(forecasts, model, snapshot, HOURS - 2)
    asked: list[int] = []
    answer = model.estimator.predict_window_quantiles
    model.estimator.predict_window_quantiles = (  # type: ignore[method-assign]
        lambda arrays, question: asked.append(len(question.origins)) or answer(arrays, question)
    )
    ask(forecasts, model, snapshot, HOURS - 1)
    assert asked == [1]
