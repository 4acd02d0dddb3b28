from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Lasso

from forecaster.graph.lagged import regressions
from forecaster.graph.lagged.covariances import find_factors, sum_products, to_covariances
from forecaster.graph.lagged.deviations import LaggedSample
from forecaster.graph.lagged.regressions import (
    CHANCE_OF_AN_EDGE,
    Regressions,
    begin,
    duality_gap,
    fit_edges,
    largest_penalty,
    refit,
    solve,
    squared_errors,
)
from tests.graph.lagged.conftest import follow, sample_of

STEPS, PLACES, DELAYS = 401, 13, 3
PENALTIES = [0.12, 0.05, 0.02]


class Design(NamedTuple):
    """The explicit columns of one regression, with zeros outside the run."""

    free: np.ndarray
    others: np.ndarray
    y: np.ndarray


def simulate(places: int = PLACES, spread: float = 0.5) -> np.ndarray:
    """Places that follow others, on top of a slow movement that they share."""
    values = follow(STEPS, places).T
    shared = np.convolve(np.random.default_rng(9).standard_normal(STEPS), np.ones(5), "same")
    return np.asarray(values + spread * shared)


def begin_with(values: np.ndarray, factors: int = 2, max_delay: int = DELAYS) -> Regressions:
    sums = sum_products(sample_of(values), np.array([[0, values.shape[1]]]), max_delay)
    return begin(to_covariances(sums, find_factors(sums, factors)))


def design(start: Regressions, values: np.ndarray, target: int) -> Design:
    inputs = start.inputs
    series = np.pad(inputs.series(sample_of(values)).astype(np.float64), ((0, 0), (0, DELAYS)))
    N, P = inputs.n_locations, len(series)
    lagged = np.stack([np.roll(series, lag, axis=1) for lag in range(1, DELAYS + 1)])  # [D, P, T]
    is_free = np.isin(np.arange(P), [target, *range(N, P)])
    columns = lagged[:, is_free].reshape(-1, lagged.shape[2]).T
    others = np.where(is_free[:, None], 0, lagged).reshape(-1, lagged.shape[2]).T
    return Design(columns, others, series[target])


def spread_out(solved: Regressions, target: int) -> np.ndarray:
    """The coefficients of all terms, by lag and series."""
    inputs = solved.inputs
    coefficients = np.zeros(inputs.max_delay * inputs.lags.shape[1])
    used = solved.used[target]
    coefficients[solved.codes[target, used]] = solved.beta[target, used]
    return coefficients


def others_of(solved: Regressions, target: int) -> np.ndarray:
    coefficients = spread_out(solved, target).reshape(solved.inputs.max_delay, -1)
    coefficients[:, [target, *range(solved.inputs.n_locations, coefficients.shape[1])]] = 0
    return coefficients.reshape(-1)


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return simulate()


@pytest.fixture(scope="module")
def start(values: np.ndarray) -> Regressions:
    return begin_with(values)


def solved_at(start: Regressions, penalty: float) -> Regressions:
    solved = solve(start, penalty)
    assert solved is not None
    return solved


# --------------------------------------------------------------------------------------- the lasso


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("target", [0, 3, 12])
def test_a_regression_is_the_lasso_of_explicit_columns(
    start: Regressions, values: np.ndarray, target: int, penalty: float
) -> None:
    """Free columns are projected out; the rest is scikit-learn's."""
    free, others, y = design(start, values, target)
    q, _ = np.linalg.qr(free)
    without = others - q @ (q.T @ others)
    lasso = Lasso(penalty * STEPS / len(y), fit_intercept=False, tol=1e-10, max_iter=100_000)
    expected = lasso.fit(without, y - q @ (q.T @ y)).coef_
    solved = solved_at(start, penalty)
    np.testing.assert_allclose(others_of(solved, target), expected, atol=0.01 * penalty)
    free_terms = np.linalg.lstsq(free, y - others @ expected, rcond=None)[0]
    np.testing.assert_allclose(solved.beta[target, : solved.free], free_terms, atol=2e-3)


def test_a_warm_start_changes_nothing(start: Regressions) -> None:
    warm = start
    for penalty in (0.3, 0.2, 0.1, 0.05, *PENALTIES):
        warm = solved_at(warm, penalty)
    cold = solved_at(start, PENALTIES[-1])
    for target in range(PLACES):
        np.testing.assert_allclose(
            spread_out(warm, target), spread_out(cold, target), atol=0.03 * PENALTIES[-1]
        )


def test_a_start_from_more_terms_changes_nothing(start: Regressions) -> None:
    back = solved_at(solved_at(start, 0.01), 0.05)
    for target in range(PLACES):
        np.testing.assert_allclose(
            spread_out(back, target), spread_out(solved_at(start, 0.05), target), atol=2e-3
        )


