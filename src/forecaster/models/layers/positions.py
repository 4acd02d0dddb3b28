"""Positional encoding: adds the step's position in the window to its state (section 2.4)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.choices import PositionKind
from forecaster.models.layers.neurons import NeuronLayout, State


class Positions(nn.Module):
    """x_t + p_t, fixed sinusoids of the first `steps` positions.

    Differs: every location gets the same sinusoid over its own neurons and the auxiliary neurons
    one of their own ("location"). One sinusoid over all neurons, as the original Transformer has
    ("literal"), hardly varies beyond the first locations, and depends on their order.
    """

    def __init__(self, layout: NeuronLayout, steps: int, kind: PositionKind) -> None:
        super().__init__()
        if kind == "location":
            C, A = layout.per_location, layout.auxiliary
            table = State(sinusoid(C, steps)[None, :, None], sinusoid(A, steps)[:, None])
        else:
            table = layout.split(sinusoid(layout.width, steps)[:, None])
        self.signal: Tensor
        self.auxiliary: Tensor
        self.register_buffer("signal", table.signal, persistent=False)  # [1 or N, C, 1, T]
        self.register_buffer("auxiliary", table.auxiliary, persistent=False)

    def forward(self, x: State, first: int) -> State:
        steps = slice(first, first + x.signal.shape[-1])
        signal, auxiliary = self.signal[..., steps], self.auxiliary[..., steps]
        return State(x.signal + signal, x.auxiliary + auxiliary)


def sinusoid(width: int, steps: int) -> Float[Tensor, "width steps"]:
    """Return sin(t / 10000^(2i/width)) in neuron 2i and cos(…) in neuron 2i + 1."""
    neuron = torch.arange(width)
    rate = 10_000.0 ** (-(neuron - neuron % 2) / width)
    angle = rate[:, None] * torch.arange(steps)
    return torch.where(neuron[:, None] % 2 == 0, angle.sin(), angle.cos())
