"""Input files, checked to be complete and distinct, with the hours that they cover."""

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from forecaster.databases.query import QueryScan
from forecaster.errors import ConfigError, DataError, Faults
from forecaster.publish.manifest import CHUNK_BYTES, Progress

MAX_EXPANSION = 200  # a gzip file of real rows shrinks 5- to 20-fold
_TLC_NAME = re.compile(r"(?:yellow|green|fhv|fhvhv)_tripdata_(\d{4})-(0[1-9]|1[0-2])\.")
SUFFIXES = (".parquet", ".csv", ".csv.gz")
_GZIP = 16 + zlib.MAX_WBITS
_PARQUET_MAGIC = b"PAR1"
_EMPTY_LINE = re.compile(rb"(?<=\n)\r?\n")


@dataclass(frozen=True)
class TimeSpan:
    """A span of local time that a file covers: no rows mean zero, not unknown."""

    first: np.datetime64
    end: np.datetime64  # exclusive

    @property
    def is_known(self) -> bool:
        """Whether the span is said; otherwise it is found in the events."""
        return not np.isnat(self.first)


UNKNOWN = TimeSpan(np.datetime64("NaT", "s"), np.datetime64("NaT", "s"))  # found in the events


@dataclass(frozen=True)
class InputFile:
    """One verified input file."""

    path: Path
    sha256: str
    covered: TimeSpan
    lines: int | None = None  # of a CSV file, without its header and empty ones

    @property
    def name(self) -> str:
        """The path, for messages."""
        return str(self.path)

    @property
    def is_parquet(self) -> bool:
        """Whether the file is Parquet; else it is CSV."""
        return self.path.suffix == ".parquet"


@dataclass(frozen=True)
class InputQuery:
    """Trips in a database, open so that both passes see the same rows."""

    scan: QueryScan
    covered: TimeSpan
    lines: None = None

    @property
    def name(self) -> str:
        """The database, for messages."""
        return self.scan.query.name


def open_inputs(
    paths: Sequence[Path], covers: str | None, progress: Progress | None = None
) -> list[InputFile]:
    """Return the inputs ordered by content; damaged and repeated files are refused.

    The month in a TLC file's name is what it covers, other files cover what is said; without that
    their coverage is unknown.
    """
    faults, inputs = Faults("input files"), []
    if not paths:
        faults.add("none given; give .parquet, .csv or .csv.gz files")
    for path in paths:
        try:
            covered = covered_by_name(path)
            if covers and not covered.is_known:
                covered = parse_span(covers)
            sha256, lines = verify_file(path, progress)
            inputs.append(InputFile(path, sha256, covered, lines))
        except DataError as fault:
            faults.add(str(fault))
    first: dict[str, InputFile] = {}
    for item in inputs:
        month = _TLC_NAME.search(item.path.name)  # such as CSV and Parquet
        for kind, key in (("content", item.sha256), ("month", month and month[0])):
            if key and (earlier := first.setdefault(key, item)) is not item:
                faults.add(f"{item.path}: the same {kind} as {earlier.path}; give it once")
                break
    faults.raise_any(DataError)
    return sorted(inputs, key=lambda item: item.sha256)


def covered_by_name(path: Path) -> TimeSpan:
    """Return the month in a TLC file's name; other names do not tell."""
    match = _TLC_NAME.search(path.name)
    if not match:
        return UNKNOWN
    month = np.datetime64(f"{match[1]}-{match[2]}", "M")
    return TimeSpan(month.astype("datetime64[s]"), (month + 1).astype("datetime64[s]"))


def parse_span(text: str) -> TimeSpan:
    """Return the span of `2014-04-01:2014-06-30`, both days included."""
    try:
        days = (date.fromisoformat(part) for part in text.split(":"))  # a month is not a day
        first, last = (np.datetime64(day, "D") for day in days)
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a date range; give e.g. 2014-04-01:2014-06-30"
        ) from error
    if last < first:
        raise ConfigError(f"{text!r} ends before it begins; give e.g. 2014-04-01:2014-06-30")
    return TimeSpan(first.astype("datetime64[s]"), (last + 1).astype("datetime64[s]"))


def verify_file(path: Path, progress: Progress | None = None) -> tuple[str, int | None]:
    """Check that a file is complete, and return its hash and number of lines."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"{path}: unknown suffix; give one of {', '.join(SUFFIXES)}")
    sha256, reader = hashlib.sha256(), _Reader(path)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha256.update(chunk)
                reader.take(chunk)
                if progress is not None:
                    progress(len(chunk))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    reader.finish()
    return sha256.hexdigest(), reader.lines


class _Reader:
    """Checks a stream of bytes for a complete Parquet, CSV or gzip file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.expanded = 0
        self.head = self.tail = b""
        self.ends = self.empty = 0
        self.gzip = zlib.decompressobj(_GZIP) if path.name.endswith(".gz") else None

    def take(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.gzip is None:
            self._note(chunk)
            return
        while chunk:
            if self.gzip.eof:  # a file may hold several gzip members
                self.gzip = zlib.decompressobj(_GZIP)
            chunk = self._expand(self.gzip, chunk)

    def _expand(self, gzip: "zlib._Decompress", chunk: bytes) -> bytes:
        """Record the expansion of a chunk, and return the bytes after the end of the stream."""
        try:
            while chunk and not gzip.eof:  # at the end, the tail is unused data
                piece = gzip.decompress(chunk, CHUNK_BYTES)
                self._note(piece)
                self.expanded += len(piece)
                if self.expanded > MAX_EXPANSION * self.size + 64 * CHUNK_BYTES:
                    message = f"{self.path}: refused: expands more than {MAX_EXPANSION} times"
                    raise DataError(f"{message}; decompress it first if this is intended")
                chunk = gzip.unconsumed_tail
        except zlib.error as error:
            raise DataError(f"{self.path}: damaged gzip ({error}); fetch it again") from error
        return gzip.unused_data

    @property
    def lines(self) -> int | None:
        """The number of lines after the header; None unless CSV."""
        return None if self.path.suffix == ".parquet" else max(self.ends - self.empty - 1, 0)

    def _note(self, content: bytes) -> None:
        if self.path.suffix != ".parquet":
            self.ends += content.count(b"\n")
            self.empty += _count_empty(self.tail[-2:], content)
        self.head = self.head or content[:16]
        self.tail = (self.tail + content)[-16:]

    def finish(self) -> None:
        fault = ""
        if self.gzip is not None and not self.gzip.eof:
            fault = "its gzip stream has no end"
        elif self.path.suffix == ".parquet":
            footer = int.from_bytes(self.tail[-8:-4], "little")
            complete = self.head.startswith(_PARQUET_MAGIC) and self.tail.endswith(_PARQUET_MAGIC)
            complete = complete and self.size >= footer + 12  # its length and both marks
            fault = "" if complete else f"no Parquet footer (it starts with {self.head[:9]!r})"
        elif not self.tail.endswith((b"\n", b"\r")):
            fault = "no line break at the end (add one if the file is complete)"
        if fault:
            raise DataError(
                f"{self.path}: truncated, have {self.size:,} bytes: {fault}; fetch it again"
            )


def _count_empty(before: bytes, content: bytes) -> int:
    """Return the number of empty lines that end in the content."""
    joined = before + content
    if b"\n\n" not in joined and b"\n\r\n" not in joined:  # nearly always, and five times as fast
        return 0
    return sum(match.end() > len(before) for match in _EMPTY_LINE.finditer(joined))
