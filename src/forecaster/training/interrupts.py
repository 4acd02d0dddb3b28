"""SIGTERM and Ctrl-C: the first signal requests a stop, the second ends the process."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Handlers of the stop signals, and the signal received, if any."""

    def __init__(self) -> None:
        self.received: str | None = None  # the name of the signal
        self._handlers: dict[signal.Signals, Any] = {}  # to be restored

    def install(self) -> None:
        """Install the handlers; only the main thread can."""
        if current_thread() is main_thread():
            self._handlers = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number).name
            return
        self.restore()
        signal.raise_signal(number)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Remember the first signal, so that a step can finish; a second one ends at once."""
    handlers = Interrupts()
    handlers.install()
    try:
        yield handlers
    finally:
        handlers.restore()
