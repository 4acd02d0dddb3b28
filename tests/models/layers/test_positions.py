import math
from collections.abc import Callable

import pytest
import torch

from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.layers.positions import Positions, sinusoid

LAYOUT = NeuronLayout(7, 4, 6)
States = Callable[[NeuronLayout, int], State]


def test_a_sinusoid_is_the_original_transformers() -> None:
    actual = sinusoid(6, 79)
    for i in range(3):
        for t in (0, 1, 13, 78):
            angle = t / 10_000 ** (2 * i / 6)
            assert actual[2 * i, t].item() == pytest.approx(math.sin(angle), abs=2e-5)
            assert actual[2 * i + 1, t].item() == pytest.approx(math.cos(angle), abs=2e-5)


def added(states: States, positions: Positions, steps: int, first: int) -> State:
    """Return what is added to a state."""
    x = states(LAYOUT, steps)
    y = positions(x, first)
    return State(y.signal - x.signal, y.auxiliary - x.auxiliary)


def test_every_location_gets_the_same_sinusoid(states: States) -> None:
    actual = added(states, Positions(LAYOUT, 16, "location"), steps=13, first=0)
    expected = sinusoid(4, 13).double().view(1, 4, 1, 13).expand(7, 4, 5, 13)
    torch.testing.assert_close(actual.signal, expected)
    expected = sinusoid(6, 13).double().view(6, 1, 13).expand(6, 5, 13)
    torch.testing.assert_close(actual.auxiliary, expected)


def test_the_literal_sinusoid_runs_over_all_neurons(states: States) -> None:
    actual = added(states, Positions(LAYOUT, 16, "literal"), steps=13, first=0)
    joined = torch.cat([actual.signal.flatten(0, 1), actual.auxiliary])
    expected = sinusoid(34, 13).double().view(34, 1, 13).expand(34, 5, 13)
    torch.testing.assert_close(joined, expected)


def test_coming_steps_go_on_where_the_history_ends(states: States) -> None:
    positions = Positions(LAYOUT, 16, "location")
    whole = added(states, positions, steps=16, first=0)
    later = added(states, positions, steps=3, first=13)
    torch.testing.assert_close(later.signal, whole.signal[..., 13:])
    torch.testing.assert_close(later.auxiliary, whole.auxiliary[..., 13:])


def test_positions_are_not_learned_nor_saved() -> None:
    positions = Positions(LAYOUT, 16, "location")
    assert not list(positions.parameters())
    assert not positions.state_dict()


def test_a_single_neuron_has_its_sine() -> None:
    assert sinusoid(1, 3).flatten().tolist() == pytest.approx([0.0, math.sin(1), math.sin(2)])
