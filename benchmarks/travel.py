"""The city where demand travels: what others' past is worth, and whether its edges are found.

All hours but the last tenth are learned from, where the graph is learned (`kind = "lagged"`).
"""

import time

from benchmarks.measure import at_least, at_most, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)

from forecaster.config import GraphConfig  # noqa: E402
from forecaster.graph.dependency import DependencyGraph  # noqa: E402
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.synthetic.city import City, make_city  # noqa: E402
from forecaster.synthetic.lagged import MAX_DELAY  # noqa: E402

HOURS = 8_760
AHEAD = (1, 3, 12)
TRAVELS = (0.25, 0.5, 1.0)
CUTS = np.arange(3.0, 8.0, 0.25)  # standard errors
GOAL, SECONDS = 0.9, 20.0
LONG_HOURS = 65_711


def main() -> None:
    """Compare both floors of a year, and learn its edges by least squares and as a user would."""
    locations = 200 if OPTIONS.quick else 996
    notes, learned = [f"{locations} locations, {HOURS:,} hours"], 0.0
    for travel in TRAVELS:
        city = make_city(locations, hours=HOURS, travel=travel)
        graph, _ = _learn(city)
        learned = _f1_of(graph, city)
        notes.append(
            f"travel {travel:<4g} {_floors(city)}; F1 of the learned graph {learned:.3f} "
            f"({len(graph):,} edges); at best by least squares {_f1(city):.3f}"
        )
    results = [at_least("F1 of source, target and delay at full travel", learned, "all", GOAL)]
    if not OPTIONS.quick:
        _learn(make_city(20, hours=HOURS))  # compiled
        _, seconds = _learn(make_city(locations, hours=LONG_HOURS, travel=1.0))
        name = f"{locations} × {LONG_HOURS:,} learned in seconds"
        results.append(at_most(name, seconds, "one second", SECONDS))
    report(OPTIONS, notes, results)


def _learn(city: City) -> tuple[DependencyGraph, float]:
    """The graph of all hours but the last tenth, and the seconds that it took."""
    splits = Splits.by_share(city.panel, validation=0.05, test=0.05)
    begin = time.perf_counter()
    graph = learn_graph(city.panel, splits, GraphConfig(kind="lagged"))
    return graph, time.perf_counter() - begin


def _f1_of(graph: DependencyGraph, city: City) -> float:
    """The F1 score of the sources, targets and delays of a graph."""
    edges = city.lagged_edges
    true = {tuple(row) for row in np.column_stack([edges.pairs, edges.delays]).tolist()}
    delays = np.zeros(0) if graph.delays is None else graph.delays
    found = {tuple(row) for row in np.column_stack([graph.pairs, delays]).tolist()}
    return 2 * len(true & found) / max(len(true) + len(found), 1)


def _floors(city: City) -> str:
    origins = np.arange(1_000, HOURS - max(AHEAD))
    floor, alone = (bound(origins, max(AHEAD)) for bound in (city.floor, city.floor_alone))
    parts = [
        f"+{k}: {alone[k - 1]:.2f} alone, {floor[k - 1]:.2f} floor"
        f" ({100 * (floor[k - 1] / alone[k - 1] - 1):+.1f} %)"
        for k in AHEAD
    ]
    return "; ".join(parts)


def _f1(city: City) -> float:
    """The F1 score of a regression of log ratios, at the cut that is best for the true edges.

    The counts are divided by their true expected values, so this is more than a learner knows.
    """
    ratio = np.log((city.panel.values + 0.5) / (city.expected + 0.5)).astype(np.float64)
    ratio -= ratio.mean(axis=0)
    M, N = ratio.shape
    lags = range(1, MAX_DELAY + 1)
    past = np.concatenate([ratio[MAX_DELAY - lag : M - lag] for lag in lags], axis=1)
    target = ratio[MAX_DELAY:]
    inverse = np.linalg.inv(past.T @ past)
    fitted = inverse @ (past.T @ target)
    variance = np.square(target - past @ fitted).sum(axis=0) / (len(past) - past.shape[1])
    ratios = np.abs(fitted) / np.sqrt(np.outer(np.diag(inverse), variance))
    ratios = np.where(np.eye(N), 0.0, ratios.reshape(MAX_DELAY, N, N))
    edges, true = city.lagged_edges, np.zeros(ratios.shape, dtype=bool)
    true[edges.delays - 1, edges.pairs[:, 0], edges.pairs[:, 1]] = True
    found = [ratios > cut for cut in CUTS]
    return max(float(2 * (true & some).sum() / (true.sum() + some.sum())) for some in found)


if __name__ == "__main__":
    main()
