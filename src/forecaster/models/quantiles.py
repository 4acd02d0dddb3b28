"""The quantile head: quantiles beside the forecast, without changing it."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from forecaster.models.neurons import LinearFactory, NeuronLayout, State

MIDDLE = 0.5


class QuantileHead(nn.Module):
    """q_α of each step from the decoder's last state x and the forecast x̂.

    h = W_2 max(W_1 x + b_1, 0) + b_2 has a number for each location and level. The level nearest
    0.5 is x̂ + h; those above it follow from each other by + log(1 + e^h), those below by −, so
    that they never cross. No gradient flows back into x and x̂. W_2 and b_2 start at zero.
    """

    def __init__(
        self,
        levels: Sequence[float],
        layout: NeuronLayout,
        n_locations: int,
        linear: LinearFactory,
    ) -> None:
        super().__init__()
        self.levels = tuple(levels)
        self.middle = median_index(levels)
        # The auxiliary neurons of a sparse layer would not reach any location.
        hidden = replace(layout, auxiliary=0) if layout.n_locations else layout
        self.inner = linear(layout, hidden, relu=True)
        self.outer = linear(hidden, NeuronLayout(n_locations, len(levels), 0))
        for weights in self.outer.parameters():
            nn.init.zeros_(weights)  # training starts from the forecast, not from chance

    def forward(self, x: State, forecast: Float[Tensor, "N B T"]) -> Float[Tensor, "N Q B T"]:
        h: State = self.outer(self.inner(x.each(Tensor.detach)))
        return stack_quantiles(forecast.detach(), h.signal, self.middle)


def stack_quantiles(
    forecast: Float[Tensor, "N B T"],
    h: Float[Tensor, "N Q B T"],
    middle: int,
    unit: Float[Tensor, "N B T"] | float = 1.0,
) -> Float[Tensor, "N Q B T"]:
    """Non-crossing quantiles: x̂ + h at the median level, then up and down by log(1 + e^h)."""
    by_level = h.unbind(dim=1)
    quantiles = [forecast + by_level[middle] * unit]
    for above in by_level[middle + 1 :]:
        quantiles.append(quantiles[-1] + softplus(above) * unit)
    for below in reversed(by_level[:middle]):
        quantiles.insert(0, quantiles[0] - softplus(below) * unit)
    return torch.stack(quantiles, dim=1)


def median_index(levels: Sequence[float]) -> int:
    """The index of the level nearest to 0.5."""
    return min(range(len(levels)), key=lambda number: abs(levels[number] - MIDDLE))
