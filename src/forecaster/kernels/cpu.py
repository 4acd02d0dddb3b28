"""The block-sparse product on the CPU: compiled loops in Python threads.

numba's threads are not used: they abort when two Python threads call at once, or after a fork.
Each row of a result is computed by one thread, so results do not depend on their number.
"""

import math
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from forecaster.kernels.loops import LINE, Edges, multiply_edges, sum_blocks
from forecaster.kernels.pattern import BlockPattern

Job = Callable[[tuple[int, int]], None]  # on a range of targets

_SHARED = 2**23  # multiplications that justify another thread: about 0.4 ms
_RANGES = 8  # of targets per thread, for load balancing on a busy machine
_HUGE = 2**25  # bytes: above, malloc returns memory that the system clears page by page


def forward(
    weight: Float[Tensor, "E O C"],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    bias: Float[Tensor, "N O"] | None,
    relu: bool,
) -> Float[Tensor, "N O R"]:
    """Return y_i = Σ_j W_ij x_j + b_i, with an optional ReLU."""
    (N, _, R), outputs = state.shape, weight.shape[1]
    b = state.new_zeros(N, outputs) if bias is None else bias
    y = _empty((N, outputs, max(R, _width(state))), state)
    arrays = _array(y), _array(weight), _fill_line(state), _array(b)
    edges = _edges(pattern)
    _share(partial(sum_blocks, *arrays, relu, edges), edges, weight.numel() * R)
    return y[:, :, :R].contiguous()


def state_gradient(
    grad: Float[Tensor, "N O R"], weight: Float[Tensor, "E O C"], pattern: BlockPattern
) -> Float[Tensor, "N C R"]:
    """Return ∂x_j = Σ_i W_ijᵀ ∂y_i: the product of transposed blocks along reversed edges."""
    turned = np.swapaxes(_array(weight)[_array(pattern.reverse)], 1, 2)
    blocks = torch.from_numpy(np.ascontiguousarray(turned))
    return forward(blocks, grad, pattern.turned, None, False)


def weight_gradient(
    grad: Float[Tensor, "N O R"], state: Float[Tensor, "N C R"], pattern: BlockPattern
) -> Float[Tensor, "E O C"]:
    """Return ∂W_ij = ∂y_i x_jᵀ."""
    blocks = state.new_empty(pattern.n_edges, grad.shape[1], state.shape[1])
    arrays = _array(blocks), _fill_line(grad), _fill_line(state)
    edges = _edges(pattern)
    _share(partial(multiply_edges, *arrays, edges), edges, blocks.numel() * state.shape[2])
    return blocks


def relu_gradient(
    grad: Float[Tensor, "N O R"], y: Float[Tensor, "N O R"]
) -> Float[Tensor, "N O R"]:
    """Return the gradient before max(·, 0): that of the outputs above zero."""
    before = _empty(tuple(y.shape), y)
    torch.ops.aten.threshold_backward.grad_input(grad, y, 0, grad_input=before)
    return before


def _array(tensor: Tensor) -> np.ndarray:
    return np.asarray(tensor.detach())


def _edges(pattern: BlockPattern) -> Edges:
    return _array(pattern.source), _array(pattern.starts)


def _width(state: Tensor) -> int:
    """Return the number of columns in a line."""
    return LINE // state.element_size()


def _fill_line(state: Float[Tensor, "N C R"]) -> Float[np.ndarray, "N C R1"]:
    """Return the state padded with zero columns to at least one line."""
    (N, C, R), width = state.shape, _width(state)
    if width <= R:
        return _array(state)
    filled = np.zeros((N, C, width), _array(state).dtype)
    filled[:, :, :R] = _array(state)
    return filled


def _share(job: Job, edges: Edges, work: int) -> None:
    """Run the job over all targets: threads take ranges with similar numbers of edges."""
    source, starts = edges
    threads = min(torch.get_num_threads(), work // _SHARED)
    if threads <= 1:
        job((0, len(starts) - 1))
        return
    cuts = np.linspace(0, len(source), _RANGES * threads + 1)
    ranges = iter(list(pairwise(np.searchsorted(starts, cuts).tolist())))
    pool = _pool(threads - 1, os.getpid())
    helpers = [pool.submit(_take, job, ranges) for _ in range(threads - 1)]
    _take(job, ranges)
    for helper in helpers:
        if not helper.cancel():  # a helper that has not started has nothing to do
            helper.result()


def _take(job: Job, ranges: Iterator[tuple[int, int]]) -> None:
    """Run the job over ranges until none is left."""
    for targets in ranges:
        job(targets)


@cache
def _pool(threads: int, _process: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a forked process does not inherit them."""
    return ThreadPoolExecutor(threads, thread_name_prefix="block-product")


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return an uninitialised tensor; a large one in huge pages, where available.

    Clearing new memory in pages of 4 KiB takes longer than the product.
    """
    size = math.prod(shape) * like.element_size()
    if size < _HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return like.new_empty(shape)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # not supported by the kernel
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=like.dtype).view(shape)
