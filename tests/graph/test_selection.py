from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from forecaster.config import GraphConfig
from forecaster.errors import DataError
from forecaster.graph.lasso import graphical_lasso
from forecaster.graph.selection import (
    DENSEST,
    EBIC_GAMMA,
    MANY,
    choose_by_ebic,
    choose_by_likelihood,
    describe_left,
    hold_out,
    log_likelihood,
    penalties_left,
    penalty_path,
    quarters,
)

PLACES = 7
CHAIN = np.eye(PLACES) - 0.4 * (np.eye(PLACES, k=1) + np.eye(PLACES, k=-1))  # a precision
FINE = np.geomspace(1.0, 0.001, 25).tolist()  # eight penalties by decade
Quiet = Callable[[str], None]


def quiet(_: str) -> None:
    return None


def draw(steps: int, seed: int) -> np.ndarray:
    """Return the covariance of some draws from the chain, near the correlation scale."""
    true = np.linalg.inv(CHAIN)
    scale = np.sqrt(np.diag(true))
    true /= np.outer(scale, scale)
    x = np.random.default_rng(seed).multivariate_normal(np.zeros(PLACES), true, steps)
    return np.cov(x, rowvar=False)


def test_every_fourth_week_is_held_out() -> None:
    steps = np.arange(100, 100 + 9 * 168)
    fit, held_out = hold_out(steps, 168)
    weeks = (held_out - 100) // 168
    assert sorted({*weeks.tolist()}) == [3, 7]
    assert len(held_out) == 2 * 168
    assert np.array_equal(np.union1d(fit, held_out), steps)
    assert not np.intersect1d(fit, held_out).size


def test_less_than_four_weeks_are_cut_into_four_blocks() -> None:
    fit, held_out = hold_out(np.arange(43), 168)  # blocks of 11
    assert held_out.tolist() == list(range(33, 43))
    assert len(fit) == 33


def test_weeks_belong_to_the_quarters_in_turn() -> None:
    quarter = quarters(9 * 168, 168)
    assert quarter[::168].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert (quarter.reshape(9, 168) == quarter[::168, None]).all()


def test_less_than_four_weeks_are_cut_into_four_quarters() -> None:
    assert np.bincount(quarters(43, 168)).tolist() == [11, 11, 11, 10]
    assert quarters(4, 168).tolist() == [0, 1, 2, 3]
    assert (np.diff(quarters(3 * 168, 168)) >= 0).all()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7])
def test_too_few_steps_to_hold_some_out_are_refused(count: int) -> None:
    with pytest.raises(DataError, match=rf"{count} steps are too few .* give a penalty"):
        hold_out(np.arange(count), 168)


def test_the_likelihood_is_that_of_a_gaussian() -> None:
    x = np.random.default_rng(3).normal(size=(101, PLACES))
    x -= x.mean(axis=0)
    density = multivariate_normal(np.zeros(PLACES), np.linalg.inv(CHAIN)).logpdf(x).mean()
    constant = PLACES / 2 * np.log(2 * np.pi)
    found = PLACES * log_likelihood(CHAIN, x.T @ x / len(x)) - constant
    assert found == pytest.approx(density, rel=1e-12)


def test_the_path_goes_down_from_the_largest_correlation() -> None:
    covariance = draw(211, seed=0)
    path = penalty_path(covariance, GraphConfig())
    largest = np.abs(covariance - np.diag(np.diag(covariance))).max()
    assert 0.7 * largest < path[0] < largest
    assert path[-1] == pytest.approx(DENSEST)
    assert (np.diff(path) < 0).all()


def test_the_path_of_unrelated_locations_is_one_penalty() -> None:
    assert penalty_path(np.eye(PLACES), GraphConfig()) == [DENSEST]


def test_the_path_of_many_locations_is_coarse_and_begins_where_the_graph_is_empty() -> None:
    correlation = np.eye(MANY + 1)
    correlation[2, 3] = correlation[3, 2] = 0.5
    path = penalty_path(correlation, GraphConfig())
    assert path[0] == 0.5
    assert len(path) == round(4 * np.log10(0.5 / DENSEST)) + 1
    for fewer, config in ((1, GraphConfig()), (0, GraphConfig(subtract="nothing"))):
        fine = penalty_path(correlation[fewer:, fewer:], config)
        assert fine[0] == pytest.approx(0.4)
        assert len(fine) > 1.8 * len(path)


