"""The long campaigns: load, soak, slow clients. `make torture` runs them."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.baselines.ridge import Ridge
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.http.server import MAX_CONNECTIONS
from forecaster.splits import Splits
from forecaster.versions import Versions
from tests.serve.client import Reply
from tests.serve.conftest import LAGS
from tests.serve.load import resident, run_load
from tests.serve.processes import ServiceProcess, ServiceProcesses

FLOOD_SECONDS = float(os.environ.get("FLOOD_SECONDS", "600"))
SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "7200"))
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _only_in_torture(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--torture"):
        pytest.skip("takes minutes; make torture runs it")


@pytest.fixture
def panel_folder(panel: Panel, tmp_path: Path) -> Path:
    panel.save(tmp_path / "panel")
    return tmp_path / "panel"


@pytest.fixture
def child(run: Path, panel_folder: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    services = ServiceProcesses(run, panel_folder, tmp_path)
    made = services.start(tmp_path / "store.sqlite")
    yield made
    made.end(9)
    services.close()


def test_V7_ten_times_the_capacity_is_refused_in_part_and_harms_nothing(
    run: Path, panel_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = run_load(run, panel_folder, 10.0, FLOOD_SECONDS)
    with capsys.disabled():
        print(f"\nload: {figures}")  # noqa: T201 (docs/reliability.md quotes it)
    assert figures["calm_errors"] == 0
    assert figures["flood_refused"] > 0
    assert figures["flood_goodput_of_C"] > 0
    assert figures["again_errors"] == 0
    assert figures["flood_memory"] < 1.2


def run_command(*words: str | Path) -> None:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "forecaster", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass
class Town:
    """A service of a folder of versions, whose panel and current run change while it answers."""

    folder: Path
    panel: Panel
    days: int = 0  # appended so far

    def append_a_day(self) -> None:
        """Append a day to the panel, and update the run."""
        T, day = len(self.panel.values), self.days + 1
        values = np.random.default_rng(day).poisson(20, (24, len(self.panel.locations)))
        hours = self.panel.instants(np.arange(T + 24 * self.days, T + 24 * day))
        table = pd.DataFrame(values, columns=self.panel.locations.ids)
        table.insert(0, "time", [f"{hour}Z" for hour in hours])
        table.to_csv(self.folder / "day.csv", index=False)
        run_command("append", self.folder / "panel", self.folder / "day.csv")
        run_command(
            "update", self.folder / "runs", "--panel", self.folder / "panel", "--promote", "always"
        )
        self.days = day


@pytest.fixture
def town(tmp_path: Path) -> Town:
    """Return twelve weeks of a town, and a run of them."""
    hours = pd.date_range("2022-06-01", periods=24 * 84, freq="h", tz="Europe/Berlin")
    usual = 20 + 10 * np.sin(np.arange(24 * 84) * np.pi / 12)[:, None] * np.ones(5)
    values = np.random.default_rng(3).poisson(usual)
    table = pd.DataFrame(values, columns=[f"place {n}" for n in range(5)])
    table.insert(0, "time", hours.map(pd.Timestamp.isoformat))
    table.to_csv(tmp_path / "old.csv", index=False)
    run_command(
        "ingest", "table", tmp_path / "old.csv", "--timezone", "Europe/Berlin", "--kind", "count",
        "--out", tmp_path / "panel",
    )  # fmt: skip
    panel = Panel.open(tmp_path / "panel")
    splits = Splits.by_share(panel, validation=0.15, test=0.25)
    Ridge(Recipe(lags=LAGS)).fit(panel, splits).save(tmp_path / "run")
    Versions.begin(tmp_path / "runs").add(tmp_path / "run")
    return Town(tmp_path, panel)


class Answers:
    """What a service has answered, to be compared with forecasts made offline."""

    def __init__(self, panel: Panel) -> None:
        self._snapshot = Snapshot(panel)
        self._states = {0: self._snapshot}  # by data version
        self._told: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
        self.count = self.forecasts = 0  # answers, different ones

    def write(self, step: int, column: int, value: float, version: int) -> None:
        """Remember the state after a write."""
        self._snapshot = self._snapshot.with_observations([(step, column, value)], version)
        self._states[version] = self._snapshot

    def add(self, reply: Reply) -> None:
        """Remember an answer; of one model, data and origin all are equal."""
        assert reply.status in {200, 503}, reply
        if reply.status == 200:
            content = reply.json
            key = content["model"], content["data_version"], content["origin"]
            numbers = content["forecasts"]
            if not content["degraded"]:
                assert self._told.setdefault(key, numbers) == numbers
                self.count += 1

    def verify(self, runs: Path) -> None:
        """Compare all since the last time with offline forecasts."""
        loaded = map(load_estimator, (one.folder for one in Versions(runs).entries()))
        estimators = {str(one.run.digest)[:12]: one for one in loaded if one.run is not None}
        T = len(self._snapshot.base.values)
        for (model, version, origin), numbers in self._told.items():
            panel = self._states[version].panel(0, T, T + LAGS.horizon)
            offline = estimators[model].forecast(panel, origin)
            for name in ("y_hat", "q10", "q90"):
                told = np.ravel([row[name] for row in numbers])
                assert np.allclose(told, offline[name], rtol=1e-5, atol=1e-5), (model, version)
        self.forecasts += len(self._told)
        self._told, self._states = {}, {max(self._states): self._snapshot}


def test_V18_memory_and_descriptors_stay_and_no_answer_is_wrong(
    town: Town, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    services = ServiceProcesses(tmp_path / "runs", tmp_path / "panel", tmp_path)
    child, answers = services.start(tmp_path / "store.sqlite"), Answers(town.panel)
    times, ids = town.panel.times, town.panel.locations.ids

    def held() -> tuple[int, int]:
        return resident(child.pid), len(list(Path(f"/proc/{child.pid}/fd").iterdir()))

    def write(n: int) -> None:
        step, column, value = len(times) - 1 - n % 200, n % 5, float(n % 53)
        row = {"location": ids[column], "value": value, "ds": f"{times[step]}Z"}
        reply = child.post("/v1/observations", {"observations": [row]})
        assert reply.status == 200, reply
        answers.write(step, column, value, reply.json["data_version"])

    def live(seconds: float) -> int:
        ends, n = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            n += 1
            write(n)
            for path in (f"/v1/forecast?at={times[-1 - n % 5]}Z", "/v1/forecast") * 15:
                answers.add(child.get(path))
            assert child.get("/v1/accuracy").status in {200, 503}
            if n % 100 == 0:
                child.end(signal.SIGHUP)  # it loads the run again
            if n % 200 == 0:
                town.append_a_day()  # the service takes up the new version
                answers.verify(tmp_path / "runs")
        return 32 * n

    live(SOAK_SECONDS / 4)
    before = held()
    sent, after = live(SOAK_SECONDS), held()
    answers.verify(tmp_path / "runs")
    child.end(signal.SIGKILL)
    services.close()
    grown = after[0] - before[0]
    with capsys.disabled():
        share = 100 * grown / before[0]
        print(  # noqa: T201 (docs/reliability.md quotes it)
            f"\nsoak: {sent} requests in {SOAK_SECONDS:g} s, {town.days} appends and updates, "
            f"{answers.count} answers and {answers.forecasts} different ones equal to offline "
            f"forecasts, {grown / (1 << 20):+.1f} MiB ({share:+.2f} %), "
            f"{after[1] - before[1]:+} descriptors"
        )
    assert share < 2
    assert abs(after[1] - before[1]) <= 2


def ask_calmly(child: ServiceProcess, seconds: float) -> str:
    """Ask fifty times a second, and return how long it took as text for docs/reliability.md."""
    took, ends = [], time.monotonic() + seconds
    while (began := time.monotonic()) < ends:
        assert child.get("/v1/forecast").status == 200
        took.append(time.monotonic() - began)
        time.sleep(max(0.02 - took[-1], 0.0))
    median, p99 = 1e3 * np.percentile(took, [50, 99])
    return f"{len(took)} good requests, median {median:.1f} ms, p99 {p99:.1f} ms"


def open_many(child: ServiceProcess, count: int, stack: ExitStack) -> list[socket.socket]:
    where = "127.0.0.1", int(child.port)
    return [stack.enter_context(socket.create_connection(where, 20)) for _ in range(count)]


def test_V6_a_thousand_slow_sockets_are_closed_and_others_served(
    child: ServiceProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    told = [ask_calmly(child, 5.0)]
    with ExitStack() as stack:
        slow = open_many(child, 1_000, stack)
        for peer in slow:
            peer.sendall(b"GET / HTTP/1.1\r\nX-")
        told.append(ask_calmly(child, 11.0))
        closed = [peer for peer in slow if peer.recv(4096).startswith(b"HTTP/1.1 408")]
    with capsys.disabled():
        print(f"\nslow sockets, before and beside: {told}")  # noqa: T201 (as above)
    assert len(closed) == 1_000


@pytest.fixture
def files() -> Iterator[int]:
    """Return how many files may be open, as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_V7_ten_thousand_silent_connections_keep_nobody_out(
    child: ServiceProcess, files: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before, told = resident(child.pid), [ask_calmly(child, 3.0)]
    count = min(MAX_CONNECTIONS + 500, files - 500)  # the oldest must make room
    with ExitStack() as stack:
        open_many(child, count, stack)
        grown = resident(child.pid) - before
        told.append(ask_calmly(child, 3.0))
    with capsys.disabled():
        print(f"\n{count} connections, {grown >> 20} MiB more, before and beside: {told}")  # noqa: T201
    assert grown < 50_000 * count
    assert child.get("/readyz").status == 200
