import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from forecaster.errors import ConfigError
from forecaster.kernels import reference
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import BACKENDS, block_product, block_products
from tests.kernels.conftest import GRAPHS

Dense = Callable[..., Tensor]
WIDTHS = [
    (1, 1),
    (1, 4),
    (4, 1),
    (2, 3),
    (3, 2),
    (4, 4),
    (5, 7),
    (8, 9),
    (13, 6),
    (31, 32),
    (32, 1),
]


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "triton":
        request.getfixturevalue("interpreted")
    return str(request.param)


@pytest.fixture(params=[name for name in BACKENDS if name != "triton"])
def native(request: pytest.FixtureRequest) -> str:
    """Return each backend that no interpreter slows down a thousandfold."""
    return str(request.param)


def draw(
    pattern: BlockPattern, C: int, outputs: int, R: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a weight, a state and a bias that ask for gradients."""
    generator = torch.Generator().manual_seed(C + 37 * outputs + 41 * R)
    shapes = (pattern.n_edges, outputs, C), (pattern.n_locations, C, R)
    tensors = [
        torch.randn(*shape, generator=generator, dtype=dtype, requires_grad=True)
        for shape in (*shapes, (pattern.n_locations, outputs))
    ]
    return tensors[0], tensors[1], tensors[2]


def watched(backend: Any, note: Callable[[str], None]) -> Any:
    """Return the backend, which notes the name of everything it is asked for."""

    def watch(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            note(name)
            return getattr(backend, name)(*args)

        return call

    names = "forward", "state_gradient", "weight_gradient", "relu_gradient"
    return SimpleNamespace(**{name: watch(name) for name in names})


def assert_equal_to_dense(
    pattern: BlockPattern, sizes: tuple[int, int, int], dense: Dense, backend: str
) -> None:
    """Compare the output and all gradients, each to 1e-5 of its largest entry."""
    weight, state, bias = inputs = draw(pattern, *sizes)
    found = block_product(weight, state, pattern, bias, backend=backend)
    expected = dense(weight, state, pattern, bias)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3))
    found_grads = torch.autograd.grad(found, inputs, grad)
    expected_grads = torch.autograd.grad(expected, inputs, grad)
    for a, b in zip((found, *found_grads), (expected, *expected_grads), strict=True):
        torch.testing.assert_close(
            a, b, rtol=0, atol=1e-5 * max(1.0, float(b.detach().abs().max()))
        )


# ------------------------------------------------------------------------------- equivalence


def test_the_product_equals_the_dense_masked_one(
    pattern: BlockPattern, dense: Dense, native: str
) -> None:
    assert_equal_to_dense(pattern, (3, 5, 41), dense, native)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", ["isolated", "none", "one", "complete"])
def test_interpreted_the_product_equals_the_dense_masked_one(name: str, dense: Dense) -> None:
    assert_equal_to_dense(GRAPHS[name], (3, 2, 41), dense, "triton")


@given(data=st.data())
def test_any_graph_and_any_size_equal_the_dense_masked_product(
    data: st.DataObject, dense: Dense
) -> None:
    count = data.draw(st.integers(1, 11))
    place = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=30))
    pattern = BlockPattern.from_pairs(count, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    sizes = [data.draw(st.integers(1, largest)) for largest in (32, 32, 67)]
    assert_equal_to_dense(pattern, (sizes[0], sizes[1], sizes[2]), dense, "numba")


@pytest.mark.parametrize(("C", "outputs"), WIDTHS)
def test_every_width_of_block_equals_the_dense_masked_product(
    C: int, outputs: int, figure: BlockPattern, dense: Dense
) -> None:
    assert_equal_to_dense(figure, (C, outputs, 19), dense, "numba")


@pytest.mark.parametrize("R", [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 4864])
def test_any_number_of_columns_equals_the_dense_masked_product(
    R: int, figure: BlockPattern, dense: Dense, native: str
) -> None:
    assert_equal_to_dense(figure, (4, 3, R), dense, native)


@pytest.mark.parametrize(("C", "outputs"), [(0, 3), (3, 0)])
def test_a_side_without_neurons_leaves_the_bias(
    C: int, outputs: int, figure: BlockPattern, backend: str
) -> None:
    weight, state, bias = draw(figure, C, outputs, 5)
    y = block_product(weight, state, figure, bias, backend=backend)
    assert torch.equal(
        y, bias[:, :, None].expand(5, outputs, 5) if C == 0 else y.new_empty(5, 0, 5)
    )
    y.sum().backward()
    assert bias.grad is not None
    assert torch.equal(bias.grad, torch.full((5, outputs), 5.0))


def test_relu_is_that_of_torch(figure: BlockPattern, backend: str) -> None:
    weight, state, bias = inputs = draw(figure, 3, 5, 23, torch.float64)
    found = block_product(weight, state, figure, bias, relu=True, backend=backend)
    expected = block_product(weight, state, figure, bias, backend="reference").relu()
    torch.testing.assert_close(found, expected)
    grad = torch.randn_like(found)
    found_grads = torch.autograd.grad(found, inputs, grad)
    torch.testing.assert_close(found_grads, torch.autograd.grad(expected, inputs, grad))


def test_no_bias_is_a_bias_of_zero(figure: BlockPattern, backend: str) -> None:
    weight, state, bias = draw(figure, 3, 5, 23)
    without = block_product(weight, state, figure, backend=backend)
    assert torch.equal(
        without, block_product(weight, state, figure, torch.zeros_like(bias), backend=backend)
    )


def test_tensors_that_are_not_contiguous_give_the_same(figure: BlockPattern, backend: str) -> None:
    weight, state, bias = draw(figure, 3, 5, 23)
    turned = [t.detach().mT.contiguous().mT.requires_grad_() for t in (weight, state, bias)]
    assert not any(t.is_contiguous() for t in turned)
    y = block_product(weight, state, figure, bias, backend=backend)
    y_turned = block_product(*turned[:2], figure, turned[2], backend=backend)
    assert torch.equal(y, y_turned)
    grad = torch.randn(5, 23, 5).transpose(1, 2)
    for a, b in zip(
        torch.autograd.grad(y, (weight, state, bias), grad),
        torch.autograd.grad(y_turned, turned, grad),
        strict=True,
    ):
        assert torch.equal(a, b)


# --------------------------------------------------------------------- several of one state


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_several_products_of_one_state_are_each_ones_with_their_gradients(
    count: int, figure: BlockPattern, backend: str
) -> None:
    weight, state, _ = draw(figure, 3, 2, 11, torch.float64)
    weights = [(weight.detach() * (k + 1)).requires_grad_() for k in range(count)]
    found = block_products(weights, state, figure, backend=backend)
    expected = [block_product(w, state, figure, backend="reference") for w in weights]
    torch.testing.assert_close(found, tuple(expected))
    grads = [torch.randn_like(y) for y in expected]
    inputs = *weights, state
    found_grads = torch.autograd.grad(found, inputs, grads)
    torch.testing.assert_close(found_grads, torch.autograd.grad(expected, inputs, grads))


def test_a_product_that_nobody_asks_about_has_no_say(figure: BlockPattern, backend: str) -> None:
    weight, state, _ = draw(figure, 3, 2, 7, torch.float64)
    first, _ = block_products([weight, weight.detach()], state, figure, backend=backend)
    alone = block_product(weight, state, figure, backend="reference")
    grad = torch.randn_like(alone)
    torch.testing.assert_close(
        torch.autograd.grad(first, (weight, state), grad),
        torch.autograd.grad(alone, (weight, state), grad),
    )


def test_a_second_derivative_of_several_products_is_refused(
    figure: BlockPattern, backend: str
) -> None:
    weight, state, _ = draw(figure, 3, 2, 7)
    y = torch.stack(block_products([weight, weight], state, figure, backend=backend))
    (first,) = torch.autograd.grad(y.square().sum(), state, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


# --------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("relu", [False, True])
def test_gradients_equal_differences(relu: bool, pattern: BlockPattern, native: str) -> None:
    inputs = draw(pattern, 2, 3, 5, torch.float64)
    assert torch.autograd.gradcheck(
        lambda w, x, b: block_product(w, x, pattern, b, relu=relu, backend=native),
        inputs,
        fast_mode=True,
    )


def test_gradients_of_whole_lines_equal_differences(native: str) -> None:
    path = BlockPattern.from_pairs(3, np.array([[0, 1], [1, 2]]))
    inputs = draw(path, 2, 3, 11, torch.float64)  # a line holds 8
    assert torch.autograd.gradcheck(
        lambda w, x, b: block_product(w, x, path, b, relu=True, backend=native), inputs
    )


def test_the_support_of_the_jacobian_is_the_graph(figure: BlockPattern, backend: str) -> None:
    weight, state, _ = draw(figure, 1, 1, 1)
    jacobian = torch.autograd.functional.jacobian(
        lambda x: block_product(weight.detach(), x, figure, backend=backend), state
    )
    support = torch.zeros(5, 5, dtype=torch.bool)
    support[figure.target, figure.source] = True
    assert torch.equal(jacobian.reshape(5, 5) != 0, support)


@pytest.mark.parametrize("needed", ["weight", "state", "bias"])
def test_only_the_gradients_that_are_needed_are_computed(
    needed: str, figure: BlockPattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []
    monkeypatch.setitem(BACKENDS, "spy", watched(reference, called.append))
    tensors = dict(zip(("weight", "state", "bias"), draw(figure, 3, 5, 7), strict=True))
    for name, tensor in tensors.items():
        tensor.requires_grad_(name == needed)
    block_product(
        *list(tensors.values())[:2], figure, tensors["bias"], backend="spy"
    ).sum().backward()
    assert called == ["forward"] + [f"{needed}_gradient"] * (needed != "bias")
    assert [name for name, tensor in tensors.items() if tensor.grad is not None] == [needed]


def test_nothing_is_recorded_without_gradients(figure: BlockPattern, backend: str) -> None:
    weight, state, bias = draw(figure, 3, 5, 7)
    y = block_product(weight, state, figure, bias, relu=True, backend=backend)
    with torch.no_grad():
        again = block_product(weight, state, figure, bias, relu=True, backend=backend)
    assert again.grad_fn is None
    assert torch.equal(y, again)


def test_a_second_derivative_is_refused_rather_than_wrong(
    figure: BlockPattern, backend: str
) -> None:
    weight, state, _ = draw(figure, 3, 5, 7)
    y = block_product(weight, state, figure, backend=backend)
    (first,) = torch.autograd.grad(y.square().sum(), state, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_nan_is_not_hidden_by_relu(figure: BlockPattern, backend: str) -> None:
    weight, state, bias = (tensor.detach() for tensor in draw(figure, 3, 5, 23))
    state[2, 1, 17] = torch.nan
    y = block_product(weight, state, figure, bias, relu=True, backend=backend)
    places = torch.zeros(5, 23, dtype=torch.bool)
    places[1, 17] = places[2, 17] = True  # 2 feeds 1 and itself
    assert torch.equal(y.isnan().all(dim=1), places)
    assert torch.equal(y.isnan().any(dim=1), places)


# ------------------------------------------------------------------------------------ choice


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float32, "numba"), (torch.float64, "numba"), (torch.bfloat16, "reference")],
)
def test_the_backend_follows_the_device_and_the_numbers(
    dtype: torch.dtype, expected: str, figure: BlockPattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    for name, backend in list(BACKENDS.items()):
        monkeypatch.setitem(
            BACKENDS, name, watched(backend, lambda _, name=name: used.append(name))
        )
    weight, state, _ = (tensor.detach().to(dtype) for tensor in draw(figure, 3, 5, 7))
    assert block_product(weight, state, figure).dtype == dtype
    assert used == [expected]


def test_an_unknown_backend_is_refused_with_those_there_are(figure: BlockPattern) -> None:
    weight, state, _ = draw(figure, 3, 5, 7)
    with pytest.raises(
        ConfigError, match=r"'nunba'; did you mean 'numba'.*numba, triton, reference"
    ):
        block_product(weight, state, figure, backend="nunba")


# ----------------------------------------------------------------------------------- refusal

unchecked = inspect.unwrap(block_product)  # past the shapes that only tests check


def test_a_pattern_of_other_locations_is_refused(figure: BlockPattern) -> None:
    weight, _, _ = draw(figure, 3, 5, 7)
    with pytest.raises(ConfigError, match="state has 7 locations, the pattern 5"):
        block_product(weight, torch.zeros(7, 3, 7), figure)


def test_a_weight_of_other_edges_is_refused(figure: BlockPattern) -> None:
    _, state, _ = draw(figure, 3, 5, 7)
    with pytest.raises(ConfigError, match="weight has 6 blocks, the pattern 11 edges"):
        block_product(torch.zeros(6, 5, 3), state, figure)


def test_everything_that_does_not_fit_is_named_at_once(figure: BlockPattern) -> None:
    state, weight, bias = torch.zeros(7, 2, 3), torch.zeros(6, 5, 3), torch.zeros(5, 4)
    with pytest.raises(ConfigError, match="4 faults") as refusal:
        unchecked(weight, state, figure, bias)
    assert "blocks read 3 neurons, locations have 2" in str(refusal.value)
    assert "bias is [5, 4], not locations × outputs [5, 5]" in str(refusal.value)


def test_several_weights_of_different_shapes_are_refused(figure: BlockPattern) -> None:
    weights, state = [torch.zeros(11, 5, 3), torch.zeros(11, 2, 3)], torch.zeros(5, 3, 7)
    with pytest.raises(ConfigError, match="weights of 2 shapes"):
        inspect.unwrap(block_products)(weights, state, figure)


def test_mixed_numbers_are_refused(figure: BlockPattern) -> None:
    weight, state, bias = draw(figure, 3, 5, 7)
    with pytest.raises(ConfigError, match=r"weight is torch\.float64 on cpu, the state torch\.fl"):
        block_product(weight.double(), state, figure)
    with pytest.raises(ConfigError, match=r"bias is torch\.float64"):
        block_product(weight, state, figure, bias.double())
