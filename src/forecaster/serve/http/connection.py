"""Connections with a deadline: uvicorn has none for a client that sends slowly, or not at all."""

import asyncio
import math
import re
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from forecaster.serve.http.metrics import Metrics
from forecaster.serve.problems import MEDIA_TYPE, RETRY_SECONDS

RECEIVE_SECONDS = 10.0  # for a whole request, headers and body, from its first byte
ANSWER_SECONDS = 30.0  # for computing the answer and for the client to take it
ADMITTED = 24  # forecasts of other than the newest step that are computed at once or wait
BODY = re.compile(rb"content-length|transfer-encoding", re.IGNORECASE)


class Protocol(H11Protocol):
    """One connection.

    A subclass of uvicorn's, since only there are bytes seen before they are a request.
    """

    limit: ClassVar[int] = ADMITTED
    metrics: ClassVar[Metrics]
    room: ClassVar[int]  # for so many connections
    admitted: ClassVar[set["Protocol"]]  # those that such a forecast is computed for
    waiting: ClassVar[dict["Protocol", None]]  # that have not sent a request, oldest first

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = -math.inf  # when a request was refused last

    @classmethod
    def is_full(cls) -> bool:
        """Tell whether the next forecast that has to be computed is refused."""
        return len(cls.admitted) >= cls.limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; where there are too many, the oldest that says nothing goes."""
        super().connection_made(transport)
        self.metrics.connections += 1
        self._give(RECEIVE_SECONDS)
        self.waiting[self] = None
        if len(self.connections) > self.room:
            next(iter(self.waiting), self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self.metrics.connections -= 1
        self._give(None)
        self.waiting.pop(self, None)
        self.admitted.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request, and see to it that its end comes in time."""
        idle = not self._is_answering
        costly = idle and self._is_between and _is_costly(data)
        if costly and self.is_full():  # here, since the app would see it too late
            self._refuse()
            return
        if costly:
            self.admitted.add(self)
        if idle and self._deadline is None:
            self._give(RECEIVE_SECONDS)
            self.waiting[self] = None
        super().data_received(data)
        self._note_progress()

    def on_response_complete(self) -> None:
        """Wait for the next request, for as long as uvicorn waits."""
        self._give(None)
        self.admitted.discard(self)
        super().on_response_complete()
        if self._is_answering:
            self._note_progress()  # a pipelined one has begun

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type leaves out None
        return cycle is not None and not cycle.response_complete

    @property
    def _is_between(self) -> bool:
        """Whether the next byte begins a request, since none of one has come yet."""
        return self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _note_progress(self) -> None:
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            self.waiting.pop(self, None)
            if self._is_answering:
                self._give(ANSWER_SECONDS)

    def _give(self, seconds: float | None) -> None:
        """Give what comes next so many seconds."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        """End a connection whose time is over."""
        self._deadline = None
        self._end(_canned(408, "Request Timeout", "too_slow", close=True))
        self.loop.call_later(1.0, self.transport.abort)  # whoever does not take the answer

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's, in plain text)
        """Refuse what is no request, in the form of all refusals."""
        self._end(_canned(400, "Bad Request", "bad_request", close=True))

    def _end(self, answer: bytes) -> None:
        """Close, with an answer unless another has begun."""
        if not self._is_answering or not self.cycle.response_started:
            self.transport.write(answer)
        self.transport.close()

    def _refuse(self) -> None:
        """Answer a complete request that nothing can be done for, at a tenth of the usual cost."""
        self.transport.write(BUSY)
        self.metrics.refused += 1
        self.waiting.pop(self, None)
        self._give(None)
        self._refused = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive(float(self.timeout_keep_alive))

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless a request was refused since: a timer for each would cost too much."""
        left = self._refused + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._keep_alive(left)
        else:
            super().timeout_keep_alive_handler()

    def _keep_alive(self, seconds: float) -> None:
        later = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = later


def bind_protocol(metrics: Metrics, room: int) -> type[Protocol]:
    """Return the connections of one service.

    Args:
        metrics: told of connections and refusals.
        room: for so many connections.
    """
    shared = {"metrics": metrics, "room": room, "waiting": {}, "admitted": set()}
    return type("BoundProtocol", (Protocol,), shared)


def _is_costly(data: bytes) -> bool:
    """Tell whether this is one whole request for a forecast that has to be computed."""
    line = data[: data.find(b"\r\n")]
    return (
        line.startswith(b"GET /v1/forecast?")
        and b"at=" in line
        and data.endswith(b"\r\n\r\n")
        and data.count(b"\r\n\r\n") == 1
        and data.count(b"\n") == data.count(b"\r\n")  # a bare one ends a line too, for h11
        and not BODY.search(data)
    )


def _canned(status: int, phrase: str, code: str, *, close: bool) -> bytes:
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


BUSY = _canned(503, "Service Unavailable", "busy", close=False)
