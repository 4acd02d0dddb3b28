"""How much the service bears: run as a program, it prints the figures of docs/reliability.md.

    python -m tests.serve.load RUN PANEL [SECONDS [SECONDS AT 10 C]]

The service and this generator have one core each. Requests are sent at fixed moments whether or
not earlier ones were answered (an open loop), each for an origin that is not in the cache.

What the machine does to anything that runs on these cores is measured beside it: a bare loop in
the service's place, on its core, computes as long as a forecast takes and answers the same bytes.
"""

import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
import timeit
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from forecaster.panel.panel import Panel
from tests.serve.client import Client
from tests.serve.processes import ServiceProcess, ServiceProcesses

SERVICE_CORE, OWN_CORE = 0, 1
ORIGINS = 320  # asked in turn: five times as many as the cache keeps
MAX_PEERS = 1_000
ROUNDS = 5  # of the bare loop and the service in turn
BODY_BYTES = 8_000
LOST, UNSENT = 0, -1  # no status: a connection was lost; the generator had none left


class Peer(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.waiter: asyncio.Future[int] | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if found and self.waiter is not None:
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(body) >= length:
                self._got = b""
                if not self.waiter.done():
                    self.waiter.set_result(int(head[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(LOST)

    async def ask(self, path: str) -> int:
        """Return the status of one answer."""
        self.waiter = asyncio.get_running_loop().create_future()
        self.transport.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return await self.waiter


@dataclass
class Figures:
    """What came of some seconds of load."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: dict[int, list[float]] = field(default_factory=dict)  # by status

    def note(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.latencies.setdefault(status, []).append(seconds)

    def add(self, other: "Figures") -> None:
        self.seconds += other.seconds
        self.statuses.update(other.statuses)
        for status, latencies in other.latencies.items():
            self.latencies.setdefault(status, []).extend(latencies)

    def percentile(self, status: int, share: float) -> float:
        """Return a percentile of the latency in milliseconds."""
        found = self.latencies.get(status)
        return 1e3 * float(np.percentile(found, share)) if found else float("nan")


class Generator:
    """Asks a service for forecasts from one origin after another."""

    def __init__(self, child: Client, panel: Panel) -> None:
        self._child = child
        steps = range(len(panel.values) - 1 - ORIGINS, len(panel.values) - 1)
        self._paths = [f"/v1/forecast?at={panel.times[step]}Z" for step in steps]
        self._sent = 0
        self._free: list[Peer] = []

    def _next(self) -> str:
        self._sent += 1
        return self._paths[self._sent % len(self._paths)]

    async def _peer(self) -> Peer:
        while self._free:
            peer = self._free.pop()
            if not peer.transport.is_closing():
                return peer
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Peer, "127.0.0.1", int(self._child.port)))[1]

    def close(self) -> None:
        """Close the connections."""
        for peer in self._free:
            peer.transport.close()

    async def _one(self, figures: Figures) -> None:
        began = time.perf_counter()
        peer = await self._peer()
        status = await peer.ask(self._next())
        figures.note(status, time.perf_counter() - began)
        if status != LOST:
            self._free.append(peer)

    async def closed(self, clients: int, seconds: float) -> Figures:
        """Ask again as soon as an answer came, with some clients at once."""
        figures, ends = Figures(seconds), time.perf_counter() + seconds

        async def client() -> None:
            while time.perf_counter() < ends:
                await self._one(figures)

        await asyncio.gather(*(client() for _ in range(clients)))
        return figures

    async def open(self, rate: float, seconds: float) -> Figures:
        """Ask at fixed moments."""
        figures, tasks, began = Figures(seconds), set(), time.perf_counter()
        for number in range(int(rate * seconds)):
            delay = began + number / rate - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            if len(tasks) < MAX_PEERS:
                task = asyncio.create_task(self._one(figures))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            else:
                figures.note(UNSENT, 0.0)
        while tasks:
            await asyncio.wait(tasks)
        return figures


async def measure_bare(panel: Panel, job: float, seconds: float) -> tuple[float, float]:
    """Return p99 in medians at 0.8 of its capacity, and the capacity, of a bare loop.

    Args:
        panel: of the requests.
        job: seconds of computing per answer.
        seconds: of each phase.
    """
    words = [sys.executable, "-m", "tests.serve.load", "--bare", str(job)]
    loop = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert loop.stdout is not None
    generator = Generator(Client((await loop.stdout.readline()).decode()), panel)
    try:
        single = await generator.closed(1, seconds / 2)
        capacity = (await generator.closed(8, seconds / 2)).statuses[200] / (seconds / 2)
        calm = await generator.open(0.8 * capacity, seconds)
        return calm.percentile(200, 99) / single.percentile(200, 50), capacity
    finally:
        generator.close()
        loop.kill()
        await loop.wait()


def spin(count: int) -> None:
    for _ in range(count):
        pass


async def serve_bare(job: float) -> None:
    """Answer every request after a loop of so many seconds, on the service's core."""
    with suppress(OSError):  # there is one core, and it is another
        os.sched_setaffinity(0, {SERVICE_CORE})
    fastest = min(timeit.repeat(lambda: spin(10_000), number=1, repeat=50))
    count = int(10_000 * job / fastest)
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (BODY_BYTES, b"x" * BODY_BYTES)

    class Bare(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            for _ in range(data.count(b"\r\n\r\n")):
                spin(count)
                self.transport.write(answer)

    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 (who started it reads it)
    await server.serve_forever()


async def measure(
    child: ServiceProcess, panel: Panel, seconds: float, flood_seconds: float
) -> dict[str, float]:
    """Return the figures of one service."""
    generator = Generator(child, panel)
    await generator.closed(1, 3 * seconds)  # everything is loaded, earlier origins are known
    single = await generator.closed(1, seconds)
    full = await generator.closed(8, seconds)
    C = full.statuses[200] / seconds
    bare, calm = [], Figures()
    for _ in range(ROUNDS):  # in turn, so that both have the same noise
        bare.append(await measure_bare(panel, 1e-3 * single.percentile(200, 50), seconds / ROUNDS))
        calm.add(await generator.open(0.8 * C, seconds / ROUNDS))
    noise = statistics.median(p99 for p99, _ in bare)
    before = resident(child.pid)
    flood = await generator.open(10 * C, flood_seconds)
    after = resident(child.pid)
    await asyncio.sleep(1.0)
    again = await generator.open(0.5 * C, seconds)
    later = (await generator.closed(8, seconds)).statuses[200] / seconds
    generator.close()
    median = single.percentile(200, 50)
    return {
        "C": C,
        "single_median_ms": median,
        "single_p99_ms": single.percentile(200, 99),  # what the machine itself does not allow
        "calm_p99_ms": calm.percentile(200, 99),
        "calm_p99_medians": calm.percentile(200, 99) / median,
        "bare_p99_medians": noise,  # of the bare loop at 0.8 of its own capacity
        "calm_p99_of_bare": calm.percentile(200, 99) / median / noise,
        "bare_capacity_spread": max(c for _, c in bare) / min(c for _, c in bare),
        "calm_errors": sum(calm.statuses.values()) - calm.statuses[200],
        "flood_sent": sum(flood.statuses.values()),
        "flood_goodput_of_C": flood.statuses[200] / flood_seconds / C,
        "C_later_of_C": later / C,
        "flood_accepted_p99_ms": flood.percentile(200, 99),
        "flood_refused": flood.statuses[503],
        "flood_refused_p99_ms": flood.percentile(503, 99),
        "flood_lost": flood.statuses[LOST],
        "flood_unsent": flood.statuses[UNSENT],
        "flood_memory": after / before,
        "again_p99_ms": again.percentile(200, 99),
        "again_errors": sum(again.statuses.values()) - again.statuses[200],
        "full_p99_ms": full.percentile(200, 99),
        "full_spread_ms": 1e3 * statistics.pstdev(full.latencies[200]),
    }


def resident(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def run_load(
    run: Path, panel_folder: Path, seconds: float, flood_seconds: float
) -> dict[str, float]:
    """Start a service on one core, and load it from another."""
    with tempfile.TemporaryDirectory() as folder:
        services = ServiceProcesses(run, panel_folder, Path(folder))
        child = services.start(Path(folder) / "store.sqlite")
        cores = os.sched_getaffinity(0)
        if len(cores) > 1:
            for task in Path(f"/proc/{child.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {SERVICE_CORE})
            os.sched_setaffinity(0, {OWN_CORE})
        gc.disable()  # a pause of the generator would be a burst for the service
        try:
            return asyncio.run(measure(child, Panel.open(panel_folder), seconds, flood_seconds))
        finally:
            gc.enable()
            os.sched_setaffinity(0, cores)
            child.end(9)
            services.wait(child)
            services.close()


if __name__ == "__main__" and sys.argv[1] == "--bare":
    asyncio.run(serve_bare(float(sys.argv[2])))
elif __name__ == "__main__":
    length = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    flood_length = float(sys.argv[4]) if len(sys.argv) > 4 else length
    figures = run_load(Path(sys.argv[1]), Path(sys.argv[2]), length, flood_length)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, indent=1))  # noqa: T201
