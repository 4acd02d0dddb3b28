"""The weighted average of several networks as one, so that its forecasts can be explained."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecaster.config import LagConfig
from forecaster.models.layers.neurons import State
from forecaster.models.network import Network, Outputs, no_quantiles


class AverageNetwork(Network):
    """x̂ = Σ_m w_m x̂_m of networks with the same inputs, scales and past steps; no quantiles."""

    def __init__(
        self, networks: Sequence[Network], weights: Sequence[float], lags: LagConfig
    ) -> None:
        """Keep the networks as they are.

        Args:
            networks: which have the same inputs.
            weights: of each of them, adding up to 1.
            lags: the past steps that all of them see.
        """
        super().__init__(networks[0].inputs, lags)
        self.networks, self.weights = nn.ModuleList(networks), tuple(weights)
        self.masks = any(network.masks for network in networks)
        self.slots = next((n.slots for n in networks if n.slots is not None), None)
        self.window_numbers = sum(network.window_numbers for network in networks)

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        """Return the average of the rolled-out forecasts.

        A network that masks no missing values takes the mean of the location for them.
        """
        del truth, forced, with_quantiles
        filled = replace(history, signal=torch.nan_to_num(history.signal, nan=0.0))
        forecast = sum(
            weight * network.roll_out(history if network.masks else filled, ahead)
            for network, weight in zip(self._networks, self.weights, strict=True)
        )
        average = torch.as_tensor(forecast)
        return Outputs(average, no_quantiles(average), average)

    def reach(self, step: int) -> int | None:
        """The largest number of edges from which values can reach one of the networks."""
        reaches = [network.reach(step) for network in self._networks]
        finite = [edges for edges in reaches if edges is not None]
        return max(finite) if len(finite) == len(reaches) else None

    @property
    def _networks(self) -> list[Network]:
        return [network for network in self.networks if isinstance(network, Network)]
