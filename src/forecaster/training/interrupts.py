"""SIGTERM and Ctrl-C: the first is a request, the second an order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Whether someone asked to stop."""

    def __init__(self) -> None:
        self.asked: str | None = None  # the name of the signal
        self._handlers: dict[signal.Signals, Any] = {}  # those found

    def install(self) -> None:
        """Take the signals; only the main thread may."""
        if current_thread() is main_thread():
            self._handlers = {number: signal.signal(number, self._note) for number in SIGNALS}

    def restore(self) -> None:
        """Give the signals back to whoever had them."""
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.asked is None:
            self.asked = signal.Signals(number).name
            return
        self.restore()
        signal.raise_signal(number)


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Note the first signal, so that a step can be finished; a second one ends at once."""
    noted = Interrupts()
    noted.install()
    try:
        yield noted
    finally:
        noted.restore()
