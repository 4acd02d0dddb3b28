from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from forecaster.kernels import gpu, reference
from forecaster.kernels.pattern import BlockPattern
from tests.kernels.conftest import GRAPHS

ALL = True, True, True
# ‖found − exact‖ / ‖exact‖: a rounding of 2⁻²⁴ or 2⁻⁹ each, of sums that hardly add to it
CLOSE = {torch.float64: 1e-15, torch.float32: 1e-6, torch.bfloat16: 6e-3}
SIZES = [(4, 4, 41), (1, 4, 7), (5, 2, 19), (2, 9, 5), (2, 3, 139), (3, 1, 1)]


def draw(
    pattern: BlockPattern, sizes: tuple[int, int, int], dtype: torch.dtype, device: str = "cpu"
) -> SimpleNamespace:
    (C, outputs, R), N = sizes, pattern.n_locations
    generator = torch.Generator().manual_seed(sum(sizes))
    shapes = {"weight": (pattern.n_edges, outputs, C), "state": (N, C, R)}
    shapes |= {"bias": (N, outputs), "grad": (N, outputs, R)}
    drawn = {n: torch.randn(*s, generator=generator).to(dtype) for n, s in shapes.items()}
    return SimpleNamespace(**{name: tensor.to(device) for name, tensor in drawn.items()})


def compute(t: SimpleNamespace, pattern: BlockPattern, *, relu: bool) -> list[Tensor]:
    """Return y and the gradients of weight, state and bias."""
    y = gpu.forward(t.weight, t.state, pattern, t.bias, relu)
    found = gpu.gradients(t.grad, t.weight, t.state, y if relu else None, pattern, ALL)
    return [y, *(gradient for gradient in found if gradient is not None)]


def exact(t: SimpleNamespace, pattern: BlockPattern, y: Tensor, *, relu: bool) -> list[Tensor]:
    """Return the same from plain torch in double precision; what was cut is as it was found."""
    w, x, b, g = (tensor.double() for tensor in (t.weight, t.state, t.bias, t.grad))
    g = reference.relu_gradient(g, y.double()) if relu else g
    return [
        reference.forward(w, x, pattern, b, relu),
        reference.weight_gradient(g, x, pattern),
        reference.state_gradient(g, w, pattern),
        g.sum(dim=2),
    ]


def assert_exact(t: SimpleNamespace, pattern: BlockPattern, *, relu: bool) -> None:
    found = compute(t, pattern, relu=relu)
    expected = exact(t, pattern, found[0], relu=relu)
    assert {tensor.dtype for tensor in found} == {t.state.dtype}
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert (a.double() - b).norm() <= CLOSE[t.state.dtype] * b.norm()


def draw_several(
    pattern: BlockPattern,
    sizes: tuple[int, int, int],
    count: int,
    dtype: torch.dtype,
    device: str = "cpu",
) -> tuple[list[Tensor], list[Tensor], SimpleNamespace]:
    """Return some weights and gradients that all differ, and one state."""
    t = draw(pattern, sizes, dtype, device)
    weights = [t.weight.roll(shift, dims=0) for shift in range(count)]
    return weights, [t.grad.roll(shift, dims=2) for shift in range(count)], t


def assert_together(
    pattern: BlockPattern,
    sizes: tuple[int, int, int],
    count: int,
    dtype: torch.dtype,
    device: str = "cpu",
) -> None:
    """Compare several products of one state and their gradients with exact ones."""
    weights, grads, t = draw_several(pattern, sizes, count, dtype, device)
    pattern = pattern.to(t.state.device)
    ys = gpu.forward_together(weights, t.state, pattern)
    dw, dx = gpu.gradients_together(grads, weights, t.state, pattern, (True, True))
    assert dx is not None
    ws, gs, x = [w.double() for w in weights], [g.double() for g in grads], t.state.double()
    pairs = [
        (y, reference.forward(w, x, pattern, None, False)) for y, w in zip(ys, ws, strict=True)
    ]
    for found, g in zip(dw, gs, strict=True):
        assert found is not None
        pairs.append((found, reference.weight_gradient(g, x, pattern)))
    each = [reference.state_gradient(g, w, pattern) for g, w in zip(gs, ws, strict=True)]
    pairs.append((dx, torch.stack(each).sum(dim=0)))
    for a, b in pairs:
        assert a.dtype == dtype
        assert (a.double() - b).norm() <= CLOSE[dtype] * b.norm()


