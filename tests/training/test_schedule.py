import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import OneCycleLR

from forecaster.training.schedule import (
    draw_locations,
    draw_teacher_forcing,
    one_cycle,
    shuffle,
    teacher_forcing_rate,
)

ORIGINS = np.arange(100, 197)


@given(st.integers(0, 2**63 - 1), st.integers(0, 10_000))
def test_every_epoch_has_every_window_once(seed: int, epoch: int) -> None:
    assert sorted(shuffle(ORIGINS, seed, epoch)) == ORIGINS.tolist()


def test_the_order_depends_on_seed_and_epoch_and_on_nothing_else() -> None:
    orders = {tuple(shuffle(ORIGINS, seed, epoch)) for seed in range(7) for epoch in range(7)}
    assert len(orders) == 49
    np.random.default_rng().random(3)
    assert (shuffle(ORIGINS, 3, 5) == shuffle(ORIGINS, 3, 5)).all()


def philox(key: tuple[int, int], count: int) -> list[int]:
    """Return the first numbers of Philox-4×64-10, written out after Salmon et al. (2011)."""
    numbers: list[int] = []
    for block in range(1, -(-count // 4) + 1):
        (a, b, c, d), (k, m) = (block, 0, 0, 0), key
        for _ in range(10):
            left, right = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
            a, b, c, d = (right >> 64) ^ b ^ k, right, (left >> 64) ^ d ^ m, left
            a, b, c, d = (number % 2**64 for number in (a, b, c, d))
            k, m = (k + 0x9E3779B97F4A7C15) % 2**64, (m + 0xBB67AE8584CAA73B) % 2**64
        numbers += [a, b, c, d]
    return numbers[:count]


def test_the_order_sorts_by_a_number_drawn_for_seed_epoch_and_index() -> None:
    draws = philox((3, 5), len(ORIGINS))  # of every release and platform alike
    assert shuffle(ORIGINS, 3, 5).tolist() == ORIGINS[np.argsort(draws)].tolist()


def test_the_order_is_no_pattern() -> None:
    first = np.array([shuffle(ORIGINS, 0, epoch)[0] for epoch in range(2_000)])
    counts = np.bincount(first - 100, minlength=97)
    chi_squared = ((counts - 2_000 / 97) ** 2 / (2_000 / 97)).sum()
    assert chi_squared < 97 + 5 * np.sqrt(2 * 97)  # five deviations


@pytest.mark.parametrize("steps", [2, 7, 101, 1_009])
def test_the_rate_is_that_of_torchs_one_cycle(steps: int) -> None:
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    scheduler = OneCycleLR(optimiser, max_lr=3e-3, total_steps=steps, cycle_momentum=False)
    for step in range(steps):
        rate = optimiser.param_groups[0]["lr"]
        assert 3e-3 * one_cycle(step, steps) == pytest.approx(rate, rel=1e-12)
        optimiser.step()
        if step + 1 < steps:
            scheduler.step()


def test_the_rate_begins_low_peaks_once_and_ends_lower() -> None:
    rates = [one_cycle(step, 1_000) for step in range(1_000)]
    assert (rates[0], max(rates), rates[-1]) == pytest.approx((1 / 25, 1.0, 1 / 250_000))
    assert rates.index(max(rates)) == 299


def test_a_single_step_is_taken_at_the_full_rate() -> None:
    assert one_cycle(0, 1) == 1.0


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
    assert teacher_forcing_rate(step, decay) == pytest.approx(expected, rel=1e-4)


@given(step=st.integers(0, 10**12), decay=st.floats(1e-9, 1e9))
def test_the_share_of_truth_falls_from_below_one_to_nothing(step: int, decay: float) -> None:
    share, later = teacher_forcing_rate(step, decay), teacher_forcing_rate(2 * step + 1, decay)
    assert 0 <= later <= share <= teacher_forcing_rate(0, decay) <= 1


def test_truth_is_shown_about_as_often_as_it_should_be() -> None:
    for step in (0, 50, 100):
        drawn = [draw_teacher_forcing(3, 20.0, seed, step) for seed in range(2_000)]
        share = teacher_forcing_rate(step, 20.0)
        assert np.mean(drawn) == pytest.approx(share, abs=4 * math.sqrt(share / 6_000))


def test_draws_depend_on_seed_and_step_alone() -> None:
    drawn = {key: draw_teacher_forcing(31, 2.0, *key) for key in ((5, 1), (5, 2), (6, 1))}
    assert len(set(drawn.values())) == 3
    assert all(draw_teacher_forcing(31, 2.0, *key) == shown for key, shown in drawn.items())
    assert draw_teacher_forcing(7, 2.0, 5, 1) == drawn[5, 1][:7]  # whatever the horizon
    assert draw_teacher_forcing(0, 2.0, 5, 1) == ()


def test_what_is_shown_has_nothing_to_do_with_the_order_of_windows() -> None:
    key = np.array([3, 11], dtype=np.uint64)  # of seed 3 and epoch, or step, 11
    by_order = np.argsort(np.random.Philox(key=key).random_raw(64), kind="stable")
    assert np.array_equal(shuffle(np.arange(64), 3, 11), by_order)
    draws = np.random.Philox(key=key).random_raw(64) / 2.0**64
    assert draw_teacher_forcing(64, 2.0, 3, 11) != tuple(draws < teacher_forcing_rate(11, 2.0))


@given(st.integers(1, 97), st.integers(1, 97), st.integers(0, 2**63 - 1), st.integers(0, 500))
def test_all_locations_are_drawn_equally_often(
    count: int, size: int, seed: int, turn: int
) -> None:
    steps = -(-count // size)
    draws = [draw_locations(count, size, seed, steps * turn + step) for step in range(steps)]
    sizes = {len(draw) for draw in draws}
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(draws)) == list(range(count))
    assert all((np.diff(draw) > 0).all() for draw in draws)


def test_drawn_locations_depend_on_seed_and_step_alone() -> None:
    draws = {tuple(draw_locations(97, 7, seed, step)) for seed in range(7) for step in range(29)}
    assert len(draws) == 7 * 29
    assert (draw_locations(97, 7, 3, 5) == draw_locations(97, 7, 3, 5)).all()


def test_locations_are_drawn_apart_from_the_order_of_windows() -> None:
    order = np.sort(shuffle(np.arange(97), 3, 0)[::14])
    assert draw_locations(97, 7, 3, 0).tolist() != order.tolist()
