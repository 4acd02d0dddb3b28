import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.paired import MAX_BLOCKS, block_days, p_values, shared_correlation


def test_a_location_observed_on_few_days_is_not_judged() -> None:
    difference = np.ones((MAX_BLOCKS, 2))
    observed = np.ones((MAX_BLOCKS, 2), dtype=bool)
    observed[6:, 1] = False
    assert p_values(difference, observed).tolist() == [0.0, 1.0]


def test_p_values_are_those_of_a_t_test() -> None:
    """Golden: scipy.stats.ttest_1samp(d, 0, alternative="greater") of these seven numbers."""
    d = np.array([0.3, -0.1, 0.8, -0.5, 0.9, 0.2, 0.7])[:, None]  # neighbours do not correlate
    p = p_values(np.vstack([d, np.zeros((13, 1))]), (np.arange(20) < 7)[:, None])
    assert p[0] == pytest.approx(0.07029871682923766, rel=1e-6)


def test_days_that_resemble_their_neighbours_count_for_less() -> None:
    observed = np.ones((MAX_BLOCKS, 1), dtype=bool)
    alternating = 0.5 + np.where(np.arange(MAX_BLOCKS) % 2, 1.0, -1.0)[:, None]
    grouped = np.sort(alternating, axis=0)
    assert p_values(grouped, observed) > 4 * p_values(alternating, observed)


def test_neighbouring_blocks_share_what_all_locations_say() -> None:
    generator = np.random.default_rng(4)
    noise = generator.standard_normal((211, 101))
    walk = noise.copy()
    walk[1:] = 0.8 * walk[1:] + 0.6 * walk[:-1]  # neighbours correlate by 0.8 · 0.6
    for values, expected in ((noise, 0.0), (walk, 0.48)):
        scaled = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
        found = shared_correlation(scaled, np.ones(scaled.shape, dtype=bool))
        assert found == pytest.approx(expected, abs=0.02)


def test_the_correlation_of_blocks_counts_observed_neighbours_alone() -> None:
    scaled = np.array([[1.0], [1.0], [0.0], [-1.0], [-1.0], [0.0], [1.0]])
    observed = scaled != 0
    assert shared_correlation(scaled, observed) == 1 + 1 / 5  # two pairs, of five blocks
    assert shared_correlation(scaled * [[1], [-1], [1], [1], [-1], [1], [1]], observed) == 0
    assert shared_correlation(scaled[::2], observed[::2]) == 0  # no neighbours


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=90, unique=True),
    st.floats(0, 20, allow_nan=False),
)
def test_blocks_are_ascending_runs_of_days_no_shorter_than_the_horizon(
    days: list[int], horizon: float
) -> None:
    ordered = np.repeat(np.sort(np.array(days)), 3)
    blocks = block_days(ordered, horizon)
    assert blocks[0] == 0
    assert set(np.diff(blocks)) <= {0, 1}
    assert blocks.max() < MAX_BLOCKS
    lengths = np.bincount(blocks) // 3
    assert lengths.min() >= min(np.ceil(horizon), len(days))
