from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.forecaster import build_forecaster
from forecaster.models.layers import AddNorm
from forecaster.models.neurons import NeuronLayout, State
from forecaster.models.sparse_linear import DenseLinear, SparseLinear
from forecaster.models.transformer import Transformer
from forecaster.recipe import check_stage

Draw = Callable[..., Tensor]
Question = tuple[State, State]
Build = Callable[[BlockPattern], Transformer]


@pytest.fixture
def build(
    config: ModelConfig, lags: LagConfig, inputs: NeuronLayout, generator: torch.Generator
) -> Build:
    """Return a function that builds a Forecaster of a pattern, nothing in it zero or one."""

    def make(pattern: BlockPattern) -> Transformer:
        model = build_forecaster(config, lags, inputs, pattern, generator).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
        return model

    return make


# ------------------------------------------------------------------------------ the preset


def test_the_preset_has_every_number_of_section_3_2_1() -> None:
    paper = ModelConfig()
    assert (paper.per_location, paper.auxiliary, paper.n_layers) == (4, 64, 1)
    assert (paper.heads, paper.dropout, paper.positions) == (4, 0.0, "location")  # our choices


def test_the_papers_forecaster_has_a_million_weights() -> None:
    N, E = 996, 3486  # 1,245 pairs: on average 2.5 neighbours
    pairs = np.stack([np.arange(1245) % N, (np.arange(1245) * 7 + 1 + np.arange(1245) // N) % N])
    pattern = BlockPattern.from_pairs(N, pairs.T)
    assert pattern.n_edges == E
    inputs, generator = NeuronLayout(N, 1, 39), torch.Generator()
    with torch.device("meta"):
        model = build_forecaster(ModelConfig(), LagConfig(), inputs, pattern, generator)
    layer = 4 * 4 * E + 64 * 64
    assert sum(p.numel() for p in model.parameters()) == (
        2 * (4 * E + 39 * 64 + 4048)  # embeddings
        + 12 * layer  # queries, keys, values and outputs of three attentions
        + 4 * (layer + 4048)  # two feed-forward layers
        + 5 * 2 * 4048  # norms
        + 4 * E + 996  # output
    )  # fmt: skip
    assert sum(p.numel() for p in model.parameters()) == 1_070_540


def test_all_layers_are_four_neurons_per_location_wide_and_the_last_one(
    build: Build, pattern: BlockPattern
) -> None:
    layers = {n: m for n, m in build(pattern).named_modules() if isinstance(m, SparseLinear)}
    widths = {name: layer.weight.shape[1] for name, layer in layers.items()}
    assert widths.pop("output") == 1
    assert set(widths.values()) == {4}
    assert len(widths) == 2 + 6 + 10


# ------------------------------------------------------------- the graph against the dense


def test_a_complete_graph_is_a_dense_transformer_without_cross_weights(
    build: Build,
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    question: Question,
) -> None:
    every_pair = np.argwhere(np.triu(np.ones((7, 7)), k=1))
    sparse = build(BlockPattern.from_pairs(7, every_pair))
    layout = NeuronLayout(7, 4, 6, heads=2)
    linear = partial(DenseLinear, generator=torch.Generator())
    dense = Transformer(config, lags, inputs, layout, linear).double()
    for mine, theirs in zip(sparse.modules(), dense.modules(), strict=False):
        assert type(mine) is type(theirs) or isinstance(mine, SparseLinear)
    copy_weights(sparse, dense)
    torch.testing.assert_close(
        sparse.roll_out(*question), dense.roll_out(*question), rtol=1e-5, atol=1e-5
    )


def copy_weights(sparse: Transformer, dense: Transformer) -> None:
    """Write every block where it belongs in the dense matrices, zeros elsewhere."""
    others = dict(dense.named_modules())
    with torch.no_grad():
        for name, layer in sparse.named_modules():
            if isinstance(layer, AddNorm):
                others[name].load_state_dict(layer.state_dict())
            if not isinstance(layer, SparseLinear):
                continue
            linear = others[name]
            into, out_of = layer.weight.shape[1:]
            matrix = linear.weight.zero_()[: 7 * into, : 7 * out_of].view(7, into, 7, out_of)
            matrix[layer.pattern.target, :, layer.pattern.source] = layer.weight
            linear.weight[7 * into :, 7 * out_of :] = layer.auxiliary_weight
            if layer.bias is not None:
                linear.bias.copy_(layer.bias)


def test_permuted_locations_get_permuted_forecasts(
    build: Build, pattern: BlockPattern, question: Question
) -> None:
    order = torch.tensor([4, 2, 6, 0, 5, 1, 3])  # new place n holds old location order[n]
    place = order.argsort()
    moved = torch.stack([place[pattern.target], place[pattern.source]], dim=1)
    model, other = build(pattern), build(BlockPattern.from_pairs(7, moved.numpy()))
    edges = (moved @ torch.tensor([7, 1])).argsort()  # by target, then by source
    theirs = dict(other.named_parameters())
    with torch.no_grad():
        for name, mine in model.named_parameters():
            if len(mine) == pattern.n_edges:
                theirs[name].copy_(mine[edges])
            elif name.endswith(("gain", "bias")):
                layout = NeuronLayout(7, len(mine) // 7, len(mine) % 7)
                part = layout.split(mine)
                theirs[name].copy_(State(part.signal[order], part.auxiliary).join())
            else:
                theirs[name].copy_(mine)
    history, ahead = (State(state.signal[order], state.auxiliary) for state in question)
    expected = model.roll_out(*question)[order]
    torch.testing.assert_close(other.roll_out(history, ahead), expected)


@pytest.mark.usefixtures("hold_constant")
def test_a_covariate_of_a_location_moves_its_forecast_alone(
    build: Build, pattern: BlockPattern, question: Question
) -> None:
    history, ahead = question
    ahead.signal.requires_grad_()
    forecast = build(pattern).roll_out(history, ahead)
    for n in (6, 0):  # location 6 has no neighbour
        moved = torch.autograd.grad(forecast[n].sum(), ahead.signal, retain_graph=True)[0]
        assert (moved[6] != 0).any() == (n == 6)


# ----------------------------------------------------------------------- golden and refusal


def test_one_seed_gives_one_forecast(
    config: ModelConfig, lags: LagConfig, inputs: NeuronLayout, pattern: BlockPattern
) -> None:
    forecasts = []
    for seed in (2, 2, 3):
        generator = torch.Generator().manual_seed(seed)
        model = build_forecaster(config, lags, inputs, pattern, generator)
        ones = State(torch.ones(7, 3, 1, 13), torch.ones(11, 1, 13))
        ahead = State(torch.ones(7, 2, 1, 3), torch.ones(11, 1, 3))
        forecasts.append(model.roll_out(ones, ahead))
    assert torch.equal(forecasts[0], forecasts[1])
    assert not torch.equal(forecasts[0], forecasts[2])


def test_weights_survive_a_state_dict(
    build: Build, pattern: BlockPattern, question: Question
) -> None:
    model, other = build(pattern), build(pattern)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.roll_out(*question), other.roll_out(*question))


def test_single_precision_is_as_good_as_it_can_be(
    build: Build, pattern: BlockPattern, question: Question
) -> None:
    model = build(pattern)
    exact = model.roll_out(*question)
    rough = model.float().roll_out(*(state.each(Tensor.float) for state in question))
    torch.testing.assert_close(rough.double(), exact, rtol=1e-4, atol=1e-5)


def test_a_graph_of_other_locations_is_refused(build: Build) -> None:
    eight = BlockPattern.from_pairs(8, np.array([(0, 7)]))
    with pytest.raises(ArtifactError, match="7 locations in and 7 out, a graph of 8"):
        build(eight)


def test_a_recipe_whose_heads_do_not_divide_its_neurons_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="heads = 3 must divide per_location = 4, auxiliary = 64"
    ):
        check_stage(ModelConfig, {"heads": 3}, source="recipe.toml")
    with pytest.raises(ConfigError, match="heads = 4 must divide width = 130"):
        check_stage(ModelConfig, {"width": 130}, source="recipe.toml")
    assert check_stage(ModelConfig, {"width": 128}, source="recipe.toml").width == 128
