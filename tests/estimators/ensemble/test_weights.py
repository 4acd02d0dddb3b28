import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from forecaster.estimators.ensemble.weights import FOLDS, Errors, Loss, choose_weights, minimise

RANDOM = np.random.default_rng(7)


def made_errors(scales: list[float], count: int = 4_000) -> list[Errors]:
    """Errors of members that share half of their noise, in folds."""
    shared = RANDOM.standard_normal(count)
    errors = [s * (shared + RANDOM.standard_normal(count)) for s in scales]
    return np.array_split(np.array(errors, dtype=np.float32), FOLDS, axis=1)


@pytest.mark.parametrize("loss", ["squares", "sizes"])
def test_weights_are_those_of_a_general_solver(loss: Loss) -> None:
    folds = made_errors([1.0, 1.1, 1.6])
    chosen = choose_weights(folds, loss)
    errors = np.concatenate(folds, axis=1).astype(np.float64)

    def total(weights: np.ndarray) -> float:
        combined = weights @ errors
        return float((combined**2 if loss == "squares" else np.abs(combined)).sum())

    def objective(weights: np.ndarray) -> float:
        penalty = chosen.penalty * 3 * np.square(weights - 1 / 3).sum()
        return total(weights) / total(np.full(3, 1 / 3)) + float(penalty)

    others = minimize(
        objective,
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
    )
    assert np.isfinite(chosen.penalty)
    assert objective(chosen.weights) <= objective(others.x) + 1e-5


@given(st.integers(1, 7), st.integers(0, 1_000), st.sampled_from([0.0, 1e-3, 1.0, 1e6]))
def test_weights_are_never_negative_and_add_up_to_one(M: int, seed: int, size: float) -> None:
    errors = size * np.random.default_rng(seed).standard_normal((M, 53))
    folds = np.array_split(errors.astype(np.float32), FOLDS, axis=1)
    for loss in ("squares", "sizes"):
        chosen = choose_weights(folds, loss)  # type: ignore[arg-type]
        assert (chosen.weights >= 0).all()
        assert chosen.weights.sum() == pytest.approx(1)
        assert chosen.held_out >= 0


@pytest.mark.parametrize("loss", ["squares", "sizes"])
def test_a_far_worse_member_gets_nothing(loss: Loss) -> None:
    chosen = choose_weights(made_errors([1.0, 30.0, 1.0]), loss)
    assert chosen.weights[1] < 0.01
    assert chosen.weights[[0, 2]] == pytest.approx(0.5, abs=0.1)


def test_equally_good_members_get_equal_weights() -> None:
    """No gain is to be had from other weights on days that these are not fitted to."""
    chosen = choose_weights(made_errors([1.0] * 5, count=60), "squares")
    assert np.ptp(chosen.weights) < 0.2


def test_a_heavy_penalty_makes_weights_equal() -> None:
    gram = np.diag([1.0, 4.0, 9.0])
    assert minimise(gram, 1e9) == pytest.approx(np.full(3, 1 / 3), abs=1e-6)
    assert minimise(gram, 1e-12) == pytest.approx(np.array([36, 9, 4]) / 49)  # ∝ 1 / variance


def test_a_single_fold_cannot_tell() -> None:
    errors = made_errors([1.0, 9.0])[:1]
    chosen = choose_weights(errors, "squares")
    assert chosen.weights.tolist() == [0.5, 0.5]
    assert chosen.penalty == np.inf


def test_errors_are_of_days_that_the_weights_were_not_fitted_to() -> None:
    """A member that is right in all folds but one is not known to be wrong in that one."""
    folds = [np.array([[0.0] * 9, [1.0] * 9], dtype=np.float32)] * 4
    odd = np.array([[6.0] * 9, [1.0] * 9], dtype=np.float32)
    chosen = choose_weights([*folds, odd], "squares")
    fitted = np.concatenate([*folds, odd], axis=1)
    assert chosen.held_out >= np.square(chosen.weights @ fitted).mean()
