"""The linear part of `best` over a directed graph: what recent deviations say by themselves."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.config import LagConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product
from forecaster.kernels.sample import LocationSample


class LinearForecast(nn.Module):
    """r̂_{i,t+k} = Σ_{j ∈ N(i) ∪ {i}} Σ_l w_ijkl r_{j,t−l} + Σ_f Σ_l b_ifkl f_{t−l}.

    N(i) are the sources of i in the graph, f the factors of the city. There is no forecast beyond
    as many coming steps as recent ones are seen. Weights are 0 until they are fitted
    (`estimators.networks.linear_start`) or loaded.
    """

    def __init__(self, pattern: BlockPattern, lags: LagConfig, factors: int) -> None:
        super().__init__()
        self.pattern, self.recent, self.ahead = pattern, lags.recent, steps_ahead(lags)
        shape = self.ahead, self.recent
        self.edges = nn.Parameter(torch.zeros(pattern.n_edges, *shape))
        self.loadings = nn.Parameter(
            torch.zeros(pattern.n_locations, self.ahead, factors * shape[1])
        )

    def forward(
        self,
        recent: Float[Tensor, "N B R"],
        factors: Float[Tensor, "F B R"],
        known: Float[Tensor, "n b 1"] | None,
        sample: LocationSample | None = None,
    ) -> Float[Tensor, "n B k"]:
        """Return r̂ of the first coming steps.

        Args:
            recent: deviations of the last steps, as others see them.
            factors: of the city, at the same steps.
            known: how well training knows each location; one that it does not has no loadings.
            sample: whose deviations these are, where they are not of all locations; the
                forecasts, and `known`, are then of its targets.
        """
        edges: Tensor = self.edges
        loadings: Tensor = self.loadings
        pattern = self.pattern
        if sample is not None and sample.edges is not None and sample.pattern is not None:
            edges, pattern = edges.index_select(0, sample.edges), sample.pattern
            loadings = loadings.index_select(0, sample.targets)
        steps = recent.transpose(1, 2).contiguous()  # [N, R, B]
        along_edges = block_product(edges, steps, pattern).transpose(1, 2)
        if sample is not None:
            along_edges = along_edges.index_select(0, sample.rows)
        city = factors.transpose(1, 2).flatten(0, 1)  # [F·R, B]
        by_factors = (loadings @ city).transpose(1, 2)
        if known is not None:
            by_factors = by_factors * (known > 0)
        return along_edges + by_factors


def steps_ahead(lags: LagConfig) -> int:
    """How many coming steps have a linear forecast."""
    return min(lags.horizon, lags.recent)
