"""The compiled loops of the lagged regressions, from covariances alone.

A term is a series j and a lag l, as the code (l − 1)·P + j. With the covariance K of the terms and
c of the terms with the target, a regression is
    β = argmin ½ βᵀ K β − cᵀ β + Σ_a λ_a |β_a|,
where λ_a is 0 for the location's own past and the factors of the city, and λ for others' past.
Only terms in use are updated: a regression of k terms costs k² a pass, and k·P·D to look for more.
"""

import math

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.compiled import compiled

Lags = Float32[np.ndarray, "D1 P P"]
Covariances = tuple[Lags, Lags, int]  # Γ_d, Γ_dᵀ, and N: series from there on are factors
Codes = Int64[np.ndarray, " most"]
Vector = Float64[np.ndarray, " most"]
Terms = tuple[Codes, Vector, int]  # codes and coefficients, and how many of them count
Matrix = Float64[np.ndarray, "k k"]

_FAST = frozenset({"contract", "reassoc", "nsz", "arcp"})
_PASSES = 50  # over the terms of a regression, before a jump
_JUMPS = 50  # of a regression, at most
_ROUNDS = 100  # of adding terms to a regression, at most
_SLACK = 1e-3  # of the penalty: a step of a coefficient that is none
_SMALLEST = 1e-12  # variance that is more than rounding
_RIDGE = 1e-6  # of a variance: free terms may be collinear
FULL = -1  # a regression with more terms than there is room for


@compiled(_FAST)
def count_free(covariances: Covariances) -> int:
    """The number of free terms, the first ones: the lags of the location and of each factor."""
    lags, _, N = covariances
    return int((len(lags) - 1) * (lags.shape[1] - N + 1))


@compiled(_FAST)
def descend(covariances: Covariances, target: int, penalty: float, terms: Terms) -> int:
    """Solve one regression from its present terms on; return how many terms it has then, or FULL.

    Args:
        covariances: of all series.
        target: the location.
        penalty: λ.
        terms: changed in place.
    """
    (lags, _, N), (codes, beta, count) = covariances, terms
    P, free = lags.shape[1], count_free(covariances)
    slope = np.empty((len(lags) - 1) * P)
    K, c = np.zeros((len(codes), len(codes))), np.zeros(len(codes))
    filled, count = 0, _drop_unused(terms, free)
    for _ in range(_ROUNDS):
        _fill(lags, target, (codes, beta, count), filled, K, c)
        _minimise(K, c, free, penalty, beta[:count])
        _find_slope(covariances, target, (codes, beta, count), slope)
        slope[codes[:count]] = 0.0
        for term in range(len(slope)):
            if term % P >= N or abs(slope[term]) <= penalty:
                slope[term] = 0.0
        wanted = np.count_nonzero(slope)
        if wanted == 0:
            return count
        filled = count
        if count + wanted > len(codes):
            filled, count = 0, _drop_unused((codes, beta, count), free)
        if count == len(codes):
            return FULL
        count = _add_steepest(slope, wanted, (codes, beta, count))
    return FULL


@compiled(_FAST)
def refit(covariances: Covariances, target: int, least: float, terms: Terms) -> int:
    """Fit the terms in use without a penalty, and leave out those that chance could explain.

    The weaker half of those goes at a time, since the rest is fitted better without them.

    Args:
        covariances: of all series.
        target: the location.
        least: the smallest |t| / √M of a term that stays.
        terms: changed in place.

    Returns:
        How many terms stay.
    """
    (lags, _, _), (codes, beta, count) = covariances, terms
    free, ratios = count_free(covariances), np.empty(len(codes))
    K, c = np.zeros((len(codes), len(codes))), np.zeros(len(codes))
    while True:
        _fill(lags, target, (codes, beta, count), 0, K, c)
        inverse = _invert(K[:count, :count])
        beta[:count] = _multiply(inverse, c[:count])
        unexplained = max(lags[0, target, target] - _dot(beta[:count], c[:count]), _SMALLEST)
        for a in range(free, count):
            ratios[a] = abs(beta[a]) / math.sqrt(unexplained * inverse[a, a])
        candidates = ratios[free:count]
        weak = candidates[candidates < least]
        if len(weak) == 0:
            return count
        cut, kept = np.median(weak), free
        for a in range(free, count):
            if ratios[a] > cut:
                codes[kept] = codes[a]
                kept += 1
        count = kept


