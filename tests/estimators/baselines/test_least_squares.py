import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.tsa import api as statsmodels

from forecaster.estimators.baselines import least_squares
from forecaster.estimators.baselines.least_squares import factorize, moment_matrix, roll_out

# N = 5 locations, A = 1 + 3 known columns, 389 steps
STEPS, N, A = 389, 5, 4
seeds = st.integers(0, 2**32 - 1)


def draw(mix: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return an autoregression whose noise is mixed, and the constant with three known columns."""
    generator = np.random.default_rng(seed)
    known = generator.normal(size=(STEPS, A))
    known[:, 0] = 1
    x = generator.normal(size=(STEPS, N)) @ mix
    for t in range(2, STEPS):
        x[t] += 0.5 * x[t - 1] - 0.3 * x[t - 2] + known[t, 1]
    return x, known


def design(x: np.ndarray, known: np.ndarray, steps: np.ndarray, order: int) -> np.ndarray:
    """Return Z as the equation is written, with every lagged copy beside the others."""
    return np.hstack([known[steps], *(x[steps - lag] for lag in range(1, order + 1))])


# ------------------------------------------------------------------------------- statsmodels


@pytest.mark.parametrize("order", [1, 2, 3])
def test_weights_and_forecasts_are_those_of_statsmodels(order: int) -> None:
    x, known = draw(np.eye(N))
    end = STEPS - 7
    oracle = statsmodels.VAR(x[:end], exog=known[:end, 1:]).fit(order, trend="c")
    steps = np.arange(order, end)
    weights = factorize(moment_matrix(x, known[steps], steps, order)).solve(A + order * N)
    assert np.allclose(weights, oracle.params, rtol=1e-6, atol=1e-9)
    expected = oracle.forecast(x[:end], steps=7, exog_future=known[end:, 1:])
    forecast = roll_out(weights, x[end - 1 - np.arange(order)][None], known[None, end:])
    assert np.allclose(forecast[0], expected, rtol=1e-6, atol=1e-9)


def test_locations_that_nearly_say_the_same_get_the_weights_of_statsmodels() -> None:
    generator = np.random.default_rng(1)
    left, right = (np.linalg.qr(generator.normal(size=(N, N)))[0] for _ in range(2))
    x, known = draw(left @ np.diag(np.geomspace(1, 1e-5, N)) @ right)
    steps = np.arange(2, STEPS)
    assert np.linalg.cond(design(x, known, steps, 2)) > 1e4
    oracle = statsmodels.VAR(x, exog=known[:, 1:]).fit(2, trend="c").params
    factor = factorize(moment_matrix(x, known[steps], steps, 2))
    assert factor.rank(A + 2 * N) == A + 2 * N
    assert np.abs(factor.solve(A + 2 * N) - oracle).max() < 1e-6 * np.abs(oracle).max()


# ------------------------------------------------------------------------------ one pass for all


@given(seeds, st.integers(0, 4), st.floats(0.05, 1.0))
def test_the_products_are_those_of_all_lagged_copies(seed: int, order: int, share: float) -> None:
    generator = np.random.default_rng(seed)
    x, known = draw(np.eye(N), seed)
    steps = order + np.flatnonzero(generator.random(STEPS - order) < share)  # with gaps
    Z = design(x, known, steps, order)
    expected = Z.T @ np.hstack([Z, x[steps]])
    found = moment_matrix(x, known[steps], steps, order)
    assert np.allclose(np.triu(found), np.triu(expected), atol=1e-9)


def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, known = draw(np.eye(N))
    steps = np.arange(3, STEPS)
    whole = factorize(moment_matrix(x, known[steps], steps, 3)).solve(A + 3 * N)
    monkeypatch.setattr(least_squares, "BLOCK_STEPS", 11)
    monkeypatch.setattr(least_squares, "BLOCK_COLUMNS", 3)
    parts = factorize(moment_matrix(x, known[steps], steps, 3)).solve(A + 3 * N)
    assert np.allclose(parts, whole, rtol=1e-10, atol=1e-12)


def test_one_factor_serves_every_order() -> None:
    x, known = draw(np.eye(N))
    steps = np.arange(3, STEPS)
    factor = factorize(moment_matrix(x, known[steps], steps, 3))
    for order in range(4):
        Z = design(x, known, steps, order)
        expected = np.linalg.lstsq(Z, x[steps])[0]
        assert np.allclose(factor.solve(A + order * N), expected, rtol=1e-9, atol=1e-12)


def test_single_precision_is_added_up_in_double() -> None:
    x, known = (part.astype(np.float32) for part in draw(np.eye(N)))
    steps = np.arange(2, STEPS)
    double = moment_matrix(x.astype(np.float64), known[steps].astype(np.float64), steps, 2)
    assert np.array_equal(moment_matrix(x, known[steps], steps, 2), double)


# ------------------------------------------------------------------------- dependent columns


@given(seeds, st.integers(1, 23), st.integers(1, 13))
def test_P9_whatever_depends_on_what_the_fit_is_the_best(
    seed: int, rows: int, columns: int
) -> None:
    generator = np.random.default_rng(seed)
    plain = generator.integers(-1, 2, (rows, columns)).astype(np.float64)
    Z = plain * generator.choice([1e-4, 1.0, 1e4], columns)  # in any unit
    y = generator.normal(size=(rows, 2))
    factor = factorize(moment_matrix(y, Z, np.arange(rows), 0))
    weights = factor.solve(columns)
    assert factor.rank(columns) == np.linalg.matrix_rank(plain)
    assert np.allclose(Z @ weights, plain @ np.linalg.pinv(plain) @ y, atol=1e-6)
    assert not weights[np.setdiff1d(np.arange(columns), factor.independent)].any()


def test_P9_of_a_full_one_hot_the_last_column_gets_no_weight() -> None:
    x, known = draw(np.eye(N))
    week = np.eye(7)[np.arange(STEPS) % 7]
    never = np.zeros((STEPS, 1))
    known = np.hstack([known, week, never])
    steps = np.arange(2, STEPS)
    factor = factorize(moment_matrix(x, known[steps], steps, 2))
    left_out = np.setdiff1d(np.arange(A + 8 + 2 * N), factor.independent)
    assert left_out.tolist() == [A + 6, A + 7]
    Z = design(x, known, steps, 2)
    least = np.linalg.lstsq(Z, x[steps])[0]
    assert np.allclose(Z @ factor.solve(Z.shape[1]), Z @ least, atol=1e-9)


def test_P9_twins_and_constant_locations_get_no_weight_of_their_own() -> None:
    x, known = draw(np.eye(N))
    x[:, 3], x[:, 4] = 2 * x[:, 1] - 7, 11.0
    steps = np.arange(2, STEPS)
    factor = factorize(moment_matrix(x, known[steps], steps, 2))
    weights = factor.solve(A + 2 * N)
    assert not weights[A:].reshape(2, N, N)[:, 3:].any()
    assert np.allclose(design(x, known, steps, 2) @ weights[:, 4], 11)


def test_P9_with_more_columns_than_steps_the_steps_are_met_exactly() -> None:
    x, known = draw(np.eye(N))
    steps = np.arange(4, 4 + 17)  # for 4 + 4 · 5 columns
    factor = factorize(moment_matrix(x, known[steps], steps, 4))
    assert [factor.rank(A + order * N) for order in range(5)] == [4, 9, 14, 17, 17]
    assert np.allclose(design(x, known, steps, 4) @ factor.solve(A + 4 * N), x[steps], atol=1e-7)


# -------------------------------------------------------------------------------- the recursion


def test_forecasts_go_on_from_forecasts() -> None:
    generator = np.random.default_rng(3)
    B, A_1, A_2 = (generator.normal(size=(n, 3)) for n in (2, 3, 3))
    x = {t: generator.normal(size=(7, 3)) for t in (-1, 0)}
    a = generator.normal(size=(7, 4, 2))
    for t in range(4):
        x[t + 1] = a[:, t] @ B + x[t] @ A_1 + x[t - 1] @ A_2
    forecast = roll_out(np.vstack([B, A_1, A_2]), np.stack([x[0], x[-1]], axis=1), a)
    assert np.allclose(forecast, np.stack([x[t] for t in (1, 2, 3, 4)], axis=1))


def test_L10_closed_steps_are_skipped_and_a_closed_location_keeps_its_last_value() -> None:
    generator = np.random.default_rng(7)
    weights, past = generator.normal(size=(2 + 2 * 3, 3)), generator.normal(size=(5, 2, 3))
    a = generator.normal(size=(5, 4, 2))
    is_open = np.ones((5, 4, 3), dtype=bool)
    is_open[1, 1] = False  # a night of one step
    is_open[2, 0, 2] = False  # one location alone
    forecast = roll_out(weights, past, a, is_open)
    always = roll_out(weights, past, a)
    assert np.array_equal(forecast[[0, 3, 4]], always[[0, 3, 4]])
    without_night = roll_out(weights, past, a[:, [0, 2, 3]])
    assert np.allclose(forecast[1, [0, 2, 3]], without_night[1])
    B, A_1, A_2 = weights[:2], weights[2:5], weights[5:]
    kept = np.where(is_open[2, 0], forecast[2, 0], past[2, 0])
    assert np.allclose(forecast[2, 1], a[2, 1] @ B + kept @ A_1 + past[2, 0] @ A_2)


def test_order_zero_is_what_is_known_alone() -> None:
    generator = np.random.default_rng(4)
    weights, a = generator.normal(size=(2, 3)), generator.normal(size=(7, 4, 2))
    assert np.allclose(roll_out(weights, np.empty((7, 0, 3)), a), a @ weights)


def test_precision_stays_single() -> None:
    weights, past, known = (np.ones(s, np.float32) for s in ((5, 3), (2, 1, 3), (2, 4, 2)))
    assert roll_out(weights, past, known).dtype == np.float32
