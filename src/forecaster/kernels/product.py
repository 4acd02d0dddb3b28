"""The product behind every sparse layer: y_i = Σ_{j ∈ N(i) ∪ {i}} W_ij x_j (section 2.3)."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from forecaster.errors import ConfigError, Faults, nearest_name
from forecaster.kernels import cpu, gpu, reference
from forecaster.kernels.choice import choose_backend
from forecaster.kernels.pattern import BlockPattern


def block_product(
    weight: Float[Tensor, "E O C"],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    bias: Float[Tensor, "N O"] | None = None,
    *,
    relu: bool = False,
    backend: str | None = None,
) -> Float[Tensor, "N O R"]:
    """Return y_i = Σ_{j ∈ N(i) ∪ {i}} W_ij x_j + b_i, with an optional ReLU.

    Args:
        weight: one block per edge of the pattern.
        state: location-major; R are the columns, batch × steps.
        pattern: the edges, on any device.
        bias: one per location and output neuron.
        relu: whether to apply max(·, 0) in the same pass.
        backend: one of `BACKENDS`; None takes the best for the state's device and data type.
    """
    _refuse_misfits(weight, state, pattern, bias)
    inputs = weight, state, bias, pattern.to(state.device), relu, _choose(backend, state)
    return _BlockProduct.apply(*inputs)  # type: ignore[no-any-return, no-untyped-call]


def block_products(
    weights: Sequence[Float[Tensor, "E O C"]],
    state: Float[Tensor, "N C R"],
    pattern: BlockPattern,
    *,
    backend: str | None = None,
) -> tuple[Float[Tensor, "N O R"], ...]:
    """Return y_i = Σ_{j ∈ N(i) ∪ {i}} W_ij x_j of every weight, all of one shape.

    A fused backend reads the state once for all, and writes its gradient once.
    """
    for weight in weights:
        _refuse_misfits(weight, state, pattern, None)
    shapes = {tuple(weight.shape) for weight in weights}
    if len(shapes) > 1:
        raise ConfigError(f"block_products: weights of {len(shapes)} shapes {shapes}; give one")
    chosen = _choose(backend, state)
    if isinstance(chosen, FusedBackend) and 1 < len(weights) <= chosen.TOGETHER:
        inputs = state, pattern.to(state.device), chosen, *weights
        return _BlockProducts.apply(*inputs)  # type: ignore[no-any-return, no-untyped-call]
    return tuple(block_product(weight, state, pattern, backend=backend) for weight in weights)


@runtime_checkable
class Backend(Protocol):
    """The interface of a backend module; all tensors are contiguous and on one device."""

    def forward(
        self,
        weight: Float[Tensor, "E O C"],
        state: Float[Tensor, "N C R"],
        pattern: BlockPattern,
        bias: Float[Tensor, "N O"] | None,
        relu: bool,
    ) -> Float[Tensor, "N O R"]:
        """Return y_i = Σ_j W_ij x_j + b_i, with an optional ReLU."""
        ...

    def state_gradient(
        self, grad: Float[Tensor, "N O R"], weight: Float[Tensor, "E O C"], pattern: BlockPattern
    ) -> Float[Tensor, "N C R"]:
        """Return ∂x_j = Σ_i W_ijᵀ ∂y_i."""
        ...

    def weight_gradient(
        self, grad: Float[Tensor, "N O R"], state: Float[Tensor, "N C R"], pattern: BlockPattern
    ) -> Float[Tensor, "E O C"]:
        """Return ∂W_ij = ∂y_i x_jᵀ."""
        ...

    def relu_gradient(
        self, grad: Float[Tensor, "N O R"], y: Float[Tensor, "N O R"]
    ) -> Float[Tensor, "N O R"]:
        """Return the gradient before max(·, 0): that of the outputs above zero."""
        ...


@runtime_checkable
class FusedBackend(Protocol):
    """A backend that computes all gradients in one pass, also of several products together."""

    TOGETHER: int  # largest number of products of one state

    def forward(
        self,
        weight: Float[Tensor, "E O C"],
        state: Float[Tensor, "N C R"],
        pattern: BlockPattern,
        bias: Float[Tensor, "N O"] | None,
        relu: bool,
    ) -> Float[Tensor, "N O R"]:
        """Return y_i = Σ_j W_ij x_j + b_i, with an optional ReLU."""
        ...

    def gradients(
        self,
        grad: Float[Tensor, "N O R"],
        weight: Float[Tensor, "E O C"],
        state: Float[Tensor, "N C R"],
        y: Float[Tensor, "N O R"] | None,
        pattern: BlockPattern,
        needed: tuple[bool, bool, bool],
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the needed ones of ∂W, ∂x and ∂b; y is given if a ReLU was applied."""
        ...

    def forward_together(
        self,
        weights: Sequence[Float[Tensor, "E O C"]],
        state: Float[Tensor, "N C R"],
        pattern: BlockPattern,
    ) -> tuple[Float[Tensor, "N O R"], ...]:
        """Return y_i = Σ_j W_ij x_j of every weight."""
        ...

    def gradients_together(
        self,
        grads: Sequence[Float[Tensor, "N O R"]],
        weights: Sequence[Float[Tensor, "E O C"]],
        state: Float[Tensor, "N C R"],
        pattern: BlockPattern,
        needed: tuple[bool, bool],
    ) -> tuple[tuple[Tensor | None, ...], Tensor | None]:
        """Return ∂W of every weight and ∂x, summed over the weights; None if not needed."""
        ...


