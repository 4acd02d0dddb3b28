"""Graphs of many locations: neighbourhoods against the lasso and the truth, and their cost."""

import resource
import sys
import time
from dataclasses import replace

from benchmarks.measure import Result, at_least, at_most, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)

from forecaster.config import GraphConfig  # noqa: E402
from forecaster.graph.learn import estimate_neighbourhoods, learn_graph  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.panel.parts import Covariates, LocalCovariates, Locations  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.synthetic.city import City, make_city  # noqa: E402
from forecaster.synthetic.dependencies import AVERAGE_DEGREE  # noqa: E402

YEAR, HELD_OUT = 8_760, 48  # hours
TILE = 500  # locations of one of the cities that a large panel is made of
APART = (0.1, 0.25)  # degrees between neighbouring cities
THINNED = (0.3, 1.0)  # their share of trips
GOAL_F1, GOAL_GIB = 0.95, 16.0
Codes = np.ndarray


def main() -> None:
    """Compare with the lasso where it is possible, then measure time and memory."""
    sizes = (600,) if OPTIONS.quick else (996, 2_000)
    notes, results = list[str](), list[Result]()
    for locations in sizes:
        lines, compared = _compare(make_city(locations, hours=YEAR + HELD_OUT))
        notes += lines
        results += compared
    large = (4_000, 1_440) if OPTIONS.quick else (20_000, YEAR)
    note, result = _measure(*large)
    report(OPTIONS, [*notes, note], [*results, result])


def _compare(city: City) -> tuple[list[str], list[Result]]:
    """The F1 of the edges at the true degree, and at 0.1."""
    N, splits = len(city.locations), _splits(city.panel)
    true = city.edges.first * N + city.edges.second
    notes, results = list[str](), list[Result]()
    for config in (GraphConfig(degree=AVERAGE_DEGREE), GraphConfig()):
        cut = "degree 2.5" if config.degree else "0.1"
        exact, sparse = (
            _codes(
                learn_graph(city.panel, splits, config.model_copy(update={"kind": kind})).pairs, N
            )
            for kind in ("lasso", "neighbourhood")
        )
        text = f"against the truth {_f1(sparse, true):.3f} (lasso {_f1(exact, true):.3f})"
        notes.append(f"N = {N:,}, {cut}: {text}")
        name = f"F1 against the lasso, N = {N:,}, {cut}"
        goal = GOAL_F1 if config.degree else 0.9
        results.append(at_least(name, _f1(sparse, exact), "all edges", goal))
    return notes, results


def _measure(locations: int, hours: int) -> tuple[str, Result]:
    """Time and memory of a panel of many cities side by side, and whether its edges are found."""
    panel, true = tile_cities(locations, hours + HELD_OUT)
    splits, config = _splits(panel), GraphConfig(degree=AVERAGE_DEGREE, kind="neighbourhood")
    begin, processor = time.perf_counter(), time.process_time()
    graph = learn_graph(panel, splits, config)
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 30 if sys.platform == "darwin" else 1 << 20
    )
    guess = estimate_neighbourhoods(locations, hours)
    note = f"{locations:,} × {hours:,}: {seconds:.0f} s ({used:.0f} of processor time; estimate "
    note += f"{guess.seconds:.0f}), {gib:.2f} GiB with the panel, λ = {graph.about.penalty:.3g}, "
    note += f"F1 against the truth {_f1(_codes(graph.pairs, locations), true):.3f}"
    name = f"{locations:,} × {hours:,}, memory"
    return note, at_most(name, gib / GOAL_GIB, f"{GOAL_GIB:g} GiB", 1.0)


def tile_cities(locations: int, hours: int) -> tuple[Panel, Codes]:
    """A panel of shifted and thinned cities side by side, and the codes of its true edges."""
    tiles, generator = -(-locations // TILE), np.random.default_rng(0)
    city = make_city(TILE, hours=hours + 168 * (tiles // 8))
    values = np.empty((hours, locations), np.float32)
    lat, lon, codes = np.empty(locations), np.empty(locations), []
    for tile in range(tiles):
        columns = slice(tile * TILE, min((tile + 1) * TILE, locations))
        size = columns.stop - columns.start
        steps = slice(168 * (tile // 8), 168 * (tile // 8) + hours)
        noise = np.roll(city.noise, (tile % 8) * 997 + tile, axis=0)[steps, :size]
        rate = city.expected[steps, :size] * np.exp(noise - noise.var() / 2)
        values[:, columns] = generator.poisson(generator.uniform(*THINNED) * rate)
        lat[columns] = city.locations.lat[:size] + tile % 20 * APART[1]
        lon[columns] = city.locations.lon[:size] + tile // 20 * APART[0]
        inside = city.edges.second < size
        first, second = (
            ends[inside] + columns.start for ends in (city.edges.first, city.edges.second)
        )
        codes.append(first * locations + second)
    names = tuple(f"place {n}" for n in range(locations))
    panel = replace(
        city.panel,
        values=values,
        locations=Locations(names, names, lat, lon),
        covariates=Covariates((), np.empty((hours, 0), np.float32)),
        local_covariates=LocalCovariates.empty(hours, locations),
    )
    return panel, np.concatenate(codes)


def _splits(panel: Panel) -> Splits:
    stamps = [f"{time}Z" for time in panel.times]
    train, validation, test = (0, -49), (-48, -25), (-24, -1)
    return Splits(*([(stamps[a], stamps[b])] for a, b in (train, validation, test)))


def _codes(pairs: np.ndarray, locations: int) -> Codes:
    return np.asarray(pairs[:, 0] * locations + pairs[:, 1])


def _f1(learned: Codes, true: Codes) -> float:
    return 2 * len(np.intersect1d(learned, true)) / (len(learned) + len(true))


if __name__ == "__main__":
    main()
