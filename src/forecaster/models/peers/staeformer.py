"""STAEformer: a plain Transformer over steps, then over locations, with adaptive embeddings.

Liu, Dong, Jiang, Deng, Deng, Chen and Song, "Spatio-Temporal Adaptive Embedding Makes Vanilla
Transformer SOTA for Traffic Forecasting", CIKM 2023.
"""

import math

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import relu, scaled_dot_product_attention

from forecaster.config import LagConfig, STAEformerConfig
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


class STAEformerNetwork(PeerNetwork):
    """x̂_{t+1…t+K}, all at once, from the states of all past steps after attention.

    h_is = [W x_is + b, d, w, a_si]: the inputs of location i in step s, the time of day and the
    weekday of s, and an adaptive embedding of each step and location. Some attention layers mix
    the steps of each location, as many the locations in each step. z_i holds the states of all
    steps, x̂_i = O z_i + o.

    With `inputs = "lags"` the steps are all lags, and what is known ahead (`ComingEmbedding`) is
    added to W x_is + b of every step. Quantiles are read from the state of the newest step.
    """

    def __init__(
        self,
        config: STAEformerConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        slots: int,
        generator: Generator,
        heads: Heads = NO_HEADS,
    ) -> None:
        """Draw the weights.

        Args:
            config: inputs, widths of the embeddings, layers.
            lags: number of past steps and of forecast steps.
            inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
            slots: the number of steps of the season.
            generator: of the initial weights.
            heads: the outputs beside the forecast.
        """
        super().__init__(inputs, lags)
        N, L, self.slots = inputs.n_locations, self.L, slots
        E, A = config.embedding, config.adaptive
        self.masks = config.inputs == "lags"
        self.past = PastInputs(config.inputs, inputs, lags.recent, weekday=True, all_of_a=False)
        self.history = LocationLinear(self.past.channels, E, generator)
        self.season = SeasonEmbedding(slots, E, generator)
        bound = math.sqrt(6 / ((L + N) * A))  # Glorot's of so many inputs and outputs
        drawn = torch.empty(L, N, A).uniform_(-bound, bound, generator=generator)
        self.adaptive = nn.Parameter(drawn)
        self.coming = ComingEmbedding(inputs, lags, E, generator) if self.masks else None
        H = config.width
        of_steps, of_locations = (
            nn.ModuleList(AttentionLayer(H, config, generator) for _ in range(config.n_layers))
            for _ in range(2)
        )
        self.of_steps = of_steps
        self.of_locations = LocationAttention(of_locations)
        self.draw_outputs(L * H, heads, generator, quantile_inputs=H)
        self.window_numbers = count_numbers(config, N, L, self.past.channels)

    def hidden_state(self, history: State, ahead: State) -> Float[Tensor, "N B H"]:
        """The state z of each location: those of all its steps."""
        past: Tensor = self.past(history)
        series: Tensor = self.history(past.permute(0, 2, 3, 1))  # [N, B, L, E]
        if self.coming is not None:
            series = series + self.coming(history, ahead)[:, :, None]
        N, B = series.shape[:2]
        season: Tensor = self.season(slots_of(history))  # [B, L, 2 E]
        adaptive = self.adaptive.transpose(0, 1)[:, None]  # [N, 1, L, A]
        parts = [series, season.expand(N, -1, -1, -1), adaptive.expand(-1, B, -1, -1)]
        h = torch.cat(parts, dim=3)
        for layer in self.of_steps:
            h = layer(h)
        mixed: Tensor = self.of_locations(h)
        return mixed.reshape(N, B, -1)


class AttentionLayer(nn.Module):
    """h ← norm(h + P attention(h)), then h ← norm(h + V max(U h + u, 0) + v), with dropout.

    Attention is that of several heads, each with an equal share of the numbers, and mixes the
    entries of the last axis but one.
    """

    def __init__(self, width: int, config: STAEformerConfig, generator: Generator) -> None:
        super().__init__()
        self.heads = config.heads
        self.query, self.key, self.value, self.output = (
            LocationLinear(width, width, generator) for _ in range(4)
        )
        self.inner = LocationLinear(width, config.hidden, generator, relu=True)
        self.outer = LocationLinear(config.hidden, width, generator)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)

    def forward(self, h: Float[Tensor, "X B S H"]) -> Float[Tensor, "X B S H"]:
        X, B, S, _ = h.shape
        query, key, value = (
            layer(h).view(X * B, S, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = scaled_dot_product_attention(query, key, value)  # [X·B, heads, S, H / heads]
        change: Tensor = self.output(mixed.transpose(1, 2).reshape(h.shape))
        h = self.norm_attention(h + self.dropout(change))
        change = self.outer(relu(self.inner(h)))
        moved: Tensor = self.norm_feed_forward(h + self.dropout(change))
        return moved


class LocationAttention(nn.Module):
    """Attention layers that mix the locations in each step."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, h: Float[Tensor, "N B L H"]) -> Float[Tensor, "N B L H"]:
        by_step = h.permute(1, 2, 0, 3).contiguous()  # [B, L, N, H]
        for layer in self.layers:
            by_step = layer(by_step)
        return by_step.permute(2, 0, 1, 3)


def count_weights(config: STAEformerConfig, inputs: NeuronLayout, length: int, slots: int) -> int:
    """The number of weights but for those of inputs, outputs and quantiles."""
    H, F = config.width, config.hidden
    layer = 4 * H * (H + 1) + F * (H + 1) + H * (F + 1) + 4 * H
    embeddings = config.embedding * sum(split_season(slots))
    return embeddings + length * inputs.n_locations * config.adaptive + 2 * config.n_layers * layer


def count_numbers(config: STAEformerConfig, locations: int, length: int, channels: int) -> int:
    """The numbers in memory per window of a training step.

    Of each location and step: the inputs, and in each layer the state, queries, keys, values, what
    attention mixes, both sums, their norms and dropout, and the inner layer twice.
    """
    H = config.width
    layers = 2 * config.n_layers * (11 * H + 2 * config.hidden)
    return locations * length * (2 * channels + 2 * H + layers)
