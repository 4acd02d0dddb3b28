"""Generating the synthetic city of the paper's size: time and memory against their goals."""

import resource
import sys
import time

from benchmarks.measure import at_most, read_options, report

OPTIONS = read_options(__doc__)

from forecaster.synthetic.city import City, make_city  # noqa: E402 (after the threads are set)
from forecaster.synthetic.dependencies import describe_edges  # noqa: E402

GOAL_SECONDS, GOAL_GIB = 60.0, 4.0
TRIP_HOURS = 240


def main() -> None:
    """Generate the city once, then some of its trips; memory is the peak of the process."""
    begin = time.perf_counter()
    city = make_city()
    seconds = time.perf_counter() - begin
    gib = _peak_gib()
    M, N = city.panel.values.shape
    notes = [
        describe_edges(city.edges, N),
        f"{N} × {M:,}: {seconds:.1f} s, peak {gib:.2f} GiB",
    ]
    if not OPTIONS.quick:
        notes.append(_time_trips(city))
    results = [
        at_most("make_city(), seconds", seconds / GOAL_SECONDS, f"{GOAL_SECONDS:g} s", 1.0),
        at_most("make_city(), peak memory", gib / GOAL_GIB, f"{GOAL_GIB:g} GiB", 1.0),
    ]
    report(OPTIONS, notes, results)


def _time_trips(city: City) -> str:
    begin = time.perf_counter()
    trips = sum(len(chunk) for chunk in city.trips(0, TRIP_HOURS - 1))
    millions = trips / 1e6 / (time.perf_counter() - begin)
    return f"{trips:,} trips of {TRIP_HOURS} hours: {millions:.1f} million a second"


def _peak_gib() -> float:
    """The peak memory of this process; Linux reports KiB, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)


if __name__ == "__main__":
    main()
