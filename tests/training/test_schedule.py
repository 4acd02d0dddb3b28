import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from forecaster.training.schedule import one_cycle


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
