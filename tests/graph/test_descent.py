import numpy as np
import pytest

from forecaster.graph.descent import sweep_columns


def regression(W, target, limit):
    """The lasso of one column by plain coordinate descent, to machine precision."""
    beta = np.zeros(len(target))
    for _ in range(20_000):
        for i in range(len(beta)):
            pull = target[i] - W[i] @ beta + W[i, i] * beta[i]
            beta[i] = np.sign(pull) * max(abs(pull) - limit, 0.0) / W[i, i]
    return beta


@pytest.mark.parametrize("spread", [1.0, 0.03])  # the second: columns that are nearly collinear
def test_a_column_becomes_its_regression_on_the_others(spread):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((211, 1)) + spread * generator.standard_normal((211, 7))
    limit, N = 0.05, 7
    S = np.corrcoef(X.T)
    S = (S + S.T) / 2
    W, betas = S + limit * np.eye(N), np.zeros((N, N))
    others = [0, 1, 2, 4, 5, 6]
    expected = regression(W[np.ix_(others, others)], S[3, others], limit)
    sweep_columns(S, (limit, np.ones(N)), W, betas, (3, 4), 1e-9)
    np.testing.assert_allclose(betas[3, others], expected, atol=1e-6)
    np.testing.assert_allclose(W[3, others], W[np.ix_(others, others)] @ expected, atol=1e-6)
    np.testing.assert_array_equal(W, W.T)
    assert betas[3, 3] == 0.0
    assert not betas[others].any()


def test_nothing_moves_where_no_correlation_exceeds_its_limit():
    S = np.array([[1.0, 0.2], [0.2, 1.0]])
    W, betas = np.eye(2), np.zeros((2, 2))
    sweep_columns(S, (0.3, np.ones(2)), W, betas, (0, 2), 0.01)
    np.testing.assert_array_equal(W, np.eye(2))
    assert not betas.any()
