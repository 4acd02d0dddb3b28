"""The compiled loops of the graphical lasso: each column of the covariance is a lasso regression.

Block coordinate descent on the dual (Friedman, Hastie & Tibshirani 2008). With column j set apart,
    β = argmin ½ βᵀ W₁₁ β − s₁₂ᵀ β + Σ_i λ_ij |β_i|,    w₁₂ = W₁₁ β.
Only the few β_i ≠ 0 are updated: a regression of k terms costs k·N + k² operations, not N².
BLAS is not used: its threads cost more than such small problems, and results must not depend on
their number.
"""

import math

import numpy as np
from jaxtyping import Bool, Float64, Int64

from forecaster.compiled import compiled

Vector = Float64[np.ndarray, " N"]
Matrix = Float64[np.ndarray, "N N"]
Terms = Int64[np.ndarray, " k"]
Limits = tuple[float, Vector]  # λ and a scale of each variable: λ_ij = λ · scale_i · scale_j

# Without the flags for NaN and infinity, which must be detected.
_FAST = frozenset({"contract", "reassoc", "nsz", "arcp"})
_EXACT: frozenset[str] = frozenset()
_ROUNDS = 4  # rounds of adding terms to a regression before the next column,
_NEAR = 1.0  # unless it violates its limits by more than this factor: W must not diverge
_PASSES = 20  # over the terms of a regression, before a jump
_JUMPS = 20  # in one round, at most
_SMALLEST = 1e-13  # resolution at the scale of correlations
_SHARE = 0.5  # of the largest violation: terms that violate more are added together
_TILE = 64  # rows and columns that are read together with their transposes


@compiled(_FAST)
def sweep_columns(
    S: Matrix,
    limits: Limits,
    W: Matrix,
    regressions: Matrix,
    columns: tuple[int, int],
    slack: float,
) -> None:
    """Regress some columns on all others; W and the regressions change in place.

    Args:
        S: correlations.
        limits: of each entry.
        W: the current covariance, which stays positive definite.
        regressions: row j is β of column j.
        columns: the first to regress and the one after the last.
        slack: tolerance of a regression, as a share of λ_ij.
    """
    N = len(S)
    fitted, terms, taken = np.empty(N), np.empty(N, np.int64), np.empty(N, np.bool_)
    penalty, scale = limits
    for j in range(columns[0], columns[1]):
        beta, limit = regressions[j], penalty * (scale[j] * scale)
        taken[:] = beta != 0.0
        for attempt in range(N):
            chosen = terms[: _list(taken, terms)]
            _descend(W, S[j], beta, limit, slack, chosen)
            _fit(W, beta, chosen, fitted)
            taken[:] = beta != 0.0
            taken[j] = True  # a column is not a term of itself
            excess = _take_in(S[j], fitted, limit, slack, taken)
            taken[j] = False
            if excess == 0.0 or (attempt >= _ROUNDS and excess <= _NEAR):
                break
        if W[j, j] > _dot(fitted, beta):  # otherwise W would not stay positive definite
            fitted[j] = W[j, j]
            W[j] = fitted
            W[:, j] = fitted


@compiled(_FAST)
def _list(taken: Bool[np.ndarray, " N"], terms: Int64[np.ndarray, " N"]) -> int:
    """Write the indices of taken terms and return their number."""
    count = 0
    for i in range(len(taken)):
        if taken[i]:
            terms[count] = i
            count += 1
    return count


@compiled(_FAST)
def _descend(
    W: Matrix, target: Vector, beta: Vector, limit: Vector, slack: float, terms: Terms
) -> None:
    """Solve the regression on the given terms, β in place."""
    inner = _gather(W, terms)
    aim, bound, b = target[terms], limit[terms], beta[terms]
    for _ in range(_JUMPS):
        if _step(inner, aim, bound, b, slack):
            break
        _jump(inner, aim, bound, b)
    beta[terms] = b


@compiled(_FAST)
def _step(inner: Matrix, aim: Vector, bound: Vector, b: Vector, slack: float) -> bool:
    """Minimise over one term after the other; return whether this has converged."""
    slope = _multiply(inner, b)
    for _ in range(_PASSES):
        settled = True
        for a in range(len(b)):
            curvature = inner[a, a]
            pull = aim[a] - slope[a] + curvature * b[a]
            value = math.copysign(max(abs(pull) - bound[a], 0.0), pull) / curvature
            step = value - b[a]
            if step != 0.0:
                b[a] = value
                for c in range(len(b)):
                    slope[c] += step * inner[a, c]
                settled = settled and abs(step) * curvature <= max(slack * bound[a], _SMALLEST)
        if settled:
            return True
    return False


@compiled(_FAST)
def _jump(inner: Matrix, aim: Vector, bound: Vector, b: Vector) -> None:
    """Go to the minimum over all b ≠ 0 with fixed signs, or to the first change of sign.

    Nearly collinear columns converge slowly term by term; this step is exact.
    """
    live = np.flatnonzero(b)
    current, curvature = b[live], _gather(inner, live)
    for a in range(len(live)):
        curvature[a, a] += _SMALLEST  # avoids a zero pivot
    goal = aim[live] - bound[live] * np.sign(current)
    _solve(curvature, goal)
    share, first = 1.0, -1
    for a in range(len(live)):
        if goal[a] * current[a] < 0.0 and current[a] / (current[a] - goal[a]) < share:
            share, first = current[a] / (current[a] - goal[a]), a
    current += share * (goal - current)
    if first >= 0:
        current[first] = 0.0
    if np.isfinite(current).all():
        b[live] = current


