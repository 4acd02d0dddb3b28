"""Triton programs for the block-sparse product: each processes a location × BLOCK columns.

A thread holds up to four rows of sums for its columns: neighbouring threads load neighbouring
numbers, and each loaded number is used four times. The data of the next edge is loaded before this
one is processed, to hide the latency of memory. No two programs add to the same number, so the
order of summation is fixed. Blocks are too small for the matrix units.

W, y and ∂W of several products of one state come as tuples of pointers.
"""
# Pointers and sizes, whose types Triton infers:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: PLR0913, PLR0917

import triton
import triton.language as tl

from forecaster.kernels.rows import (
    add_numbers,
    add_products,
    cut_at_zero,
    load_blocks,
    load_rows,
    load_slopes,
    repeat,
    store_inner,
    store_rows,
)


@triton.jit
def sum_blocks(
    outputs,
    weights,
    state,
    bias,
    source,
    starts,
    order,
    R,
    OUT: tl.constexpr,
    C: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Set y_i = Σ_j W_ij x_j + b_i of every weight, with an optional ReLU."""
    i, begin, end = _take_location(order, starts)
    edges = source, begin, end
    r = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = r < R
    at, products = i * OUT * R + r, (outputs, weights, state, bias + i * OUT)
    for o in range(0, OUT // 4 * 4, 4):
        _set_rows(products, edges, at, r, inside, R, o, 4, OUT, C, BIAS, RELU, NUMBER)
    if OUT % 4:
        o = OUT // 4 * 4
        _set_rows(products, edges, at, r, inside, R, o, OUT % 4, OUT, C, BIAS, RELU, NUMBER)


@triton.jit
def _set_rows(
    products,
    edges,
    at,
    r,
    inside,
    R,
    o,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    C: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Set the rows o of every y."""
    outputs, weights, state, bias = products
    ys = repeat(tl.zeros(inside.shape, NUMBER), len(weights) * ROWS)
    for c in range(0, C // 4 * 4, 4):
        ys = _add_neighbours(ys, weights, state, edges, r, inside, R, o, c, 4, OUT, C, NUMBER)
    if C % 4:
        c = C // 4 * 4
        ys = _add_neighbours(ys, weights, state, edges, r, inside, R, o, c, C % 4, OUT, C, NUMBER)
    if BIAS:
        ys = add_numbers(ys, bias + o, NUMBER)
    if RELU:
        ys = cut_at_zero(ys)
    store_rows(outputs, at + o * R, ys, R, inside)


@triton.jit
def sum_gradients(
    for_state,
    for_weights,
    for_bias,
    grads,
    y,
    weights,
    state,
    source,
    reverse,
    starts,
    order,
    N,
    E,
    R,
    OUT: tl.constexpr,
    C: tl.constexpr,
    STATE: tl.constexpr,
    WEIGHT: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Set ∂x_j = Σ_i W_ijᵀ ∂y_i, and these columns' part of ∂W_ij = ∂y_i x_jᵀ and ∂b_j.

    One pass: every ∂y_i is read once for all three, and ∂x_j is the sum over all weights. The
    parts of the blocks of columns are stored separately, and the caller sums them.
    """
    j, begin, end = _take_location(order, starts)
    tile = tl.program_id(1).to(tl.int64)
    r = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = r < R
    parts = for_state, for_weights, grads, y, weights, state
    edges = source, reverse, begin, end, tile * E * OUT * C
    for c in range(0, C // 4 * 4, 4):
        _set_gradients(parts, edges, j, r, inside, R, c, 4, OUT, C, STATE, WEIGHT, RELU, NUMBER)
    if C % 4:
        c = C // 4 * 4
        _set_gradients(
            parts, edges, j, r, inside, R, c, C % 4, OUT, C, STATE, WEIGHT, RELU, NUMBER
        )
    if BIAS:
        db = for_bias + (tile * N + j) * OUT
        _store_sums(db, grads[0], y, j * OUT * R + r, R, inside, OUT, RELU, NUMBER)


@triton.jit
def _set_gradients(
    parts,
    edges,
    j,
    r,
    inside,
    R,
    c,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    C: tl.constexpr,
    STATE: tl.constexpr,
    WEIGHT: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Set the rows c of ∂x, and ∂W of every weight for them."""
    for_state, for_weights, grads, y, weights, state = parts
    at = (j * C + c) * R + r
    ds = repeat(tl.zeros(inside.shape, NUMBER), ROWS)
    xs = ds  # not used unless ∂W is needed
    if WEIGHT:
        xs = load_rows(state + at, R, inside, ROWS, NUMBER)
    for p in tl.static_range(len(weights)):
        product = for_weights[p], grads[p], y, weights[p]
        for o in range(0, OUT // 4 * 4, 4):
            ds = _follow_edges(
                ds, xs, product, edges, r, inside, R, c, o, 4, OUT, C, STATE, WEIGHT, RELU, NUMBER
            )
        if OUT % 4:
            o = OUT // 4 * 4
            ds = _follow_edges(
                ds, xs, product, edges, r, inside, R, c, o, OUT % 4, OUT, C, STATE, WEIGHT, RELU,
                NUMBER,
            )  # fmt: skip
    if STATE:
        store_rows((for_state,), at, ds, R, inside)


@triton.jit
def _add_neighbours(
    ys,
    weights,
    state,
    edges,
    r,
    inside,
    R,
    o,
    c,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    C: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Return the rows o of every y, with the rows c of all neighbours added."""
    source, begin, end = edges
    OUTPUTS: tl.constexpr = len(ys) // len(weights)
    e, more = begin, begin < end
    j = tl.load(source + e, mask=more, other=0)
    xs = load_rows(state + (j * C + c) * R + r, R, inside & more, ROWS, NUMBER)
    ws = load_blocks(weights, (e * OUT + o) * C + c, more, OUTPUTS, ROWS, C, NUMBER)
    for _ in range(tl.max(end - begin, axis=0)):
        x_now, w_now = xs, ws
        e += 1
        more = e < end
        j = tl.load(source + e, mask=more, other=0)
        xs = load_rows(state + (j * C + c) * R + r, R, inside & more, ROWS, NUMBER)
        ws = load_blocks(weights, (e * OUT + o) * C + c, more, OUTPUTS, ROWS, C, NUMBER)
        ys = add_products(ys, w_now, x_now, len(x_now), 1)
    return ys


@triton.jit
def _follow_edges(
    ds,
    xs,
    product,
    edges,
    r,
    inside,
    R,
    c,
    o,
    ROWS: tl.constexpr,
    OUT: tl.constexpr,
    C: tl.constexpr,
    STATE: tl.constexpr,
    WEIGHT: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Return the rows c of ∂x, with the rows o of ∂y added; write ∂W of both."""
    for_weight, grad, y, weight = product
    source, reverse, begin, end, block = edges
    k, first = begin, begin < end
    i, e = tl.load(source + k, mask=first, other=0), tl.load(reverse + k, mask=first, other=0)
    at = (i * OUT + o) * R + r
    ahead = load_slopes(grad + at, y + at, R, inside & first, ROWS, RELU, NUMBER)
    for _ in range(tl.max(end - begin, axis=0)):
        gs, w, valid = ahead, (e * OUT + o) * C + c, k < end  # the edge e goes from j to i
        k += 1
        i = tl.load(source + k, mask=k < end, other=0)
        e = tl.load(reverse + k, mask=k < end, other=0)
        at = (i * OUT + o) * R + r
        ahead = load_slopes(grad + at, y + at, R, inside & (k < end), ROWS, RELU, NUMBER)
        if STATE:
            ws = load_blocks((weight,), w, valid, ROWS, len(ds), C, NUMBER)
            ds = add_products(ds, ws, gs, 1, len(ds))  # of the transposed block
        if WEIGHT:
            store_inner(for_weight + block + w, gs, xs, C)
    return ds


@triton.jit
def _store_sums(
    place,
    grad,
    y,
    at,
    R,
    inside,
    OUT: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
):
    """Write the sum of each row of ∂y."""
    for o in range(OUT):
        (g,) = load_slopes(grad + at + o * R, y + at + o * R, R, inside, 1, RELU, NUMBER)
        tl.store(place + o, tl.sum(g, axis=0, keep_dims=True))


@triton.jit
def _take_location(order, starts):
    """Return this program's location, and the first and last + 1 of its edges.

    As tensors of one element: Triton's interpreter cannot combine scalars with masks.
    """
    i = tl.load(order + tl.program_id(0) + tl.arange(0, 1))
    return i, tl.load(starts + i), tl.load(starts + i + 1)
