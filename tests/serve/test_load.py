"""The long campaigns: load, soak, slow clients. `make torture` runs them."""

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.http.server import MAX_CONNECTIONS
from tests.serve.client import Reply
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


def test_V18_memory_and_descriptors_stay(
    child: ServiceProcess, panel: Panel, capsys: pytest.CaptureFixture[str]
) -> None:
    def held() -> tuple[int, int]:
        return resident(child.pid), len(list(Path(f"/proc/{child.pid}/fd").iterdir()))

    answers: dict[tuple[object, ...], str] = {}  # numbers by model, data version and origin

    def check(reply: Reply) -> None:
        assert reply.status < 500 or reply.status == 503, reply
        content = reply.json
        if reply.status == 200 and "forecasts" in content and not content["degraded"]:
            key = tuple(content[name] for name in ("model", "data_version", "origin"))
            numbers = json.dumps(content["forecasts"])
            assert answers.setdefault(key, numbers) == numbers

    def live(seconds: float) -> int:
        ends, n = time.monotonic() + seconds, 0
        while time.monotonic() < ends:
            n += 1
            if n % 100 == 0:
                child.end(signal.SIGHUP)  # it loads the run again
            row = {"location": panel.locations.ids[n % 5], "value": n % 53}
            row["ds"] = f"{panel.times[-1 - n % 200]}Z"
            assert child.post("/v1/observations", {"observations": [row]}).status == 200
            for path in ("/v1/forecast", f"/v1/forecast?at={row['ds']}", "/v1/accuracy"):
                check(child.get(path))
        return 4 * n

    live(SOAK_SECONDS / 4)
    before = held()
    sent, after = live(SOAK_SECONDS), held()
    grown = after[0] - before[0]
    with capsys.disabled():
        share = 100 * grown / before[0]
        print(  # noqa: T201 (as above)
            f"\nsoak: {sent} requests in {SOAK_SECONDS:g} s, {len(answers)} different answers, "
            f"{grown / (1 << 20):+.1f} MiB ({share:+.2f} %), {after[1] - before[1]:+} descriptors"
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