def test_no_location_is_its_own_neighbour(start: Regressions) -> None:
    solved = solved_at(start, 0.02)
    for target in range(PLACES):
        sources = solved.codes[target, solved.edges[target]] % solved.inputs.lags.shape[1]
        assert (sources < PLACES).all()
        assert target not in sources
        codes = solved.codes[target, : solved.counts[target]]
        assert len(set(codes.tolist())) == len(codes)


def test_edges_begin_below_the_largest_penalty(start: Regressions) -> None:
    largest = largest_penalty(start)
    assert not solved_at(start, 1.001 * largest).edges.any()
    assert solved_at(start, 0.98 * largest).edges.sum() == 1


def test_collinear_places_and_factors_do_not_keep_it_from_converging() -> None:
    values = np.cumsum(simulate(), axis=1)
    values -= values.mean(axis=1, keepdims=True)
    values[5] = values[7]
    values[2] = 0
    start = begin_with(values)
    for penalty in (0.1, 0.01, 0.001):
        solved = solved_at(start, penalty)
        assert np.isfinite(solved.beta).all()
        assert -1e-6 <= duality_gap(solved, penalty) < 1e-4
        assert np.isfinite(refit(solved).beta).all()
    assert not solved.edges[2].any()
    assert 2 not in solved.codes[solved.edges] % solved.inputs.lags.shape[1]


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_the_number_of_threads_changes_no_bit(
    start: Regressions, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = solved_at(start, 0.02)
    monkeypatch.setattr(regressions, "cores", lambda: cores)
    solved = solved_at(start, 0.02)
    for name in ("codes", "beta", "counts"):
        assert np.array_equal(getattr(solved, name), getattr(expected, name))
        assert np.array_equal(getattr(refit(solved), name), getattr(refit(expected), name))


def test_solving_leaves_the_start_as_it_is(values: np.ndarray) -> None:
    start = begin_with(values)
    before = start.copy()
    refit(solved_at(start, 0.02))
    for name in ("codes", "beta", "counts"):
        assert np.array_equal(getattr(start, name), getattr(before, name))


# ---------------------------------------------------------------------------------------- the room


def test_more_terms_than_there_is_room_for_have_no_solution(
    values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regressions, "_ROOM", 5)
    start = begin_with(values)
    assert start.codes.shape == (PLACES, DELAYS * 3 + 5)
    assert solve(start, 0.001) is None
    assert solve(start, 2.0) is not None


def test_a_cold_start_finds_the_few_terms_among_many(
    values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the steepest terms are in use, more others seem to be needed than there is room."""
    start = begin_with(values, factors=0)
    expected = solved_at(start, 0.1)
    most = int(expected.edges.sum(axis=1).max())
    monkeypatch.setattr(regressions, "_ROOM", most + 1)
    narrow = begin_with(values, factors=0)
    gammas = regressions._gammas(narrow.inputs)
    needed = [_count_steep(gammas, narrow, n, 0.1) for n in range(PLACES)]
    assert max(needed) > most + 1
    solved = solved_at(narrow, 0.1)
    for target in range(PLACES):
        np.testing.assert_allclose(
            spread_out(solved, target), spread_out(expected, target), atol=2e-3
        )


def _count_steep(
    gammas: regressions.descent.Covariances, start: Regressions, target: int, penalty: float
) -> int:
    terms = start.codes[target], start.beta[target], int(start.counts[target])
    slope = np.empty(DELAYS * PLACES)
    regressions.descent._find_slope(gammas, target, terms, slope)
    return int((np.abs(slope) > penalty).sum())


# ------------------------------------------------------------------------------- without a penalty


def test_own_past_and_factors_are_fitted_by_least_squares(
    start: Regressions, values: np.ndarray
) -> None:
    for target in range(PLACES):
        free, _, y = design(start, values, target)
        expected = np.linalg.lstsq(free, y, rcond=None)[0]
        np.testing.assert_allclose(start.beta[target, : start.free], expected, atol=1e-3)
        assert not start.edges[target].any()


@pytest.mark.parametrize("penalty", [0.05, 0.02])
def test_terms_that_chance_could_explain_are_left_out(
    start: Regressions, values: np.ndarray, penalty: float
) -> None:
    """Golden: numpy's least squares, the weaker half of those below the threshold at a time."""
    solved = solved_at(start, penalty)
    fitted = refit(solved)
    least = norm.isf(CHANCE_OF_AN_EDGE / 2 / ((PLACES - 1) * DELAYS))
    assert 0 < fitted.edges.sum() < solved.edges.sum()
    for target in range(PLACES):
        free, others, y = design(start, values, target)
        terms = np.flatnonzero(others_of(solved, target))
        while True:
            columns = np.hstack([free, others[:, terms]])
            expected = np.linalg.lstsq(columns, y, rcond=None)[0]
            error = np.square(y - columns @ expected).sum() / STEPS
            spread = np.sqrt(error * np.diag(np.linalg.inv(columns.T @ columns)))
            t = np.abs(expected / spread)[free.shape[1] :]
            if (t >= least).all():
                break
            terms = terms[t > np.median(t[t < least])]
        kept = spread_out(fitted, target)
        assert np.flatnonzero(others_of(fitted, target)).tolist() == terms.tolist()
        np.testing.assert_allclose(kept[terms], expected[free.shape[1] :], atol=1e-3)
        np.testing.assert_allclose(
            fitted.beta[target, : fitted.free], expected[: free.shape[1]], atol=1e-3
        )


def test_fitting_twice_changes_nothing(start: Regressions) -> None:
    once = refit(solved_at(start, 0.02))
    twice = refit(once)
    assert np.array_equal(once.counts, twice.counts)
    for target in range(PLACES):
        np.testing.assert_allclose(spread_out(once, target), spread_out(twice, target), atol=1e-9)


# --------------------------------------------------------------------------------- the certificate


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_duality_gap_is_small_at_the_solution_alone(
    start: Regressions, penalty: float
) -> None:
    solved = solved_at(start, penalty)
    assert -1e-6 <= duality_gap(solved, penalty) < 1e-4
    place = int(solved.counts.argmax())
    assert solved.counts[place] > solved.free
    solved.beta[place, solved.free] += 0.3
    assert duality_gap(solved, penalty) > 1e-2


def test_the_duality_gap_bounds_how_much_better_a_solution_could_be(
    start: Regressions, values: np.ndarray
) -> None:
    penalty, generator = 0.05, np.random.default_rng(0)
    for target in (0, 3, 12):
        columns = design(start, values, target)
        best = solved_at(start, penalty)
        for size in (0.01, 0.1, 1.0):
            worse = best.copy()
            places = slice(worse.free, worse.counts[target])
            shift = size * generator.standard_normal(worse.beta[target, places].shape)
            worse.beta[target, places] += shift
            excess = cost(columns, worse, target) - cost(columns, best, target)
            assert excess <= duality_gap(worse, penalty) + 1e-5


def cost(columns: Design, solved: Regressions, target: int) -> float:
    """What the lasso minimises, at penalty 0.05."""
    chosen = others_of(solved, target)
    rest = columns.y - columns.others @ chosen
    rest -= columns.free @ np.linalg.lstsq(columns.free, rest, rcond=None)[0]
    return float(rest @ rest / (2 * STEPS) + 0.05 * np.abs(chosen).sum())


# ------------------------------------------------------------------------------------------ errors


def test_a_fit_of_edges_is_least_squares_on_these_alone(
    start: Regressions, values: np.ndarray
) -> None:
    pairs = np.array([[0, 3], [0, 3], [2, 0], [7, 3]])  # of 3 and 0; no other has a source
    delays = np.array([1, 3, 2, 2])
    fitted = fit_edges(start.inputs, pairs, delays)
    sources = {3: [(1, 0), (3, 0), (2, 7)], 0: [(2, 2)], 5: []}
    series = start.inputs.lags.shape[1]
    for target, terms in sources.items():
        free, others, y = design(start, values, target)
        columns = [free, *(others[:, [(lag - 1) * series + j]] for lag, j in terms)]
        expected = np.linalg.lstsq(np.hstack(columns), y, rcond=None)[0]
        assert fitted.edges[target].sum() == len(terms)
        beta = fitted.beta[target, : len(expected)]
        np.testing.assert_allclose(beta, expected, atol=2e-3)


def test_squared_errors_are_those_of_observed_steps_by_block(
    start: Regressions, values: np.ndarray
) -> None:
    fitted = refit(solved_at(start, 0.02))
    whole = sample_of(values)
    observed = np.random.default_rng(0).random(whole.observed.shape) < 0.8
    sample = LaggedSample(
        whole.deviations, observed, whole.scale, whole.runs, np.arange(STEPS) // 67
    )
    series = fitted.inputs.series(sample)
    runs = np.array([[11, 113], [130, 132], [200, STEPS]])  # the second is shorter than the past
    squares = squared_errors(fitted, sample, series, runs)
    assert squares.shape == (20, PLACES)
    expected = np.zeros_like(squares)
    coefficients = np.stack([spread_out(fitted, n) for n in range(PLACES)])
    coefficients = coefficients.reshape(PLACES, DELAYS, len(series))
    for first, stop in runs:
        for t in range(first + DELAYS, stop):
            past = sum(coefficients[:, d - 1] @ series[:, t - d] for d in range(1, DELAYS + 1))
            errors = np.square(series[:PLACES, t] - past)
            expected[sample.blocks[t]] += np.where(observed[:, t], errors, 0)
    np.testing.assert_allclose(squares, expected, rtol=1e-3, atol=1e-5)
    assert not squares[6:].any()
