"""The quantile head: quantiles beside the forecast, without changing it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, linear, softplus

from forecaster.models.layers.linear import draw_dense
from forecaster.models.layers.neurons import LinearFactory, NeuronLayout, State

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


class LocationQuantileHead(nn.Module):
    """q_α from the last hidden state z of each location and the forecast, by shared weights.

    h = W_2 gelu(W_1 z + b_1), in units of the location's spread, if that is known.
    """

    def __init__(
        self, levels: Sequence[float], hidden: int, horizon: int, generator: Generator
    ) -> None:
        super().__init__()
        self.levels, self.horizon = tuple(levels), horizon
        self.middle = median_index(levels)
        self.inner = draw_dense(hidden, hidden, True, generator)
        # Zeros: training starts from the forecast and the usual spread, not from chance.
        self.outer = nn.Parameter(torch.zeros(len(levels) * horizon, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(
        self,
        z: Float[Tensor, "N B H"],
        forecast: Float[Tensor, "N B K"],
        spread: Float[Tensor, "N B K"] | float = 1.0,
    ) -> Float[Tensor, "N Q B K"]:
        inner = gelu(linear(z.detach(), self.inner, self.bias))
        h = linear(inner, self.outer).view(*z.shape[:2], len(self.levels), self.horizon)
        return stack_quantiles(forecast.detach(), h.transpose(1, 2), self.middle, spread)


def stack_quantiles(
    forecast: Float[Tensor, "N B T"],
    h: Float[Tensor, "N Q B T"],
    middle: int,
    unit: Float[Tensor, "N B T"] | float = 1.0,
) -> Float[Tensor, "N Q B T"]:
    """Non-crossing quantiles: x̂ + h at the median level, then up and down by log(1 + e^h).

    No gradient flows back into the forecast and the unit of h.
    """
    quantiles: Tensor = _Stack.apply(h, forecast, unit, middle)  # type: ignore[no-untyped-call]
    return quantiles


class _Stack(torch.autograd.Function):
    """The quantiles level by level, each written once, and the gradient of h.

    A level carries all levels beyond it: its gradient is the sum of theirs, g. That of h is g at
    the median level, and ± g / (1 + e^−h) beyond, in the unit of h.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        h, forecast, unit, middle = inputs
        ctx.save_for_backward(h, *(part for part in (unit,) if isinstance(part, Tensor)))
        ctx.unit, ctx.middle = None if isinstance(unit, Tensor) else unit, middle
        by_level = h.unbind(dim=1)
        first = forecast + by_level[middle] * unit
        stacked: Tensor = first.new_empty(h.shape)
        quantiles = stacked.unbind(dim=1)
        quantiles[middle].copy_(first)
        for n in range(middle + 1, len(by_level)):
            torch.add(quantiles[n - 1], softplus(by_level[n]).mul_(unit), out=quantiles[n])
        for n in reversed(range(middle)):
            torch.sub(quantiles[n + 1], softplus(by_level[n]).mul_(unit), out=quantiles[n])
        return stacked

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, *saved = ctx.saved_tensors
        unit, middle = saved[0] if saved else ctx.unit, ctx.middle
        by_level, of_quantiles = h.unbind(dim=1), grads[0].unbind(dim=1)
        gradient = torch.empty_like(h)  # in the layout of h: a product before it reads it as it is
        carried = of_quantiles[middle]
        for outwards, sign in ((range(middle), -1), (range(len(by_level) - 1, middle, -1), 1)):
            g = None
            for n in outwards:
                g = of_quantiles[n] if g is None else of_quantiles[n] + g
                above = (g * unit).mul_(sign)
                gradient[:, n] = torch.ops.aten.softplus_backward(above, by_level[n], 1, 20)
            carried = carried if g is None else carried + g
        gradient[:, middle] = carried * unit
        return gradient, None, None, None


def median_index(levels: Sequence[float]) -> int:
    """The index of the level nearest to 0.5."""
    return min(range(len(levels)), key=lambda number: abs(levels[number] - MIDDLE))
