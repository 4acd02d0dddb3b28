"""The compiled loops of the lagged regressions, from covariances alone.

A term is a series j and a lag l, as the code (l − 1)·P + j. With the covariance K of the terms and
c of the terms with the target, a regression is
    β = argmin ½ βᵀ K β − cᵀ β + Σ_a λ_a |β_a|,
where λ_a is 0 for the location's own past and the factors of the city, and λ for others' past.
Only terms in use are updated: a regression of k terms costs k² a pass, and k·P·D to look for more.
"""

import math

import numpy as np
from jaxtyping import Float32, Float64, Int64

from forecaster.compiled import compiled

Lags = Float32[np.ndarray, "D1 P P"]
Codes = Int64[np.ndarray, " most"]
Vector = Float64[np.ndarray, " most"]

_FAST = frozenset({"contract", "reassoc", "nsz", "arcp"})
_PASSES = 1_000  # over the terms of a regression
_TOLERANCE = 1e-9  # of a coefficient's effect on the variance
_SMALLEST = 1e-12  # variance that is more than rounding
_RIDGE = 1e-6  # of a variance: free terms may be collinear
FULL = -1  # a regression with more terms than there is room for


@compiled(_FAST)
def descend(
    lags: Lags,
    turned: Lags,
    target: int,
    N: int,
    penalty: float,
    codes: Codes,
    beta: Vector,
    count: int,
) -> int:
    """Solve one regression from its present terms on; return how many terms it has then, or FULL.

    Args:
        lags: Γ_d.
        turned: Γ_dᵀ.
        target: the location.
        N: the number of locations; the other series are factors.
        penalty: λ of the others.
        codes: the terms.
        beta: their coefficients; changed in place.
        count: the number of terms.
    """
    D, P, free = len(lags) - 1, lags.shape[1], count_free(lags, N)
    taken = np.zeros(D * P, np.bool_)
    K, c = np.zeros((len(codes), len(codes))), np.zeros(len(codes))
    slope, filled = np.empty(D * P), 0
    for a in range(count):
        taken[codes[a]] = True
    while True:
        _fill(lags, target, codes, filled, count, K, c)
        filled = count
        _pass_over(K, c, free, penalty, beta, count)
        _find_slope(lags, turned, target, codes, beta, count, slope)
        for term in range(D * P):
            if taken[term] or term % P >= N or abs(slope[term]) <= penalty:
                continue
            if count == len(codes):
                return FULL
            taken[term] = True
            codes[count], beta[count] = term, 0.0
            count += 1
        if count == filled:
            return count


@compiled(_FAST)
def count_free(lags: Lags, N: int) -> int:
    """The number of free terms, the first ones: the lags of the location and of each factor."""
    return (len(lags) - 1) * (lags.shape[1] - N + 1)


@compiled(_FAST)
def refit(
    lags: Lags, target: int, N: int, least: float, codes: Codes, beta: Vector, count: int
) -> int:
    """Fit the terms in use without a penalty, and leave out those that chance could explain.

    Args:
        lags: Γ_d.
        target: the location.
        N: the number of locations; the other series are factors.
        least: the smallest |t| / √M of a term that stays; the weaker half of the others goes at a
            time, since the rest is fitted better without them.
        codes: the terms; changed in place.
        beta: their coefficients; changed in place.
        count: the number of terms.

    Returns:
        How many terms stay.
    """
    free, ratios = count_free(lags, N), np.empty(len(codes))
    K, c = np.zeros((len(codes), len(codes))), np.zeros(len(codes))
    while True:
        _fill(lags, target, codes, 0, count, K, c)
        inverse = _invert(K[:count, :count])
        explained = 0.0
        for a in range(count):
            beta[a] = 0.0
            for b in range(count):
                beta[a] += inverse[a, b] * c[b]
            explained += beta[a] * c[a]
        left = max(lags[0, target, target] - explained, _SMALLEST)
        weak = 0
        for a in range(free, count):
            ratio = abs(beta[a]) / math.sqrt(left * inverse[a, a])
            if ratio < least:
                ratios[weak] = ratio
                weak += 1
        if weak == 0:
            return count
        cut, kept = np.median(ratios[:weak]), free
        for a in range(free, count):
            if abs(beta[a]) / math.sqrt(left * inverse[a, a]) > cut:
                codes[kept] = codes[a]
                kept += 1
        count = kept


@compiled(_FAST)
def certify(
    lags: Lags,
    turned: Lags,
    target: int,
    N: int,
    penalty: float,
    codes: Codes,
    beta: Vector,
    count: int,
) -> float:
    """The duality gap of a regression, as a share of the target's variance.

    The free terms are made exact first, so that the residual times s = min(1, λ / max |slope|) is
    feasible in the dual: max ½ (‖y‖² − ‖y − θ‖²) over |X_aᵀ θ| ≤ λ_a.
    """
    free = count_free(lags, N)
    K, c = np.zeros((count, count)), np.zeros(count)
    _fill(lags, target, codes, 0, count, K, c)
    b = beta[:count].copy()
    inverse = _invert(K[:free, :free])
    for _ in range(2):  # the second time for the ridge
        g = c[:free] - K[:free] @ b
        b[:free] += inverse @ g
    steepest = max(steepest_slope(lags, turned, target, N, codes, b, count), penalty)
    variance, size = float(lags[0, target, target]), 0.0
    for a in range(free, count):
        size += abs(b[a])
    explained, curvature = 0.0, 0.0
    for a in range(count):
        explained += b[a] * c[a]
        for other in range(count):
            curvature += b[a] * K[a, other] * b[other]
    left = variance - 2.0 * explained + curvature  # of the residual
    s = penalty / steepest
    primal = 0.5 * left + penalty * size
    dual = s * (variance - explained) - 0.5 * s * s * left
    return (primal - dual) / max(variance, _SMALLEST)


