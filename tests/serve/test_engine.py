"""Forecasts are computed once each, and belong to one model and one state of the data."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ArtifactError, DataError
from forecaster.estimators.question import refuse_unknown_future
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.serve.answer import Model, cut
from forecaster.serve.engine import ACCURACY_HOURS, Engine, _explain
from forecaster.serve.forecasts import UNADJUSTED
from forecaster.serve.live import Live, identify
from forecaster.serve.overlay import Overlay
from forecaster.serve.service import load_model
from forecaster.serve.store import Store
from forecaster.synthetic.city import make_city
from tests.serve.conftest import HOURS, Hands, Running, fit


def test_the_same_question_is_computed_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecaster.serve.engine.PREPARE_SECONDS", 10.0)

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


def without_weather_ahead(panel: Panel) -> Panel:
    """Return the panel with covariates that are unknown from two hours before its end."""
    own, world = panel.local_covariates, panel.covariates.values[:HOURS].copy()
    world[-2:] = np.nan
    return replace(
        panel,
        covariates=replace(panel.covariates, values=world),
        local_covariates=replace(own, values=own.values[:, :HOURS]),
    )


def test_an_explanation_needs_no_weather_ahead(
    run: Path, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Panel] = []

    def explain(_: object, part: Panel, *__: object) -> Any:
        seen.append(part)
        return SimpleNamespace(to_dict=dict)

    module = SimpleNamespace(explain=explain)  # whose import takes seconds
    monkeypatch.setitem(sys.modules, "forecaster.evaluation.explain", module)
    blind = without_weather_ahead(panel)
    model, overlay = load_model(run), Overlay(blind)
    _explain(model, overlay, HOURS - 1, panel.locations.ids[0])
    refuse_unknown_future(seen[0], len(seen[0].values) - 1, 3)  # nothing is unknown any more
    part, own = cut(model, overlay, HOURS - 1)
    origins = np.array([own])
    told = model.estimator.predict(part, origins, "persist")
    assert np.array_equal(model.estimator.predict(seen[0], origins, "observed"), told)


def test_V13_a_run_that_needs_more_history_leaves_the_old_one(
    engine: Engine, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise DataError("history too short")

    def load() -> Model:
        model = load_model(run)
        monkeypatch.setattr(model.estimator, "predict", refuse)
        return model

    before, engine._load = engine.model, load
    asyncio.run(engine.reload())
    assert (engine.model, engine.reloads) == (before, {"done": 0, "failed": 1})
    monkeypatch.setattr(before.estimator, "predict", refuse)
    asyncio.run(engine.reload())  # the present one cannot forecast either
    assert engine.reloads == {"done": 1, "failed": 1}


def test_V13_whatever_a_run_raises_is_counted_and_one_is_loaded_at_a_time(engine: Engine) -> None:
    loading: list[int] = []

    def load() -> Model:
        loading.append(1)
        assert len(loading) == 1
        time.sleep(0.01)
        loading.pop()
        raise RuntimeError("not one of ours")

    async def reload_often() -> None:
        await asyncio.gather(*(engine.reload() for _ in range(3)))

    engine._load = load
    asyncio.run(reload_often())
    assert (loading, engine.reloads) == ([], {"done": 0, "failed": 3})


def test_the_ledger_holds_all_origins_of_short_steps(
    run: Path, panel: Panel, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "_loaded", lambda *_: load_model(run))
    short = replace(panel, clock=replace(panel.clock, step_minutes=5))
    engine = Engine(partial(load_model, run), Live(short, Store(None, identify(short))), clock)
    steps = engine._count_steps(ACCURACY_HOURS)
    for origin in engine.ledger.lacking(engine.model, 5_000, steps):
        engine.ledger.skip(engine.model, origin)
    assert steps == 2_016
    assert engine.ledger.lacking(engine.model, 5_000, steps) == []
    engine.close()


def test_the_age_of_data_is_that_of_the_state_asked_for(engine: Engine) -> None:
    before = engine.overlay
    cells = [(HOURS - 1, n, None) for n in range(5)]
    engine.live.overlay = before.with_cells(cells, 1)
    assert engine.feed().newest == HOURS - 2
    assert engine.feed(before).newest == HOURS - 1


def test_an_explanation_is_of_the_data_it_began_with(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, explained = engine.overlay, list[Overlay]()

    async def change(*_: object) -> Any:
        engine.live.overlay = began.with_cells([(HOURS - 1, 0, 500.0)], 1)
        return await forecast(*_)

    forecast = engine._forecast
    monkeypatch.setattr(engine, "_forecast", change)
    monkeypatch.setattr(
        "forecaster.serve.engine._explain", lambda _, overlay, *__: explained.append(overlay) or {}
    )
    answer, _, _ = asyncio.run(engine.explain("any", None))
    assert (answer.key.version, explained) == (0, [began])


def test_a_model_that_keeps_failing_is_logged_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[float] = []

    def fail(*_: object) -> None:
        asked.append(time.monotonic())
        raise RuntimeError("a fault")

    async def watch() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.watch(), 1.0)

    monkeypatch.setattr(engine._forecasts, "answer", fail)
    monkeypatch.setattr("forecaster.serve.engine.WATCH_SECONDS", 0.01)
    asyncio.run(watch())
    assert 2 <= len(asked) <= 8  # 0.02 s, 0.04 s, … later
    assert caplog.text.count("no forecast from") == 1
