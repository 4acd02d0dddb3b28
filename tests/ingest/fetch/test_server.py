import socket
from typing import Any

import pytest

from forecaster.errors import ConfigError
from forecaster.ingest.fetch.server import FileServer, TransientError, send_request

SOURCE = FileServer("https://files.example/trips/{month}.parquet", frozenset({"files.example"}))
PUBLIC = "93.184.216.34"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the list of addresses that would be connected to; none is."""
    seen: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], **_: Any) -> socket.socket:
        seen.append(address)
        raise ConnectionRefusedError("tests never use the network")

    monkeypatch.setattr(socket, "create_connection", connect)
    return seen


def lead_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def visit(source: FileServer) -> None:
    with send_request(source, "HEAD", source.url.replace("{month}", "2009-01"), {}):
        pass


def test_another_host_is_then_the_only_one() -> None:
    moved = SOURCE.at("Mirror.Example.org:8443")
    assert moved.url == "https://mirror.example.org:8443/trips/{month}.parquet"
    assert moved.hosts == {"mirror.example.org:8443"}
    assert moved.schemes == {"https"}
    assert SOURCE.at("mirror.example.org:443").hosts == {"mirror.example.org"}


@pytest.mark.parametrize(
    "host",
    [
        "",
        "https://a.example",
        "a.example/path",
        "me@a.example",
        "a b",
        "a..b",
        "a\n",
        "{month}",
        "x" * 64,
        "a.example:",
        "a.example:123456",
    ],
)
def test_what_is_not_a_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host"):
        SOURCE.at(host)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 (nothing is bound to it)
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
    ],
)
def test_I18_a_name_with_one_private_address_is_refused_unconnected(
    monkeypatch: pytest.MonkeyPatch, connected: list[tuple[str, int]], address: str
) -> None:
    lead_to(monkeypatch, PUBLIC, address)
    with pytest.raises(ConfigError, match=r"refused host .* resolves to the private"):
        visit(SOURCE)
    assert connected == []


def test_I18_the_address_that_was_checked_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch, connected: list[tuple[str, int]]
) -> None:
    lead_to(monkeypatch, PUBLIC, "93.184.216.35")
    with pytest.raises(TransientError, match="the connection failed"):
        visit(SOURCE)
    assert connected == [(PUBLIC, 443), ("93.184.216.35", 443)]


def test_a_name_that_leads_nowhere_may_do_so_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(TransientError, match="Name or service not known"):
        visit(SOURCE)


def test_the_schemes_own_port_may_be_written(
    monkeypatch: pytest.MonkeyPatch, connected: list[tuple[str, int]]
) -> None:
    lead_to(monkeypatch, PUBLIC)
    written = FileServer("https://FILES.example:443/{month}", SOURCE.hosts)
    with pytest.raises(TransientError):
        visit(written)
    assert connected == [(PUBLIC, 443)]
