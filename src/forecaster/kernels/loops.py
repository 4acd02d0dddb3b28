"""The compiled loops of the CPU backend, each over a range of targets, for use by threads.

The innermost sums stay in registers: four rows by one line of columns. Incomplete groups of rows
and the last line are computed again together with their neighbours, with identical results.

numba vectorises only simple loops, not sums that live across loops. Hence the second half of this
file: a vector type for a line of numbers, and its instructions. (They are in one file because
numba recompiles a loop only when its own file has changed.)
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, register_model

from forecaster.compiled import compiled

LINE = 64  # bytes of a cache line
_AHEAD = 4 * LINE  # bytes to prefetch: about the latency of memory
_ALIGNED = 4  # bytes: a line may begin at any element
_ROUND_ONCE = ("contract",)  # fused multiply-add, where the machine has it
_INDEX = ir.IntType(32)

Edges = tuple[Int64[np.ndarray, " E"], Int64[np.ndarray, " bounds"]]  # sources, starts
Instructions = tuple[Any, Callable[..., Any]]  # signature and code generator


@compiled(frozenset(_ROUND_ONCE))
def sum_blocks(  # noqa: PLR0913, PLR0917 (compiled code takes plain arrays)
    y: Float[np.ndarray, "N O R"],
    weight: Float[np.ndarray, "E O C"],
    state: Float[np.ndarray, "N C R"],
    bias: Float[np.ndarray, "N O"],
    relu: bool,
    edges: Edges,
    targets: tuple[int, int],
) -> None:
    """Set y_i = Σ_j W_ij x_j + b_i, with an optional ReLU; R fills at least one line."""
    source, starts = edges
    outputs, C, R = weight.shape[1], weight.shape[2], state.shape[2]
    width, ahead = LINE // state.itemsize, _AHEAD // state.itemsize
    x, rows = state.reshape(-1), y.reshape(-1)
    for i in range(targets[0], targets[1]):
        for o in range(0, outputs, 4):
            o1, o2, o3 = min(o + 1, outputs - 1), min(o + 2, outputs - 1), min(o + 3, outputs - 1)
            for begin in range(0, R, width):
                r = min(begin, R - width)
                y0, y1 = spread(bias[i, o]), spread(bias[i, o1])
                y2, y3 = spread(bias[i, o2]), spread(bias[i, o3])
                for e in range(starts[i], starts[i + 1]):
                    for c in range(C):
                        at = (source[e] * C + c) * R + r
                        prefetch(address(x, at + ahead))
                        x_j = load(address(x, at))
                        y0 = add_product(y0, weight[e, o, c], x_j)
                        y1 = add_product(y1, weight[e, o1, c], x_j)
                        y2 = add_product(y2, weight[e, o2, c], x_j)
                        y3 = add_product(y3, weight[e, o3, c], x_j)
                if relu:
                    y0, y1, y2, y3 = cut(y0), cut(y1), cut(y2), cut(y3)
                store(address(rows, (i * outputs + o) * R + r), y0)
                store(address(rows, (i * outputs + o1) * R + r), y1)
                store(address(rows, (i * outputs + o2) * R + r), y2)
                store(address(rows, (i * outputs + o3) * R + r), y3)


@compiled(frozenset(_ROUND_ONCE))
def multiply_edges(
    blocks: Float[np.ndarray, "E O C"],
    grad: Float[np.ndarray, "N O R"],
    state: Float[np.ndarray, "N C R"],
    edges: Edges,
    targets: tuple[int, int],
) -> None:
    """Set the block of every edge j → i to ∂y_i x_jᵀ."""
    source, starts = edges
    outputs, C, R = blocks.shape[1], blocks.shape[2], state.shape[2]
    width = LINE // state.itemsize
    lines = R - R % width
    x, g = state.reshape(-1), grad.reshape(-1)
    for i in range(targets[0], targets[1]):
        for e in range(starts[i], starts[i + 1]):
            for c in range(0, C, 4):
                c1, c2, c3 = min(c + 1, C - 1), min(c + 2, C - 1), min(c + 3, C - 1)
                j = source[e] * C
                at0, at1, at2, at3 = (j + c) * R, (j + c1) * R, (j + c2) * R, (j + c3) * R
                for o in range(outputs):
                    at = (i * outputs + o) * R
                    s0 = s1 = s2 = s3 = spread(state.dtype.type(0))
                    for r in range(0, lines, width):
                        g_i = load(address(g, at + r))
                        s0 = add_product(s0, g_i, load(address(x, at0 + r)))
                        s1 = add_product(s1, g_i, load(address(x, at1 + r)))
                        s2 = add_product(s2, g_i, load(address(x, at2 + r)))
                        s3 = add_product(s3, g_i, load(address(x, at3 + r)))
                    t0, t1, t2, t3 = total(s0), total(s1), total(s2), total(s3)
                    for r in range(lines, R):
                        t0 += g[at + r] * x[at0 + r]
                        t1 += g[at + r] * x[at1 + r]
                        t2 += g[at + r] * x[at2 + r]
                        t3 += g[at + r] * x[at3 + r]
                    blocks[e, o, c], blocks[e, o, c1] = t0, t1
                    blocks[e, o, c2], blocks[e, o, c3] = t2, t3


# ------------------------------------------------------------------ a line and its instructions


def _inlined(function: Callable[..., Instructions]) -> Callable[..., Any]:
    """Make a code generator callable from compiled code, without its first argument."""
    return intrinsic(function)


class Lanes(types.Type):
    """The compiler's type of a line of numbers."""

    def __init__(self, number: Any) -> None:
        self.number = number
        super().__init__(name=f"Lanes({number})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        kind = ir.FloatType() if lanes.number == types.float32 else ir.DoubleType()
        super().__init__(manager, lanes, _vector(kind))  # type: ignore[no-untyped-call]


@_inlined
def address(_: Any, array: Any, at: Any) -> Instructions:
    """Return the address of element `at` of a one-dimensional array, without a bounds check."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.gep(data, [args[1]])

    pointer = types.CPointer(array.dtype)  # type: ignore[no-untyped-call]
    return pointer(array, at), build


@_inlined
def load(_: Any, place: Any) -> Instructions:
    """Return the line that begins at an address."""

    def write(builder: Any, place: Any) -> Any:
        return builder.load(_line_at(builder, place), align=_ALIGNED)

    return _writes(Lanes(place.dtype)(place), write)


@_inlined
def store(_: Any, place: Any, lanes: Any) -> Instructions:
    """Write a line that begins at an address."""

    def write(builder: Any, place: Any, lanes: Any) -> None:
        builder.store(lanes, _line_at(builder, place), align=_ALIGNED)

    return _writes(types.none(place, lanes), write)


@_inlined
def prefetch(_: Any, place: Any) -> Instructions:
    """Prefetch the memory at an address, which may be invalid."""

    def write(builder: Any, place: Any) -> None:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INDEX, _INDEX, _INDEX])
        ask = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        to_read, keep, data = _INDEX(0), _INDEX(3), _INDEX(1)
        builder.call(ask, [builder.bitcast(place, byte), to_read, keep, data])

    return _writes(types.none(place), write)


@_inlined
def spread(_: Any, number: Any) -> Instructions:
    """Return a line of copies of one number."""
    return _writes(Lanes(number)(number), _copies)


@_inlined
def add_product(_: Any, lanes: Any, factor: Any, values: Any) -> Instructions:
    """Return lanes + factor · values; the factor is a line or one number."""

    def write(builder: Any, lanes: Any, factor: Any, values: Any) -> Any:
        factors = factor if factor.type == values.type else _copies(builder, factor)
        product = builder.fmul(factors, values, flags=_ROUND_ONCE)
        return builder.fadd(lanes, product, flags=_ROUND_ONCE)

    return _writes(lanes(lanes, factor, values), write)


@_inlined
def cut(_: Any, lanes: Any) -> Instructions:
    """Return max(·, 0) of each number; a NaN stays a NaN."""

    def write(builder: Any, lanes: Any) -> Any:
        zero = ir.Constant(lanes.type, [0.0] * lanes.type.count)
        return builder.select(builder.fcmp_ordered("<", lanes, zero), zero, lanes)

    return _writes(lanes(lanes), write)


@_inlined
def total(_: Any, lanes: Any) -> Instructions:
    """Return the sum of the numbers of a line, in a fixed order."""

    def write(builder: Any, lanes: Any) -> Any:
        parts = [builder.extract_element(lanes, _INDEX(k)) for k in range(lanes.type.count)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[k], parts[half + k]) for k in range(half)]
        return parts[0]

    return _writes(lanes.number(lanes), write)


def _writes(signature: Any, write: Callable[..., Any]) -> Instructions:
    def build(context: Any, builder: Any, _: Any, args: Any) -> Any:
        result = write(builder, *args)
        return context.get_dummy_value() if result is None else result

    return signature, build


def _vector(kind: Any) -> Any:
    size = 4 if kind == ir.FloatType() else 8
    return ir.VectorType(kind, LINE // size)


def _line_at(builder: Any, place: Any) -> Any:
    return builder.bitcast(place, _vector(place.type.pointee).as_pointer())


def _copies(builder: Any, number: Any) -> Any:
    vector = _vector(number.type)
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, number, _INDEX(0))
    places = ir.Constant(ir.VectorType(_INDEX, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, places)
