from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Generator, Tensor

from forecaster.models.layers.diffusion import (
    Diffusion,
    DiffusionConvolution,
    draw_glorot,
    random_walk,
)

Draw = Callable[..., Tensor]
ONE_WAY = torch.tensor(
    [
        [1.0, 0.7, 0.0, 0.0, 0.2],
        [0.0, 1.0, 0.5, 0.0, 0.0],
        [0.3, 0.0, 1.0, 0.9, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.4],
        [0.6, 0.0, 0.0, 0.0, 1.0],
    ],
    dtype=torch.float64,
)
BOTH_WAYS = ONE_WAY + ONE_WAY.T
KERNELS = {"one way": ONE_WAY, "both ways": BOTH_WAYS}


def convolve(
    kernel: Tensor, steps: int, parts: Sequence[int] = (3,), outputs: int = 2
) -> DiffusionConvolution:
    """Return a convolution in double precision, with weights that differ."""
    generator = Generator().manual_seed(steps)
    diffusion = Diffusion(kernel, steps)
    return DiffusionConvolution(diffusion, [*parts], outputs, generator, bias=0.25).double()


def apply(layer: DiffusionConvolution, *x: Tensor) -> Tensor:
    result: Tensor = layer([layer.diffusion(part) for part in x], layer.fold())
    return result


