from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from forecaster.config import LagConfig, ModelConfig
from forecaster.errors import ConfigError
from forecaster.models.attention import Attention, query_balance
from forecaster.models.dense import build_dense
from forecaster.models.neurons import NeuronLayout, State
from forecaster.models.sparse_linear import DenseLinear

Draw = Callable[..., Tensor]
PAPERS_INPUTS = NeuronLayout(996, 1, 39)


def count(config: ModelConfig) -> int:
    """Return the weights of a dense Transformer of the paper's city, none of them allocated."""
    with torch.device("meta"):
        model = build_dense(config, LagConfig(), PAPERS_INPUTS, torch.Generator())
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
    model = build_dense(config, lags, inputs, generator)
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
    question: tuple[State, State],
) -> None:
    model = build_dense(config, lags, inputs, generator).double()
    rolled = model.roll_out(*question)
    assert rolled.shape == (7, 5, 3)
    torch.testing.assert_close(model(*question, rolled[..., :2]), rolled)


def test_every_location_moves_every_forecast(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: torch.Generator,
    question: tuple[State, State],
) -> None:
    model = build_dense(config, lags, inputs, generator).double()
    history, ahead = question
    history.signal.requires_grad_()
    first = model.roll_out(history, ahead)[:, :, 0].sum(dim=1)
    rows = [torch.autograd.grad(one, history.signal, retain_graph=True)[0] for one in first]
    assert (torch.stack(rows).abs().sum(dim=(2, 3, 4)) > 0).all()


def test_every_weight_learns(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: torch.Generator,
    question: tuple[State, State],
    draw: Draw,
) -> None:
    model = build_dense(config, lags, inputs, generator).double()
    model(*question, draw(7, 5, 2)).square().sum().backward()
    assert not [name for name, p in model.named_parameters() if not p.grad.abs().sum() > 0]


def test_heads_that_do_not_divide_the_width_are_refused(
    lags: LagConfig, inputs: NeuronLayout, generator: torch.Generator
) -> None:
    config = ModelConfig().model_copy(update={"width": 66})  # past the recipe's own check
    with pytest.raises(ConfigError, match=r"4 heads must divide .* 66"):
        build_dense(config, lags, inputs, generator)
