"""A past replayed as if it were now: a clock that runs fast, and a feed that keeps up with it."""

import asyncio

import numpy as np

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Live
from forecaster.serve.data.moment import Now, replayed_time
from forecaster.serve.problems import Problem

POLL_SECONDS = 0.1
RETRY_SECONDS = 1.0  # after a write that was refused


class Replay:
    """The last steps of a panel, shown one after another."""

    def __init__(self, panel: Panel, shown: int, step_seconds: float) -> None:
        """Begin now.

        Args:
            panel: all of the past.
            shown: how many steps are known at the beginning.
            step_seconds: how many seconds a step takes.
        """
        self._panel, self._sent, self.step_seconds = panel, shown, step_seconds
        self.base = panel.steps(0, shown)
        length = panel.clock.step_minutes * 60
        start = float(panel.start.astype(np.int64))
        first, end = start + shown * length, start + len(panel.values) * length
        self.now: Now = replayed_time(first, end, length / step_seconds)

    async def feed(self, live: Live) -> None:
        """Observe every step as soon as it is over."""
        overlay = live.overlay
        while self._sent < len(self._panel.values):
            over = overlay.start_seconds + (self._sent + 1) * overlay.step_seconds
            if self.now() < over:
                await asyncio.sleep(POLL_SECONDS)
                continue
            row, time = self._panel.values[self._sent], over - overlay.step_seconds
            values = [None if np.isnan(value) else value for value in row.tolist()]
            ids = self._panel.locations.ids
            entries = [(i, time, value) for i, value in zip(ids, values, strict=True)]
            try:
                await live.write("observations", entries, int(self.now()), None)
                self._sent += 1
            except Problem:  # its cause is in the log, and may pass
                await asyncio.sleep(RETRY_SECONDS)
