"""Replay of past data: an accelerated clock, and the observations of each step in time."""

import asyncio
import time

import numpy as np

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData, Now
from forecaster.serve.problems import Problem

POLL_SECONDS = 0.1
RETRY_SECONDS = 1.0  # after a write that was refused


class Replay:
    """The last steps of a panel, observed one after another."""

    def __init__(self, panel: Panel, shown: int, step_seconds: float) -> None:
        """Start the clock.

        Args:
            panel: the past data.
            shown: number of steps observed at the start.
            step_seconds: duration of a step.
        """
        self._panel, self._sent, self.step_seconds = panel, shown, step_seconds
        self.base = panel.steps(0, shown)
        length = panel.clock.step_minutes * 60
        first, end = (
            float(panel.instant(step).astype(np.int64)) for step in (shown, len(panel.values))
        )
        self.now: Now = replayed_time(first, end, length / step_seconds)

    async def feed(self, data: LiveData) -> None:
        """Write the observations of every step as soon as it is over."""
        snapshot = data.snapshot
        while self._sent < len(self._panel.values):
            if self.now() < snapshot.end_of(self._sent):
                await asyncio.sleep(POLL_SECONDS)
                continue
            row, begins = self._panel.values[self._sent], snapshot.end_of(self._sent - 1)
            values = [None if np.isnan(value) else value for value in row.tolist()]
            ids = self._panel.locations.ids
            entries = [(i, begins, value) for i, value in zip(ids, values, strict=True)]
            try:
                await data.write("observations", entries, int(self.now()), None)
                self._sent += 1
            except Problem:  # already logged, and may be temporary
                await asyncio.sleep(RETRY_SECONDS)


def replayed_time(start: float, end: float, speed: float) -> Now:
    """Return a clock that shows `start` now, runs `speed` times as fast and stops at `end`."""
    began = time.monotonic()
    return lambda: min(start + (time.monotonic() - began) * speed, end)
