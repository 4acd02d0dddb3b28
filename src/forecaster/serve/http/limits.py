"""Limits on every request, headers on every response, and the count of both."""

import logging
import time
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forecaster.serve.http.metrics import Metrics
from forecaster.serve.http.routes import audit_write
from forecaster.serve.http.settings import HttpSettings
from forecaster.serve.http.tiles import Tiles
from forecaster.serve.problems import Problem, internal_error, new_id, to_response

MAX_BODY_BYTES = 2 << 20
MAX_URL_BYTES = 4096
MAX_HEADERS = 64
MAX_HEADER_BYTES = 32 << 10  # of all headers
BUSY_STATE = "busy"  # of a pipelined request that is refused
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
PROBES = frozenset({"/livez", "/readyz"})
RawHeaders = list[tuple[bytes, bytes]]
log = logging.getLogger(__name__)


def headers_with(tiles: Tiles | None) -> dict[str, str]:
    """Return the headers of every response; pictures may also come from a server of tiles."""
    if tiles is None:
        return HEADERS
    return HEADERS | {"Content-Security-Policy": f"{POLICY}; img-src 'self' {tiles.origin}"}


class RequestLimits:
    """ASGI middleware: refuses large requests, adds headers and an id, counts requests."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, settings: HttpSettings, writes: frozenset[str]
    ) -> None:
        """Wrap an application.

        Args:
            app: the application.
            metrics: count the requests.
            settings: the names of the service, and where writes are recorded.
            writes: paths whose POST requests write.
        """
        self.app, self.metrics, self._hosts = app, metrics, settings.hosts
        self._audit, self._writes = settings.audit, writes
        headers = headers_with(settings.tiles).items()
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request, or run the app's lifespan."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._headers)
        began = time.monotonic()
        try:
            await exchange.run(self.app, self._hosts)
        finally:
            writes = scope["method"] == "POST" and scope["path"] in self._writes
            if writes and exchange.is_refused and self._audit is not None:
                audit_write(self._audit, Request(scope), exchange.status)
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.monotonic() - began
            self.metrics.count(scope["method"], route, exchange.status, seconds)


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, added: RawHeaders) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._added = added
        self._headers = dict(scope["headers"])
        self._size = 0
        self.status = 0
        self.is_refused = False  # before it reached a route
        self.id = scope["state"]["id"] = new_id()

    async def run(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        """Let the app respond; of an internal error the client gets only the id."""
        try:
            self._check(hosts)
            await app(self._scope, self.receive, self.send)
        except Problem as problem:
            await to_response(problem, self._scope)(self._scope, self.receive, self.send)
        except Exception:
            if not self.status:  # otherwise the app has logged it and responded
                log.exception("request %s failed", self.id)
                await to_response(internal_error(), self._scope)(
                    self._scope, self.receive, self.send
                )

    def _check(self, hosts: frozenset[str]) -> None:
        """Refuse what no route need see."""
        self.is_refused = True
        self._check_limits()
        self._check_host(hosts)
        self.is_refused = False

    def _check_limits(self) -> None:
        """Refuse a request that is too large or encoded, before its body is read."""
        if self._scope["http_version"] not in ("1.0", "1.1"):
            raise Problem(400, "wrong_version", "only HTTP/1.1 is supported")
        if len(self._scope["raw_path"]) + len(self._scope["query_string"]) > MAX_URL_BYTES:
            raise Problem(414, "long_url", f"a URL has at most {MAX_URL_BYTES:,} bytes")
        if BUSY_STATE in self._scope["state"]:
            raise Problem(503, "busy", "too many forecasts wait; send it again")
        self._check_headers()

    def _check_headers(self) -> None:
        """Refuse headers that are too many or too large, or announce an unusable body."""
        headers = self._scope["headers"]
        if len(headers) > MAX_HEADERS:
            raise Problem(431, "many_headers", f"a request has at most {MAX_HEADERS} headers")
        if sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
            detail = f"the headers of a request have at most {MAX_HEADER_BYTES:,} bytes"
            raise Problem(431, "long_headers", detail)
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise Problem(415, "encoded", "send the body without Content-Encoding")
        if b"transfer-encoding" in self._headers and b"content-length" in self._headers:
            raise Problem(400, "two_lengths", "send Content-Length or Transfer-Encoding, not both")
        length = self._headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES:
            raise too_large()

    def _check_host(self, hosts: frozenset[str]) -> None:
        """Refuse a request to another name; probes may use any."""
        if not hosts or self._scope["path"] in PROBES:
            return
        host = self._headers.get(b"host", b"").decode("latin-1").lower()
        name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
        if name not in hosts:
            raise Problem(421, "wrong_host", "the service is not called by this name; see Host")

    async def receive(self) -> Message:
        """Return the next part of the body, up to the limit."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > MAX_BODY_BYTES:
            raise too_large()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the headers that all responses have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": self._complete_headers(message["headers"])}
        await self._send(message)

    def _complete_headers(self, headers: Any) -> RawHeaders:
        names = {name for name, _ in headers}
        added = [pair for pair in self._added if pair[0] not in names]
        has_body = (
            b"transfer-encoding" in self._headers
            or self._headers.get(b"content-length", b"0") != b"0"
        )
        if has_body and (self._scope["method"] != "POST" or self.status >= 400):  # noqa: PLR2004
            added.append((b"connection", b"close"))  # the rest of the body is not read
        return [*headers, *added, (b"x-request-id", self.id.encode())]


def too_large() -> Problem:
    """Return the error of a large body."""
    return Problem(
        413, "too_large", f"a body has at most {MAX_BODY_BYTES:,} bytes; send it in parts"
    )
