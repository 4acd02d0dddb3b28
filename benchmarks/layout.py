"""Opening, slicing and growing panels of 1,000 to 100,000 locations × a year of hours.

`python -m benchmarks.layout` writes each panel in quarters of a year (about 1 GB of memory at
100,000 locations, and as much on disk), then times: opening it without verification, reading a
week of all locations from a new opening, and appending a day. `--quick` leaves out the largest.
"""

import gc
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Result, at_most, read_options, report

OPTIONS = read_options(__doc__ or "")

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.clock.clock import Clock  # noqa: E402
from forecaster.panel.append import append_panel  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import Covariates, LocalCovariates, Locations  # noqa: E402

SIZES = (1_000, 10_000, 100_000)
HOURS, QUARTER, WEEK, DAY = 8_760, 2_190, 168, 24
OPEN_SECONDS, WEEK_SECONDS = 2.0, 1.0  # goals
REPEATS = 5


def main() -> None:
    """Write, open, slice and grow a panel of each size."""
    notes, results = list[str](), list[Result]()
    for count in SIZES[:2] if OPTIONS.quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="layout-") as name:
            note, timed = measure(Path(name), count)
        print(note, file=sys.stderr, flush=True)
        notes.append(note)
        results += timed
    report(OPTIONS, notes, results)


def measure(folder: Path, count: int) -> tuple[str, list[Result]]:
    """The times of a panel of so many locations."""
    generator = np.random.default_rng(count)
    began = time.perf_counter()
    hours(generator, count, 0, QUARTER).save(folder)
    for first in range(QUARTER, HOURS, QUARTER):
        append_panel(folder, hours(generator, count, first, QUARTER))
    written = time.perf_counter() - began
    gc.collect()
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9

    def read_week() -> None:
        first = int(generator.integers(0, HOURS - WEEK))
        panel = Panel.open(folder, verify=False).steps(first, first + WEEK)
        if panel.values.shape != (WEEK, count):
            raise RuntimeError(f"a week of {panel.values.shape}")

    opened = median(lambda: Panel.open(folder, verify=False))
    week = median(read_week)
    days = iter([hours(generator, count, HOURS + DAY * day, DAY) for day in range(REPEATS + 1)])
    appended = median(lambda: append_panel(folder, next(days)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    note = (
        f"{count:7,} × {HOURS:,}: {size:.2f} GB, written in {written:.0f} s; open {opened}, "
        f"a week {week}, append of a day {appended}; peak {peak:.1f} GiB"
    )
    return note, [
        at_most(f"open, {count:,} locations", opened.wall, "seconds", OPEN_SECONDS),
        at_most(f"a week, {count:,} locations", week.wall, "seconds", WEEK_SECONDS),
        Result(f"append of a day, {count:,} locations", round(appended.wall, 3), "seconds"),
    ]


@dataclass(frozen=True)
class Seconds:
    """The seconds of a job: by the clock, and of the processor where others run beside it."""

    wall: float
    processor: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.processor:.2f} s of processor)"


def median(job: Callable[[], object]) -> Seconds:
    """The median seconds of a job, which runs once before."""
    job()
    times = [seconds(job) for _ in range(REPEATS)]
    return Seconds(
        statistics.median(each.wall for each in times),
        statistics.median(each.processor for each in times),
    )


def seconds(job: Callable[[], object]) -> Seconds:
    """The seconds of a job."""
    began, used = time.perf_counter(), time.process_time()
    job()
    return Seconds(time.perf_counter() - began, time.process_time() - used)


def hours(generator: np.random.Generator, count: int, first: int, length: int) -> Panel:
    """Counts of some hours; at one of a hundred locations an hour is missing."""
    values = generator.integers(0, 40, (length, count), dtype=np.uint8).astype(np.float32)
    values[generator.integers(0, length, count // 100), np.arange(count // 100)] = np.nan
    start = np.datetime64("2021-01-01T05", "s") + np.timedelta64(first, "h")
    return Panel(
        values=values,
        start=start,
        clock=Clock("America/New_York"),
        kind="count",
        locations=Locations.of_ids(f"L{n:06d}" for n in range(count)),
        covariates=Covariates((), np.empty((length, 0), dtype=np.float32)),
        local_covariates=LocalCovariates((), np.empty((0, length, count), dtype=np.float32)),
    )


if __name__ == "__main__":
    main()
