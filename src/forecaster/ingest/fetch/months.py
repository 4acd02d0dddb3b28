"""Downloads of monthly trip files that resume after an interruption.

A file is `NAME.partial` until it is complete and its Parquet footer can be read; then it is
renamed. An interrupted download continues if the server still has the same version of the file.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path, PurePosixPath
from typing import NoReturn
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.errors import ConfigError, DataError, RunError
from forecaster.ingest.fetch.partial_file import PartialFile, open_partial
from forecaster.ingest.fetch.server import (
    FileServer,
    TransientError,
    connection_errors,
    send_request,
)
from forecaster.publish.manifest import CHUNK_BYTES, Progress

# The TLC's yellow cabs. Files of 2009 and 2010 carry coordinates, later ones zone ids instead.
NYC_TAXI = FileServer(
    "https://d37ci6vzurychx.cloudfront.net/trip-data/yellow_tripdata_{month}.parquet",
    hosts=frozenset({"d37ci6vzurychx.cloudfront.net"}),
)

MAX_FILE_BYTES = 2 << 30
BACK_OFF_SECONDS = (1.0, 2.0, 4.0)  # before each retry
PARQUET_MAGIC = b"PAR1"  # at both ends of a file
NOT_PUBLISHED = {403, 404, 410}  # 403: missing, where listing is not allowed

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_MONTHS = re.compile(rf"{_MONTH.pattern}(?::{_MONTH.pattern})?")
_LENGTH = re.compile(r"[0-9]{1,18}")
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')  # weak ETags cannot be used for ranges

Say = Callable[[str], None]
Sleep = Callable[[float], None]


def parse_months(text: str) -> list[str]:
    """Return every month of `2009-01:2016-06`, both ends included, or the one of `2009-01`."""
    match = _MONTHS.fullmatch(text)
    if match is None:
        raise ConfigError(f"--months {text!r} is not a range of months; give 2009-01:2016-06")
    first = 12 * int(match[1]) + int(match[2]) - 1
    last = 12 * int(match[3]) + int(match[4]) - 1 if match[3] else first
    if last < first:
        raise ConfigError(f"--months {text!r} ends before it begins; give the earlier month first")
    return [f"{n // 12:04d}-{n % 12 + 1:02d}" for n in range(first, last + 1)]


def download_months(
    source: FileServer,
    months: Sequence[str],
    folder: Path,
    *,
    progress: Progress | None = None,
    say: Say | None = None,
    sleep: Sleep = time.sleep,
) -> list[Path]:
    """Fetch each month's file into a folder, in order, and return their paths."""
    return [
        download_file(source, month, folder, progress=progress, say=say, sleep=sleep)
        for month in months
    ]


def download_file(
    source: FileServer,
    month: str,
    folder: Path,
    *,
    progress: Progress | None = None,
    say: Say | None = None,
    sleep: Sleep = time.sleep,
) -> Path:
    """Fetch one month's file unless it is complete already, and return its path.

    Args:
        source: the server.
        month: as 2009-01.
        folder: destination, created if needed.
        progress: called with the number of bytes just received.
        say: called with messages for the user.
        sleep: waits before a retry.
    """
    if not _MONTH.fullmatch(month):
        raise ConfigError(f"{month!r} is not a month; give e.g. 2009-01")
    download = _Download(source, month, folder, progress or _ignore, say or _ignore)
    pauses = iter(BACK_OFF_SECONDS)
    while True:
        try:
            return _fetch(download)
        except TransientError as failure:
            pause = next(pauses, None)
            if pause is None:
                raise failure.final from failure
            download.say(f"{failure}; trying again in {pause:g} s")
            sleep(pause)


def _ignore(_: object) -> None:
    pass


@dataclass(frozen=True)
class _Download:
    """One file to fetch, and the callbacks that report on it."""

    source: FileServer
    month: str
    folder: Path
    progress: Progress
    say: Say

    @property
    def url(self) -> str:
        return self.source.url.replace("{month}", self.month)

    @property
    def name(self) -> str:
        return PurePosixPath(urlsplit(self.url).path).name

    @property
    def target(self) -> Path:
        return self.folder / self.name


@dataclass(frozen=True)
class _Version:
    """Size and ETag of the file that the server has now."""

    size: int
    etag: str | None  # None: an interrupted download cannot be resumed


def _fetch(download: _Download) -> Path:
    """Fetch the file in one attempt."""
    with send_request(download.source, "HEAD", download.url, {}) as response:
        _refuse_status(download, response.status)
        version = _version_of(download, response)
    with _disk(download):
        if _is_there(download.target, version.size):
            download.say(f"{download.name}: already downloaded")
            return download.target
        with open_partial(download.target) as partial:
            _complete(download, partial, version)
            partial.flush()
            fault = _fault_of(partial.path)
            if fault is not None:
                _reject(download, partial, fault)
            partial.adopt()
    return download.target


