"""The data of this moment, and how old it is."""

import math
from dataclasses import dataclass

from forecaster.serve.data.live import Live
from forecaster.serve.data.moment import Now
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.problems import Problem

STALE_STEPS = 2  # without data: forecasts are marked
DEAD_STEPS = 24  # without data: nothing is forecast any more


@dataclass(frozen=True)
class Feed:
    """How the data gets on."""

    newest: int | None  # the last step from which a forecast may begin
    age_seconds: int | None  # since that step was over
    stale: bool
    fault: str | None  # why nothing of the moment can be forecast from it


class Present:
    """The live data, seen at this moment."""

    def __init__(self, live: Live, now: Now) -> None:
        self.live, self.now = live, now
        self._newest: tuple[tuple[Overlay, int], int | None] = ((self.overlay, -1), None)

    @property
    def overlay(self) -> Overlay:
        """The data."""
        return self.live.overlay

    def closed(self) -> int:
        """Return how many steps are over."""
        return math.floor((self.now() - self.overlay.start_seconds) / self.overlay.step_seconds)

    def count_steps(self, hours: int) -> int:
        """Return how many steps some hours have, at least one."""
        return max(hours * 60 // self.overlay.base.clock.step_minutes, 1)

    def feed(self, overlay: Overlay | None = None) -> Feed:
        """Return how old the data is, that of the moment if no other is given."""
        overlay, end = overlay or self.overlay, self.closed()
        known, newest = self._newest
        if known != (overlay, end):
            newest = overlay.newest(end)
            self._newest = (overlay, end), newest
        if newest is None:
            return Feed(None, None, True, "no step has been observed at enough locations yet")
        over = overlay.start_seconds + (newest + 1) * overlay.step_seconds
        age = max(int(self.now() - over), 0)
        steps, fault = age / overlay.step_seconds, None
        if steps >= DEAD_STEPS:
            last = f"{overlay.time_of(newest)}Z"
            fault = f"no data since {last}, too long ago for a forecast of now"
            fault += f"; /v1/forecast?at={last} forecasts from there"
        return Feed(newest, age, steps >= STALE_STEPS, fault)

    def find_origin(self, seconds: int) -> int:
        """Return the step that begins at an instant, if it is over."""
        overlay = self.overlay
        step = overlay.step_at(seconds)
        if step is None:
            minutes = overlay.base.clock.step_minutes
            raise Problem(422, "off_step", f"at lies between two steps of {minutes} min")
        if step < 0:
            raise Problem(422, "too_old", f"the data begins at {overlay.time_of(0)}Z")
        if step >= self.closed():
            raise Problem(422, "in_future", "that step is not over yet")
        return step
