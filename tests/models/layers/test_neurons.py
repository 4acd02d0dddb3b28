from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError
from forecaster.models.layers.neurons import NeuronLayout, State, apply_jointly, split_heads


def test_the_papers_worked_figure_has_five_and_nine_neurons() -> None:
    # Section 2.3: 1 neuron per location and 2 auxiliary, then 2 per location and 3 auxiliary.
    assert NeuronLayout(3, 1, 2).width == 5
    assert NeuronLayout(3, 2, 3).width == 9


def test_the_papers_layers_have_their_widths() -> None:
    assert NeuronLayout(996, 1, 39).width == 1035  # section 3.2.1
    assert NeuronLayout(996, 4, 64, heads=4).width == 4048
    assert NeuronLayout(996, 4, 64).signal == 3984


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 4), st.integers(1, 5))
def test_every_head_gets_an_equal_share_of_every_location(
    locations: int, of_location: int, of_auxiliary: int, heads: int
) -> None:
    layout = NeuronLayout(locations, of_location * heads, of_auxiliary * heads, heads)
    place = torch.arange(float(locations)).view(-1, 1, 1, 1).repeat(1, layout.per_location, 2, 3)
    for head in split_heads(place, heads):  # [B, n, T]
        owned = head[0, :, 0].long().bincount(minlength=locations)
        assert owned.tolist() == [of_location] * locations


def test_heads_share_out_all_neurons_and_copy_none() -> None:
    neurons = torch.arange(7.0 * 6 * 5 * 3).view(7, 6, 5, 3)
    heads = split_heads(neurons, 2)
    assert heads.shape == (2, 5, 21, 3)
    assert heads.data_ptr() == neurons.data_ptr()
    assert sorted(heads.flatten().tolist()) == neurons.flatten().tolist()
    assert torch.equal(heads[1, 4, 3], neurons[1, 1, 4])  # neuron 7 = 3·2 + 1 of all


def test_a_layout_without_locations_splits_its_auxiliary_neurons() -> None:
    assert NeuronLayout(0, 0, 6, heads=3).width == 6
    assert split_heads(torch.empty(0, 0, 5, 2), 3).shape == (3, 5, 0, 2)


@pytest.mark.parametrize("neurons", [(4, 6), (6, 4), (5, 5)])
def test_heads_that_do_not_divide_neurons_are_refused(neurons: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=r"3 heads must divide . neurons per location and ."):
        NeuronLayout(7, *neurons, heads=3)


def test_no_heads_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 heads"):
        NeuronLayout(7, 4, 6, heads=0)


def test_a_function_reaches_both_parts_of_a_state() -> None:
    state = State(torch.ones(2, 3, 5, 7), torch.ones(11, 5, 7)).each(lambda part: part + 1)
    assert (state.signal == 2).all()
    assert (state.auxiliary == 2).all()


def test_a_state_is_its_neurons_in_their_order() -> None:
    neurons = torch.arange(34.0 * 5 * 3).view(34, 5, 3)
    state = NeuronLayout(7, 4, 6).split(neurons)
    assert state.signal.data_ptr() == neurons.data_ptr()
    assert torch.equal(state.signal[3, 2], neurons[3 * 4 + 2])
    assert torch.equal(state.auxiliary[5], neurons[33])
    assert torch.equal(state.join(), neurons)


class Times(torch.nn.Module):
    """Multiplies every neuron by a number."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: State) -> State:
        return x.each(lambda part: self.factor * part)


class JointTimes(Times):
    """One that counts how often it is asked together with others."""

    asked = 0

    def apply_with(self, others: Sequence[torch.nn.Module], x: State) -> tuple[State, ...]:
        self.asked += 1
        return tuple(layer(x) for layer in (self, *others))


@pytest.mark.parametrize("kind", [Times, JointTimes])
def test_layers_are_applied_in_order_and_jointly_where_possible(kind: type[Times]) -> None:
    layers = [kind(2), kind(3), kind(5)]
    x = State(torch.ones(7, 1, 2, 3), torch.ones(11, 2, 3))
    answers = apply_jointly(layers, x)
    assert [answer.auxiliary[0, 0, 0].item() for answer in answers] == [2, 3, 5]
    assert getattr(layers[0], "asked", 1) == 1
