"""The base of the networks of others: outputs read from a hidden state of each location."""

from jaxtyping import Float
from torch import Generator, Tensor

from forecaster.models.linear import LocationLinear
from forecaster.models.network import Heads, Network, Outputs, no_quantiles
from forecaster.models.quantiles import LocationQuantileHead


class PeerNetwork(Network):
    """x̂ = O z + o of each location, all steps at once; relative error and quantiles likewise."""

    output: LocationLinear
    relative: LocationLinear | None
    quantiles: LocationQuantileHead | None

    def draw_outputs(self, hidden: int, heads: Heads, generator: Generator) -> None:
        """Draw the outputs; call it last, so that they change no other initial weight.

        Args:
            hidden: numbers of z.
            heads: the outputs beside the forecast.
            generator: for drawing weights.
        """
        self.output = LocationLinear(hidden, self.K, generator)
        self.has_relative = heads.relative
        self.relative = LocationLinear(hidden, self.K, generator) if heads.relative else None
        levels = heads.levels
        self.quantiles = (
            LocationQuantileHead(levels, hidden, self.K, generator) if levels else None
        )

    def read_outputs(self, z: Float[Tensor, "N B H"], *, with_quantiles: bool) -> Outputs:
        """The outputs of hidden states."""
        forecast: Tensor = self.output(z)
        relative = forecast if self.relative is None else self.relative(z)
        if self.quantiles is None or not with_quantiles:
            return Outputs(forecast, no_quantiles(forecast), relative)
        return Outputs(forecast, self.quantiles(z, forecast), relative)
