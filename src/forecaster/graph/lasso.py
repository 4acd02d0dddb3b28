"""The graphical lasso: the sparse precision matrix of a Gaussian, with a duality gap.

Q = argmin tr(SQ) − log|Q| + λ Σ_ij |Q_ij|          (Eq. 4)
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from forecaster.errors import ConfigError, DataError, Faults, count_of, name_some
from forecaster.graph.certificate import (
    Component,
    PrimalDual,
    certify,
    diagonal_pair,
    into_box,
    is_sound,
)
from forecaster.graph.descent import sweep_columns

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
    precision, dual = np.diag(1.0 / diagonal), np.diag(diagonal)
    notes = _describe_constant(constant, penalise_diagonal)
    gap, iterations = 0.0, 0
    for members in _components(S, penalty):
        block = _cut(S, penalty, members, 1.0 / deviation[members], penalise_diagonal)
        notes += _describe_collinear(block, members)
        first = None if start is None else _restrict(start, members, block.scale)
        W, remark = _begin(block, members, first)
        notes += remark
        watch = partial(_tell_sweep, tell, penalty) if tell is not None else None
        limits = gap_tolerance, max_iterations
        pair, used = _solve(block, W, first, limits, watch)
        place, units = np.ix_(members, members), np.outer(block.scale, block.scale)
        precision[place], dual[place] = pair.precision * units, pair.covariance / units
        gap, iterations = gap + pair.gap, max(iterations, used)
    gap /= len(S)
    if gap > gap_tolerance:
        message = f"gap {gap:.2g} > {gap_tolerance:.2g} after {count_of(iterations, 'iteration')}"
        log.warning("graphical lasso not converged: %s", message)
        notes += (message,)
    return LassoResult(precision, dual, gap, iterations, gap <= gap_tolerance, notes)


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
    bounds = np.outer(deviation, deviation)
    if (np.abs(S - S.T) > _ASYMMETRY * bounds).any():
        raise DataError("covariance: not symmetric; give X.T @ X / M of centred columns")
    if (np.abs(S) > (1 + _ASYMMETRY) * bounds).any():
        first = tuple(np.argwhere(np.abs(S) > (1 + _ASYMMETRY) * bounds)[0].tolist())
        raise DataError(f"covariance: entry {first} is larger than its two variances allow")
    return np.asarray(S if np.array_equal(S, S.T) else (S + S.T) / 2)


def _components(
    S: Float64[np.ndarray, "N N"], penalty: float
) -> list[Int64[np.ndarray, " members"]]:
    """Return the members of each connected component of |S_ij| > λ that has more than one.

    Q is zero between components, so each is a separate problem (Witten, Friedman & Simon 2011).
    """
    joined = np.abs(S) > penalty
    np.fill_diagonal(joined, False)
    _, label = connected_components(csr_array(joined), directed=False)
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
    correlation = S[np.ix_(members, members)]
    correlation *= scale[:, None]
    correlation *= scale
    limits = penalty * np.outer(scale, scale)
    if not penalise_diagonal:
        np.fill_diagonal(limits, 0.0)
    return Component(correlation, scale, limits)


def _describe_constant(
    constant: Bool[np.ndarray, " N"], penalise_diagonal: bool
) -> tuple[str, ...]:
    if not constant.any():
        return ()
    treated = "" if penalise_diagonal else ", its diagonal penalised as if all were"
    names = name_some(np.flatnonzero(constant))
    return (f"zero variance at {names}: kept isolated{treated}",)


def _describe_collinear(block: Component, members: Int64[np.ndarray, " n"]) -> tuple[str, ...]:
    pairs = np.argwhere(np.triu(np.abs(block.correlation) >= 1 - _COLLINEAR, 1))
    if not len(pairs):
        return ()
    names = name_some(map(tuple, members[pairs].tolist()))
    return (f"collinear pairs {names}: the penalty alone decides between them",)


def _restrict(
    start: LassoResult, members: Int64[np.ndarray, " n"], scale: Float64[np.ndarray, " n"]
) -> PrimalDual:
    """Return the part of an earlier result for one component, on its scale."""
    place, units = np.ix_(members, members), np.outer(scale, scale)
    return PrimalDual(start.precision[place] / units, start.covariance[place] * units, np.inf)


def _begin(
    block: Component, members: Int64[np.ndarray, " n"], first: PrimalDual | None
) -> tuple[Float64[np.ndarray, "n n"], tuple[str, ...]]:
    """Return a positive definite W inside the box, and notes on how it was found.

    Tried in turn: the W of an earlier result, the sparsest W, the W nearest to S + λI.
    """
    guesses = [np.zeros_like(block.correlation), block.correlation]
    if first is not None:
        guesses.insert(0, first.covariance)
    for guess in guesses:
        W = into_box(block, guess)
        if is_sound(W):
            return W, ()
    W = _shrunk(block)
    if is_sound(W):
        return W, ()
    lowest = float(np.linalg.eigvalsh(block.correlation)[0])
    if lowest < -_ASYMMETRY:
        message = f"covariance: not positive semidefinite (eigenvalue {lowest:.2g} as correlation)"
        raise DataError(f"{message}; compute it from complete rows")
    raised = _RIDGE + 2 * max(-lowest, 0.0)
    block.correlation.flat[:: len(W) + 1] += raised
    note = f"λ is too small to mend the singular covariance of {name_some(members)}"
    return _shrunk(block), (f"{note}: their variances were raised by {raised:.1g} of them",)


def _shrunk(block: Component) -> Float64[np.ndarray, "n n"]:
    """Return S shrunk towards its diagonal as far as the box allows."""
    off = np.abs(block.correlation)
    np.fill_diagonal(off, 0.0)
    share = min(1.0, float(np.min(block.limits[off > 0] / off[off > 0], initial=1.0)))
    W = (1.0 - share) * block.correlation
    np.fill_diagonal(W, np.diag(block.correlation) + np.diag(block.limits))
    return W


def _solve(
    block: Component,
    W: Float64[np.ndarray, "n n"],
    first: PrimalDual | None,
    limits: tuple[float, int],
    watch: Callable[[int, int, int], None] | None,
) -> tuple[PrimalDual, int]:
    """Return the best pair, and the number of sweeps over the columns.

    Args:
        block: the problem.
        W: where to begin.
        first: an earlier result.
        limits: the duality gap at which to stop, and the most sweeps.
        watch: called with the sweep, the column and the number of columns.
    """
    N, (gap_tolerance, max_iterations) = len(W), limits
    best = diagonal_pair(block, W)
    regressions = np.zeros_like(W) if first is None else _regressions(first.precision)
    slack, iteration = _SLACK, 0
    for iteration in range(1, max_iterations + 1):
        for column in range(0, N, _COLUMNS):
            span = column, min(column + _COLUMNS, N)
            if watch is not None:
                watch(iteration, column, N)
            sweep_columns(block.correlation, block.limits, W, regressions, span, slack)
        best = min(best, certify(block, W, regressions), key=lambda pair: pair.gap)
        log.debug("sweep %d over %d columns: gap %.2g", iteration, N, best.gap / N)
        if best.gap <= gap_tolerance * N:
            break
        slack *= _TIGHTER
    return best, iteration


def _tell_sweep(
    tell: Callable[[str], None], penalty: float, sweep: int, column: int, columns: int
) -> None:
    tell(f"penalty {penalty:.3g}: sweep {sweep}, column {column:,} of {columns:,}")


def _regressions(precision: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
    """Return β of every column, row by row: β_j = −Q_j / Q_jj."""
    beta = precision / -np.diag(precision)[:, None]
    np.fill_diagonal(beta, 0.0)
    return np.asarray(beta)
