"""Triton programs for the layer norm of a sum: each processes ROWS neurons × COLUMNS steps.

Neurons are in two parts, those of the locations and the auxiliary ones; a block of rows lies in
one of them. The statistics of a step cover all rows: each block writes its part, and the parts are
summed in a fixed order.
"""
# Pointers and sizes, whose types Triton infers:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: PLR0913, PLR0917

import triton
import triton.language as tl


@triton.jit
def add_and_measure(
    s_signal,
    s_aux,
    x_signal,
    x_aux,
    y_signal,
    y_aux,
    measured,
    SIGNAL,
    AUX,
    R,
    NUMBER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Set s = x + y, and the mean of these rows and the sum of squared deviations from it."""
    x, y, s = x_signal, y_signal, s_signal
    if tl.program_id(0) * ROWS >= SIGNAL:
        x, y, s = x_aux, y_aux, s_aux
    at, valid, _, count = _place(SIGNAL, AUX, R, ROWS, COLUMNS)
    total = _load(x + at, valid, NUMBER) + _load(y + at, valid, NUMBER)
    stored = total.to(s.dtype.element_ty)
    tl.store(s + at, stored, mask=valid)
    total = stored.to(NUMBER)  # rounded as when read back
    mean = tl.sum(total, axis=0) / count
    away = tl.where(valid, total - mean[None, :], 0.0)
    _put_column(measured, mean, tl.sum(away * away, axis=0), R, COLUMNS)


@triton.jit
def join_measures(
    mean_out,
    scale_out,
    measured,
    blocks,
    SIGNAL,
    AUX,
    R,
    EPSILON: tl.constexpr,  # a run-time argument would be rounded to float32
    NUMBER: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Set the mean of all rows, and 1 / √(variance + ε), from those of each block of rows."""
    r = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), NUMBER)
    for first in range(0, blocks, BLOCKS):
        b = first + tl.arange(0, BLOCKS)
        at, valid = b[:, None] * 2 * R + r[None, :], (b < blocks)[:, None] & (r < R)[None, :]
        count = _count(b, SIGNAL, AUX, ROWS).to(NUMBER)
        total += tl.sum(tl.load(measured + at, mask=valid, other=0.0) * count[:, None], axis=0)
    mean = total / (SIGNAL + AUX)
    square = tl.zeros((COLUMNS,), NUMBER)
    for first in range(0, blocks, BLOCKS):
        b = first + tl.arange(0, BLOCKS)
        at, valid = b[:, None] * 2 * R + r[None, :], (b < blocks)[:, None] & (r < R)[None, :]
        count = _count(b, SIGNAL, AUX, ROWS).to(NUMBER)
        away = tl.load(measured + at, mask=valid, other=0.0) - mean[None, :]
        within = tl.load(measured + at + R, mask=valid, other=0.0)
        square += tl.sum(tl.where(valid, within + away * away * count[:, None], 0.0), axis=0)
    scale = 1.0 / tl.sqrt(square / (SIGNAL + AUX) + EPSILON)
    tl.store(mean_out + r, mean, mask=r < R)
    tl.store(scale_out + r, scale, mask=r < R)


