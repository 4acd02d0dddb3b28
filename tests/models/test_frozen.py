from collections.abc import Callable
from functools import partial

import pytest
import torch

from forecaster.config import LagConfig, ModelConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.frozen import FrozenAttention, FrozenNorm, freeze, without_gradients
from forecaster.models.layers.attention import Attention
from forecaster.models.layers.encoder_decoder import AddNorm
from forecaster.models.layers.linear import SparseLinear
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import CrossLocationModule, Network, Outputs, no_quantiles
from forecaster.models.transformer import (
    TransformerNetwork,
    build_dense_transformer,
    build_forecaster,
)

NetworkInputs = tuple[State, State]
States = Callable[[NeuronLayout, int], State]
LAYOUT = NeuronLayout(7, 4, 6, heads=2)


@pytest.fixture(params=["forecaster", "dense", "two layers"])
def network(
    request: pytest.FixtureRequest,
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: torch.Generator,
) -> TransformerNetwork:
    if request.param == "dense":
        return build_dense_transformer(config, lags, inputs, generator).double()
    layers = 2 if request.param == "two layers" else 1
    config = config.model_copy(update={"n_layers": layers})
    return build_forecaster(config, lags, inputs, pattern, generator).double()


def window(state: State, b: int) -> State:
    """Return one window of a state, alone."""
    signal, auxiliary = state.signal[:, :, b, None], state.auxiliary[:, b, None]
    return State(signal.contiguous(), auxiliary.contiguous())


def test_its_own_window_has_the_same_forecast(
    network: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    one = [window(part, 3) for part in network_inputs]
    frozen = freeze(network, *one)
    for _ in range(2):  # the calls begin anew
        torch.testing.assert_close(frozen.roll_out(*one), network.roll_out(*one))


def test_the_network_is_not_changed(
    network: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    before = network.roll_out(*network_inputs)
    names = [name for name, _ in network.named_modules()]
    asks = [parameter.requires_grad for parameter in network.parameters()]
    frozen = freeze(network, *(window(part, 0) for part in network_inputs))
    frozen.roll_out(*network_inputs)
    assert torch.equal(network.roll_out(*network_inputs), before)
    assert [name for name, _ in network.named_modules()] == names
    assert [parameter.requires_grad for parameter in network.parameters()] == asks


def test_a_copy_computes_with_the_same_weights(
    network: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    copy = without_gradients(network)
    pairs = list(zip(copy.parameters(), network.parameters(), strict=True))
    assert all(own.data_ptr() == other.data_ptr() for own, other in pairs)
    assert not any(own.requires_grad for own, _ in pairs)
    assert torch.equal(copy.roll_out(*network_inputs), network.roll_out(*network_inputs))


def test_gradients_are_those_of_constant_weights_and_norms(
    network: TransformerNetwork, network_inputs: NetworkInputs, request: pytest.FixtureRequest
) -> None:
    history, ahead = (window(part, 2) for part in network_inputs)
    x = history.signal.clone().requires_grad_()
    forecast = freeze(network, history, ahead).roll_out(State(x, history.auxiliary), ahead)
    (actual,) = torch.autograd.grad(forecast[4].sum(), x)
    (free,) = torch.autograd.grad(network.roll_out(State(x, history.auxiliary), ahead)[4].sum(), x)
    request.getfixturevalue("hold_constant")  # the same in another way, without ε
    forecast = network.roll_out(State(x, history.auxiliary), ahead)
    (expected,) = torch.autograd.grad(forecast[4].sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(actual, free, rtol=1e-3, atol=1e-5)


def test_many_windows_are_forecast_as_one_by_one(
    network: TransformerNetwork, network_inputs: NetworkInputs
) -> None:
    frozen = freeze(network, *(window(part, 0) for part in network_inputs))
    together = frozen.roll_out(*network_inputs)
    alone = [frozen.roll_out(*(window(part, b) for part in network_inputs)) for b in range(5)]
    torch.testing.assert_close(together, torch.cat(alone, dim=1))
    assert not torch.allclose(together[:, 1:], network.roll_out(*network_inputs)[:, 1:])


def test_frozen_attention_mixes_new_values_by_the_first_weights(
    pattern: BlockPattern, generator: torch.Generator, states: States
) -> None:
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    attention = FrozenAttention(Attention(LAYOUT, linear).double())
    x, source = states(LAYOUT, 2), states(LAYOUT, 13)
    first = attention(x, attention.remember(source))
    attention.replay.start()
    twice = attention(states(LAYOUT, 2), attention.remember(source.each(lambda part: 2 * part)))
    torch.testing.assert_close(twice.join(), 2 * first.join())
    (call,) = attention.calls
    assert call.weights.shape == (2, 5, 2, 13)


def test_a_frozen_norm_equals_torchs_first_and_is_linear_later(states: States) -> None:
    norm = AddNorm(LAYOUT).double()
    frozen = FrozenNorm(norm)
    x, y = states(LAYOUT, 3), states(LAYOUT, 3)
    first = frozen(x, y)
    torch.testing.assert_close(first.join(), norm(x, y).join())
    frozen.replay.start()
    nothing = x.each(torch.zeros_like)
    zero, half = frozen(nothing, nothing), frozen(x.each(lambda p: p / 2), y.each(lambda p: p / 2))
    torch.testing.assert_close(half.join(), (zero.join() + first.join()) / 2)


class Mean(CrossLocationModule):
    """The mean over locations."""

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        return signal.mean(dim=0, keepdim=True)


class Plain(Network):
    """Forecasts the last value, and twice the mean of the city if it looks at that."""

    def __init__(self, inputs: NeuronLayout, lags: LagConfig, *, city: bool) -> None:
        super().__init__(inputs, lags)
        self.city = Mean() if city else None

    def forward(self, history: State, ahead: State, *_: object, **__: object) -> Outputs:
        del ahead
        last = history.signal[:, 0, :, -1:]
        city = 0.0 if self.city is None else 2 * self.city(last)
        forecast = (last + city).expand(-1, -1, 3)
        return Outputs(forecast, no_quantiles(forecast), forecast)


@pytest.mark.parametrize("city", [True, False])
def test_the_cross_location_modules_of_any_network_are_frozen(
    inputs: NeuronLayout, lags: LagConfig, network_inputs: NetworkInputs, city: bool
) -> None:
    network = Plain(inputs, lags, city=city)
    frozen = freeze(network, *(window(part, 0) for part in network_inputs))
    assert (frozen.parts, frozen.attends) == (int(city), False)
    last = network_inputs[0].signal[:, 0, :, -1]
    of_city = 2 * last[:, :1].mean() if city else torch.tensor(0.0)
    for _ in range(2):
        torch.testing.assert_close(frozen.roll_out(*network_inputs)[..., 2], last + of_city)


def test_a_transformer_attends(network: TransformerNetwork, network_inputs: NetworkInputs) -> None:
    frozen = freeze(network, *(window(part, 0) for part in network_inputs))
    assert frozen.attends
    layers = len(network.encoder)
    assert frozen.parts == layers * (1 + 2 + 2 + 3)  # attention and norms of encoder and decoder
    assert (len(frozen.encoder), len(frozen.histories)) == (layers, layers)