@compiled(_FAST)
def certify(covariances: Covariances, target: int, penalty: float, terms: Terms) -> float:
    """The duality gap of a regression, as a share of the target's variance.

    The free terms are made exact first, so that the residual times s = min(1, λ / max |slope|) is
    feasible in the dual: max ½ (‖y‖² − ‖y − θ‖²) over |X_aᵀ θ| ≤ λ_a.
    """
    (lags, _, _), (codes, beta, count) = covariances, terms
    free, b = count_free(covariances), beta[:count].copy()
    K, c = np.zeros((count, count)), np.zeros(count)
    _fill(lags, target, terms, 0, K, c)
    inverse = _invert(K[:free, :free])
    for _ in range(2):  # the second time for the ridge
        gradient = c - _multiply(K, b)
        b[:free] += _multiply(inverse, gradient[:free])
    s = penalty / max(steepest_slope(covariances, target, (codes, b, count)), penalty)
    variance = max(lags[0, target, target], _SMALLEST)
    explained = _dot(b, c)
    unexplained = variance - 2.0 * explained + _dot(b, _multiply(K, b))  # of the residual
    primal = 0.5 * unexplained + penalty * np.abs(b[free:]).sum()
    dual = s * (variance - explained) - 0.5 * s * s * unexplained
    return float((primal - dual) / variance)


@compiled(_FAST)
def steepest_slope(covariances: Covariances, target: int, terms: Terms) -> float:
    """The largest |slope| of others' past: the penalty from which on no further term is used."""
    lags, _, N = covariances
    P, steepest = lags.shape[1], 0.0
    slope = np.empty((len(lags) - 1) * P)
    _find_slope(covariances, target, terms, slope)
    for term in range(len(slope)):
        if term % P < N and term % P != target:
            steepest = max(steepest, abs(slope[term]))
    return steepest


@compiled(_FAST)
def sum_errors(  # noqa: PLR0913, PLR0917 (numba takes no objects)
    series: Float32[np.ndarray, "P T"],
    observed: Bool[np.ndarray, " T"],
    blocks: Int64[np.ndarray, " T"],
    target: int,
    terms: Terms,
    runs: Int64[np.ndarray, "S 2"],
    squares: Float64[np.ndarray, " blocks"],
) -> None:
    """Add the squared errors of a regression at observed steps to those of the steps' blocks.

    Args:
        series: the deviations of all locations, and the factors.
        observed: whether the target is.
        blocks: to which each step belongs.
        target: the location.
        terms: of its regression.
        runs: of neighbouring steps; the first of each, without a past in it, are left out.
        squares: the sums, by block.
    """
    codes, beta, count = terms
    P, D = len(series), codes[:count].max() // len(series) + 1
    for s in range(len(runs)):
        first, stop = runs[s, 0] + D, runs[s, 1]
        if first >= stop:
            continue
        error = series[target, first:stop].copy()
        for a in range(count):
            lag, weight = codes[a] // P + 1, np.float32(beta[a])
            past = series[codes[a] % P, first - lag : stop - lag]
            for t in range(len(error)):
                error[t] -= weight * past[t]
        for t in range(len(error)):
            if observed[first + t]:
                squares[blocks[first + t]] += error[t] * error[t]


@compiled(_FAST)
def _fill(lags: Lags, target: int, terms: Terms, begin: int, K: Matrix, c: Vector) -> None:
    """Write the covariances of the terms from `begin` on, with all and with the target."""
    (codes, _, count), P = terms, lags.shape[1]
    for a in range(begin, count):
        lag, j = codes[a] // P + 1, codes[a] % P
        c[a] = lags[lag, target, j]
        for b in range(a + 1):
            other_lag, i = codes[b] // P + 1, codes[b] % P
            if lag >= other_lag:
                covariance = lags[lag - other_lag, i, j]
            else:
                covariance = lags[other_lag - lag, j, i]
            K[a, b] = K[b, a] = covariance


@compiled(_FAST)
def _drop_unused(terms: Terms, free: int) -> int:
    """Leave out others' terms of coefficient 0; return how many terms stay."""
    codes, beta, count = terms
    kept = free
    for a in range(free, count):
        if beta[a] != 0.0:
            codes[kept], beta[kept] = codes[a], beta[a]
            kept += 1
    beta[kept:count] = 0.0
    return kept


