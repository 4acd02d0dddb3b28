"""SnapshotPredictor that nobody asked for: of the moment, and of origins that were missed."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from forecaster.errors import DataError
from forecaster.serve.forecasting import background
from forecaster.serve.forecasting.background import (
    MAX_RETRY_SECONDS,
    POLL_SECONDS,
    BackgroundForecasts,
)
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import Forecast
from forecaster.serve.problems import Problem
from tests.serve.conftest import HOURS, SettableClock

Look = Callable[[int], list[float]]


@pytest.fixture
def look(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Return a function that watches for some rounds, and returns the pauses between them."""
    own = BackgroundForecasts(engine)

    def rounds(count: int) -> list[float]:
        pauses: list[float] = []

        async def rest(_: object) -> None:
            pauses.append(own._pause_seconds)
            if len(pauses) == count:
                raise asyncio.CancelledError

        monkeypatch.setattr(own, "_pause", rest)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(own.run())
        return pauses

    return rounds


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "ACCURACY_HOURS", 7)
    monkeypatch.setattr(background, "QUIET_SECONDS", 0.0)


@pytest.mark.usefixtures("_few")
def test_a_step_that_is_over_is_forecast_unasked(engine: Engine, look: Look) -> None:
    assert look(1) == [POLL_SECONDS]
    assert engine.computed == 1
    assert list(engine.past_forecasts.recent(engine.model, HOURS, 1)) == [HOURS - 1]


@pytest.mark.usefixtures("_few")
def test_earlier_origins_are_made_up_for_once(
    engine: Engine, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    hindsight, asked = engine.predictor.predict_past, set[int]()

    def without_one(model: Any, snapshot: Any, origin: int) -> Forecast | None:
        asked.add(origin)
        if origin == HOURS - 4:
            raise DataError("too much is missing")
        return hindsight(model, snapshot, origin)

    monkeypatch.setattr(engine.predictor, "predict_past", without_one)
    look(2)
    made = [HOURS - 1 - n for n in range(7, 0, -1)]
    assert sorted(asked) == made
    assert list(engine.past_forecasts.recent(engine.model, HOURS - 1, 7)) == [
        origin for origin in made if origin != HOURS - 4
    ]
    asked.clear()
    look(2)
    assert not asked


@pytest.mark.usefixtures("_few")
def test_who_asks_comes_before_what_is_made_up_for(
    engine: Engine, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(1)
    engine.worker.pending += 1  # somebody waits
    look(1)
    engine.worker.pending -= 1
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)  # somebody has just asked
    look(1)
    assert len(engine.past_forecasts.missing_origins(engine.model, HOURS - 1, 7)) == 7
    engine.last_request -= 60.0
    look(1)
    assert engine.past_forecasts.missing_origins(engine.model, HOURS - 1, 7) == []


@pytest.mark.usefixtures("_few")
def test_late_data_is_forecast_from_unasked(engine: Engine, look: Look) -> None:
    look(1)
    engine.data.snapshot = engine.data.snapshot.with_observations([(HOURS - 2, 0, 500.0)], 1)
    look(1)
    assert engine.computed == 2


def test_a_model_that_keeps_failing_is_logged_once_and_tried_less_often(
    engine: Engine,
    look: Look,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(engine.predictor, "predict", fail)
    pauses = look(9)
    assert pauses == [min(POLL_SECONDS * 2**n, MAX_RETRY_SECONDS) for n in range(1, 10)]
    assert caplog.text.count("no forecast from") == 1
    assert "the model failed" in str(engine.why_not_ready())
    monkeypatch.undo()


def test_nothing_is_forecast_without_a_run_or_data(engine: Engine, look: Look) -> None:
    model, engine.loader.model = engine.loader.model, None
    assert look(1) == [POLL_SECONDS]
    engine.loader.model = model
    cells = [(step, n, None) for step in range(HOURS) for n in range(5)]
    engine.data.snapshot = engine.data.snapshot.with_observations(cells, 1)
    assert look(1) == [POLL_SECONDS]
    assert engine.computed == 0


def test_a_pause_ends_when_there_is_something_new(engine: Engine, clock: SettableClock) -> None:
    own = BackgroundForecasts(engine)
    own._pause_seconds = 3_600.0

    async def rest() -> None:
        task = asyncio.create_task(own._pause(own._newest_key()))
        await asyncio.sleep(0)
        clock.pass_hours(-1)
        await task

    began = time.monotonic()
    asyncio.run(rest())
    assert time.monotonic() - began < 60


@pytest.mark.usefixtures("_few")
def test_what_failed_of_another_run_is_forgotten_once_the_old_one_is_back(
    engine: Engine, look: Look
) -> None:
    look(1)
    engine.failure = "the model failed"
    look(1)
    assert engine.why_not_ready() is None


@pytest.mark.usefixtures("_few")
def test_being_busy_is_no_failure(
    engine: Engine, look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(*_: object) -> None:
        raise Problem(503, "busy", "ask again")

    monkeypatch.setattr(engine, "forecast", busy)
    look(1)
    assert engine.failure is None


def test_an_answer_that_is_there_already_disturbs_nothing(engine: Engine) -> None:
    asyncio.run(engine.forecast())
    before = engine.last_request
    asyncio.run(engine.forecast())
    assert engine.last_request == before