# --------------------------------------------------------------------------- in the interpreter


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_numbers_of_every_kind_and_width_are_exact_but_for_rounding(
    sizes: tuple[int, int, int], dtype: torch.dtype, figure: BlockPattern
) -> None:
    assert_exact(draw(figure, sizes, dtype), figure, relu=sum(sizes) % 2 == 0)


@pytest.mark.usefixtures("interpreted")
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_graph_and_any_size_are_exact_but_for_rounding(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    place = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(place, place), max_size=4))
    pattern = BlockPattern.from_pairs(count, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    C, outputs, R = (data.draw(st.integers(1, largest)) for largest in (6, 5, 67))
    dtype, relu = data.draw(st.sampled_from(list(CLOSE))), data.draw(st.booleans())
    assert_exact(draw(pattern, (C, outputs, R), dtype), pattern, relu=relu)


@pytest.mark.usefixtures("interpreted")
def test_a_hub_is_summed_over_all_its_edges() -> None:
    star = BlockPattern.from_pairs(47, np.array([(29, n) for n in range(47) if n != 29]))
    assert_exact(draw(star, (1, 1, 3), torch.float32), star, relu=False)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("dtype", list(CLOSE), ids=str)
@pytest.mark.parametrize(("count", "sizes"), [(2, (4, 4, 41)), (3, (5, 2, 19)), (3, (1, 6, 7))])
def test_products_of_one_state_are_those_of_each_weight(
    count: int, sizes: tuple[int, int, int], dtype: torch.dtype, figure: BlockPattern
) -> None:
    assert_together(figure, sizes, count, dtype)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("needed", [(True, False), (False, True)])
def test_gradients_of_several_products_are_none_where_not_needed(
    needed: tuple[bool, bool], figure: BlockPattern
) -> None:
    weights, grads, t = draw_several(figure, (3, 2, 7), 2, torch.float32)
    whole, x_whole = gpu.gradients_together(grads, weights, t.state, figure, (True, True))
    found, x_found = gpu.gradients_together(grads, weights, t.state, figure, needed)
    assert [dw is not None for dw in found] == [needed[0]] * 2
    assert (x_found is not None) == needed[1]
    for a, b in zip((*found, x_found), (*whole, x_whole), strict=True):
        assert a is None or torch.equal(a, b)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize(
    "needed", [(True, False, False), (False, True, False), (False, False, True)]
)
def test_a_gradient_that_is_not_needed_is_none_and_changes_no_other(
    needed: tuple[bool, bool, bool], figure: BlockPattern
) -> None:
    t = draw(figure, (3, 2, 7), torch.float32)
    whole = gpu.gradients(t.grad, t.weight, t.state, None, figure, ALL)
    found = gpu.gradients(t.grad, t.weight, t.state, None, figure, needed)
    for one, all_, wanted in zip(found, whole, needed, strict=True):
        if wanted:
            assert one is not None
            assert all_ is not None
            assert torch.equal(one, all_)
        else:
            assert one is None


@pytest.mark.usefixtures("interpreted")
def test_gradients_equal_differences() -> None:
    pair = BlockPattern.from_pairs(2, np.array([(0, 1)]))
    t = draw(pair, (2, 1, 3), torch.float64)

    def loss(weight: Tensor, state: Tensor) -> Tensor:
        y = gpu.forward(weight, state, pair, t.bias, True)
        return (y * t.grad).sum()

    y = gpu.forward(t.weight, t.state, pair, t.bias, True)
    found = gpu.gradients(t.grad, t.weight, t.state, y, pair, ALL)
    for position, gradient in enumerate(found[:2]):
        assert gradient is not None
        inputs = [t.weight, t.state]
        step = torch.randn_like(inputs[position]) * 1e-6
        ends = []
        for sign in (1, -1):
            moved = list(inputs)
            moved[position] = inputs[position] + sign * step
            ends.append(loss(*moved))
        assert float(ends[0] - ends[1]) / 2 == pytest.approx(
            float((gradient * step).sum()), rel=1e-6
        )


# ------------------------------------------------------------------------------------ the tiles


@pytest.mark.parametrize(
    ("N", "R", "expected"),
    [
        (996, 4864, 256),
        (996, 192, 128),  # few columns: more programs
        (57, 4864, 256),
        (57, 1, 32),
        (2_000, 4864, 256),
        (8_600, 4864, 128),  # many locations: fewer columns at once
    ],
)
def test_columns_fill_a_tile_busy_the_gpu_and_fit_the_cache(N: int, R: int, expected: int) -> None:
    weight, state = torch.empty(1, 4, 4), torch.empty(1, 1, 1).expand(N, 4, R)
    assert gpu._columns(weight, state) == expected
    assert expected <= 128 or N * 4 * 4 * expected <= gpu.CACHE


# ------------------------------------------------------------------------------------- why not


@pytest.fixture
def _asked_anew() -> None:
    gpu.why_not.cache_clear()


@pytest.mark.usefixtures("_asked_anew")
def test_without_triton_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_spec", lambda _: None)
    reason = gpu.why_not(torch.device("cpu"), torch.float32)
    assert reason == "triton is not installed (pip install 'forecaster[gpu]')"
    gpu.why_not.cache_clear()


@pytest.mark.usefixtures("interpreted", "_asked_anew")
def test_numbers_without_a_program_are_named() -> None:
    reason = gpu.why_not(torch.device("cpu"), torch.float16)
    assert reason == "no program for torch.float16"


@pytest.mark.usefixtures("interpreted", "_asked_anew")
@pytest.mark.parametrize("failing", ["forward_together", "gradients_together"])
def test_a_triton_that_fails_is_found_out_before_it_is_chosen(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> Tensor:
        raise RuntimeError("Failed to find C compiler.\nPlease specify via CC")

    assert gpu.why_not(torch.device("cpu"), torch.float32) is None
    gpu.why_not.cache_clear()
    monkeypatch.setattr(gpu, failing, fail)
    reason = gpu.why_not(torch.device("cpu"), torch.float32)
    assert reason == "triton fails: Failed to find C compiler."
    gpu.why_not.cache_clear()


# ------------------------------------------------------------------------------------- compiled


COMPILED = [(4, 4, 4864), (4, 4, 2812), (1, 4, 192), (4, 1, 192), (5, 7, 67)]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [
        *((sizes, dtype) for sizes in COMPILED for dtype in (torch.float32, torch.bfloat16)),
        ((31, 32, 67), torch.float32),
        ((3, 2, 67), torch.float64),
    ],
    ids=str,
)
def test_compiled_programs_are_exact_but_for_rounding(
    sizes: tuple[int, int, int], dtype: torch.dtype
) -> None:
    for pattern in GRAPHS.values():  # in one test: each size is compiled once
        t = draw(pattern, sizes, dtype, "cuda")
        assert_exact(t, pattern.to(torch.device("cuda")), relu=sum(sizes) % 2 == 0)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [2, 3])
