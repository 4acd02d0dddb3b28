import errno
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forecaster.errors import ConfigError, DataError, RunError
from forecaster.ingest.fetch import months
from forecaster.ingest.fetch.months import NYC_TAXI, download_file, download_months, parse_months
from forecaster.ingest.fetch.server import FileServer

MONTH = "2009-01"
NAME = f"trips_{MONTH}.parquet"
PAUSES = [1.0, 2.0, 4.0]
PAGE = b"\n<!DOCTYPE html><title>Sorry</title>"


def parquet_bytes(seed: int, rows: int = 5_003) -> bytes:
    sink = pa.BufferOutputStream()
    values = np.random.default_rng(seed).normal(size=rows)
    pq.write_table(pa.table({"fare": values}), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


CONTENT, NEWER = parquet_bytes(seed=2), parquet_bytes(seed=3)
HALF = len(CONTENT) // 2


@dataclass
class Asked:
    """One request that the server saw."""

    method: str
    path: str
    headers: Message


class Handler(BaseHTTPRequestHandler):
    """Answers in the manner that the first part of the path names: /truncates/trips_….parquet."""

    server: "Server"

    def do_GET(self) -> None:
        self.server.asked.append(Asked(self.command, self.path, self.headers))
        getattr(self, self.path.split("/")[1])()

    do_HEAD = do_GET  # noqa: N815 (named by http.server)

    def log_message(self, *_: object) -> None:
        pass

    @property
    def gets(self) -> int:
        """How many GET requests came so far, this one included."""
        return len(self.server.gets)

    @property
    def first_byte(self) -> int:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        fresh = self.headers.get("If-Range") == self.server.etag
        return int(wanted[1]) if wanted and fresh else 0

    def send(self, status: int, headers: dict[str, Any], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def send_file(self, until: int | None = None, length: int | None = None) -> None:
        """Send the file, or its rest; stop early if told, or give a wrong length."""
        content, start = self.server.content, self.first_byte
        length = len(content) if length is None else length
        headers = {"Content-Length": length - start, "ETag": self.server.etag}
        if start:
            headers["Content-Range"] = f"bytes {start}-{length - 1}/{length}"
        self.send(206 if start else 200, headers, content[start:until])

    def good(self) -> None:
        self.send_file()

    def truncates(self) -> None:
        self.send_file(until=HALF)

    def truncates_once(self) -> None:
        self.send_file(until=HALF if self.gets == 1 else None)

    def promises_more(self) -> None:
        self.send_file(length=len(self.server.content) + 7)

    def promises_less(self) -> None:
        self.send_file(length=len(self.server.content) - 7)

    def promises_nothing(self) -> None:
        self.send(200, {"ETag": self.server.etag}, self.server.content)

    def stalls(self) -> None:
        self.send_file(until=HALF)
        self.wfile.flush()
        if self.command == "GET":
            self.server.over.wait(timeout=9.0)

    def hangs(self) -> None:
        self.server.over.wait(timeout=9.0)

    def hangs_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def babbles(self) -> None:
        self.wfile.write(b"\x1b[31mwelcome\r\n\r\n")

    def fails(self) -> None:
        self.send(503, {"Content-Length": 0})

    def fails_once(self) -> None:
        if len(self.server.asked) == 1:
            self.fails()
        else:
            self.good()

    def lacks(self) -> None:
        self.send(404, {"Content-Length": 0})

    def forbids(self) -> None:
        self.send(403, {"Content-Length": 0})

    def refuses(self) -> None:
        self.send(400, {"Content-Length": 0})

    def shows_a_page(self) -> None:
        self.send(200, {"Content-Length": len(PAGE)}, PAGE)

    def shows_an_endless_page(self) -> None:
        self.send(200, {"Content-Length": 1 << 30}, b"\x1b[31m<html>")
        self.wfile.flush()
        self.server.over.wait(timeout=9.0 if self.command == "GET" else 0.0)

    def is_empty(self) -> None:
        self.send(200, {"Content-Length": 0})

    def is_huge(self) -> None:
        self.send(200, {"Content-Length": (2 << 30) + 1})

    def resumes_elsewhere(self) -> None:
        """Truncate at first, then answer a range with another one."""
        if self.gets == 1 or not self.first_byte:
            self.truncates_once()
            return
        size, wrong = len(self.server.content), self.first_byte - 1
        headers = {"Content-Range": f"bytes {wrong}-{size - 1}/{size}", "ETag": self.server.etag}
        self.send(206, {"Content-Length": size - wrong, **headers}, self.server.content[wrong:])

    def resumes_another_version(self) -> None:
        """Truncate at first, then send the right range of a file with another ETag."""
        if self.gets == 1 or not self.first_byte:
            self.truncates_once()
            return
        size, start = len(NEWER), self.first_byte
        headers = {"Content-Range": f"bytes {start}-{size - 1}/{size}", "ETag": '"newer"'}
        self.send(206, {"Content-Length": size - start, **headers}, NEWER[start:])

    def resumes_too_far(self) -> None:
        """Truncate at first, then send more than the rest, without a length."""
        if self.gets == 1 or not self.first_byte:
            self.truncates_once()
            return
        size, start = len(self.server.content), self.first_byte
        headers = {"Content-Range": f"bytes {start}-{size - 1}/{size}", "ETag": self.server.etag}
        self.send(206, headers, self.server.content[start:] + b"more")

    def cannot_resume(self) -> None:
        """Truncate at first, then find no range satisfiable."""
        if self.gets == 1 or not self.first_byte:
            self.truncates_once()
        else:
            self.send(416, {"Content-Length": 0})

    def ignores_ranges(self) -> None:
        del self.headers["Range"]
        self.truncates_once()

    def changes(self) -> None:
        """Truncate at first; the file is replaced by a newer one afterwards."""
        self.truncates_once()
        if self.gets == 1:
            self.server.content, self.server.etag = NEWER, '"newer"'

    def redirects(self) -> None:
        self.send(302, {"Location": self.server.location, "Content-Length": 0})


class Server(ThreadingHTTPServer):
    """Listens on this machine alone, and writes down what it is asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.content, self.etag, self.location = CONTENT, '"first"', ""
        self.over = threading.Event()

    def handle_error(self, *_: object) -> None:
        pass  # clients that leave early are what is tested

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def gets(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == "GET"]

    def source(self, manner: str) -> FileServer:
        url = f"http://{self.host}/{manner}/trips_{{month}}.parquet"
        return FileServer(url, frozenset({self.host}), frozenset({"http"}), timeout_seconds=8.0)


@pytest.fixture
def servers() -> Iterator[Callable[[], Server]]:
    """Return a function that starts a server."""
    started: list[tuple[Server, threading.Thread]] = []

    def start() -> Server:
        server = Server()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server(servers: Callable[[], Server]) -> Server:
    return servers()


@dataclass
class Fetch:
    """Fetches the test month into a folder, and writes down what it said and how it waited."""

    folder: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def __call__(self, source: FileServer, progress: Callable[[int], None] | None = None) -> Path:
        return download_file(
            source,
            MONTH,
            self.folder,
            progress=progress,
            say=self.said.append,
            sleep=self.slept.append,
        )

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    return Fetch(tmp_path / "months")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the list of every address that is connected to from now on."""
    seen: list[tuple[str, int]] = []
    real = socket.create_connection

    def connect(address: tuple[str, int], *args: Any, **options: Any) -> socket.socket:
        assert address[0] == "127.0.0.1", "tests never use the network"
        seen.append(address)
        return real(address, *args, **options)

    monkeypatch.setattr(socket, "create_connection", connect)
    return seen


def test_a_range_of_months_includes_both_ends() -> None:
    assert parse_months("2009-11:2010-02") == ["2009-11", "2009-12", "2010-01", "2010-02"]
    assert len(parse_months("2009-01:2016-06")) == 90
    assert parse_months("2009-01") == ["2009-01"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "2009-01:",
        "2009-13",
        "2009-00:2009-02",
        "2009-1:2009-2",
        "2009-01:2009-02:2009-03",
        "2009-01-01:2009-02-01",
        "٢٠٠٩-٠١",
        "2009-01\n",
        "2010-01:2009-12",
    ],
)
def test_what_is_not_a_range_of_months_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--months"):
        parse_months(text)


def test_a_month_that_could_leave_the_folder_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a month"):
        download_file(server.source("good"), "/../../x", tmp_path)
    assert not server.asked


def test_the_commands_source_is_https_on_one_host() -> None:
    assert NYC_TAXI.schemes == {"https"}
    assert NYC_TAXI.hosts == {"d37ci6vzurychx.cloudfront.net"}
    assert NYC_TAXI.url.startswith("https://d37ci6vzurychx.cloudfront.net/trip-data/yellow_")


def test_months_arrive_whole_and_in_order(server: Server, tmp_path: Path) -> None:
    came: list[int] = []
    folder = tmp_path / "new" / "folder"
    paths = download_months(
        server.source("good"), ["2009-01", "2009-02"], folder, progress=came.append
    )
    assert [path.name for path in paths] == [NAME, "trips_2009-02.parquet"]
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    assert set(folder.iterdir()) == set(paths)
    assert sum(came) == 2 * len(CONTENT)


def test_a_whole_file_is_not_fetched_again(server: Server, fetch: Fetch) -> None:
    for _ in range(3):
        assert fetch(server.source("good")).read_bytes() == CONTENT
    assert len(server.gets) == 1
    assert fetch.said[1:] == [f"{NAME}: already downloaded"] * 2


@pytest.mark.parametrize("old", [CONTENT[:-4] + b"PARX", parquet_bytes(5, rows=307), b""])
def test_a_file_that_is_damaged_or_of_another_size_is_replaced(
    server: Server, fetch: Fetch, old: bytes
) -> None:
    fetch.folder.mkdir()
    (fetch.folder / NAME).write_bytes(old)
    assert fetch(server.source("good")).read_bytes() == CONTENT
    assert fetch.left == {NAME}


def test_I5_a_truncated_download_is_refused_and_nothing_gets_the_name(
    server: Server, fetch: Fetch
) -> None:
    what = rf"file {NAME}: truncated \(have {HALF:,}, expected {len(CONTENT):,} bytes\)"
    with pytest.raises(DataError, match=what):
        fetch(server.source("truncates"))
    assert NAME not in fetch.left
    assert fetch.slept == PAUSES


def test_I5_a_file_cut_anywhere_is_refused_and_the_old_one_stays(
    server: Server, fetch: Fetch, rounds: Callable[[int, int], int]
) -> None:
    fetch.folder.mkdir()
    (fetch.folder / NAME).write_bytes(b"old")
    cuts = rounds(8, 64)
    for part in range(cuts):
        server.content = CONTENT[: part * len(CONTENT) // cuts]
        with pytest.raises(DataError, match=r"truncated|damaged|not a Parquet file"):
            fetch(server.source("good"))
        assert fetch.left == {NAME}
        assert (fetch.folder / NAME).read_bytes() == b"old"


def test_I5_a_footer_that_cannot_be_read_is_refused(server: Server, fetch: Fetch) -> None:
    server.content = CONTENT[:-60] + bytes(52) + CONTENT[-8:]
    with pytest.raises(DataError, match="footer cannot be read"):
        fetch(server.source("good"))
    assert fetch.left == set()


def test_a_truncated_download_goes_on_where_it_ended(server: Server, fetch: Fetch) -> None:
    came: list[int] = []
    assert fetch(server.source("truncates_once"), came.append).read_bytes() == CONTENT
    assert sum(came) == len(CONTENT)  # no byte came twice
    assert server.gets[1].headers["Range"] == f"bytes={HALF}-"
    assert server.gets[1].headers["If-Range"] == '"first"'
    assert fetch.left == {NAME}


class Killed(BaseException):
    pass


def test_a_killed_download_goes_on_and_gives_the_same_bytes(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(months, "CHUNK_BYTES", 4_099)
    came: list[int] = []

    def kill_at_third(count: int) -> None:
        came.append(count)
        if len(came) % 3 == 0:
            raise Killed

    kills = 0
    while NAME not in fetch.left:
        try:
            fetch(server.source("good"), kill_at_third)
        except Killed:
            kills += 1
            assert fetch.left == {f"{NAME}.partial", f"{NAME}.partial.etag"}
    assert kills > 2
    assert (fetch.folder / NAME).read_bytes() == CONTENT
    assert sum(came) == len(CONTENT)  # no byte came twice
    assert fetch.left == {NAME}


def test_a_download_killed_after_its_last_byte_needs_no_other(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(pq, "read_metadata", kill)
        with pytest.raises(Killed):
            fetch(server.source("good"))
    assert NAME not in fetch.left
    assert fetch(server.source("good")).read_bytes() == CONTENT
    assert len(server.gets) == 1


@pytest.mark.parametrize("etag", ["", 'W/"weak"', '"a\x01b"'])
def test_without_a_strong_etag_a_download_begins_afresh(
    server: Server, fetch: Fetch, etag: str
) -> None:
    server.etag = etag
    assert fetch(server.source("truncates_once")).read_bytes() == CONTENT
    assert all("Range" not in asked.headers for asked in server.gets)


def test_a_partial_file_of_unknown_origin_is_not_trusted(server: Server, fetch: Fetch) -> None:
    fetch.folder.mkdir()
    (fetch.folder / f"{NAME}.partial").write_bytes(NEWER[:HALF])
    (fetch.folder / f"{NAME}.partial.etag").write_bytes(b"\xff\r\nX-Evil: 1")
    assert fetch(server.source("good")).read_bytes() == CONTENT
    assert fetch.left == {NAME}


def test_a_partial_file_that_is_too_long_is_not_trusted(server: Server, fetch: Fetch) -> None:
    fetch.folder.mkdir()
    (fetch.folder / f"{NAME}.partial").write_bytes(CONTENT + CONTENT)
    (fetch.folder / f"{NAME}.partial.etag").write_text(server.etag)
    assert fetch(server.source("good")).read_bytes() == CONTENT


def test_I19_an_error_page_is_named_and_not_retried(server: Server, fetch: Fetch) -> None:
    with pytest.raises(DataError, match=r"not a Parquet file \(starts with <!DOCTYPE\)"):
        fetch(server.source("shows_a_page"))
    assert fetch.slept == []
    assert fetch.left == set()


def test_I19_what_is_not_parquet_is_refused_by_its_first_bytes(
    server: Server, fetch: Fetch
) -> None:
    with pytest.raises(DataError, match=r"starts with \\x1b\[31m<html>") as caught:
        fetch(server.source("shows_an_endless_page"))
    assert str(caught.value).isprintable()


def test_I19_an_empty_answer_is_refused(server: Server, fetch: Fetch) -> None:
    with pytest.raises(DataError, match="starts with nothing"):
        fetch(server.source("is_empty"))
    assert fetch.left == set()


def test_I19_a_length_that_promises_more_is_a_truncation(server: Server, fetch: Fetch) -> None:
    size = len(CONTENT)
    with pytest.raises(DataError, match=rf"have {size:,}, expected {size + 7:,} bytes"):
        fetch(server.source("promises_more"))
    assert NAME not in fetch.left


def test_I19_a_length_that_promises_less_is_found_by_the_footer(
    server: Server, fetch: Fetch
) -> None:
    with pytest.raises(DataError, match="without the Parquet footer"):
        fetch(server.source("promises_less"))
    assert fetch.left == set()


def test_I19_a_file_without_a_length_is_refused(server: Server, fetch: Fetch) -> None:
    with pytest.raises(DataError, match="no valid length"):
        fetch(server.source("promises_nothing"))
    assert server.gets == []


def test_I19_a_huge_file_is_refused_before_a_byte_of_it_is_fetched(
    server: Server, fetch: Fetch
) -> None:
    with pytest.raises(DataError, match=r"too large \(2,147,483,649 bytes, limit 2,147,483,648\)"):
        fetch(server.source("is_huge"))
    assert server.gets == []


def test_I19_a_server_that_hangs_is_left_after_three_retries(server: Server, fetch: Fetch) -> None:
    with pytest.raises(RunError, match=r"no bytes received for 0\.2 s; check the network"):
        fetch(replace(server.source("hangs"), timeout_seconds=0.2))
    assert fetch.slept == PAUSES
    assert fetch.left == set()


def test_I19_a_stall_ends_the_download_and_keeps_what_came(server: Server, fetch: Fetch) -> None:
    with pytest.raises(
        RunError, match=r"no bytes received for 0\.2 s; .* received bytes are kept"
    ):
        fetch(replace(server.source("stalls"), timeout_seconds=0.2))
    assert fetch.slept == PAUSES
    assert (fetch.folder / f"{NAME}.partial").read_bytes() == CONTENT[:HALF]
    assert NAME not in fetch.left


@pytest.mark.parametrize("manner", ["hangs_up", "babbles"])
def test_I19_a_broken_connection_is_left_after_three_retries(
    server: Server, fetch: Fetch, manner: str
) -> None:
    with pytest.raises(RunError, match="the connection failed") as caught:
        fetch(server.source(manner))
    assert fetch.slept == PAUSES
    assert str(caught.value).isprintable()


def test_I19_a_server_that_fails_once_is_asked_again(server: Server, fetch: Fetch) -> None:
    assert fetch(server.source("fails_once")).read_bytes() == CONTENT
    assert fetch.slept == [1.0]
    assert fetch.said[0].endswith("the server failed (status 503); trying again in 1 s")


def test_I19_a_server_that_always_fails_is_asked_four_times(server: Server, fetch: Fetch) -> None:
    with pytest.raises(RunError, match="status 503"):
        fetch(server.source("fails"))
    assert fetch.slept == PAUSES
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    "manner", ["resumes_elsewhere", "resumes_another_version", "cannot_resume", "ignores_ranges"]
)
def test_I19_a_bad_resume_begins_afresh(server: Server, fetch: Fetch, manner: str) -> None:
    assert fetch(server.source(manner)).read_bytes() == CONTENT
    assert server.gets[1].headers["If-Range"] == '"first"'
    assert fetch.left == {NAME}


def test_I19_bytes_after_the_end_of_the_file_are_not_taken(server: Server, fetch: Fetch) -> None:
    assert fetch(server.source("resumes_too_far")).read_bytes() == CONTENT
    assert len(server.gets) == 2


def test_I19_two_versions_of_a_file_are_never_mixed(server: Server, fetch: Fetch) -> None:
    assert fetch(server.source("changes")).read_bytes() == NEWER
    assert fetch.left == {NAME}


@pytest.mark.parametrize("manner", ["lacks", "forbids"])
def test_a_month_that_is_not_there_is_named_and_not_retried(
    server: Server, fetch: Fetch, manner: str
) -> None:
    with pytest.raises(DataError, match="2009-01 may not be published: check --months"):
        fetch(server.source(manner))
    assert fetch.slept == []


def test_other_refusals_of_the_server_are_not_retried(server: Server, fetch: Fetch) -> None:
    with pytest.raises(DataError, match="status 400 instead of 200"):
        fetch(server.source("refuses"))
    assert fetch.slept == []


def test_I18_a_redirect_within_the_allowed_host_is_followed(server: Server, fetch: Fetch) -> None:
    server.location = f"/good/{NAME}?version=1"
    assert fetch(server.source("redirects")).read_bytes() == CONTENT
    assert server.asked[1].path == server.location


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/x",
        "http://192.168.1.1/x",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/x",
        "http://0x7f000001/x",
        "http://localhost/x",
        "//example.org/x",
        "file:///etc/passwd",
        "ftp://{host}/x",
        "https://{host}/good/x",
        "http://{other}/good/x",
        "http://{host}@{other}/good/x",
        "http://user:secret@{host}/good/x",
        "http://{host}:70000/x",
        "http://[::1/x",
        "/good/a b",
        "/good/\xe9",
    ],
)
def test_I18_a_redirect_elsewhere_is_refused_unconnected(
    servers: Callable[[], Server], fetch: Fetch, connected: list[tuple[str, int]], location: str
) -> None:
    server, other = servers(), servers()
    server.location = location.format(host=server.host, other=other.host)
    with pytest.raises(DataError, match=r"refused host|not a URL") as caught:
        fetch(server.source("redirects"))
    assert "secret" not in str(caught.value)
    assert connected == [("127.0.0.1", server.server_port)]
    assert other.asked == []
    assert fetch.left == set()


def test_I18_a_name_that_leads_to_a_private_address_is_refused_unconnected(
    server: Server, fetch: Fetch, connected: list[tuple[str, int]]
) -> None:
    name = f"localhost:{server.server_port}"
    server.location = f"http://{name}/good/{NAME}"
    source = server.source("redirects")
    with pytest.raises(DataError, match="refused host 'localhost': it resolves to the private"):
        fetch(replace(source, hosts=source.hosts | {name}))
    assert connected == [("127.0.0.1", server.server_port)]


def test_I18_plain_http_is_refused_where_https_is_needed(
    server: Server, fetch: Fetch, connected: list[tuple[str, int]]
) -> None:
    secure = replace(server.source("good"), schemes=frozenset({"https"}))
    with pytest.raises(ConfigError, match=r"scheme 'http', need https"):
        fetch(secure)
    assert connected == []


def test_I18_a_redirect_from_https_to_plain_http_is_refused(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", lambda _, plain, **__: plain)
    server.location = f"http://{server.host}/good/{NAME}"
    url = server.source("redirects").url.replace("http:", "https:")
    with pytest.raises(DataError, match=r"scheme 'http', need https"):
        fetch(FileServer(url, frozenset({server.host})))
    assert len(server.asked) == 1


def test_I18_https_is_spoken_in_earnest(server: Server, fetch: Fetch) -> None:
    url = server.source("good").url.replace("http:", "https:")
    with pytest.raises(RunError, match=r"the connection failed \(.*SSL"):
        fetch(FileServer(url, frozenset({server.host})))
    assert server.gets == []


def test_I18_redirects_without_end_are_left(server: Server, fetch: Fetch) -> None:
    server.location = f"/redirects/{NAME}"
    with pytest.raises(DataError, match="more than 5 redirects"):
        fetch(server.source("redirects"))
    assert len(server.asked) == 6


def test_I18_proxies_of_the_environment_are_not_used(
    servers: Callable[[], Server], fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, proxy = servers(), servers()
    monkeypatch.setenv("http_proxy", f"http://{proxy.host}")
    assert fetch(server.source("good")).read_bytes() == CONTENT
    assert proxy.asked == []


def test_a_disk_that_fails_is_named_and_nothing_gets_the_name(
    server: Server, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match="No space left on device"):
            fetch(server.source("good"))
    assert fetch.slept == []
    assert NAME not in fetch.left


def test_a_folder_that_is_a_file_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "months").write_bytes(b"")
    with pytest.raises(RunError, match="cannot be written"):
        download_file(server.source("good"), MONTH, tmp_path / "months")
