"""The compiled loops over a location and its candidates.

Each runs without Python's lock, so that threads share the locations. Sums have a fixed order:
results do not depend on the number of threads.
"""

import math

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.compiled import compiled

Series = Float32[np.ndarray, "N T"]
Numbers = Int64[np.ndarray, " k"]
Vector = Float64[np.ndarray, " k"]
Matrix = Float64[np.ndarray, "k k"]

_FAST = frozenset({"contract", "reassoc", "nsz", "arcp"})
_CHUNK = 1_024  # steps of a few dozen locations fit into the cache of a core
_TOGETHER = 4  # products that share a series in the processor's registers
_LEAST_GAIN = 1.0 - 1e-9  # of those passes
_CHECKED = 5  # passes over a regression between two looks at its gap


@compiled(_FAST)
def products(series: Series, numbers: Numbers) -> Matrix:
    """Return the products of every two of some series."""
    k, T = len(numbers), series.shape[1]
    rows = -(-k // _TOGETHER) * _TOGETHER
    chunk, sums = np.zeros((rows, _CHUNK), np.float32), np.zeros((rows, rows))
    for first in range(0, T, _CHUNK):
        size = min(_CHUNK, T - first)
        for a in range(k):
            chunk[a, :size] = series[numbers[a], first : first + size]
        for a in range(k):
            x = chunk[a, :size]
            for b in range(0, a + 1, _TOGETHER):
                y0, y1 = chunk[b, :size], chunk[b + 1, :size]
                y2, y3 = chunk[b + 2, :size], chunk[b + 3, :size]
                s0 = s1 = s2 = s3 = np.float32(0)
                for t in range(size):
                    s0 += x[t] * y0[t]
                    s1 += x[t] * y1[t]
                    s2 += x[t] * y2[t]
                    s3 += x[t] * y3[t]
                sums[a, b] += s0
                sums[a, b + 1] += s1
                sums[a, b + 2] += s2
                sums[a, b + 3] += s3
    for a in range(k):
        for b in range(a):
            sums[b, a] = sums[a, b]
    return sums[:k, :k].copy()


@compiled(_FAST)
def products_with(series: Series, number: int, numbers: Numbers) -> Vector:
    """Return the products of one series with some others."""
    sums, x = np.empty(len(numbers)), series[number]
    for a in range(len(numbers)):
        y, total = series[numbers[a]], np.float32(0)
        for t in range(len(x)):
            total += x[t] * y[t]
        sums[a] = total
    return sums


@compiled(frozenset())
def strongest(similarity: Float32[np.ndarray, " N"], number: int, count: int) -> Numbers:
    """Return the numbers with the largest absolute similarity to a location, without itself."""
    indices, sizes = np.empty(count, np.int64), np.empty(count, np.float32)
    held, weakest = 0, 0
    for n in range(len(similarity)):
        size = abs(similarity[n])
        if n == number or not size > 0 or (held == count and size <= sizes[weakest]):
            continue
        place = weakest if held == count else held
        indices[place], sizes[place] = n, size
        held = min(held + 1, count)
        if held == count:
            weakest = int(np.argmin(sizes))
    return indices[:held]


@compiled(_FAST)
def regress(S: Matrix, penalty: float, ridge: float, tolerance: float, beta: Vector) -> float:
    """Regress the first variable on the others by the lasso, β in place; return the duality gap.

    β = argmin ½ − s₁₂ᵀ β + ½ βᵀ (S₁₁ + ρ1) β + λ Σ_i |β_i|.

    Args:
        S: correlations, of the location with itself first.
        penalty: λ.
        ridge: ρ, which is λ where the diagonal is penalised as in Eq. 4.
        tolerance: the gap at which to stop, as a share of a variance.
        beta: where to begin.
    """
    slope = S[0, 1:].copy()  # s₁₂ − (S₁₁ + ρ1) β
    for a in range(len(beta)):
        _move(S, ridge, slope, a, beta[a])
    gap = _gap(S[0, 1:], penalty, slope, beta)
    while gap > tolerance:
        for _ in range(_CHECKED):
            _pass(S, penalty, ridge, slope, beta)
        before, gap = gap, _gap(S[0, 1:], penalty, slope, beta)
        if not gap < before * _LEAST_GAIN:  # as exact as rounding lets it be
            break
    return gap


@compiled(_FAST)
def _pass(S: Matrix, penalty: float, ridge: float, slope: Vector, beta: Vector) -> None:
    """Minimise over one term after the other."""
    for a in range(len(beta)):
        curvature = S[1 + a, 1 + a] + ridge
        pull = slope[a] + curvature * beta[a]
        value = math.copysign(max(abs(pull) - penalty, 0.0), pull) / curvature
        _move(S, ridge, slope, a, value - beta[a])
        beta[a] = value


@compiled(_FAST)
def _move(S: Matrix, ridge: float, slope: Vector, term: int, step: float) -> None:
    """Follow a step of one coefficient."""
    if step != 0.0:
        for b in range(len(slope)):
            slope[b] -= step * S[1 + term, 1 + b]
        slope[term] -= step * ridge


@compiled(_FAST)
def _gap(target: Vector, penalty: float, slope: Vector, beta: Vector) -> float:
    """Return primal minus dual objective of a regression of a variable of variance 1."""
    fitted = left = size = steepest = 0.0
    for a in range(len(beta)):
        fitted += target[a] * beta[a]
        left += slope[a] * beta[a]
        size += abs(beta[a])
        steepest = max(steepest, abs(slope[a]))
    residual = max(1.0 - fitted - left, 0.0)  # ‖y − Xβ‖²
    along = 1.0 - fitted  # (y − Xβ)ᵀ y
    share = along / residual if residual > 0.0 else 1.0
    if steepest > 0.0:
        share = min(share, penalty / steepest)
    dual = share * along - 0.5 * share * share * residual
    return max(0.5 * residual + penalty * size - dual, 0.0)
