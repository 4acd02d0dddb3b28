"""Edges of a run's graph that appeared, vanished or changed sign since training.

The dependence of every pair is measured in the learned weeks and in the recent ones, in the same
way: of an undirected graph the correlation given all others (Eq. 3, from a correlation matrix
shrunk towards independence), of a directed one the correlation of what is new at the source with
what is new at the target, so many steps later. Values are taken as deviations from what is usual,
and from their week's mean, so that a changed level is no changed dependence.

How sure a change is, permutations say: if nothing had changed, the weeks could be shuffled between
before and after. A pair's p-value is the share of shuffles in which the largest change of any pair
is at least as large as its own (Westfall & Young 1993). So the chance that any edge is reported by
mistake is 5 %, however many pairs there are, and weeks may be of any kind inside.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.artifact import Run
from forecaster.estimators.graph_arrays import PAIRS, RunEdges, edges_of
from forecaster.evaluation.drift.places import RECENT_WEEKS
from forecaster.evaluation.drift.scores import Spans, usual_values
from forecaster.evaluation.drift.sequential import WEEK_DAYS
from forecaster.graph.edges import conditional_correlation
from forecaster.panel.panel import Panel

EdgeKind = Literal["appeared", "vanished", "changed sign"]
Matrix = Float64[np.ndarray, "N N"]

CHANCE = 0.05  # that any pair is reported although nothing changed
SHUFFLES, SEED = 199, 0
LEARNED_WEEKS = 40  # the last ones before; and at least four recent ones are needed
MIN_WEEKS = 4
MOST_LOCATIONS = 1_500  # each shuffle inverts two matrices of this size
SHRINKAGE = (0.05, 0.5)  # towards independence
WEAK = 0.05  # a dependence that is no edge, whatever the graph
HEARD = 0.5  # of the weeks in which a location must vary
MOST = 1 - 1e-9  # of a correlation, whose Fisher transform is finite


@dataclass(frozen=True)
class EdgeChange:
    """A pair whose dependence is another since training."""

    source: int  # columns of the run
    target: int
    kind: EdgeKind
    before: float  # strength
    after: float
    p_value: float  # adjusted for all pairs
    delay: int = 0  # steps from source to target; 0: an undirected edge


@dataclass(frozen=True, eq=False)
class EdgeReport:
    """The changes of a run's graph, or why they are unknown."""

    edges: int
    changes: tuple[EdgeChange, ...] = ()
    reason: str | None = None  # why nothing was compared; None: it was


@dataclass(frozen=True, eq=False)
class Weeks:
    """Deviations of whole weeks, those before and those after."""

    values: Float32[np.ndarray, "W T N"]  # 0 where missing
    after: int  # the number of the last weeks that are recent


def find_edge_changes(run: Run, panel: Panel, spans: Spans) -> EdgeReport:
    """Compare the dependences of the recent weeks with those of training.

    Args:
        run: fitted.
        panel: matched to it.
        spans: its steps of validation and those since.
    """
    if PAIRS not in run.arrays:
        return EdgeReport(0, reason=f"{run.estimator} has no graph")
    graph, N = edges_of(run.arrays), len(run.about["ids"])
    count = len(np.unique(graph.pairs, axis=0))
    weeks = cut_weeks(run, panel, spans)
    if weeks.after < MIN_WEEKS:
        lacking = f"{MIN_WEEKS} whole weeks since training are needed, there are {weeks.after}"
        return EdgeReport(count, reason=lacking)
    if N > MOST_LOCATIONS:
        return EdgeReport(
            count, reason=f"{N:,} locations; at most {MOST_LOCATIONS:,} are compared"
        )
    values = weeks.values
    if graph.is_directed:
        values = _innovations(values)
    values = _standardize(values, weeks.after)
    shuffles = _shuffle_weeks(len(values), weeks.after)
    recent_values = values.shape[1] * weeks.after
    shrinkage = float(np.clip(N / (N + recent_values), *SHRINKAGE))
    by_delay: dict[int, tuple[Matrix, Matrix]] = {}
    largest = np.zeros(len(shuffles))
    for delay in (0,) if graph.delays is None else np.unique(graph.delays).tolist():
        products = _products(values, delay)
        strengths = [_dependences(products, rows, delay, shrinkage) for rows in shuffles]
        by_delay[delay] = strengths[0]
        largest = np.maximum(largest, [_change(pair).max() for pair in strengths])
    changes = [
        change
        for delay, strengths in by_delay.items()
        for change in _classify(strengths, _pairs_of(graph, delay), delay, largest)
    ]
    return EdgeReport(count, tuple(sorted(changes, key=lambda c: -abs(c.after - c.before))))


