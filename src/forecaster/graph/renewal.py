"""Whether a graph still says who moves together, or another one should take its place.

Another graph is estimated from the newest training weeks, at the penalty of the old one. It takes
over if it explains the validation days better by more than chance: what both explain is summed
over blocks of days, whose differences are tested. Two estimates of the same world differ as well,
so it must also explain a tenth more: its gain over the old graph is compared with its gain over no
edges.

A graph of the lasso is a precision matrix, which explains by its Gaussian likelihood; the new
estimate begins from the old one. The edges of neighbourhoods and lagged edges explain by
regressions on them, which are fitted to the newest training weeks for the old edges as for the
new ones: only which edges there are is compared.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from forecaster.config import GraphConfig, LagConfig
from forecaster.errors import DataError, RunError
from forecaster.graph.covariance import find_scale, measure, take_sample
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lagged import held_out as lagged
from forecaster.graph.lasso import LassoResult
from forecaster.graph.learn import learn_graph
from forecaster.graph.neighbourhood import held_out as neighbourhood
from forecaster.graph.selection import MessageCallback
from forecaster.paired import block_days, p_values
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, assign_splits

CHANCE = 0.05
LEAST_GAIN = 0.1  # of what the other graph explains
NEWEST_WEEKS = 24
LEAST_EIGENVALUE = 0.05  # of 1 − R: strengths are shrunk until it has one
LEARNED = ("lasso", "neighbourhood", "lagged")  # the kinds that are estimated anew
Scores = Float64[np.ndarray, "blocks 3"]  # of the other graph, the old one and no edges


@dataclass(frozen=True, eq=False)
class Renewal:
    """The graph to use, and how sure it is that the old one has drifted."""

    graph: DependencyGraph
    p_value: float  # of the other graph being better; 1: not by enough, or not tested

    @property
    def has_drifted(self) -> bool:
        """Whether the old graph was replaced."""
        return self.p_value < CHANCE


def renew_graph(
    graph: DependencyGraph,
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
    lags: LagConfig | None = None,
    progress: MessageCallback | None = None,
) -> Renewal:
    """The graph itself, or one that has been estimated anew since it has drifted.

    Graphs that were not learned, or for comparison only, stay.

    Args:
        graph: of the panel's locations.
        panel: whose training and validation steps tell.
        splits: of the panel.
        config: of the graph.
        lags: of the network that takes lagged edges.
        progress: called with a message before each stage.
    """
    kind, penalty = graph.about.kind, _penalty_of(graph)
    if kind not in LEARNED or (kind == "lasso" and penalty is None):
        return Renewal(graph, 1.0)
    fixed = config.model_copy(update={"kind": kind, "penalty": penalty})
    newest, tell = _newest(panel, splits), progress or (lambda _: None)
    start = _as_result(graph) if kind == "lasso" else None
    try:
        other = learn_graph(panel, newest, fixed, lags=lags, progress=tell, start=start)
        scores = _score(other, graph, panel, newest, fixed, tell)
    except (DataError, RunError) as error:
        tell(f"no other graph can be estimated: {error}")
        return Renewal(graph, 1.0)
    p_value = _p_value(scores)
    return Renewal(other if p_value < CHANCE else graph, p_value)


def precision_of(graph: DependencyGraph) -> Float64[np.ndarray, "N N"]:
    """The precision matrix of unit variances whose conditional correlations are a graph's edges.

    Strengths that no precision matrix has together are shrunk a little.
    """
    N = len(graph.locations)
    strengths = np.zeros((N, N))
    first, second = graph.pairs.T
    strengths[first, second] = strengths[second, first] = graph.strengths
    largest = float(np.linalg.eigvalsh(strengths)[-1]) if len(graph) else 0.0
    if largest > 1 - LEAST_EIGENVALUE:
        strengths *= (1 - LEAST_EIGENVALUE) / largest
    plain = np.eye(N) - strengths
    deviation = np.sqrt(np.diag(np.linalg.inv(plain)))
    return np.asarray(plain * np.outer(deviation, deviation))


def _newest(panel: Panel, splits: Splits) -> Splits:
    """The splits with the newest training weeks alone."""
    train = splits.mask("train", panel.clock, panel.times)
    last = panel.times[train][-1]
    first = max(panel.times[train][0], last - np.timedelta64(7 * NEWEST_WEEKS, "D"))
    return Splits([(f"{first}Z", f"{last}Z")], splits.validation, splits.test)


def _penalty_of(graph: DependencyGraph) -> float | None:
    """The penalty that a graph was learned at; None: unknown, or no lagged edge was of use."""
    record = graph.about.lagged
    return graph.about.penalty if record is None else record.penalty


def _as_result(graph: DependencyGraph) -> LassoResult:
    """The result of the lasso that a new estimate begins from."""
    precision = precision_of(graph)
    return LassoResult(precision, np.linalg.inv(precision), np.inf, 0, False, ())


def _score(
    other: DependencyGraph,
    old: DependencyGraph,
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
    tell: MessageCallback,
) -> Scores:
    """What the other graph, the old one and no edges explain of each block of validation days."""
    split = assign_splits(panel, splits)
    train, validation = (split == SPLITS.index(name) for name in ("train", "validation"))
    graphs = other, old, _without_edges(old)
    if config.kind == "lagged":
        factors = max(graph.about.lagged.factors for graph in graphs if graph.about.lagged)
        return -lagged.edge_errors(panel, train, validation, graphs, factors)
    sample = take_sample(panel, train, config.subtract)
    observed = take_sample(panel, validation, "nothing").steps
    days = panel.clock.local(panel.times[observed]).astype("datetime64[D]").astype(np.int64)
    block = block_days(days)
    if config.kind == "neighbourhood":
        return -neighbourhood.edge_errors(sample, observed, block, graphs, tell)
    scale = find_scale(sample, measure(sample, sample.steps).covariance())
    unit = np.where(scale.constant, np.inf, scale.deviation)
    rows, precisions = [], [precision_of(graph) for graph in graphs]
    for number in range(int(block.max()) + 1):
        moments = measure(sample, observed[block == number])
        squares = moments.squares / np.outer(unit, unit)
        rows.append(
            [
                moments.count * np.linalg.slogdet(Q)[1] - float((Q * squares).sum())
                for Q in precisions
            ]
        )
    return np.array(rows)


def _without_edges(graph: DependencyGraph) -> DependencyGraph:
    """The locations of a graph alone."""
    delays = None if graph.delays is None else graph.delays[:0]
    return replace(graph, pairs=graph.pairs[:0], strengths=graph.strengths[:0], delays=delays)


def _p_value(scores: Scores) -> float:
    """The p-value of the other graph explaining more than the old one; 1: hardly so."""
    gain, explained = (scores[:, 0] - scores[:, n] for n in (1, 2))
    if gain.sum() < LEAST_GAIN * explained.sum():
        return 1.0
    differences = gain[:, None]
    return float(p_values(differences, np.ones_like(differences, dtype=bool))[0])
