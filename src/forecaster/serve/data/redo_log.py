"""The redo log of the store: every write since SQLite's file was last complete.

A write is acknowledged once its line is on disk; SQLite's own log is then not waited for. Each
line has a checksum and the content that the database must have after the write, so the log tells
what the database lacks, and brings it back.
"""

import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from forecaster.errors import RunError
from forecaster.publish.writing import bytes_writer, replace_file
from forecaster.serve.data.database import Content, Written

SUFFIX = "-redo"  # after the name of the store's file
OWNER_ONLY = 0o600


@dataclass(frozen=True)
class LogContent:
    """What can be read of a redo log."""

    panel: str  # its digest
    base: Content  # of the database when the log began
    writes: Mapping[int, Written] = field(default_factory=dict)  # by number
    last: int = 0  # number of the last write, readable or not

    def content_after(self, write: int) -> Content | None:
        """Return the content after a write; None where the log does not say."""
        if write == self.base.writes:
            return self.base
        return self.writes[write].content if write in self.writes else None

    def later_than(self, write: int) -> Iterator[Written]:
        """Yield the readable writes after one, in order."""
        for number in sorted(self.writes):
            if number > write:
                yield self.writes[number]

    def lost_after(self, write: int) -> list[int]:
        """Return the numbers of later writes that can neither be there nor be read."""
        missing = range(write + 1, self.base.writes + 1)
        later = range(max(write, self.base.writes) + 1, self.last + 1)
        return [*missing, *(number for number in later if number not in self.writes)]


class RedoLog:
    """The log of a running service; whoever holds it has locked the store."""

    def __init__(self, path: Path, panel: str) -> None:
        """Lock the log, if there is one."""
        self.path, self._panel = path, panel
        self._fd: int | None = None
        self._size = 0
        self._before: int | None = None  # size before the last append; None: nothing to undo
        if path.exists():
            self._open()

    def read(self) -> LogContent | None:
        """Return what can be read; None: there is no log, or it does not begin as one."""
        if self._fd is None:
            return None
        return _parse(self.path.read_bytes())

    def begin(self, content: Content) -> None:
        """Replace the log by an empty one; the database must be complete on disk."""
        header = to_line({"panel": self._panel, "base": asdict(content)})
        replace_file(self.path, bytes_writer(header), OWNER_ONLY)
        self.close()
        self._open()

    def append(self, written: Written) -> None:
        """Write what a write has changed, and wait until it is on disk."""
        line = to_line({**vars(written), "content": asdict(written.content)})
        if self._fd is None:
            raise OSError("the redo log is closed")
        self._before = self._size
        done = 0
        while done < len(line):
            done += os.write(self._fd, line[done:])
        self._size += done
        os.fsync(self._fd)

    def undo(self) -> None:
        """Remove the line of a write that was not committed."""
        if self._fd is not None and self._before is not None:
            try:
                os.ftruncate(self._fd, self._before)
                os.fsync(self._fd)
            except OSError:
                self.close()  # nothing may follow a line that should not be there
                raise
            self._size = self._before

    def commit(self) -> None:
        """Keep the last line."""
        self._before = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return self._size

    def close(self) -> None:
        """Close the file, which releases the lock."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        self._size = os.fstat(self._fd).st_size
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise RunError(
                f"{self.path.name.removesuffix(SUFFIX)}: another service uses it; stop it, or give"
                " another --store"
            ) from None


def _parse(raw: bytes) -> LogContent | None:
    """Return the readable lines; an incomplete last line was not acknowledged."""
    lines = raw.split(b"\n")[:-1]
    header = from_line(lines[0]) if lines else None
    if header is None:
        return None
    base = Content(**header["base"])
    writes: dict[int, Written] = {}
    last = base.writes
    for line in lines[1:]:
        last += 1
        fields = from_line(line)
        if fields is not None:
            content = Content(**fields["content"])
            last = content.writes
            writes[last] = Written(fields["rows"], fields["forgotten"], content)
    return LogContent(header["panel"], base, writes, last)


def to_line(fields: dict[str, Any]) -> bytes:
    """Return a line of JSON after its checksum."""
    text = json.dumps(fields, separators=(",", ":"), check_circular=False).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def from_line(line: bytes) -> dict[str, Any] | None:
    """Return the fields of a line; None: it is damaged."""
    mark, _, text = line.partition(b" ")
    with contextlib.suppress(ValueError):
        if mark == b"%08x" % zlib.crc32(text):
            fields: dict[str, Any] = json.loads(text)
            return fields
    return None
