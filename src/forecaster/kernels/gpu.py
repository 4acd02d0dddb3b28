"""The block-sparse product on a GPU: launches of the Triton programs in `programs`.

Triton is imported when a GPU first needs it.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern

NUMBERS = (torch.float32, torch.bfloat16, torch.float64)  # bfloat16 is summed in float32
CACHE = 2**24  # bytes of all locations' columns processed at once: they fit in the cache
PROGRAMS = 2**10  # enough to occupy a GPU: a few per multiprocessor
LEAST = 32  # columns: one for each thread of a warp
# At most, of a program: eight columns for each thread of one warp, so that loads are 16 bytes wide
# in bfloat16, two of them in float32, and sums over columns need no barrier.
COLUMNS = 256
TOGETHER = 3  # products of one state whose sums fit the registers


def forward(
    weight: Float[Tensor, "E O C"],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    bias: Float[Tensor, "N O"] | None,
    relu: bool,
) -> Float[Tensor, "N O R"]:
    """Return y_i = Σ_j W_ij x_j + b_i, with an optional ReLU."""
    (y,) = _multiply((weight,), state, pattern, bias, relu)
    return y


def forward_together(
    weights: Sequence[Float[Tensor, "E O C"]], state: Float[Tensor, "N C R"], pattern: BlockPattern
) -> tuple[Float[Tensor, "N O R"], ...]:
    """Return y_i = Σ_j W_ij x_j of every weight; x is read once."""
    return _multiply(weights, state, pattern, None, False)


def gradients(
    grad: Float[Tensor, "N O R"],
    weight: Float[Tensor, "E O C"],
    state: Float[Tensor, "N C R"],
    y: Float[Tensor, "N O R"] | None,
    pattern: BlockPattern,
    needed: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the needed ones of ∂W_ij = ∂y_i x_jᵀ, ∂x_j = Σ_i W_ijᵀ ∂y_i and ∂b_i = Σ ∂y_i.

    Args:
        grad: ∂y.
        weight: one block per edge.
        state: the input x.
        y: the output, if it was cut at zero.
        pattern: the edges.
        needed: whether the gradients of weight, state and bias are needed.
    """
    (dw,), dx, db = _differentiate((grad,), (weight,), state, y, pattern, needed)
    return dw, dx, db


def gradients_together(
    grads: Sequence[Float[Tensor, "N O R"]],
    weights: Sequence[Float[Tensor, "E O C"]],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    needed: tuple[bool, bool],
) -> tuple[tuple[Tensor | None, ...], Tensor | None]:
    """Return ∂W of every weight and ∂x, summed over the weights; None if not needed."""
    dw, dx, _ = _differentiate(grads, weights, state, None, pattern, (*needed, False))
    return dw, dx


def _multiply(
    weights: Sequence[Tensor],
    state: Tensor,
    pattern: BlockPattern,
    bias: Tensor | None,
    relu: bool,
) -> tuple[Tensor, ...]:
    (N, _, R), outputs = state.shape, weights[0].shape[1]
    ys = tuple(state.new_empty(N, outputs, R) for _ in weights)
    if ys[0].numel():
        launch = _launcher("sum_blocks", weights[0], state)
        edges = pattern.source, pattern.starts, pattern.walk
        inputs = tuple(weights), state, _or_any(bias, state)
        launch(ys, *inputs, *edges, R, BIAS=bias is not None, RELU=relu)
    return ys