def loop(kernel: np.ndarray, x: np.ndarray, theta: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return Σ_k (θ_{k,1} (D_O⁻¹W)^k + θ_{k,2} (D_I⁻¹Wᵀ)^k) X + b, number by number."""
    K, N = (len(theta) - 1) // 2, len(kernel)
    along = np.array([[kernel[i, j] / kernel[i].sum() for j in range(N)] for i in range(N)])
    against = np.array([[kernel[j, i] / kernel[:, i].sum() for j in range(N)] for i in range(N)])
    y = np.zeros((N, x.shape[1], theta.shape[2])) + bias
    for i, j in np.ndindex(N, N):
        y[i] += (i == j) * x[j] @ theta[0]
        for k in range(1, K + 1):
            y[i] += np.linalg.matrix_power(along, k)[i, j] * x[j] @ theta[k]
            y[i] += np.linalg.matrix_power(against, k)[i, j] * x[j] @ theta[K + k]
    return y


# -------------------------------------------------------------------------------- the walks


def test_a_step_on_a_path_of_three_by_hand() -> None:
    path = torch.tensor([[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]], dtype=torch.float64)
    expected = [[2 / 3, 1 / 3, 0], [1 / 4, 1 / 2, 1 / 4], [0, 1 / 3, 2 / 3]]
    assert random_walk(path).tolist() == pytest.approx(np.array(expected))
    x = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).view(3, 1, 1)
    once, twice = [2 / 3, 1 / 4, 0], [19 / 36, 7 / 24, 1 / 12]
    terms = Diffusion(path, 2)(x)[:, 0]  # x, P x, P² x
    assert terms.T.tolist() == pytest.approx(np.array([[1, 0, 0], once, twice]))


@given(
    kernel=arrays(
        np.float64, (7, 7), elements=st.sampled_from([0.0, 0.0, 1e-30, 0.1, 0.7, 1.0, 1e30])
    )
)
def test_a_walk_always_goes_somewhere(kernel: np.ndarray) -> None:
    walk = random_walk(torch.from_numpy(kernel)).numpy()
    assert (walk >= 0).all()
    assert walk.sum(axis=1) == pytest.approx(np.ones(7))


@pytest.mark.parametrize("own", [0.0, 1.0], ids=["nothing", "itself"])
def test_a_location_without_neighbours_keeps_what_it_has(own: float, draw: Draw) -> None:
    kernel = ONE_WAY.clone()
    kernel[2], kernel[:, 2] = 0.0, 0.0
    kernel[2, 2] = own
    x = draw(5, 3, 2)
    spread = Diffusion(kernel, 3)(x).view(5, 3, 7, 2)
    assert torch.equal(spread[2], x[2, :, None].expand(3, 7, 2))
    changed = x.clone()
    changed[2] += 1
    others = [0, 1, 3, 4]
    assert torch.equal(Diffusion(kernel, 3)(changed)[others], Diffusion(kernel, 3)(x)[others])


def test_the_two_directions_differ_on_a_directed_graph(draw: Draw) -> None:
    x, diffusion = draw(5, 3, 2), Diffusion(ONE_WAY, 2)
    along, against = diffusion(x).view(5, 3, 5, 2)[:, :, 1:].chunk(2, dim=2)
    assert diffusion.terms == 5
    assert not torch.isclose(along, against).any()
    swapped = Diffusion(ONE_WAY.T.contiguous(), 2)(x).view(5, 3, 5, 2)
    torch.testing.assert_close(swapped[:, :, 1:], torch.cat([against, along], dim=2))


def test_without_a_direction_each_walk_is_taken_once() -> None:
    diffusion = Diffusion(BOTH_WAYS, 2)
    assert diffusion.terms == 3
    assert diffusion.walks.shape == (2 * 5, 5)


# -------------------------------------------------------------------------- the convolution


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_the_sum_that_is_printed(name: str, steps: int, draw: Draw) -> None:
    layer, x = convolve(KERNELS[name], steps), draw(5, 7, 3)
    theta, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert theta.shape == (2 * steps + 1, 3, 2)
    expected = loop(KERNELS[name].numpy(), x.numpy(), theta, bias)
    np.testing.assert_allclose(apply(layer, x).detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_parts_stand_side_by_side(draw: Draw) -> None:
    layer, whole = convolve(ONE_WAY, 2, (3, 4)), convolve(ONE_WAY, 2, (7,))
    whole.load_state_dict(layer.state_dict())
    x, h = draw(5, 11, 3), draw(5, 11, 4)
    torch.testing.assert_close(apply(layer, x, h), apply(whole, torch.cat([x, h], dim=2)))


def test_where_nobody_has_neighbours_it_is_a_linear_layer(draw: Draw) -> None:
    layer, x = convolve(torch.eye(5, dtype=torch.float64), 2), draw(5, 7, 3)
    linear = torch.nn.Linear(3, 2, dtype=torch.float64)
    linear.weight.data = layer.weight.detach().sum(dim=0).T
    linear.bias.data = layer.bias.detach()
    torch.testing.assert_close(apply(layer, x), linear(x))


@pytest.mark.parametrize("name", KERNELS)
def test_its_gradient_is_right(name: str, draw: Draw) -> None:
    layer = convolve(KERNELS[name], 2)
    weights = [layer.weight, layer.bias]

    def run(x: Tensor, *_: Tensor) -> Tensor:
        return apply(layer, x)

    assert torch.autograd.gradcheck(run, (draw(5, 2, 3).requires_grad_(), *weights))


def test_a_location_is_reached_by_as_many_hops_as_there_are_steps(draw: Draw) -> None:
    line = torch.eye(7, dtype=torch.float64) + torch.diag(torch.full((6,), 0.5), 1).double()
    layer, x = convolve(line, 2, (1,), 1), draw(7, 1, 1)
    jacobian = torch.autograd.functional.jacobian(lambda x: apply(layer, x), x).view(7, 7)
    apart = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    assert torch.equal(jacobian != 0, apart <= 2)


def test_the_walks_are_no_weights() -> None:
    layer = convolve(ONE_WAY, 2)
    assert set(layer.state_dict()) == {"weight", "bias"}
    assert {name for name, _ in layer.named_buffers()} == {"diffusion.walks"}


def test_weights_are_drawn_with_glorots_variance() -> None:
    weight = draw_glorot((5, 60, 128), Generator().manual_seed(0)).detach()
    bound = np.sqrt(6 / (300 + 128))
    assert weight.abs().max() == pytest.approx(bound, rel=1e-3)
    assert weight.var().item() == pytest.approx(2 / (300 + 128), rel=2e-2)
    again = draw_glorot((5, 60, 128), Generator().manual_seed(0)).detach()
    assert torch.equal(weight, again)


def test_another_number_of_parts_or_of_inputs_is_refused(draw: Draw) -> None:
    layer = convolve(ONE_WAY, 2, (3, 4))
    with pytest.raises(ValueError, match="longer"):
        apply(layer, draw(5, 2, 3))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        apply(layer, draw(5, 2, 4), draw(5, 2, 3))
