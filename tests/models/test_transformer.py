from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.errors import ArtifactError, ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.attention import Attention, query_balance
from forecaster.models.layers.encoder_decoder import AddNorm
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.transformer import (
    TransformerNetwork,
    build_dense_transformer,
    build_forecaster,
)
from forecaster.recipe import check_stage

Draw = Callable[..., Tensor]
NetworkInputs = tuple[State, State]


@pytest.fixture
def model(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: torch.Generator,
) -> TransformerNetwork:
    two_layers = config.model_copy(update={"n_layers": 2})
    return build_forecaster(two_layers, lags, inputs, pattern, generator).double()


def test_forecasts_are_laid_out_location_first(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    assert model(*network_inputs, draw(7, 5, 2))[0].shape == (7, 5, 3)
    assert model.roll_out(*network_inputs).shape == (7, 5, 3)


# ------------------------------------------------------------------------ what a step sees


def test_teacher_forcing_and_roll_out_agree_on_the_same_values(
    model: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    rolled = model.roll_out(*network_inputs)
    torch.testing.assert_close(model(*network_inputs, rolled[..., :2])[0], rolled)


def test_the_first_forecast_rests_on_the_last_observed_signal(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    history, ahead = network_inputs
    seen: list[State] = []
    model.decoder_embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    truth = draw(7, 5, 2)
    model(history, ahead, truth)
    (given,) = seen
    assert torch.equal(given.signal[:, 0, :, 0], history.signal[:, 0, :, 12])  # x_t
    assert torch.equal(given.signal[:, 0, :, 1:], truth)  # x_{t+1}, x_{t+2}
    assert torch.equal(given.signal[:, 1:], ahead.signal)  # covariates of t+1, t+2, t+3
    assert torch.equal(given.auxiliary, ahead.auxiliary)  # a_{t+1}, a_{t+2}, a_{t+3}


def test_positions_of_coming_steps_go_on_after_the_history(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    firsts: list[int] = []
    model.positions.register_forward_pre_hook(
        lambda _, _args, given: firsts.append(given["first"]), with_kwargs=True
    )
    model(*network_inputs, draw(7, 5, 2))
    model.roll_out(*network_inputs)
    assert firsts == [0, 13, 0, 13, 14, 15]


def test_roll_out_feeds_its_own_forecasts(
    model: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    seen: list[State] = []
    model.decoder_embedding.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    rolled = model.roll_out(*network_inputs)
    fed = torch.cat([given.signal[:, 0] for given in seen], dim=2)
    assert torch.equal(fed[..., 0], network_inputs[0].signal[:, 0, :, 12])
    assert torch.equal(fed[..., 1:], rolled[..., :2])


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_forecast_ignores_what_comes_after_it(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw, step: int
) -> None:
    history, ahead = network_inputs
    truth = draw(7, 5, 2)
    before = model(history, ahead, truth)[0]
    later = ahead.each(torch.clone)
    later.signal[..., step + 1 :] += 1
    later.auxiliary[..., step + 1 :] += 1
    changed = truth.clone()
    changed[..., step:] += 1
    after = model(history, later, changed)[0]
    assert torch.equal(after[..., : step + 1], before[..., : step + 1])
    if step < 2:
        assert (after[..., step + 1 :] != before[..., step + 1 :]).all()


def test_windows_are_independent(model: TransformerNetwork, network_inputs: NetworkInputs) -> None:
    together = model.roll_out(*network_inputs)
    for b in range(5):
        alone = [state.each(lambda part: part[..., b : b + 1, :]) for state in network_inputs]  # noqa: B023
        torch.testing.assert_close(model.roll_out(*alone), together[:, b : b + 1])


def test_every_weight_has_a_gradient(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    model(*network_inputs, draw(7, 5, 2))[0].square().sum().backward()
    learning = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    assert not [name for name, p in learning if not p.grad.abs().sum() > 0]
    rest = {name for name, _ in model.named_parameters()} - {name for name, _ in learning}
    assert rest == {"output.auxiliary_weight"}  # the last layer has no auxiliary neurons


@pytest.mark.usefixtures("hold_constant")
def test_with_constant_weights_and_statistics_a_forecast_reaches_ten_hops(
    lags: LagConfig, config: ModelConfig, generator: torch.Generator, draw: Draw
) -> None:
    line = np.array([(n, n + 1) for n in range(12)])  # 13 locations in a row
    inputs, pattern = NeuronLayout(13, 1, 11), BlockPattern.from_pairs(13, line)
    model = build_forecaster(config, lags, inputs, pattern, generator).double()
    signal, ahead = draw(13, 1, 5, 13).requires_grad_(), State(draw(13, 0, 5, 3), draw(11, 5, 3))
    first = model.roll_out(State(signal, draw(11, 5, 13)), ahead)[..., 0].sum(dim=1)
    # Embedding 1, encoder 4 (values, output, twice feed-forward), attention to the history 2,
    # feed-forward 2, output 1.
    rows = [torch.autograd.grad(one, signal, retain_graph=True)[0] for one in first]
    actual = torch.stack(rows).abs().sum(dim=(2, 3, 4)) > 0
    apart = (torch.arange(13)[:, None] - torch.arange(13)).abs()
    assert torch.equal(actual, apart <= 10)
    # Then embedding 1, attention among steps 2, feed-forward 2, output 1.
    assert [model.reach(step) for step in (1, 2, 3)] == [10, 16, 22]


# ------------------------------------------------------------------------- what it is made of


def test_embeddings_are_cut_at_zero(
    model: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    for embedding in (model.encoder_embedding, model.decoder_embedding):
        neurons = embedding(network_inputs[0])
        assert neurons.signal.min() == neurons.auxiliary.min() == 0
        assert neurons.signal.max() > 0


def test_layers_and_dropout_are_as_configured(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    network_inputs: NetworkInputs,
) -> None:
    config = config.model_copy(update={"n_layers": 2, "dropout": 0.25})
    model = build_forecaster(config, lags, inputs, pattern, torch.Generator()).double()
    assert (len(model.encoder), len(model.decoder)) == (2, 2)
    calls: list[float] = []
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.register_forward_hook(lambda layer, *_: calls.append(layer.p))
    history, ahead = network_inputs
    model(history, ahead, torch.zeros(7, 5, 2, dtype=torch.float64))
    # Of both parts of: two embeddings, two added outputs an encoder layer, three a decoder layer.
    assert calls == [0.25] * (2 * (2 + 2 * 2 + 2 * 3))


# ---------------------------------------------------------------------------------- training


@pytest.mark.slow
def test_the_model_overfits_eight_windows(
    lags: LagConfig, pattern: BlockPattern, generator: torch.Generator
) -> None:
    config = ModelConfig(per_location=16, auxiliary=16, heads=2)
    lags = lags.model_copy(update={"horizon": 2})
    model = build_forecaster(config, lags, NeuronLayout(7, 1, 3), pattern, generator)
    draw = partial(torch.randn, generator=generator)
    history, target = State(draw(7, 1, 8, 13), draw(3, 8, 13)), draw(7, 8, 2)
    ahead = State(torch.empty(7, 0, 8, 2), draw(3, 8, 2))
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, total_steps=60)
    losses = []
    for _ in range(60):
        loss = (model(history, ahead, target[..., :1])[0] - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[0] > 1.0  # the targets' variance is 1
    assert losses[-1] < 0.01


# ---------------------------------------------------------------------------------- refusal


def test_an_input_of_other_shape_is_refused_naming_both_sides(
    model: TransformerNetwork,
    network_inputs: NetworkInputs,
    states: Callable[[NeuronLayout, int], State],
) -> None:
    history, ahead = network_inputs
    wrong = states(NeuronLayout(7, 2, 11), 5)
    with pytest.raises(ConfigError) as caught:
        model.roll_out(history, wrong)
    assert str(caught.value) == (
        "the model does not fit its input: 1 fault\n"
        "  ahead: 7 locations × 2 values, 11 auxiliary values, 5 steps; "
        "needed: 7 locations × 2 values, 11 auxiliary values, 3 steps"
    )
    with pytest.raises(
        ConfigError, match=r"history: 5 locations × 1 values, 2 .*, 1 step; needed"
    ):
        model.roll_out(states(NeuronLayout(5, 1, 2), 1), ahead)
    with pytest.raises(ConfigError, match="2 faults"):
        model.roll_out(ahead, history)


def test_a_truth_of_other_length_is_refused(
    model: TransformerNetwork, network_inputs: NetworkInputs, draw: Draw
) -> None:
    with pytest.raises(ConfigError, match=r"truth: \(7, 5, 3\); needed: \(7, 5, 2\)"):
        model(*network_inputs, draw(7, 5, 3))


Build = Callable[[BlockPattern], TransformerNetwork]


@pytest.fixture
def build(
    config: ModelConfig, lags: LagConfig, inputs: NeuronLayout, generator: torch.Generator
) -> Build:
    """Return a function that builds a Forecaster of a pattern, nothing in it zero or one."""

    def make(pattern: BlockPattern) -> TransformerNetwork:
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
    network_inputs: NetworkInputs,
) -> None:
    every_pair = np.argwhere(np.triu(np.ones((7, 7)), k=1))
    sparse = build(BlockPattern.from_pairs(7, every_pair))
    layout = NeuronLayout(7, 4, 6, heads=2)
    linear = partial(DenseLinear, generator=torch.Generator())
    dense = TransformerNetwork(config, lags, inputs, layout, linear).double()
    for mine, theirs in zip(sparse.modules(), dense.modules(), strict=False):
        assert type(mine) is type(theirs) or isinstance(mine, SparseLinear)
    copy_weights(sparse, dense)
    torch.testing.assert_close(
        sparse.roll_out(*network_inputs), dense.roll_out(*network_inputs), rtol=1e-5, atol=1e-5
    )


def copy_weights(sparse: TransformerNetwork, dense: TransformerNetwork) -> None:
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
    build: Build, pattern: BlockPattern, network_inputs: NetworkInputs
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
    history, ahead = (State(state.signal[order], state.auxiliary) for state in network_inputs)
    expected = model.roll_out(*network_inputs)[order]
    torch.testing.assert_close(other.roll_out(history, ahead), expected)


@pytest.mark.usefixtures("hold_constant")
def test_a_covariate_of_a_location_moves_its_forecast_alone(
    build: Build, pattern: BlockPattern, network_inputs: NetworkInputs
) -> None:
    history, ahead = network_inputs
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
    build: Build, pattern: BlockPattern, network_inputs: NetworkInputs
) -> None:
    model, other = build(pattern), build(pattern)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.roll_out(*network_inputs), other.roll_out(*network_inputs))


def test_single_precision_is_as_good_as_it_can_be(
    build: Build, pattern: BlockPattern, network_inputs: NetworkInputs
) -> None:
    model = build(pattern)
    exact = model.roll_out(*network_inputs)
    rough = model.float().roll_out(*(state.each(Tensor.float) for state in network_inputs))
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


PAPERS_INPUTS = NeuronLayout(996, 1, 39)


def count(config: ModelConfig) -> int:
    """Return the weights of a dense Transformer of the paper's city, none of them allocated."""
    with torch.device("meta"):
        model = build_dense_transformer(config, LagConfig(), PAPERS_INPUTS, torch.Generator())
    return sum(p.numel() for p in model.parameters())


def weights_of(D: int) -> int:
    """Return how many weights a width leads to, by hand."""
    embeddings, attention = 2 * (1035 * D + D), 3 * 4 * D * D
    feed_forward, norms = 2 * 2 * (D * D + D), 5 * 2 * D
    return embeddings + attention + feed_forward + norms + 996 * D + 996


def test_the_same_width_is_the_papers_and_has_275_million_weights() -> None:
    assert count(ModelConfig()) == weights_of(4048) == 274_657_796


@pytest.mark.parametrize("width", [64, 4096])
def test_the_best_width_is_whichever_is_given(width: int) -> None:
    assert count(ModelConfig(width=width)) == weights_of(width)


def test_neurons_belong_to_nobody_and_queries_are_not_balanced(
    config: ModelConfig, lags: LagConfig, inputs: NeuronLayout, generator: torch.Generator
) -> None:
    model = build_dense_transformer(config, lags, inputs, generator)
    layers = [module for module in model.modules() if isinstance(module, DenseLinear)]
    assert len(layers) == 2 + 6 + 10 + 1
    layouts = {layer.layout for layer in model.modules() if isinstance(layer, Attention)}
    assert layouts == {NeuronLayout(0, 0, 7 * 4 + 6, heads=2)}
    assert {query_balance(layout) for layout in layouts} == {(1.0, 1.0)}


def test_forecasts_are_laid_out_as_forecasters_are(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: torch.Generator,
    network_inputs: tuple[State, State],
) -> None:
    model = build_dense_transformer(config, lags, inputs, generator).double()
    rolled = model.roll_out(*network_inputs)
    assert rolled.shape == (7, 5, 3)
    torch.testing.assert_close(model(*network_inputs, rolled[..., :2])[0], rolled)


def test_every_location_moves_every_forecast(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: torch.Generator,
    network_inputs: tuple[State, State],
) -> None:
    model = build_dense_transformer(config, lags, inputs, generator).double()
    history, ahead = network_inputs
    history.signal.requires_grad_()
    first = model.roll_out(history, ahead)[:, :, 0].sum(dim=1)
    rows = [torch.autograd.grad(one, history.signal, retain_graph=True)[0] for one in first]
    assert (torch.stack(rows).abs().sum(dim=(2, 3, 4)) > 0).all()


def test_every_dense_weight_learns(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: torch.Generator,
    network_inputs: tuple[State, State],
    draw: Draw,
) -> None:
    model = build_dense_transformer(config, lags, inputs, generator).double()
    model(*network_inputs, draw(7, 5, 2))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0]


def test_heads_that_do_not_divide_the_width_are_refused(
    lags: LagConfig, inputs: NeuronLayout, generator: torch.Generator
) -> None:
    config = ModelConfig().model_copy(update={"width": 66})  # past the recipe's own check
    with pytest.raises(ConfigError, match=r"4 heads must divide .* 66"):
        build_dense_transformer(config, lags, inputs, generator)
