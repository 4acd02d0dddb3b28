"""Edges that changed are found, and unchanged ones are not reported."""

from dataclasses import replace

import numpy as np
import pytest

from forecaster.artifact import Run
from forecaster.estimators.graph_arrays import DELAYS, PAIRS, STRENGTHS
from forecaster.evaluation.drift.edges import find_edge_changes
from forecaster.evaluation.drift.scores import find_spans
from forecaster.panel.panel import Panel
from tests.evaluation.drift.conftest import VALIDATED, WEEK, WEEKS, DriftCase

NEW = slice(WEEK * VALIDATED, WEEK * WEEKS)


def make_world(case: DriftCase, sources: dict[int, int], seed: int, delay: int = 0) -> np.ndarray:
    """Measurements around 100: each target is half its source, so many steps before."""
    generator, M = np.random.default_rng(seed), WEEK * WEEKS
    own = generator.normal(size=(M, len(case.panel.locations)))
    values = own.copy()
    for target, source in sources.items():
        values[delay:, target] += np.sign(source or 1) * own[: M - delay, abs(source)]
    return (100 + values).astype(np.float32)


def world_run(case: DriftCase, arrays: dict[str, np.ndarray]) -> Run:
    run = case.estimator.run
    assert run is not None
    usual = np.full_like(run.arrays["shared.fill"], 100)
    about = {**run.about, "kind": "measurement"}
    return replace(run, about=about, arrays={**run.arrays, "shared.fill": usual, **arrays})


def report(case: DriftCase, values: np.ndarray, arrays: dict[str, np.ndarray]) -> list[tuple]:
    run = world_run(case, arrays)
    panel: Panel = replace(case.panel, kind="measurement").with_data(values)
    found = find_edge_changes(run, panel, find_spans(run, panel))
    assert found.reason is None
    return [(c.source, c.target, c.kind, c.delay) for c in found.changes]


EDGES = {PAIRS: np.array([[1, 2], [4, 3], [5, 6]]), STRENGTHS: np.full(3, 0.5)}


def test_edges_that_vanish_appear_or_change_sign_are_named(drift_case: DriftCase):
    values = make_world(drift_case, {2: 1, 3: 4, 6: 5}, 0)
    values[NEW] = make_world(drift_case, {2: 1, 6: -5, 8: 7}, 0)[NEW]
    assert sorted(report(drift_case, values, EDGES)) == [
        (3, 4, "vanished", 0),
        (5, 6, "changed sign", 0),
        (7, 8, "appeared", 0),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_an_unchanged_graph_has_hardly_any_change(drift_case: DriftCase, seed: int):
    values = make_world(drift_case, {2: 1, 3: 4, 6: 5}, seed)
    level = np.ones(len(values))
    level[NEW] = 3.0  # a changed level and spread is no changed dependence
    values = 100 + (values - 100) * level[:, None]
    assert report(drift_case, values.astype(np.float32), EDGES) == []


def test_lagged_edges_are_compared_at_their_delays(drift_case: DriftCase):
    arrays = {PAIRS: np.array([[1, 2], [4, 3]]), STRENGTHS: np.full(2, 0.5)}
    arrays[DELAYS] = np.array([2, 2])
    values = make_world(drift_case, {2: 1, 3: 4}, 1, delay=2)
    values[NEW] = make_world(drift_case, {2: 1, 8: 7}, 1, delay=2)[NEW]
    assert sorted(report(drift_case, values, arrays)) == [
        (4, 3, "vanished", 2),
        (7, 8, "appeared", 2),
    ]


def test_a_run_without_a_graph_and_few_weeks_say_why(drift_case: DriftCase):
    run = world_run(drift_case, EDGES)
    bare = replace(run, arrays={n: a for n, a in run.arrays.items() if n not in EDGES})
    spans = find_spans(run, drift_case.panel)
    assert find_edge_changes(bare, drift_case.panel, spans).reason == "HistoricalMean has no graph"
    short = drift_case.panel.steps(0, WEEK * (VALIDATED + 3))
    few = find_edge_changes(run, short, find_spans(run, short))
    assert (few.edges, few.reason) == (3, "4 whole weeks since training are needed, there are 3")
