"""A service that follows the current version of a folder of versions."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.artifact import load_run, save_run
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.service import RunVersions
from forecaster.versions import Versions
from tests.serve.conftest import Running

PATIENCE_SECONDS = 60.0


@pytest.fixture
def runs(run: Path, other_run: Path, tmp_path: Path) -> Versions:
    """Return two versions, of which the second is current."""
    versions = Versions.begin(tmp_path / "runs")
    versions.add(run)
    versions.add(other_run)
    return versions


@pytest.fixture
def following(
    runs: Versions, live: LiveData, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> Running:
    """Return a running service of these versions."""
    monkeypatch.setattr("forecaster.serve.forecasting.background.FOLLOW_SECONDS", 0.02)
    monkeypatch.setattr("forecaster.serve.forecasting.loader.RETRY_SECONDS", 0.1)
    versions = RunVersions(runs.folder)
    return start(Engine(versions.load_current, live, None, versions))


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def add_damaged(versions: Versions, run: Path, folder: Path) -> str:
    """Add a version whose weights were multiplied by a million; return its name."""
    loaded = load_run(run)
    arrays = {
        name: array * np.float32(1e6) if name == "weights" else array
        for name, array in loaded.arrays.items()
    }
    save_run(folder / "wild", replace(loaded, arrays=arrays))
    return versions.add(folder / "wild").name


@pytest.fixture
def clients(following: Running) -> Iterator[list[tuple[int, str | None]]]:
    """Ask without end; return what was answered."""
    ended, told = threading.Event(), []

    def ask() -> None:
        while not ended.is_set():
            reply = following.get("/v1/forecast")
            told.append((reply.status, reply.json.get("model")))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    yield told
    ended.set()
    for thread in threads:
        thread.join()


def test_V13_the_current_version_is_followed_there_and_back_without_an_error(
    following: Running, runs: Versions, clients: list[tuple[int, str | None]]
) -> None:
    digests = {name: RunVersions(runs.folder).load(name).digest for name in ("v0001", "v0002")}
    for name in ("v0001", "v0002", "v0001"):
        if runs.current != name:
            runs.promote(name)
        wait_until(lambda name=name: following.get("/v1/run").json["version"] == name)
        assert following.get("/v1/forecast").json["model"] == digests[name]
    runs.rollback()
    wait_until(lambda: following.get("/v1/run").json["version"] == "v0002")
    assert {status for status, _ in clients} == {200}
    assert {model for _, model in clients} == {*digests.values()}
    figures = following.get("/metrics").body.decode()
    assert f'forecaster_run{{model="{digests["v0002"]}",version="v0002"}} 1' in figures
    assert "forecaster_run_refused 0" in figures


def test_V13_a_version_that_fails_its_trial_does_not_answer_and_it_is_said(
    following: Running, runs: Versions, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = following.get("/v1/run").json
    name = add_damaged(runs, run, tmp_path)
    wait_until(lambda: following.get("/v1/run").json["refused"] is not None)
    told = following.get("/v1/run").json
    assert (told["version"], told["model"]) == ("v0002", before["model"])
    assert told["refused"]["version"] == name
    assert "its forecast on live data has a mean of" in told["refused"]["reason"]
    ready = following.get("/readyz")
    assert ready.status == 200
    assert ready.json["detail"].startswith(f"version {name} is not served since 2015-")
    assert "forecaster_run_refused 1" in following.get("/metrics").body.decode()
    time.sleep(0.5)  # retries
    assert caplog.text.count("not reloaded") == 1
    assert following.engine.loader.reloads["failed"] == 1
    runs.rollback()
    wait_until(lambda: following.get("/v1/run").json["refused"] is None)
    assert following.get("/v1/run").json["version"] == "v0002"


def test_V13_a_version_that_cannot_be_read_is_tried_again(
    following: Running, runs: Versions, other_run: Path, tmp_path: Path
) -> None:
    folder = add_copy(runs, other_run, tmp_path)
    wait_until(lambda: following.get("/v1/run").json["version"] == "v0003")
    runs.promote("v0001")
    wait_until(lambda: following.get("/v1/run").json["version"] == "v0001")
    folder.rename(tmp_path / "away")  # after its promotion, which verifies it
    runs._move("v0003", "promoted")
    wait_until(lambda: following.get("/v1/run").json["refused"] is not None)
    assert following.get("/v1/run").json["version"] == "v0001"
    (tmp_path / "away").rename(folder)
    wait_until(lambda: following.get("/v1/run").json["version"] == "v0003")


def add_copy(versions: Versions, run: Path, folder: Path) -> Path:
    """Add a run with the same forecasts and another hash; return the folder of its version."""
    loaded = load_run(run)
    save_run(folder / "again", replace(loaded, about={**loaded.about, "note": "again"}))
    return versions.add(folder / "again").folder


def test_a_folder_without_versions_and_a_plain_run_are_served_as_before(
    service: Running, panel: Panel
) -> None:
    told = service.get("/v1/run").json
    assert (told["version"], told["refused"], told["estimator"]) == (None, None, "Ridge")
    assert told["learned_until"] is not None
    assert told["learned_until"] < f"{panel.times[-1]}"


def test_the_folder_of_versions_may_be_away_for_a_while(
    following: Running, runs: Versions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs.folder.rename(tmp_path / "away")
    wait_until(lambda: "the current version cannot be read" in caplog.text)
    assert following.get("/v1/forecast").status == 200
    (tmp_path / "away").rename(runs.folder)
    runs.promote("v0001")
    wait_until(lambda: following.get("/v1/run").json["version"] == "v0001")
    assert caplog.text.count("cannot be read") == 1
