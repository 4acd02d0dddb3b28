"""The GPU's programs for the block-sparse product: each works on some locations × BLOCK columns.

A thread owns columns and holds up to four rows of sums for them: neighbouring threads load
neighbouring numbers, and what is loaded is used four times. No two programs add to the same
number, so that nothing is summed in an order that chance decides. Blocks are too small for the
matrix units.
"""
# Plain pointers and sizes, whose types Triton finds out:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: C901, PLR0913, PLR0917, PLR2004

import triton
import triton.language as tl


@triton.jit
def sum_blocks(
    y_out,
    weight,
    state,
    bias,
    source,
    starts,
    order,
    N,
    R,
    OUT: tl.constexpr,
    C: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Set y_i = Σ_j W_ij x_j + b_i, cut at zero if asked."""
    r = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = r < R
    first = tl.program_id(0) * GROUP
    for place in range(first, tl.minimum(first + GROUP, N)):
        i = tl.load(order + place)
        begin, end = tl.load(starts + i), tl.load(starts + i + 1)
        for o in tl.static_range(0, OUT, 4):
            y0 = tl.zeros((BLOCK,), NUMBER)
            y1, y2, y3 = y0, y0, y0
            for e in range(begin, end):
                x = state + tl.load(source + e) * C * R + r
                w = weight + (e * OUT + o) * C
                for c in range(C):
                    x_c = tl.load(x + c * R, mask=inside, other=0.0).to(NUMBER)
                    y0, y1, y2, y3 = _add_products(y0, y1, y2, y3, x_c, w + c, C, OUT - o, NUMBER)
            if BIAS:
                b = bias + i * OUT + o
                y0, y1, y2, y3 = _add_products(y0, y1, y2, y3, 1.0, b, 1, OUT - o, NUMBER)
            if RELU:
                y0, y1, y2, y3 = _cut(y0), _cut(y1), _cut(y2), _cut(y3)
            _store_rows(y_out + (i * OUT + o) * R + r, y0, y1, y2, y3, R, inside, OUT - o)


@triton.jit
def sum_gradients(
    for_state,
    for_weight,
    for_bias,
    grad,
    y,
    weight,
    state,
    source,
    reverse,
    starts,
    order,
    N,
    R,
    OUT: tl.constexpr,
    C: tl.constexpr,
    STATE: tl.constexpr,
    WEIGHT: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    NUMBER: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Set ∂x_j = Σ_i W_ijᵀ ∂y_i, and what these columns add to ∂W_ij = ∂y_i x_jᵀ and ∂b_j.

    One pass: every ∂y_i is read once for all three. What each block of columns adds lies apart,
    for the caller to sum up.
    """
    tile = tl.program_id(1)
    r = tile * BLOCK + tl.arange(0, BLOCK)
    inside = r < R
    E = tl.load(starts + N)
    first = tl.program_id(0) * GROUP
    for place in range(first, tl.minimum(first + GROUP, N)):
        j = tl.load(order + place)
        begin, end = tl.load(starts + j), tl.load(starts + j + 1)
        for c in tl.static_range(0, C, 4):
            d0 = tl.zeros((BLOCK,), NUMBER)
            d1, d2, d3 = d0, d0, d0
            at_j = (j * C + c) * R
            x0, x1, x2, x3 = _load_rows(state + at_j + r, R, inside, WEIGHT * (C - c), d0, NUMBER)
            for k in range(begin, end):
                at_i = tl.load(source + k) * OUT * R
                e = tl.load(reverse + k)  # from j to i
                for o in tl.range(OUT, loop_unroll_factor=4):
                    g = _slope(grad + at_i + o * R + r, y + at_i + o * R + r, inside, RELU, NUMBER)
                    w = (e * OUT + o) * C + c
                    if STATE:
                        d0, d1, d2, d3 = _add_products(
                            d0, d1, d2, d3, g, weight + w, 1, C - c, NUMBER
                        )
                    if WEIGHT:
                        dw = for_weight + tile * E * OUT * C + w
                        _store_inner(dw, g, x0, x1, x2, x3, C - c)
            if STATE:
                _store_rows(for_state + at_j + r, d0, d1, d2, d3, R, inside, C - c)
        if BIAS:
            for o in range(OUT):
                at = (j * OUT + o) * R
                g = _slope(grad + at + r, y + at + r, inside, RELU, NUMBER)
                tl.store(for_bias + (tile * N + j) * OUT + o, tl.sum(g, axis=0))


@triton.jit
def _slope(grad, y, inside, RELU: tl.constexpr, NUMBER: tl.constexpr):
    """Return the gradient before max(·, 0), if there was one; a NaN lets its own through."""
    g = tl.load(grad, mask=inside, other=0.0).to(NUMBER)
    if RELU:
        g = tl.where(tl.load(y, mask=inside, other=0.0) <= 0, 0.0, g)
    return g


@triton.jit
def _cut(y):
    """Return max(·, 0); a NaN stays a NaN."""
    return tl.where(y < 0, 0.0, y)


# The first ROWS of up to four rows; a loop over them would put them into an array, and that into
# slow memory.


@triton.jit
def _add_products(
    y0, y1, y2, y3, x, w, STEP: tl.constexpr, ROWS: tl.constexpr, NUMBER: tl.constexpr
):
    """Return the rows with x, times a number for each, added."""
    y0 += tl.load(w).to(NUMBER) * x
    if ROWS > 1:
        y1 += tl.load(w + STEP).to(NUMBER) * x
    if ROWS > 2:
        y2 += tl.load(w + 2 * STEP).to(NUMBER) * x
    if ROWS > 3:
        y3 += tl.load(w + 3 * STEP).to(NUMBER) * x
    return y0, y1, y2, y3


@triton.jit
def _load_rows(place, step, inside, ROWS: tl.constexpr, zeros, NUMBER: tl.constexpr):
    """Return the rows, and zeros where there are none."""
    x0, x1, x2, x3 = zeros, zeros, zeros, zeros
    if ROWS > 0:
        x0 = tl.load(place, mask=inside, other=0.0).to(NUMBER)
    if ROWS > 1:
        x1 = tl.load(place + step, mask=inside, other=0.0).to(NUMBER)
    if ROWS > 2:
        x2 = tl.load(place + 2 * step, mask=inside, other=0.0).to(NUMBER)
    if ROWS > 3:
        x3 = tl.load(place + 3 * step, mask=inside, other=0.0).to(NUMBER)
    return x0, x1, x2, x3


@triton.jit
def _store_rows(place, y0, y1, y2, y3, step, inside, ROWS: tl.constexpr):
    number = place.dtype.element_ty
    tl.store(place, y0.to(number), mask=inside)
    if ROWS > 1:
        tl.store(place + step, y1.to(number), mask=inside)
    if ROWS > 2:
        tl.store(place + 2 * step, y2.to(number), mask=inside)
    if ROWS > 3:
        tl.store(place + 3 * step, y3.to(number), mask=inside)


@triton.jit
def _store_inner(place, g, x0, x1, x2, x3, ROWS: tl.constexpr):
    """Write the inner product of g with each row."""
    tl.store(place, tl.sum(g * x0, axis=0))
    if ROWS > 1:
        tl.store(place + 1, tl.sum(g * x1, axis=0))
    if ROWS > 2:
        tl.store(place + 2, tl.sum(g * x2, axis=0))
    if ROWS > 3:
        tl.store(place + 3, tl.sum(g * x3, axis=0))
