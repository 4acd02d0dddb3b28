from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers import encoder_decoder
from forecaster.models.layers.attention import Attention
from forecaster.models.layers.encoder_decoder import (
    AddNorm,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    normalise,
)
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import LinearFactory, NeuronLayout, State

Draw = Callable[..., Tensor]
States = Callable[[NeuronLayout, int], State]
LAYOUT = NeuronLayout(7, 4, 6, heads=2)


@pytest.fixture
def linear(pattern: BlockPattern, generator: torch.Generator) -> LinearFactory:
    return partial(SparseLinear, pattern=pattern, generator=generator)


def joined(state: State) -> Tensor:
    """Return all neurons in the last dimension, as torch's own layers have them."""
    return state.join().movedim(0, -1)


# ------------------------------------------------------------------------------- add and norm


def test_the_norm_is_torchs_over_all_neurons(states: States, draw: Draw) -> None:
    x, y, norm = states(LAYOUT, 3), states(LAYOUT, 3), AddNorm(LAYOUT).double()
    theirs = torch.nn.LayerNorm(34).double()
    with torch.no_grad():
        theirs.weight.copy_(norm.gain.copy_(draw(34, 1, 1)).flatten())
        theirs.bias.copy_(norm.bias.copy_(draw(34, 1, 1)).flatten())
    torch.testing.assert_close(joined(norm(x, y)), theirs(joined(x) + joined(y)))


def test_a_norm_has_mean_zero_and_variance_one(states: States) -> None:
    x = states(LAYOUT, 3).each(lambda part: 100 + 7 * part)
    z = joined(normalise(x))
    assert z.mean(dim=-1).abs().max().item() < 1e-12
    assert (z.var(dim=-1, correction=0) - 1).abs().max().item() < 1e-6  # ε keeps it below 1


def test_gradients_of_the_norm_are_those_of_differences(draw: Draw) -> None:
    parts = draw(3, 2, 5, 2).requires_grad_(), draw(5, 5, 2).requires_grad_()

    def run(*both: Tensor) -> tuple[Tensor, Tensor]:
        z = normalise(State(*both))
        return z.signal, z.auxiliary

    assert torch.autograd.gradcheck(run, parts)


def test_a_state_without_locations_is_normed_too(states: States) -> None:
    layout = NeuronLayout(0, 0, 6)
    x, y = states(layout, 3), states(layout, 3)
    z = AddNorm(layout).double()(x, y)
    expected = torch.nn.LayerNorm(6).double()(joined(x) + joined(y))
    torch.testing.assert_close(joined(z), expected)


def test_neurons_that_are_all_alike_stay_finite() -> None:
    z = normalise(State(torch.full((7, 4, 5, 3), 1e4), torch.full((6, 5, 3), 1e4)))
    assert joined(z).abs().max().item() == 0


