"""How well edges forecast steps that they were not fitted to."""

import numpy as np
import pytest

from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lagged.deviations import at_steps, take_deviations
from forecaster.graph.lagged.held_out import edge_errors
from forecaster.panel.panel import Panel
from tests.graph.conftest import MakePanel
from tests.graph.lagged.conftest import EDGES, follow

WEEK, N = 168, 7
TRUE = [(f"p{a}", f"p{b}", effect, delay) for a, b, delay, effect in EDGES]


@pytest.fixture(scope="module")
def panel(panel_of: MakePanel) -> Panel:
    return panel_of(follow(11 * WEEK, N))


def ranges(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """The first eight weeks, and the three after them."""
    late = np.arange(len(panel.values)) >= 8 * WEEK
    return ~late, late


def test_true_edges_forecast_better_than_wrong_ones(panel: Panel) -> None:
    wrong = [(source, target, effect, 6 - delay) for source, target, effect, delay in TRUE]
    graphs = [DependencyGraph.from_edges(edges, panel.locations) for edges in (TRUE, wrong)]
    right, otherwise = edge_errors(panel, *ranges(panel), graphs, 0).T
    assert len(right) == 20
    assert (right < otherwise).mean() > 0.9
    unit = follow(11 * WEEK, N).var(axis=0)
    assert right.sum() == pytest.approx(
        (1 / unit).sum() * 3 * WEEK, rel=0.1
    )  # noise alone is left


def test_steps_in_place_of_training_steps_have_the_same_deviations(panel: Panel) -> None:
    train, late = ranges(panel)
    sample = take_deviations(panel, train)
    tested = at_steps(sample, panel, late)
    assert tested.deviations is sample.deviations
    [runs] = tested.runs
    np.testing.assert_array_equal(runs, [[8 * WEEK, 11 * WEEK]])
    assert sample.steps == 8 * WEEK
    assert tested.steps == 3 * WEEK
    assert not tested.blocks[: 8 * WEEK].any()
    assert tested.blocks.max() == 19
