"""Forecasts are computed once each, and belong to one model and one state of the data."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ArtifactError
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.engine import Engine
from forecaster.serve.forecasts import UNADJUSTED
from forecaster.serve.live import Live, identify
from forecaster.serve.service import load_model
from forecaster.serve.store import Store
from forecaster.synthetic.city import make_city
from tests.serve.conftest import HOURS, Hands, Running, fit


def test_the_same_question_is_computed_once(engine: Engine) -> None:
    async def ask() -> None:
        await asyncio.gather(*(engine.forecast(HOURS - 5) for _ in range(7)))
        await engine.forecast(HOURS - 5)

    asyncio.run(ask())
    assert (engine.computed, engine.reused) == (1, 1)


def test_V9_a_short_history_is_not_ready(
    run: Path, panel: Panel, clock: Hands, start: Callable[..., Running]
) -> None:
    short = replace(panel, values=panel.values[-50:], start=panel.times[-50])
    short = replace(short, covariates=panel.covariates)
    live = Live(short, Store(None, identify(short)))
    service = start(Engine(partial(load_model, run), live, clock))
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "history_incomplete")
    for _ in range(100):
        ready = service.get("/readyz")
        if ready.status == 503:
            break
        time.sleep(0.02)
    assert "history" in ready.json["detail"]
    assert service.get("/livez").status == 200


def test_V9_a_run_that_cannot_be_loaded_is_never_served(
    tmp_path: Path, live: Live, clock: Hands
) -> None:
    with pytest.raises(ArtifactError):
        Engine(partial(load_model, tmp_path), live, clock)


def test_V9_before_any_data_nothing_is_forecast(service: Running) -> None:
    cells = [(step, n, None) for step in range(HOURS) for n in range(5)]
    service.engine.live.overlay = service.engine.overlay.with_cells(cells, 1)
    reply = service.get("/v1/forecast")
    assert (reply.status, reply.json["code"]) == (503, "no_data")
    assert service.get("/readyz").status == 503


def test_V13_a_bad_run_leaves_the_old_one(
    service: Running, run: Path, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    before, engine = service.get("/v1/forecast").json, service.engine
    files = [path for path in run.iterdir() if path.is_file()]
    generator = np.random.default_rng(0)
    for number in range(rounds(7, 30)):
        bad = copytree(run, tmp_path / f"bad-{number}")
        victim = bad / files[number % len(files)].name
        content = bytearray(victim.read_bytes())
        content[generator.integers(len(content))] ^= 0xFF
        victim.write_bytes(bytes(content))
        engine._load = partial(load_model, bad)
        asyncio.run(engine.reload())
        assert service.get("/v1/forecast").json["model"] == before["model"]
    assert engine.reloads == {"done": 0, "failed": rounds(7, 30)}
    assert "forecaster_reloads_failed_total" in service.get("/metrics").body.decode()


def test_V13_a_run_of_other_locations_leaves_the_old_one(
    service: Running, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_city(3, "2015-09-25", HOURS).panel
    service.engine._load = partial(load_model, fit(other, 0, tmp_path / "other"))
    asyncio.run(service.engine.reload())
    assert service.engine.reloads == {"done": 0, "failed": 1}
    assert "stays" in caplog.text


def test_V14_a_model_that_fails_is_told_by_an_id(
    service: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: out of everything")

    service.get("/v1/forecast")
    monkeypatch.setattr(service.engine._forecasts, "answer", fail)
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
    service.engine.worker.seconds = 0.5
    monkeypatch.setattr(service.engine._forecasts, "answer", lambda *_: gate.wait(20))
    reply = service.get(f"/v1/forecast?at={panel.times[-9]}Z")
    monkeypatch.undo()
    service.engine.worker.seconds = 10.0
    assert (reply.status, reply.json["code"]) == (504, "too_slow")
    assert service.get(f"/v1/forecast?at={panel.times[-9]}Z").status == 200
    assert service.engine.worker.replaced == 1
    gate.set()


ORIGINS = [HOURS - 1 - n for n in range(0, 40, 3)]


class Crowd:
    """Clients that ask without end, while the run is reloaded and late data comes."""

    def __init__(self, service: Running, panel: Panel, runs: tuple[Path, Path]) -> None:
        self.service, self.panel, self.runs = service, panel, runs
        self.states = {0: service.engine.overlay}  # by version
        self.replies: list[dict[str, Any]] = []
        self.ended = threading.Event()

    def ask(self, seed: int, count: int) -> None:
        generator, last = np.random.default_rng(seed), -1
        for _ in range(count):
            at = f"?at={self.panel.times[generator.choice(ORIGINS)]}Z"
            reply = self.service.get("/v1/forecast" + (at if generator.random() < 0.8 else ""))
            assert reply.status == 200
            assert reply.json["data_version"] >= last  # per client, versions never go back
            last = reply.json["data_version"]
            self.replies.append(reply.json)

    def disturb(self) -> None:
        engine, number = self.service.engine, 0
        while not self.ended.wait(0.4):
            number += 1
            engine._load = partial(load_model, self.runs[number % 2])
            asyncio.run_coroutine_threadsafe(engine.reload(), self.service.loop).result()
            ds = f"{self.panel.times[HOURS - 1 - number % 45]}Z"
            row = {"location": self.panel.locations.ids[0], "ds": ds, "value": 7 + number % 97}
            version = self.service.post("/v1/observations", {"observations": [row]}).json
            self.states[version["data_version"]] = engine.overlay


def test_V8_answers_under_reloads_and_writes_are_those_of_their_state(
    service: Running,
    panel: Panel,
    run: Path,
    other_run: Path,
    rounds: Callable[[int, int], int],
) -> None:
    crowd, count = Crowd(service, panel, (run, other_run)), rounds(25, 12_500)
    threads = [threading.Thread(target=crowd.ask, args=(seed, count)) for seed in range(8)]
    disturbing = threading.Thread(target=crowd.disturb)
    for thread in (*threads, disturbing):
        thread.start()
    for thread in threads:
        thread.join()
    crowd.ended.set()
    disturbing.join()
    assert len(crowd.replies) == 8 * count
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
    monkeypatch.setattr("forecaster.serve.track.VALUES_AT_ONCE", 5 * 7)  # seven origins
    monkeypatch.setattr("forecaster.serve.engine.PREPARE_SECONDS", -1.0)
    answers = [asyncio.run(engine.forecast(HOURS - 2))[0] for _ in range(150)]
    first, last = answers[0], answers[-1]
    assert (first.degraded, last.degraded) == (UNADJUSTED, None)
    assert np.array_equal(first.y_hat, last.y_hat)
    estimator, origin = load_estimator(run), np.array([HOURS - 2])
    static = estimator.predict_quantiles(panel, origin, online=False)[0]
    assert np.allclose(first.quantiles, static)
    assert not np.allclose(last.quantiles, static)
