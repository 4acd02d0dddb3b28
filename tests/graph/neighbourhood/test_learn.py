from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.config import GraphConfig
from forecaster.graph import learn
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import estimate_neighbourhoods, learn_graph, resolve_kind
from forecaster.graph.neighbourhood import candidates, threads
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits
from forecaster.synthetic.city import City, make_city

MakePanel = Callable[..., Panel]
MakeSplits = Callable[[Panel], Splits]
HOURS, PLACES = 24 * 7 * 26, 97
CONFIG = GraphConfig(kind="neighbourhood", degree=2.5)


@pytest.fixture(scope="module")
def city() -> City:
    return make_city(locations=PLACES, hours=HOURS)


@pytest.fixture(scope="module")
def learned(city: City, last_held_out: MakeSplits) -> DependencyGraph:
    return learn_graph(city.panel, last_held_out(city.panel), CONFIG)


def agreement(first: DependencyGraph, second: DependencyGraph) -> float:
    """The F1 of the edges."""
    shared = {*map(tuple, first.pairs.tolist())} & {*map(tuple, second.pairs.tolist())}
    return 2 * len(shared) / (len(first) + len(second))


def test_the_graph_is_nearly_that_of_the_lasso(
    city: City, learned: DependencyGraph, last_held_out: MakeSplits
) -> None:
    exact = learn_graph(city.panel, last_held_out(city.panel), GraphConfig(degree=2.5))
    assert agreement(learned, exact) > 0.93
    true = DependencyGraph.from_edges(
        [
            (city.locations.ids[a], city.locations.ids[b])
            for a, b in zip(city.edges.first, city.edges.second, strict=True)
        ],
        city.panel,
    )
    assert agreement(learned, true) >= agreement(exact, true) - 0.02


def test_few_candidates_find_most_of_the_edges(
    city: City,
    learned: DependencyGraph,
    last_held_out: MakeSplits,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "CORRELATED", 4)
    monkeypatch.setattr(candidates, "NEAREST", 8)
    few = learn_graph(city.panel, last_held_out(city.panel), CONFIG)
    assert agreement(few, learned) > 0.8
    assert any("at most 12 candidates" in note for note in few.about.notes)


def test_the_record_says_how_the_graph_was_learned(learned: DependencyGraph) -> None:
    about = learned.about
    assert about.kind == "neighbourhood"
    assert about.gap is not None
    assert about.gap <= GraphConfig().gap_tolerance
    assert about.converged
    assert about.chosen_by == "likelihood"
    scores = [step.score for step in about.path]
    assert about.penalty == about.path[int(np.argmax(scores))].penalty
    assert any("that were checked" in note for note in about.notes)
    assert learned.average_degree == pytest.approx(2.5, abs=0.02)


def test_edges_do_not_depend_on_the_number_of_threads(
    city: City,
    learned: DependencyGraph,
    last_held_out: MakeSplits,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "cores", lambda: 1)
    alone = learn_graph(city.panel, last_held_out(city.panel), CONFIG)
    np.testing.assert_array_equal(alone.pairs, learned.pairs)
    np.testing.assert_allclose(alone.strengths, learned.strengths, atol=1e-6)


def test_G6_values_after_the_training_steps_change_nothing(
    city: City, learned: DependencyGraph, last_held_out: MakeSplits
) -> None:
    values = city.panel.values.copy()
    values[-2:] = 7
    other = learn_graph(replace(city.panel, values=values), last_held_out(city.panel), CONFIG)
    np.testing.assert_array_equal(other.strengths, learned.strengths)


def test_missing_values_and_a_constant_location_are_taken(
    panel_of: MakePanel, last_held_out: MakeSplits
) -> None:
    values = np.random.default_rng(3).standard_normal((24 * 7 * 5, 31))
    values[:, 7] = 3.0
    values[5:90, 2] = np.nan
    panel = panel_of(values)
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(kind="neighbourhood"))
    assert graph.degrees[7] == 0
    assert np.isfinite(graph.strengths).all()
    assert any("zero variance" in note for note in graph.about.notes)


def test_a_given_penalty_above_every_correlation_leaves_no_edge(
    city: City, last_held_out: MakeSplits
) -> None:
    config = GraphConfig(kind="neighbourhood", penalty=0.99)
    graph = learn_graph(city.panel, last_held_out(city.panel), config)
    assert not len(graph)
    assert not graph.about.path


def test_one_location_has_a_graph(panel_of: MakePanel, last_held_out: MakeSplits) -> None:
    panel = panel_of(np.random.default_rng(0).standard_normal((24 * 7 * 5, 1)))
    graph = learn_graph(panel, last_held_out(panel), GraphConfig(kind="neighbourhood"))
    assert not len(graph)


def test_many_locations_choose_neighbourhoods_by_themselves_and_say_so(
    city: City, last_held_out: MakeSplits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learn, "MOST_TOGETHER", PLACES - 1)
    told: list[str] = []
    splits = last_held_out(city.panel)
    graph = learn_graph(city.panel, splits, GraphConfig(degree=2.5), progress=told.append)
    assert graph.about.kind == "neighbourhood"
    assert "each is regressed on a few candidates (kind neighbourhood)" in told[0]
    assert told[0] in graph.about.notes


def test_a_lasso_that_is_asked_for_is_one() -> None:
    assert resolve_kind(GraphConfig(), learn.MOST_TOGETHER + 1).kind == "neighbourhood"
    assert resolve_kind(GraphConfig(), learn.MOST_TOGETHER).kind == "lasso"
    assert resolve_kind(GraphConfig(kind="lasso"), learn.MOST_TOGETHER + 1).kind == "lasso"
    assert resolve_kind(GraphConfig(choose="ebic"), learn.MOST_TOGETHER + 1).kind == "lasso"


def test_a_recipe_that_was_written_still_chooses_by_itself() -> None:
    plain = Recipe()
    assert "\nkind" not in plain.to_toml().split("[graph]")[1].split("[")[0]
    asked = Recipe.of({"graph": {"kind": "lasso"}})
    assert 'kind = "lasso"' in asked.to_toml()
    assert asked.digest() == plain.digest()


def test_the_estimate_grows_with_the_locations_times_their_steps() -> None:
    small, large = (estimate_neighbourhoods(N, 8_760).memory_bytes for N in (20_000, 100_000))
    assert large < 5 * small
    assert large < 16 * 2**30
