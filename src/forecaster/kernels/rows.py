"""Rows of the block-sparse product in Triton programs: loads, sums, ReLU and stores.

Rows are tuples, which stay in registers.
"""
# Pointers and sizes, whose types Triton infers:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code=assignment
# ruff: noqa: PLR0913, PLR0917, RUF005

import triton
import triton.language as tl


@triton.jit
def repeat(row, ROWS: tl.constexpr):
    """Return a row repeated ROWS times."""
    rows = ()
    for _ in tl.static_range(ROWS):
        rows = rows + (row,)
    return rows


@triton.jit
def load_rows(place, step, mask, ROWS: tl.constexpr, NUMBER: tl.constexpr):
    """Return rows at a stride of `step`, and 0 outside the mask."""
    rows = ()
    for k in tl.static_range(ROWS):
        rows = rows + (tl.load(place + k * step, mask=mask, other=0.0).to(NUMBER),)
    return rows


@triton.jit
def load_slopes(grad, y, R, mask, ROWS: tl.constexpr, RELU: tl.constexpr, NUMBER: tl.constexpr):
    """Return the gradients before max(·, 0), if there was one; that of NaN passes."""
    gs = load_rows(grad, R, mask, ROWS, NUMBER)
    if RELU:
        ys = load_rows(y, R, mask, ROWS, NUMBER)
        cut = ()
        for k in tl.static_range(ROWS):
            cut = cut + (tl.where(ys[k] <= 0, 0.0, gs[k]),)
        gs = cut
    return gs


@triton.jit
def load_blocks(
    weights,
    w,
    more,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    C: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Return the numbers of every weight's block, row by row."""
    numbers = ()
    for p in tl.static_range(len(weights)):
        for o in tl.static_range(ROWS):
            for c in tl.static_range(COLUMNS):
                place = weights[p] + w + o * C + c
                numbers = numbers + (tl.load(place, mask=more, other=0.0).to(NUMBER),)
    return numbers


@triton.jit
def add_products(ys, ws, xs, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    """Return the rows with W xs added; w_kc is number k·DOWN + c·ACROSS of ws."""
    sums = ()
    for k in tl.static_range(len(ys)):
        y = ys[k]
        for c in tl.static_range(len(xs)):
            y += ws[k * DOWN + c * ACROSS] * xs[c]
        sums = sums + (y,)
    return sums


@triton.jit
def add_numbers(ys, place, NUMBER: tl.constexpr):
    """Return the rows, each with a number added."""
    sums = ()
    for k in tl.static_range(len(ys)):
        sums = sums + (ys[k] + tl.load(place + k).to(NUMBER),)
    return sums


@triton.jit
def cut_at_zero(ys):
    """Return max(·, 0); NaN stays NaN."""
    cut = ()
    for k in tl.static_range(len(ys)):
        cut = cut + (tl.where(ys[k] < 0, 0.0, ys[k]),)
    return cut


@triton.jit
def store_rows(outputs, at, ys, step, mask):
    """Write an equal share of the rows to each output."""
    ROWS: tl.constexpr = len(ys) // len(outputs)
    for k in tl.static_range(len(ys)):
        place = outputs[k // ROWS] + at + (k % ROWS) * step
        tl.store(place, ys[k].to(place.dtype.element_ty), mask=mask)


@triton.jit
def store_inner(place, gs, xs, C: tl.constexpr):
    """Write the inner products of all rows of g and x."""
    for o in tl.static_range(len(gs)):
        for c in tl.static_range(len(xs)):
            tl.store(place + o * C + c, tl.sum(gs[o] * xs[c], axis=0, keep_dims=True))