@triton.jit
def apply_norm(
    z_signal,
    z_aux,
    s_signal,
    s_aux,
    mean,
    scale,
    gain,
    bias,
    SIGNAL,
    AUX,
    R,
    NUMBER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Set z = gain · (s − mean) · scale + bias."""
    s, z = s_signal, z_signal
    if tl.program_id(0) * ROWS >= SIGNAL:
        s, z = s_aux, z_aux
    at, valid, neuron, _ = _place(SIGNAL, AUX, R, ROWS, COLUMNS)
    normed = _norm(s + at, valid, mean, scale, R, NUMBER, COLUMNS)
    result = normed * _of_rows(gain, neuron, SIGNAL + AUX, NUMBER)
    result += _of_rows(bias, neuron, SIGNAL + AUX, NUMBER)
    tl.store(z + at, result.to(z.dtype.element_ty), mask=valid)


@triton.jit
def measure_slopes(
    by_column,
    by_row,
    g_signal,
    g_aux,
    s_signal,
    s_aux,
    mean,
    scale,
    gain,
    SIGNAL,
    AUX,
    R,
    NUMBER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Set these rows' part of Σ ∂n and Σ ∂n · n of a step: n normed, ∂n = gain · ∂z.

    Also these steps' part of the gradients of gain and bias: Σ ∂z · n and Σ ∂z of a neuron.
    """
    s, g = s_signal, g_signal
    if tl.program_id(0) * ROWS >= SIGNAL:
        s, g = s_aux, g_aux
    at, valid, neuron, _ = _place(SIGNAL, AUX, R, ROWS, COLUMNS)
    D = SIGNAL + AUX
    normed = _norm(s + at, valid, mean, scale, R, NUMBER, COLUMNS)
    slope = _load(g + at, valid, NUMBER)
    both = slope * normed
    share = by_row + tl.program_id(1) * 2 * D + neuron
    tl.store(share, tl.sum(both, axis=1), mask=neuron < D)
    tl.store(share + D, tl.sum(slope, axis=1), mask=neuron < D)
    factor = _of_rows(gain, neuron, D, NUMBER)
    _put_column(
        by_column, tl.sum(slope * factor, axis=0), tl.sum(both * factor, axis=0), R, COLUMNS
    )


@triton.jit
def apply_slopes(
    d_signal,
    d_aux,
    g_signal,
    g_aux,
    s_signal,
    s_aux,
    mean,
    scale,
    gain,
    summed,
    SIGNAL,
    AUX,
    R,
    NUMBER: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Set ∂s = (∂n − mean(∂n) − n · mean(∂n · n)) · scale."""
    s, g, d = s_signal, g_signal, d_signal
    if tl.program_id(0) * ROWS >= SIGNAL:
        s, g, d = s_aux, g_aux, d_aux
    at, valid, neuron, _ = _place(SIGNAL, AUX, R, ROWS, COLUMNS)
    D = SIGNAL + AUX
    normed = _norm(s + at, valid, mean, scale, R, NUMBER, COLUMNS)
    slope = _load(g + at, valid, NUMBER) * _of_rows(gain, neuron, D, NUMBER)
    slope -= _of_columns(summed, R, COLUMNS) / D
    slope -= normed * (_of_columns(summed + R, R, COLUMNS) / D)
    result = slope * _of_columns(scale, R, COLUMNS)
    tl.store(d + at, result.to(d.dtype.element_ty), mask=valid)


@triton.jit
def _place(SIGNAL, AUX, R, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the offsets of the tile in its part, its mask, its neurons and their number."""
    b = tl.program_id(0)
    r = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    blocks = tl.cdiv(SIGNAL, ROWS)
    row = tl.where(b < blocks, b, b - blocks) * ROWS + tl.arange(0, ROWS)
    inside = row < tl.where(b < blocks, SIGNAL, AUX)
    valid = inside[:, None] & (r < R)[None, :]
    neuron = tl.where(inside, tl.where(b < blocks, 0, SIGNAL) + row, SIGNAL + AUX)
    return row.to(tl.int64)[:, None] * R + r[None, :], valid, neuron, _count(b, SIGNAL, AUX, ROWS)


@triton.jit
def _count(b, SIGNAL, AUX, ROWS: tl.constexpr):
    """Return the number of neurons in a block of rows; 0 past the last."""
    blocks = tl.cdiv(SIGNAL, ROWS)
    remaining = tl.where(b < blocks, SIGNAL - b * ROWS, AUX - (b - blocks) * ROWS)
    return tl.maximum(tl.minimum(remaining, ROWS), 0)


@triton.jit
def _norm(s, valid, mean, scale, R, NUMBER: tl.constexpr, COLUMNS: tl.constexpr):
    """Return n = (s − mean) · scale, and 0 outside the mask."""
    away = _load(s, valid, NUMBER) - _of_columns(mean, R, COLUMNS)
    return tl.where(valid, away * _of_columns(scale, R, COLUMNS), 0.0)


@triton.jit
def _load(place, valid, NUMBER: tl.constexpr):
    return tl.load(place, mask=valid, other=0.0).to(NUMBER)


@triton.jit
def _of_rows(vector, neuron, D, NUMBER: tl.constexpr):
    """Return a number of each neuron, for all steps."""
    return tl.load(vector + neuron, mask=neuron < D, other=0.0).to(NUMBER)[:, None]


@triton.jit
def _of_columns(vector, R, COLUMNS: tl.constexpr):
    """Return a number of each step, for all neurons."""
    r = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    return tl.load(vector + r, mask=r < R, other=0.0)[None, :]


@triton.jit
def _put_column(place, first, second, R, COLUMNS: tl.constexpr):
    """Write two numbers of each step for this block of rows."""
    r = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    place += tl.program_id(0) * 2 * R + r
    tl.store(place, first, mask=r < R)
    tl.store(place + R, second, mask=r < R)
