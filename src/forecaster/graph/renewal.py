"""Whether a graph still says who moves together, or another one should take its place.

Another graph is estimated from the newest training weeks, at the penalty of the old one and from
its precision. It takes over if it explains the validation days better by more than chance: the
Gaussian log-likelihoods of both are summed over blocks of days, whose differences are tested. Two
estimates of the same world differ as well, so it must also explain a tenth more: its gain over
the old graph is compared with its gain over no edges.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from forecaster.config import GraphConfig
from forecaster.graph.covariance import find_scale, measure, take_sample
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lasso import LassoResult
from forecaster.graph.learn import learn_graph
from forecaster.graph.selection import MessageCallback
from forecaster.paired import block_days, p_values
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, assign_splits

CHANCE = 0.05
LEAST_GAIN = 0.1  # of what the other graph explains
NEWEST_WEEKS = 24
LEAST_EIGENVALUE = 0.05  # of 1 − R: strengths are shrunk until it has one


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
    progress: MessageCallback | None = None,
) -> Renewal:
    """The graph itself, or one that has been estimated anew since it has drifted.

    Only graphs of the lasso are estimated anew; others stay.

    Args:
        graph: of the panel's locations.
        panel: whose training and validation steps tell.
        splits: of the panel.
        config: of the graph.
        progress: called with a message before each stage.
    """
    if graph.about.kind != "lasso" or graph.about.penalty is None:
        return Renewal(graph, 1.0)
    fixed = config.model_copy(update={"penalty": graph.about.penalty})
    newest = _newest(panel, splits)
    old = precision_of(graph)
    start = LassoResult(old, np.linalg.inv(old), np.inf, 0, False, ())
    other = learn_graph(panel, newest, fixed, progress=progress, start=start)
    p_value = _compare(old, precision_of(other), panel, newest, config)
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


def _compare(
    old: Float64[np.ndarray, "N N"],
    other: Float64[np.ndarray, "N N"],
    panel: Panel,
    splits: Splits,
    config: GraphConfig,
) -> float:
    """The p-value of the other precision explaining the validation days better; 1: hardly so."""
    split = assign_splits(panel, splits)
    sample = take_sample(panel, split == SPLITS.index("train"), config.subtract)
    scale = find_scale(sample, measure(sample, sample.steps).covariance())
    observed = take_sample(panel, split == SPLITS.index("validation"), "nothing").steps
    days = panel.clock.local(panel.times[observed]).astype("datetime64[D]").astype(np.int64)
    block = block_days(days)
    unit = np.where(scale.constant, np.inf, scale.deviation)
    rows = []
    for number in range(int(block.max()) + 1):
        moments = measure(sample, observed[block == number])
        squares = moments.squares / np.outer(unit, unit)
        rows.append(
            [
                moments.count * np.linalg.slogdet(Q)[1] - float((Q * squares).sum())
                for Q in (other, old, np.eye(len(old)))
            ]
        )
    likelihoods = np.array(rows)
    gain, explained = (likelihoods[:, 0] - likelihoods[:, n] for n in (1, 2))
    if gain.sum() < LEAST_GAIN * explained.sum():
        return 1.0
    differences = gain[:, None]
    return float(p_values(differences, np.ones_like(differences, dtype=bool))[0])
