"""The graphical lasso: the sparse precision matrix of a Gaussian, with a duality gap.

Q = argmin tr(SQ) − log|Q| + λ Σ_ij |Q_ij|          (Eq. 4)
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some
from forecaster.graph.certificate import (
    Component,
    PrimalDual,
    certify,
    diagonal_pair,
    is_sound,
    put_into_box,
)
from forecaster.graph.descent import label_components, rescale, sweep_columns

log = logging.getLogger(__name__)

_COLUMNS = 256  # per call of the compiled loops, which Ctrl-C waits for
_SLACK = 0.05  # tolerance of the first regressions, as a share of λ
_TIGHTER = 0.5  # factor on that tolerance after each iteration
_COLLINEAR = 1e-10  # distance of a correlation from ±1
_RIDGE = 1e-7  # added to a correlation matrix that is singular in spite of λ
_ASYMMETRY = 1e-6  # of a correlation: from rounding, also of single precision


@dataclass(frozen=True)
class LassoResult:
    """A precision matrix and its certificate: precision and covariance give the gap."""

    precision: Float64[np.ndarray, "N N"]  # Q: symmetric, positive definite, exact zeros
    covariance: Float64[np.ndarray, "N N"]  # W: within λ of S; Q's inverse up to the gap
    gap: float  # divided by N; the objective is at most gap · N above the optimum
    iterations: int
    converged: bool  # whether the gap reached the tolerance
    notes: tuple[str, ...]  # degenerate variables, by index, and their treatment


def graphical_lasso(  # noqa: PLR0913 (options of one solver, by keyword)
    covariance: Float[np.ndarray, "N N"],
    penalty: float,
    *,
    penalise_diagonal: bool = True,
    gap_tolerance: float = 1e-4,
    max_iterations: int = 100,
    start: LassoResult | None = None,
    tell: Callable[[str], None] | None = None,
) -> LassoResult:
    """Return the minimiser of Eq. 4.

    Args:
        covariance: S, symmetric and positive semidefinite.
        penalty: λ > 0, in the units of S.
        penalise_diagonal: whether λ applies to all entries, as in Eq. 4, or only off the diagonal,
            as in most libraries.
        gap_tolerance: the duality gap, divided by N, at which to stop.
        max_iterations: largest number of sweeps over all columns.
        start: the result for a similar penalty.
        tell: called with a message on how far it is, very often.
    """
    _refuse_options(penalty, gap_tolerance, max_iterations)
    S = _checked(covariance, start)
    deviation = np.sqrt(np.diag(S))
    constant = deviation <= np.finfo(float).tiny
    weighed = penalise_diagonal | constant  # a constant variable needs λ for a solution
    diagonal = np.diag(S) + np.where(weighed, penalty, 0.0)  # of W, at the optimum
    solution = _Solution(diagonal)
    notes = _describe_constant(constant, penalise_diagonal)
    gap, iterations = 0.0, 0
    for members in _components(S, penalty):
        scale = 1.0 / deviation[members]
        block = _cut(S, penalty, members, scale, penalise_diagonal)
        notes += _describe_collinear(block, members)
        watch = partial(_tell_sweep, tell, penalty) if tell is not None else None
        pair, used, remark = _solve(block, members, start, (gap_tolerance, max_iterations), watch)
        notes += remark
        solution.put(pair, members, scale)
        gap, iterations = gap + pair.gap, max(iterations, used)
    gap /= len(S)
    if gap > gap_tolerance:
        message = f"gap {gap:.2g} > {gap_tolerance:.2g} after {count_of(iterations, 'iteration')}"
        log.warning("graphical lasso not converged: %s", message)
        notes += (message,)
    precision, dual = solution.matrices
    return LassoResult(precision, dual, gap, iterations, gap <= gap_tolerance, notes)


Matrices = tuple[Float64[np.ndarray, "N N"], Float64[np.ndarray, "N N"]]


class _Solution:
    """Q and W of all variables, of which only connected components need memory."""

    def __init__(self, diagonal: Float64[np.ndarray, " N"]) -> None:
        self._diagonal = diagonal  # of W
        self._matrices: Matrices | None = None

    @property
    def matrices(self) -> Matrices:
        """Q and W, made when they are needed."""
        if self._matrices is None:
            self._matrices = np.diag(1.0 / self._diagonal), np.diag(self._diagonal)
        return self._matrices

    def put(
        self, pair: PrimalDual, members: Int64[np.ndarray, " n"], scale: Float64[np.ndarray, " n"]
    ) -> None:
        """Put in what is found for a component, on its own scale again."""
        rescale(pair.precision, scale)
        rescale(pair.covariance, 1.0 / scale)
        if len(members) == len(self._diagonal):
            self._matrices = pair.precision, pair.covariance
            return
        place = np.ix_(members, members)
        self.matrices[0][place], self.matrices[1][place] = pair.precision, pair.covariance


def graphical_lasso_path(
    covariance: Float[np.ndarray, "N N"],
    penalties: Iterable[float],
    *,
    penalise_diagonal: bool = True,
    gap_tolerance: float = 1e-4,
    max_iterations: int = 100,
    tell: Callable[[str], None] | None = None,
) -> Iterator[LassoResult]:
    """Yield the result for each penalty in turn, with warm starts.

    Give the largest penalty first: its result is sparse and cheap.
    """
    result = None
    for penalty in penalties:
        result = graphical_lasso(
            covariance,
            penalty,
            penalise_diagonal=penalise_diagonal,
            gap_tolerance=gap_tolerance,
            max_iterations=max_iterations,
            start=result,
            tell=tell,
        )
        yield result


def _refuse_options(penalty: float, gap_tolerance: float, max_iterations: int) -> None:
    faults = Faults("graphical lasso")
    for name, value in (("penalty", penalty), ("gap_tolerance", gap_tolerance)):
        if not 0 < value < np.inf:
            faults.add(f"{name} = {value!r}: give a number above 0, such as 0.1")
    if max_iterations < 0:
        faults.add(f"max_iterations = {max_iterations}: give 0 or more")
    faults.raise_any(ConfigError)


def _checked(
    covariance: Float[np.ndarray, "N N"], start: LassoResult | None
) -> Float64[np.ndarray, "N N"]:
    """Return S as exactly symmetric float64; the error lists all faults."""
    matrix = np.asarray(covariance)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0  # noqa: PLR2004 (a matrix)
    if not square or matrix.dtype.kind not in "fiub":
        message = f"covariance: {matrix.dtype} of shape {matrix.shape}"
        raise DataError(f"{message}; give real numbers of shape N × N")
    S = np.asarray(matrix, dtype=np.float64)
    faults = Faults("covariance")
    invalid = np.argwhere(~np.isfinite(S))
    if len(invalid):
        places = name_some(map(tuple, invalid.tolist()))
        faults.add(f"{count_of(len(invalid), 'value')} NaN or infinite, at {places}")
    if (np.diag(S) < 0).any():
        places = name_some(np.flatnonzero(np.diag(S) < 0))
        faults.add(f"negative variances at {places}; give a covariance")
    faults.raise_any(DataError)
    if start is not None and start.precision.shape != S.shape:
        message = f"start is for {len(start.precision)} variables, the covariance for {len(S)}"
        raise ConfigError(f"{message}; leave start out")
    deviation = np.sqrt(np.diag(S))
    is_symmetric = True
    for first in range(0, len(S), _COLUMNS):  # a few rows at a time, to save memory
        rows = slice(first, first + _COLUMNS)
        bounds, turned = np.outer(deviation[rows], deviation), S[:, rows].T
        if (np.abs(S[rows] - turned) > _ASYMMETRY * bounds).any():
            raise DataError("covariance: not symmetric; give X.T @ X / M of centred columns")
        above = np.argwhere(np.abs(S[rows]) > (1 + _ASYMMETRY) * bounds)
        if len(above):
            entry = int(above[0, 0]) + first, int(above[0, 1])
            raise DataError(f"covariance: entry {entry} is larger than its two variances allow")
        is_symmetric = is_symmetric and np.array_equal(S[rows], turned)
    return np.asarray(S if is_symmetric else (S + S.T) / 2)


def _components(
    S: Float64[np.ndarray, "N N"], penalty: float
) -> list[Int64[np.ndarray, " members"]]:
    """Return the members of each connected component of |S_ij| > λ that has more than one.

    Q is zero between components, so each is a separate problem (Witten, Friedman & Simon 2011).
    """
    label = label_components(S, penalty)
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return [group for group in groups if len(group) > 1]


def _cut(
    S: Float64[np.ndarray, "N N"],
    penalty: float,
    members: Int64[np.ndarray, " n"],
    scale: Float64[np.ndarray, " n"],
    penalise_diagonal: bool,
) -> Component:
    whole = len(members) == len(S) and (scale == 1.0).all()
    correlation = S if whole else S[np.ix_(members, members)]
    if not whole:
        correlation *= scale[:, None]
        correlation *= scale
    diagonal = penalty * (scale * scale) if penalise_diagonal else np.zeros(len(members))
    return Component(correlation, (penalty, scale), diagonal)


def _describe_constant(
    constant: Bool[np.ndarray, " N"], penalise_diagonal: bool
) -> tuple[str, ...]:
    if not constant.any():
        return ()
    treated = "" if penalise_diagonal else ", its diagonal penalised as if all were"
    names = name_some(np.flatnonzero(constant))
    return (f"zero variance at {names}: kept isolated{treated}",)


def _describe_collinear(block: Component, members: Int64[np.ndarray, " n"]) -> tuple[str, ...]:
    near = (block.correlation >= 1 - _COLLINEAR) | (block.correlation <= _COLLINEAR - 1)
    pairs = np.argwhere(np.triu(near, 1))
    if not len(pairs):
        return ()
    names = name_some(map(tuple, members[pairs].tolist()))
    return (f"collinear pairs {names}: the penalty alone decides between them",)


def _begin(
    block: Component, members: Int64[np.ndarray, " n"], start: LassoResult | None
) -> tuple[Component, Float64[np.ndarray, "n n"], tuple[str, ...]]:
    """Return a positive definite W inside the box, and notes on how it was found.

    Tried in turn: the W of an earlier result, the sparsest W, the W nearest to S + λI. If none is,
    the variances are raised.
    """
    guesses: list[Callable[[], Float64[np.ndarray, "n n"]]]
    guesses = [partial(np.zeros_like, block.correlation), block.correlation.copy]
    if start is not None:
        guesses.insert(0, partial(_restrict, start, members, block.limits[1]))
    for guess in guesses:
        W = guess()
        put_into_box(block, W)
        if is_sound(W):
            return block, W, ()
    W = _shrunk(block)
    if is_sound(W):
        return block, W, ()
    lowest = float(np.linalg.eigvalsh(block.correlation)[0])
    if lowest < -_ASYMMETRY:
        message = f"covariance: not positive semidefinite (eigenvalue {lowest:.2g} as correlation)"
        raise DataError(f"{message}; compute it from complete rows")
    raised = _RIDGE + 2 * max(-lowest, 0.0)
    block = block._replace(correlation=block.correlation.copy())
    block.correlation.flat[:: len(W) + 1] += raised
    note = f"λ is too small to mend the singular covariance of {name_some(members)}"
    remark = f"{note}: their variances were raised by {raised:.1g} of them"
    return block, _shrunk(block), (remark,)


def _restrict(
    start: LassoResult, members: Int64[np.ndarray, " n"], scale: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, "n n"]:
    """Return the part of an earlier W for one component, on its scale."""
    W = start.covariance[np.ix_(members, members)]
    rescale(W, scale)
    return np.asarray(W)


def _regressions(
    start: LassoResult | None, members: Int64[np.ndarray, " n"], scale: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, "n n"]:
    """Return β of every column of an earlier result, row by row: β_j = −Q_j / Q_jj; else zeros."""
    if start is None:
        return np.zeros((len(members), len(members)))
    beta = start.precision[np.ix_(members, members)]
    rescale(beta, 1.0 / scale)
    beta /= -np.diag(beta)[:, None]
    np.fill_diagonal(beta, 0.0)
    return np.asarray(beta)


def _shrunk(block: Component) -> Float64[np.ndarray, "n n"]:
    """Return S shrunk towards its diagonal as far as the box allows."""
    off = np.abs(block.correlation)
    np.fill_diagonal(off, 0.0)
    penalty, scale = block.limits
    limits = penalty * np.outer(scale, scale)
    share = min(1.0, float(np.min(limits[off > 0] / off[off > 0], initial=1.0)))
    W = (1.0 - share) * block.correlation
    np.fill_diagonal(W, np.diag(block.correlation) + block.diagonal)
    return np.asarray(W)


def _solve(
    block: Component,
    members: Int64[np.ndarray, " n"],
    start: LassoResult | None,
    limits: tuple[float, int],
    watch: Callable[[int, int, int], None] | None,
) -> tuple[PrimalDual, int, tuple[str, ...]]:
    """Return the best pair, the number of sweeps over the columns, and notes.

    Args:
        block: the problem.
        members: its variables.
        start: an earlier result, of all variables.
        limits: the duality gap at which to stop, and the most sweeps.
        watch: called with the sweep, the column and the number of columns.
    """
    block, W, notes = _begin(block, members, start)
    regressions = _regressions(start, members, block.limits[1])
    S, N, (gap_tolerance, max_iterations) = block.correlation, len(W), limits
    best = diagonal_pair(block, W)
    slack, iteration = _SLACK, 0
    for iteration in range(1, max_iterations + 1):
        for column in range(0, N, _COLUMNS):
            span = column, min(column + _COLUMNS, N)
            if watch is not None:
                watch(iteration, column, N)
            sweep_columns(S, block.limits, W, regressions, span, slack)
        best = min(best, certify(block, W, regressions), key=lambda pair: pair.gap)
        log.debug("sweep %d over %d columns: gap %.2g", iteration, N, best.gap / N)
        if best.gap <= gap_tolerance * N:
            break
        slack *= _TIGHTER
    return best, iteration, notes


def _tell_sweep(
    tell: Callable[[str], None], penalty: float, sweep: int, column: int, columns: int
) -> None:
    tell(f"penalty {penalty:.3g}: sweep {sweep}, column {column:,} of {columns:,}")
