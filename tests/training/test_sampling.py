import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.training.order import shuffle
from forecaster.training.sampling import draw_shown, truth_share


@pytest.mark.parametrize(
    ("step", "decay", "expected"),
    [
        (0, 2_000.0, 2_000 / 2_001),
        (0, 1.0, 1 / 2),
        (7, 7.0, 7 / (7 + math.e)),
        (6_000, 2_000.0, 2_000 / (2_000 + math.e**3)),
        (15_202, 2_000.0, 0.5),  # τ log τ: half of them, after 15,202 steps
    ],
)
def test_the_share_of_truth_by_hand(step: int, decay: float, expected: float) -> None:
    assert truth_share(step, decay) == pytest.approx(expected, rel=1e-4)


@given(step=st.integers(0, 10**12), decay=st.floats(1e-9, 1e9))
def test_the_share_of_truth_falls_from_below_one_to_nothing(step: int, decay: float) -> None:
    share, later = truth_share(step, decay), truth_share(2 * step + 1, decay)
    assert 0 <= later <= share <= truth_share(0, decay) <= 1


def test_truth_is_shown_about_as_often_as_it_should_be() -> None:
    for step in (0, 50, 100):
        drawn = [draw_shown(3, 20.0, seed, step) for seed in range(2_000)]
        share = truth_share(step, 20.0)
        assert np.mean(drawn) == pytest.approx(share, abs=4 * math.sqrt(share / 6_000))


def test_draws_depend_on_seed_and_step_alone() -> None:
    drawn = {key: draw_shown(31, 2.0, *key) for key in ((5, 1), (5, 2), (6, 1))}
    assert len(set(drawn.values())) == 3
    assert all(draw_shown(31, 2.0, *key) == shown for key, shown in drawn.items())
    assert draw_shown(7, 2.0, 5, 1) == drawn[5, 1][:7]  # whatever the horizon
    assert draw_shown(0, 2.0, 5, 1) == ()


def test_what_is_shown_has_nothing_to_do_with_the_order_of_windows() -> None:
    key = np.array([3, 11], dtype=np.uint64)  # of seed 3 and epoch, or step, 11
    by_order = np.argsort(np.random.Philox(key=key).random_raw(64), kind="stable")
    assert np.array_equal(shuffle(np.arange(64), 3, 11), by_order)
    draws = np.random.Philox(key=key).random_raw(64) / 2.0**64
    assert draw_shown(64, 2.0, 3, 11) != tuple(draws < truth_share(11, 2.0))
