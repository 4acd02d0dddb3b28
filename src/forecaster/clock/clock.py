"""The clock of a panel: time zone, step and holidays, with its lags and calendar.

**Lags.** Recent steps are steps in UTC. A similar step takes the instant t + i, goes j days back
in local time and returns to UTC: a local time that does not exist becomes the next that does, one
that occurs twice keeps the occurrence (first or second) of t + i, and a time between two steps of
the axis (half-hour clock changes, steps over an hour) goes to the nearer one, the later at a tie.
With opening hours, lags skip closed steps (`open_steps`).

**Steps of months** (months, quarters, years) begin at local midnight on the first day of a month;
their number of days varies, and so only the clock can tell when a step begins (`instants`) and
which step is next to an instant (`step_index`).

**Seasons.** Values repeat by the week; of steps of seven days or more, by the year.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.clock.holidays import Holidays
from forecaster.clock.hours import OpeningHours
from forecaster.clock.open_steps import OpenSteps, StepRange, lag_steps
from forecaster.clock.zone import Times, check_zone, is_second, to_local, to_utc
from forecaster.config import MONTH_MINUTES, LagConfig, Season
from forecaster.errors import ConfigError, count_of

LAG_CLOCK = "wall-1"  # the lag rule above, as artifacts record it
CALENDAR_RULE = "minutes-1"  # of steps below an hour, as runs record it; before: whole hours
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CALENDAR_COLUMNS = (
    *(f"weekday_{day}" for day in WEEKDAYS),
    *(f"hour_{hour:02d}" for hour in range(24)),
    "holiday",
)
WEEK_HOURS = 7 * 24
_HOUR_MINUTES, _HOUR_SECONDS = 60, 3600
DAY_MINUTES = 24 * 60
_DAY = np.timedelta64(1, "D")
_MONDAY = np.datetime64("1970-01-05", "s")
_WEEK_SECONDS = WEEK_HOURS * 3600
_YEAR_MONTHS, _LONGEST_YEAR_SECONDS = 12, 366 * 24 * 3600


@dataclass(frozen=True)
class Clock:
    """Time zone, step, holidays and opening hours of a panel's time axis."""

    zone: str
    step_minutes: int = 60  # of months: their mean length
    holidays: Holidays | None = None
    step_months: int = 0  # 1: month, 3: quarter, 12: year; 0: `step_minutes` is exact
    hours: tuple[str, ...] = ()  # of all places; the axis is open where any is; empty: always

    def __post_init__(self) -> None:
        check_zone(self.zone)
        if self.step_months and self.step_minutes != self.step_months * MONTH_MINUTES:
            object.__setattr__(self, "step_minutes", self.step_months * MONTH_MINUTES)
        self.check_hours(self.hours)

    @property
    def step(self) -> np.timedelta64:
        """The length of one step; of months, the mean."""
        return np.timedelta64(self.step_minutes * 60, "s")

    @property
    def step_text(self) -> str:
        """The length of a step in words: `60 min`, `1 day`, `2 weeks`, `1 month`."""
        if self.step_months:
            return count_of(self.step_months, "month")
        for unit, minutes in (("week", WEEK_HOURS * 60), ("day", DAY_MINUTES)):
            if self.step_minutes % minutes == 0:
                return count_of(self.step_minutes // minutes, unit)
        return f"{self.step_minutes} min"

    @property
    def has_yearly_season(self) -> bool:
        """Whether values repeat by the year, not by the week: steps of seven days or more."""
        return self.step_minutes * 60 >= _WEEK_SECONDS

    @property
    def season_slots(self) -> int:
        """The number of steps of the season by which values are usual; the last may be shorter.

        Of a week (168 for hours), or of a year where steps are long: 53 weeks, 12 months.
        """
        if self.step_months:
            return -(-_YEAR_MONTHS // self.step_months)
        season = _LONGEST_YEAR_SECONDS if self.has_yearly_season else _WEEK_SECONDS
        return -(-season // (self.step_minutes * 60))

    def axis(self, start: np.datetime64, count: int) -> Times:
        """Return `count` instants from `start` on."""
        return self.instants(start, np.arange(count))

    def instants(self, start: np.datetime64, steps: Int64[np.ndarray, " T"]) -> Times:
        """Return the instants at which steps begin, counted from `start`; they may be negative."""
        return self._move(np.array([start], dtype="datetime64[s]"), steps)

    def step_index(self, start: np.datetime64, times: Times) -> Int64[np.ndarray, "*shape"]:
        """Return the steps, counted from `start`, that begin nearest to instants.

        At a tie it is the later step. The inverse of `instants`.
        """
        return self._steps_between(np.array([start], dtype="datetime64[s]"), times)

    def local(self, times: Times) -> Times:
        """Return local times."""
        return to_local(self.zone, times)

    def check_hours(self, texts: Sequence[str]) -> None:
        """Refuse opening hours that cannot be read, or that this clock cannot follow."""
        hours = [OpeningHours.parse(text) for text in texts]
        if hours and self.step_minutes > DAY_MINUTES:
            raise ConfigError(
                f"opening hours with steps of {self.step_text}: steps of a day or less "
                "can be closed; leave the hours out"
            )
        if self.holidays is None and any(rules.needs_holidays for rules in hours):
            raise ConfigError(
                "opening hours: PH is for public holidays, and no country is given; give a "
                "country such as US, or dates"
            )

    def open_by(self, text: str, times: Times) -> Bool[np.ndarray, "*shape"]:
        """At which instants a place with these opening hours is open."""
        dates = () if self.holidays is None else self.holidays.dates
        return OpeningHours.parse(text).is_open(self.local(times), dates)

    def is_open(self, times: Times) -> Bool[np.ndarray, "*shape"]:
        """At which instants any place is open."""
        if not self.hours:
            return np.ones(times.shape, dtype=bool)
        return np.asarray(np.any([self.open_by(text, times) for text in self.hours], axis=0))

    def slot_of_season(self, times: Times) -> Int64[np.ndarray, " M"]:
        """Return the step of the season at each instant: the hour of the local week.

        Where steps are long it is the week, the month or the quarter of the local year.
        """
        if self.step_months:
            return self._months(times) % _YEAR_MONTHS // self.step_months
        if self.has_yearly_season:
            local = self.local(times)
            since_new_year = (local - local.astype("datetime64[Y]")).astype(np.int64)
            return np.asarray(since_new_year // (self.step_minutes * 60), dtype=np.int64)
        since_monday = (self.local(times) - _MONDAY).astype(np.int64) % _WEEK_SECONDS
        return np.asarray(since_monday // (self.step_minutes * 60), dtype=np.int64)

    def calendar(self, times: Times) -> Float32[np.ndarray, "M 32"]:
        """Return the calendar part of a_t (section 3.2.1), columns as in `CALENDAR_COLUMNS`.

        Of steps below an hour, the time lies between two hours and has a share of both: 08:15 is
        three quarters of hour_08 and one of hour_09. Steps of a week or more have no time of day:
        the 24 columns stand for the year instead, two of them for each month.
        """
        local = self.local(times)
        since_monday = (local - _MONDAY).astype(np.int64) % _WEEK_SECONDS
        hours = since_monday // _HOUR_SECONDS
        columns = np.zeros((len(times), len(CALENDAR_COLUMNS)), dtype=np.float32)
        row = np.arange(len(times))
        first, share = hours % 24, np.zeros(len(times))
        if self.step_minutes * 60 >= _WEEK_SECONDS:
            place = self.slot_of_season(times) * 24 / self.season_slots
            first, share = place.astype(np.int64), place % 1
        else:
            columns[row, hours // 24] = 1.0
        if self.step_minutes < _HOUR_MINUTES:
            share = since_monday % _HOUR_SECONDS / _HOUR_SECONDS
        columns[row, len(WEEKDAYS) + (first + 1) % 24] = share
        columns[row, len(WEEKDAYS) + first] = 1 - share
        if self.holidays is not None:
            columns[:, -1] = self.holidays.falls_on(local)
        return columns

    def lag_steps(self, lags: LagConfig, origins: Times) -> Int64[np.ndarray, "B L"]:
        """Return the lag of each of the L inputs in steps before its origin: similar, then recent.

        Both oldest first; a step in a season and among the recent ones occurs twice.

        Section 3.1.2: x_{t−i}, i = 0…5; x_{t+i−24j}, j = 1…6 and x_{t+i−168j}, j = 1…4, i = −1…5.
        Differs: 24j and 168j hours are j and 7j days on the wall clock. With opening hours, steps
        are open ones: see `open_steps`.
        """
        if self.hours:
            reach = max((season.days * season.count for season in lags.seasons), default=0)
            ahead = max((season.after for season in lags.seasons), default=0)
            return lag_steps(self._open_steps(origins, reach, ahead), lags, origins)
        recent = np.broadcast_to(np.arange(lags.recent)[::-1], (len(origins), lags.recent))
        seasons = [self._similar_steps(season, origins) for season in lags.seasons]
        similar = -np.sort(-np.concatenate([recent[:, :0], *seasons], axis=1), axis=1)
        steps = np.concatenate([similar, recent], axis=1)
        if steps.size and steps.min() < 0:
            origin = origins[int(np.argmin(steps.min(axis=1)))]
            message = f"lags: a similar step of {origin} UTC in {self.zone} lies after that origin"
            raise ConfigError(f"{message}; lower `after` of the recipe's seasons")
        return steps

    def needed_steps(self, lags: LagConfig, origins: Times) -> int:
        """Return the number of steps of history that the origins need, including the origin."""
        return int(self.lag_steps(lags, origins).max(initial=lags.recent - 1)) + 1

    def same_time_steps(
        self, around: Int64[np.ndarray, " I"], days_back: Int64[np.ndarray, " J"], origins: Times
    ) -> Int64[np.ndarray, "B J I"]:
        """Return the lag, in steps before t, of the local time of t + i, j days earlier."""
        source = self._move(origins[:, None], around)
        local = self.local(source)[:, None, :] - (days_back * _DAY)[None, :, None]
        target = to_utc(self.zone, local)
        as_second = is_second(self.zone, source)[:, None, :] & target.ambiguous
        instant = np.where(as_second, target.second, target.first)
        return -self._steps_between(origins[:, None, None], instant)

    def _move(
        self, times: Shaped[np.ndarray, "..."], steps: Int64[np.ndarray, "..."]
    ) -> Shaped[np.ndarray, "..."]:
        """Return the beginnings of the steps that lie so many steps after others."""
        if not self.step_months:
            return times + steps * self.step
        return self._at_month(self._months(times) + steps * self.step_months)

    def _steps_between(
        self, starts: Shaped[np.ndarray, "..."], times: Shaped[np.ndarray, "..."]
    ) -> Int64[np.ndarray, "..."]:
        """Return the number of steps from `starts` to the beginning nearest to each instant."""
        if not self.step_months:
            step = self.step_minutes * 60
            seconds = (times - starts).astype(np.int64)
            return np.asarray((2 * seconds + step) // (2 * step), dtype=np.int64)
        steps = (self._months(times) - self._months(starts)) // self.step_months
        since = times - self._move(starts, steps)
        until = self._move(starts, steps + 1) - times
        return np.asarray(steps + (until <= since), dtype=np.int64)

    def _months(self, times: Times) -> Int64[np.ndarray, "*shape"]:
        """Return the local month of each instant, counted from 1970."""
        return self.local(times).astype("datetime64[M]").astype(np.int64)

    def _at_month(self, months: Int64[np.ndarray, "*shape"]) -> Times:
        """Return the instants at which local months begin."""
        local = months.astype("datetime64[M]").astype("datetime64[s]")
        return to_utc(self.zone, local).first

    def similar_open_steps(
        self, around: Int64[np.ndarray, " I"], days: int, count: int, origins: Times
    ) -> Int64[np.ndarray, "B J I"]:
        """Return the lag, in steps before t, of the time of t + i on the last days it was open.

        Args:
            around: i.
            days: of the season; 7: only the same weekday.
            count: the number of such days: J.
            origins: t.
        """
        steps = self._open_steps(origins, days * count, int(around.max(initial=0)))
        numbers = steps.number(origins)
        return np.asarray(numbers[:, None, None] - steps.similar(numbers, around, days, count))

    def last_open(self, origins: Times) -> Int64[np.ndarray, " B"]:
        """Return by how many steps the last open step lies before each origin; 0: it is open."""
        if not self.hours or not len(origins):
            return np.zeros(len(origins), dtype=np.int64)
        steps = self._open_steps(origins, 0, 0)
        numbers = steps.number(origins)
        return np.asarray(numbers - steps.recent(numbers, 1)[:, 0])

    def _open_steps(self, origins: Times, past_days: int, ahead: int) -> OpenSteps:
        step = self.step_minutes * 60
        if not origins.size:
            origins = np.zeros(1, dtype="datetime64[s]")
        return _open_steps(self, StepRange.around(origins, step, past_days, ahead))

    def _similar_steps(self, season: Season, origins: Times) -> Int64[np.ndarray, "B L"]:
        around = np.arange(-season.before, season.after + 1)  # i
        days_back = np.arange(1, season.count + 1) * season.days  # j
        steps = self.same_time_steps(around, days_back, origins)
        return steps.reshape(len(origins), len(days_back) * len(around))  # −1 needs an origin


@lru_cache(maxsize=16)
def _open_steps(clock: Clock, span: StepRange) -> OpenSteps:
    return OpenSteps.over(span, clock.zone, clock.step_minutes * 60, clock.is_open)
