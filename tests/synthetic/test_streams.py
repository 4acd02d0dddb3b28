import numpy as np
import pytest

from forecaster.synthetic.streams import Stream, autoregress, open_stream


def test_a_stream_repeats_itself():
    first, again = (open_stream(7, Stream.NOISE).random(5) for _ in range(2))
    assert (first == again).all()


@pytest.mark.parametrize(
    ("seed", "stream", "part"),
    [(8, Stream.TRIPS, 2), (7, Stream.COUNTS, 2), (7, Stream.TRIPS, 3)],
    ids=["seed", "purpose", "part"],
)
def test_another_seed_purpose_or_part_gives_other_numbers(seed, stream, part):
    given = open_stream(7, Stream.TRIPS, 2).random(5)
    assert (open_stream(seed, stream, part).random(5) != given).all()


def test_numbers_are_pinned():
    # Golden: these streams are part of every published result; PCG64, NumPy 2.
    drawn = open_stream(0, Stream.LOCATIONS).integers(0, 1_000, 4)
    assert drawn.tolist() == [802, 942, 5, 316]


def test_noise_follows_its_recursion():
    shocks = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 0.0]])
    noise = autoregress(shocks, np.array([0.6, 0.8]), np.array([10.0, 20.0]))
    # u = 0.6·10 + 0.8·1; 0.6·6.8; 0.6·4.08 + 0.8 | 0.8·20; 0.8·16 + 0.6·5; 0.8·15.8
    assert noise == pytest.approx(np.array([[6.8, 16.0], [4.08, 15.8], [3.248, 12.64]]))


def test_noise_keeps_the_variance_and_type_of_its_shocks():
    generator = np.random.default_rng(1)
    shocks = generator.standard_normal((20_011, 3), dtype=np.float32)
    noise = autoregress(shocks, 0.7, shocks[0])
    assert noise.dtype == np.float32
    assert noise.std(axis=0) == pytest.approx(np.ones(3), abs=0.03)


def test_shocks_are_left_as_they_were():
    shocks = np.ones((5, 2))
    autoregress(shocks, 0.5, np.zeros(2))
    assert (shocks == 1.0).all()
