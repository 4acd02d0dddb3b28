"""Connections with deadlines and limits, which uvicorn lacks for slow clients."""

import asyncio
import math
import re
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from forecaster.serve.http.limits import BUSY_STATE
from forecaster.serve.http.metrics import Metrics
from forecaster.serve.problems import MEDIA_TYPE, RETRY_SECONDS

RECEIVE_SECONDS = 10.0  # for a whole request, headers and body, from its first byte
RESPONSE_SECONDS = 30.0  # to compute the response and for the client to receive it
MAX_COSTLY = 24  # forecasts from past origins that are computed or wait
FORECAST = "/v1/forecast"
BODY = re.compile(rb"content-length|transfer-encoding", re.IGNORECASE)


class Connection(H11Protocol):
    """One connection: uvicorn's protocol, which sees bytes before they are parsed."""

    limit: ClassVar[int] = MAX_COSTLY
    metrics: ClassVar[Metrics]
    room: ClassVar[int]  # largest number of open connections
    admitted: ClassVar[set["Connection"]]  # those with a costly request
    waiting: ClassVar[dict["Connection", None]]  # those without a complete request, oldest first

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._refused_at = -math.inf  # of the last refused request

    @classmethod
    def is_full(cls) -> bool:
        """Whether the next costly request is refused."""
        return len(cls.admitted) >= cls.limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; if there are too many, the oldest idle one is closed."""
        super().connection_made(transport)
        self.metrics.connections += 1
        self._set_deadline(RECEIVE_SECONDS)
        self.waiting[self] = None
        if len(self.connections) > self.room:
            next(iter(self.waiting), self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove a connection."""
        self.metrics.connections -= 1
        self._set_deadline(None)
        self.waiting.pop(self, None)
        self.admitted.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a request, which must be complete within its deadline."""
        idle = not self._is_answering
        costly = idle and self._is_between and _is_costly(data)
        if costly and self.is_full():  # before parsing, which would cost too much
            self._refuse()
            return
        if costly:
            self.admitted.add(self)
        if idle and self._deadline is None:
            self._set_deadline(RECEIVE_SECONDS)
            self.waiting[self] = None
        super().data_received(data)
        if idle and self.conn.trailing_data[0]:
            self._admit_pipelined()
        self._note_progress()

    def on_response_complete(self) -> None:
        """Wait for the next request, with uvicorn's keep-alive timeout."""
        self._set_deadline(None)
        self.admitted.discard(self)
        super().on_response_complete()
        if self._is_answering:
            self._admit_pipelined()
            self._note_progress()

    def _admit_pipelined(self) -> None:
        """Count a forecast that came with other requests, of any origin; mark it if too many."""
        if not self._is_answering or self.cycle.scope["path"] != FORECAST or self in self.admitted:
            return
        if self.is_full():
            self.cycle.scope["state"][BUSY_STATE] = True
            self.metrics.refused += 1
        else:
            self.admitted.add(self)

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type leaves out None
        return cycle is not None and not cycle.response_complete

    @property
    def _is_between(self) -> bool:
        """Whether the next byte is the first of a request."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _note_progress(self) -> None:
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            self.waiting.pop(self, None)
            if self._is_answering:
                self._set_deadline(RESPONSE_SECONDS)

    def _set_deadline(self, seconds: float | None) -> None:
        """Set the time until the connection is closed; None: no limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        """Close a connection after its deadline."""
        self._deadline = None
        self._close_with(_encode_problem(408, "Request Timeout", "too_slow", close=True))
        self.loop.call_later(1.0, self.transport.abort)  # if the client does not read it

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's, in plain text)
        """Refuse bytes that are not a request, with a problem."""
        self._close_with(_encode_problem(400, "Bad Request", "bad_request", close=True))

    def _close_with(self, response: bytes) -> None:
        """Close, with a response unless one has begun."""
        if not self._is_answering or not self.cycle.response_started:
            self.transport.write(response)
        self.transport.close()

    def _refuse(self) -> None:
        """Refuse a complete request without parsing it, at a tenth of the usual cost."""
        self.metrics.refused += 1
        self.transport.write(BUSY)
        self.waiting.pop(self, None)
        self._set_deadline(None)
        self._refused_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive(float(self.timeout_keep_alive))

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless a request was refused since; a timer for each would cost too much."""
        remaining = self._refused_at + self.timeout_keep_alive - self.loop.time()
        if remaining > 0:
            self._keep_alive(remaining)
        else:
            super().timeout_keep_alive_handler()

    def _keep_alive(self, seconds: float) -> None:
        timer = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = timer


def bind_connection(metrics: Metrics, room: int) -> type[Connection]:
    """Return the connection class of one service.

    Args:
        metrics: count connections and refused requests.
        room: largest number of open connections.
    """
    shared = {"metrics": metrics, "room": room, "waiting": {}, "admitted": set()}
    return type("BoundConnection", (Connection,), shared)


def _is_costly(data: bytes) -> bool:
    """Whether this is one whole request for a forecast from a past origin."""
    line = data[: data.find(b"\r\n")]
    return (
        line.startswith(f"GET {FORECAST}?".encode())
        and b"at=" in line
        and data.endswith(b"\r\n\r\n")
        and data.count(b"\r\n\r\n") == 1
        and data.count(b"\n") == data.count(b"\r\n")  # h11 also accepts a bare LF
        and not BODY.search(data)
    )


def _encode_problem(status: int, phrase: str, code: str, *, close: bool) -> bytes:
    body = (
        f'{{"type":"urn:forecaster:problem:{code}","title":"{phrase}","status":{status},'
        f'"detail":"{phrase.lower()}","code":"{code}","id":"-"}}'
    )
    lines = [
        f"HTTP/1.1 {status} {phrase}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        *([f"retry-after: {RETRY_SECONDS}"] if status >= HTTPStatus.INTERNAL_SERVER_ERROR else []),
        "x-content-type-options: nosniff",
        *(["connection: close"] if close else []),
    ]
    return "\r\n".join([*lines, "", body]).encode()


BUSY = _encode_problem(503, "Service Unavailable", "busy", close=False)
