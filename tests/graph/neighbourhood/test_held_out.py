"""How well edges explain steps that they were not fitted to."""

import numpy as np
import pytest

from forecaster.graph.covariance import take_sample
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.neighbourhood.held_out import edge_errors
from tests.graph.conftest import MakePanel

STEPS, FITTED, N = 1009, 701, 5


def quiet(_: str) -> None:
    """Say nothing."""


def test_errors_are_those_of_regressions_on_the_neighbours(panel_of: MakePanel) -> None:
    values = np.random.default_rng(0).standard_normal((STEPS, N))
    values[:, 0] += values[:, 1] - 0.5 * values[:, 3]
    panel = panel_of(values.copy())
    panel.values.setflags(write=True)
    panel.values[FITTED + 3, 0] = np.nan  # not scored
    sample = take_sample(panel, np.arange(STEPS) < FITTED, "nothing")
    held_out = np.arange(FITTED, STEPS)
    block = np.arange(len(held_out)) * 7 // len(held_out)
    graph = DependencyGraph.from_edges([("p0", "p1"), ("p0", "p3")], panel.locations)
    errors = edge_errors(sample, held_out, block, [graph, without(graph)], quiet)
    assert errors.shape == (7, 2)
    expected = np.zeros((N, len(held_out)))
    for n, neighbours in enumerate(([1, 3], [0], [], [0], [])):
        scaled = (values - values[:FITTED].mean(axis=0)) / values[:FITTED].std(axis=0)
        weights = np.linalg.lstsq(scaled[:FITTED, neighbours], scaled[:FITTED, n], rcond=None)[0]
        expected[n] = (scaled[FITTED:, n] - scaled[FITTED:][:, neighbours] @ weights) ** 2
    expected[0, 3] = 0
    np.testing.assert_allclose(
        errors[:, 0], [expected[:, block == b].sum() for b in range(7)], rtol=0.01
    )
    assert (errors[:, 0] < errors[:, 1]).all()


def test_a_location_that_never_changes_has_no_errors(panel_of: MakePanel) -> None:
    values = np.random.default_rng(0).standard_normal((STEPS, 2))
    values[:, 1] = 3.0
    panel = panel_of(values)
    graph = DependencyGraph.from_edges([("p0", "p1")], panel.locations)
    sample = take_sample(panel, np.arange(STEPS) < FITTED, "nothing")
    held_out = np.arange(FITTED, STEPS)
    block = np.zeros(len(held_out), dtype=np.int64)
    errors = edge_errors(sample, held_out, block, [graph, without(graph)], quiet)
    assert errors[0, 0] == pytest.approx(errors[0, 1])
    assert np.isfinite(errors).all()


def without(graph: DependencyGraph) -> DependencyGraph:
    """The same locations, without edges."""
    return DependencyGraph(graph.locations, graph.pairs[:0], graph.strengths[:0], graph.about)
