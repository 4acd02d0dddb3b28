import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from forecaster.kernels import norm
from forecaster.kernels.norm import add_norm, norm_is_fused

EPSILON = 1e-5
# Of the norm; a compiled program sums in another order, hence some hundred roundings.
CLOSE = {torch.float64: 5e-14, torch.float32: 2e-6, torch.bfloat16: 1e-2}
# N, C, A, B, T: one tile; several tiles, none of them full; no locations; no auxiliary neurons
SIZES = [(7, 4, 6, 5, 3), (13, 5, 3, 1, 131), (0, 0, 6, 5, 3), (5, 2, 0, 3, 2)]

Sizes = tuple[int, int, int, int, int]


def draw(sizes: Sizes, dtype: torch.dtype, device: str = "cpu") -> list[Tensor]:
    """Return x and y in two parts each, gain and bias; the signal is far from zero."""
    N, C, A, B, T = sizes
    generator = torch.Generator().manual_seed(sum(sizes))
    shapes = [(N, C, B, T), (A, B, T)] * 2 + [(N * C + A, 1, 1)] * 2
    drawn = [torch.randn(*shape, generator=generator) for shape in shapes]
    drawn[0] = 7 + 3 * drawn[0]
    return [tensor.to(device=device, dtype=dtype).requires_grad_() for tensor in drawn]


def by_torch(inputs: list[Tensor]) -> list[Tensor]:
    """Return the norm by torch's own layer, in double precision."""
    x, a, y, b, gain, bias = (tensor.double() for tensor in inputs)
    whole = torch.cat([(x + y).flatten(0, 1), a + b]).movedim(0, -1)
    weights = gain.flatten(), bias.flatten()
    z = torch.nn.functional.layer_norm(whole, whole.shape[-1:], *weights, EPSILON).movedim(-1, 0)
    signal = x.shape[0] * x.shape[1]
    return [z[:signal].view(x.shape), z[signal:]]


def by_programs(inputs: list[Tensor]) -> list[Tensor]:
    x, a, y, b, gain, bias = inputs
    return list(add_norm((x, a), (y, b), gain, bias, EPSILON))


def differentiate(
    compute: Callable[[list[Tensor]], list[Tensor]], inputs: list[Tensor]
) -> list[Tensor]:
    """Return both parts of the norm, and the gradients of all inputs."""
    z = compute(inputs)
    generator = torch.Generator().manual_seed(29)
    grads = [torch.randn(part.shape, generator=generator).to(part) for part in z]
    found = torch.autograd.grad(z, inputs, grads)
    return [tensor.detach() for tensor in (*z, *found)]


def assert_torchs_own(inputs: list[Tensor]) -> None:
    dtype = inputs[0].dtype
    found, expected = differentiate(by_programs, inputs), differentiate(by_torch, inputs)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        # Gradients of few neurons cancel: what is left has the roundings of what came in, √numel.
        size = max(float(b.double().norm()), math.sqrt(b.numel()))
        assert float((a.double() - b).norm()) <= CLOSE[dtype] * size


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_norm_and_its_gradients_are_torchs_own(sizes: Sizes, dtype: torch.dtype) -> None:
    assert_torchs_own(draw(sizes, dtype))


@pytest.mark.usefixtures("interpreted")
def test_neurons_that_are_all_alike_stay_finite() -> None:
    x, a = torch.full((7, 4, 5, 3), 1e4), torch.full((6, 5, 3), 1e4)
    gain, bias = torch.ones(34, 1, 1), torch.zeros(34, 1, 1)
    for part in add_norm((x, a), (0 * x, 0 * a), gain, bias, EPSILON):
        assert part.abs().max().item() == 0


@pytest.mark.usefixtures("interpreted")
def test_tensors_that_are_not_contiguous_give_the_same() -> None:
    inputs = draw((7, 4, 6, 5, 3), torch.float32)
    turned = [t.detach().mT.contiguous().mT.requires_grad_() for t in inputs[:4]]
    assert not any(t.is_contiguous() for t in turned)
    for a, b in zip(by_programs(inputs), by_programs([*turned, *inputs[4:]]), strict=True):
        assert torch.equal(a, b)


@pytest.mark.usefixtures("interpreted")
def test_a_second_derivative_is_refused_rather_than_wrong() -> None:
    inputs = draw((3, 2, 5, 2, 3), torch.float32)
    loss = by_programs(inputs)[0].square().sum()
    (first,) = torch.autograd.grad(loss, inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_it_is_used_where_the_programs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    state = torch.zeros(2, 3, 5)
    assert not norm_is_fused(state)
    monkeypatch.setattr(norm, "choose_backend", lambda *_: "triton")
    assert norm_is_fused(state)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
def test_compiled_programs_are_torchs_own_and_repeat_their_bits(dtype: torch.dtype) -> None:
    for sizes in [*SIZES, (996, 4, 64, 8, 76), (1, 1, 1, 1, 1)]:
        inputs = draw(sizes, dtype, "cuda")
        assert_torchs_own(inputs)
        first, second = (differentiate(by_programs, inputs) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
