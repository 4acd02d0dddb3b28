"""The Transformer of section 2.4, with linear layers pruned by the graph or dense."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from forecaster.config import LagConfig, ModelConfig
from forecaster.errors import ConfigError
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.layers.attention import Memory
from forecaster.models.layers.encoder_decoder import DecoderLayer, EncoderLayer
from forecaster.models.layers.linear import DenseLinear, SparseLinear
from forecaster.models.layers.neurons import LinearFactory, NeuronLayout, State
from forecaster.models.layers.positions import Positions
from forecaster.models.layers.randomness import Dropout
from forecaster.models.network import (
    NO_HEADS,
    SHORT_HORIZON,
    Heads,
    Network,
    Outputs,
    no_quantiles,
)
from forecaster.models.open_first import feed_back, roll_out_open
from forecaster.models.quantiles import QuantileHead

STATES = 20  # stored per layer: 14 for the backward pass, and its temporaries


class TransformerNetwork(Network):
    """x̂_{t+1…t+K} from a filtered history and the covariates of the coming steps (Eq. 1).

    The encoder reads x_s and a_s of each step s of the history. Element k of the decoder's
    sequence is a_{t+k} with the signal one step before it, x_{t+k−1}: the last observed one at
    k = 1, later the true ones (teacher forcing) or the forecasts (roll-out). Covariates of a
    location are further input neurons of that location, of the same step as a. All is scaled.
    With opening hours, closed steps come last (`open_first`).
    """

    def __init__(
        self,
        config: ModelConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        layout: NeuronLayout,
        linear: LinearFactory,
        heads: Heads = NO_HEADS,
    ) -> None:
        super().__init__(inputs, lags)
        layers, dropout = range(config.n_layers), config.dropout
        self.encoder_embedding = linear(inputs, layout, relu=True)
        self.decoder_embedding = linear(inputs, layout, relu=True)
        self.positions = Positions(layout, self.L + self.K, config.positions)
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(layout, linear, dropout) for _ in layers)
        self.decoder = nn.ModuleList(DecoderLayer(layout, linear, dropout) for _ in layers)
        self.output = linear(layout, NeuronLayout(inputs.n_locations, 1, 0))
        self.has_relative = heads.relative
        second = linear(layout, NeuronLayout(inputs.n_locations, 1, 0)) if heads.relative else None
        self.relative = second
        self.window_numbers = STATES * config.n_layers * layout.width * (self.L + self.K)
        # Drawn last: all other initial weights are then those of a network without a head.
        head = (
            QuantileHead(heads.levels, layout, inputs.n_locations, linear)
            if heads.levels
            else None
        )
        self.quantiles = head

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        """Return x̂_{t+1…t+K} and its quantiles; scheduled sampling (`forced`) is not supported."""
        if forced is not None:
            raise ConfigError("a Transformer has no scheduled sampling; leave out sampling_decay")
        head = self.quantiles if with_quantiles else None
        self.check_sizes(history, ahead, truth)
        return roll_out_open(
            ahead, truth, lambda ahead, truth: self._forecast(history, ahead, truth, head)
        )

    def _forecast(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None,
        head: QuantileHead | None,
    ) -> Outputs:
        """The outputs of the coming steps, each from the one before it."""
        if truth is not None:
            previous = torch.cat([history.signal[:, 0, :, -1:], truth], dim=2)
            forecast, x, _ = self._decode(previous, ahead, self._encode(history), [])
            return self._outputs(forecast, x, head)
        steps = [self._outputs(*step, head) for step in self._roll_out(history, ahead)]
        forecasts, quantiles, relatives = zip(*steps, strict=True)
        forecast = torch.cat(forecasts, dim=2)
        relative = torch.cat(relatives, dim=2) if self.has_relative else forecast
        return Outputs(forecast, torch.cat(quantiles, dim=3), relative)

    def _outputs(
        self, forecast: Float[Tensor, "N B T"], x: State, head: QuantileHead | None
    ) -> Outputs:
        """The outputs of some steps from the decoder's last state."""
        relative = forecast
        if self.relative is not None:
            second: State = self.relative(x)
            relative = second.signal[:, 0]
        quantiles = no_quantiles(forecast) if head is None else head(x, forecast)
        return Outputs(forecast, quantiles, relative)

    def reach(self, step: int) -> int:
        """The number of graph edges from which values can reach the forecast of a step.

        Every linear layer reaches one edge further: embedding and output are two, an encoder
        layer has four in a row (W^V, W^O, feed-forward), a decoder layer as many. A later step
        starts from the forecast before it, and passes the decoder once more.
        """
        encoder, decoder = 4 * len(self.encoder), 4 * len(self.decoder)
        return 2 + encoder + decoder + (step - 1) * (2 + decoder)

    def horizon_cost(self) -> str:
        """What a long horizon costs, in words: training takes all steps at once."""
        training = (self.L + self.K) / (self.L + SHORT_HORIZON)
        return (
            f"learns {self.K} steps at once (a training step takes about {training:.1f} × that of "
            f"{SHORT_HORIZON} steps), but validation and forecasts roll out one step after "
            f"another: about {self.K / SHORT_HORIZON:.0f} × those of {SHORT_HORIZON} steps"
        )

    def _roll_out(
        self, history: State, ahead: State
    ) -> Iterator[tuple[Float[Tensor, "N B 1"], State]]:
        """Decode step by step from the forecast before; yield forecasts with decoder states."""
        memories, earlier = self._encode(history), list[Memory]()
        previous = history.signal[:, 0, :, -1:]
        for k in range(self.K):
            step = State(ahead.signal[..., k, None], ahead.auxiliary[..., k, None].contiguous())
            forecast, x, earlier = self._decode(previous, step, memories, earlier)
            yield forecast, x
            previous = feed_back(forecast[..., 0], previous[..., 0], ahead, k)[..., None]

    def _encode(self, history: State) -> list[Memory]:
        """Keys and values of the encoded history for each decoder layer."""
        x: State = self.positions(self.encoder_embedding(history), first=0)
        x = x.each(self.dropout)
        for layer in self.encoder:
            x = layer(x)
        return [layer.history.remember(x) for layer in self._decoder_layers()]

    def _decode(
        self,
        previous: Float[Tensor, "N B T"],
        ahead: State,
        memories: Sequence[Memory],
        earlier: Sequence[Memory],
    ) -> tuple[Float[Tensor, "N B T"], State, list[Memory]]:
        """Forecasts of T steps after the earlier ones, their last state, and the new memories."""
        inputs = State(torch.cat([previous[:, None], ahead.signal], dim=1), ahead.auxiliary)
        first = self.L + (earlier[0].steps if earlier else 0)
        x: State = self.positions(self.decoder_embedding(inputs), first=first)
        x = x.each(self.dropout)
        decoded = []
        for i, layer in enumerate(self._decoder_layers()):
            x, memory = layer(x, memories[i], earlier[i] if earlier else None)
            decoded.append(memory)
        forecast: State = self.output(x)
        return forecast.signal[:, 0], x, decoded

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast(Iterable[DecoderLayer], self.decoder)


def build_forecaster(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: Generator,
    heads: Heads = NO_HEADS,
) -> TransformerNetwork:
    """Build the graph Transformer of section 2.4 with fresh weights.

    Args:
        config: neurons, heads and layers; the defaults are the paper's.
        lags: number of past steps and of forecast steps.
        inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
        pattern: the edges of the dependency graph.
        generator: of the initial weights.
        heads: the outputs beside the forecast.
    """
    layout = NeuronLayout(inputs.n_locations, config.per_location, config.auxiliary, config.heads)
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    return TransformerNetwork(config, lags, inputs, layout, linear, heads)


def build_dense_transformer(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: Generator,
    heads: Heads = NO_HEADS,
) -> TransformerNetwork:
    """Build the dense Transformer with fresh weights; by default it is as wide as Forecaster.

    Apart from its weights it differs from Forecaster in one way: no neuron belongs to a location,
    so that there are no queries to balance (Eq. 10).
    """
    forecaster_width = inputs.n_locations * config.per_location + config.auxiliary
    layout = NeuronLayout(0, 0, config.width or forecaster_width, config.heads)
    linear = partial(DenseLinear, generator=generator)
    return TransformerNetwork(config, lags, inputs, layout, linear, heads)