def test_the_norm_uses_fused_kernels_where_they_exist(
    states: States, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, norm = states(LAYOUT, 3), states(LAYOUT, 3), AddNorm(LAYOUT).double()
    expected, given = norm(x, y), list[object]()

    def stand_in(*inputs: object) -> tuple[Tensor, Tensor]:
        given.extend(inputs)
        return expected.signal, expected.auxiliary

    monkeypatch.setattr(encoder_decoder, "norm_is_fused", lambda _: True)
    monkeypatch.setattr(encoder_decoder, "add_norm", stand_in)
    assert joined(norm(x, y)).equal(joined(expected))
    assert given[0] == (x.signal, x.auxiliary)
    assert given[1] == (y.signal, y.auxiliary)
    assert given[2:] == [norm.gain, norm.bias, encoder_decoder.EPSILON]


# ---------------------------------------------------------------------------- the two layers


def test_feed_forward_is_as_wide_inside_and_has_biases(linear: LinearFactory) -> None:
    weights, biases = 17 * 4 * 4 + 6 * 6, 34
    layer = FeedForward(LAYOUT, linear)
    assert sum(p.numel() for p in layer.parameters()) == 2 * (weights + biases)


def test_feed_forward_cuts_at_zero_inside(linear: LinearFactory, states: States) -> None:
    layer = FeedForward(LAYOUT, linear).double()
    with torch.no_grad():  # everything inside is below zero
        layer.inner.bias.fill_(-1e6)
        layer.outer.bias.fill_(3)
    assert (layer(states(LAYOUT, 2)).join() == 3).all()


def test_an_encoder_layer_adds_and_norms_twice(linear: LinearFactory, states: States) -> None:
    layer, x = EncoderLayer(LAYOUT, linear, dropout=0.0).double(), states(LAYOUT, 13)
    y = layer.attention(x, layer.attention.remember(x))
    h = normalise(State(x.signal + y.signal, x.auxiliary + y.auxiliary))
    y = layer.feed_forward(h)
    h = normalise(State(h.signal + y.signal, h.auxiliary + y.auxiliary))
    torch.testing.assert_close(joined(layer(x)), joined(h))


def test_a_decoder_layer_adds_and_norms_three_times(linear: LinearFactory, states: States) -> None:
    layer = DecoderLayer(LAYOUT, linear, dropout=0.0).double()
    x, memory = states(LAYOUT, 3), layer.history.remember(states(LAYOUT, 13))
    h = x
    for answer in (
        lambda h: layer.own(h, layer.own.remember(h), causal=True),
        lambda h: layer.history(h, memory),
        layer.feed_forward,
    ):
        y = answer(h)
        h = normalise(State(h.signal + y.signal, h.auxiliary + y.auxiliary))
    actual, own = layer(x, memory, None)
    torch.testing.assert_close(joined(actual), joined(h))
    assert own.steps == 3


def copy_attention(mine: Attention, theirs: torch.nn.MultiheadAttention) -> None:
    """Copy the weights; torch's heads are runs of neighbours, ours every second neuron."""
    order = torch.arange(10).view(5, 2).T.flatten()
    rows = [getattr(mine, name).weight[order] for name in ("query", "key", "value")]
    theirs.in_proj_weight.copy_(torch.cat(rows))
    theirs.in_proj_bias.zero_()
    theirs.out_proj.weight.copy_(mine.output.weight[:, order])


def copy_rest(mine: EncoderLayer | DecoderLayer, theirs: torch.nn.Module, last: str) -> None:
    for ours, name in ((mine.feed_forward.inner, "linear1"), (mine.feed_forward.outer, "linear2")):
        getattr(theirs, name).weight.copy_(ours.weight)
        getattr(theirs, name).bias.copy_(ours.bias.normal_().flatten())
    getattr(theirs, last).weight.copy_(mine.norm_feed_forward.gain.normal_().flatten())
    getattr(theirs, last).bias.copy_(mine.norm_feed_forward.bias.normal_().flatten())


def test_without_locations_both_layers_are_torchs_own(
    generator: torch.Generator, states: States
) -> None:
    layout, linear = NeuronLayout(0, 0, 10, heads=2), partial(DenseLinear, generator=generator)
    encoder = EncoderLayer(layout, linear, dropout=0.0).double()
    decoder = DecoderLayer(layout, linear, dropout=0.0).double()
    size = {"d_model": 10, "nhead": 2, "dim_feedforward": 10, "dropout": 0.0}
    their_encoder = torch.nn.TransformerEncoderLayer(**size, batch_first=True).double()
    their_decoder = torch.nn.TransformerDecoderLayer(**size, batch_first=True).double()
    with torch.no_grad():
        copy_attention(encoder.attention, their_encoder.self_attn)
        copy_attention(decoder.own, their_decoder.self_attn)
        copy_attention(decoder.history, their_decoder.multihead_attn)
        copy_rest(encoder, their_encoder, "norm2")
        copy_rest(decoder, their_decoder, "norm3")
    history, coming = states(layout, 13), states(layout, 3)
    torch.testing.assert_close(joined(encoder(history)), their_encoder(joined(history)))
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    expected = their_decoder(joined(coming), joined(history), tgt_mask=later)
    actual = decoder(coming, decoder.history.remember(history), None)[0]
    torch.testing.assert_close(joined(actual), expected)


def test_a_coming_step_does_not_see_later_ones(linear: LinearFactory, states: States) -> None:
    layer = DecoderLayer(LAYOUT, linear, dropout=0.0).double()
    x, memory = states(LAYOUT, 3), layer.history.remember(states(LAYOUT, 13))
    other = x.each(torch.clone)
    other.signal[..., 2] += 1
    other.auxiliary[..., 2] -= 1
    before, after = (joined(layer(state, memory, None)[0]) for state in (x, other))
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2], after[:, 2])


def test_dropout_works_while_training_only(linear: LinearFactory, states: States) -> None:
    layer, x = EncoderLayer(LAYOUT, linear, dropout=0.5).double(), states(LAYOUT, 13)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(joined(layer(x)))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    layer.eval()
    assert torch.equal(joined(layer(x)), joined(layer(x)))


# -------------------------------------------------------------- how far a location is seen


def reach(pattern: BlockPattern, hops: int) -> Tensor:
    """Return which locations are at most so many edges away from which."""
    adjacent = torch.zeros(7, 7)
    adjacent[pattern.target, pattern.source] = 1
    return torch.linalg.matrix_power(adjacent, hops) > 0


def influence(layer: EncoderLayer, draw: Draw) -> Tensor:
    """Return whether any neuron of a location, at any step, moves any neuron of another."""
    x = State(draw(7, 4, 1, 13).requires_grad_(), draw(6, 1, 13))
    y = layer(x).signal
    weighted = (y * draw(*y.shape)).sum(dim=(1, 2, 3))  # so that nothing cancels
    rows = [torch.autograd.grad(one, x.signal, retain_graph=True)[0] for one in weighted]
    return torch.stack(rows).abs().sum(dim=(2, 3, 4)) > 0  # [7, 7]


@pytest.mark.usefixtures("hold_constant")
def test_with_constant_weights_and_statistics_a_layer_reaches_four_hops(
    linear: LinearFactory, pattern: BlockPattern, draw: Draw
) -> None:
    layer = EncoderLayer(LAYOUT, linear, dropout=0.0).double()
    # Values, output, feed-forward inside and outside: four sparse layers lie on the path.
    actual = influence(layer, draw)
    assert torch.equal(actual, reach(pattern, 4))
    assert not torch.equal(reach(pattern, 4), reach(pattern, 3))
    assert not torch.equal(reach(pattern, 4), reach(pattern, 5))


def test_otherwise_a_layer_sees_every_location(linear: LinearFactory, draw: Draw) -> None:
    layer = EncoderLayer(LAYOUT, linear, dropout=0.0).double()
    assert influence(layer, draw).all()