def _refuse_status(download: _Download, status: int) -> None:
    """Raise an error for a response other than the file."""
    if status == HTTPStatus.OK:
        return
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        failure = f"{download.url}: the server failed (status {status})"
        raise TransientError(RunError, failure, "run the same command later")
    if status in NOT_PUBLISHED:
        failure = f"{download.url}: not found (status {status})"
        raise DataError(f"{failure}; {download.month} may not be published: check --months")
    raise DataError(f"{download.url}: status {status} instead of 200; check --host")


def _version_of(download: _Download, response: HTTPResponse) -> _Version:
    """Return size and ETag of the file from the response headers."""
    length, etag = response.getheader("Content-Length", ""), response.getheader("ETag", "")
    if not _LENGTH.fullmatch(length):
        message = f"{download.url}: no valid length (Content-Length {length!r})"
        raise DataError(f"{message}, which is needed to verify the file; give another --host")
    if int(length) > MAX_FILE_BYTES:
        message = f"{download.url}: too large ({int(length):,} bytes, limit {MAX_FILE_BYTES:,})"
        raise DataError(f"{message}; check --host")
    return _Version(int(length), etag if _STRONG_ETAG.fullmatch(etag) else None)


def _is_there(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size and _fault_of(path) is None


def _complete(download: _Download, partial: PartialFile, version: _Version) -> None:
    """Complete the partial file: fetch the rest if it is the same version, else all."""
    have, etag = partial.size, version.etag
    if etag is None or etag != partial.etag or not 0 < have <= version.size:
        _get_all(download, partial)
    elif have < version.size:  # otherwise interrupted between the last byte and the rename
        _get_rest(download, partial, etag, version.size)


def _get_all(download: _Download, partial: PartialFile) -> None:
    with send_request(download.source, "GET", download.url, {}) as response:
        _take_all(download, partial, response)


def _get_rest(download: _Download, partial: PartialFile, etag: str, size: int) -> None:
    """Request the missing bytes of this version; after any other response fetch all."""
    have = partial.size
    headers = {"Range": f"bytes={have}-", "If-Range": etag}
    with send_request(download.source, "GET", download.url, headers) as response:
        expected = (HTTPStatus.PARTIAL_CONTENT, f"bytes {have}-{size - 1}/{size}", etag)
        received = (response.status, *map(response.getheader, ("Content-Range", "ETag")))
        if received == expected:
            download.say(f"{download.name}: {_megabytes(size)}, resuming after {_megabytes(have)}")
            _receive(download, partial, response, size)
        elif response.status in {206, 416}:
            partial.begin(None)
            failure = (
                f"{download.url}: asked for the bytes after {have:,} of {size:,}, received others"
            )
            remedy = "run the same command again, or give another --host"
            raise TransientError(DataError, failure, remedy)
        else:
            _take_all(download, partial, response)


def _take_all(download: _Download, partial: PartialFile, response: HTTPResponse) -> None:
    _refuse_status(download, response.status)
    version = _version_of(download, response)  # may be newer than the version of the HEAD request
    partial.begin(version.etag)
    download.say(f"{download.name}: {_megabytes(version.size)}")
    _receive(download, partial, response, version.size)


def _receive(download: _Download, partial: PartialFile, response: HTTPResponse, size: int) -> None:
    """Append received bytes until the file has its size."""
    while (have := partial.size) < size:
        with connection_errors(download.source, download.url):
            chunk = response.read1(min(CHUNK_BYTES, size - have))
        if not chunk:
            failure = f"file {download.name}: truncated (have {have:,}, expected {size:,} bytes)"
            raise TransientError(DataError, failure, "run the same command again to get the rest")
        if have == 0 and not chunk.startswith(PARQUET_MAGIC[: len(chunk)]):
            _reject(download, partial, _other_format(chunk))  # before fetching the rest
        partial.append(chunk)
        download.progress(len(chunk))


def _reject(download: _Download, partial: PartialFile, fault: str) -> NoReturn:
    partial.discard()
    message = f"file {download.name}: {fault}; need the Parquet file of {download.month}"
    raise DataError(f"{message}. Run the same command later, or give another --host")


def _fault_of(path: Path) -> str | None:
    """Return the reason why a file is not a complete Parquet file, or None."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(64)
        file.seek(max(0, size - len(PARQUET_MAGIC)))
        end = file.read()
    if not start.startswith(PARQUET_MAGIC):
        return _other_format(start)
    if end != PARQUET_MAGIC:
        return f"truncated (have {size:,} bytes, without the Parquet footer)"
    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        return f"damaged (its Parquet footer cannot be read: {error})"
    return None


def _other_format(start: bytes) -> str:
    word = (start[:64].split() or [b"nothing"])[0].decode("latin-1")
    return f"not a Parquet file (starts with {ascii(word)[1:-1]})"  # escaped: the server's text


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


@contextlib.contextmanager
def _disk(download: _Download) -> Iterator[None]:
    """Raise file errors with the path and a remedy."""
    try:
        yield
    except OSError as error:
        message = f"{download.target}: cannot be written ({error.strerror or error})"
        raise RunError(
            f"{message}; check space and permissions, then run the same command again"
        ) from error
