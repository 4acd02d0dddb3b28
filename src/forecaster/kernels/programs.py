"""The GPU's programs for the block-sparse product: each works on a location × BLOCK columns.

A thread owns columns and holds up to four rows of sums for them: neighbouring threads load
neighbouring numbers, and what is loaded is used four times. What the next edge needs is loaded
before this one is computed with: a GPU waits as long for many loads as for one. No two programs
add to the same number, so that nothing is summed in an order that chance decides. Blocks are too
small for the matrix units.

Rows are tuples, which stay in registers; W, y and ∂W of several products of one state come as
tuples of pointers.
"""
# Plain pointers and sizes, whose types Triton finds out:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code=assignment
# ruff: noqa: PLR0913, PLR0917, RUF005

import triton
import triton.language as tl


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
    """Set y_i = Σ_j W_ij x_j + b_i of every weight, cut at zero if asked."""
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
    ys = _repeat(tl.zeros(inside.shape, NUMBER), len(weights) * ROWS)
    for c in range(0, C // 4 * 4, 4):
        ys = _add_neighbours(ys, weights, state, edges, r, inside, R, o, c, 4, OUT, C, NUMBER)
    if C % 4:
        c = C // 4 * 4
        ys = _add_neighbours(ys, weights, state, edges, r, inside, R, o, c, C % 4, OUT, C, NUMBER)
    if BIAS:
        ys = _add_numbers(ys, bias + o, NUMBER)
    if RELU:
        ys = _cut(ys)
    _store_rows(outputs, at + o * R, ys, R, inside)


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
    """Set ∂x_j = Σ_i W_ijᵀ ∂y_i, and what these columns add to ∂W_ij = ∂y_i x_jᵀ and ∂b_j.

    One pass: every ∂y_i is read once for all three, and ∂x_j is the sum over all weights. What
    each block of columns adds lies apart, for the caller to sum up.
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
    ds = _repeat(tl.zeros(inside.shape, NUMBER), ROWS)
    xs = ds  # nobody looks at them where ∂W is not needed
    if WEIGHT:
        xs = _load_rows(state + at, R, inside, ROWS, NUMBER)
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
        _store_rows((for_state,), at, ds, R, inside)


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
    """Return the rows o of every y with what the rows c of all neighbours add."""
    source, begin, end = edges
    OUTPUTS: tl.constexpr = len(ys) // len(weights)
    e, more = begin, begin < end
    j = tl.load(source + e, mask=more, other=0)
    xs = _load_rows(state + (j * C + c) * R + r, R, inside & more, ROWS, NUMBER)
    ws = _load_blocks(weights, (e * OUT + o) * C + c, more, OUTPUTS, ROWS, C, NUMBER)
    for _ in range(tl.max(end - begin, axis=0)):
        x_now, w_now = xs, ws
        e += 1
        more = e < end
        j = tl.load(source + e, mask=more, other=0)
        xs = _load_rows(state + (j * C + c) * R + r, R, inside & more, ROWS, NUMBER)
        ws = _load_blocks(weights, (e * OUT + o) * C + c, more, OUTPUTS, ROWS, C, NUMBER)
        ys = _add_products(ys, w_now, x_now, len(x_now), 1)
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
    """Return the rows c of ∂x with what the rows o of ∂y add; write ∂W of both."""
    for_weight, grad, y, weight = product
    source, reverse, begin, end, block = edges
    k, first = begin, begin < end
    i, e = tl.load(source + k, mask=first, other=0), tl.load(reverse + k, mask=first, other=0)
    at = (i * OUT + o) * R + r
    ahead = _load_slopes(grad + at, y + at, R, inside & first, ROWS, RELU, NUMBER)
    for _ in range(tl.max(end - begin, axis=0)):
        gs, w, there = ahead, (e * OUT + o) * C + c, k < end  # the edge e goes from j to i
        k += 1
        i = tl.load(source + k, mask=k < end, other=0)
        e = tl.load(reverse + k, mask=k < end, other=0)
        at = (i * OUT + o) * R + r
        ahead = _load_slopes(grad + at, y + at, R, inside & (k < end), ROWS, RELU, NUMBER)
        if STATE:
            ws = _load_blocks((weight,), w, there, ROWS, len(ds), C, NUMBER)
            ds = _add_products(ds, ws, gs, 1, len(ds))  # of the block turned over
        if WEIGHT:
            _store_inner(for_weight + block + w, gs, xs, C)
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
        (g,) = _load_slopes(grad + at + o * R, y + at + o * R, R, inside, 1, RELU, NUMBER)
        tl.store(place + o, tl.sum(g, axis=0, keep_dims=True))


@triton.jit
def _take_location(order, starts):
    """Return this program's location, and where its edges begin and end.

    As tensors of one number: Triton's interpreter joins no scalar with a mask.
    """
    i = tl.load(order + tl.program_id(0) + tl.arange(0, 1))
    return i, tl.load(starts + i), tl.load(starts + i + 1)


@triton.jit
def _load_slopes(grad, y, R, mask, ROWS: tl.constexpr, RELU: tl.constexpr, NUMBER: tl.constexpr):
    """Return the gradients before max(·, 0), if there was one; a NaN lets its own through."""
    gs = _load_rows(grad, R, mask, ROWS, NUMBER)
    if RELU:
        ys = _load_rows(y, R, mask, ROWS, NUMBER)
        cut = ()
        for k in tl.static_range(ROWS):
            cut = cut + (tl.where(ys[k] <= 0, 0.0, gs[k]),)
        gs = cut
    return gs


@triton.jit
def _cut(ys):
    """Return max(·, 0); a NaN stays a NaN."""
    cut = ()
    for k in tl.static_range(len(ys)):
        cut = cut + (tl.where(ys[k] < 0, 0.0, ys[k]),)
    return cut


@triton.jit
def _repeat(zeros, ROWS: tl.constexpr):
    rows = ()
    for _ in tl.static_range(ROWS):
        rows = rows + (zeros,)
    return rows


@triton.jit
def _load_blocks(
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
def _add_products(ys, ws, xs, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    """Return the rows with W xs added; w_kc is number k·DOWN + c·ACROSS of ws."""
    sums = ()
    for k in tl.static_range(len(ys)):
        y = ys[k]
        for c in tl.static_range(len(xs)):
            y += ws[k * DOWN + c * ACROSS] * xs[c]
        sums = sums + (y,)
    return sums


@triton.jit
def _add_numbers(ys, place, NUMBER: tl.constexpr):
    """Return the rows with a number of each added."""
    sums = ()
    for k in tl.static_range(len(ys)):
        sums = sums + (ys[k] + tl.load(place + k).to(NUMBER),)
    return sums


@triton.jit
def _load_rows(place, step, mask, ROWS: tl.constexpr, NUMBER: tl.constexpr):
    rows = ()
    for k in tl.static_range(ROWS):
        rows = rows + (tl.load(place + k * step, mask=mask, other=0.0).to(NUMBER),)
    return rows


@triton.jit
def _store_rows(outputs, at, ys, step, mask):
    """Write an equal share of the rows to each output."""
    ROWS: tl.constexpr = len(ys) // len(outputs)
    for k in tl.static_range(len(ys)):
        place = outputs[k // ROWS] + at + (k % ROWS) * step
        tl.store(place, ys[k].to(place.dtype.element_ty), mask=mask)


@triton.jit
def _store_inner(place, gs, xs, C: tl.constexpr):
    """Write the inner products of all rows of g and x."""
    for o in tl.static_range(len(gs)):
        for c in tl.static_range(len(xs)):
            tl.store(place + o * C + c, tl.sum(gs[o] * xs[c], axis=0, keep_dims=True))
