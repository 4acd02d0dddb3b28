"""The base of the networks of others: outputs read from a hidden state of each location."""

from abc import abstractmethod

from jaxtyping import Bool, Float
from torch import Generator, Tensor

from forecaster.models.layers.linear import LocationLinear
from forecaster.models.layers.neurons import State
from forecaster.models.network import Heads, Network, Outputs, no_quantiles
from forecaster.models.quantiles import LocationQuantileHead


class PeerNetwork(Network):
    """x̂ = O z + o of each location, all steps at once; relative error and quantiles likewise."""

    output: LocationLinear
    relative: LocationLinear | None
    quantiles: LocationQuantileHead | None
    quantile_inputs: int  # the last numbers of z, from which quantiles are read

    @abstractmethod
    def hidden_state(self, history: State, ahead: State) -> Float[Tensor, "N B H"]:
        """The state z of each location, from which its outputs are read."""

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        """Return x̂_{t+1…t+K} and its quantiles; all steps at once, so `truth` is not used."""
        del forced
        self.check_sizes(history, ahead, truth)
        z = self.hidden_state(history, ahead)
        forecast: Tensor = self.output(z)
        relative = forecast if self.relative is None else self.relative(z)
        if self.quantiles is None or not with_quantiles:
            return Outputs(forecast, no_quantiles(forecast), relative)
        return Outputs(
            forecast, self.quantiles(z[..., -self.quantile_inputs :], forecast), relative
        )

    def draw_outputs(
        self,
        hidden: int,
        heads: Heads,
        generator: Generator,
        *,
        quantile_inputs: int | None = None,
    ) -> None:
        """Draw the outputs; call it last, so that they change no other initial weight.

        Args:
            hidden: numbers of z.
            heads: the outputs beside the forecast.
            generator: for drawing weights.
            quantile_inputs: the last numbers of z that quantiles are read from; None: all.
        """
        self.quantile_inputs = quantile_inputs or hidden
        self.output = LocationLinear(hidden, self.K, generator)
        self.has_relative = heads.relative
        self.relative = LocationLinear(hidden, self.K, generator) if heads.relative else None
        levels = heads.levels
        self.quantiles = (
            LocationQuantileHead(levels, self.quantile_inputs, self.K, generator)
            if levels
            else None
        )
