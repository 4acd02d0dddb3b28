"""The time that long work still takes, estimated from what is done, and how often that is said."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

EVERY_SECONDS = 5.0  # at most so often a message about the same work
USUAL_GROWTH, MOST_GROWTH = 1.09, 1.35  # of the duration of an item to the next
WEIGHT = 3.0  # of the usual growth, in squared distances of items
SHORTEST = 1e-9  # seconds
WARM_ITEMS, WARM_SECONDS = 5, 3.0  # after the first, to estimate by them alone
MINUTE, HOUR = 60, 3600  # seconds

Seconds = Callable[[], float]  # a clock
Tell = Callable[[str], None]  # what becomes of a message
T = TypeVar("T")


def ignore(message: str) -> None:
    """Drop a message."""


class RemainingTime:
    """Estimates the time left of work whose items take about equally long.

    The first item may take far longer: it loads or compiles what all others use.
    """

    def __init__(self, now: Seconds = time.monotonic) -> None:
        self._now, self._began = now, now()
        self._first: tuple[float, float] | None = None  # how much was done first, and when

    def seconds(self, done: int | float, total: int | float) -> float | None:
        """The seconds left, or None as long as an estimate would be a guess.

        That is before a tenth is done, and before some items after the first took some seconds.
        If no item takes more than twice as long as another, the estimate is within twice and half
        of the time that the rest takes.
        """
        now, left = self._now(), max(total - done, 0.0)
        if done <= 0:
            return None
        self._first = self._first or (done, now)
        done_first, at_first = self._first
        if done - done_first >= WARM_ITEMS and now - at_first >= WARM_SECONDS:
            return (now - at_first) * left / (done - done_first)
        if done < total / 10:
            return None
        return (now - self._began) * left / done


def extrapolate(durations: Sequence[float], items: int) -> float:
    """The seconds of further items if their durations go on growing at the rate seen so far.

    The rate is that of a line through their logarithms, drawn towards the usual one while there
    are few.
    """
    count = len(durations)
    places = [number - (count - 1) / 2 for number in range(count)]
    logs = [math.log(max(duration, SHORTEST)) for duration in durations]
    rise = sum(place * value for place, value in zip(places, logs, strict=True))
    rate = (rise + WEIGHT * math.log(USUAL_GROWTH)) / (sum(p * p for p in places) + WEIGHT)
    rate = min(max(rate, 0.0), math.log(MOST_GROWTH))
    level = sum(durations) / sum(math.exp(rate * place) for place in places)
    ahead = range(count, count + items)
    return level * sum(math.exp(rate * (number - (count - 1) / 2)) for number in ahead)


def describe_seconds(seconds: float) -> str:
    """Say a time left in words: `about 40 s left`, `about 3 min left`, `about 2.5 h left`."""
    if seconds < MINUTE:
        return f"about {max(round(seconds), 1)} s left"
    if seconds < HOUR:
        return f"about {round(seconds / MINUTE)} min left"
    return f"about {seconds / HOUR:.1f} h left"


class Paced:
    """Passes on a message if the last one is a while ago, and drops it otherwise."""

    def __init__(
        self,
        tell: Tell,
        every: float = EVERY_SECONDS,
        now: Seconds = time.monotonic,
    ) -> None:
        self._tell, self._every, self._now = tell, every, now
        self._last = now()

    def __call__(self, message: str) -> None:
        """Tell a message, or drop it."""
        if self._now() - self._last >= self._every:
            self._last = self._now()
            self._tell(message)


def track(items: Sequence[T], noun: str, tell: Tell) -> Iterator[T]:
    """Yield items of work, and tell now and then which it is and how long the others take."""
    remaining, paced = RemainingTime(), Paced(tell)
    for done, item in enumerate(items):
        seconds = remaining.seconds(done, len(items))
        time_left = "" if seconds is None else f", {describe_seconds(seconds)}"
        if done:
            paced(f"{noun} {done + 1} of {len(items)}{time_left}")
        yield item
