"""The loss as sums and counts, which add up exactly over micro-batches and processes."""

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

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
    rare, beyond = t.clamp(max=NORMAL_COUNT), (t - NORMAL_COUNT).clamp(min=0)
    poisson: Tensor = torch.special.xlogy(x, rare) - rare
    return poisson + (beyond * (x - NORMAL_COUNT) - beyond.square() / 2) / NORMAL_COUNT


def sum_pinball(
    quantiles: Float[Tensor, "N Q B K"],
    target: Float[Tensor, "N B K"],
    observed: Bool[Tensor, "N B K"],
    levels: Float[Tensor, " Q"],
) -> Float64[Tensor, ""]:
    """Σ max(α (x − q_α), (α − 1) (x − q_α)) over observed targets and levels α."""
    difference = torch.where(observed[:, None], target[:, None] - quantiles, 0.0)
    alpha = levels[:, None, None]
    return torch.maximum(alpha * difference, (alpha - 1) * difference).sum(dtype=torch.float64)


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
