"""Drives the service in processes of its own: killed, stopped, reloaded, and by the command."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from forecaster.estimators.baselines.naive import LastValue
from forecaster.panel.panel import Panel
from forecaster.serve.data.live import panel_digest
from forecaster.serve.data.store import Store
from forecaster.synthetic.city import make_city
from forecaster.versions import Versions
from tests.serve.client import TOKEN, Client
from tests.serve.conftest import HOURS, fit
from tests.serve.processes import ServiceProcess, ServiceProcesses
from tests.test_versions import content

COMMAND = Path(sys.executable).with_name("forecaster")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def panel() -> Panel:
    whole = make_city(5, "2015-09-25", HOURS + 240).panel
    return replace(whole, values=whole.values[:HOURS])


@pytest.fixture(scope="module")
def run_folder(panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(panel, 0, tmp_path_factory.mktemp("serve") / "run")


@pytest.fixture(scope="module")
def panel_folder(panel: Panel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve") / "panel"
    panel.save(folder)
    return folder


@pytest.fixture
def services(run_folder: Path, panel_folder: Path, tmp_path: Path) -> Iterator[ServiceProcesses]:
    made = ServiceProcesses(run_folder, panel_folder, tmp_path)
    yield made
    made.close()


class Writer(threading.Thread):
    """A client that writes until the service is gone, and records what it sent."""

    def __init__(self, child: ServiceProcess, column: int, first: int, panel: Panel) -> None:
        super().__init__()
        self.child, self.column, self.next, self.panel = child, column, first, panel
        self.acknowledged: dict[int, float] = {}  # by step
        self.sent: dict[int, float] = {}

    def run(self) -> None:
        try:
            while True:
                step = self.next % HOURS
                value = float(self.next)
                self.sent[step] = value
                row = {
                    "location": self.panel.locations.ids[self.column],
                    "ds": f"{self.panel.times[step]}Z",
                    "value": value,
                }
                reply = self.child.post("/v1/observations", {"observations": [row]})
                if reply.status == 200:
                    self.acknowledged[step] = value
                self.next += 1
        except (OSError, HTTPException):
            return


@pytest.mark.slow
def test_V1_a_kill_loses_and_doubles_nothing_that_was_acknowledged(
    services: ServiceProcesses, panel: Panel, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    store = tmp_path / "store.sqlite"
    generator = np.random.default_rng(0)
    acknowledged: dict[tuple[str, int], float] = {}
    perhaps: dict[tuple[str, int], set[float]] = {}
    first = [1, 1, 1]
    for _ in range(rounds(20, 1_000)):
        child = services.start(store)
        writers = [Writer(child, column, first[column], panel) for column in range(3)]
        for writer in writers:
            writer.start()
        wanted = int(generator.integers(1, 30))
        while sum(len(writer.acknowledged) for writer in writers) < wanted:
            time.sleep(0.001)
        time.sleep(float(generator.uniform(0, 0.005)))
        child.end(signal.SIGKILL)
        for writer in writers:
            writer.join()
            first[writer.column] = writer.next + 1
            name = panel.locations.ids[writer.column]
            for step, value in writer.sent.items():
                perhaps.setdefault((name, step), set()).add(value)
            acknowledged |= {(name, step): v for step, v in writer.acknowledged.items()}
        assert services.wait(child) == -signal.SIGKILL
    found = Store(store, panel_digest(panel))
    start = int(panel.start.astype(np.int64))
    rows = [((name, (t - start) // 3600), v) for (name, t, v), _ in found.read("observations")]
    assert len(dict(rows)) == len(rows)  # none twice
    kept = dict(rows)
    lost = {cell for cell, value in acknowledged.items() if kept.get(cell, -1.0) < value}
    assert not lost
    assert all(value in perhaps[cell] for cell, value in kept.items())
    assert len(acknowledged) > rounds(20, 1_000)


class Registrar(threading.Thread):
    """A client that registers locations and sends a value of each, until the service is gone."""

    def __init__(self, child: ServiceProcess, number: int, first: int, panel: Panel) -> None:
        super().__init__()
        self.child, self.number, self.next, self.panel = child, number, first, panel
        self.registered: dict[str, float] = {}  # latitude by id: acknowledged
        self.observed: dict[str, float] = {}
        self.sent: set[str] = set()

    def run(self) -> None:
        try:
            while True:
                self.register(f"new {self.number}-{self.next}")
                self.next += 1
        except (OSError, HTTPException):
            return

    def register(self, name: str) -> None:
        body = {"id": name, "name": f"station {name}", "lat": self.next / 1_000, "lon": 7.0}
        self.sent.add(name)
        reply = self.child.post("/v1/locations", body)
        if reply.status in {200, 201}:
            self.registered[name] = body["lat"]
        row = {"location": name, "ds": f"{self.panel.times[-1]}Z", "value": float(self.next)}
        reply = self.child.post("/v1/observations", {"observations": [row]})
        if reply.status == 200:
            self.observed[name] = float(self.next)


@pytest.mark.slow
def test_L2_a_kill_loses_and_doubles_no_registration(
    panel: Panel, panel_folder: Path, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    run = fit(panel, 0, tmp_path / "run", LastValue)
    services = ServiceProcesses(run, panel_folder, tmp_path)
    store, wanted = tmp_path / "store.sqlite", rounds(30, 1_000)
    generator = np.random.default_rng(0)
    registered: dict[str, float] = {}
    observed: dict[str, float] = {}
    sent: set[str] = set()
    first, kills = [1, 1], 0
    while len(registered) < wanted:
        child = services.start(store)
        listed = child.get("/v1/locations").json["locations"][5:]
        assert {row["id"]: row["lat"] for row in listed}.items() >= registered.items()
        clients = [Registrar(child, number, first[number], panel) for number in range(2)]
        for client in clients:
            client.start()
        goal = min(len(registered) + int(generator.integers(1, 30)), wanted)
        while len(set(registered).union(*(client.registered for client in clients))) < goal:
            time.sleep(0.001)
        time.sleep(float(generator.uniform(0, 0.005)))
        child.end(signal.SIGKILL)
        kills += 1
        for client in clients:
            client.join()
            first[client.number] = client.next  # the last one again: a retry changes nothing
            registered |= client.registered
            observed |= client.observed
            sent |= client.sent
        assert services.wait(child) == -signal.SIGKILL
    services.close()
    kept = Store(store, panel_digest(panel))
    rows = kept.registrations()
    names = [one.id for one in rows]
    assert len(set(names)) == len(names)  # none twice
    assert {one.id: one.lat for one in rows}.items() >= registered.items()  # none lost
    assert set(names) <= sent
    values = {name: value for (name, _, value), _ in kept.read("observations")}
    assert values.items() >= observed.items()
    assert set(values) <= set(names)
    assert kept.version == len(names) + len(values)
    kept.close()
    assert kills > 1


@pytest.mark.slow
def test_C1_V13_a_service_killed_while_it_follows_changes_no_version_and_answers_from_whole_ones(
    panel: Panel, panel_folder: Path, tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    versions = Versions.begin(tmp_path / "runs")
    for number, later in enumerate((0, 53)):
        versions.add(fit(panel, later, tmp_path / f"run{number}", LastValue))
    digests = {v.name: v.manifest.digest[:12] for v in versions.entries()}
    before = {v.name: content(v.folder) for v in versions.entries()}
    services = ServiceProcesses(versions.folder, panel_folder, tmp_path)
    generator = np.random.default_rng(2)
    for number in range(rounds(5, 100)):
        child = services.start(tmp_path / "store.sqlite")
        assert child.get("/v1/run").json["version"] == versions.current
        versions.promote(f"v{number % 2 + 1:04d}")
        end, answers = time.monotonic() + float(generator.uniform(0, 1.5)), []
        while time.monotonic() < end:
            reply = child.get("/v1/forecast")
            answers.append((reply.status, reply.json["model"]))
        child.end(signal.SIGKILL)
        assert services.wait(child) == -signal.SIGKILL
        assert {*answers} <= {(200, digest) for digest in digests.values()}
        assert {v.name: content(v.folder) for v in versions.entries()} == before
    services.close()


def test_V12_a_stop_finishes_what_was_begun(
    services: ServiceProcesses, panel: Panel, tmp_path: Path
) -> None:
    child = services.start(tmp_path / "store.sqlite")
    answers: list[int] = []
    warned = threading.Event()

    def ask(n: int) -> None:  # as a balancer does: until it is told that the service will go
        while not warned.is_set():
            n += 3
            answers.append(child.get(f"/v1/forecast?at={panel.times[-1 - n % 90]}Z").status)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    child.end(signal.SIGTERM)
    while child.get("/readyz").status == 200:
        time.sleep(0.01)
    assert child.get("/livez").status == 200  # not ready, and still there
    warned.set()
    for thread in threads:
        thread.join(20)
    assert set(answers) == {200}
    assert services.wait(child) == 0


def test_V13_a_hangup_loads_the_run_anew_or_leaves_the_old_one(
    panel_folder: Path, panel: Panel, run_folder: Path, tmp_path: Path
) -> None:
    place = copytree(run_folder, tmp_path / "run")
    services = ServiceProcesses(place, panel_folder, tmp_path)
    child = services.start(tmp_path / "store.sqlite")
    first = child.get("/v1/forecast").json["model"]
    fit(panel, 53, place)
    child.end(signal.SIGHUP)
    assert _changed(child, first)
    second = child.get("/v1/forecast").json["model"]
    (place / "manifest.json").write_text("{}")
    child.end(signal.SIGHUP)
    for _ in range(200):
        if 'forecaster_reloads_total{outcome="failed"} 1.0' in child.get("/metrics").body.decode():
            break
        time.sleep(0.02)
    assert child.get("/v1/forecast").json["model"] == second
    child.end(signal.SIGKILL)
    services.close()


def _changed(child: ServiceProcess, first: str) -> bool:
    for _ in range(500):
        if child.get("/v1/forecast").json["model"] != first:
            return True
        time.sleep(0.02)
    return False


def test_the_command_serves_a_panel(run_folder: Path, panel_folder: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    words = [COMMAND, "serve", run_folder, "--panel", panel_folder, "--port", "0"]
    words += ["--token-file", token, "--replay", "5", "--area", tmp_path / "areas.csv"]
    inside = Panel.open(panel_folder).locations.ids[3]
    (tmp_path / "areas.csv").write_text(f"area,id\nharbour,{inside}\n")
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline() if process.stdout is not None else ""
        asking = Client(line.split()[0].rpartition(":")[2])
        told = asking.get("/v1/forecast").json
        assert len(told["forecasts"]) == 5
        part = asking.get("/v1/forecast?area=harbour").json
        assert [row["id"] for row in part["forecasts"]] == [inside]
        assert asking.get("/").headers["content-type"].startswith("text/html")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_V10_only_this_machine_is_listened_to(services: ServiceProcesses, tmp_path: Path) -> None:
    child = services.start(tmp_path / "store.sqlite")
    listening = Path(f"/proc/{child.pid}/net/tcp").read_text().splitlines()[1:]
    port = f"{int(child.port):04X}"
    addresses = {row.split()[1] for row in listening if row.split()[1].endswith(f":{port}")}
    child.end(signal.SIGKILL)
    assert addresses == {f"0100007F:{port}"}  # 127.0.0.1


def test_serve_needs_to_know_what(run: Run) -> None:
    code, _, errors = run("serve")
    assert code == 2
    assert "--demo" in errors


def test_serve_refuses_a_run_that_is_not_there(run: Run, panel_folder: Path) -> None:
    code, _, errors = run("serve", "nowhere", "--panel", panel_folder)
    assert code == 4
    assert "nowhere: no such folder" in errors


def test_serve_says_which_extra_is_lacking(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, _, errors = run("serve", "--demo")
    assert code == 2
    assert "forecaster[serve]" in errors


def test_telemetry_says_which_extra_is_lacking_before_anything_is_loaded(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.instrumentation.asgi", None)
    collector = "http://127.0.0.1:9"
    code, _, errors = run("serve", tmp_path, "--panel", tmp_path, "--telemetry", collector)
    assert code == 2
    assert "forecaster[telemetry]" in errors


def test_a_port_in_use_is_told(run: Run, run_folder: Path, panel_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, errors = run(
            "serve", run_folder, "--panel", panel_folder, "--port", port, "--replay", 5
        )
    assert code == 5
    assert f"cannot listen on 127.0.0.1:{port}" in errors


def test_a_panel_that_ended_long_ago_is_told_at_the_start(
    run: Run, run_folder: Path, panel_folder: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # it ends there, having said its word
        port = taken.getsockname()[1]
        words = ("serve", run_folder, "--panel", panel_folder, "--port", port)
        errors, replayed = run(*words)[2], run(*words, "--replay", 5)[2]
    for way in ("too long ago", "/v1/forecast?at=", "--replay 5", "--token-file"):
        assert way in errors
    assert "too long ago" not in replayed


def test_V16_the_command_refuses_a_damaged_store(
    run: Run, run_folder: Path, panel_folder: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    store.write_bytes(os.urandom(9_999))
    before = store.read_bytes()
    code, _, errors = run("serve", run_folder, "--panel", panel_folder, "--store", store)
    assert code == 4
    assert "damaged" in errors
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "mode", "fault"),
    [("x" * 32, 0o644, "chmod 600"), ("short", 0o600, "at least 16"), ("é" * 32, 0o600, "token")],
)
def test_a_token_that_protects_nothing_is_refused(
    run: Run, tmp_path: Path, text: str, mode: int, fault: str
) -> None:
    token = tmp_path / "token"
    token.write_text(text)
    token.chmod(mode)
    code, _, errors = run("serve", "--demo", "--token-file", token)
    assert code == 2
    assert fault in errors


def test_A1_the_command_refuses_a_store_with_a_loss(
    run: Run, run_folder: Path, panel_folder: Path, panel: Panel, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    store = Store(path, panel_digest(panel))
    store.write("observations", [(panel.locations.ids[0], 3600, 5.0)], 0)
    copy = (tmp_path / "copy.sqlite", tmp_path / "copy.sqlite-wal")  # without the redo log
    for file, copied in zip((path, tmp_path / "store.sqlite-wal"), copy, strict=True):
        copied.write_bytes(file.read_bytes())
    store.close()
    with socket.create_server(("127.0.0.1", 0)) as taken:  # it ends there
        words = ("serve", run_folder, "--panel", panel_folder, "--store", copy[0])
        words = (*words, "--port", taken.getsockname()[1])
        code, _, errors = run(*words)
        assert code == 4
        assert "copy.sqlite-redo is missing" in errors
        assert "the writes after number 1, if there were any" in errors
        code, _, errors = run(*words, "--accept-loss")
    assert code == 5
    assert "cannot listen" in errors
    assert (tmp_path / "copy.sqlite.damaged-1" / "copy.sqlite-wal").exists()
