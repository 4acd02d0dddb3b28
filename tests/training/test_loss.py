import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from forecaster.metrics import score
from forecaster.training.loss import (
    count_terms,
    join_terms,
    sum_deviance,
    sum_errors,
    sum_pinball,
)

SHAPE = 5, 7, 3  # N, B, K


def draw(seed: int, level: float = 15.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return forecasts, targets and which of them were observed."""
    generator = torch.Generator().manual_seed(seed)
    target = level * torch.rand(SHAPE, generator=generator, dtype=torch.float64)
    forecast = target + torch.randn(SHAPE, generator=generator, dtype=torch.float64)
    observed = torch.rand(SHAPE, generator=generator) < 0.8
    return forecast, torch.where(observed, target, 0.0), observed


def loss(
    forecast: torch.Tensor,
    target: torch.Tensor,
    observed: torch.Tensor,
    relative: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the loss of a network with one output, or with another for relative error."""
    relative = forecast if relative is None else relative
    errors = sum_errors(forecast, relative, target, observed, 10.0)
    return join_terms(errors, count_terms(target, observed, 10.0), 8e-3)


def test_the_loss_is_eq_7_by_hand() -> None:
    target = torch.tensor([[[20.0, 4.0, 10.0]]])
    forecast = torch.tensor([[[25.0, 6.0, 9.0]]])
    observed = torch.ones(1, 1, 3, dtype=torch.bool)
    mean_square, mape = (25 + 4 + 1) / 3, (5 / 20 + 1 / 10) / 2  # 4 is below the cut of 10
    assert loss(forecast, target, observed).item() == pytest.approx(8e-3 * mean_square + mape)


def test_with_two_outputs_squares_are_of_the_forecast_and_shares_of_the_other_by_hand() -> None:
    target = torch.tensor([[[20.0, 4.0, 10.0, 40.0]]])
    forecast = torch.tensor([[[25.0, 6.0, 9.0, 7.0]]])
    relative = torch.tensor([[[18.0, 1e6, 12.0, 1e6]]])
    observed = torch.tensor([[[True, True, True, False]]])
    errors = sum_errors(forecast, relative, target, observed, 10.0)
    assert errors.tolist() == pytest.approx([25 + 4 + 1, 2 / 20 + 2 / 10])  # 4 is below the cut
    expected = 8e-3 * (25 + 4 + 1) / 3 + (2 / 20 + 2 / 10) / 2
    assert loss(forecast, target, observed, relative).item() == pytest.approx(expected)
    exchanged = 8e-3 * (4 + (1e6 - 4) ** 2 + 4) / 3 + (5 / 20 + 1 / 10) / 2
    assert loss(relative, target, observed, forecast).item() == pytest.approx(exchanged)


@given(st.integers(0, 1_000))
def test_each_of_two_outputs_learns_from_its_own_term(seed: int) -> None:
    forecast, target, observed = draw(seed)
    relative = forecast.clone().add_(0.5).requires_grad_()
    forecast.requires_grad_()
    loss(forecast, target, observed, relative).backward()
    counted = observed & (target >= 10.0)
    n_seen, n_counted = count_terms(target, observed, 10.0).clamp(min=1).tolist()
    squares = torch.where(observed, 2 * (forecast - target), 0.0).detach() * 8e-3 / n_seen
    shares = torch.where(counted, (relative - target).sign() / target, 0.0).detach() / n_counted
    torch.testing.assert_close(forecast.grad, squares)
    torch.testing.assert_close(relative.grad, shares)


@given(st.integers(0, 1_000))
def test_the_loss_is_that_of_the_metrics(seed: int) -> None:
    forecast, target, observed = draw(seed)
    truth = torch.where(observed, target, torch.nan)
    scores = score(truth.numpy(), forecast.numpy(), 10.0)
    assert scores.rmse.value is not None
    expected = 8e-3 * scores.rmse.value**2 + (scores.mape.value or 0.0)
    assert loss(forecast, target, observed).item() == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 1_000), st.integers(1, 6))
def test_sums_over_parts_are_those_of_the_whole(seed: int, cut: int) -> None:
    whole = draw(seed)
    parts = [[tensor[:, :cut] for tensor in whole], [tensor[:, cut:] for tensor in whole]]
    for make in (
        lambda f, t, o: sum_errors(f, f + 1, t, o, 10.0),
        lambda _, t, o: count_terms(t, o, 10.0),
    ):
        torch.testing.assert_close(make(*parts[0]) + make(*parts[1]), make(*whole))


