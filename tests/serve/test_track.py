"""Intervals step by step are those of the estimator at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.answer import Answer, Model
from forecaster.serve.forecasts import Forecasts, _tell_missing
from forecaster.serve.overlay import Overlay
from forecaster.serve.service import load_model
from forecaster.synthetic.city import make_city
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


def test_the_next_origin_costs_one_answer(model: Model, panel: Panel) -> None:
    forecasts, overlay = Forecasts(), Overlay(panel)
    ask(forecasts, model, overlay, HOURS - 2)
    asked: list[int] = []
    answer = model.estimator.answer_quantiles
    model.estimator.answer_quantiles = (  # type: ignore[method-assign]
        lambda arrays, question: asked.append(len(question.origins)) or answer(arrays, question)
    )
    ask(forecasts, model, overlay, HOURS - 1)
    assert asked == [1]


def test_every_thread_has_tracks_of_its_own(model: Model) -> None:
    forecasts = Forecasts()
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(forecasts._track, model, "observed").result()
        assert other.submit(forecasts._track, model, "observed").result() is theirs
    assert forecasts._track(model, "observed") is not theirs


def test_a_past_is_forecast_without_the_weather_that_came(model: Model, panel: Panel) -> None:
    forecasts, overlay, origin = Forecasts(), Overlay(panel), HOURS - 9
    while (answer := forecasts.in_hindsight(model, overlay, origin)) is None:
        pass
    knowing, persisting = (
        model.estimator.predict(panel, np.array([origin]), weather)[0]
        for weather in ("observed", "persist")
    )
    assert np.allclose(answer.y_hat, persisting, rtol=1e-5, atol=1e-5)
    assert not np.allclose(answer.y_hat, knowing)


def test_locations_that_are_missing_at_the_origin_are_told() -> None:
    overlay = Overlay(make_city(11, "2015-09-25", 53).panel)
    assert _tell_missing(overlay, 52) is None
    found = _tell_missing(overlay.with_cells([(52, 3, None)], 1), 52)
    assert found == "data: 1 of 11 locations missing or not final at the origin"
