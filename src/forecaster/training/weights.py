"""All weights of a network as one vector, and their gradient as another.

Clipping, averaging, the exchange between processes and a checkpoint are then one line each.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.choices import Precision
from forecaster.errors import name_some

HEAD = "quantiles."  # in the names of the quantile head's parameters, which come last
LINE = 64  # bytes: every parameter is aligned to a multiple of it


@dataclass(frozen=True)
class ParameterSlice:
    """The slice of the vector that holds a parameter."""

    start: int
    shape: torch.Size

    def view(self, vector: Float[Tensor, " W"]) -> Float[Tensor, "..."]:
        """The parameter as a view of a vector like it."""
        return vector[self.start : self.start + self.shape.numel()].view(self.shape)


class Weights:
    """The weights as the optimiser updates them, and as the network computes with them.

    Both are the same memory, except that a network in bf16 computes with a rounded copy.
    """

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        """Make the parameters of a network views of one vector, until `release`."""
        self.network = network
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        first = next(iter(named.values()))
        self.slices, length = _lay_out(named, LINE // first.element_size())
        self.vector, self.gradient = first.new_zeros(2, length).unbind()
        for name, part in self.slices.items():
            part.view(self.vector).copy_(named[name].detach())
        self._head_start = next(
            (part.start for n, part in self.slices.items() if HEAD in n), length
        )
        self._network_weights, self._network_gradient = self.vector, self.gradient
        self._buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        if precision == "bf16":
            network.to(torch.bfloat16)
            self._network_weights = self.vector.to(torch.bfloat16)
            self._network_gradient = torch.zeros_like(self._network_weights)
        self._parameters = list(named.values())
        for name, part in self.slices.items():
            named[name].data = part.view(self._network_weights)

    def parts(self, vector: Float[Tensor, " W"]) -> list[Tensor]:
        """Views of the forecast's weights and of the quantile head's, if there is one.

        Each is clipped and updated by itself, so that the forecast trains as it would alone.
        """
        return [
            part for part in (vector[: self._head_start], vector[self._head_start :]) if len(part)
        ]

    def update_network(self) -> None:
        """Round the weights into the copy of a bf16 network; nothing to do otherwise."""
        if self._network_weights is not self.vector:
            self._network_weights.copy_(self.vector)

    def zero_gradient(self) -> None:
        """Set the summed gradient to zero."""
        self._network_gradient.zero_()

    def backward(self, loss: Float[Tensor, ""]) -> None:
        """Add the gradient of a loss to the sum, for all parameters in one launch."""
        gradients = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        torch._foreach_add_(
            [part.view(self._network_gradient) for part in self.slices.values()], gradients
        )

    def collect_gradient(self) -> Float[Tensor, " W"]:
        """The gradient summed since `zero_gradient`."""
        if self._network_gradient is not self.gradient:
            self.gradient.copy_(self._network_gradient)
        return self.gradient

    def name_non_finite(self, vector: Float[Tensor, " W"]) -> str:
        """Name the first parameters with NaN or infinity in a vector; empty if there are none."""
        wrong = (n for n, part in self.slices.items() if not part.view(vector).isfinite().all())
        return name_some(wrong)

    def release(self) -> dict[str, np.ndarray]:
        """Copy the weights back into separate parameters; return the state_dict as arrays."""
        self.network.to(self.vector.dtype)
        for name, parameter in self.network.named_parameters():
            if name in self.slices:
                parameter.data = self.slices[name].view(self.vector).clone()
        for name, buffer in self.network.named_buffers():
            buffer.data = self._buffers[name]  # as before bf16 rounded them
        state = self.network.state_dict()
        return {name: tensor.cpu().numpy().copy() for name, tensor in state.items()}


def _lay_out(named: dict[str, nn.Parameter], line: int) -> tuple[dict[str, ParameterSlice], int]:
    """The slice of each parameter, and the length of the vector."""
    slices, length = {}, 0
    for name, parameter in named.items():
        slices[name] = ParameterSlice(length, parameter.shape)
        length += -(-parameter.numel() // line) * line
    return slices, length
