"""Programs as small as can be around what is done with rows."""

import triton
import triton.language as tl

from forecaster.kernels.rows import (
    add_products,
    cut_at_zero,
    load_blocks,
    load_rows,
    load_slopes,
    repeat,
    store_rows,
)


@triton.jit
def copy(outputs, state, step, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    rows = load_rows(state + r, step, r < width, ROWS, tl.float32)
    store_rows(outputs, r, rows, step, r < step)


@triton.jit
def cut(cut_to, slopes_to, y, grad, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    store_rows((cut_to,), r, cut_at_zero(load_rows(y + r, 0, r >= 0, 1, tl.float32)), 0, r >= 0)
    slopes = load_slopes(grad + r, y + r, 0, r >= 0, 1, True, tl.float32)
    store_rows((slopes_to,), r, slopes, 0, r >= 0)


@triton.jit
def multiply(straight, turned, weight, state, OUT: tl.constexpr, C: tl.constexpr):
    r, always = tl.arange(0, 1), tl.arange(0, 1) >= 0
    ws = load_blocks((weight,), r, always, OUT, C, C, tl.float32)
    zeros = tl.zeros((1,), tl.float32)
    xs = load_rows(state + r, 1, always, C, tl.float32)
    ys = add_products(repeat(zeros, OUT), ws, xs, C, 1)
    store_rows((straight,), r, ys, 1, always)
    store_rows((turned,), r, add_products(repeat(zeros, C), ws, ys, 1, C), 1, always)
