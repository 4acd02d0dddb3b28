"""A partially downloaded file, with the ETag of its version."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path

from forecaster.errors import RunError
from forecaster.publish.writing import bytes_writer, replace_file, sync_folder


@dataclass(frozen=True)
class PartialFile:
    """The download `NAME.partial` of a file `NAME`, with its ETag in `NAME.partial.etag`."""

    target: Path
    sink: BufferedWriter  # appends

    @property
    def path(self) -> Path:
        """The path of the partial file."""
        return _partial_path(self.target)

    @property
    def size(self) -> int:
        """The number of bytes received."""
        return self.sink.tell()

    @property
    def etag(self) -> str | None:
        """The ETag of the received bytes, if known."""
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            return self._note.read_text(encoding="ascii")
        return None

    @property
    def _note(self) -> Path:
        return self.target.with_name(f"{self.target.name}.partial.etag")

    def begin(self, etag: str | None) -> None:
        """Remove all bytes, and record the ETag of the version to fetch."""
        self.sink.seek(0)
        self.sink.truncate()
        os.fsync(self.sink.fileno())  # a crash must not leave old bytes with the new ETag
        self._note.unlink(missing_ok=True)
        if etag is not None:
            replace_file(self._note, bytes_writer(etag.encode("ascii")))

    def append(self, chunk: bytes) -> None:
        """Append received bytes."""
        self.sink.write(chunk)

    def flush(self) -> None:
        """Make all bytes visible to readers of the file."""
        self.sink.flush()

    def discard(self) -> None:
        """Remove the partial file and its note."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def adopt(self) -> None:
        """Rename the partial file to its final name, atomically and durably."""
        self.flush()
        os.fsync(self.sink.fileno())
        self.path.replace(self.target)
        self._note.unlink(missing_ok=True)
        sync_folder(self.target.parent)


@contextlib.contextmanager
def open_partial(target: Path) -> Iterator[PartialFile]:
    """Open the partial file for one writer; its bytes stay if the writer fails."""
    path = _partial_path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as sink:
        _lock(path, sink)
        try:
            yield PartialFile(target, sink)
        finally:
            if sink.tell() == 0:
                path.unlink(missing_ok=True)
            sink.flush()
            os.fsync(sink.fileno())


def _partial_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial")


def _lock(path: Path, sink: BufferedWriter) -> None:
    """Lock the partial file; the lock ends with the process."""
    try:
        fcntl.flock(sink, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous writer may have renamed it: appending would damage the finished file.
        ours = os.path.samestat(os.fstat(sink.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        ours = False
    if not ours:
        message = f"{path}: another download is writing to it"
        raise RunError(f"{message}; wait until it ends, or choose another folder")
