"""The metrics log: one JSON object per line. Training never fails for it."""

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecaster.errors import RunError
from forecaster.publish.writing import bytes_writer, replace_file

EVERY = 1.0  # seconds that a line may wait for the disk

log = logging.getLogger(__name__)


class Journal:
    """A log that is written as training goes on, and cut where it is resumed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._flushed = time.monotonic()
        self._begun = self._warned = False

    def rewind(self, step: int, epochs: int) -> None:
        """Forget what was written after so many steps and epochs: it will be done again."""
        if self._path is None:
            return
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines(True)
            kept = [line for line in lines if _is_within(line, step, epochs)]
            if len(kept) < len(lines):
                replace_file(self._path, bytes_writer("".join(kept).encode()))
            self._begun = True
        except FileNotFoundError:
            if step:
                self._warn("is gone")
        except (OSError, RunError) as error:
            self._warn(str(error))

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line of an `epoch` or a `step`."""
        self._lines.append(json.dumps(line, allow_nan=False) + "\n")
        if time.monotonic() - self._flushed >= EVERY:
            self.flush()

    def flush(self) -> None:
        """Put all lines on disk, or lose them with one warning."""
        text, self._lines, self._flushed = "".join(self._lines), [], time.monotonic()
        if not text or self._path is None:
            return
        try:
            if self._begun and not self._path.exists():
                self._warn("is gone")
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._begun = True
        except OSError as error:
            self._warn(f"cannot be written ({error.strerror})")

    def _warn(self, what: str) -> None:
        if not self._warned:
            log.warning("%s: %s; training goes on, the log has a gap", self._path, what)
        self._warned = True


def _is_within(line: str, step: int, epochs: int) -> bool:
    """Tell whether a line is of the first steps or epochs; one that was cut short is of none."""
    try:
        content = json.loads(line)
        return bool(content["epoch"] <= epochs if "epoch" in content else content["step"] <= step)
    except (ValueError, KeyError, TypeError):
        return False