@compiled(_FAST)
def steepest_slope(
    lags: Lags, turned: Lags, target: int, N: int, codes: Codes, beta: Vector, count: int
) -> float:
    """The largest |slope| of others' past: the penalty from which on no further term is used."""
    P, steepest = lags.shape[1], 0.0
    slope = np.empty((len(lags) - 1) * P)
    _find_slope(lags, turned, target, codes, beta, count, slope)
    for term in range(len(slope)):
        if term % P < N and term % P != target:
            steepest = max(steepest, abs(slope[term]))
    return steepest


@compiled(_FAST)
def sum_errors(
    series: Float32[np.ndarray, "P T"],
    observed: np.ndarray,
    target: int,
    codes: Codes,
    beta: Vector,
    count: int,
    segments: Int64[np.ndarray, "S 3"],
    squares: Float64[np.ndarray, " blocks"],
) -> None:
    """Add the squared errors of a regression at observed steps to those of the steps' blocks.

    Args:
        series: the deviations of all locations, and the factors.
        observed: of the target.
        target: the location.
        codes: the terms.
        beta: their coefficients.
        count: the number of terms.
        segments: start, stop and block; the first D steps have no past of their own.
        squares: the sums, by block.
    """
    P, D = len(series), 0
    for a in range(count):
        D = max(D, codes[a] // P + 1)
    for s in range(len(segments)):
        start, stop, block = segments[s]
        first = start + D
        if first >= stop:
            continue
        error = series[target, first:stop].copy()
        for a in range(count):
            lag, weight = codes[a] // P + 1, np.float32(beta[a])
            past = series[codes[a] % P, first - lag : stop - lag]
            for t in range(len(error)):
                error[t] -= weight * past[t]
        total = 0.0
        for t in range(len(error)):
            if observed[first + t]:
                total += error[t] * error[t]
        squares[block] += total


@compiled(_FAST)
def _fill(
    lags: Lags,
    target: int,
    codes: Codes,
    begin: int,
    count: int,
    K: Float64[np.ndarray, "k k"],
    c: Vector,
) -> None:
    """Write the covariances of the terms from `begin` on, with all and with the target."""
    P = lags.shape[1]
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
def _pass_over(
    K: Float64[np.ndarray, "k k"], c: Vector, free: int, penalty: float, beta: Vector, count: int
) -> None:
    """Minimise over one term after the other until none changes."""
    slope = np.empty(count)
    for a in range(count):
        slope[a] = c[a]
        for b in range(count):
            slope[a] -= K[a, b] * beta[b]
    for _ in range(_PASSES):
        largest = 0.0
        for a in range(count):
            curvature = K[a, a]
            if curvature <= 0.0:
                continue
            pull = slope[a] + curvature * beta[a]
            if a < free:
                value = pull / (curvature * (1.0 + _RIDGE))
            else:
                value = math.copysign(max(abs(pull) - penalty, 0.0), pull) / curvature
            step = value - beta[a]
            if step != 0.0:
                beta[a] = value
                for b in range(count):
                    slope[b] -= step * K[a, b]
                largest = max(largest, step * step * curvature)
        if largest < _TOLERANCE:
            return


@compiled(_FAST)
def _find_slope(
    lags: Lags,
    turned: Lags,
    target: int,
    codes: Codes,
    beta: Vector,
    count: int,
    slope: Float64[np.ndarray, " terms"],
) -> None:
    """Write c_a − K_a β of every possible term."""
    D, P = len(lags) - 1, lags.shape[1]
    for l in range(1, D + 1):
        part = slope[(l - 1) * P : l * P]
        own = lags[l, target]
        for j in range(P):
            part[j] = own[j]
        for a in range(count):
            weight = beta[a]
            if weight == 0.0:
                continue
            lag, i = codes[a] // P + 1, codes[a] % P
            row = turned[lag - l, i] if lag >= l else lags[l - lag, i]
            for j in range(P):
                part[j] -= weight * row[j]


@compiled(_FAST)
def _invert(A: Float64[np.ndarray, "k k"]) -> Float64[np.ndarray, "k k"]:
    """The inverse of a covariance with a small ridge, by its Cholesky factor."""
    k = len(A)
    L, inverse = np.zeros((k, k)), np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            remainder = A[i, j]
            if i == j:
                remainder += _RIDGE * max(A[i, i], _SMALLEST)
            for m in range(j):
                remainder -= L[i, m] * L[j, m]
            if i == j:
                L[i, i] = math.sqrt(max(remainder, _SMALLEST))
            else:
                L[i, j] = remainder / L[j, j]
    for column in range(k):  # L z = e, Lᵀ x = z
        z = np.zeros(k)
        for i in range(column, k):
            total = 1.0 if i == column else 0.0
            for m in range(column, i):
                total -= L[i, m] * z[m]
            z[i] = total / L[i, i]
        for i in range(k - 1, -1, -1):
            total = z[i]
            for m in range(i + 1, k):
                total -= L[m, i] * inverse[m, column]
            inverse[i, column] = total / L[i, i]
    return inverse
