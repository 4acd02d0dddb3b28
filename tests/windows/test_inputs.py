import numpy as np
import pytest
import torch

from forecaster.windows.inputs import StepInputs, gather_steps, scale_steps
from forecaster.windows.scaling import Scale, Scaler

N, Q, P, S = 5, 2, 3, 7


def scale(n: int) -> Scale:
    return Scale(np.arange(n, dtype=np.float32), np.arange(2, n + 2, dtype=np.float32))


@pytest.fixture
def parts() -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    shapes = (S - 2, N), (Q, S - 1, N), (S - 1, P), (S, 32)
    return tuple(generator.normal(size=shape).astype(np.float32) for shape in shapes)


def test_a_step_holds_each_location_then_weather_and_calendar(
    parts: tuple[np.ndarray, ...],
) -> None:
    values, local, weather, calendar = parts
    table = scale_steps(*parts, Scaler(scale(N), scale(P), scale(Q)))
    assert table.shape == (S, N * (1 + Q) + P + 32)
    assert table[4, 3 * 3] == (values[4, 3] - np.float32(3)) / np.float32(5)
    assert table[4, 3 * 3 + 2] == (local[1, 4, 3] - np.float32(1)) / np.float32(3)
    assert table[4, 15 + 2] == (weather[4, 2] - np.float32(2)) / np.float32(4)
    assert np.array_equal(table[:, 18:], calendar)


def test_what_is_not_known_yet_is_0(parts: tuple[np.ndarray, ...]) -> None:
    table = scale_steps(*parts, Scaler(scale(N), scale(P), scale(Q)))
    assert not table[5:, 0:15:3].any()
    assert table[5, 1:15:3].all()
    assert not table[6, :18].any()


def test_windows_are_gathered_by_location(parts: tuple[np.ndarray, ...]) -> None:
    table = scale_steps(*parts, Scaler(scale(N), scale(P), scale(Q)))
    steps = torch.tensor([[0, 3], [4, 1], [6, 6]])
    signal, auxiliary = StepInputs(table, N, 1 + Q).gather(steps)
    assert signal.shape == (N, 1 + Q, 3, 2)
    assert auxiliary.shape == (P + 32, 3, 2)
    assert signal[2, 1, 1, 0] == table[4, 2 * 3 + 1]
    assert auxiliary[0, 0, 1] == table[3, 15]


def test_many_steps_are_gathered_as_few() -> None:
    stored = torch.arange(1300 * 3, dtype=torch.float32).view(1300, 3)
    steps = torch.randint(0, 1300, (11, 127), generator=torch.Generator().manual_seed(0))
    assert torch.equal(gather_steps(stored, steps), stored[steps].permute(2, 0, 1))
