"""SnapshotPredictor are computed once each, and belong to one model and one state of the data."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import ACCURACY_HOURS, Engine
from forecaster.serve.forecasting.predictor import UNADJUSTED
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS, Running, SettableClock


def test_the_same_question_is_computed_once(engine: Engine) -> None:
    async def ask() -> None:
        await asyncio.gather(*(engine.forecast(HOURS - 5) for _ in range(7)))
        await engine.forecast(HOURS - 5)

    asyncio.run(ask())
    assert (engine.computed, engine.reused) == (1, 1)


def test_final_and_provisional_forecasts_share_one_deadline(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, deadlines = engine.worker.run, list[float | None]()

    async def noted(job: Callable[[], Any], ends: float | None = None) -> Any:
        deadlines.append(ends)
        return await run(job, ends)

    monkeypatch.setattr("forecaster.serve.forecasting.engine.PREPARE_SECONDS", -1.0)
    monkeypatch.setattr(engine.predictor, "predict", lambda *_: None)
    monkeypatch.setattr(engine.worker, "run", noted)
    answer, _ = asyncio.run(engine.forecast())
    assert answer.provisional
    assert len(deadlines) == 2
    assert deadlines[0] == deadlines[1] is not None


def test_data_that_has_changed_meanwhile_is_forecast_from_provisionally(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = engine.data.snapshot

    def unfinished(*_: object) -> None:
        engine.data.snapshot = began.with_observations([(HOURS - 2, 0, 7.0)], 1)

    monkeypatch.setattr(engine.predictor, "predict", unfinished)
    answer, _ = asyncio.run(engine.forecast())
    assert (answer.provisional, answer.key.version) == (True, 0)


def test_V9_a_short_history_is_not_ready(
    run: Path, panel: Panel, clock: SettableClock, start: Callable[..., Running]
) -> None:
    short = replace(panel, values=panel.values[-50:], start=panel.times[-50])
    short = replace(short, covariates=panel.covariates)
    live = LiveData(short, Store(None, panel_digest(short)), clock)
    service = start(Engine(partial(load_model, run), live))
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "history_incomplete")
    for _ in range(100):
        ready = service.get("/readyz")
        if ready.status == 503:
            break
        time.sleep(0.02)
    assert "history" in ready.json["detail"]
    assert service.get("/livez").status == 200


def test_V14_a_model_that_fails_is_told_by_an_id(
    service: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: out of everything")

    service.get("/v1/forecast")
    monkeypatch.setattr(service.engine.predictor, "predict", fail)
    reply = service.get(f"/v1/forecast?at={panel.times[-9]}Z")
    assert (reply.status, reply.json["code"]) == (503, "model_failed")
    assert b"CUDA" not in reply.body
    assert service.get("/v1/forecast").status == 200  # which was computed before
    monkeypatch.undo()
    assert service.get(f"/v1/forecast?at={panel.times[-9]}Z").status == 200


def test_V14_a_model_that_hangs_is_left_behind(
    service: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    service.get("/v1/forecast")
    service.engine.worker.seconds = 1.0
    monkeypatch.setattr(service.engine.predictor, "predict", lambda *_: gate.wait(20))
    reply = service.get(f"/v1/forecast?at={panel.times[-9]}Z")
    monkeypatch.undo()
    service.engine.worker.seconds = 10.0
    assert (reply.status, reply.json["code"]) == (504, "too_slow")
    assert service.get(f"/v1/forecast?at={panel.times[-9]}Z").status == 200
    assert service.engine.worker.replaced == 1
    gate.set()


ORIGINS = [HOURS - 1 - n for n in range(0, 40, 9)]


class Crowd:
    """Clients that ask without end, while the run is reloaded and late data comes."""

    def __init__(self, service: Running, panel: Panel, runs: tuple[Path, Path]) -> None:
        self.service, self.panel, self.runs = service, panel, runs
        self.states = {0: service.engine.data.snapshot}  # by version
        self.replies: list[dict[str, Any]] = []
        self.pause, self.disturbed = 0.1, 0  # seconds between two disturbances, how many
        self.ended = threading.Event()

    def ask(self, seed: int, count: int) -> None:
        generator, last = np.random.default_rng(seed), -1
        while count > 0 or self.disturbed < 4:
            count -= 1
            at = f"?at={self.panel.times[generator.choice(ORIGINS)]}Z"
            reply = self.service.get("/v1/forecast" + (at if generator.random() < 0.8 else ""))
            assert reply.status == 200
            assert reply.json["data_version"] >= last  # per client, versions never go back
            last = reply.json["data_version"]
            self.replies.append(reply.json)

    def disturb(self) -> None:
        engine = self.service.engine
        while not self.ended.wait(self.pause):
            number = self.disturbed + 1
            engine.loader.load = partial(load_model, self.runs[number % 2])
            asyncio.run_coroutine_threadsafe(engine.loader.reload(), self.service.loop).result()
            ds = f"{self.panel.times[HOURS - 1 - number % 45]}Z"
            row = {"location": self.panel.locations.ids[0], "ds": ds, "value": 7 + number % 97}
            version = self.service.post("/v1/observations", {"observations": [row]}).json
            self.states[version["data_version"]] = engine.data.snapshot
            self.disturbed = number


@pytest.mark.slow
def test_V8_answers_under_reloads_and_writes_are_those_of_their_state(
    service: Running,
    panel: Panel,
    run: Path,
    other_run: Path,
    rounds: Callable[[int, int], int],
) -> None:
    crowd, count = Crowd(service, panel, (run, other_run)), rounds(13, 12_500)
    crowd.pause *= rounds(1, 40)  # every state is computed offline, which takes long
    threads = [threading.Thread(target=crowd.ask, args=(seed, count)) for seed in range(8)]
    disturbing = threading.Thread(target=crowd.disturb)
    for thread in (*threads, disturbing):
        thread.start()
    for thread in threads:
        thread.join()
    crowd.ended.set()
    disturbing.join()
    assert len(crowd.replies) >= 8 * count
    assert len({reply["model"] for reply in crowd.replies}) == 2
    assert len({reply["data_version"] for reply in crowd.replies}) > 2
    models = {str(e.run.digest)[:12]: e for e in map(load_estimator, (run, other_run))}
    known: dict[tuple[str, int, str], pd.DataFrame] = {}
    for reply in crowd.replies:
        key = reply["model"], reply["data_version"], reply["origin"]
        if key not in known:
            part = crowd.states[key[1]].panel(0, HOURS, HOURS + 3)
            known[key] = models[key[0]].forecast(part, key[2])
        names = ("y_hat",) if reply["degraded"] == UNADJUSTED else ("y_hat", "q10", "q90")
        for name in names:
            given = np.ravel([row[name] for row in reply["forecasts"]])
            assert np.allclose(given, known[key][name], rtol=1e-5, atol=1e-5)


def test_a_past_that_needs_long_is_told_without_adjusted_intervals_first(
    engine: Engine, panel: Panel, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "forecaster.serve.forecasting.predictor.VALUES_AT_ONCE", 5 * 7
    )  # seven origins
    monkeypatch.setattr("forecaster.serve.forecasting.engine.PREPARE_SECONDS", -1.0)
    answers = [asyncio.run(engine.forecast(HOURS - 2))[0] for _ in range(150)]
    first, last = answers[0], answers[-1]
    assert (first.degraded, last.degraded) == (UNADJUSTED, None)
    assert np.array_equal(first.y_hat, last.y_hat)
    estimator, origin = load_estimator(run), np.array([HOURS - 2])
    static = estimator.predict_quantiles(panel, origin, online=False)[0]
    assert np.allclose(first.quantiles, static)
    assert not np.allclose(last.quantiles, static)


def test_an_explanation_is_of_the_data_it_began_with(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, explained = engine.data.snapshot, list[Snapshot]()

    async def change(*_: object) -> Any:
        engine.data.snapshot = began.with_observations([(HOURS - 1, 0, 500.0)], 1)
        return await forecast(*_)

    forecast = engine._forecast
    monkeypatch.setattr(engine, "_forecast", change)
    monkeypatch.setattr(
        "forecaster.serve.forecasting.engine.explain_location",
        lambda _, snapshot, *__: explained.append(snapshot) or {},
    )
    answer, _, _ = asyncio.run(engine.explain("any", None))
    assert (answer.key.version, explained) == (0, [began])


def test_the_ledger_holds_all_origins_of_short_steps(
    run: Path, panel: Panel, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for check in (
        "_refuse_incompatible",
        "_find_fault",
    ):  # the run is of hours; none is forecast here
        monkeypatch.setattr(f"forecaster.serve.forecasting.loader.{check}", lambda *_: None)
    short = replace(panel, clock=replace(panel.clock, step_minutes=5))
    live = LiveData(short, Store(None, panel_digest(short)), clock)
    engine = Engine(partial(load_model, run), live)
    steps = engine.data.count_steps(ACCURACY_HOURS)
    for origin in engine.past_forecasts.missing_origins(engine.model, 5_000, steps):
        engine.past_forecasts.skip(engine.model, origin)
    assert steps == 2_016
    assert engine.past_forecasts.missing_origins(engine.model, 5_000, steps) == []
    engine.close()
