"""What the past steps of a window are called: recent ones, those of days and of weeks before."""

from dataclasses import dataclass

import numpy as np

from forecaster.clock.clock import Clock
from forecaster.config import LagConfig
from forecaster.errors import count_of

GROUPS = {1: "days", 7: "weeks"}  # seasons that have a name, by their length in days
STEPS = {1: "minute", 60: "hour", 24 * 60: "day", 7 * 24 * 60: "week"}  # by their minutes


@dataclass(frozen=True)
class Lag:
    """One past step as section 3.1.2 writes it: x_{t−i}, or x_{t+i} some days earlier."""

    group: str  # recent, days, weeks, or "every n days"
    days: int  # earlier, on the wall clock
    shift: int  # i, in steps

    def __str__(self) -> str:
        near = f"t{self.shift:+d}".replace("-", "−") if self.shift else "t"
        if not self.days:
            return near
        weeks, rest = divmod(self.days, 7)
        whole = self.group == GROUPS[7] and not rest
        ago = count_of(weeks, "week") if whole else count_of(self.days, "day")
        return f"{near}, {ago} back"


def name_step(clock: Clock) -> str:
    """Return what a step is called: `hour`, `day`; `step` if it has no name of its own."""
    return STEPS.get(clock.step_minutes, "step")


def name_lags(clock: Clock, lags: LagConfig, origin: np.datetime64) -> list[Lag]:
    """Return the L past steps of an origin in the order of its history (`Clock.lag_steps`)."""
    named, steps = list[Lag](), [np.empty(0, np.int64)]
    for season in lags.seasons:
        group = GROUPS.get(season.days, f"every {season.days} days")
        around = np.arange(-season.before, season.after + 1)
        back = np.arange(1, season.count + 1) * season.days
        named += [Lag(group, int(days), int(i)) for days in back for i in around]
        steps.append(clock.same_time_steps(around, back, np.array([origin])).ravel())
    order = np.argsort(-np.concatenate(steps), kind="stable")
    recent = [Lag("recent", 0, i) for i in range(1 - lags.recent, 1)]
    return [*(named[n] for n in order), *recent]