@compiled(_FAST)
def _solve(A: Matrix, y: Vector) -> None:
    """Solve A x = y for a positive definite A by its Cholesky factor, both in place."""
    for i in range(len(y)):
        for j in range(i + 1):
            remainder = A[i, j] - _dot(A[i, :j], A[j, :j])
            A[i, j] = remainder / A[j, j] if j < i else math.sqrt(remainder)
        y[i] = (y[i] - _dot(A[i, :i], y[:i])) / A[i, i]
    for i in range(len(y) - 1, -1, -1):
        y[i] /= A[i, i]
        for j in range(i):
            y[j] -= A[i, j] * y[i]


@compiled(_FAST)
def _multiply(A: Matrix, x: Vector) -> Vector:
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = _dot(A[i], x)
    return y


@compiled(_FAST)
def _dot(x: Vector, y: Vector) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@compiled(_FAST)
def _gather(W: Matrix, terms: Terms) -> Matrix:
    """Return W's rows and columns of the terms."""
    inner = np.empty((len(terms), len(terms)))
    for a in range(len(terms)):
        row = W[terms[a]]
        for b in range(len(terms)):
            inner[a, b] = row[terms[b]]
    return inner


@compiled(_FAST)
def _fit(W: Matrix, beta: Vector, terms: Terms, fitted: Vector) -> None:
    """Write W₁₁ β, four terms at a time: one pass over `fitted` for each four rows of W."""
    fitted[:] = 0.0
    in_fours = len(terms) - len(terms) % 4
    for a in range(0, in_fours, 4):
        i, j, k, m = terms[a], terms[a + 1], terms[a + 2], terms[a + 3]
        wi, wj, wk, wm = W[i], W[j], W[k], W[m]
        bi, bj, bk, bm = beta[i], beta[j], beta[k], beta[m]
        for n in range(len(fitted)):
            fitted[n] += bi * wi[n] + bj * wj[n] + bk * wk[n] + bm * wm[n]
    for a in range(in_fours, len(terms)):
        i = terms[a]
        for n in range(len(fitted)):
            fitted[n] += beta[i] * W[i, n]


@compiled(_FAST)
def _take_in(
    target: Vector, fitted: Vector, limit: Vector, slack: float, taken: Bool[np.ndarray, " N"]
) -> float:
    """Add the zero terms that violate optimality most; return the largest violation."""
    worst = furthest = 0.0
    for i in range(len(target)):
        if not taken[i]:
            excess = abs(target[i] - fitted[i]) - limit[i]
            if excess > max(slack * limit[i], _SMALLEST):
                worst = max(worst, excess)
                furthest = max(furthest, excess / limit[i])
    for i in range(len(target)):
        excess = abs(target[i] - fitted[i]) - limit[i]
        if worst > 0.0 and excess >= _SHARE * worst and excess > max(slack * limit[i], _SMALLEST):
            taken[i] = True
    return furthest


@compiled(_EXACT)
def move_into_box(S: Matrix, limits: Limits, diagonal: Vector, W: Matrix) -> None:
    """Move W to the nearest point of |W_ij − S_ij| ≤ λ_ij with W_ii = S_ii + λ_ii, in place."""
    penalty, scale = limits
    for i in range(len(S)):
        for j in range(len(S)):
            limit = penalty * (scale[i] * scale[j])
            W[i, j] = min(max(W[i, j] - S[i, j], -limit), limit) + S[i, j]
        W[i, i] = diagonal[i] + S[i, i]


@compiled(_EXACT)
def symmetrise(regressions: Matrix, diagonal: Vector, Q: Matrix) -> None:
    """Write q_ij, the mean of −β_ij q_ii and −β_ji q_jj; zero when either is."""
    N = len(Q)
    for top in range(0, N, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, min(top + _TILE, N)):
                for j in range(left, min(left + _TILE, i)):
                    first, second = regressions[i, j], regressions[j, i]
                    value = 0.0
                    if first != 0.0 and second != 0.0:
                        value = (first * -diagonal[i] + second * -diagonal[j]) / 2
                    Q[i, j] = Q[j, i] = value
    for i in range(N):
        Q[i, i] = diagonal[i]


@compiled(_EXACT)
def penalised_fit(S: Matrix, limits: Limits, diagonal: Vector, Q: Matrix) -> float:
    """Return tr(SQ) + Σ_ij λ_ij |Q_ij|."""
    penalty, scale = limits
    total = 0.0
    for i in range(len(S)):
        row = diagonal[i] * abs(Q[i, i])
        for j in range(len(S)):
            if Q[i, j] != 0.0:
                row += S[i, j] * Q[i, j]
                if i != j:
                    row += penalty * (scale[i] * scale[j]) * abs(Q[i, j])
        total += row
    return total


@compiled(_EXACT)
def rescale(A: Matrix, scale: Vector) -> None:
    """Multiply a_ij by scale_i · scale_j, in place; what is symmetric stays so."""
    for i in range(len(A)):
        for j in range(len(A)):
            A[i, j] *= scale[i] * scale[j]


@compiled(_EXACT)
def label_components(S: Matrix, penalty: float) -> Int64[np.ndarray, " N"]:
    """Return the number of the connected component of |S_ij| > λ that each variable is in."""
    N, count = len(S), 0
    label, queue = np.full(N, -1), np.empty(N, np.int64)
    for first in range(N):
        if label[first] >= 0:
            continue
        label[first], queue[0], done, n_labelled = count, first, 0, 1
        while done < n_labelled:
            row = S[queue[done]]
            for n in range(N):
                if label[n] < 0 and abs(row[n]) > penalty:
                    label[n], queue[n_labelled] = count, n
                    n_labelled += 1
            done += 1
        count += 1
    return label
