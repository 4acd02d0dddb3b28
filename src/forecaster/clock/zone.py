"""Conversion between UTC and local time for arrays of instants.

Zone rules come from the `tzdata` package, not from the host, so that a result depends on the
data's zone alone. Instants are `datetime64[s]` in UTC; local times are `datetime64[s]` too.

pandas' tz_convert and tz_localize give the same instants with a zone of `tzdata`, but take 15 and
46 times as long for 65,711 hours as the search in the changes of a zone here.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from forecaster.errors import ConfigError, DataError, nearest_name

Times = Shaped[np.ndarray, "*shape"]  # datetime64[s]
SECOND = np.timedelta64(1, "s")
_FIRST_YEAR, _LAST_YEAR = 2, 9998  # Python's calendar, less a year either side
_PROBE_SECONDS = 24 * 3600  # the clock changes of all zones are more than six days apart


@dataclass(frozen=True)
class Resolved:
    """The instants of local times."""

    first: Times  # the instant; of an ambiguous time the first; of a nonexistent one the next
    second: Times  # the second occurrence of an ambiguous time, else the same as `first`
    ambiguous: Bool[np.ndarray, "*shape"]  # occurs twice, when clocks are set back
    nonexistent: Bool[np.ndarray, "*shape"]  # skipped when clocks are set forward


@dataclass(frozen=True)
class _Changes:
    """The clock changes in a span of years."""

    instants: Int64[np.ndarray, " K"]  # UTC seconds
    offsets: Int64[np.ndarray, " K+1"]  # seconds east of UTC, before, between and after them


def check_zone(zone: str) -> None:
    """Refuse a zone that the tz database does not have."""
    if zone not in _known_zones():
        hint = nearest_name(zone, sorted(_known_zones())) or " such as America/New_York"
        raise ConfigError(f"unknown time zone {zone!r}; give an IANA name{hint}")


def tz_version() -> str:
    """Return the version of the tz database in use."""
    return version("tzdata")


def to_local(zone: str, times: Times) -> Times:
    """Return the local time of each instant."""
    return times + _offsets_at(zone, times) * SECOND


def to_utc(zone: str, local: Times) -> Resolved:
    """Return the instants of local times, and masks of those with two or none."""
    changes = _changes_around(zone, local)
    before, after = changes.offsets[:-1], changes.offsets[1:]
    seconds = local.astype("datetime64[s]").astype(np.int64)
    # A change at u moves the clock from u + before to u + after. Local times between the two
    # occur twice if the clock is set back, and not at all if it is set forward.
    past_all = np.searchsorted(changes.instants + np.maximum(before, after), seconds, side="right")
    past_any = np.searchsorted(changes.instants + np.minimum(before, after), seconds, side="right")
    inside = past_all != past_any
    change = np.minimum(past_all, max(len(changes.instants) - 1, 0))
    forward = np.zeros_like(inside)
    if len(changes.instants):
        forward = (after > before)[change]
    nonexistent, ambiguous = inside & forward, inside & ~forward
    first = seconds - changes.offsets[past_all]
    second = np.where(ambiguous, seconds - changes.offsets[past_any], first)
    if nonexistent.any():
        first = np.where(nonexistent, changes.instants[change], first)
        second = np.where(nonexistent, first, second)
    return Resolved(_as_times(first), _as_times(second), ambiguous, nonexistent)


def is_second(zone: str, times: Times) -> Bool[np.ndarray, "*shape"]:
    """A mask of the instants that are the second occurrence of their local time (fold = 1)."""
    resolved = to_utc(zone, to_local(zone, times))
    return np.asarray(resolved.ambiguous & (resolved.second == times))


def changes_between(zone: str, first: np.datetime64, last: np.datetime64) -> list[tuple[str, int]]:
    """Return the clock changes after `first` and up to `last`: UTC time and seconds gained."""
    changes = _changes_around(zone, np.array([first, last], dtype="datetime64[s]"))
    gains = np.diff(changes.offsets)
    instants = _as_times(changes.instants)
    inside = (instants > first) & (instants <= last)
    return [(str(t), int(g)) for t, g in zip(instants[inside], gains[inside], strict=True)]


def _offsets_at(zone: str, times: Times) -> Int64[np.ndarray, "*shape"]:
    changes = _changes_around(zone, times)
    seconds = times.astype("datetime64[s]").astype(np.int64)
    offsets = changes.offsets[np.searchsorted(changes.instants, seconds, side="right")]
    return np.asarray(offsets, dtype=np.int64)


def _changes_around(zone: str, times: Times) -> _Changes:
    """Return the clock changes of the years of the times, and of one year on either side."""
    if times.size == 0:
        return _changes(zone, 1970, 1970)
    ends = np.array([times.min(), times.max()], dtype="datetime64[s]")
    first, last = ends.astype("datetime64[Y]").astype(np.int64) + 1970
    if first < _FIRST_YEAR or last > _LAST_YEAR:
        message = f"times run from {ends[0]} to {ends[1]}; years {_FIRST_YEAR}…{_LAST_YEAR} are"
        raise DataError(f"{message} supported; check for placeholders")
    return _changes(zone, int(first) - 1, int(last) + 1)


@cache
def _changes(zone: str, first_year: int, last_year: int) -> _Changes:
    changes = [pair for year in range(first_year, last_year + 1) for pair in _year(zone, year)]
    start = int(datetime(first_year, 1, 1, tzinfo=UTC).timestamp())
    return _Changes(
        instants=np.array([instant for instant, _ in changes], dtype=np.int64),
        offsets=np.array([_offset(zone, start), *(new for _, new in changes)], dtype=np.int64),
    )


@cache
def _year(zone: str, year: int) -> tuple[tuple[int, int], ...]:
    """Return the instant and new offset of each change in one year."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end = int(datetime(year + 1, 1, 1, tzinfo=UTC).timestamp())
    rules, probes = _zone(zone), range(start, end + 1, _PROBE_SECONDS)
    offsets = [datetime.fromtimestamp(second, rules).utcoffset() for second in probes]
    changes = []
    for low, (before, after) in zip(probes, pairwise(offsets), strict=False):
        if before != after:
            instant = _bisect(zone, low, low + _PROBE_SECONDS)
            changes.append((instant, _offset(zone, instant)))
    return tuple(changes)


def _bisect(zone: str, low: int, high: int) -> int:
    """Return the first second with the offset of `high`."""
    new = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _offset(zone, middle) == new else (middle, high)
    return high


def _offset(zone: str, second: int) -> int:
    offset = datetime.fromtimestamp(second, _zone(zone)).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


@cache
def _zone(zone: str) -> ZoneInfo:
    check_zone(zone)
    with files("tzdata.zoneinfo").joinpath(*zone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


@cache
def _known_zones() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def _as_times(seconds: Int64[np.ndarray, "*shape"]) -> Times:
    return seconds.astype("datetime64[s]")
