"""Vector autoregression (Eq. 8): least squares for every order at once, and its recursion.

    x̂_t = B a_t + A_1 x_{t−1} + … + A_p x_{t−p}

Columns are ordered as in that sum, the constant first in a, then lag by lag. The columns of a
lower order lead, so that one pass over the data and one factor serve all orders.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

BLOCK_STEPS = 4_096  # converted to double precision at a time
BLOCK_COLUMNS = 128  # eliminated at a time
DEPENDENT = 1e-10  # residual share of a column's square below which it depends on earlier columns


@dataclass(frozen=True, eq=False)
class Factor:
    """R with RᵀR = ZᵀZ over the linearly independent columns, and R⁻ᵀZᵀY beside it."""

    rows: Float64[np.ndarray, "rank G"]  # [R, R⁻ᵀZᵀY], columns of length 1; G = F + N
    independent: Int64[np.ndarray, " rank"]  # columns that do not depend on earlier ones
    length: Float64[np.ndarray, " F"]  # of each column of Z

    def rank(self, columns: int) -> int:
        """The number of independent ones among the leading columns."""
        return int(np.searchsorted(self.independent, columns))

    def solve(self, columns: int) -> Float64[np.ndarray, "columns N"]:
        """Return argmin ‖Y − Zw‖ over the leading columns; dependent ones get weight 0."""
        from scipy.linalg import solve_triangular  # noqa: PLC0415 (only fits need it)

        k, F = self.rank(columns), len(self.length)
        independent = self.independent[:k]
        weights = np.zeros((columns, self.rows.shape[1] - F))
        solution = solve_triangular(self.rows[:k, independent], self.rows[:k, F:])
        weights[independent] = solution / self.length[independent, None]
        return weights


def moment_matrix(
    values: Float[np.ndarray, "M N"],
    auxiliary: Float[np.ndarray, "T A"],
    steps: Int64[np.ndarray, " T"],
    order: int,
) -> Float64[np.ndarray, "F G"]:
    """Return Zᵀ[Z, Y] of an order, on and above the diagonal: F = A + order·N, G = F + N.

    Args:
        values: x of all steps.
        auxiliary: a of the target steps.
        steps: the targets, in order of time; each has `order` steps before it.
        order: the highest order of autoregression.
    """
    squares, products = _sum_products(values, auxiliary, steps, order)
    N, A = values.shape[1], auxiliary.shape[1]
    F = A + order * N
    moments = np.zeros((F, F + N))
    moments[:A, :A], moments[:A, F:] = squares[:A, :A], products[0, :A]
    for lag in range(1, order + 1):
        lagged = slice(A + (lag - 1) * N, A + lag * N)
        moments[:A, lagged], moments[lagged, F:] = products[lag, :A], products[lag, A:].T
    _fill_lagged(moments[A:, A:], products[:, A:], values, steps)
    return moments


def _sum_products(
    values: Float[np.ndarray, "M N"],
    auxiliary: Float[np.ndarray, "T A"],
    steps: Int64[np.ndarray, " T"],
    order: int,
) -> tuple[Float64[np.ndarray, "U U"], Float64[np.ndarray, "orders U N"]]:
    """Return Σ u_t u_tᵀ and, for each lag, Σ u_t x_{t−lag}ᵀ, where u_t = (a_t, x_t)."""
    N, A = values.shape[1], auxiliary.shape[1]
    squares, products = np.zeros((A + N, A + N)), np.zeros((order + 1, A + N, N))
    for start in range(0, len(steps), BLOCK_STEPS):
        block = slice(start, start + BLOCK_STEPS)
        u = np.concatenate([auxiliary[block], values[steps[block]]], axis=1).astype(np.float64)
        squares += u.T @ u  # symmetric: half the work
        for lag in range(1, order + 1):
            products[lag] += u.T @ values[steps[block] - lag].astype(np.float64)
    products[0] = squares[:, A:]
    return squares, products


def _fill_lagged(
    lagged: Float64[np.ndarray, "pN G"],
    products: Float64[np.ndarray, "orders N N"],
    values: Float[np.ndarray, "M N"],
    steps: Int64[np.ndarray, " T"],
) -> None:
    """Write Σ x_{t−i} x_{t−j}ᵀ for all lags i ≤ j, starting from the sums for i = 0.

    One more lag on both sides gives the same sum over steps shifted by one: each run of steps
    gains the step before it and loses its last.
    """
    N, order = values.shape[1], len(products) - 1
    gained, lost = np.setdiff1d(steps - 1, steps), np.setdiff1d(steps, steps - 1)
    ends = np.concatenate([gained, lost])
    sign = np.repeat([1.0, -1.0], [len(gained), len(lost)])[:, None]
    for apart in range(order):
        block = products[apart]
        for i in range(order - apart):
            block = block + (sign * values[ends - i]).T @ values[ends - i - apart]
            rows, columns = i * N, (i + apart) * N
            lagged[rows : rows + N, columns : columns + N] = block


def factorize(moments: Float64[np.ndarray, "F G"]) -> Factor:
    """The Cholesky factor of Zᵀ[Z, Y] without dependent columns; overwrites its argument.

    A column is left out if the columns before it explain all of it but rounding.
    """
    F = len(moments)
    length = np.sqrt(np.diag(moments))
    length[length == 0] = 1.0
    from scipy.linalg import solve_triangular  # noqa: PLC0415 (only fits need it)

    moments /= length[:, None]
    moments[:, :F] /= length
    independent = np.empty(0, dtype=np.int64)
    for start in range(0, F, BLOCK_COLUMNS):
        block, k = slice(start, min(start + BLOCK_COLUMNS, F)), len(independent)
        # the part of these columns that the rows of the factor so far do not explain
        remainder = moments[block, start:] - moments[:k, block].T @ moments[:k, start:]
        pivots, corner = _eliminate_block(remainder[:, : len(remainder)])
        # the rows of dropped columns are no longer needed, so the factor moves up
        rows = solve_triangular(corner, remainder[pivots], trans="T")
        moments[k : k + len(pivots), start:] = rows
        independent = np.concatenate([independent, start + pivots])
    return Factor(moments[: len(independent)], independent, length)


def _eliminate_block(
    gram: Float64[np.ndarray, "n n"],
) -> tuple[Int64[np.ndarray, " k"], Float64[np.ndarray, "k k"]]:
    """The independent columns and their R, column by column; reads no lower triangle."""
    R, pivots = gram.copy(), []
    for j in range(len(R)):
        if R[j, j] > DEPENDENT:
            R[j, j:] /= np.sqrt(R[j, j])
            R[j + 1 :, j + 1 :] -= np.outer(R[j, j + 1 :], R[j, j + 1 :])
            pivots.append(j)
    return np.array(pivots, dtype=np.int64), R[np.ix_(pivots, pivots)]


def roll_out(
    weights: Float[np.ndarray, "F N"],
    past: Float[np.ndarray, "B p N"],
    auxiliary: Float[np.ndarray, "B K A"],
    is_open: Bool[np.ndarray, "B K N"] | None = None,
) -> Float[np.ndarray, "B K N"]:
    """Return x̂_{t+1…t+K}, each step from the forecasts before it.

    A step at which all locations are closed is skipped: it is forecast after the open ones, and
    none of them from it. A location that is closed while others are open keeps its last value.

    Args:
        weights: of the columns above.
        past: x_t, x_{t−1}, …, the latest first.
        auxiliary: a_{t+1…t+K}.
        is_open: which locations are open at the coming steps; None: all of them.
    """
    if is_open is None:
        return _recur(weights, past, auxiliary, np.ones((1, auxiliary.shape[1], 1), dtype=bool))
    order = np.argsort(~is_open.any(axis=2), axis=1, kind="stable")[..., None]
    arranged = (np.take_along_axis(part, order, axis=1) for part in (auxiliary, is_open))
    forecast = _recur(weights, past, *arranged)
    return np.take_along_axis(forecast, order.argsort(axis=1), axis=1)


def _recur(
    weights: Float[np.ndarray, "F N"],
    past: Float[np.ndarray, "B p N"],
    auxiliary: Float[np.ndarray, "B K A"],
    is_open: Bool[np.ndarray, "b K n"],
) -> Float[np.ndarray, "B K N"]:
    """Return the forecasts of consecutive steps, each from those before it."""
    (B, p, N), (K, A) = past.shape, auxiliary.shape[1:]
    state = past.reshape(B, p * N)
    forecasts = []
    for k in range(K):
        # Eq. 8: x̂_{t+1} = A_1 x_t + … + A_p x_{t−p+1} + B a_{t+1}
        x = state @ weights[A:] + auxiliary[:, k] @ weights[:A]
        forecasts.append(x)
        if p:
            last_values = np.where(is_open[:, k], x, state[:, :N])
            state = np.concatenate([last_values, state], axis=1)[:, : p * N]
    return np.stack(forecasts, axis=1)
