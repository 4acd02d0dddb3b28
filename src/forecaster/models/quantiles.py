"""Quantiles of the coming steps, beside the forecast and without touching it."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from forecaster.models.neurons import MakeLinear, NeuronLayout, State

MIDDLE = 0.5


class QuantileHead(nn.Module):
    """q_α of each step from the decoder's last state x and the forecast x̂.

    h = W_2 max(W_1 x + b_1, 0) + b_2 has a number for each location and level. The level nearest
    0.5 is x̂ + h; those above it follow from each other by + log(1 + e^h), those below by −, so
    that they never cross. What is learned here stays here: x and x̂ are taken as they are.
    """

    def __init__(
        self, levels: Sequence[float], layout: NeuronLayout, n_locations: int, linear: MakeLinear
    ) -> None:
        super().__init__()
        self.levels = tuple(levels)
        self.middle = min(range(len(levels)), key=lambda number: abs(levels[number] - MIDDLE))
        # Where neurons belong to locations, those that do not would lead nowhere.
        hidden = replace(layout, auxiliary=0) if layout.n_locations else layout
        self.inner = linear(layout, hidden, relu=True)
        self.outer = linear(hidden, NeuronLayout(n_locations, len(levels), 0))

    def forward(self, x: State, forecast: Float[Tensor, "N B T"]) -> Float[Tensor, "N Q B T"]:
        h = self.outer(self.inner(x.each(Tensor.detach))).signal.unbind(dim=1)
        quantiles = [forecast.detach() + h[self.middle]]
        for above in h[self.middle + 1 :]:
            quantiles.append(quantiles[-1] + softplus(above))
        for below in reversed(h[: self.middle]):
            quantiles.insert(0, quantiles[0] - softplus(below))
        return torch.stack(quantiles, dim=1)
