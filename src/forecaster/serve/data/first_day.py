"""The first day of a location that a run has never met: it is forecast once that day is over."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from forecaster.serve.data.snapshot import REPORTING_DAYS, Snapshot, steps_per_day

HOUR_MINUTES = 60


class FirstDay(NamedTuple):
    """How far each location has come in its first day, up to an origin.

    Of the last two weeks: a location that was silent for longer begins again.
    """

    passed: Int64[np.ndarray, " N"]  # steps since the first observed one, with it and the origin
    observed: Int64[np.ndarray, " N"]  # observed ones among them

    def is_over(self, snapshot: Snapshot) -> Bool[np.ndarray, " N"]:
        """Which locations have a day of steps, half or more of them observed."""
        day = steps_per_day(snapshot.base.clock)
        return np.asarray((self.passed >= day) & (2 * self.observed >= day))

    def describe(self, snapshot: Snapshot, column: int) -> str:
        """Return how much of the day of a location was observed: `7 of 24 hours observed`."""
        clock = snapshot.base.clock
        day, observed = steps_per_day(clock), int(self.observed[column])
        unit = "hours" if clock.step_minutes == HOUR_MINUTES else f"steps of {clock.step_text}"
        few = self.passed[column] >= day and 2 * observed < day
        need = f"; {-(-day // 2)} are needed" if few else ""
        return f"{min(observed, day)} of {day} {unit} observed{need}"


def measure_first_day(snapshot: Snapshot, origin: int) -> FirstDay:
    """Return how far each location has come in its first day, up to an origin."""
    first = origin + 1 - REPORTING_DAYS * steps_per_day(snapshot.base.clock)
    observed = np.isfinite(snapshot.final_values(first, origin + 1))
    passed = np.where(observed.any(axis=0), len(observed) - observed.argmax(axis=0), 0)
    return FirstDay(passed.astype(np.int64), observed.sum(axis=0, dtype=np.int64))
