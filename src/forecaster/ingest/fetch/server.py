"""A server of monthly files: the only code that opens network connections.

Each URL, also of a redirect, is checked before a connection is opened: its scheme, its host
against the allowed hosts, and the resolved addresses. Proxies are not used. Neither pooch nor
httpx resumes a file by its ETag or checks the resolved address before it connects.
"""

import contextlib
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from forecaster.errors import ConfigError, DataError, ForecasterError, RunError

MAX_REDIRECTS = 5
REDIRECTS = {301, 302, 303, 307, 308}
PORTS = {"http": 80, "https": 443}
HEADERS = {"User-Agent": "forecaster", "Accept-Encoding": "identity", "Connection": "close"}

_HOST = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*(:[0-9]{1,5})?")


@dataclass(frozen=True)
class FileServer:
    """The server of monthly files, and the hosts that may be connected to."""

    url: str  # {month} stands for 2009-01
    hosts: frozenset[str]  # `name`, or `name:port` for a port other than the scheme's default
    schemes: frozenset[str] = frozenset({"https"})
    timeout_seconds: float = 30.0  # to connect, and for each read

    def at(self, host: str) -> "FileServer":
        """Return the server of these files on another host, the only one then allowed."""
        name = host.lower()
        if not _HOST.fullmatch(name):
            message = f"--host {host!r} is not a host; give a name such as mirror.example.org"
            raise ConfigError(f"{message}, without https:// and without a path")
        parts = urlsplit(self.url)
        name = name.removesuffix(f":{PORTS[parts.scheme]}")
        return replace(self, url=parts._replace(netloc=name).geturl(), hosts=frozenset({name}))


class TransientError(Exception):
    """A failure that a retry may resolve; `final` is raised after the last retry."""

    def __init__(self, kind: type[ForecasterError], message: str, remedy: str) -> None:
        super().__init__(message)
        self.final = kind(f"{message}; {remedy}")


@contextlib.contextmanager
def send_request(
    source: FileServer, method: str, url: str, headers: Mapping[str, str]
) -> Iterator[HTTPResponse]:
    """Yield the response, after redirects that are checked like the first URL."""
    refusal: type[ForecasterError] = ConfigError  # the first URL comes from the caller
    target = url
    for _ in range(MAX_REDIRECTS + 1):
        with contextlib.closing(_connect(source, target, refusal)) as connection:
            with connection_errors(source, target):
                connection.request(method, _path_of(target), headers={**HEADERS, **headers})
                response = connection.getresponse()
            with response:
                location = response.getheader("Location")
                if response.status not in REDIRECTS or location is None:
                    yield response
                    return
        target, refusal = _join(target, location), DataError
    message = f"{url}: more than {MAX_REDIRECTS} redirects"
    raise DataError(f"{message}; try later, or give another --host")


@contextlib.contextmanager
def connection_errors(source: FileServer, url: str) -> Iterator[None]:
    """Raise connection failures as transient errors."""
    remedy = "check the network and run the same command again; received bytes are kept"
    try:
        yield
    except TimeoutError as error:
        failure = f"{url}: no bytes received for {source.timeout_seconds:g} s"
        raise TransientError(RunError, failure, remedy) from error
    except (OSError, HTTPException) as error:
        reason = ascii(str(error) or type(error).__name__)[1:-1]  # may be the server's text
        failure = f"{url}: the connection failed ({reason})"
        raise TransientError(RunError, failure, remedy) from error


def _connect(source: FileServer, url: str, refusal: type[ForecasterError]) -> HTTPConnection:
    """Return a connection to an address that was checked."""
    parts = _split_allowed(source, url, refusal)
    host, port = str(parts.hostname), _port_of(parts)
    addresses = _addresses(source, url, refusal)
    with connection_errors(source, url):
        plain = _open_first(addresses, port, source.timeout_seconds)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection: HTTPConnection = HTTPSConnection(host, port, context=context)
            connection.sock = context.wrap_socket(plain, server_hostname=host)
        else:
            connection = HTTPConnection(host, port)
            connection.sock = plain
    connection.auto_open = 0  # reconnecting would resolve the name again, without the check
    return connection


def _open_first(addresses: list[str], port: int, wait: float) -> socket.socket:
    """Return a socket to the first address that accepts a connection."""
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return socket.create_connection((address, port), timeout=wait)
    return socket.create_connection((addresses[-1], port), timeout=wait)


def _split_allowed(source: FileServer, url: str, refusal: type[ForecasterError]) -> SplitResult:
    """Return the parts of a URL that the source allows; refuse any other."""
    try:
        parts = urlsplit(url)
        port = _port_of(parts)
    except ValueError as error:
        raise refusal(f"refused host: not an address ({error}); check --host") from error
    is_default_port = port == PORTS.get(parts.scheme)
    name = str(parts.hostname) if is_default_port else f"{parts.hostname}:{port}"
    if "@" in parts.netloc:
        fault = "the URL contains credentials"  # not shown in the message
    elif parts.scheme not in source.schemes:
        fault = f"scheme {parts.scheme!r}, need {' or '.join(sorted(source.schemes))}"
    elif name not in source.hosts:
        fault = f"need {' or '.join(sorted(source.hosts))}"
    elif not url.isascii() or not url.isprintable() or " " in url:
        fault = f"{url!r} has characters that are not allowed in a URL"
    else:
        return parts
    remedy = "no connection was made. Give a host that you trust with --host"
    raise refusal(f"refused host {name!r}: {fault}; {remedy}")


def _port_of(parts: SplitResult) -> int:
    return parts.port or PORTS.get(parts.scheme, 0)


def _addresses(source: FileServer, url: str, refusal: type[ForecasterError]) -> list[str]:
    """Resolve a host name; names that resolve to a private network are refused."""
    parts = urlsplit(url)
    with connection_errors(source, url):
        entries = socket.getaddrinfo(parts.hostname, _port_of(parts), type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    private = [address for address in addresses if not _is_public(address)]
    if private and parts.hostname not in addresses:  # allowed as an address
        message = f"refused host {parts.hostname!r}: it resolves to the private {private[0]}"
        raise refusal(f"{message}; no connection was made; give a host with a public address")
    return addresses


def _is_public(address: str) -> bool:
    number = ipaddress.ip_address(address)
    return number.is_global and not number.is_multicast


def _path_of(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def _join(url: str, location: str) -> str:
    """Return the target of a redirect."""
    try:
        return urljoin(url, location)
    except ValueError as error:
        message = f"{url}: redirected to {location!r}, which is not a URL"
        raise DataError(f"{message}; try later, or give another --host") from error
