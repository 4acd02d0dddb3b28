import numpy as np
import pytest
import torch

from forecaster.clock.clock import Clock
from forecaster.models.mixer.shared_inputs import SharedInputs, rest_of_day, select_shared_inputs

TIMES = np.array(["2021-03-01T00:00", "2021-03-02T18:00", "2021-03-06T23:59"])  # Mon, Tue, Sat


def auxiliary_at(times: np.ndarray, clock: Clock, weather: int = 2) -> torch.Tensor:
    calendar = torch.from_numpy(clock.calendar(times.astype("datetime64[s]")))
    return torch.cat([torch.full((len(times), weather), 7.0), calendar], dim=1)


def test_the_time_of_day_is_a_share_of_the_day() -> None:
    auxiliary = auxiliary_at(TIMES, Clock("UTC"))
    assert (auxiliary @ select_shared_inputs("recent", 34).T).flatten().tolist() == pytest.approx(
        [0.0, 0.75, 23 / 24]
    )
    assert torch.equal(select_shared_inputs("lags", 34), torch.eye(34))


def test_the_time_of_day_of_small_steps_rises_until_midnight() -> None:
    clock = Clock("UTC", 15)
    day = clock.axis(np.datetime64("2021-03-01T00:00:00"), 96)
    auxiliary = torch.from_numpy(clock.calendar(day)).T[:, None]  # [32, 1, 96]
    shared = SharedInputs("recent", 32)
    assert shared.count == 1
    torch.testing.assert_close(shared(auxiliary).flatten(), torch.arange(96) / 96)
    hours = torch.from_numpy(Clock("UTC").calendar(day)).T[:, None]
    assert not rest_of_day(hours).any()


def test_the_weekday_follows_as_a_share_of_the_week() -> None:
    shared = SharedInputs("recent", 34, weekday=True)
    told = shared(auxiliary_at(TIMES, Clock("UTC")).T[:, None])
    assert shared.count == len(told) == 2
    torch.testing.assert_close(told[1, 0], torch.tensor([0, 1, 5]) / 7)
    alone = SharedInputs("recent", 34)(auxiliary_at(TIMES, Clock("UTC")).T[:, None])
    assert torch.equal(told[:1], alone)


def test_with_lags_everything_is_told() -> None:
    auxiliary = auxiliary_at(TIMES, Clock("UTC")).T[:, None]
    shared = SharedInputs("lags", 34, weekday=True)
    assert shared.count == 34
    assert torch.equal(shared(auxiliary), auxiliary)
