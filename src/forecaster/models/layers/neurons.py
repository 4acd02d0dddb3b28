"""The layout of neurons: by location, auxiliary information and head (section 2.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from forecaster.errors import ConfigError
from forecaster.kernels.sample import LocationSample


@dataclass(frozen=True)
class NeuronLayout:
    """The neurons of one layer: location by location, then the auxiliary ones.

    Every head owns each H-th neuron (`split_heads`).
    """

    n_locations: int  # N
    per_location: int  # C
    auxiliary: int  # A
    heads: int = 1  # H

    def __post_init__(self) -> None:
        if self.heads < 1 or self.per_location % self.heads or self.auxiliary % self.heads:
            sizes = f"{self.per_location} neurons per location and {self.auxiliary} auxiliary ones"
            raise ConfigError(f"{self.heads} heads must divide {sizes}; change one of them")

    @property
    def signal(self) -> int:
        """The number of neurons of the spatial signal: d_signal = N·C."""
        return self.n_locations * self.per_location

    @property
    def width(self) -> int:
        """The number of all neurons: D = N·C + A."""
        return self.signal + self.auxiliary

    def split(self, neurons: Float[Tensor, "D B T"]) -> "State":
        """All neurons as a state, not copied; the inverse of `State.join`."""
        N, C = self.n_locations, self.per_location
        return State(neurons[: N * C].view(N, C, *neurons.shape[1:]), neurons[N * C :])


@dataclass(frozen=True, eq=False)
class State:
    """The neurons of one layer for B windows of T steps: location-major, so that R = B·T columns.

    Both parts are contiguous.
    """

    signal: Float[Tensor, "N C B T"]
    auxiliary: Float[Tensor, "A B T"]
    # The step of the season of each step (`Clock.slot_of_season`); None: in hidden layers, and in
    # networks that do not know what is usual.
    slots: Int64[Tensor, "B T"] | None = None
    # Which locations are open at coming steps, by their hours; None: all of them.
    open: Bool[Tensor, "N B T"] | None = None
    # Of a history in training: whose it is, where it is not of all locations.
    sample: LocationSample | None = None

    def join(self) -> Float[Tensor, "D B T"]:
        """All neurons in order: location by location, then the auxiliary ones."""
        signal = self.signal.flatten(0, 1)
        return torch.cat([signal, self.auxiliary]) if len(signal) else self.auxiliary

    def each(self, function: Callable[[Tensor], Tensor]) -> "State":
        """The state with a function applied to both parts."""
        return State(function(self.signal), function(self.auxiliary))


@runtime_checkable
class LinearFactory(Protocol):
    """Builds the linear layers of a Transformer: sparse for Forecaster, dense for the baseline."""

    def __call__(
        self, inputs: NeuronLayout, outputs: NeuronLayout, *, bias: bool = True, relu: bool = False
    ) -> nn.Module:
        """A layer that maps a State of `inputs` to a State of `outputs`."""


@runtime_checkable
class JointLinear(Protocol):
    """A linear layer that can be applied together with others of its kind."""

    def apply_with(self, layers: Sequence[nn.Module], x: State) -> tuple[State, ...]:
        """The outputs of this layer and of others for one state."""


def apply_jointly(layers: Sequence[nn.Module], x: State) -> tuple[State, ...]:
    """The output of each layer for one state, in one pass if the layers support it."""
    first, *later = layers
    if isinstance(first, JointLinear):
        return first.apply_with(later, x)
    return tuple(layer(x) for layer in layers)


def split_heads(neurons: Float[Tensor, "*neurons B T"], heads: int) -> Float[Tensor, "H B n T"]:
    """A view of each head's neurons: every H-th, an equal share of every location.

    If heads were contiguous runs of neurons, the first one would see the first locations only.
    """
    B, T = neurons.shape[-2:]
    per_head = neurons.shape[:-2].numel() // heads
    return neurons.view(per_head, heads, B, T).permute(1, 2, 0, 3)
