"""Connections end in time, and refusals cost little."""

import socket
import threading
import time
from collections.abc import Callable
from unittest.mock import MagicMock

import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.http import connection
from forecaster.serve.http.connection import MAX_COSTLY
from tests.serve.client import TOKEN
from tests.serve.conftest import Running


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the deadline be short."""
    monkeypatch.setattr(connection, "RECEIVE_SECONDS", 0.6)


def drip(port: int, data: tuple[bytes, bytes], ended: list[float]) -> None:
    """Send something at once, then a byte at a time until the other side has enough."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 20) as peer:
        try:
            peer.sendall(data[0])
            for byte in data[1]:
                peer.sendall(bytes([byte]))
                time.sleep(0.05)
            peer.recv(4096)
        except ConnectionError:
            pass
    ended.append(time.monotonic() - began)


HEAD = f"POST /v1/observations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
TYPE = "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n"
SLOW = {
    "headers": (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 500),
    "body": (f"{HEAD}{TYPE}".encode(), b"x" * 400),
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("what", SLOW)
def test_V6_a_slow_client_is_closed_and_others_are_served(
    shared_service: Running, what: str, rounds: Callable[[int, int], int]
) -> None:
    ended: list[float] = []
    slow = [
        threading.Thread(target=drip, args=(int(shared_service.port), SLOW[what], ended))
        for _ in range(rounds(13, 500))
    ]
    for thread in slow:
        thread.start()
    while any(thread.is_alive() for thread in slow):
        assert shared_service.get("/livez").status == 200
    assert len(ended) == len(slow)
    assert shared_service.get("/livez").status == 200


@pytest.mark.usefixtures("hasty")
def test_V6_who_says_nothing_is_closed(shared_service: Running) -> None:
    with socket.create_connection(("127.0.0.1", int(shared_service.port)), 20) as peer:
        answer = peer.recv(4096)
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.usefixtures("hasty")
def test_V6_a_connection_that_is_kept_gets_a_deadline_for_each_request(
    shared_service: Running,
) -> None:
    whole = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(shared_service.port)), 20) as peer:
        for _ in range(3):
            peer.sendall(whole)
            answer = peer.recv(4096)
            while not answer.endswith(b'"alive"}'):
                part = peer.recv(4096)
                assert part
                answer += part
            time.sleep(0.3)
        peer.sendall(whole[:20])
        assert peer.recv(4096).startswith(b"HTTP/1.1 408")


def test_a_silent_connection_makes_room_for_a_new_one(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.server.config.http_protocol_class, "room", 5)
    silent = [socket.create_connection(("127.0.0.1", int(service.port)), 5) for _ in range(9)]
    for _ in range(5):
        assert service.get("/livez").status == 200
    for peer in silent:
        peer.close()


def test_V7_a_full_queue_refuses_at_once_and_recovers(service: Running, panel: Panel) -> None:
    service.server.connection.limit = 0
    at = f"/v1/forecast?at={panel.times[-30]}Z"
    reply = service.get(at)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.json["code"] == "busy"
    assert service.get("/v1/forecast").status in (200, 503)
    assert service.get("/livez").status == 200
    service.server.connection.limit = MAX_COSTLY
    assert service.get(at).status == 200
    assert "forecaster_refused_total 1" in service.get("/metrics").body.decode()


def test_a_refused_connection_goes_on(service: Running, panel: Panel) -> None:
    service.server.connection.limit = 0
    ask = f"GET /v1/forecast?at={panel.times[-31]}Z HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", int(service.port)), 20) as peer:
        for _ in range(3):
            peer.sendall(ask)
            assert peer.recv(4096).startswith(b"HTTP/1.1 503")
        service.server.connection.limit = MAX_COSTLY
        peer.sendall(ask)
        assert peer.recv(65536).startswith(b"HTTP/1.1 200")


