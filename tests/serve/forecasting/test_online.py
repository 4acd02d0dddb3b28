"""Intervals step by step are those of the estimator at once."""

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Answer, Model
from forecaster.serve.forecasting.predictor import Forecasts
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS


@pytest.fixture
def model(run) -> Model:  # type: ignore[no-untyped-def]
    return load_model(run)


def ask(forecasts: Forecasts, model: Model, overlay: Overlay, origin: int) -> Answer:
    while (answer := forecasts.answer(model, overlay, origin)) is None:
        pass
    return answer


def check(answer: Answer, model: Model, overlay: Overlay, origin: int) -> None:
    table = model.estimator.forecast(
        overlay.panel(0, HOURS, HOURS + 3), f"{overlay.time_of(origin)}+00:00"
    )
    for name, values in zip(("q10", "q50", "q90"), answer.quantiles, strict=True):
        assert np.allclose(values.T.ravel(), table[name], rtol=1e-5, atol=1e-5)
    assert np.allclose(answer.y_hat.T.ravel(), table["y_hat"], rtol=1e-5, atol=1e-5)


def test_origins_in_any_order_are_those_of_the_whole_panel(model: Model, panel: Panel) -> None:
    forecasts, overlay = Forecasts(), Overlay(panel)
    for origin in (HOURS - 9, HOURS - 1, HOURS - 8, 400, HOURS - 350, 401, HOURS - 9):
        check(ask(forecasts, model, overlay, origin), model, overlay, origin)


def test_late_data_changes_all_that_saw_it(model: Model, panel: Panel) -> None:
    forecasts, overlay = Forecasts(), Overlay(panel)
    generator = np.random.default_rng(0)
    for version in range(1, 12):
        step, column = HOURS - 1 - int(generator.integers(40)), int(generator.integers(5))
        value = None if version % 4 == 0 else float(generator.integers(99))
        overlay = overlay.with_cells([(step, column, value)], version)
        if version % 3 == 0:
            ahead = HOURS - 10 + version
            overlay = overlay.with_covariates([(ahead, 0, float(version))], version)
        origin = HOURS - 1 - int(generator.integers(20))
        check(ask(forecasts, model, overlay, origin), model, overlay, origin)


def test_an_earlier_state_may_be_asked_after_a_later_one(model: Model, panel: Panel) -> None:
    forecasts, first = Forecasts(), Overlay(panel)
    second = first.with_cells([(HOURS - 3, 1, 88.0)], 1)
    for overlay in (first, second, first, second):
        check(ask(forecasts, model, overlay, HOURS - 1), model, overlay, HOURS - 1)


def test_two_states_in_turn_do_not_spoil_each_others_work(
    model: Model, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecaster.serve.forecasting.online.VALUES_AT_ONCE", 5 * 7
    )  # seven origins
    forecasts, first = Forecasts(), Overlay(panel)
    states = [first, first.with_cells([(HOURS - 2, 1, 88.0)], 1)]
    found: dict[int, Answer] = {}
    for turn in range(200):
        if len(found) == len(states):
            break
        overlay = states[turn % 2]
        if answer := forecasts.answer(model, overlay, HOURS - 1):
            found[overlay.version] = answer
    assert sorted(found) == [0, 1]
    for overlay in states:
        check(found[overlay.version], model, overlay, HOURS - 1)


def test_the_next_origin_costs_one_answer(model: Model, panel: Panel) -> None:
    forecasts, overlay = Forecasts(), Overlay(panel)
    ask(forecasts, model, overlay, HOURS - 2)
    asked: list[int] = []
    answer = model.estimator.predict_window_quantiles
    model.estimator.predict_window_quantiles = (  # type: ignore[method-assign]
        lambda arrays, question: asked.append(len(question.origins)) or answer(arrays, question)
    )
    ask(forecasts, model, overlay, HOURS - 1)
    assert asked == [1]
