from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.errors import ArtifactError, ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import NeuronLayout, State

Draw = Callable[..., Tensor]
FIGURE_1 = np.array([(0, 1), (1, 2)])  # locations 1–2–3
# Section 2.3: from 1 neuron per location and 2 auxiliary ones to 2 and 3.
BEFORE, AFTER = NeuronLayout(3, 1, 2), NeuronLayout(3, 2, 3)


@pytest.fixture
def figure(generator: torch.Generator) -> SparseLinear:
    pattern = BlockPattern.from_pairs(3, FIGURE_1)
    return SparseLinear(BEFORE, AFTER, pattern, generator).double()


def columns(x: Tensor) -> State:
    """Return one window of one step, its five neurons given in order."""
    return State(x[:3].view(3, 1, 1, 1), x[3:].view(2, 1, 1))


def as_matrix(layer: SparseLinear, inputs: NeuronLayout, outputs: NeuronLayout) -> Tensor:
    """Return the dense matrix in which everything that was pruned is zero."""
    matrix = torch.zeros(outputs.width, inputs.width, dtype=layer.weight.dtype)
    into, out_of = outputs.per_location, inputs.per_location
    for block, i, j in zip(layer.weight, layer.pattern.target, layer.pattern.source, strict=True):
        matrix[into * i : into * (i + 1), out_of * j : out_of * (j + 1)] = block
    matrix[outputs.signal :, inputs.signal :] = layer.auxiliary_weight
    return matrix


# ------------------------------------------------------------------------------ the support


