"""What stands before every request."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.limits import HEADERS, MAX_BODY_BYTES
from forecaster.serve.http.settings import HttpSettings
from tests.serve.client import TOKEN
from tests.serve.conftest import Running

HEAD = f"POST /v1/observations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
HEAD += "Content-Type: application/json\r\n"


def test_every_answer_carries_the_headers(shared_service: Running) -> None:
    for path in ("/", "/v1/forecast", "/nowhere", "/v1/forecast?at=x", "/livez", "/metrics"):
        reply = shared_service.get(path)
        for name, value in HEADERS.items():
            assert reply.headers[name.lower()] == value
        assert len(reply.headers["x-request-id"]) == 16
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("chunked", [False, True])
def test_V5_a_gigabyte_is_refused_early(shared_service: Running, chunked: bool) -> None:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {10**9}"
    block = b"x" * 65536
    part = b"10000\r\n" + block + b"\r\n" if chunked else block
    before, began, sent = resident_bytes(), time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", int(shared_service.port)), 10) as peer:
        peer.sendall(f"{HEAD}{length}\r\n\r\n".encode())
        peer.setblocking(False)
        answer = b""
        while sent < 10**9 and not answer and time.monotonic() - began < 10:
            try:
                sent += peer.send(part)
            except BlockingIOError:
                time.sleep(0.001)
            except ConnectionError:
                break
            try:
                answer += peer.recv(4096)
            except BlockingIOError:
                pass
            except ConnectionError:
                break
        with suppress(ConnectionError, TimeoutError):  # the rest of it
            peer.settimeout(2)
            while part := peer.recv(4096):
                answer += part
    assert answer.startswith(b"HTTP/1.1 413")
    assert resident_bytes() - before < 50 << 20
    buffers = 16 << 20  # what two sockets of this machine may hold between them
    assert sent < MAX_BODY_BYTES + buffers


def test_V5_packed_bodies_are_refused(shared_service: Running) -> None:
    for coding in ("gzip", "deflate", "br", "gzip, identity", "zstd"):
        reply = shared_service.post("/v1/observations", b"{}", Content_Encoding=coding)
        assert (reply.status, reply.json["code"]) == (415, "encoded")


def test_a_body_at_the_limit_is_read(shared_service: Running) -> None:
    body = b" " * (MAX_BODY_BYTES - 2) + b"{}"
    reply = shared_service.post("/v1/observations", body)
    assert (reply.status, reply.json["code"]) == (422, "invalid")
    # Its length alone is sent: whoever sends on is cut off, maybe before they read the answer.
    head = f"POST /v1/observations HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body) + 1}\r\n\r\n"
    assert shared_service.raw(head.encode()).startswith(b"HTTP/1.1 413")


PATHS = [
    "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "..%5c..%5cwindows", "%2e%2e/%2e%2e/etc/passwd",
    "%00", "index.html%00.js", "....//....//etc/passwd", "%c0%ae%c0%ae/etc/passwd", "/etc/passwd",
    "file:///etc/passwd", "http://127.0.0.1:1/", "＼..＼..", "%ef%bc%8e%ef%bc%8e/x", "..;/x",
    "app.py", "../app.py", "./app.py", "page/../../app.py", "~root", "C:%5c", "%252e%252e%252f",
]  # fmt: skip


def test_V11_no_path_of_a_client_is_opened(shared_service: Running) -> None:
    for path in PATHS:
        for route in ("/page/", "/", "/v1/", "/v1/history/"):
            raw = f"GET {route}{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
            answer = shared_service.raw(raw, 5.0)
            assert answer[:12] in (b"HTTP/1.1 404", b"HTTP/1.1 400"), (route, path)
            assert b"root:" not in answer
            assert b"import " not in answer


def test_V11_ids_are_looked_up_and_nothing_else(shared_service: Running) -> None:
    for path in PATHS:
        quoted = path.encode().decode("latin-1").encode("ascii", "ignore").decode()
        for route in ("/v1/history?location=", "/v1/forecast?location=", "/v1/forecast?at="):
            assert shared_service.get(route + quoted).status in (422, 400), (route, path)


def test_V20_answers_tell_nothing_of_the_inside(
    service: Running, panel: Panel, caplog: pytest.LogCaptureFixture
) -> None:
    service.engine.data.find_origin = lambda _: 1 // 0  # type: ignore[method-assign]
    reply = service.get(f"/v1/forecast?at={panel.times[-1]}Z")
    assert (reply.status, reply.json["code"]) == (500, "fault")
    assert reply.json["id"] in caplog.text  # where the stack is
    assert "ZeroDivisionError" in caplog.text
    for inside in (b"Traceback", b"ZeroDivision", b".py", b"/work", b"site-packages"):
        assert inside not in reply.body


def test_V20_logs_hold_no_token_and_no_line_of_a_client(
    service: Running, caplog: pytest.LogCaptureFixture
) -> None:
    service.engine.data.closed_steps = lambda: 1 // 0  # type: ignore[method-assign]
    for path in ("/readyz%0aINFO%20forged", "/readyz?x=%0d%0aforged", "/readyz"):
        service.get(path, Authorization=f"Bearer {TOKEN}", X_Odd="forged")
    service.raw(b"GET /\nforged HTTP/1.1\r\nHost: forged\r\n\r\n", 2.0)
    service.post("/v1/observations", b'{"forged\\nforged": 1}')
    assert caplog.records
    assert TOKEN not in caplog.text
    assert not [line for line in caplog.text.splitlines() if line.startswith(("forged", "INFO f"))]


def test_a_service_answers_only_by_the_names_it_is_called(
    engine: Engine, start: Callable[..., Running]
) -> None:
    service = start(engine, HttpSettings(hosts=frozenset({"forecasts.example.org", "[::1]"})))
    for host in ("forecasts.example.org", "Forecasts.example.org:8443", "[::1]:8000"):
        assert service.get("/v1/locations", Host=host).status == 200, host
    for host in ("127.0.0.1", "example.org", "forecasts.example.org.evil.example", "[::1", ""):
        refused = service.get("/v1/locations", Host=host)
        assert (refused.status, refused.json["code"]) == (421, "wrong_host"), host
    assert service.get("/livez", Host="10.0.0.7").status == 200  # probes know no name