def test_gradients_of_parts_add_up_to_that_of_the_whole() -> None:
    forecast, target, observed = draw(3)
    counts = count_terms(target, observed, 10.0)
    whole, parts = forecast.clone().requires_grad_(), forecast.clone().requires_grad_()
    loss(whole, target, observed).backward()
    for part in (slice(0, 2), slice(2, 7)):
        some = parts[:, part]
        errors = sum_errors(some, some, target[:, part], observed[:, part], 10.0)
        join_terms(errors, counts, 8e-3).backward()
    torch.testing.assert_close(parts.grad, whole.grad, rtol=1e-14, atol=0)


def test_missing_targets_do_not_count() -> None:
    forecast, target, observed = draw(4)
    forecast.requires_grad_()
    loss(forecast, target, observed).backward()
    assert forecast.grad is not None
    assert (forecast.grad[~observed] == 0).all()
    wild, known = torch.where(observed, forecast.detach(), 1e9), forecast.detach()
    assert loss(wild, target, observed) == loss(known, target, observed)
    assert loss(known, target, observed, wild) == loss(known, target, observed)


def test_a_target_at_the_cut_counts_and_one_below_does_not() -> None:
    target = torch.tensor([[[10.0, math.nextafter(10.0, 0.0)]]], dtype=torch.float64)
    assert count_terms(target, torch.ones(1, 1, 2, dtype=torch.bool), 10.0).tolist() == [2, 1]


@pytest.mark.parametrize("level", [9.0, 0.0])
def test_T3_without_a_target_at_the_cut_the_loss_and_its_gradient_are_finite(level: float) -> None:
    forecast, target, observed = draw(5, level)
    forecast.requires_grad_()
    assert count_terms(target, observed, 10.0)[1] == 0
    value = loss(forecast, target, observed)
    value.backward()
    assert forecast.grad is not None
    assert value.isfinite()
    assert forecast.grad.isfinite().all()
    assert forecast.grad.any()  # RMSE still teaches


def test_T3_without_any_target_the_loss_is_zero() -> None:
    forecast, target, observed = draw(6)
    assert loss(forecast, target, torch.zeros_like(observed)).item() == 0.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_T4_a_forecast_that_is_not_finite_is_not_hidden(wrong: float) -> None:
    forecast, target, observed = draw(7)
    forecast[observed.nonzero(as_tuple=True)] = wrong
    assert not loss(forecast, target, observed).isfinite()
    finite, *_ = draw(7)
    assert loss(finite, target, observed).isfinite()
    assert not loss(finite, target, observed, forecast).isfinite()  # of the other output alone


def deviance(forecast: float, target: float) -> float:
    numbers = (torch.full((1, 1, 1), number, dtype=torch.float64) for number in (forecast, target))
    return sum_deviance(*numbers, torch.ones(1, 1, 1, dtype=torch.bool)).item()


def test_deviance_is_poissons_below_ten_and_squares_beyond_by_hand() -> None:
    assert deviance(5, 3) == pytest.approx(2 * (3 * math.log(3 / 5) + 2))
    assert deviance(0.25, 0) == pytest.approx(2 * 0.25)
    assert deviance(15, 20) == pytest.approx(25 / 10)
    # From 5 to 10 Poisson's, from 10 to 12 squares:
    assert deviance(5, 12) == pytest.approx(2 * (12 * math.log(2) - 5) + 4 / 10)
    assert deviance(12, 0) == pytest.approx(2 * 10 + (144 - 100) / 10)


@example(10.0, 0.0)  # where Poisson's turns into squares
@given(st.floats(1e-3, 100), st.floats(0, 100))
def test_deviance_falls_to_zero_at_the_target(forecast: float, target: float) -> None:
    x = torch.full((1, 1, 1), target, dtype=torch.float64)
    guess = torch.full((1, 1, 1), forecast, dtype=torch.float64, requires_grad=True)
    value = sum_deviance(guess, x, torch.ones(1, 1, 1, dtype=torch.bool))
    value.backward()
    assert guess.grad is not None
    slope = -2 * (target - forecast) / min(forecast, 10)
    assert guess.grad.item() == pytest.approx(slope, rel=1e-9, abs=1e-9)
    assert value.item() >= -1e-9
    assert deviance(target, target) == (0.0 if target >= 1e-3 else deviance(1e-3, target))