@compiled(_FAST)
def _add_steepest(slope: Float64[np.ndarray, " all"], wanted: int, terms: Terms) -> int:
    """Add the wanted terms, those of slope ≠ 0; of too many, as fill half of the room.

    Most of many will not be needed beside the steepest.
    """
    codes, beta, count = terms
    room, least = len(codes) - count, 0.0
    if wanted > room:
        least = np.sort(np.abs(slope))[len(slope) - (room + 1) // 2]
    for term in range(len(slope)):
        if slope[term] != 0.0 and abs(slope[term]) >= least and count < len(codes):
            codes[count], beta[count] = term, 0.0
            count += 1
    return count


@compiled(_FAST)
def _minimise(K: Matrix, c: Vector, free: int, penalty: float, beta: Vector) -> None:
    """Minimise over the given terms, β in place."""
    for _ in range(_JUMPS):
        if _pass_over(K, c, free, penalty, beta):
            return
        _jump(K, c, free, penalty, beta)


@compiled(_FAST)
def _pass_over(K: Matrix, c: Vector, free: int, penalty: float, beta: Vector) -> bool:
    """Minimise over one term after the other; return whether none changes any more."""
    count = len(beta)
    slope = c[:count] - _multiply(K[:count, :count], beta)
    for _ in range(_PASSES):
        largest = 0.0
        for a in range(count):
            curvature = K[a, a]
            if curvature <= 0.0:  # a location that never deviates
                continue
            limit = 0.0 if a < free else penalty
            pull = slope[a] + curvature * beta[a]
            step = math.copysign(max(abs(pull) - limit, 0.0), pull) / curvature - beta[a]
            if step != 0.0:
                beta[a] += step
                for b in range(count):
                    slope[b] -= step * K[a, b]
                largest = max(largest, abs(step) * curvature)
        if largest <= _SLACK * penalty:
            return True
    return False


@compiled(_FAST)
def _jump(K: Matrix, c: Vector, free: int, penalty: float, beta: Vector) -> None:
    """Go to the minimum over all β ≠ 0 with fixed signs, or to the first change of sign.

    Nearly collinear terms converge slowly one by one; this step is exact but for the ridge.
    """
    live = np.flatnonzero(beta)
    curvature, step = np.empty((len(live), len(live))), np.empty(len(live))
    for a in range(len(live)):
        row = K[live[a]]
        step[a] = c[live[a]] - _dot(row[: len(beta)], beta)
        if live[a] >= free:
            step[a] -= math.copysign(penalty, beta[live[a]])
        for b in range(len(live)):
            curvature[a, b] = row[live[b]]
    _substitute(_factorise(curvature), 0, step)
    share, first = 1.0, -1
    for a in range(len(live)):
        current = beta[live[a]]
        if live[a] >= free and (current + step[a]) * current < 0.0 and -current / step[a] < share:
            share, first = -current / step[a], live[a]
    for a in range(len(live)):
        beta[live[a]] += share * step[a]
    if first >= 0:
        beta[first] = 0.0


@compiled(_FAST)
def _find_slope(
    covariances: Covariances, target: int, terms: Terms, slope: Float64[np.ndarray, " all"]
) -> None:
    """Write c_a − K_a β of every possible term."""
    (lags, turned, _), (codes, beta, count) = covariances, terms
    P = lags.shape[1]
    for back in range(1, len(lags)):
        part, own = slope[(back - 1) * P : back * P], lags[back, target]
        for j in range(P):
            part[j] = own[j]
        for a in range(count):
            weight = beta[a]
            if weight == 0.0:
                continue
            lag, i = codes[a] // P + 1, codes[a] % P
            row = turned[lag - back, i] if lag >= back else lags[back - lag, i]
            for j in range(P):
                part[j] -= weight * row[j]


@compiled(_FAST)
def _invert(A: Matrix) -> Matrix:
    """The inverse of a covariance with a small ridge."""
    k, L = len(A), _factorise(A)
    inverse, x = np.zeros((k, k)), np.zeros(k)
    for column in range(k):
        x[column:] = 0.0
        x[column] = 1.0
        _substitute(L, column, x)
        for i in range(column, k):
            inverse[i, column] = inverse[column, i] = x[i]
    return inverse


@compiled(_FAST)
def _factorise(A: Matrix) -> Matrix:
    """The Cholesky factor L of a covariance with a small ridge."""
    L = np.zeros((len(A), len(A)))
    for i in range(len(A)):
        for j in range(i):
            L[i, j] = (A[i, j] - _dot(L[i, :j], L[j, :j])) / L[j, j]
        pivot = A[i, i] * (1.0 + _RIDGE) - _dot(L[i, :i], L[i, :i])
        L[i, i] = math.sqrt(max(pivot, _SMALLEST))
    return L


@compiled(_FAST)
def _substitute(L: Matrix, first: int, x: Vector) -> None:
    """Solve L Lᵀ z = x in place, for z from `first` on; x is 0 before it."""
    for i in range(first, len(x)):
        x[i] = (x[i] - _dot(L[i, first:i], x[first:i])) / L[i, i]
    for i in range(len(x) - 1, first - 1, -1):
        x[i] /= L[i, i]
        for j in range(first, i):
            x[j] -= L[i, j] * x[i]


@compiled(_FAST)
def _multiply(A: Matrix, x: Vector) -> Vector:
    y = np.empty(len(A))
    for i in range(len(A)):
        y[i] = _dot(A[i], x)
    return y


@compiled(_FAST)
def _dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total
