import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.covariance import graphical_lasso as scikit_graphical_lasso
from sklearn.datasets import load_iris

from forecaster.errors import ConfigError, DataError
from forecaster.graph.lasso import LassoResult, graphical_lasso, graphical_lasso_path


def gap_of(S: np.ndarray, penalty: np.ndarray, result: LassoResult) -> float:
    """The definition, computed another way: primal minus dual objective, divided by N."""
    Q, W = result.precision, result.covariance
    (sign, log_q), (other, log_w) = np.linalg.slogdet(Q), np.linalg.slogdet(W)
    assert sign == other == 1
    return float(((S * Q).sum() - log_q + (penalty * np.abs(Q)).sum() - log_w) / len(S) - 1)


def penalties(N: int, penalty: float, penalise_diagonal: bool) -> np.ndarray:
    return penalty * (np.ones((N, N)) - (not penalise_diagonal) * np.eye(N))


def correlations(N: int, M: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((M, N)) @ generator.standard_normal((N, N))
    return np.corrcoef(X.T)


@pytest.mark.parametrize("penalise_diagonal", [True, False])
def test_two_variables_equal_the_solution_by_hand(penalise_diagonal):
    S, penalty = np.array([[2.0, -0.7], [-0.7, 3.0]]), 0.3
    added = penalty * penalise_diagonal
    W = np.array([[2.0 + added, -0.4], [-0.4, 3.0 + added]])  # w₁₂ = s₁₂ moved by λ towards 0
    result = graphical_lasso(S, penalty, penalise_diagonal=penalise_diagonal, gap_tolerance=1e-12)
    np.testing.assert_allclose(result.precision, np.linalg.inv(W), rtol=1e-6)


def test_a_chain_of_three_equals_the_solution_by_hand():
    S, penalty = np.array([[1.0, 0.6, 0.25], [0.6, 1.0, 0.5], [0.25, 0.5, 1.0]]), 0.1
    # On a tree every edge is moved by λ and the rest follows: w₁₃ = w₁₂ w₂₃ / w₂₂ = 0.2,
    # which lies within λ of s₁₃, so that q₁₃ = 0.
    W = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 1.0]])
    result = graphical_lasso(S, penalty, penalise_diagonal=False, gap_tolerance=1e-12)
    np.testing.assert_allclose(result.precision, np.linalg.inv(W), atol=1e-6)
    assert result.precision[0, 2] == 0.0 == result.precision[2, 0]


def test_iris_equals_the_r_package():
    # R, glasso(cov, 1, penalize.diagonal = FALSE), as kept in scikit-learn's
    # covariance/tests/test_graphical_lasso.py
    precision = np.array(
        [
            [1.5190747, 0.0, -0.1304475, 0.0],
            [0.0, 5.299055, 0.0, 0.0],
            [-0.1304475, 0.0, 0.3498624, -0.1683946],
            [0.0, 0.0, -0.1683946, 1.8164353],
        ]
    )
    S = np.cov(load_iris().data.T, bias=True)
    result = graphical_lasso(S, 1.0, penalise_diagonal=False, gap_tolerance=1e-12)
    np.testing.assert_allclose(result.precision, precision, atol=1e-6)


def test_three_rows_of_iris_equal_the_r_package():
    # R, glasso(cov, 0.01, penalize.diagonal = FALSE) on a singular covariance; same source
    precision = np.array(
        [
            [24.42244057, -16.831679593, 0.0, 0.0],
            [-16.83168201, 24.351841681, -6.206896552, -12.5],
            [0.0, -6.206896171, 153.103448276, 0.0],
            [0.0, -12.499999143, 0.0, 462.5],
        ]
    )
    S = np.cov(load_iris().data[10:13].T, bias=True)
    result = graphical_lasso(S, 0.01, penalise_diagonal=False, gap_tolerance=1e-12)
    np.testing.assert_allclose(result.precision, precision, atol=1e-5)


def test_two_columns_of_iris_equal_quic():
    # skggm's quic(cov, lam=0.1, tol=1e-8); same source
    precision = np.array([[1.52836773, -3.14334831], [-3.14334831, 8.19753385]])
    S = np.cov(load_iris().data[:, 2:].T, bias=True)
    result = graphical_lasso(S, 0.1, penalise_diagonal=False, gap_tolerance=1e-12)
    np.testing.assert_allclose(result.precision, precision, atol=1e-6)


@pytest.mark.parametrize("penalise_diagonal", [True, False])
@pytest.mark.parametrize("penalty", [0.3, 0.1, 0.03])
@pytest.mark.parametrize("N", [5, 17, 37])
def test_agrees_with_scikit_learn(N, penalty, penalise_diagonal):
    S = correlations(N, 211)
    ours = graphical_lasso(
        S, penalty, penalise_diagonal=penalise_diagonal, gap_tolerance=1e-12, max_iterations=500
    )
    shifted = S + penalise_diagonal * penalty * np.eye(N)  # the same problem (PAPER_NOTES, Eq. 4)
    _, theirs = scikit_graphical_lasso(shifted, penalty, tol=1e-7, enet_tol=1e-10, max_iter=1000)
    np.testing.assert_allclose(ours.precision, theirs, atol=1e-6 * np.abs(theirs).max())


