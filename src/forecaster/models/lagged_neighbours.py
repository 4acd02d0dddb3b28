"""Neighbours of `best` along lagged edges, at the lags where they tell."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from forecaster.config import LagConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product


@dataclass(frozen=True, eq=False)
class LaggedEdges:
    """The edges of a directed graph: the past of the source tells about the target."""

    pairs: Int64[np.ndarray, "E 2"]  # source, target
    delays: Int64[np.ndarray, " E"]  # steps
    strengths: Float64[np.ndarray, " E"]


class LaggedNeighbours(nn.Module):
    """Σ_e Σ_l w_{e,k,l} r_{j,t−l}: what is on its way to a location along its lagged edges.

    Of an edge from j with delay d and strength s, the step t + k has s · r_{j,t+k−d}: known at the
    origin for k ≤ d. So the weights begin; training may use the other recent steps too.
    """

    def __init__(self, pattern: BlockPattern, edges: LaggedEdges, recent: int, ahead: int) -> None:
        super().__init__()
        self.pattern = pattern
        weight = torch.zeros(pattern.n_edges, ahead, recent)
        codes = pattern.target * pattern.n_locations + pattern.source
        source, target = torch.from_numpy(edges.pairs).unbind(dim=1)
        block = torch.searchsorted(codes, target * pattern.n_locations + source)
        delays, strengths = torch.from_numpy(edges.delays), torch.from_numpy(edges.strengths)
        for k in range(1, ahead + 1):
            known = (delays >= k) & (delays - k < recent)
            weight[block[known], k - 1, recent - 1 + k - delays[known]] = strengths[known].float()
        self.weight = nn.Parameter(weight)

    def forward(self, recent: Float[Tensor, "N B R"]) -> Float[Tensor, "N B k"]:
        arriving: Float[Tensor, "N k B"] = block_product(
            self.weight, recent.transpose(1, 2).contiguous(), self.pattern
        )
        return arriving.transpose(1, 2)


def arrivals(lags: LagConfig, edges: LaggedEdges) -> int:
    """For how many coming steps something is on its way along lagged edges."""
    return min(lags.horizon, int(edges.delays.max(initial=0)))