class Hour:
    """A loop whose time a test sets, and whose timers it rings."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[tuple[float, Callable[[], None]]]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[[], None]) -> MagicMock:
        self.timers.append((self.now + seconds, act))
        return MagicMock()


def test_a_refused_connection_is_kept_for_as_long_as_it_asks(shared_service: Running) -> None:
    server, hour = shared_service.server, Hour()
    peer = server.connection(server.config, server.server_state, {}, hour)  # type: ignore[arg-type]
    peer.transport = MagicMock()
    peer.transport.is_closing.return_value = False
    for hour.now in (0.0, 1.0, 4.0):
        peer._refuse()
    assert peer.transport.write.call_count == 3
    ((rings, act),) = hour.timers  # one for all three
    hour.now = rings
    act()
    assert not peer.transport.close.called
    hour.now, act = hour.timers[1]
    assert hour.now == 4.0 + server.config.timeout_keep_alive
    act()
    assert peer.transport.close.called


HALF = b"GET /livez HTTP/1.1\r\nX-A: "  # what follows is the header's value
COSTLY = b"GET /v1/forecast?at= HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_V19_a_refusal_answers_no_half_of_a_request(service: Running) -> None:
    service.server.connection.limit = 0
    with socket.create_connection(("127.0.0.1", int(service.port)), 5) as peer:
        peer.sendall(HALF)
        time.sleep(0.2)  # for two packets
        peer.sendall(COSTLY)
        answer = b"".join(iter(lambda: peer.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(b'{"status":"alive"}')


def test_V19_lines_that_end_otherwise_hide_no_request(service: Running) -> None:
    service.server.connection.limit = 0
    first = b"GET /v1/forecast?at= HTTP/1.1\nHost: x\n\n"
    last = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert service.raw(first + last, 5.0).count(b"HTTP/1.1 ") == 2


def test_two_requests_in_one_packet_are_both_answered(shared_service: Running) -> None:
    one = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert shared_service.raw(one + last).count(b"HTTP/1.1 200 OK") == 2


def test_A6_pipelined_forecasts_are_counted_like_others(service: Running, panel: Panel) -> None:
    service.server.connection.limit = 0
    asks = [
        f"GET /v1/forecast{q} HTTP/1.1\r\nHost: x\r\n" for q in (f"?at={panel.times[-30]}Z", "")
    ]
    raw = "\r\n".join([asks[0], asks[1], asks[0], asks[1] + "Connection: close\r\n", ""]).encode()
    answers = service.raw(raw)
    assert answers.count(b"HTTP/1.1 503") == 4
    assert answers.count(b'"code":"busy"') + answers.count(b'"code": "busy"') == 4
    service.server.connection.limit = MAX_COSTLY
    assert service.raw(raw).count(b"HTTP/1.1 200") == 4
    assert not service.server.connection.admitted


def test_A6_headers_of_many_bytes_are_refused_even_in_one_packet(shared_service: Running) -> None:
    raw = b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n"
    reply = shared_service.first(raw)
    assert reply.status in {400, 431}
    raw = raw.replace(b"x" * 40_000, b"x" * 32_000)
    assert (
        shared_service.first(raw.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).status
        == 200
    )


@pytest.mark.parametrize("path", ["/v1/forecast/", "/livez/", "/v1/locations/", "//evil/.."])
def test_A6_the_name_that_a_client_calls_is_not_repeated(
    shared_service: Running, path: str
) -> None:
    raw = f"GET {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode()
    answer = shared_service.raw(raw)
    assert b"evil.example" not in answer
    assert answer.startswith(b"HTTP/1.1 404")


ODD = [
    b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 10_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 1_000_000 + b"\r\n\r\n",
    b"POST /v1/covariates HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"POST /v1/observations HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/observations HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
    b"POST /v1/observations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"POST /v1/observations HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n",
]


@pytest.mark.parametrize("raw", ODD, ids=range(len(ODD)))
def test_V19_what_is_no_request_is_refused(shared_service: Running, raw: bytes) -> None:
    reply = shared_service.first(raw)  # another refusal may follow
    assert 400 <= reply.status < 500
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["code"]
    assert reply.json["status"] == reply.status
    assert shared_service.get("/livez").status == 200


def test_V19_length_and_chunks_cannot_smuggle_a_request(shared_service: Running) -> None:
    for method, path in (("GET", "/livez"), ("POST", "/v1/observations")):
        raw = (
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\n"
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
            "2\r\n{}\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        ).encode()
        answer = shared_service.raw(raw, 3.0)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b'"two_lengths"' in answer
        assert answer.count(b"HTTP/1.1 ") == 1


def test_V19_ranges_are_ignored(shared_service: Running) -> None:
    ranges = "bytes=" + ",".join(f"{n}-" for n in range(5_000))
    reply = shared_service.get("/v1/locations", Range=ranges)
    assert reply.status == 200
    assert "content-range" not in reply.headers


def test_websockets_are_not_spoken(shared_service: Running) -> None:
    reply = shared_service.get(
        "/", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Key="x"
    )
    assert reply.status < 500