def test_compiled_products_of_one_state_are_those_of_each_weight(
    count: int, dtype: torch.dtype
) -> None:
    for sizes in [(4, 4, 4864), (5, 7, 67)]:
        assert_together(GRAPHS["random"], sizes, count, dtype, "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("hub", [17, 996])
def test_compiled_programs_repeat_their_bits_at_hubs(hub: int) -> None:
    pairs = np.array([(0, n) for n in range(1, hub)])
    star = BlockPattern.from_pairs(996, pairs).to(torch.device("cuda"))
    t = draw(star, (4, 4, 4864), torch.float32, "cuda")
    assert_exact(t, star, relu=False)
    first, second = (compute(t, star, relu=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
def test_compiled_products_of_one_state_repeat_their_bits() -> None:
    pairs = np.random.default_rng(7).integers(0, 996, (1245, 2))
    pattern = BlockPattern.from_pairs(996, pairs).to(torch.device("cuda"))
    assert_together(pattern, (4, 4, 4864), 3, torch.float32, "cuda")
    weights, grads, t = draw_several(pattern, (4, 4, 4864), 3, torch.float32, "cuda")
    first, second = (
        gpu.gradients_together(grads, weights, t.state, pattern, (True, True)) for _ in range(2)
    )
    assert torch.equal(torch.stack(first[0]), torch.stack(second[0]))
    assert torch.equal(first[1], second[1])
