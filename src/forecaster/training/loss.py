"""The loss as sums and counts, which add up exactly over micro-batches and processes."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

LEAST_COUNT = 1e-3  # that a forecast of counts is taken for
NORMAL_COUNT = 10.0  # counts, from which Poisson's distribution is nearly a normal one
TINY = 1e-30


def count_terms(
    target: Float[Tensor, "N B K"], observed: Bool[Tensor, "N B K"], mape_cut: float
) -> Float64[Tensor, "2"]:
    """The number of targets that count for RMSE, and for MAPE."""
    counted = observed & (target >= mape_cut)
    return torch.stack([observed.count_nonzero(), counted.count_nonzero()]).double()


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
    return torch.stack([_total(error.square()), _total(share)])


def _total(terms: Float[Tensor, "N B K"]) -> Float64[Tensor, ""]:
    """Σ in double precision; over the steps of a window, which are few, in that of the terms."""
    return terms.sum(dim=2).sum(dtype=torch.float64)


def sum_deviance(
    forecast: Float[Tensor, "N B K"],
    target: Float[Tensor, "N B K"],
    observed: Bool[Tensor, "N B K"],
) -> Float64[Tensor, ""]:
    """Σ 2 ∫ (x − t) / V(t) dt from x̂ > 0 to x, over observed targets, with V(t) = min(t, 10).

    Where less than 10 is expected, this is the deviance of Poisson counts; beyond, squares (over
    10). So the mean of rare counts is learned as their likelihood wants, and that of busy
    locations for the lowest RMSE. Differentiable in the forecast only.
    """
    deviance: Tensor = _Deviance.apply(forecast, target, observed)  # type: ignore[no-untyped-call]
    return deviance


class _Deviance(torch.autograd.Function):
    """The deviance, and its gradient −2 (x − x̂) / V(x̂).

    With r = min(t, 10) and b = t − r, the integral is x log(r_x / r_x̂) − r_x + r_x̂ +
    ((b_x − b_x̂)² / 2 + b_x̂ (10 − r_x)) / 10. Few arrays are made: at long horizons their memory
    takes longer than the arithmetic.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        forecast, target, observed = inputs
        is_missing = ~observed
        positive = forecast.clamp(min=LEAST_COUNT)  # rounding may leave 0
        variance = positive.clamp(max=NORMAL_COUNT)
        gradient = (positive - target).mul_(2).div_(variance)
        gradient.masked_fill_(is_missing.logical_or(forecast < LEAST_COUNT), 0.0)
        ctx.save_for_backward(gradient)
        beyond, rare = positive.sub_(variance), target.clamp(max=NORMAL_COUNT)
        deviance = (target - rare).sub_(beyond).square_().div_(2)
        deviance.addcmul_(beyond, NORMAL_COUNT - rare).div_(NORMAL_COUNT)
        deviance.add_(variance).sub_(rare)
        logarithm = rare.div_(variance).clamp_(min=TINY).log_()  # times 0 at x = 0
        deviance.addcmul_(logarithm, target).masked_fill_(is_missing, 0.0)
        return 2 * _total(deviance)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0].to(gradient.dtype), None, None


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
        ctx.save_for_backward(*inputs)
        sums, is_missing, difference = [], ~observed, torch.empty_like(target)
        for quantile, alpha in zip(quantiles.unbind(dim=1), levels, strict=True):
            torch.sub(target, quantile, out=difference).masked_fill_(is_missing, 0.0)
            whole = _total(difference)
            sums.append(alpha * whole - _total(difference.clamp_(max=0.0)))
        return torch.stack(sums).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        quantiles, target, observed, levels = ctx.saved_tensors
        is_missing, gradient = ~observed, torch.empty_like(quantiles)
        half = grads[0].to(quantiles.dtype) / 2
        by_level = zip(quantiles.unbind(dim=1), gradient.unbind(dim=1), levels, strict=True)
        for quantile, slope, alpha in by_level:  # ½ − α, and ± ½ beside x
            torch.sub(quantile, target, out=slope).sign_()
            slope.add_(1 - 2 * alpha).mul_(half).masked_fill_(is_missing, 0.0)
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
