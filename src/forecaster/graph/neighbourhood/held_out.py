"""How well the edges of several graphs explain steps that none of them was learned from."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.graph.covariance import Sample
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.neighbourhood.series import TrainingSeries
from forecaster.graph.neighbourhood.threads import share_out
from forecaster.graph.selection import MessageCallback

_TOGETHER = 64  # locations that a thread takes at a time


def edge_errors(
    sample: Sample,
    held_out: Int64[np.ndarray, " T"],
    block: Int64[np.ndarray, " T"],
    graphs: Sequence[DependencyGraph],
    tell: MessageCallback,
) -> Float64[np.ndarray, "blocks G"]:
    """The squared errors of all locations given their neighbours, by block of days.

    Every location is regressed on its neighbours in the steps of the sample, and estimated in the
    held-out ones, in deviations of variance 1.

    Args:
        sample: the steps that regressions are fitted to.
        held_out: further steps of its panel.
        block: of each of them.
        graphs: undirected, of the panel's locations.
        tell: called with a message now and then.
    """
    M, N = len(sample.steps), len(sample.panel.locations)
    values = TrainingSeries.of(
        replace(sample, steps=np.concatenate([sample.steps, held_out]))
    ).values
    neighbours = [_neighbours(graph) for graph in graphs]
    errors = np.zeros((N, int(block.max()) + 1, len(graphs)))

    def add(first: int) -> None:
        for n in range(first, min(first + _TOGETHER, N)):
            observed = np.isfinite(sample.panel.values[held_out, n])
            for number, ends in enumerate(neighbours):
                squares = _squared_errors(values[[n, *ends[n]]], M)
                errors[n, :, number] = np.bincount(
                    block[observed], squares[observed], minlength=errors.shape[1]
                )

    share_out(list(range(0, N, _TOGETHER)), add, "held-out days, part", tell)
    return np.asarray(errors.sum(axis=0))


def _neighbours(graph: DependencyGraph) -> list[Int64[np.ndarray, " k"]]:
    """The neighbours of each location."""
    ends = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    ends = ends[np.argsort(ends[:, 0], kind="stable")]
    return np.split(ends[:, 1], np.cumsum(graph.degrees)[:-1])


def _squared_errors(series: Float32[np.ndarray, "k T"], fitted: int) -> Float64[np.ndarray, " t"]:
    """The squared errors of the first series given the others, after the fitted steps.

    A ridge of as many steps as there are neighbours keeps few data from being fitted to their
    noise.
    """
    rows = series.astype(np.float64)
    rows -= rows[:, :fitted].mean(axis=1, keepdims=True)
    deviation = rows[:, :fitted].std(axis=1, keepdims=True)
    rows = np.divide(rows, deviation, out=np.zeros_like(rows), where=deviation > 0)
    correlation = rows[:, :fitted] @ rows[:, :fitted].T / fitted
    correlation[np.diag_indices(len(rows))] += (len(rows) - 1) / fitted
    weights = np.linalg.solve(correlation[1:, 1:], correlation[1:, 0])
    return np.asarray(np.square(rows[0, fitted:] - weights @ rows[1:, fitted:]))