@pytest.mark.parametrize("penalise_diagonal", [True, False])
def test_the_gap_is_a_certificate(penalise_diagonal):
    S, penalty = correlations(23, 31), 0.2
    result = graphical_lasso(S, penalty, penalise_diagonal=penalise_diagonal)
    box = penalties(23, penalty, penalise_diagonal)
    assert result.converged
    assert result.gap <= 1e-4
    assert result.gap == pytest.approx(gap_of(S, box, result), abs=1e-10)
    assert (np.abs(result.covariance - S) <= box + 1e-12).all()


def test_a_penalty_above_every_correlation_leaves_a_diagonal():
    S = correlations(7, 41)
    result = graphical_lasso(S, 1.01)
    np.testing.assert_array_equal(result.precision, np.diag(1 / (np.diag(S) + 1.01)))
    assert result.gap == 0.0


def test_components_are_solved_as_if_alone():
    first, second = correlations(5, 43, seed=1), correlations(7, 47, seed=2)
    S = np.zeros((12, 12))
    left, right = np.array([1, 2, 5, 8, 9]), np.array([0, 3, 4, 6, 7, 10, 11])
    S[np.ix_(left, left)], S[np.ix_(right, right)] = first, second
    whole = graphical_lasso(S, 0.1).precision
    alone = graphical_lasso(first, 0.1).precision
    np.testing.assert_allclose(whole[np.ix_(left, left)], alone, rtol=1e-12)
    assert not whole[np.ix_(left, right)].any()


def test_a_path_gives_what_single_calls_give():
    S, values = correlations(19, 97), [0.5, 0.2, 0.1, 0.05]
    path = graphical_lasso_path(S, values, gap_tolerance=1e-11, max_iterations=500)
    for penalty, result in zip(values, path, strict=True):
        single = graphical_lasso(S, penalty, gap_tolerance=1e-11, max_iterations=500)
        np.testing.assert_allclose(result.precision, single.precision, atol=1e-5)
        np.testing.assert_array_equal(result.precision != 0, single.precision != 0)


def test_a_warm_start_saves_iterations():
    S = correlations(29, 53)
    cold = graphical_lasso(S, 0.05, gap_tolerance=1e-9)
    warm = graphical_lasso(S, 0.05, gap_tolerance=1e-9, start=cold)
    assert warm.iterations < cold.iterations


def test_variables_of_any_scale_are_solved_together():
    units = np.geomspace(1e-9, 1e9, 11)
    S = correlations(11, 61) * np.outer(units, units)
    result = graphical_lasso(S, 0.1, gap_tolerance=1e-6)
    assert result.converged
    assert gap_of(S, np.full_like(S, 0.1), result) <= 1e-6 + 1e-9


def test_raw_demand_of_a_city_converges_where_its_cycle_rules():
    hours, generator = np.arange(997), np.random.default_rng(5)
    cycle = np.sin(2 * np.pi * (hours[:, None] + generator.uniform(0, 2, 53)) / 24)
    S = np.corrcoef((cycle + 0.01 * generator.standard_normal((997, 53))).T)
    assert np.linalg.cond(S) > 1e4
    for penalty in (0.2, 0.05, 0.01):
        result = graphical_lasso(S, penalty)
        assert result.converged, penalty
        assert gap_of(S, np.full_like(S, penalty), result) <= 1e-4 + 1e-9


def test_short_of_the_gap_it_says_so(caplog):
    result = graphical_lasso(correlations(31, 37), 0.02, gap_tolerance=1e-10, max_iterations=1)
    assert not result.converged
    assert result.gap > 1e-10
    assert "after 1 iteration" in result.notes[-1]
    assert "not converged" in caplog.text
    assert np.linalg.eigvalsh(result.precision)[0] > 0


def test_no_iteration_at_all_still_gives_a_valid_pair():
    result = graphical_lasso(correlations(7, 11), 0.1, max_iterations=0)
    assert not result.converged
    assert np.isfinite(result.gap)


@pytest.mark.parametrize("penalise_diagonal", [True, False])
def test_constant_variables_stay_isolated_and_are_named(penalise_diagonal):
    S = np.zeros((7, 7))
    S[np.ix_([0, 2, 3, 5], [0, 2, 3, 5])] = correlations(4, 13)
    result = graphical_lasso(S, 0.1, penalise_diagonal=penalise_diagonal)
    assert np.count_nonzero(result.precision[[1, 4, 6]]) == 3
    assert np.isfinite(result.precision).all()
    assert "zero variance at 1, 4, 6" in result.notes[0]


def test_collinear_variables_are_named():
    S = correlations(5, 17)
    S = S[np.ix_([0, 1, 2, 0, 4], [0, 1, 2, 0, 4])]
    result = graphical_lasso(S, 0.1, penalise_diagonal=False)
    assert result.converged
    assert "(0, 3)" in result.notes[0]


def test_a_penalty_too_small_for_a_singular_covariance_is_mended_and_said():
    result = graphical_lasso(np.ones((3, 3)) * 1e9, 1e-9, penalise_diagonal=False)
    assert np.isfinite(result.precision).all()
    assert any("too small to mend" in note for note in result.notes)


