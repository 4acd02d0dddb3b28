from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from forecaster.evaluation.bootstrap import LEVEL, RelativeDifference, compare_errors
from forecaster.metrics import ErrorSums

DAYS = np.arange(48) // 6
MakeErrors = Callable[..., ErrorSums]


def by_hand(ours: ErrorSums, theirs: ErrorSums, days: np.ndarray, rounds: int) -> np.ndarray:
    """Draw days one at a time and pool their windows, as one would with pencil and paper."""
    generator = np.random.default_rng(5)
    unique, difference = np.unique(days), []
    for _ in range(rounds):
        windows = np.concatenate(
            [np.flatnonzero(days == day) for day in generator.choice(unique, len(unique))]
        )
        rmse = [
            np.sqrt(e.squares[windows].sum() / e.values[windows].sum()) for e in (ours, theirs)
        ]
        difference.append(rmse[0] / rmse[1] - 1)
    return np.array(difference)


def spread_days(errors: ErrorSums, days: int, generator: np.random.Generator) -> ErrorSums:
    """Return errors of many days, some of them worse than others."""
    factor = generator.gamma(4.0, 0.25, days).repeat(24)[:, None]
    parts = {
        name: np.tile(sums, (days // 2, 1)) * (factor if name in ("squares", "shares") else 1)
        for name, sums in vars(errors).items()
    }
    return ErrorSums(
        **{n: p.astype(np.int64) if n in ("values", "terms") else p for n, p in parts.items()}
    )


def test_the_value_is_the_relative_difference_of_the_pooled_figures(
    make_errors: MakeErrors,
) -> None:
    ours, theirs = make_errors(2.0), make_errors(4.0, seed=1)
    difference = compare_errors([ours], [theirs], DAYS)
    assert difference.rmse is not None
    assert difference.mape is not None
    one, two = ours.scores(), theirs.scores()
    assert difference.rmse.value == pytest.approx(one.rmse.value / two.rmse.value - 1)  # type: ignore[operator]
    assert difference.mape.value == pytest.approx(one.mape.value / two.mape.value - 1)  # type: ignore[operator]


def test_the_interval_is_that_of_days_drawn_one_at_a_time(make_errors: MakeErrors) -> None:
    generator = np.random.default_rng(0)
    ours = spread_days(make_errors(2.0), 30, generator)
    theirs = spread_days(make_errors(2.1, seed=1), 30, generator)
    days = np.arange(30).repeat(24)
    difference = compare_errors([ours], [theirs], days).rmse
    assert difference is not None
    drawn = by_hand(ours, theirs, days, 4_000)
    # t of 29 degrees of freedom is 2.0452 at 97.5 %, z is 1.9600 (any table)
    wider = 2.0452 / 1.9600 * np.sqrt(30 / 29)
    low, high = difference.value + (np.quantile(drawn, [0.025, 0.975]) - difference.value) * wider
    width = high - low
    assert difference.low == pytest.approx(low, abs=0.05 * width)
    assert difference.high == pytest.approx(high, abs=0.05 * width)


def test_what_days_share_cancels_because_they_are_drawn_together(make_errors: MakeErrors) -> None:
    generator = np.random.default_rng(0)
    theirs = spread_days(make_errors(2.0), 30, generator)
    ours = replace(theirs, squares=theirs.squares * 1.21, shares=theirs.shares * 1.1)
    difference = compare_errors([ours], [theirs], np.arange(30).repeat(24))
    for interval in (difference.rmse, difference.mape):
        assert interval is not None
        assert interval.low == pytest.approx(0.1)
        assert interval.high == pytest.approx(0.1)
        assert interval.is_clear


def test_a_model_against_itself_differs_by_nothing(make_errors: MakeErrors) -> None:
    errors = make_errors(3.0)
    assert compare_errors([errors], [errors], DAYS).rmse == RelativeDifference(0.0, 0.0, 0.0)
    assert not RelativeDifference(0.0, 0.0, 0.0).is_clear


def test_trainings_are_averaged_and_make_the_interval_wider(make_errors: MakeErrors) -> None:
    theirs = [make_errors(2.0)]
    same = compare_errors([make_errors(2.0, 1)] * 3, theirs, DAYS).rmse
    apart = compare_errors([make_errors(s, 1) for s in (1.0, 2.0, 3.0)], theirs, DAYS).rmse
    assert same is not None
    assert apart is not None
    assert apart.value == pytest.approx(same.value, abs=0.02)
    assert apart.high - apart.low > 3 * (same.high - same.low)


def test_P8_without_terms_or_with_few_days_there_is_no_interval(make_errors: MakeErrors) -> None:
    errors = make_errors(2.0)
    none = replace(errors, shares=0 * errors.shares, terms=0 * errors.terms)
    assert compare_errors([none], [none], DAYS).mape is None
    assert compare_errors([none], [none], DAYS).rmse is not None
    for days in (1, 6):
        few = compare_errors([errors], [errors], np.arange(48) % days)
        assert few.rmse is None


def test_equal_models_rarely_differ_clearly() -> None:
    generator, clear = np.random.default_rng(1), 0
    for _ in range(200):
        squares = generator.gamma(2.0, 1.0, (2, 10)).repeat(2, axis=1)[..., None]
        ones = np.ones((20, 1), dtype=np.int64)
        pair = [ErrorSums(s, s, s, s, s, ones, ones) for s in squares]
        difference = compare_errors(pair[:1], pair[1:], np.arange(10).repeat(2)).rmse
        assert difference is not None
        clear += difference.is_clear
    assert clear <= 20  # 5 % of 200 are 10, and ten days are few


def test_the_interval_is_the_same_every_time(make_errors: MakeErrors) -> None:
    ours, theirs = make_errors(2.0), make_errors(4.0, seed=1)
    assert compare_errors([ours], [theirs], DAYS) == compare_errors([ours], [theirs], DAYS)
    assert LEVEL == 0.95
