"""All weights of a network as one vector, and their gradient as another.

With them clipping, averaging, the exchange between processes and a checkpoint are a line each.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.choices import Precision
from forecaster.errors import name_some

HEAD = "quantiles."  # in the names of its parameters, which are the last ones
LINE = 64  # bytes: every parameter begins at a multiple, as kernels like it


@dataclass(frozen=True)
class ParameterSlice:
    """Where a parameter lies in the vector."""

    start: int
    shape: torch.Size

    def of(self, vector: Float[Tensor, " W"]) -> Float[Tensor, "..."]:
        """Return a view of the parameter."""
        return vector[self.start : self.start + self.shape.numel()].view(self.shape)


class Weights:
    """The weights, which the optimiser moves, and the numbers that the network computes with.

    These are the same memory, except that a network in bf16 has a rounded copy of its own.
    """

    def __init__(self, network: nn.Module, precision: Precision) -> None:
        """Make the parameters of a network views of one vector, until `release`."""
        self.network = network
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        first = next(iter(named.values()))
        self.places, length = _lay_out(named, LINE // first.element_size())
        self.vector, self.gradient = first.new_zeros(2, length).unbind()
        for name, place in self.places.items():
            place.of(self.vector).copy_(named[name].detach())
        self._apart = next((p.start for n, p in self.places.items() if HEAD in n), length)
        self._numbers, self._slopes = self.vector, self.gradient
        self._buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
        if precision == "bf16":
            network.to(torch.bfloat16)
            self._numbers = self.vector.to(torch.bfloat16)
            self._slopes = torch.zeros_like(self._numbers)
        self._parameters = list(named.values())
        for name, place in self.places.items():
            named[name].data = place.of(self._numbers)

    def parts(self, vector: Float[Tensor, " W"]) -> list[Tensor]:
        """Return views of the forecast's weights and, if there is one, of the quantile head's.

        Each is clipped and moved by itself, so that the forecast learns as it would alone.
        """
        return [part for part in (vector[: self._apart], vector[self._apart :]) if len(part)]

    def show(self) -> None:
        """Let the network compute with the weights as they are now."""
        if self._numbers is not self.vector:
            self._numbers.copy_(self.vector)

    def clear_gradient(self) -> None:
        """Forget what was summed up."""
        self._slopes.zero_()

    def differentiate(self, loss: Float[Tensor, ""]) -> None:
        """Add the gradient of a loss to what is summed up, all parameters' in one launch."""
        found = torch.autograd.grad(loss, self._parameters, materialize_grads=True)
        torch._foreach_add_([place.of(self._slopes) for place in self.places.values()], found)

    def collect_gradient(self) -> Float[Tensor, " W"]:
        """Return what was summed up since it was cleared."""
        if self._slopes is not self.gradient:
            self.gradient.copy_(self._slopes)
        return self.gradient

    def name_non_finite(self, vector: Float[Tensor, " W"]) -> str:
        """Return the first few parameters that hold NaN or infinity in a vector; none: empty."""
        wrong = (n for n, place in self.places.items() if not place.of(vector).isfinite().all())
        return name_some(wrong)

    def release(self) -> dict[str, np.ndarray]:
        """Give the network parameters of its own again, and return all it remembers by name."""
        self.network.to(self.vector.dtype)
        for name, parameter in self.network.named_parameters():
            if name in self.places:
                parameter.data = self.places[name].of(self.vector).clone()
        for name, buffer in self.network.named_buffers():
            buffer.data = self._buffers[name]  # what bf16 rounded away does not come back
        state = self.network.state_dict()
        return {name: tensor.cpu().numpy().copy() for name, tensor in state.items()}


def _lay_out(named: dict[str, nn.Parameter], line: int) -> tuple[dict[str, ParameterSlice], int]:
    """Return where each parameter goes, and how long the vector is."""
    places, length = {}, 0
    for name, parameter in named.items():
        places[name] = ParameterSlice(length, parameter.shape)
        length += -(-parameter.numel() // line) * line
    return places, length