def test_a_recipe_may_ask_for_the_finest_penalties() -> None:
    covariance = draw(211, seed=0)
    path = penalty_path(covariance, GraphConfig(penalties_per_decade=40))
    usual = penalty_path(covariance, GraphConfig())
    assert path[0] == usual[0]
    assert len(path) > 4.8 * len(usual)


def test_the_chosen_penalty_makes_held_out_steps_likeliest() -> None:
    fit, held_out = draw(83, seed=1), draw(10_007, seed=2)
    chosen = choose_by_likelihood(fit, held_out, GraphConfig(), quiet)
    penalties = penalty_path(fit, GraphConfig())
    scores = [log_likelihood(graphical_lasso(fit, p).precision, held_out) for p in penalties]
    best = int(np.argmax(scores))
    assert 0 < best < len(penalties) - 1  # else this proves little
    assert chosen.penalty == penalties[best]
    assert [step.penalty for step in chosen.path] == penalties[: best + 2]
    assert [step.score for step in chosen.path] == pytest.approx(scores[: best + 2], abs=1e-4)


def test_the_extended_bic_weighs_edges() -> None:
    steps = 401
    correlation = draw(steps, seed=4)
    chosen = choose_by_ebic(correlation, steps, GraphConfig(), quiet)
    Q, S = chosen.result.precision, correlation
    edges = np.count_nonzero(np.triu(Q, 1))
    # Foygel & Drton 2010: −2 ℓ + E log M + 4 γ E log N, with ℓ = M/2 (log|Q| − tr SQ)
    bic = -steps * (np.linalg.slogdet(Q)[1] - np.trace(S @ Q)) + edges * np.log(steps)
    bic += 4 * EBIC_GAMMA * edges * np.log(PLACES)
    score = max(step.score for step in chosen.path)
    assert -2 * steps * PLACES * score == pytest.approx(bic)
    assert edges == chosen.path[-2].edges


def test_the_walk_ends_where_the_solver_fails() -> None:
    fit, held_out = draw(83, seed=1), draw(10_007, seed=2)
    config = GraphConfig(max_iterations=1, gap_tolerance=1e-9)
    whole = choose_by_likelihood(fit, held_out, GraphConfig(), quiet)
    cut = choose_by_likelihood(fit, held_out, config, quiet)
    assert len(cut.path) < len(whole.path)  # while the score was still rising
    assert not cut.path[-1].converged
    assert cut.penalty == cut.path[-2].penalty


# Paths on generated cities of 60, 150 and 300 locations, with no travel: scores of all penalties.
PATHS = (
    [-0.52642, -0.51029, -0.49441, -0.47992, -0.46949, -0.46241, -0.45933, -0.45807, -0.45853],
    [-0.52668, -0.51403, -0.50252, -0.49200, -0.48319, -0.47818, -0.47668, -0.47707],
    [-0.53074, -0.51715, -0.50426, -0.49091, -0.47891, -0.47376, -0.47256, -0.47462],
)  # fmt: skip


@pytest.mark.parametrize("scores", PATHS)
def test_the_end_of_a_path_is_foreseen_within_twice_after_a_tenth(scores: list[float]) -> None:
    for tried in range(1, len(scores)):
        left = len(scores) - tried
        assert left / 2 <= penalties_left(scores[:tried], 9) <= 2 * left
    assert penalties_left(scores, 9) == 0


def test_a_long_path_is_expected_to_end_soon() -> None:
    assert penalties_left([float(score) for score in range(20)], 9) == 1


def test_every_penalty_of_the_path_is_told_with_the_time_left() -> None:
    told: list[str] = []
    chosen = choose_by_ebic(draw(401, seed=4), 401, GraphConfig(), told.append)
    assert len(told) == len(chosen.path)
    assert told[0].startswith(f"penalty 1, {chosen.path[0].penalty:.3g}: ")
    assert all(line.endswith(" left") for line in told[:-1])
    assert told[-1].endswith("; the last one")


def test_the_time_left_is_that_of_the_penalties_left() -> None:
    path = choose_by_ebic(draw(400, 0), 400, GraphConfig(), quiet).path[:2]
    assert describe_left(path, [60.0, 60.0], FINE).startswith("about 7 more, about ")
    assert describe_left(path, [60.0, 60.0], FINE[:2]) == "the last one"