def _differentiate(
    grads: Sequence[Tensor],
    weights: Sequence[Tensor],
    state: Tensor,
    y: Tensor | None,
    pattern: BlockPattern,
    needed: tuple[bool, bool, bool],
) -> tuple[tuple[Tensor | None, ...], Tensor | None, Tensor | None]:
    """Return ∂W of every weight, ∂x and ∂b; None if not needed."""
    for_weight, for_state, for_bias = needed
    (N, _, R), blocks = state.shape, weights[0].shape
    tiles = -(-R // _columns(weights[0], state))
    sums = torch.float64 if state.dtype == torch.float64 else torch.float32
    dx = torch.empty_like(state) if for_state else None
    dw = state.new_empty(len(weights), tiles, *blocks, dtype=sums) if for_weight else None
    db = state.new_empty(tiles, N, blocks[1], dtype=sums) if for_bias else None
    if R:
        launch = _launcher("sum_gradients", weights[0], state)
        each = (state,) * len(weights) if dw is None else dw.unbind()
        places = _or_any(dx, state), each, _or_any(db, state)
        inputs = tuple(grads), _or_any(y, state), tuple(weights), state
        turned = pattern.turned
        edges = turned.source, pattern.reverse, turned.starts, pattern.walk
        flags = {"STATE": for_state, "WEIGHT": for_weight, "BIAS": for_bias}
        launch(*places, *inputs, *edges, N, blocks[0], R, **flags, RELU=y is not None)
    dtype = state.dtype
    for_weights = (None,) * len(weights) if dw is None else _add_up(dw, dtype).unbind()
    return for_weights, dx, None if db is None else _add_up(db[None], dtype)[0]


@cache
def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Return why a data type is not supported on a GPU; None if it is."""
    if find_spec("triton") is None:
        return "triton is not installed (pip install 'forecaster[gpu]')"
    if dtype not in NUMBERS:
        return f"no program for {dtype}"
    try:
        _try_out(device, dtype)
    except Exception as error:  # an old GPU, no compiler: the types of errors vary
        return f"triton fails: {str(error).strip().splitlines()[0] or type(error).__name__}"
    return None


def version() -> str:
    """Return the version of triton."""
    return f"triton {programs().triton.__version__}"


@cache
def programs() -> ModuleType:
    """Import triton and return the programs."""
    from forecaster.kernels import programs as found  # noqa: PLC0415 (see above)

    return found


def on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context in which triton launches on the device of a tensor."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def _launcher(name: str, weight: Tensor, state: Tensor) -> Callable[..., None]:
    """Return a function that launches a program with the parameters that depend on sizes."""
    (N, C, R), outputs = state.shape, weight.shape[1]
    columns = _columns(weight, state)
    across = -(-R // columns)
    language = programs().tl
    sizes = {"OUT": outputs, "C": C, "BLOCK": columns}
    number = language.float64 if state.dtype == torch.float64 else language.float32

    def launch(*arguments: Any, **flags: bool) -> None:
        options = {"num_warps": 1, "num_stages": 1}
        with on_device_of(state):
            program = getattr(programs(), name)[N, across]
            # Fused multiply-adds, whose default differs between versions.
            program(*arguments, **sizes, **flags, NUMBER=number, enable_fp_fusion=True, **options)

    return launch


def _columns(weight: Tensor, state: Tensor) -> int:
    """Return the number of columns of a program: a power of two that depends only on sizes.

    All locations process the same columns at the same time, and read their neighbours' from the
    shared cache. Small problems are split over more programs.
    """
    N, C, R = state.shape
    columns = min(COLUMNS, max(1 << (R - 1).bit_length(), LEAST))
    size = N * max(C, weight.shape[1]) * state.element_size()
    while columns > 4 * LEAST and (columns * size > CACHE or columns * PROGRAMS > N * R):
        columns //= 2
    return columns


def _add_up(parts: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sums over all tiles, the second axis, in a fixed order."""
    return (parts[:, 0] if parts.shape[1] == 1 else parts.sum(dim=1)).to(dtype)


def _or_any(tensor: Tensor | None, substitute: Tensor) -> Tensor:
    """Return the tensor, or another as a pointer that the program never reads."""
    return substitute if tensor is None else tensor


def _try_out(device: torch.device, dtype: torch.dtype) -> None:
    """Multiply two numbers, twice at once, and differentiate."""
    unit = torch.ones(1, 1, 1, device=device, dtype=dtype)
    index = torch.zeros(1, dtype=torch.int64)
    alone = BlockPattern(index, index, index, torch.tensor([0, 1])).to(device)
    ys = forward_together((unit, unit), unit, alone)
    _, dx = gradients_together(ys, (unit, unit), unit, alone, (True, True))
    if dx is None or not all(torch.equal(result, unit) for result in (*ys, dx / 2)):
        raise ValueError("a test product gives a wrong result")
