"""How tests talk to a service: one request, or raw bytes."""

import json
import socket
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from forecaster.serve.http.access import Access, AccessToken
from forecaster.serve.http.settings import HttpSettings

TOKEN = "correct-horse-battery-staple"  # noqa: S105 (of these tests alone)
SETTINGS = HttpSettings(access=Access(lambda: (AccessToken.of(TOKEN),)))


@dataclass
class Reply:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Somebody who asks a service on this machine."""

    port: str | int

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, **headers)

    def post(self, path: str, body: Any, token: str | None = TOKEN, **headers: str) -> Reply:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        known = {"Content-Type": "application/json", **headers}
        if token is not None:
            known["Authorization"] = f"Bearer {token}"
        return self.send("POST", path, raw, **known)

    def send(self, method: str, path: str, body: Any, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = HTTPConnection("127.0.0.1", int(self.port), timeout=30)
        try:
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def first(self, data: bytes) -> Reply:
        """Return the first answer to some bytes, which need not all be taken."""
        with socket.create_connection(("127.0.0.1", int(self.port)), 30) as peer:
            with suppress(ConnectionError):
                peer.sendall(data)
            answer = HTTPResponse(peer)
            answer.begin()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())

    def raw(self, data: bytes, seconds: float = 10.0) -> bytes:
        """Return all that comes back for some bytes, until the other side closes or is silent."""
        with socket.create_connection(("127.0.0.1", int(self.port)), seconds) as peer:
            parts = []
            try:
                peer.sendall(data)
                while part := peer.recv(65536):
                    parts.append(part)
            except (TimeoutError, ConnectionError):
                pass
            return b"".join(parts)
