"""A line for every request that writes: who, what, when, and the response."""

import json
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forecaster.errors import RunError

log = logging.getLogger(__name__)


class AuditLog:
    """A file of JSON lines, opened again when it has been moved away to be archived."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self.failures = 0  # lines that could not be written
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise RunError(f"{file}: no audit log can be written ({error})") from error

    def write(self, **fields: Any) -> None:
        """Append a line; a fault is logged and counted, and the request goes on."""
        begun = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": begun, **fields}) + "\n"
        with self._lock:
            try:
                self._reopen_if_moved()
                os.write(self._descriptor, line.encode())
            except OSError as error:
                self.failures += 1
                log.error("a line of the audit log is lost: %s (%s)", line.strip(), error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _reopen_if_moved(self) -> None:
        ours = os.fstat(self._descriptor)
        try:
            status = self._file.stat()
        except FileNotFoundError:
            status = None
        if status is None or (status.st_ino, status.st_dev) != (ours.st_ino, ours.st_dev):
            descriptor = self._open()
            os.close(self._descriptor)
            self._descriptor = descriptor

    def _open(self) -> int:
        return os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
