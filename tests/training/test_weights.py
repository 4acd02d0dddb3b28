import copy
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from forecaster.training.weights import LINE, Weights
from tests.training.town import make_task


@pytest.fixture
def network() -> nn.Module:
    return make_task().network


def named(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def test_the_network_computes_with_the_vector(network: nn.Module) -> None:
    weights = Weights(network, "float32")
    weights.vector.fill_(3.0)
    assert all((parameter == 3).all() for parameter in network.parameters())


def add(losses: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(losses)).sum()


def test_parameters_that_a_loss_does_not_see_have_no_gradient(network: nn.Module) -> None:
    weights = Weights(network, "float32")
    first, *others = weights.slices
    weights.backward(dict(network.named_parameters())[first].sum())
    collected = weights.collect_gradient()
    assert (weights.slices[first].view(collected) == 1).all()
    assert not any(weights.slices[name].view(collected).any() for name in others)


def test_the_network_is_what_it_was(network: nn.Module) -> None:
    before = named(network)
    Weights(network, "float32")
    assert all(torch.equal(before[name], now) for name, now in network.state_dict().items())


def test_gradients_of_several_parts_are_summed_in_the_vector(network: nn.Module) -> None:
    twin = copy.deepcopy(network)
    weights = Weights(network, "float32")
    for factor in (2.0, 5.0):
        sum(factor * p.square().sum() for p in twin.parameters()).backward()
        weights.backward(add(factor * p.square().sum() for p in network.parameters()))
    collected = weights.collect_gradient()
    for name, parameter in twin.named_parameters():
        if name in weights.slices:
            torch.testing.assert_close(weights.slices[name].view(collected), parameter.grad)
    weights.zero_gradient()
    assert not weights.collect_gradient().any()


def test_every_parameter_begins_on_a_line(network: nn.Module) -> None:
    weights = Weights(network, "float32")
    assert all(part.start * 4 % LINE == 0 for part in weights.slices.values())


def test_released_weights_are_the_networks_own(network: nn.Module) -> None:
    before = named(network)
    weights = Weights(network, "float32")
    weights.vector.mul_(2)
    arrays = weights.release()
    weights.vector.zero_()
    for name, now in network.state_dict().items():
        assert torch.equal(now, 2 * before[name])
        np.testing.assert_array_equal(arrays[name], now.numpy())
    assert all(parameter.grad is None for parameter in network.parameters())
    network.load_state_dict({name: torch.from_numpy(a) for name, a in arrays.items()})


def test_bf16_rounds_what_the_network_sees_and_not_the_weights(network: nn.Module) -> None:
    before = named(network)
    weights = Weights(network, "bf16")
    assert {parameter.dtype for parameter in network.parameters()} == {torch.bfloat16}
    weights.vector.add_(2**-20)  # lost in bf16 for all but the smallest
    weights.update_network()
    arrays = weights.release()
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, (before[name] + 2**-20).numpy())


def test_bf16_gradients_are_collected_in_full_precision(network: nn.Module) -> None:
    weights = Weights(network, "bf16")
    weights.backward(add(p.float().square().sum() for p in network.parameters()))
    rounded = weights.vector.to(torch.bfloat16)
    expected = 2 * rounded.float()
    assert weights.collect_gradient().dtype == torch.float32
    torch.testing.assert_close(weights.collect_gradient(), expected, rtol=2**-8, atol=1e-9)


def test_bf16_leaves_the_positions_as_they_were(network: nn.Module) -> None:
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    Weights(network, "bf16").release()
    after = dict(network.named_buffers())
    assert before.keys() == after.keys() != set()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_T4_parameters_that_are_not_finite_are_named(network: nn.Module) -> None:
    weights = Weights(network, "float32")
    assert weights.name_non_finite(weights.vector) == ""
    weights.slices["output.bias"].view(weights.vector)[0] = np.inf
    assert weights.name_non_finite(weights.vector) == "output.bias"


@pytest.mark.parametrize("two_outputs", [False, True])
def test_the_quantile_head_is_a_part_of_its_own(two_outputs: bool) -> None:
    plain, with_head = (
        Weights(make_task(levels=levels, two_outputs=two_outputs).network, "float32")
        for levels in ((), (0.1, 0.9))
    )
    assert [len(part) for part in plain.parts(plain.vector)] == [len(plain.vector)]
    forecast, head = with_head.parts(with_head.vector)
    assert torch.equal(forecast, plain.vector)
    assert len(forecast) + len(head) == len(with_head.vector)
    head.fill_(7)
    for name, parameter in with_head.network.named_parameters():
        assert (parameter == 7).all() == name.startswith("quantiles.") or not parameter.numel()
