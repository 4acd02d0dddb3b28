"""Layer norm of a sum s = x + y on a GPU, over all neurons of a step, with gain and bias.

Five passes over the state forwards and five backwards; torch's operations take three times as
many. The statistics need a whole column of the state, too large for one program: hence two passes,
with the sum stored between them, which the backward pass needs as well.
"""

from functools import cache
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from forecaster.kernels.choice import choose_backend
from forecaster.kernels.gpu import on_device_of

ROWS, COLUMNS, WARPS = 32, 128, 4  # of a program: 32 numbers of each input per thread
BLOCKS, STEPS = (
    64,
    32,
)  # of rows and columns in the program that joins the statistics of all blocks

Parts = tuple[Float[Tensor, "N C B T"], Float[Tensor, "A B T"]]  # of a state: signal, auxiliary


def norm_is_fused(state: Float[Tensor, "..."]) -> bool:
    """Whether `add_norm` can be used for a state."""
    return choose_backend(state.device, state.dtype) == "triton"


def add_norm(
    x: Parts, y: Parts, gain: Float[Tensor, "D 1 1"], bias: Float[Tensor, "D 1 1"], epsilon: float
) -> Parts:
    """Return gain · (s − mean(s)) / √(variance(s) + ε) + bias of s = x + y, over all D neurons."""
    z: Parts = _AddNorm.apply(*x, *y, gain, bias, epsilon)  # type: ignore[no-untyped-call]
    return z


class _AddNorm(Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        *parts, gain, bias, epsilon = inputs
        x, y = [part.contiguous() for part in parts[:2]], [part.contiguous() for part in parts[2:]]
        s, z = [torch.empty_like(part) for part in x], [torch.empty_like(part) for part in x]
        sizes = _sizes(x)
        blocks, R = _blocks(x), sizes[-1]
        number = torch.float64 if gain.dtype == torch.float64 else torch.float32
        measured = gain.new_empty(blocks, 2, R, dtype=number)
        statistics = gain.new_empty(2, R, dtype=number)
        _launch("add_and_measure", *s, *x, *y, measured, *sizes)
        _join(statistics, measured, blocks, sizes, epsilon)
        _launch("apply_norm", *z, *s, *statistics, gain, bias, *sizes)
        ctx.save_for_backward(*s, statistics, gain)
        return tuple(z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *s, statistics, gain = ctx.saved_tensors
        g = [grad.contiguous() for grad in grads]
        sizes = _sizes(s)
        R = sizes[-1]
        by_column = statistics.new_empty(_blocks(s), 2, R)
        by_row = statistics.new_empty(-(-R // COLUMNS), 2, len(gain))
        d = [torch.empty_like(part) for part in s]
        _launch("measure_slopes", by_column, by_row, *g, *s, *statistics, gain, *sizes)
        summed = by_column.sum(dim=0)
        _launch("apply_slopes", *d, *g, *s, *statistics, gain, summed, *sizes)
        for_gain, for_bias = by_row.sum(dim=0).to(gain.dtype).view(2, *gain.shape)
        return *d, *d, for_gain, for_bias, None


@cache
def _programs() -> ModuleType:
    from forecaster.kernels import norm_programs as found  # noqa: PLC0415 (loads triton)

    return found


def _sizes(parts: list[Tensor]) -> tuple[int, int, int]:
    """Return the neurons of each part, and the number of steps."""
    signal, auxiliary = parts
    return signal.shape[:2].numel(), len(auxiliary), auxiliary.shape[1:].numel()


def _blocks(parts: list[Tensor]) -> int:
    """Return the number of blocks of rows of both parts."""
    return sum(-(-rows // ROWS) for rows in _sizes(parts)[:2])


def _launch(name: str, *arguments: Any) -> None:
    """Run a program on every tile; the last arguments are the sizes."""
    signal, auxiliary, R = arguments[-3:]
    grid = -(-signal // ROWS) + -(-auxiliary // ROWS), -(-R // COLUMNS)
    options = {"ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": WARPS}
    _run(name, grid, arguments, options)


def _join(
    statistics: Tensor, measured: Tensor, blocks: int, sizes: tuple[int, int, int], epsilon: float
) -> None:
    grid = (-(-sizes[-1] // STEPS),)
    options = {"ROWS": ROWS, "BLOCKS": BLOCKS, "COLUMNS": STEPS, "num_warps": 4}
    arguments = (*statistics, measured, blocks, *sizes, epsilon)
    _run("join_measures", grid, arguments, options)


def _run(
    name: str, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, int]
) -> None:
    tensor, language = arguments[0], _programs().tl
    number = language.float64 if tensor.dtype == torch.float64 else language.float32
    with on_device_of(tensor):
        program = getattr(_programs(), name)[grid]
        program(*arguments, NUMBER=number, **options, num_stages=1, enable_fp_fusion=True)
