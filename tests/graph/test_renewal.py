"""The graph of a run that goes on: estimated anew if it has drifted, from what was known."""

from typing import Any

import numpy as np
import pytest

from forecaster.config import GraphConfig
from forecaster.graph import renewal
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.lasso import LassoResult
from forecaster.graph.learn import learn_graph
from forecaster.graph.renewal import precision_of, renew_graph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.splits import Splits
from tests.graph.conftest import MakePanel
from tests.graph.lagged.conftest import EDGES, follow

N, WEEK = 5, 24 * 7
CONFIG = GraphConfig(kind="lasso", penalty=0.05, subtract="nothing")
ONE_WORLD, ANOTHER = [(0, 1), (2, 3)], [(0, 4), (1, 2)]
SAME_ORDER, TURNED = [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]
NEIGHBOURHOOD = GraphConfig(kind="neighbourhood", penalty=0.05, subtract="nothing")
LAGGED = GraphConfig(kind="lagged", max_delay=5)


def world(panel_of: MakePanel, pairs: list[tuple[int, int]], seed: int) -> tuple[Panel, Splits]:
    """Eleven weeks in which some pairs move together; the last three validate and test."""
    precision = np.eye(N)
    for a, b in pairs:
        precision[a, b] = precision[b, a] = -0.6
    generator = np.random.default_rng(seed)
    covariance = np.linalg.inv(precision)
    panel = panel_of(generator.multivariate_normal(np.zeros(N), covariance, 11 * WEEK))
    return panel, Splits.by_share(panel, validation=0.2, test=0.1)


@pytest.fixture
def learned(panel_of: MakePanel) -> DependencyGraph:
    return learn_graph(*world(panel_of, ONE_WORLD, 1), CONFIG)


def follow_others(panel_of: MakePanel, order: list[int], seed: int) -> tuple[Panel, Splits]:
    """Eleven weeks in which three places follow others some steps later, in this order."""
    panel = panel_of(follow(11 * WEEK, N, seed)[:, order])
    return panel, Splits.by_share(panel, validation=0.2, test=0.1)


def edges_of(graph: DependencyGraph) -> list[tuple[int, int]]:
    return sorted((int(a), int(b)) for a, b in graph.pairs)


def delayed(graph: DependencyGraph) -> set[tuple[int, int, int]]:
    """The source, the target and the delay of every edge."""
    return {(int(a), int(b), int(d)) for (a, b), d in zip(graph.pairs, graph.delays, strict=True)}


@pytest.mark.parametrize("seed", [2, 3, 5, 7, 11])
def test_a_graph_that_holds_is_kept_as_it_is(
    seed: int, learned: DependencyGraph, panel_of: MakePanel
) -> None:
    assert edges_of(learned) == ONE_WORLD
    renewed = renew_graph(learned, *world(panel_of, ONE_WORLD, seed), CONFIG)
    assert not renewed.has_drifted
    assert renewed.graph is learned


def test_a_graph_that_has_drifted_gives_way_to_that_of_the_newest_weeks(
    learned: DependencyGraph, panel_of: MakePanel
) -> None:
    renewed = renew_graph(learned, *world(panel_of, ANOTHER, 2), CONFIG)
    assert renewed.has_drifted
    assert renewed.p_value < 0.01
    assert edges_of(renewed.graph) == ANOTHER


def test_the_new_estimate_begins_from_the_old_graph_at_its_penalty(
    learned: DependencyGraph, panel_of: MakePanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[GraphConfig, LassoResult]] = []

    def note(panel: Panel, splits: Splits, config: GraphConfig, **options: Any) -> Any:
        calls.append((config, options["start"]))
        return learn_graph(panel, splits, config, **options)

    monkeypatch.setattr(renewal, "learn_graph", note)
    other = CONFIG.model_copy(update={"penalty": None})
    renewed = renew_graph(learned, *world(panel_of, ANOTHER, 2), other)
    [(config, start)] = calls
    assert config.penalty == learned.about.penalty == 0.05
    np.testing.assert_array_equal(start.precision, precision_of(learned))
    np.testing.assert_allclose(start.precision @ start.covariance, np.eye(N), atol=1e-12)
    assert edges_of(renewed.graph) == ANOTHER


def test_a_warm_start_ends_where_a_cold_one_does(
    learned: DependencyGraph, panel_of: MakePanel
) -> None:
    panel, splits = world(panel_of, ANOTHER, 2)
    warm, cold = (
        renew_graph(learned, panel, splits, CONFIG).graph,
        learn_graph(panel, splits, CONFIG),
    )
    assert edges_of(warm) == edges_of(cold)
    np.testing.assert_allclose(warm.strengths, cold.strengths, atol=1e-3)


