"""Vector autoregression (Eq. 8): least squares for every order at once, and its recursion.

    x̂_t = B a_t + A_1 x_{t−1} + … + A_p x_{t−p}

Columns stand as in that sum, the constant first in a, then lag by lag: what belongs to a lower
order leads, so that one pass over the data and one factor serve all orders.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.linalg import solve_triangular

BLOCK_STEPS = 4_096  # in double precision at a time
BLOCK_COLUMNS = 128  # eliminated at a time
DEPENDENT = 1e-10  # of a column's square: earlier columns that leave no more of it make it up


@dataclass(frozen=True, eq=False)
class Factor:
    """R with RᵀR = ZᵀZ over the columns that no earlier ones make up, and R⁻ᵀZᵀY beside it."""

    rows: Float64[np.ndarray, "rank G"]  # [R, R⁻ᵀZᵀY], columns of length 1; G = F + N
    kept: Int64[np.ndarray, " rank"]
    length: Float64[np.ndarray, " F"]  # of each column of Z

    def rank(self, columns: int) -> int:
        """Return how many of the leading columns are independent."""
        return int(np.searchsorted(self.kept, columns))

    def solve(self, columns: int) -> Float64[np.ndarray, "columns N"]:
        """Return argmin ‖Y − Zw‖ over the leading columns; dependent ones get weight 0."""
        k, F = self.rank(columns), len(self.length)
        kept = self.kept[:k]
        weights = np.zeros((columns, self.rows.shape[1] - F))
        found = solve_triangular(self.rows[:k, kept], self.rows[:k, F:])
        weights[kept] = found / self.length[kept, None]
        return weights


def measure(
    values: Float[np.ndarray, "M N"],
    known: Float[np.ndarray, "T A"],
    steps: Int64[np.ndarray, " T"],
    order: int,
) -> Float64[np.ndarray, "F G"]:
    """Return Zᵀ[Z, Y] of an order, on and above the diagonal: F = A + order·N, G = F + N.

    Args:
        values: x of all steps.
        known: a of the target steps.
        steps: the targets, in order of time; `order` steps before each are looked at too.
        order: of the highest autoregression wanted.
    """
    squares, products = _add_up(values, known, steps, order)
    N, A = values.shape[1], known.shape[1]
    F = A + order * N
    moments = np.zeros((F, F + N))
    moments[:A, :A], moments[:A, F:] = squares[:A, :A], products[0, :A]
    for lag in range(1, order + 1):
        here = slice(A + (lag - 1) * N, A + lag * N)
        moments[:A, here], moments[here, F:] = products[lag, :A], products[lag, A:].T
    _spread(moments[A:, A:], products[:, A:], values, steps)
    return moments


def _add_up(
    values: Float[np.ndarray, "M N"],
    known: Float[np.ndarray, "T A"],
    steps: Int64[np.ndarray, " T"],
    order: int,
) -> tuple[Float64[np.ndarray, "U U"], Float64[np.ndarray, "orders U N"]]:
    """Return Σ u_t u_tᵀ and, for each lag, Σ u_t x_{t−lag}ᵀ, where u_t = (a_t, x_t)."""
    N, A = values.shape[1], known.shape[1]
    squares, products = np.zeros((A + N, A + N)), np.zeros((order + 1, A + N, N))
    for start in range(0, len(steps), BLOCK_STEPS):
        block = slice(start, start + BLOCK_STEPS)
        u = np.concatenate([known[block], values[steps[block]]], axis=1).astype(np.float64)
        squares += u.T @ u  # symmetric: half the work
        for lag in range(1, order + 1):
            products[lag] += u.T @ values[steps[block] - lag].astype(np.float64)
    products[0] = squares[:, A:]
    return squares, products


def _spread(
    lagged: Float64[np.ndarray, "pN G"],
    products: Float64[np.ndarray, "orders N N"],
    values: Float[np.ndarray, "M N"],
    steps: Int64[np.ndarray, " T"],
) -> None:
    """Write Σ x_{t−i} x_{t−j}ᵀ for all lags i ≤ j, starting from the sums for i = 0.

    One lag more on both sides is the same sum over steps that lie one earlier: each run of steps
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


def eliminate(moments: Float64[np.ndarray, "F G"]) -> Factor:
    """Return the factor of Zᵀ[Z, Y], a Cholesky that leaves out dependent columns; overwrites it.

    A column is left out if what the columns before it do not explain is rounding.
    """
    F = len(moments)
    length = np.sqrt(np.diag(moments))
    length[length == 0] = 1.0
    moments /= length[:, None]
    moments[:, :F] /= length
    kept = np.empty(0, dtype=np.int64)
    for start in range(0, F, BLOCK_COLUMNS):
        here, k = slice(start, min(start + BLOCK_COLUMNS, F)), len(kept)
        # what the rows of the factor so far leave of these columns
        rest = moments[here, start:] - moments[:k, here].T @ moments[:k, start:]
        few, corner = _eliminate_block(rest[:, : len(rest)])
        # the rows of dropped columns are not needed any more, so the factor moves up
        moments[k : k + len(few), start:] = solve_triangular(corner, rest[few], trans="T")
        kept = np.concatenate([kept, start + few])
    return Factor(moments[: len(kept)], kept, length)


def _eliminate_block(
    gram: Float64[np.ndarray, "n n"],
) -> tuple[Int64[np.ndarray, " k"], Float64[np.ndarray, "k k"]]:
    """Return the columns to keep and R of them, column by column; reads no lower triangle."""
    rest, few = gram.copy(), []
    for j in range(len(rest)):
        if rest[j, j] > DEPENDENT:
            rest[j, j:] /= np.sqrt(rest[j, j])
            rest[j + 1 :, j + 1 :] -= np.outer(rest[j, j + 1 :], rest[j, j + 1 :])
            few.append(j)
    return np.array(few, dtype=np.int64), rest[np.ix_(few, few)]


def roll_out(
    weights: Float[np.ndarray, "F N"],
    past: Float[np.ndarray, "B p N"],
    known: Float[np.ndarray, "B K A"],
) -> Float[np.ndarray, "B K N"]:
    """Return x̂_{t+1…t+K}, each step from the forecasts before it.

    Args:
        weights: of the columns above.
        past: x_t, x_{t−1}, …, the latest first.
        known: a_{t+1…t+K}.
    """
    (B, p, N), (K, A) = past.shape, known.shape[1:]
    state = past.reshape(B, p * N)
    forecasts = []
    for k in range(K):
        # Eq. 8: x̂_{t+1} = A_1 x_t + … + A_p x_{t−p+1} + B a_{t+1}
        x = state @ weights[A:] + known[:, k] @ weights[:A]
        state = np.concatenate([x, state], axis=1)[:, : p * N]
        forecasts.append(x)
    return np.stack(forecasts, axis=1)
