"""The block-sparse product in plain torch, for any device; the reference of all backends."""

import torch
from jaxtyping import Float
from torch import Tensor

from forecaster.kernels.pattern import BlockPattern


def forward(
    weight: Float[Tensor, "E O C"],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    bias: Float[Tensor, "N O"] | None,
    relu: bool,
) -> Float[Tensor, "N O R"]:
    """Return y_i = Σ_j W_ij x_j + b_i, with an optional ReLU."""
    y = _sum_edges(weight, state, pattern)
    if bias is not None:
        y += bias[:, :, None]
    return y.relu_() if relu else y


def state_gradient(
    grad: Float[Tensor, "N O R"], weight: Float[Tensor, "E O C"], pattern: BlockPattern
) -> Float[Tensor, "N C R"]:
    """Return ∂x_j = Σ_i W_ijᵀ ∂y_i: the product of transposed blocks along reversed edges."""
    return _sum_edges(weight[pattern.reverse].mT, grad, pattern.turned)


def weight_gradient(
    grad: Float[Tensor, "N O R"], state: Float[Tensor, "N C R"], pattern: BlockPattern
) -> Float[Tensor, "E O C"]:
    """Return ∂W_ij = ∂y_i x_jᵀ."""
    return torch.bmm(grad[pattern.target], state[pattern.source].mT)


def relu_gradient(
    grad: Float[Tensor, "N O R"], y: Float[Tensor, "N O R"]
) -> Float[Tensor, "N O R"]:
    """Return the gradient before max(·, 0): that of the outputs above zero."""
    return torch.where(y <= 0, 0, grad)  # the gradient of NaN passes, as in torch


def _sum_edges(
    weight: Float[Tensor, "E O C"], state: Float[Tensor, "N C R"], pattern: BlockPattern
) -> Float[Tensor, "N O R"]:
    y = state.new_zeros(pattern.n_locations, weight.shape[1], state.shape[2])
    return y.index_add_(0, pattern.target, torch.bmm(weight, state[pattern.source]))
