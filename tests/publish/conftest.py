"""A disk that writes down what a crash could undo."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from forecaster.publish import writing
from forecaster.publish.writing import Draft, bytes_writer


@dataclass
class RecordingOs:
    """Stands in for `os`: does everything and writes down what a crash could undo."""

    log: list[tuple[str, Any]] = field(default_factory=list)
    open_files: dict[int, tuple[str, int]] = field(default_factory=dict)  # fd → path, inode
    inodes: dict[str, int] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        fd = os.open(path, flags, mode)
        if flags & os.O_CREAT and str(path) not in self.inodes:
            self.inodes[str(path)] = len(self.log) + 1
            self.log.append(("create", (str(path), self.inodes[str(path)])))
        self.open_files[fd] = (str(path), self.inodes.get(str(path), 0))
        return fd

    def write(self, fd: int, data: Any) -> int:
        done = os.write(fd, data)
        self.log.append(("write", (self.open_files[fd][1], bytes(data)[:done])))
        return done

    def fsync(self, fd: int) -> None:
        os.fsync(fd)
        self.log.append(("sync", self.open_files[fd]))

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)
        inode = self.inodes.pop(str(source))
        self.inodes[str(target)] = inode
        self.log.append(("rename", (str(source), str(target), inode)))

    def unlink(self, path: Path) -> None:
        os.unlink(path)
        self.inodes.pop(str(path), None)
        self.log.append(("unlink", (str(path),)))

    def mkdir(self, path: Path) -> None:
        os.mkdir(path)
        self.log.append(("mkdir", (str(path),)))


@pytest.fixture
def draft() -> Callable[[str], Draft]:
    """Return a function that makes a small artifact whose content is the given word."""

    def make(word: str) -> Draft:
        files = {
            "values.parquet": bytes_writer(word.encode() * 7),
            "locations.json": bytes_writer(b"[" + word.encode() + b"]"),
        }
        return Draft(kind="panel", version=1, files=files, about={"word": word})

    return make


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> RecordingOs:
    """Write down every file operation of the code under test."""
    disk = RecordingOs()
    monkeypatch.setattr(writing, "os", disk)
    return disk
