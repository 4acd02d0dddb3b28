"""What time it is: the real time, or that of a replayed past."""

import time
from collections.abc import Callable

Now = Callable[[], float]  # seconds since 1970, UTC
AHEAD_SECONDS = 300  # that a client's clock may be ahead of ours


def real_time() -> float:
    """Return the time of the machine's clock."""
    return time.time()


def replayed_time(start: float, end: float, speed: float) -> Now:
    """Return a clock that shows `start` now, runs `speed` times as fast and stops at `end`."""
    began = time.monotonic()
    return lambda: min(start + (time.monotonic() - began) * speed, end)
