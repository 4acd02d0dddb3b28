import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from forecaster.config import LagConfig, ModelConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.linear import SparseLinear
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Heads
from forecaster.models.quantiles import QuantileHead, stack_quantiles
from forecaster.models.transformer import (
    TransformerNetwork,
    build_dense_transformer,
    build_forecaster,
)

Draw = Callable[..., Tensor]
States = Callable[[NeuronLayout, int], State]
LEVELS = (0.05, 0.25, 0.4, 0.9)
LAYOUT = NeuronLayout(7, 4, 6, 2)


@pytest.fixture
def head(pattern: BlockPattern, generator: Generator) -> QuantileHead:
    """Return a head that has learned something."""
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    head = QuantileHead(LEVELS, LAYOUT, 7, linear).double()
    for weights in head.outer.parameters():
        torch.nn.init.normal_(weights, generator=generator)
    return head


@pytest.fixture(params=["sparse", "dense"])
def model(
    request: pytest.FixtureRequest,
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
) -> TransformerNetwork:
    return build(request.param, config, lags, inputs, pattern, LEVELS)


def build(
    kind: str,
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    levels: tuple[float, ...],
) -> TransformerNetwork:
    fresh = Generator().manual_seed(31)
    if kind == "dense":
        return build_dense_transformer(config, lags, inputs, fresh, Heads(levels)).double()
    return build_forecaster(config, lags, inputs, pattern, fresh, Heads(levels)).double()


def test_quantiles_are_laid_out_location_first(
    head: QuantileHead, states: States, draw: Draw
) -> None:
    assert head(states(LAYOUT, 3), draw(7, 5, 3)).shape == (7, 4, 5, 3)


def test_before_training_the_middle_quantile_is_the_forecast_and_the_others_equally_far(
    model: TransformerNetwork, network_inputs: tuple[State, State]
) -> None:
    forecast, quantiles, _ = model(*network_inputs)
    assert torch.equal(quantiles[:, 2], forecast)  # 0.4
    apart = quantiles.diff(dim=1)
    torch.testing.assert_close(apart, torch.full_like(apart, math.log(2)))


def test_quantiles_go_away_from_the_level_nearest_the_middle(
    head: QuantileHead, states: States, draw: Draw
) -> None:
    x, forecast = states(LAYOUT, 3), draw(7, 5, 3)
    h = head.outer(head.inner(x)).signal
    actual = head(x, forecast)
    torch.testing.assert_close(actual[:, 2], forecast + h[:, 2])  # 0.4
    torch.testing.assert_close(actual[:, 3] - actual[:, 2], softplus(h[:, 3]))
    torch.testing.assert_close(actual[:, 2] - actual[:, 1], softplus(h[:, 1]))
    torch.testing.assert_close(actual[:, 1] - actual[:, 0], softplus(h[:, 0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantiles_never_cross(
    head: QuantileHead, states: States, draw: Draw, dtype: torch.dtype
) -> None:
    x = states(LAYOUT, 3).each(lambda part: (1e3 * part).to(dtype))
    actual = head.to(dtype)(x, draw(7, 5, 3).to(dtype))
    assert (actual.diff(dim=1) >= 0).all()


def test_a_location_sees_its_neighbours_two_edges_away_and_no_others(
    head: QuantileHead, states: States, draw: Draw
) -> None:
    x, forecast = states(LAYOUT, 3), draw(7, 5, 3)
    other = State(x.signal.clone(), draw(6, 5, 3))
    other.signal[3:5] += 1  # 0–1–2–3–4 and 0–5
    same = (head(x, forecast) == head(other, forecast)).flatten(1).all(dim=1)
    assert same.tolist() == [True, False, False, False, False, True, True]


def test_no_gradient_flows_back_into_the_network(
    model: TransformerNetwork, network_inputs: tuple[State, State], draw: Draw
) -> None:
    quantiles = model(*network_inputs, draw(7, 5, 2)).quantiles
    quantiles.square().sum().backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved
    assert all(name.startswith("quantiles.") for name in moved)


def test_the_forecast_is_that_of_the_network_without(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    network_inputs: tuple[State, State],
    draw: Draw,
) -> None:
    truth = draw(7, 5, 2)
    for kind in ("sparse", "dense"):
        plain, with_head = (
            build(kind, config, lags, inputs, pattern, levels) for levels in ((), LEVELS)
        )
        assert (plain.levels, with_head.levels) == ((), LEVELS)
        taught = with_head(*network_inputs, truth)
        assert torch.equal(taught.forecast, plain(*network_inputs, truth).forecast)
        rolled = with_head(*network_inputs)
        assert torch.equal(rolled.forecast, plain.roll_out(*network_inputs))
        none = [plain(*network_inputs, truth).quantiles, plain(*network_inputs).quantiles]
        assert [tuple(q.shape) for q in none] == [(7, 0, 5, 3)] * 2


def test_taught_and_rolled_out_quantiles_agree_on_the_same_values(
    model: TransformerNetwork, network_inputs: tuple[State, State]
) -> None:
    forecast, rolled, _ = model(*network_inputs)
    assert rolled.shape == (7, 4, 5, 3)
    torch.testing.assert_close(model(*network_inputs, forecast[..., :2]).quantiles, rolled)


def test_the_last_parameters_are_the_heads(model: TransformerNetwork) -> None:
    own = [name.startswith("quantiles.") for name, _ in model.named_parameters()]
    assert any(own)
    assert own == sorted(own)


def stack_plainly(forecast: Tensor, h: Tensor, middle: int, unit: Tensor | float) -> Tensor:
    """The quantiles as separate sums, which autograd follows."""
    by_level = h.unbind(dim=1)
    quantiles = [forecast + by_level[middle] * unit]
    for above in by_level[middle + 1 :]:
        quantiles.append(quantiles[-1] + softplus(above) * unit)
    for below in reversed(by_level[:middle]):
        quantiles.insert(0, quantiles[0] - softplus(below) * unit)
    return torch.stack(quantiles, dim=1)


@pytest.mark.parametrize("middle", [0, 2, 4])
@pytest.mark.parametrize("has_unit", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stacked_quantiles_and_their_gradient_are_plain_sums_to_the_bit(
    draw: Draw, middle: int, has_unit: bool, dtype: torch.dtype
) -> None:
    forecast, weights = draw(7, 5, 3).to(dtype), draw(7, 5, 5, 3).to(dtype)
    h = (8 * draw(7, 5, 5, 3)).to(dtype).transpose(1, 2).requires_grad_()  # some beyond 20
    unit = draw(7, 5, 3).exp().to(dtype) if has_unit else 1.0
    stacked, plain = (f(forecast, h, middle, unit) for f in (stack_quantiles, stack_plainly))
    assert torch.equal(stacked, plain)
    gradient, expected = (torch.autograd.grad(q, h, weights)[0] for q in (stacked, plain))
    assert torch.equal(gradient, expected)


def test_the_gradient_of_stacked_quantiles_is_their_slope(draw: Draw) -> None:
    forecast, h, unit = draw(3, 2, 4), draw(3, 5, 2, 4).requires_grad_(), draw(3, 2, 4).exp()
    assert torch.autograd.gradcheck(lambda x: stack_quantiles(forecast, x, 1, unit), (h,))
