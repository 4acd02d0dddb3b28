"""The loss as sums and counts, which add up exactly over micro-batches and processes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

LEAST_COUNT = 1e-3  # that a forecast of counts is taken for
NORMAL_COUNT = 10.0  # counts, from which Poisson's distribution is nearly a normal one


def count_terms(
    target: Float[Tensor, "N B K"], observed: Bool[Tensor, "N B K"], mape_cut: float
) -> Float64[Tensor, "2"]:
    """The number of targets that count for RMSE, and for MAPE."""
    counted = observed & (target >= mape_cut)
    return torch.stack([observed.sum(), counted.sum()]).double()


def sum_errors(
    forecast: Float[Tensor, "N B K"],
    relative: Float[Tensor, "N B K"],
    target: Float[Tensor, "N B K"],
    observed: Bool[Tensor, "N B K"],
    mape_cut: float,
) -> Float64[Tensor, "2"]:
    """Σ (x̂ − x)² over observed targets and Σ |x̂ − x| / x over those ≥ the cut (Eq. 6).

    Differs: squares are of the forecast, relative errors of the output for them. A network
    without such an output has one x̂ for both, as printed.
    """
    error = torch.where(observed, forecast - target, 0.0)
    counted = observed & (target >= mape_cut)
    difference = torch.where(observed, relative - target, 0.0)
    share = difference.abs() / torch.where(counted, target, torch.inf)
    return torch.stack([error.square().sum(dtype=torch.float64), share.sum(dtype=torch.float64)])


def sum_deviance(
    forecast: Float[Tensor, "N B K"],
    target: Float[Tensor, "N B K"],
    observed: Bool[Tensor, "N B K"],
) -> Float64[Tensor, ""]:
    """Σ 2 ∫ (x − t) / V(t) dt from x̂ > 0 to x, over observed targets, with V(t) = min(t, 10).

    Where less than 10 is expected, this is the deviance of Poisson counts; beyond, squares (over
    10). So the mean of rare counts is learned as their likelihood wants, and that of busy
    locations for the lowest RMSE.
    """
    positive = forecast.clamp(min=LEAST_COUNT)  # rounding may leave 0
    deviance = 2 * (_integral(target, target) - _integral(positive, target))
    return torch.where(observed, deviance, 0.0).sum(dtype=torch.float64)


def _integral(t: Float[Tensor, "N B K"], x: Float[Tensor, "N B K"]) -> Float[Tensor, "N B K"]:
    """∫ (x − t) / min(t, 10) dt up to a constant; x log t is 0 at x = 0."""
    rare = t.clamp(max=NORMAL_COUNT)
    beyond = t - rare
    poisson: Tensor = torch.special.xlogy(x, rare) - rare
    return poisson + (beyond * (x - NORMAL_COUNT) - beyond.square() / 2) / NORMAL_COUNT


def sum_pinball(
    quantiles: Float[Tensor, "N Q B K"],
    target: Float[Tensor, "N B K"],
    observed: Bool[Tensor, "N B K"],
    levels: Float[Tensor, " Q"],
) -> Float64[Tensor, ""]:
    """Σ max(α (x − q_α), (α − 1) (x − q_α)) over observed targets and levels α.

    Differentiable in the quantiles only.
    """
    inputs = quantiles, target, observed, levels
    loss: Tensor = _Pinball.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss


class _Pinball(torch.autograd.Function):
    """The loss level by level, and its gradient: −α below x, 1 − α above, their mean at x.

    Numbers of all levels at once would leave the cache at long horizons; only the gradient is as
    large as the quantiles.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        quantiles, target, observed, levels = inputs
        ctx.save_for_backward(quantiles, target, observed, levels)
        sums = []
        for quantile, alpha in zip(quantiles.unbind(dim=1), levels, strict=True):
            difference = torch.where(observed, target - quantile, 0.0)
            terms = torch.maximum(alpha * difference, (alpha - 1) * difference)
            sums.append(terms.sum(dtype=torch.float64))
        return torch.stack(sums).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        quantiles, target, observed, levels = ctx.saved_tensors
        grad = grads[0].to(torch.result_type(quantiles, target))
        below, above = -(grad * levels), -(grad * (levels - 1))
        equal = -(grad / 2 * levels + grad / 2 * (levels - 1))
        gradient = torch.empty_like(quantiles)
        for number, quantile in enumerate(quantiles.unbind(dim=1)):
            slope = torch.where(quantile < target, below[number], above[number])
            slope = torch.where(quantile == target, equal[number], slope)
            gradient[:, number] = torch.where(observed, slope, 0.0)
        return gradient, None, None, None


def join_terms(
    errors: Float64[Tensor, "2"], counts: Float64[Tensor, "2"], eta: float
) -> Float64[Tensor, ""]:
    """η · RMSE² + MAPE, in the values' units and as a fraction (Eq. 7).

    Differs: where the mean of counts is learned by their deviance, that stands for RMSE².

    Differs: missing targets, and for MAPE those below the cut, enter neither sums nor counts; a
    term without any target is 0.
    """
    mean_square, mape = (errors / counts.clamp(min=1.0)).unbind()
    return eta * mean_square + mape
