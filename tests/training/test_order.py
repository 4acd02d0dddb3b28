import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forecaster.training.order import shuffle

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
