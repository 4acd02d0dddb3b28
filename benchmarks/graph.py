"""The graphical lasso against scikit-learn's, one thread, on the correlations of the city."""

import resource
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.measure import Result, at_most, medians, read_options, report

OPTIONS = read_options(__doc__, threads=1)

import numpy as np  # noqa: E402 (after the threads are set)
from sklearn.covariance import graphical_lasso as scikit_lasso  # noqa: E402

from forecaster.choices import Subtract  # noqa: E402
from forecaster.graph.certificate import log_determinant  # noqa: E402
from forecaster.graph.covariance import (  # noqa: E402
    correlate,
    find_scale,
    measure,
    take_sample,
)
from forecaster.graph.lasso import graphical_lasso  # noqa: E402
from forecaster.panel.panel import Panel  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402

TOLERANCE, DEGREE, DENSE = 1e-4, 2.5, 0.02
N, LARGE, LARGEST = 996, 2_000, 4_000
HOURS = 52_560
EDGES_OF_LARGEST = 2 * LARGEST  # correlations above λ: somewhat more than become edges
GOAL_GIB = 2.5
ATTEMPTS = 10  # iterations of scikit-learn where it may not converge


def main() -> None:
    """Compare at the paper's size, then measure raw demand and larger cities."""
    repeats = 1 if OPTIONS.quick else 3
    demand, raw = _correlations(N, HOURS)
    sparse = _penalty_of_degree(demand, DEGREE)
    notes, results = [], []
    for penalty, limit in ((sparse, 1 / 6), (DENSE, 1 / 2)):
        note, result = _compare(demand, penalty, limit, repeats)
        notes.append(note)
        results.append(result)
    for penalty in (0.1, DENSE, 0.01):
        notes += [_solve_raw(raw, penalty), _try_scikit(raw, penalty)]
    if not OPTIONS.quick:
        large = _correlations(LARGE, HOURS // 4)[0]
        note, result = _compare(large, _penalty_of_degree(large, DEGREE), 1 / 5, 1)
        note_largest, memory = _solve_largest()
        notes += [note, note_largest]
        results += [result, memory]
    report(OPTIONS, notes, results)


def _correlations(locations: int, hours: int) -> tuple[np.ndarray, np.ndarray]:
    """The correlations of a city's demand without its weekly cycle, and with it."""
    panel = make_city(locations=locations, hours=hours).panel
    return _correlation(panel, "hour_of_week"), _correlation(panel, "nothing")


def _correlation(panel: Panel, subtract: Subtract) -> np.ndarray:
    sample = take_sample(panel, np.ones(len(panel.values), dtype=bool), subtract)
    covariance = measure(sample, sample.steps).covariance()
    return correlate(covariance, find_scale(sample, covariance))


def _penalty_of_degree(S: np.ndarray, degree: float) -> float:
    """The λ that gives an average degree, by bisection."""
    low, high = 0.01, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        precision = graphical_lasso(S, middle, penalise_diagonal=False).precision
        low, high = (middle, high) if _degree(precision) > degree else (low, middle)
    return high


def _degree(precision: np.ndarray) -> float:
    return float(np.count_nonzero(precision) / len(precision) - 1)


def _compare(S: np.ndarray, penalty: float, limit: float, repeats: int) -> tuple[str, Result]:
    """Time both on the same S; scikit-learn's tolerance is ours times N, as its gap is a sum."""

    def ours() -> tuple[np.ndarray, np.ndarray]:
        result = graphical_lasso(
            S, penalty, penalise_diagonal=False, gap_tolerance=TOLERANCE, max_iterations=100
        )
        return result.covariance, result.precision

    def theirs() -> tuple[np.ndarray, np.ndarray]:
        covariance, precision = scikit_lasso(S, penalty, tol=TOLERANCE * len(S))
        return covariance, precision

    seconds = medians({"ours": ours, "theirs": theirs}, repeats)
    gaps = [_gap(S, penalty, *solve()) for solve in (ours, theirs)]
    note = f"N = {len(S):,}, λ = {penalty:.3f}, average degree {_degree(ours()[1]):.1f}: "
    note += f"{seconds['ours']:.3f} s against {seconds['theirs']:.2f} s; "
    note += f"feasible gap / N {gaps[0]:.1e} against {gaps[1]:.1e}"
    name = f"graphical_lasso, N = {len(S)}, λ = {penalty:.3f}"
    return note, at_most(name, seconds["ours"] / seconds["theirs"], "scikit-learn", limit)


def _gap(S: np.ndarray, penalty: float, W: np.ndarray, Q: np.ndarray) -> float:
    """The duality gap per location, with W clipped to its feasible box and Q made symmetric."""
    box = np.full_like(S, penalty)
    np.fill_diagonal(box, 0.0)
    W, Q = S + np.clip((W + W.T) / 2 - S, -box, box), (Q + Q.T) / 2
    primal = np.vdot(S, Q) - log_determinant(Q) + np.vdot(box, np.abs(Q))
    return float(primal - log_determinant(W) - len(S)) / len(S)  # inf: not positive definite


def _solve_raw(S: np.ndarray, penalty: float) -> str:
    begin = time.perf_counter()
    result = graphical_lasso(S, penalty)
    seconds = time.perf_counter() - begin
    end = "converged" if result.converged else "NOT converged"
    note = f"raw demand, N = {len(S)}, λ = {penalty:g}: {end} in {seconds:.1f} s"
    return f"{note}, {result.iterations} iterations, gap / N {result.gap:.1e}"


def _try_scikit(S: np.ndarray, penalty: float) -> str:
    """Describe scikit-learn's result on raw demand, with the diagonal penalised as in ours."""
    begin, shifted = time.perf_counter(), S + penalty * np.eye(len(S))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = scikit_lasso(shifted, penalty, tol=TOLERANCE * len(S), max_iter=ATTEMPTS)
        end = (
            f"gap / N {_gap(shifted, penalty, *solution):.1e} after at most {ATTEMPTS} iterations"
        )
    except FloatingPointError as error:
        end = f"FloatingPointError: {str(error).splitlines()[0]}"
    seconds = time.perf_counter() - begin
    return f"raw demand, scikit-learn at λ = {penalty:g}: {end} ({seconds:.1f} s)"


def _solve_largest() -> tuple[str, Result]:
    """Solve the largest problem in a fresh process, to measure the solver's memory."""
    S = _correlations(LARGEST, HOURS // 6)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "S.npy"
        np.save(path, S)
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
            penalty, seconds, gap, gib = fresh.submit(_solve_alone, path).result()
    note = f"N = {LARGEST:,}, λ = {penalty:.3f}: {seconds:.1f} s, gap / N {gap:.1e}, {gib:.2f} GiB"
    name = f"graphical_lasso, N = {LARGEST}, memory"
    return note, at_most(name, gib / GOAL_GIB, f"{GOAL_GIB:g} GiB", 1.0)


def _solve_alone(path: Path) -> tuple[float, float, float, float]:
    S = np.load(path)
    pairs = np.abs(S[np.triu_indices(len(S), 1)])
    penalty = float(np.partition(pairs, -EDGES_OF_LARGEST)[-EDGES_OF_LARGEST])
    del pairs
    begin = time.perf_counter()
    result = graphical_lasso(S, penalty)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return penalty, seconds, result.gap, peak / (1 << 30 if sys.platform == "darwin" else 1 << 20)


if __name__ == "__main__":
    main()