@given(st.floats(-1e6, 1e-3, exclude_max=True), st.floats(0, 100))
def test_a_forecast_below_a_thousandth_counts_as_that_and_teaches_nothing(
    forecast: float, target: float
) -> None:
    assert deviance(forecast, target) == deviance(1e-3, target)
    assert math.isfinite(deviance(forecast, target))
    guess = torch.full((1, 1, 1), forecast, dtype=torch.float64, requires_grad=True)
    sum_deviance(
        guess, torch.full_like(guess, target), torch.ones(1, 1, 1, dtype=torch.bool)
    ).backward()
    assert guess.grad is not None
    assert guess.grad.item() == 0.0


def test_deviance_leaves_out_missing_targets() -> None:
    forecast, target, observed = draw(8)
    forecast = forecast.abs() + 0.1
    wild = torch.where(observed, forecast, 1e9)
    assert sum_deviance(wild, target, observed) == sum_deviance(forecast, target, observed)
    parts = [sum_deviance(forecast[:, s], target[:, s], observed[:, s]) for s in ([0, 1], [2])]
    rest = sum_deviance(forecast[:, 3:], target[:, 3:], observed[:, 3:])
    whole = sum_deviance(forecast, target, observed)
    torch.testing.assert_close(parts[0] + parts[1] + rest, whole)


def test_the_mean_of_rare_counts_has_the_lowest_deviance() -> None:
    target = torch.poisson(
        torch.full((1, 4000, 1), 0.3), generator=torch.Generator().manual_seed(2)
    ).double()
    observed = torch.ones_like(target, dtype=torch.bool)
    grid = torch.linspace(0.05, 1.0, 191, dtype=torch.float64)
    losses = [sum_deviance(x.expand_as(target), target, observed).item() for x in grid]
    assert grid[int(np.argmin(losses))].item() == pytest.approx(target.mean().item(), abs=0.005)


def test_pinball_loss_weighs_errors_above_and_below_a_quantile() -> None:
    target = torch.tensor([[[3.0, 5.0]]])
    quantiles = torch.tensor([[[[1.0, 9.0]], [[4.0, 5.0]]]])  # two levels
    observed = torch.ones(1, 1, 2, dtype=torch.bool)
    actual = sum_pinball(quantiles, target, observed, torch.tensor([0.25, 0.9]))
    # 0.25 · 2 + 0.75 · 4 of the first level, 0.1 · 1 + 0 of the second
    assert actual.item() == pytest.approx(3.6)


def test_pinball_loss_is_lowest_at_the_quantile_and_leaves_out_missing_targets() -> None:
    generator = torch.Generator().manual_seed(3)
    target = torch.rand(1, 4001, 1, generator=generator)
    observed = torch.ones_like(target, dtype=torch.bool)
    observed[0, 4000], target[0, 4000] = False, 1e9
    level = torch.tensor([0.3])
    grid = torch.linspace(0.1, 0.9, 81)
    losses = [sum_pinball(q.expand(1, 1, 4001, 1), target, observed, level).item() for q in grid]
    assert grid[int(np.argmin(losses))].item() == pytest.approx(0.3, abs=0.021)


def test_pinball_gradient_is_that_of_the_plain_expression_to_the_bit() -> None:
    generator = torch.Generator().manual_seed(5)
    levels = torch.tensor([0.125, 0.5, 0.875])  # all numbers here are exact in binary
    target = torch.randint(0, 4, SHAPE, generator=generator).float()
    observed = torch.rand(SHAPE, generator=generator) < 0.8
    numbers = torch.randint(0, 256, (5, 3, 7, 3), generator=generator) / 64
    ties = torch.rand(numbers.shape, generator=generator) < 0.3
    quantiles = torch.where(ties, target[:, None], numbers).requires_grad_()
    difference = torch.where(observed[:, None], target[:, None] - quantiles, 0.0)
    alpha = levels[:, None, None]
    plain = torch.maximum(alpha * difference, (alpha - 1) * difference).sum(dtype=torch.float64)
    actual = sum_pinball(quantiles, target, observed, levels)
    assert actual.item() == pytest.approx(plain.item(), rel=1e-12)
    expected, gradient = (
        torch.autograd.grad(total / 256, quantiles)[0] for total in (plain, actual)
    )
    assert torch.equal(gradient, expected)


def test_pinball_gradient_is_the_slope_of_the_loss() -> None:
    forecast, target, observed = draw(7)
    steps = torch.tensor([-1.0, 0.5], dtype=torch.float64)[:, None, None]
    quantiles = (forecast[:, None] + steps).requires_grad_()
    levels = torch.tensor([0.25, 0.75], dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda q: sum_pinball(q, target, observed, levels), (quantiles,)
    )