BACKENDS: dict[str, Backend | FusedBackend] = {
    "numba": cpu,
    "triton": gpu,
    "reference": reference,
}


class _BlockProduct(torch.autograd.Function):
    """The product with the needed gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        weight, state, bias, pattern, relu, backend = inputs
        weight, state = weight.contiguous(), state.contiguous()
        bias = None if bias is None else bias.contiguous()
        y: Tensor = backend.forward(weight, state, pattern, bias, relu)
        ctx.save_for_backward(weight, state, y if relu else None)
        ctx.pattern, ctx.backend = pattern, backend
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, state, y = ctx.saved_tensors
        backend, pattern, grad = ctx.backend, ctx.pattern, grads[0].contiguous()
        needed = ctx.needs_input_grad[:3]
        if isinstance(backend, FusedBackend):
            gradients = backend.gradients(grad, weight, state, y, pattern, needed)
            return *gradients, None, None, None
        if y is not None:
            grad = backend.relu_gradient(grad, y)
        for_weight, for_state, for_bias = needed
        return (
            backend.weight_gradient(grad, state, pattern) if for_weight else None,
            backend.state_gradient(grad, weight, pattern) if for_state else None,
            grad.sum(dim=2) if for_bias else None,
            *(None,) * 3,
        )


class _BlockProducts(torch.autograd.Function):
    """Several products of one state with the needed gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        state, pattern, backend, *weights = inputs
        state, weights = state.contiguous(), [weight.contiguous() for weight in weights]
        ctx.save_for_backward(state, *weights)
        ctx.pattern, ctx.backend = pattern, backend
        ys: tuple[Tensor, ...] = backend.forward_together(weights, state, pattern)
        return ys

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        state, *weights = ctx.saved_tensors
        for_state, _, _, *for_weights = ctx.needs_input_grad
        dw, dx = ctx.backend.gradients_together(
            [grad.contiguous() for grad in grads],
            weights,
            state,
            ctx.pattern,
            (any(for_weights), for_state),
        )
        return dx, None, None, *dw


def _choose(name: str | None, state: Tensor) -> Backend | FusedBackend:
    name = name or choose_backend(state.device, state.dtype)
    if name not in BACKENDS:
        hint = nearest_name(name, list(BACKENDS))
        raise ConfigError(f"unknown backend {name!r}{hint}; choose one of {', '.join(BACKENDS)}")
    return BACKENDS[name]


def _refuse_misfits(
    weight: Tensor, state: Tensor, pattern: BlockPattern, bias: Tensor | None
) -> None:
    """Raise one error that lists all mismatched shapes, types and devices."""
    faults = Faults("block_product")
    N, E, outputs = pattern.n_locations, pattern.n_edges, weight.shape[1]
    if len(state) != N:
        faults.add(f"the state has {len(state)} locations, the pattern {N}")
    if len(weight) != E:
        faults.add(f"the weight has {len(weight)} blocks, the pattern {E} edges (self included)")
    if weight.shape[2] != state.shape[1]:
        faults.add(f"blocks read {weight.shape[2]} neurons, locations have {state.shape[1]}")
    if bias is not None and bias.shape != (N, outputs):
        faults.add(f"the bias is {list(bias.shape)}, not locations × outputs {[N, outputs]}")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and (tensor.dtype, tensor.device) != (state.dtype, state.device):
            kind = f"{tensor.dtype} on {tensor.device}"
            faults.add(f"the {name} is {kind}, the state {state.dtype} on {state.device}")
    faults.raise_any(ConfigError)
