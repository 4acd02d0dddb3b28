"""Answers from the data of a moment: final, provisional and in hindsight."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.estimators.forecast_inputs import ForecastInputs
from forecaster.estimators.training_data import Arrays
from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Key, Model
from forecaster.serve.forecasting.predictor import UNADJUSTED, Forecasts, _tell_missing
from forecaster.serve.service import load_model
from forecaster.synthetic.city import make_city
from tests.serve.conftest import HOURS


@pytest.fixture
def model(run: Path) -> Model:
    return load_model(run)


def test_a_provisional_answer_differs_in_its_intervals_alone_and_says_so(
    model: Model, panel: Panel
) -> None:
    forecasts, overlay = Forecasts(), Overlay(panel)
    first = forecasts.provisional(model, overlay, HOURS - 1)
    while (final := forecasts.answer(model, overlay, HOURS - 1)) is None:
        pass
    assert first is not None
    assert (first.provisional, first.degraded) == (True, UNADJUSTED)
    assert (final.provisional, final.degraded) == (False, None)
    assert np.allclose(first.y_hat, final.y_hat, rtol=1e-5)
    assert not np.allclose(first.quantiles, final.quantiles)


def test_a_provisional_answer_asks_the_model_once(
    model: Model, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    answer = model.estimator.predict_windows

    def count(arrays: Arrays, question: ForecastInputs) -> np.ndarray:
        asked.append(len(question.origins))
        return answer(arrays, question)

    monkeypatch.setattr(model.estimator, "predict_windows", count)
    assert Forecasts().provisional(model, Overlay(panel), HOURS - 1) is not None
    assert asked == [1]


def test_an_answer_says_what_it_belongs_to(model: Model, panel: Panel) -> None:
    overlay = Overlay(panel).with_cells([(HOURS - 3, 2, 7.0)], 11)
    answer = Forecasts().provisional(model, overlay, HOURS - 2)
    assert answer is not None
    assert answer.key == Key(model.digest, 11, HOURS - 2)
    assert answer.origin == panel.times[HOURS - 2]
    assert answer.y_hat.shape == (3, 5)
    assert answer.quantiles.shape == (3, 3, 5)
    assert np.array_equal(answer.last, panel.values[HOURS - 2])


def test_a_history_with_holes_is_refused(model: Model, panel: Panel) -> None:
    cells = [(HOURS - back, n, None) for back in (23, 24, 25) for n in range(5)]
    overlay = Overlay(panel).with_cells(cells, 1)
    for how in (Forecasts().answer, Forecasts().provisional, Forecasts().in_hindsight):
        with pytest.raises(DataError, match="history"):
            how(model, overlay, HOURS - 1)


def test_without_weather_ahead_that_of_the_origin_stays(model: Model, panel: Panel) -> None:
    values = panel.covariates.values.copy()
    values[HOURS:] = np.nan
    blind = replace(panel, covariates=replace(panel.covariates, values=values))
    answer = Forecasts().provisional(model, Overlay(blind), HOURS - 1)
    assert answer is not None
    assert str(answer.degraded).startswith("weather:")
    persisting = model.estimator.predict(panel, np.array([HOURS - 1]), "persist")[0]
    assert np.allclose(answer.y_hat, persisting, rtol=1e-5)


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