def test_the_jacobian_has_the_support_of_the_graph(figure: SparseLinear, draw: Draw) -> None:
    jacobian = torch.autograd.functional.jacobian(lambda x: figure(columns(x)).join(), draw(5))
    support = torch.tensor(
        [  # from locations 1, 2, 3 and the auxiliary neurons a, a
            [1, 1, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [1, 1, 1, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 1, 1, 0, 0],
            [0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1],
            [0, 0, 0, 1, 1],
        ],
        dtype=torch.bool,
    )
    assert torch.equal(jacobian.view(9, 5) != 0, support)


def test_pruned_weights_do_not_exist(figure: SparseLinear) -> None:
    weights = figure.weight.numel() + figure.auxiliary_weight.numel()
    assert weights == 7 * 2 * 1 + 3 * 2  # 3 + 2·2 blocks; dense: 9 · 5 = 45
    biases = 9
    assert sum(p.numel() for p in figure.parameters()) == weights + biases
    assert not list(figure.buffers())


# ---------------------------------------------------------------- shape, gradient, equivalence


def test_a_layer_takes_a_state_to_a_state(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    inputs, outputs = NeuronLayout(7, 3, 11), NeuronLayout(7, 4, 6)
    y = SparseLinear(inputs, outputs, pattern, generator).double()(states(inputs, 13))
    assert y.signal.shape == (7, 4, 5, 13)
    assert y.auxiliary.shape == (6, 5, 13)
    assert y.signal.is_contiguous()
    assert y.auxiliary.is_contiguous()


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_are_those_of_differences(
    pattern: BlockPattern, generator: torch.Generator, draw: Draw, relu: bool
) -> None:
    inputs, outputs = NeuronLayout(7, 2, 3), NeuronLayout(7, 1, 2)
    layer = SparseLinear(inputs, outputs, pattern, generator, relu=relu).double()
    x = draw(7, 2, 3, 1), draw(3, 3, 1)

    def run(signal: Tensor, auxiliary: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        y = layer(State(signal, auxiliary))
        return y.signal, y.auxiliary

    inside = [part.requires_grad_() for part in x]
    assert torch.autograd.gradcheck(run, (*inside, *layer.parameters()))


def test_a_complete_graph_gives_two_ordinary_linear_layers(
    generator: torch.Generator, states: Callable[..., State]
) -> None:
    inputs, outputs = NeuronLayout(7, 2, 11), NeuronLayout(7, 3, 5)
    every_pair = np.argwhere(np.triu(np.ones((7, 7)), k=1))
    pattern = BlockPattern.from_pairs(7, every_pair)
    layer, x = SparseLinear(inputs, outputs, pattern, generator).double(), states(inputs, 2)
    among, aside = torch.nn.Linear(14, 21).double(), torch.nn.Linear(11, 5).double()
    with torch.no_grad():
        among.weight.copy_(as_matrix(layer, inputs, outputs)[:21, :14])
        aside.weight.copy_(layer.auxiliary_weight)
        bias = layer.bias.uniform_(generator=generator).flatten()
        among.bias.copy_(bias[:21])
        aside.bias.copy_(bias[21:])
    signal = among(x.signal.flatten(0, 1).movedim(0, -1)).movedim(-1, 0)
    torch.testing.assert_close(layer(x).signal.flatten(0, 1), signal)
    auxiliary = aside(x.auxiliary.movedim(0, -1)).movedim(-1, 0)
    torch.testing.assert_close(layer(x).auxiliary, auxiliary)


def test_a_sparse_layer_is_a_dense_one_with_zeros(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    inputs, outputs = NeuronLayout(7, 3, 11), NeuronLayout(7, 4, 6)
    x = states(inputs, 13)
    for options in ({}, {"bias": False}, {"relu": True}):
        sparse = SparseLinear(inputs, outputs, pattern, generator, **options).double()
        dense = DenseLinear(inputs, outputs, generator, **options).double()
        with torch.no_grad():
            dense.weight.copy_(as_matrix(sparse, inputs, outputs))
            if sparse.bias is not None:
                dense.bias.copy_(sparse.bias.normal_(generator=generator))
        torch.testing.assert_close(sparse(x).join(), dense(x).join())


def test_a_dense_layer_is_a_linear_layer_over_all_neurons(
    generator: torch.Generator, states: Callable[..., State]
) -> None:
    inputs, outputs = NeuronLayout(7, 3, 11), NeuronLayout(0, 0, 12)
    layer, x = DenseLinear(inputs, outputs, generator).double(), states(inputs, 13)
    linear = torch.nn.Linear(32, 12).double()
    with torch.no_grad():
        linear.weight.copy_(layer.weight)
        linear.bias.copy_(layer.bias.normal_(generator=generator).flatten())
    expected = linear(x.join().movedim(0, -1)).movedim(-1, 0)
    torch.testing.assert_close(layer(x).auxiliary, expected)
    assert layer(x).signal.shape == (0, 0, 5, 13)


# ----------------------------------------------------------------------- golden and refusal


def test_a_layer_sums_what_figure_1_lets_through(figure: SparseLinear) -> None:
    with torch.no_grad():
        edges = enumerate(zip(figure.pattern.target, figure.pattern.source, strict=True))
        for e, (i, j) in edges:  # W_ij = [i + 1, 10 (j + 1)]
            figure.weight[e] = torch.stack([i + 1, 10 * (j + 1)])[:, None]
        figure.bias[0] = 0.5
        figure.auxiliary_weight.copy_(torch.tensor([[1, 0], [0, 1], [2, 3]]))
    y = figure(columns(torch.tensor([1.0, 100.0, 10_000.0, 7.0, 11.0], dtype=torch.float64)))
    # By hand: location 1 sees 1 and 100, location 2 all three, location 3 sees 100 and 10,000.
    assert y.signal.flatten(1).tolist() == [
        [101.5, 10 * 1 + 20 * 100],
        [2 * 10_101.0, 10 * 1 + 20 * 100 + 30 * 10_000],
        [3 * 10_100.0, 20 * 100 + 30 * 10_000],
    ]
    assert y.auxiliary.flatten().tolist() == [7.0, 11.0, 2 * 7.0 + 3 * 11.0]


@pytest.mark.parametrize("relu", [False, True])
def test_fresh_weights_keep_the_variance(generator: torch.Generator, relu: bool) -> None:
    # A hub of degree 200 and 299 pairs: what arrives has one variance everywhere.
    star = [(0, i) for i in range(1, 201)]
    pairs = np.array(star + [(i, i + 1) for i in range(200, 499)])
    pattern, layout = BlockPattern.from_pairs(500, pairs), NeuronLayout(500, 4, 64)
    layer = SparseLinear(layout, layout, pattern, generator, relu=relu)
    draw = torch.randn(500, 4, 7, 41, generator=generator)
    y = layer(State(draw, torch.randn(64, 7, 41, generator=generator)))
    power = y.signal.square().mean(dim=(1, 2, 3))  # of each location
    assert power.mean().item() == pytest.approx(1.0, abs=0.05)
    assert power[:1].item() == pytest.approx(1.0, abs=0.5)  # the hub: 4 neurons only
    assert y.auxiliary.square().mean().item() == pytest.approx(1.0, abs=0.1)


def test_weights_are_drawn_from_the_generator_alone(pattern: BlockPattern) -> None:
    layout = NeuronLayout(7, 4, 6)
    before = torch.get_rng_state()
    draws = [
        SparseLinear(layout, layout, pattern, torch.Generator().manual_seed(seed)).weight
        for seed in (3, 3, 5)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_layer_works_without_auxiliary_inputs(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    inputs, outputs = NeuronLayout(7, 1, 0), NeuronLayout(7, 4, 6)
    y = SparseLinear(inputs, outputs, pattern, generator).double()(states(inputs, 2))
    assert (y.auxiliary == 0).all()


@pytest.mark.parametrize("sizes", [(7, 5), (5, 7), (5, 5)])
def test_a_graph_of_other_locations_is_refused(
    pattern: BlockPattern, generator: torch.Generator, sizes: tuple[int, int]
) -> None:
    inputs, outputs = (NeuronLayout(size, 2, 3) for size in sizes)
    message = f"{sizes[0]} locations in and {sizes[1]} out, a graph of 7"
    with pytest.raises(ArtifactError, match=message):
        SparseLinear(inputs, outputs, pattern, generator)


# ------------------------------------------------------------------------------ several layers


def test_layers_applied_together_equal_each_alone(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    layout = NeuronLayout(7, 4, 6)
    layers = [
        SparseLinear(layout, layout, pattern, generator, bias=False).double() for _ in range(3)
    ]
    x = states(layout, 13)
    for actual, layer in zip(layers[0].apply_with(layers[1:], x), layers, strict=True):
        expected = layer(x)
        torch.testing.assert_close(actual.signal, expected.signal)
        torch.testing.assert_close(actual.auxiliary, expected.auxiliary)
        assert actual.signal.is_contiguous()
        assert actual.auxiliary.is_contiguous()


def test_a_layer_with_a_bias_is_not_applied_together_with_others(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    layout = NeuronLayout(7, 4, 6)
    plain, biased = (
        SparseLinear(layout, layout, pattern, generator, bias=bias).double()
        for bias in (False, True)
    )
    with pytest.raises(ConfigError, match="without bias"):
        plain.apply_with([biased], states(layout, 2))


def test_layers_of_another_graph_or_of_other_outputs_are_not_applied_together(
    pattern: BlockPattern, generator: torch.Generator, states: Callable[..., State]
) -> None:
    layout, wider = NeuronLayout(7, 4, 6), NeuronLayout(7, 4, 8)
    alone = BlockPattern.from_pairs(7, np.empty((0, 2), dtype=np.int64))
    plain, wide, other = (
        SparseLinear(layout, outputs, graph, generator, bias=False).double()
        for outputs, graph in ((layout, pattern), (wider, pattern), (layout, alone))
    )
    for misfit in (wide, other):
        with pytest.raises(ConfigError, match="one graph"):
            plain.apply_with([misfit], states(layout, 2))