def cut_weeks(run: Run, panel: Panel, spans: Spans) -> Weeks:
    """The deviations of the last learned weeks, and of the recent ones."""
    length = WEEK_DAYS * 24 * 60 // panel.clock.step_minutes
    after = min((len(panel.values) - spans.first_new) // length, RECENT_WEEKS)
    before = min(spans.first_new // length, LEARNED_WEEKS)
    parts = [
        _deviations(run, panel, np.arange(end - count * length, end)).reshape(count, length, -1)
        for end, count in ((spans.first_new, before), (len(panel.values), after))
    ]
    values = np.concatenate(parts)
    values -= values.mean(axis=1, keepdims=True)  # a week's level is no dependence
    return Weeks(values, after)


def _deviations(
    run: Run, panel: Panel, steps: Int64[np.ndarray, " T"]
) -> Float32[np.ndarray, "T N"]:
    """Deviations from what is usual; of counts of square roots, whose spread is more even."""
    values, usual = panel.values[steps], usual_values(run, panel, steps)
    if run.about["kind"] == "count":
        values, usual = np.sqrt(values), np.sqrt(usual)
    return np.asarray(np.nan_to_num(values - usual))


def _innovations(values: Float32[np.ndarray, "W T N"]) -> Float32[np.ndarray, "W T N"]:
    """What is new at each step: deviations less what a location's own last one tells."""
    past, present = values[:, :-1], values[:, 1:]
    square = np.square(past).sum(axis=(0, 1))
    together = (past * present).sum(axis=(0, 1))
    share = np.divide(together, square, out=np.zeros_like(square), where=square > 0)
    new = values.copy()
    new[:, 1:] -= share * past
    return new


def _standardize(values: Float32[np.ndarray, "W T N"], after: int) -> Float32[np.ndarray, "W T N"]:
    """Values of deviation 1 in each week; 0 at locations mostly silent before or after."""
    deviation = values.std(axis=1, keepdims=True)
    varies = deviation[:, 0] > 0
    W = len(values)
    heard = np.minimum(varies[: W - after].mean(axis=0), varies[W - after :].mean(axis=0)) > HEARD
    scaled = np.divide(values, deviation, out=np.zeros_like(values), where=deviation > 0)
    return np.asarray(np.where(heard, scaled, np.float32(0)))


def _shuffle_weeks(weeks: int, after: int) -> Bool[np.ndarray, "R W"]:
    """Which weeks are taken as recent: first those that are, then as many others by chance."""
    actual = np.arange(weeks) >= weeks - after
    generator = np.random.default_rng(SEED)
    return np.stack([actual, *(generator.permutation(actual) for _ in range(SHUFFLES))])


def _products(values: Float32[np.ndarray, "W T N"], delay: int) -> Float32[np.ndarray, "W N N"]:
    """The correlations of every pair in each week, the second so many steps later."""
    T = values.shape[1]
    return np.stack([week[: T - delay].T @ week[delay:] / T for week in values])


def _dependences(
    products: Float32[np.ndarray, "W N N"],
    is_after: Bool[np.ndarray, " W"],
    delay: int,
    shrinkage: float,
) -> tuple[Matrix, Matrix]:
    """The dependence of every pair in the weeks before and in those after."""
    before, after = (
        _dependence(products[rows].mean(axis=0, dtype=np.float64), delay, shrinkage)
        for rows in (~is_after, is_after)
    )
    return before, after


def _dependence(correlation: Matrix, delay: int, shrinkage: float) -> Matrix:
    """The correlations, given all others if there is no delay."""
    if delay:
        return np.asarray(np.clip(correlation, -MOST, MOST))
    np.fill_diagonal(correlation, 1.0)
    precision = np.linalg.inv((1 - shrinkage) * correlation + shrinkage * np.eye(len(correlation)))
    conditional = conditional_correlation(precision)
    np.fill_diagonal(conditional, 0.0)
    return np.asarray(np.clip(conditional, -MOST, MOST))


def _change(strengths: tuple[Matrix, Matrix]) -> Matrix:
    """How much the dependence of each pair changed, on Fisher's scale."""
    before, after = strengths
    return np.asarray(np.abs(np.arctanh(after) - np.arctanh(before)))


def _pairs_of(graph: RunEdges, delay: int) -> Int64[np.ndarray, "E 2"]:
    """The edges of one delay; all of an undirected graph, the smaller column first."""
    if graph.delays is None:
        return np.sort(graph.pairs, axis=1)
    return np.asarray(graph.pairs[graph.delays == delay])


def _classify(
    strengths: tuple[Matrix, Matrix],
    pairs: Int64[np.ndarray, "E 2"],
    delay: int,
    largest: Float64[np.ndarray, " R"],
) -> list[EdgeChange]:
    """The pairs of one delay that changed by more than chance, and how.

    Args:
        strengths: of all pairs, before and after.
        pairs: the edges of the graph.
        delay: of these edges.
        largest: the largest changes of the shuffles, of the actual weeks first.
    """
    before, after = strengths
    change = _change(strengths)
    change = change if delay else np.triu(change, k=1)
    is_edge = np.zeros(change.shape, dtype=bool)
    is_edge[pairs[:, 0], pairs[:, 1]] = True
    # As strong as the weakest of as many pairs as the graph has edges.
    ranked = np.sort(np.abs(before if delay else np.triu(before, k=1)), axis=None)[::-1]
    threshold = max(float(ranked[min(len(pairs), len(ranked)) - 1]) if len(pairs) else 0, WEAK)
    changes = []
    for source, target in np.argwhere(change > np.quantile(largest, 1 - CHANCE)).tolist():
        old, new = float(before[source, target]), float(after[source, target])
        kind = _kind(old, new, bool(is_edge[source, target]), threshold)
        if kind is not None:
            p_value = float((largest >= change[source, target]).mean())
            changes.append(EdgeChange(source, target, kind, old, new, p_value, delay))
    return changes


def _kind(before: float, after: float, is_edge: bool, threshold: float) -> EdgeKind | None:
    """How a pair changed; None: only its strength did."""
    if is_edge and before * after < 0 and abs(after) >= threshold / 2:
        return "changed sign"
    if is_edge and abs(after) < threshold / 2:
        return "vanished"
    return "appeared" if not is_edge and abs(after) >= threshold else None
