"""Recovery of the city's true dependency graph: F1 of the edges, by kind of graph."""

import time

from benchmarks.measure import at_least, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the threads are set)

from forecaster.config import GraphConfig  # noqa: E402
from forecaster.graph.dependency import DependencyGraph  # noqa: E402
from forecaster.graph.edges import edges_above, threshold_for_degree  # noqa: E402
from forecaster.graph.learn import learn_graph  # noqa: E402
from forecaster.splits import Splits  # noqa: E402
from forecaster.synthetic.city import City, make_city  # noqa: E402
from forecaster.synthetic.dependencies import AVERAGE_DEGREE  # noqa: E402

PAPER_HOURS = 52_560  # of training
PAPER_THRESHOLD = 0.1
GOAL = 0.95
FEWER_HOURS = (1_000, 2_000, 4_000, 8_760, 17_520, 35_040)
DEFAULT, INVERSE = "lasso, λ by held-out likelihood", "thresholded inverse"
KINDS = {
    DEFAULT: GraphConfig(threshold=0.0),
    "lasso, λ by EBIC": GraphConfig(threshold=0.0, choose="ebic"),
    "lasso, λ = 0.05": GraphConfig(threshold=0.0, penalty=0.05),
    INVERSE: GraphConfig(threshold=0.0, kind="inverse"),
    "Pearson correlation": GraphConfig(threshold=0.0, kind="pearson"),
    "raw demand, lasso, λ by held-out likelihood": GraphConfig(threshold=0.0, subtract="nothing"),
    "raw demand, thresholded inverse": GraphConfig(
        threshold=0.0, subtract="nothing", kind="inverse"
    ),
}


def main() -> None:
    """Learn every kind of graph once and apply both thresholds; then use fewer hours."""
    hours, locations = (17_520, 200) if OPTIONS.quick else (PAPER_HOURS, 996)
    city, splits = _city(locations, hours, seed=0)
    notes, default = [f"{locations} locations, {hours:,} training hours"], 0.0
    for name, config in KINDS.items():
        begin = time.perf_counter()
        graph = learn_graph(city.panel, splits, config)
        seconds = time.perf_counter() - begin
        notes.append(f"{name:44} {_describe(city, graph)}; {seconds:.1f} s")
        default = default or _f1(city, graph, AVERAGE_DEGREE)
    notes += [] if OPTIONS.quick else [_with_fewer_hours(fewer) for fewer in FEWER_HOURS]
    name = "F1 at the true average degree, by default"
    report(OPTIONS, notes, [at_least(name, default, "all edges", GOAL)])


def _city(locations: int, hours: int, seed: int) -> tuple[City, Splits]:
    """A city, and splits with `hours` training hours."""
    city = make_city(locations=locations, hours=hours + 48, seed=seed)
    stamps = [f"{time}Z" for time in city.panel.times]
    borders = ((0, hours - 1), (hours, hours + 23), (hours + 24, hours + 47))
    train, validation, test = ([(stamps[a], stamps[b])] for a, b in borders)
    return city, Splits(train, validation, test)


def _with_fewer_hours(hours: int) -> str:
    """Compare the default and the inverse on small cities, the mean of three."""
    scores = []
    for seed in range(3):
        city, splits = _city(200, hours, seed)
        graphs = (learn_graph(city.panel, splits, KINDS[name]) for name in (DEFAULT, INVERSE))
        scores.append([_f1(city, graph, AVERAGE_DEGREE) for graph in graphs])
    lasso, inverse = np.mean(scores, axis=0)
    return f"200 locations, {hours:6,} hours: F1 {lasso:.3f} by default, {inverse:.3f} inverse"


def _describe(city: City, graph: DependencyGraph) -> str:
    penalty = "" if graph.about.penalty is None else f", λ = {graph.about.penalty:.3g}"
    degree = 2 * len(edges_above(graph.matrix(), PAPER_THRESHOLD).pairs) / len(graph.locations)
    at_degree, at_value = _f1(city, graph, AVERAGE_DEGREE), _f1(city, graph, None)
    text = f"F1 {at_degree:.3f} at degree {AVERAGE_DEGREE:g}, {at_value:.3f} at"
    return f"{text} {PAPER_THRESHOLD:g} (degree {degree:.1f}){penalty}"


def _f1(city: City, graph: DependencyGraph, degree: float | None) -> float:
    """The F1 score of the edges above a threshold."""
    strengths, N = graph.matrix(), len(graph.locations)
    cut = PAPER_THRESHOLD if degree is None else threshold_for_degree(strengths, degree)
    learned, true = edges_above(strengths, cut).pairs, city.edges
    shared = np.intersect1d(learned[:, 0] * N + learned[:, 1], true.first * N + true.second)
    return 2 * len(shared) / (len(learned) + len(true))


if __name__ == "__main__":
    main()