def test_a_graph_of_given_edges_is_kept(panel_of: MakePanel) -> None:
    panel, splits = world(panel_of, ANOTHER, 2)
    given = DependencyGraph.from_edges([("p0", "p1", 0.5)], panel.locations)
    renewed = renew_graph(given, panel, splits, CONFIG)
    assert renewed.graph is given
    assert renewed.p_value == 1.0


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_neighbourhoods_that_hold_are_kept(seed: int, panel_of: MakePanel) -> None:
    before = learn_graph(*world(panel_of, ONE_WORLD, 1), NEIGHBOURHOOD)
    assert edges_of(before) == ONE_WORLD
    assert renew_graph(before, *world(panel_of, ONE_WORLD, seed), NEIGHBOURHOOD).graph is before


def test_neighbourhoods_that_have_drifted_are_estimated_anew_whatever_the_settings_say(
    panel_of: MakePanel,
) -> None:
    before = learn_graph(*world(panel_of, ONE_WORLD, 1), NEIGHBOURHOOD)
    usual = GraphConfig(subtract="nothing")  # a lasso, as many places have in their recipe
    renewed = renew_graph(before, *world(panel_of, ANOTHER, 2), usual)
    assert renewed.p_value < 0.01
    assert edges_of(renewed.graph) == ANOTHER
    assert renewed.graph.about.kind == "neighbourhood"
    assert renewed.graph.about.penalty == 0.05


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_lagged_edges_that_hold_are_kept(seed: int, panel_of: MakePanel) -> None:
    before = learn_graph(*follow_others(panel_of, SAME_ORDER, 1), LAGGED)
    assert delayed(before) == {edge[:3] for edge in EDGES}
    renewed = renew_graph(before, *follow_others(panel_of, SAME_ORDER, seed), LAGGED)
    assert renewed.graph is before


def test_lagged_edges_that_have_drifted_are_estimated_anew_at_their_penalty(
    panel_of: MakePanel,
) -> None:
    before = learn_graph(*follow_others(panel_of, SAME_ORDER, 1), LAGGED)
    renewed = renew_graph(before, *follow_others(panel_of, TURNED, 2), LAGGED)
    assert renewed.p_value < 0.01
    strongest = {(4 - a, 4 - b, delay) for a, b, delay, _ in EDGES[:2]}
    assert strongest <= delayed(renewed.graph) <= {(4 - a, 4 - b, d) for a, b, d, _ in EDGES}
    assert before.about.lagged is not None
    assert renewed.graph.about.lagged is not None
    assert renewed.graph.about.lagged.penalty == before.about.lagged.penalty
    assert len(renewed.graph.about.lagged.path) == 1


def test_where_nothing_was_of_use_before_lagged_edges_may_appear(panel_of: MakePanel) -> None:
    noise = panel_of(np.random.default_rng(1).standard_normal((11 * WEEK, N)))
    before = learn_graph(noise, Splits.by_share(noise, validation=0.2, test=0.1), LAGGED)
    assert not len(before)
    renewed = renew_graph(before, *follow_others(panel_of, SAME_ORDER, 2), LAGGED)
    assert delayed(renewed.graph) == {edge[:3] for edge in EDGES}


def test_a_graph_stays_where_no_other_can_be_estimated(
    learned: DependencyGraph, panel_of: MakePanel
) -> None:
    hasty = CONFIG.model_copy(update={"max_iterations": 1, "gap_tolerance": 1e-12})
    said = list[str]()
    renewed = renew_graph(learned, *world(panel_of, ANOTHER, 2), hasty, progress=said.append)
    assert renewed.graph is learned
    assert said[-1].startswith("no other graph can be estimated: graph: dual gap")


def test_the_precision_of_a_graph_has_its_edges_and_unit_variances() -> None:
    places = Locations.of_ids(("a", "b", "c"))
    graph = DependencyGraph.from_edges([("a", "b", 0.5), ("b", "c", -0.3)], places)
    precision = precision_of(graph)
    np.testing.assert_allclose(np.diag(np.linalg.inv(precision)), 1.0)
    scale = 1 / np.sqrt(np.diag(precision))
    correlation = -precision * np.outer(scale, scale)
    np.testing.assert_allclose(correlation[[0, 1, 0], [1, 2, 2]], [0.5, -0.3, 0.0], atol=1e-12)


def test_strengths_that_no_precision_has_together_are_shrunk() -> None:
    places = Locations.of_ids(("a", "b", "c"))
    edges = [("a", "b", 0.9), ("b", "c", 0.9), ("a", "c", 0.9)]
    precision = precision_of(DependencyGraph.from_edges(edges, places))
    assert np.linalg.eigvalsh(precision)[0] > 0
