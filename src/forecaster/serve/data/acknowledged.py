"""The content of a store after the last acknowledged write, in a small file of its own.

It tells of writes that damage has taken from both the database and the redo log. It is written
once a write is in both, and not waited for: so it costs a microsecond, is never ahead of them, and
survives a kill; after a power failure it may be behind, and then says less.
"""

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from forecaster.serve.data.database import Content
from forecaster.serve.data.redo_log import OWNER_ONLY, from_line, to_line

SUFFIX = "-last"  # after the name of the store's file
BYTES = 256  # the file's length, so that a shorter line covers a longer one


class Acknowledged:
    """The file of a running service."""

    def __init__(self, path: Path) -> None:
        """Open or create it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._fd: int | None = os.open(path, flags, OWNER_ONLY)

    def write(self, content: Content) -> None:
        """Note the content; a fault is no reason to refuse a write that is stored."""
        if self._fd is not None:
            with suppress(OSError):
                os.pwrite(self._fd, to_line(asdict(content)).ljust(BYTES), 0)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


def read_acknowledged(path: Path) -> Content | None:
    """Return the content that was noted; None: nothing that can be read."""
    with suppress(OSError, TypeError):
        with path.open("rb") as file:
            fields = from_line(file.read(BYTES).partition(b"\n")[0])
        return None if fields is None else Content(**fields)
    return None
