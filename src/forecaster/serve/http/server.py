"""The running service: its socket, its signals, its end."""

import asyncio
import gc
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

import uvicorn

from forecaster.errors import RunError
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.app import create_app
from forecaster.serve.http.connection import Protocol, bind_protocol

NOTICE_SECONDS = 1.0  # between "not ready" and the end of listening
DRAIN_SECONDS = 7  # for requests under way; with the notice and what computes at most 10
KEEP_ALIVE_SECONDS = 5
MAX_HEADER_BYTES = 32 << 10
BACKLOG = 128  # connections that the system takes before we do
MAX_CONNECTIONS = 10_000
# Files kept free: our own, and connections that were taken while others are being closed; asyncio
# takes a backlog at once, and some rounds pass before a connection is closed.
SPARE_FILES = 100 + 4 * BACKLOG
SWITCH_SECONDS = 5e-5  # the loop must not wait long for the thread that computes
PAUSE_SECONDS = 2e-3  # between two looks for requests while all would be refused
Ready = list[tuple[selectors.SelectorKey, int]]


@dataclass(frozen=True)
class Address:
    """Where the service listens."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any that is free


class PatientSelector(selectors.DefaultSelector):
    """Looks for requests less often while they would be refused, so that each costs less.

    Every look takes the core from the thread that computes.
    """

    def __init__(self, is_full: Callable[[], bool]) -> None:
        super().__init__()
        self._is_full = is_full

    def select(self, timeout: float | int | None = None) -> Ready:  # asyncio gives 0, not 0.0
        """Return what is ready."""
        if self._is_full():
            time.sleep(PAUSE_SECONDS)
        return super().select(timeout)


class Server(uvicorn.Server):
    """Ends in order: first not ready, then no new connection, then the last answer."""

    def __init__(self, config: uvicorn.Config, engine: Engine, protocol: type[Protocol]) -> None:
        super().__init__(config)
        self._engine, self.protocol = engine, protocol

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 (uvicorn's)
        """Begin to end; Ctrl-C, or a second signal, ends without notice."""
        if self._engine.draining or sig == signal.SIGINT:
            self.force_exit = self.should_exit
            self.should_exit = True
            return
        self._engine.draining = True
        asyncio.get_running_loop().call_later(NOTICE_SECONDS, self._stop)

    def _stop(self) -> None:
        self.should_exit = True

    @property
    def url(self) -> str:
        """Where the page is, once the service listens."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(engine: Engine, address: Address, token: str | None) -> Server:
    """Return the service, ready to be run."""
    app = create_app(engine, token)
    protocol = bind_protocol(app.metrics, make_room())
    config = uvicorn.Config(
        app, host=address.host, port=address.port, http=protocol, ws="none", lifespan="on",
        proxy_headers=False,
        log_config=None, access_log=False, server_header=False, backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=DRAIN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )  # fmt: skip
    return Server(config, engine, protocol)


def make_room() -> int:
    """Return how many connections may be open, with as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    files = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    return files - min(SPARE_FILES, files // 2)


def serve(
    engine: Engine, address: Address, token: str | None, on_start: Callable[[str], None]
) -> None:
    """Serve until a signal ends it; SIGHUP loads the run anew.

    Args:
        engine: answers.
        address: where to listen.
        token: who knows it may write; None: nobody may.
        on_start: told the URL once the service listens.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    server = make_server(engine, address, token)
    selector = PatientSelector(server.protocol.is_full)
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(_serve(server, engine, on_start))
    except SystemExit as left:  # uvicorn's way to say that it cannot listen
        message = f"cannot listen on {address.host}:{address.port}"
        raise RunError(f"{message}; is another service there? --port names another") from left


async def _serve(server: Server, engine: Engine, on_start: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish

    def reload() -> None:
        task = loop.create_task(engine.loader.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def tell() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        gc.collect()
        gc.freeze()  # what is loaded stays: to look through it takes a tenth of a second each time
        on_start(server.url)

    loop.add_signal_handler(signal.SIGHUP, reload)
    telling = loop.create_task(tell())
    try:
        await server.serve()
    finally:
        telling.cancel()
