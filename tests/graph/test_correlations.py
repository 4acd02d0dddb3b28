import numpy as np
import pytest

from forecaster.config import GraphConfig
from forecaster.graph.correlations import correlate_training_steps, describe_steps
from tests.graph.conftest import MakePanel

STEPS = 24 * 7 * 3 + 5
PLAIN = GraphConfig(subtract="nothing", choose="ebic")


def noise(steps: int = STEPS, places: int = 5) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(steps, places))


def test_correlations_are_those_of_the_training_steps(panel_of: MakePanel) -> None:
    values = noise().astype(np.float32)
    train = np.arange(STEPS) % 7 != 0
    found = correlate_training_steps(panel_of(values), train, PLAIN)
    assert found.correlation == pytest.approx(np.corrcoef(values[train].T), abs=1e-6)
    assert (found.parts, found.notes) == ((), ())


def test_parts_to_choose_by_are_on_their_own_scales(panel_of: MakePanel) -> None:
    values = noise()
    values[: STEPS // 2, 2] *= 1_000  # busy in one half alone
    found = correlate_training_steps(
        panel_of(values), np.ones(STEPS, dtype=bool), GraphConfig(subtract="nothing")
    )
    assert len(found.parts) == 2
    for part in found.parts:
        assert np.diag(part) == pytest.approx(1)


def test_a_given_penalty_needs_no_parts(panel_of: MakePanel) -> None:
    config = GraphConfig(subtract="nothing", penalty=0.1)
    assert (
        correlate_training_steps(panel_of(noise()), np.ones(STEPS, dtype=bool), config).parts == ()
    )


def test_what_is_degenerate_is_said_by_the_ids(panel_of: MakePanel) -> None:
    values = noise()
    values[:, 1] = 7.0
    values[:, 4] = 3 * values[:, 0]
    notes = correlate_training_steps(panel_of(values), np.ones(STEPS, dtype=bool), PLAIN).notes
    assert notes == (
        "locations [p1] have zero variance in the training steps: kept isolated",
        "1 collinear pair: p0 – p4; each says the same",
    )


def test_few_steps_are_said(panel_of: MakePanel) -> None:
    config = GraphConfig(choose="ebic")  # the hour-of-week mean is to be subtracted
    found = correlate_training_steps(panel_of(noise(13, 17)), np.ones(13, dtype=bool), config)
    assert found.notes[-2].startswith("N = 17 locations > M = 13 steps")
    assert found.notes[-1].startswith("less than two weeks of steps")


def test_the_training_hours_are_remembered_hole_and_all(panel_of: MakePanel) -> None:
    panel = panel_of(noise())
    train = np.zeros(STEPS, dtype=bool)
    train[2:31] = train[101:307] = True
    facts = describe_steps(correlate_training_steps(panel, train, PLAIN).sample, train)
    times = [f"{time}Z" for time in panel.times]
    assert facts["hours"] == ((times[2], times[30]), (times[101], times[306]))
    assert (facts["steps"], facts["dropped_steps"], facts["filled_values"]) == (235, 0, 0)
