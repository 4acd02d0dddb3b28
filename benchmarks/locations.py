"""Selecting hot locations from 2 million cells, against a goal of one minute."""

import time

from benchmarks.measure import Result, at_most, read_options, report

OPTIONS = read_options(__doc__, threads=1)

import numpy as np  # noqa: E402 (after the number of threads is set)

from forecaster.ingest.hot_locations.cells import BLOCK, Cells  # noqa: E402
from forecaster.ingest.hot_locations.selection import select_hot  # noqa: E402
from forecaster.panel.parts import Locations  # noqa: E402

GOAL_SECONDS = 60.0
CANDIDATES, CELLS = (546, 200_000) if OPTIONS.quick else (5_464, 2_000_000)
HOURS, MIN_DEMAND = 8_760, 10.0  # the paper's threshold, over one year
MEAN_DEMAND = 2.3  # rides an hour per candidate: leaves about a thousand of them
MAX_DISTANCE_M = 200.0
SOUTH, WEST = 407_000, -740_200  # a corner of New York, degrees × 10⁴


def main() -> None:
    """Select once: noise is small for a job of this size."""
    cells, candidates = _city(np.random.default_rng(0))
    begin = time.perf_counter()
    hot = select_hot(cells, candidates, MIN_DEMAND * HOURS, MAX_DISTANCE_M)
    seconds = time.perf_counter() - begin
    far = float((hot.location_of_cell < 0).mean())
    touched = hot.touched / CANDIDATES
    notes = [
        f"{CANDIDATES:,} candidates, {CELLS:,} cells in blocks of {BLOCK}, 1 thread",
        f"{len(hot.chosen):,} selected of {cells.rides.sum():,} rides, {far:.2%} of cells too far",
        f"{seconds:.1f} s, {touched:,.0f} cells touched for each candidate",
    ]
    goal = f"{GOAL_SECONDS:g} s"
    results = [
        at_most("select_hot(), seconds", seconds / GOAL_SECONDS, goal, 1.0),
        Result("cells touched for each candidate", round(touched / CELLS, 5), "all cells"),
    ]
    report(OPTIONS, notes, results)


def _city(generator: np.random.Generator) -> tuple[Cells, Locations]:
    """A strip six times as long as wide: candidates at jittered corners, clustered rides."""
    columns = round(
        (CELLS / 6.0) ** 0.5 * 1.15
    )  # as many metres wide: a cell is 1.3 times as high
    lat, lon = np.divmod(np.arange(CELLS), columns)
    avenues = round((CANDIDATES / 6.0) ** 0.5)
    street, avenue = np.divmod(np.arange(CANDIDATES), avenues)
    jitter = generator.uniform(0.25, 0.75, (2, CANDIDATES))
    north = (street + jitter[0]) * avenues / CANDIDATES * (CELLS / columns)
    east = (avenue + jitter[1]) / avenues * columns
    ids = tuple(f"L{n + 1:04d}" for n in generator.permutation(CANDIDATES))
    candidates = Locations(ids, ids, (SOUTH + north) / 1e4, (WEST + east) / 1e4)

    middle = np.exp(-np.abs(lat / lat.max() - 0.45) * 6.0)  # most rides start in midtown
    weight = middle * generator.lognormal(0.0, 2.0, CELLS)  # a few corners have very many
    mean = weight / weight.sum() * MEAN_DEMAND * HOURS * CANDIDATES
    rides = 1 + generator.poisson(mean)
    order = generator.permutation(CELLS)
    return Cells((SOUTH + lat)[order], (WEST + lon)[order], rides[order]), candidates


if __name__ == "__main__":
    main()