@st.composite
def samples(draw):
    """Rows of columns that are constant, copies of each other, nearly collinear, few or many."""
    N, M = draw(st.integers(1, 43)), draw(st.integers(1, 53))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = generator.standard_normal((M, N))
    X += draw(st.sampled_from([0.0, 0.0, 5.0])) * generator.standard_normal((M, 1))
    X[:, generator.random(N) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = 7.0
    same = generator.random(N) < draw(st.sampled_from([0.0, 0.5]))
    X[:, same] = X[:, generator.integers(0, N, N)[same]] * generator.choice([-1.0, 1.0, 3.0])
    return X - X.mean(axis=0)


def check_pair(S, penalty, penalise_diagonal, result):
    """Q is symmetric and positive definite, W in its box, and the gap what it says."""
    Q = result.precision
    np.testing.assert_array_equal(Q, Q.T)
    units = 1 / np.sqrt(np.diag(Q))
    assert np.linalg.eigvalsh(Q * np.outer(units, units))[0] > 0
    box = penalties(len(S), penalty, penalise_diagonal)
    constant = np.diag(S) == 0
    box[constant, constant] = penalty
    assert (np.abs(result.covariance - S) <= box * (1 + 1e-9) + 1e-12).all()
    assert result.gap == pytest.approx(max(gap_of(S, box, result), 0.0), abs=1e-7)


@settings(max_examples=200, deadline=None)
@given(samples(), st.floats(0.01, 1.5), st.booleans())
@example(np.zeros((3, 5)), 0.1, False)
@example(np.random.default_rng(150).standard_normal((50, 100)), 0.01, True)
def test_any_correlations_are_solved(X, penalty, penalise_diagonal):
    S = X.T @ X / len(X)
    units = np.sqrt(np.diag(S))
    S /= np.outer(units, units) + (units == 0) + (units == 0)[:, None]
    S = (S + S.T) / 2
    result = graphical_lasso(S, penalty, penalise_diagonal=penalise_diagonal)
    assert result.converged
    check_pair(S, penalty, penalise_diagonal, result)


@settings(max_examples=200, deadline=None)
@given(samples(), st.floats(0.01, 1.5), st.integers(0, 2**32))
def test_any_scales_give_a_valid_matrix_that_says_how_exact_it_is(X, share, seed):
    X = X * 10.0 ** np.random.default_rng(seed).uniform(-9, 9, X.shape[1])
    S = X.T @ X / len(X)
    result = graphical_lasso(S, share * (float(np.median(np.diag(S))) or 1.0))
    np.testing.assert_array_equal(result.precision, result.precision.T)
    assert np.isfinite(result.precision).all()
    assert (np.diag(result.precision) > 0).all()
    assert result.converged == (result.gap <= 1e-4)


def test_many_dense_columns_of_few_rows_do_not_run_away():
    S = np.corrcoef(np.random.default_rng(150).standard_normal((23, 47)).T)
    for penalty in (0.01, 0.005, 0.002):
        assert graphical_lasso((S + S.T) / 2, penalty).converged


def test_refuses_a_covariance_of_nothing():
    with pytest.raises(DataError, match=r"shape \(0, 0\); give real numbers of shape N × N"):
        graphical_lasso(np.zeros((0, 0)), 0.1)


def test_single_precision_is_taken():
    S = correlations(5, 19).astype(np.float32)
    assert graphical_lasso(S, 0.1).converged


@pytest.mark.parametrize("penalty", [0.0, -1.0, float("nan"), float("inf")])
def test_refuses_a_penalty_that_is_none(penalty):
    with pytest.raises(ConfigError, match="above 0"):
        graphical_lasso(np.eye(3), penalty)
    with pytest.raises(ConfigError, match="gap_tolerance"):
        graphical_lasso(np.eye(3), 0.1, gap_tolerance=penalty)


def test_refuses_what_is_no_covariance_and_says_where():
    holes = np.eye(3)
    holes[0, 2] = holes[1, 1] = np.nan
    with pytest.raises(DataError, match=r"2 values NaN or infinite, at \(0, 2\), \(1, 1\)"):
        graphical_lasso(holes, 0.1)
    with pytest.raises(DataError, match="negative variances at 1"):
        graphical_lasso(np.diag([1.0, -1.0]), 0.1)
    with pytest.raises(DataError, match="not symmetric"):
        graphical_lasso(np.array([[1.0, 0.5], [0.0, 1.0]]), 0.1)
    with pytest.raises(DataError, match=r"entry \(0, 1\) is larger"):
        graphical_lasso(np.array([[1.0, 2.0], [2.0, 1.0]]), 0.1)
    with pytest.raises(DataError, match="not positive semidefinite"):
        graphical_lasso(np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]]), 0.01)


def test_refuses_a_start_of_another_size():
    start = graphical_lasso(np.eye(3), 0.1)
    with pytest.raises(ConfigError, match="for 3 variables, the covariance for 5"):
        graphical_lasso(np.eye(5), 0.1, start=start)
