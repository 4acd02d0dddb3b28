"""Sharing of work over the cores of the machine, with the time that it still takes."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from forecaster.remaining import Paced, RemainingTime, describe_seconds


def share_out(
    items: Sequence[int], job: Callable[[int], None], noun: str, tell: Callable[[str], None]
) -> None:
    """Call a job with every item, in threads; tell now and then how far it is."""
    remaining, paced = RemainingTime(), Paced(tell)
    with ThreadPoolExecutor(cores()) as pool:
        for done, _ in enumerate(pool.map(job, items), start=1):
            seconds = remaining.seconds(done, len(items))
            left = "" if seconds is None else f", {describe_seconds(seconds)}"
            if done < len(items):
                paced(f"{noun} {done:,} of {len(items):,}{left}")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
