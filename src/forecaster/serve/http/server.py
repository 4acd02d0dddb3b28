"""The running service: sockets, signals and shutdown."""

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
from forecaster.serve import tracing
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.app import create_app
from forecaster.serve.http.connection import Connection, bind_connection
from forecaster.serve.http.limits import MAX_HEADER_BYTES
from forecaster.serve.http.settings import HttpSettings

NOTICE_SECONDS = 1.0  # between "not ready" and closing the socket
DRAIN_SECONDS = 7  # for open requests; at most 10 with the notice and the workers
KEEP_ALIVE_SECONDS = 5
BACKLOG = 128  # connections queued by the system
MAX_CONNECTIONS = 10_000
# File descriptors kept free: for files, and for connections accepted while others are being
# closed; asyncio accepts a whole backlog at once, and closing takes some rounds of the loop.
SPARE_FILES = 100 + 4 * BACKLOG
SWITCH_SECONDS = 5e-5  # the event loop must not wait long for the computing thread
PAUSE_SECONDS = 2e-3  # between two polls of the sockets while requests would be refused
Ready = list[tuple[selectors.SelectorKey, int]]


@dataclass(frozen=True)
class Address:
    """The address that the service listens on."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one


class ThrottledSelector(selectors.DefaultSelector):
    """Polls the sockets less often while requests would be refused.

    Every poll takes the core from the computing thread.
    """

    def __init__(self, is_full: Callable[[], bool]) -> None:
        super().__init__()
        self._is_full = is_full

    def select(self, timeout: float | int | None = None) -> Ready:  # asyncio gives 0, not 0.0
        """Return the sockets that are ready."""
        if self._is_full():
            time.sleep(PAUSE_SECONDS)
        return super().select(timeout)


class Server(uvicorn.Server):
    """Stops in order: not ready, no new connections, then the last response."""

    def __init__(
        self, config: uvicorn.Config, engine: Engine, connection: type[Connection]
    ) -> None:
        super().__init__(config)
        self._engine, self.connection = engine, connection

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 (uvicorn's)
        """Begin to stop; Ctrl-C or a second signal stops without notice."""
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
        """The URL of the page, once the service listens."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def make_server(engine: Engine, address: Address, settings: HttpSettings | None = None) -> Server:
    """Return the service, ready to be run."""
    app = create_app(engine, settings)
    connection = bind_connection(app.metrics, allow_connections())
    telemetry = tracing.current()
    config = uvicorn.Config(
        app if telemetry is None else telemetry.instrument(app, app.metrics),
        host=address.host, port=address.port, http=connection, ws="none", lifespan="on",
        proxy_headers=False,
        log_config=None, access_log=False, server_header=False, backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=DRAIN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )  # fmt: skip
    return Server(config, engine, connection)


def allow_connections() -> int:
    """Raise the limit of open files, and return the largest number of open connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):  # then the limit stays
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    files = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    return files - min(SPARE_FILES, files // 2)


def serve(
    engine: Engine,
    address: Address,
    settings: HttpSettings,
    on_start: Callable[[str], None],
) -> None:
    """Serve until a signal; SIGHUP loads the run again.

    Args:
        engine: makes the forecasts.
        address: the address to listen on.
        settings: who is let in, and what is recorded.
        on_start: called with the URL once the service listens.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    server = make_server(engine, address, settings)
    selector = ThrottledSelector(server.connection.is_full)
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(_serve(server, engine, on_start))
    except SystemExit as error:  # uvicorn exits if it cannot listen
        message = f"cannot listen on {address.host}:{address.port}"
        raise RunError(
            f"{message}; another service may be using the port; --port sets another"
        ) from error


async def _serve(server: Server, engine: Engine, on_start: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()  # a task without a reference may be collected

    def reload() -> None:
        task = loop.create_task(engine.loader.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def announce() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        gc.collect()
        gc.freeze()  # collections skip the loaded modules and model: they take 0.1 s
        on_start(server.url)

    loop.add_signal_handler(signal.SIGHUP, reload)
    announcing = loop.create_task(announce())
    try:
        await server.serve()
    finally:
        announcing.cancel()
