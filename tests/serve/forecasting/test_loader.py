"""A bad run never replaces a good one, and a service without any says so."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from forecaster.errors import ArtifactError, DataError
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.serve.data.live import LiveData, panel_digest
from forecaster.serve.data.store import Store
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.service import load_model
from forecaster.synthetic.city import make_city
from tests.serve.conftest import HOURS, Running, SettableClock, fit


def spoil(run: Path, number: int, folder: Path) -> Path:
    """Return a copy of a run with one byte changed."""
    generator = np.random.default_rng(number)
    bad = copytree(run, folder / f"bad-{number}")
    files = sorted(path for path in bad.iterdir() if path.is_file())
    victim = files[number % len(files)]
    content = bytearray(victim.read_bytes())
    content[generator.integers(len(content))] ^= 0xFF
    victim.write_bytes(bytes(content))
    return bad


def test_V9_a_service_without_a_run_is_alive_and_says_what_is_wrong(
    run: Path,
    live: LiveData,
    tmp_path: Path,
    start: Callable[..., Running],
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = spoil(run, 0, tmp_path)
    service = start(Engine(partial(load_model, bad), live))
    assert (service.get("/livez").status, service.get("/readyz").status) == (200, 503)
    assert service.get("/readyz").json["detail"] == "no run is loaded; see the service's log"
    assert str(bad) in caplog.text
    for path in ("forecast", "locations", "graph", "accuracy"):
        reply = service.get(f"/v1/{path}")
        assert (reply.status, reply.json["code"]) == (503, "no_model")
    figures = service.get("/metrics").body.decode()
    assert "forecaster_ready 0.0" in figures
    assert "forecaster_run{" not in figures


def test_V9_a_run_that_was_mended_is_loaded(
    run: Path, live: LiveData, tmp_path: Path, start: Callable[..., Running]
) -> None:
    service = start(Engine(partial(load_model, spoil(run, 0, tmp_path)), live))
    service.engine.loader.load = partial(load_model, run)
    asyncio.run(service.engine.loader.reload())
    assert service.get("/v1/forecast").status == 200
    assert service.engine.loader.reloads == {"done": 1, "failed": 0}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (lambda one: one.select(one.locations.ids[:2]), "the run has 5 locations, the panel 2"),
        (lambda one: replace(one, kind="measurement"), "kind: the run has 'count', the panel"),
        (
            lambda one: replace(one, clock=replace(one.clock, step_minutes=30)),
            "step: the run has 60, the panel 30",
        ),
        (
            lambda one: replace(one, covariates=Covariates((), one.covariates.values[:, :0])),
            "the panel lacks the covariates",
        ),
    ],
    ids=["locations", "kind", "step", "covariates"],
)
def test_a_run_of_another_panel_is_refused_at_the_start(
    run: Path, panel: Panel, clock: SettableClock, other: Callable[[Panel], Panel], why: str
) -> None:
    unlike = other(panel)
    live = LiveData(unlike, Store(None, panel_digest(unlike)), clock)
    with pytest.raises(ArtifactError, match=f"(?s){why}.*serve the panel that it was trained on"):
        Engine(partial(load_model, run), live)
    live.close()


def test_V13_a_bad_run_leaves_the_old_one(
    service: Running, run: Path, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    loader, ended = service.engine.loader, threading.Event()
    told: list[tuple[int, str]] = []

    def ask() -> None:
        while not ended.is_set():
            reply = service.get("/v1/forecast")
            told.append((reply.status, reply.json["model"]))

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(rounds(7, 30)):
        loader.load = partial(load_model, spoil(run, number, tmp_path))
        asyncio.run(loader.reload())
    ended.set()
    asking.join()
    assert set(told) == {(200, service.engine.model.digest)}
    assert loader.reloads == {"done": 0, "failed": rounds(7, 30)}
    failed = f'forecaster_reloads_total{{outcome="failed"}} {rounds(7, 30)}.0'
    assert failed in service.get("/metrics").body.decode()


def test_V13_a_run_of_other_locations_leaves_the_old_one(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, other = engine.model, make_city(3, "2015-09-25", HOURS).panel
    engine.loader.load = partial(load_model, fit(other, 0, tmp_path / "other"))
    asyncio.run(engine.loader.reload())
    assert (engine.model, engine.loader.reloads) == (before, {"done": 0, "failed": 1})
    assert f"run {before.digest} stays" in caplog.text
    assert "the run has 3 locations, the panel 5" in caplog.text


def test_V13_a_run_that_needs_more_history_leaves_the_old_one(
    engine: Engine, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise DataError("history too short")

    def load() -> ServedModel:
        model = load_model(run)
        monkeypatch.setattr(model.estimator, "predictor", refuse)
        return model

    before, loader = engine.model, engine.loader
    loader.load = load
    asyncio.run(loader.reload())
    assert (engine.model, loader.reloads) == (before, {"done": 0, "failed": 1})
    monkeypatch.setattr(before.estimator, "predictor", refuse)
    asyncio.run(loader.reload())  # the live one cannot forecast either
    assert loader.reloads == {"done": 1, "failed": 1}


def test_V13_whatever_a_run_raises_is_counted_and_one_is_loaded_at_a_time(engine: Engine) -> None:
    loading: list[int] = []

    def load() -> ServedModel:
        loading.append(1)
        assert len(loading) == 1
        time.sleep(0.01)
        loading.pop()
        raise RuntimeError("invalid name, size or hash")

    async def reload_often() -> None:
        await asyncio.gather(*(engine.loader.reload() for _ in range(3)))

    engine.loader.load = load
    asyncio.run(reload_often())
    assert (loading, engine.loader.reloads) == ([], {"done": 0, "failed": 3})
