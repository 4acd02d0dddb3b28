"""The context of coming steps: weather and calendar of a step act on the forecast of that step."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, linear

from forecaster.models.layers.linear import draw_dense

LONG_HORIZON = 12  # coming steps; beyond them, each step has its context
CONTEXT = 32  # numbers that describe a coming step


class StepContext(nn.Module):
    """(S z) · e_k for every coming step k, with e_k = E' gelu(E a_{t+k} + p_k).

    e_k describes the weather and calendar of step k to all locations; S z is what concerns a
    location of it. One map from the covariates of all steps at once would have to learn what a
    holiday does for each step ahead anew.
    """

    def __init__(self, hidden: int, auxiliary: int, horizon: int, generator: Generator) -> None:
        """Start without effect: S is zero.

        Args:
            hidden: numbers of a location's state z.
            auxiliary: covariates of all locations, of one step.
            horizon: number of coming steps.
            generator: for drawing weights.
        """
        super().__init__()
        self.inner = draw_dense(auxiliary, hidden, True, generator)  # E
        self.outer = draw_dense(hidden, CONTEXT, False, generator)  # E'
        self.step = nn.Parameter(torch.zeros(horizon, hidden))  # p
        self.interest = nn.Parameter(torch.zeros(CONTEXT, hidden))  # S

    def forward(
        self, z: Float[Tensor, "N B H"], auxiliary: Float[Tensor, "A B K"]
    ) -> Float[Tensor, "N B K"]:
        inner = gelu(linear(auxiliary.permute(1, 2, 0), self.inner) + self.step)
        context = linear(inner, self.outer)  # [B, K, c]
        interest = linear(z, self.interest).transpose(0, 1)  # [B, N, c]
        return (interest @ context.transpose(1, 2)).transpose(0, 1)
