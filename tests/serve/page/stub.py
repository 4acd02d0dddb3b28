"""A server on loopback that shows the page and answers as a test wishes."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import forecaster
from forecaster.serve.http.limits import headers_with
from forecaster.serve.http.tiles import Tiles
from tests.serve.page.town import Town

PAGE = Path(forecaster.__file__).resolve().parent / "serve" / "page"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass
class Answer:
    """What is sent back, and after how long."""

    body: Any = None  # JSON, unless it is bytes
    status: int = 200
    kind: str = "application/json"
    delay_seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Route = Callable[[Mapping[str, str]], Answer]


class Stub:
    """Answers from a town; a test replaces a route to make it late, broken or away."""

    def __init__(self, town: Town) -> None:
        self.url = ""
        self.ended = threading.Event()
        self.show(town)

    def show(self, town: Town) -> None:
        """Answer from this town as if nothing had been asked before."""
        self.town = town
        self.asked: list[tuple[str, dict[str, str], int]] = []  # path, query, status
        self.tiles: Tiles | None = None
        self.ended.set()  # late answers to an earlier test are not waited for
        self.ended = threading.Event()
        self.routes: dict[str, Route] = {
            "/v1/locations": lambda q: page("/v1/locations", town.locations(), q),
            "/v1/graph": lambda q: Answer(town.graph(q.get("location"))),
            "/v1/forecast": lambda q: page("/v1/forecast", town.forecast(), q),
            "/v1/history": lambda query: Answer(town.history(query)),
            "/v1/accuracy": lambda _: Answer(town.accuracy()),
            "/v1/run": lambda _: Answer(town.run()),
            "/v1/explanation": lambda _: problem(404, "this run gives no explanations"),
            "/page/settings.json": lambda _: Answer(
                {"tiles": None if self.tiles is None else asdict(self.tiles)}
            ),
        }

    def answer(self, path: str, query: Mapping[str, str]) -> Answer:
        if path in self.routes:
            return self.routes[path](query)
        name = {"/": "index.html", "/docs": "api.html"}.get(path, path.removeprefix("/page/"))
        file = PAGE / name
        if not file.is_file() or not file.resolve().is_relative_to(PAGE):
            return problem(404, f"no {path} here")
        kept = {"Cache-Control": "max-age=600"}  # the page is the same for all tests of a file
        return Answer(file.read_bytes(), kind=TYPES.get(file.suffix, "text/plain"), headers=kept)

    def hurry(self) -> None:
        """Let pages ask every second for the forecast."""
        usual = self.routes["/v1/forecast"]

        def soon(query: Mapping[str, str]) -> Answer:
            answer = usual(query)
            answer.headers["Cache-Control"] = "max-age=1"
            return answer

        self.routes["/v1/forecast"] = soon

    def count(self, path: str, status: int = 200) -> int:
        """Return how often a path was answered with a status."""
        return sum(asked[0] == path and asked[2] == status for asked in self.asked)


def page(path: str, body: dict[str, Any], query: Mapping[str, str]) -> Answer:
    """Return a page of an answer's list, with a link to the next one."""
    name = "locations" if path.endswith("locations") else "forecasts"
    rows, limit = body[name], int(query.get("limit", len(body[name]) or 1))
    first = 0
    if "after" in query:
        first = 1 + next(n for n, row in enumerate(rows) if row["id"] == query["after"])
    part = rows[first : first + limit]
    headers = {}
    if first + limit < len(rows):
        query = {**query, "limit": str(limit), "after": part[-1]["id"]}
        headers = {"Link": f'<{path}?{urlencode(query)}>; rel="next"'}
    return Answer({**body, name: part}, headers=headers)


def problem(status: int, detail: str, **headers: str) -> Answer:
    """Return an error as the service tells it."""
    body = {"type": "about:blank", "title": "refused", "status": status, "detail": detail}
    return Answer(
        body | {"code": "refused", "id": "0"}, status, "application/problem+json", headers=headers
    )


@contextmanager
def serve(town: Town, port: int = 0) -> Iterator[Stub]:
    """Run a stub until the block ends."""
    stub = Stub(town)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or head and body wait for each other
        wbufsize = -1

        def do_GET(self) -> None:
            asked, ended = stub.asked, stub.ended  # of this test, however late the answer is
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            answer = stub.answer(url.path, query)
            body = answer.to_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            same = answer.status == 200 and self.headers.get("If-None-Match") == etag
            status = 304 if same else answer.status
            asked.append((url.path, query, status))
            ended.wait(answer.delay_seconds)
            try:
                self._send(
                    status, b"" if same else body, {"ETag": etag} | answer.headers, answer.kind
                )
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the page gave up waiting

        def _send(self, status: int, body: bytes, headers: dict[str, str], kind: str) -> None:
            self.send_response(status)
            described = {"Content-Type": kind, "Content-Length": str(len(body))}
            for name, value in (
                headers_with(stub.tiles) | {"Cache-Control": "no-cache"} | described | headers
            ).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Stay silent: tests look at what was asked."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}/"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield stub
    finally:
        stub.ended.set()
        server.shutdown()
        server.server_close()
