"""Roll-outs over opening hours: closed steps neither change open ones nor are fed back."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor

from forecaster.config import DCRNNConfig, LagConfig, ModelConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.dcrnn import DCRNNNetwork
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.network import Network, Outputs
from forecaster.models.open_first import OpenFirst, feed_back
from forecaster.models.transformer import build_dense_transformer, build_forecaster

# N = 7 locations; B = 5 windows of K = 3 coming steps.
N, B, K = 7, 5, 3
NIGHT = 1  # the closed step of the first window; the others are open
INPUTS = NeuronLayout(7, 3, 11)


@pytest.fixture(params=["dcrnn", "forecaster", "transformer"])
def network(
    request: pytest.FixtureRequest, config: ModelConfig, lags: LagConfig, pattern: BlockPattern
) -> Network:
    generator = Generator().manual_seed(3)
    if request.param == "dcrnn":
        kernel = torch.eye(N, dtype=torch.float64) + 0.3
        dcrnn = DCRNNConfig(inputs="lags", units=4)
        return DCRNNNetwork(dcrnn, lags, INPUTS, kernel, generator).double().eval()
    if request.param == "forecaster":
        return build_forecaster(config, lags, INPUTS, pattern, generator).double().eval()
    return build_dense_transformer(config, lags, INPUTS, generator).double().eval()


@pytest.fixture
def is_open() -> Tensor:
    mask = torch.ones(N, B, K, dtype=torch.bool)
    mask[:, 0, NIGHT] = False
    return mask


def test_open_steps_come_first_and_outputs_return_to_their_times(
    draw: Callable[..., Tensor], is_open: Tensor
) -> None:
    is_open[2, 1, 0] = False  # one location alone: no step to skip
    order = OpenFirst.of(is_open)
    assert order.steps.tolist() == [[0, 2, 1], *[[0, 1, 2]] * 4]
    ahead = State(draw(N, 2, B, K), draw(11, B, K), torch.arange(B * K).view(B, K), is_open)
    arranged = order.arrange(ahead)
    assert torch.equal(arranged.signal[:, :, 0], ahead.signal[:, :, 0][..., [0, 2, 1]])
    assert torch.equal(arranged.auxiliary[:, 1:], ahead.auxiliary[:, 1:])
    assert arranged.slots is not None
    assert arranged.slots[0].tolist() == [0, 2, 1]
    forecast, quantiles = draw(N, B, K), draw(N, 3, B, K)
    again = order.arrange(State(quantiles, forecast, None, None))
    restored = order.restore(Outputs(again.auxiliary, again.signal, again.auxiliary))
    assert torch.equal(restored.forecast, forecast)
    assert torch.equal(restored.quantiles, quantiles)


def test_a_location_closed_among_open_ones_is_fed_its_last_value(
    draw: Callable[..., Tensor], is_open: Tensor
) -> None:
    x, before = draw(N, B), draw(N, B)
    is_open[4, :, 2] = False
    ahead = State(draw(N, 2, B, K), draw(11, B, K), None, is_open)
    fed = feed_back(x, before, ahead, 2)
    assert torch.equal(fed[4], before[4])
    assert torch.equal(fed[:4], x[:4])
    assert feed_back(x, before, replace(ahead, open=None), 2) is x


@pytest.mark.parametrize("teacher", [False, True])
def test_L10_what_is_known_of_a_closed_step_changes_no_open_one(
    network: Network,
    network_inputs: tuple[State, State],
    draw: Callable[..., Tensor],
    is_open: Tensor,
    teacher: bool,
) -> None:
    history, ahead = network_inputs
    truth = draw(N, B, K - 1) if teacher else None
    other_truth = None if truth is None else truth.clone()
    if other_truth is not None:
        other_truth[:, 0, NIGHT] += 7
    auxiliary = ahead.auxiliary.clone()
    auxiliary[:, 0, NIGHT] += 7
    ahead = replace(ahead, open=is_open)
    with torch.no_grad():
        before = network(history, ahead, truth).forecast
        after = network(history, replace(ahead, auxiliary=auxiliary), other_truth).forecast
    torch.testing.assert_close(after[:, 0, [0, 2]], before[:, 0, [0, 2]])
    assert not torch.allclose(after[:, 0, NIGHT], before[:, 0, NIGHT])
    assert torch.equal(after[:, 1:], before[:, 1:])


def test_L10_the_morning_follows_the_evening(
    network: Network, network_inputs: tuple[State, State], is_open: Tensor
) -> None:
    history, ahead = network_inputs
    shifted = ahead.auxiliary.clone(), ahead.signal.clone()
    for part in shifted:
        part[..., 0, NIGHT] = part[..., 0, 2]  # as if the morning were the next step
    with torch.no_grad():
        skipping = network(history, replace(ahead, open=is_open)).forecast
        adjacent = network(history, State(shifted[1], shifted[0])).forecast
    torch.testing.assert_close(skipping[:, 0, 2], adjacent[:, 0, NIGHT])


def test_a_panel_that_is_always_open_gives_the_same_bits(
    network: Network, network_inputs: tuple[State, State]
) -> None:
    history, ahead = network_inputs
    always = replace(ahead, open=torch.ones(N, B, K, dtype=torch.bool))
    with torch.no_grad():
        one, two = (network(history, a).forecast for a in (ahead, always))
    assert torch.equal(one, two)
