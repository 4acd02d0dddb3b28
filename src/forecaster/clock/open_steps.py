"""Lags over the open steps of an axis with opening hours.

Recent steps are the last open ones up to the origin, which may be closed itself: the first
forecast of a morning looks at the evening before. A similar step is the same local time on the
last days (weeks) at which that time was open; of a time that is never open it is the last open
step before that time. No step lies after the origin.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from forecaster.clock.zone import Times, to_local, to_utc
from forecaster.config import LagConfig
from forecaster.errors import ConfigError

SPARE_DAYS = 400  # further back than lags reach: long closings, such as a school's summer
_BLOCK_DAYS = 64  # spans begin and end at multiples of it, so that calls share them
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class StepRange:
    """Consecutive steps, numbered from 1970."""

    phase: int  # seconds by which steps begin after multiples of their length
    first: int  # step
    end: int

    @staticmethod
    def around(origins: Times, step: int, past_days: int, ahead: int) -> "StepRange":
        """Return the span of origins and of what lies some days before and some steps after them.

        Args:
            origins: beginnings of steps, UTC.
            step: its length in seconds.
            past_days: how far similar steps reach back.
            ahead: steps after the origins.
        """
        seconds = origins.astype("datetime64[s]").astype(np.int64)
        block = _BLOCK_DAYS * _DAY_SECONDS
        first = (int(seconds.min()) - (past_days + SPARE_DAYS) * _DAY_SECONDS) // block * block
        last = -(-(int(seconds.max()) + (ahead + 1) * step + _DAY_SECONDS) // block) * block
        phase = int(seconds.flat[0]) % step
        return StepRange(phase, (first - phase) // step, (last - phase) // step)


@dataclass(frozen=True, eq=False)
class OpenSteps:
    """Which steps of a span are open, and the steps at the same local time of each day."""

    span: StepRange
    step: int  # seconds
    open: Bool[np.ndarray, " T"]
    last: Int64[np.ndarray, " T"]  # the last open step up to each; −1: none
    days: Int64[np.ndarray, " T"]  # local day of each step, counted from the first
    clock_times: Int64[np.ndarray, " T"]  # number of its local time of day
    same: Int64[np.ndarray, "D H"]  # the step of each day at each local time of day
    same_open: Bool[np.ndarray, "D H"]  # whether that step is open, and inside the span
    _earlier: dict[int, np.ndarray] = field(default_factory=dict)  # by days of a season

    @staticmethod
    def over(
        span: StepRange, zone: str, step: int, is_open: Callable[[Times], np.ndarray]
    ) -> "OpenSteps":
        """Return the steps of a span.

        Args:
            span: of the steps.
            zone: of local times.
            step: its length in seconds.
            is_open: tells of instants whether they are open.
        """
        count = span.end - span.first
        times = (span.phase + np.arange(span.first, span.end) * step).astype("datetime64[s]")
        is_open_at = is_open(times)
        last = np.maximum.accumulate(np.where(is_open_at, np.arange(count), -1))
        local = to_local(zone, times)
        day = local.astype("datetime64[D]")
        times_of_day, clock_times = np.unique((local - day).astype(np.int64), return_inverse=True)
        days = (day - day[0]).astype(np.int64)
        all_days = day[0] + np.arange(int(days[-1]) + 1)
        grid = all_days.astype("datetime64[s]")[:, None] + times_of_day
        seconds = to_utc(zone, grid).first.astype(np.int64) - span.phase - span.first * step
        nearest = (2 * seconds + step) // (2 * step)  # at a tie the later
        same = np.clip(nearest, 0, count - 1)
        same_open = is_open_at[same] & (same == nearest)
        clock_times = clock_times.reshape(-1)
        return OpenSteps(span, step, is_open_at, last, days, clock_times, same, same_open)

    def number(self, origins: Times) -> Int64[np.ndarray, " B"]:
        """Return the places of instants in the span."""
        seconds = origins.astype("datetime64[s]").astype(np.int64) - self.span.phase
        return np.asarray(seconds // self.step - self.span.first)

    def recent(self, origins: Int64[np.ndarray, " B"], count: int) -> Int64[np.ndarray, "B R"]:
        """Return the last open steps up to each origin, oldest first."""
        places = np.flatnonzero(self.open)
        rank = np.searchsorted(places, origins, side="right")[:, None] - np.arange(count, 0, -1)
        if rank.size and rank.min() < 0:
            raise self._never_open()
        return np.asarray(places[rank])

    def similar(
        self,
        origins: Int64[np.ndarray, " B"],
        around: Int64[np.ndarray, " I"],
        days: int,
        count: int,
    ) -> Int64[np.ndarray, "B J I"]:
        """Return the steps at the time of t + i on the last days at which it was open.

        Args:
            origins: t.
            around: i.
            days: of the season; 7: only the same weekday.
            count: the number of such days: J.
        """
        sources = origins[:, None] + around
        day, clock_time = self.days[sources], self.clock_times[sources]
        upto = np.broadcast_to(origins[:, None], sources.shape)
        earlier, chosen, plain = self._earlier_days(days), [], day
        for _ in range(count):
            day = self._not_after(
                earlier[np.maximum(day, 0), clock_time], earlier, clock_time, upto
            )
            plain = plain - days
            while (late := self.same[np.maximum(plain, 0), clock_time] > upto).any():
                plain = np.where(late, plain - days, plain)
            never = self.last[self.same[np.maximum(plain, 0), clock_time]]
            chosen.append(np.where(day >= 0, self.same[np.maximum(day, 0), clock_time], never))
        steps = np.stack(chosen, axis=1)
        if steps.size and steps.min() < 0:
            raise self._never_open()
        return np.asarray(steps)

    def _not_after(
        self,
        day: Int64[np.ndarray, "B I"],
        earlier: Int64[np.ndarray, "D H"],
        clock_time: Int64[np.ndarray, "B I"],
        upto: Int64[np.ndarray, "B I"],
    ) -> Int64[np.ndarray, "B I"]:
        """Return the days, moved to earlier ones while their step lies after the origin."""
        while (late := (day >= 0) & (self.same[np.maximum(day, 0), clock_time] > upto)).any():
            day = np.where(late, earlier[np.maximum(day, 0), clock_time], day)
        return day

    def _earlier_days(self, days: int) -> Int64[np.ndarray, "D H"]:
        """Return for each day and time of day the last day of the season that is open then."""
        if days not in self._earlier:
            table = np.full(self.same.shape, -1, dtype=np.int64)
            for day in range(days, len(table)):
                before = day - days
                table[day] = np.where(self.same_open[before], before, table[before])
            self._earlier[days] = table
        return self._earlier[days]

    def _never_open(self) -> ConfigError:
        moment = np.datetime64(self.span.phase + self.span.first * self.step, "s")
        return ConfigError(
            f"opening hours: too few open steps since {moment}Z for the lags; check the hours, or "
            "use fewer recent steps"
        )


def lag_steps(
    steps: OpenSteps, lags: LagConfig, origins: Shaped[np.ndarray, " B"]
) -> Int64[np.ndarray, "B L"]:
    """Return lags as `Clock.lag_steps` does: similar, then recent ones, both oldest first."""
    numbers = steps.number(origins)
    recent = steps.recent(numbers, lags.recent)
    similar = [recent[:, :0]]
    for season in lags.seasons:
        around = np.arange(-season.before, season.after + 1)
        chosen = steps.similar(numbers, around, season.days, season.count)
        similar.append(chosen.reshape(len(numbers), -1 if len(numbers) else 0))
    ordered = np.sort(np.concatenate(similar, axis=1), axis=1)
    return np.asarray(numbers[:, None] - np.concatenate([ordered, recent], axis=1))
