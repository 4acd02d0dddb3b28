"""STID: one perceptron for all locations, told which location and which time it forecasts.

Shao, Zhang, Wang, Wei and Xu, "Spatial-Temporal Identity: A Simple yet Effective Baseline for
Multivariate Time Series Forecasting", CIKM 2022.
"""

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import relu

from forecaster.config import LagConfig, STIDConfig
from forecaster.models.layers.diffusion import draw_glorot
from forecaster.models.layers.linear import LocationLinear
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.layers.randomness import Dropout
from forecaster.models.mixer.seasonal import slots_of
from forecaster.models.network import NO_HEADS, Heads
from forecaster.models.peers.inputs import (
    ComingEmbedding,
    PastInputs,
    SeasonEmbedding,
    split_season,
)
from forecaster.models.peers.network import PeerNetwork


class STIDNetwork(PeerNetwork):
    """x̂_{t+1…t+K}, all at once, from the embeddings of history, location and time.

    z_i = [W x_i + b, e_i, d, w], of E numbers each: the past steps of location i, its identity,
    the time of day and the weekday of step t. Then, some times, z_i ← z_i + V max(U z_i + u, 0) +
    v, and x̂_i = O z_i + o.

    With `inputs = "lags"` a fifth embedding tells what is known ahead (`ComingEmbedding`).
    """

    def __init__(
        self,
        config: STIDConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        slots: int,
        generator: Generator,
        heads: Heads = NO_HEADS,
    ) -> None:
        """Draw the weights.

        Args:
            config: inputs, width of the embeddings, layers.
            lags: number of past steps and of forecast steps.
            inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
            slots: the number of steps of the season.
            generator: of the initial weights.
            heads: the outputs beside the forecast.
        """
        super().__init__(inputs, lags)
        N, E, self.slots = inputs.n_locations, config.embedding, slots
        self.masks = self.samples = config.inputs == "lags"
        self.past = PastInputs(config.inputs, inputs, lags.recent, weekday=True, all_of_a=False)
        self.history = LocationLinear(self.past.channels * self.L, E, generator)
        self.place = draw_glorot((N, E), generator)  # e
        self.season = SeasonEmbedding(slots, E, generator)
        self.coming = ComingEmbedding(inputs, lags, E, generator) if self.masks else None
        H = (5 if self.masks else 4) * E
        layers = (ResidualLayer(H, config.dropout, generator) for _ in range(config.n_layers))
        self.layers = nn.ModuleList(layers)
        self.draw_outputs(H, heads, generator)
        self.window_numbers = N * (self.past.channels * self.L + H * (1 + 4 * config.n_layers))

    def hidden_state(self, history: State, ahead: State) -> Float[Tensor, "N B H"]:
        """The state z of each location."""
        past: Tensor = self.past(history)
        series: Tensor = self.history(past.transpose(1, 2).flatten(2))
        season: Tensor = self.season(slots_of(history)[:, -1])
        N, B, _ = series.shape
        sample = history.sample
        place = self.place if sample is None else self.place.index_select(0, sample.targets)
        parts = [series, place[:, None].expand(-1, B, -1), season.expand(N, -1, -1)]
        if self.coming is not None:
            parts.append(self.coming(history, ahead))
        z = torch.cat(parts, dim=2)
        for layer in self.layers:
            z = layer(z)
        return z

    def reach(self, step: int) -> int:
        """The number of graph edges from which values can reach a forecast: none."""
        del step
        return 0


class ResidualLayer(nn.Module):
    """z + V max(U z + u, 0) + v, with dropout before V."""

    def __init__(self, hidden: int, dropout: float, generator: Generator) -> None:
        super().__init__()
        self.inner = LocationLinear(hidden, hidden, generator, relu=True)
        self.dropout = Dropout(dropout)
        self.outer = LocationLinear(hidden, hidden, generator)

    def forward(self, z: Float[Tensor, "N B H"]) -> Float[Tensor, "N B H"]:
        change: Tensor = self.outer(self.dropout(relu(self.inner(z))))
        return z + change


def count_weights(config: STIDConfig, inputs: NeuronLayout, slots: int) -> int:
    """The number of weights but for those of inputs, outputs and quantiles."""
    E = config.embedding
    H = (5 if config.inputs == "lags" else 4) * E
    return E * (inputs.n_locations + sum(split_season(slots))) + config.n_layers * 2 * H * (H + 1)
