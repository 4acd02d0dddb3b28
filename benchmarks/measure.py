"""Measuring and reporting of benchmarks: medians of interleaved repeats, ratios and goals."""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """One ratio of a comparison, with its goal if there is one."""

    name: str
    ratio: float
    against: str
    goal: str | None = None
    met: bool | None = None


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    quick: bool
    json: bool


def read_options(description: str, threads: int = 2) -> Options:
    """Set the number of threads of this process and return the options.

    Call it before numpy, torch or pyarrow are imported: they read the environment at import.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, about a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args()
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ):
        os.environ[name] = str(threads)
    return Options(quick=arguments.quick, json=arguments.json)


def processor_seconds(server: int) -> float:
    """The processor time of this process, of a server, and of the server's own processes.

    On a busy machine it tells more than the time that passes.
    """
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if path.parent.name == f"{server}":
                ticks += sum(map(int, words[11:15]))  # of processes that have ended, too
            elif words[1] == f"{server}":
                ticks += sum(map(int, words[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def medians(
    jobs: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """The median seconds of each job; jobs take turns, so that noise affects all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():  # not measured: fills caches, compiles
        job()
    for _ in range(repeats):
        for name, job in jobs.items():
            begin = clock()
            job()
            seconds[name].append(clock() - begin)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def at_most(name: str, ratio: float, against: str, limit: float) -> Result:
    """A result whose goal is a ratio of at most `limit`."""
    return Result(name, round(ratio, 3), against, goal=f"≤ {limit:g}", met=ratio <= limit)


def at_least(name: str, ratio: float, against: str, limit: float) -> Result:
    """A result whose goal is a ratio of at least `limit`."""
    return Result(name, round(ratio, 3), against, goal=f"≥ {limit:g}", met=ratio >= limit)


def report(options: Options, notes: list[str], results: list[Result]) -> None:
    """Print notes and results for people, or one JSON object per result for programs."""
    if options.json:
        for result in results:
            sys.stdout.write(json.dumps(asdict(result)) + "\n")
        return
    print("\n".join(notes))
    for result in results:
        goal = (
            f"  (goal {result.goal}: {'met' if result.met else 'MISSED'})" if result.goal else ""
        )
        print(f"{result.name:42} {result.ratio:8.3f} × {result.against}{goal}")
