"""The Transformer of section 2.4 over a linear layer of choice: pruned by the graph, or dense."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from forecaster.config import LagConfig, ModelConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.attention import Memory
from forecaster.models.layers import DecoderLayer, EncoderLayer
from forecaster.models.linear import DenseLinear, SparseLinear
from forecaster.models.network import Network
from forecaster.models.neurons import LinearFactory, NeuronLayout, State
from forecaster.models.positions import Positions
from forecaster.models.quantiles import QuantileHead

STATES = 20  # held per layer: 14 that the way back needs, and what it works on


class TransformerNetwork(Network):
    """x̂_{t+1…t+K} from a filtered history and what is known of the coming steps (Eq. 1).

    The encoder reads x_s and a_s of each step s of the history. Element k of the decoder's
    sequence is a_{t+k} with the signal one step before it, x_{t+k−1}: the last observed one at
    k = 1, later the true ones (`forward`) or the model's own (`roll_out`). Covariates of a
    location are further input neurons of that location, of the same step as a. All is scaled.
    """

    def __init__(
        self,
        config: ModelConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        layout: NeuronLayout,
        linear: LinearFactory,
        levels: Sequence[float] = (),
    ) -> None:
        super().__init__(inputs, lags)
        layers, dropout = range(config.n_layers), config.dropout
        self.encoder_embedding = linear(inputs, layout, relu=True)
        self.decoder_embedding = linear(inputs, layout, relu=True)
        self.positions = Positions(layout, self.L + self.K, config.positions)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(layout, linear, dropout) for _ in layers)
        self.decoder = nn.ModuleList(DecoderLayer(layout, linear, dropout) for _ in layers)
        self.output = linear(layout, NeuronLayout(inputs.n_locations, 1, 0))
        self.window_numbers = STATES * config.n_layers * layout.width * (self.L + self.K)
        # Drawn last: all other weights begin as they would without.
        head = QuantileHead(levels, layout, inputs.n_locations, linear) if levels else None
        self.quantiles = head

    def forward(
        self, history: State, ahead: State, truth: Float[Tensor, "N B T"]
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the true signals before it.

        Args:
            history: x with the covariates of each location, and a, of the L past steps.
            ahead: the covariates of each location, and a, of the K coming steps.
            truth: x of the steps t+1…t+K−1.
        """
        return self._follow(history, ahead, truth)[0]

    def teach(
        self, history: State, ahead: State, truth: Tensor, *shown: Tensor
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `forward` does, and the quantiles of `levels`."""
        if self.quantiles is None:
            return super().teach(history, ahead, truth, *shown)
        forecast, x = self._follow(history, ahead, truth)
        return forecast, self.quantiles(x, forecast)

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it; arguments as of `forward`."""
        return torch.cat([forecast for forecast, _ in self._advance(history, ahead)], dim=2)

    def spread_out(
        self, history: State, ahead: State
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `roll_out` does, and the quantiles of `levels`."""
        if self.quantiles is None:
            return super().spread_out(history, ahead)
        steps = list(self._advance(history, ahead))
        forecast = torch.cat([one for one, _ in steps], dim=2)
        return forecast, torch.cat([self.quantiles(x, one) for one, x in steps], dim=3)

    def reach(self, step: int) -> int:
        """Return from how many edges away values can reach the forecast of a step.

        Every linear layer is an edge wide: two embed and forecast, an encoder layer has four in a
        row (W^V, W^O, feed-forward), a decoder layer as many. A later step starts from the
        forecast before it, and goes through the decoder once more.
        """
        encoder, decoder = 4 * len(self.encoder), 4 * len(self.decoder)
        return 2 + encoder + decoder + (step - 1) * (2 + decoder)

    def _follow(
        self, history: State, ahead: State, truth: Float[Tensor, "N B T"]
    ) -> tuple[Float[Tensor, "N B K"], State]:
        """Return the forecasts from true signals, and the decoder's last state."""
        self.refuse_misfits(history, ahead, truth)
        previous = torch.cat([history.signal[:, 0, :, -1:], truth], dim=2)
        forecast, x, _ = self._decode(previous, ahead, self._encode(history), [])
        return forecast, x

    def _advance(
        self, history: State, ahead: State
    ) -> Iterator[tuple[Float[Tensor, "N B 1"], State]]:
        """Go from forecast to forecast; yield each with the decoder's last state."""
        self.refuse_misfits(history, ahead)
        memories, earlier = self._encode(history), list[Memory]()
        forecast = history.signal[:, 0, :, -1:]
        for k in range(self.K):
            step = State(ahead.signal[..., k, None], ahead.auxiliary[..., k, None].contiguous())
            forecast, x, earlier = self._decode(forecast, step, memories, earlier)
            yield forecast, x

    def _encode(self, history: State) -> list[Memory]:
        """Return what each decoder layer attends to of the encoded history."""
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
        """Return the forecasts of T steps that follow the earlier ones, and all these steps.

        Between them, the state that the forecasts are made of.
        """
        inputs = State(torch.cat([previous[:, None], ahead.signal], dim=1), ahead.auxiliary)
        first = self.L + (earlier[0].steps if earlier else 0)
        x: State = self.positions(self.decoder_embedding(inputs), first=first)
        x = x.each(self.dropout)
        seen = []
        for i, layer in enumerate(self._decoder_layers()):
            x, own = layer(x, memories[i], earlier[i] if earlier else None)
            seen.append(own)
        forecast: State = self.output(x)
        return forecast.signal[:, 0], x, seen

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast(Iterable[DecoderLayer], self.decoder)


def build_forecaster(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    pattern: BlockPattern,
    generator: Generator,
    levels: Sequence[float] = (),
) -> TransformerNetwork:
    """Return the graph Transformer of section 2.4 with fresh weights.

    Args:
        config: neurons, heads and layers; as it comes, the paper's.
        lags: how many steps are seen and forecast.
        inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
        pattern: which locations depend on each other.
        generator: what the weights are drawn from.
        levels: of the quantiles beside the forecast.
    """
    layout = NeuronLayout(inputs.n_locations, config.per_location, config.auxiliary, config.heads)
    linear = partial(SparseLinear, pattern=pattern, generator=generator)
    return TransformerNetwork(config, lags, inputs, layout, linear, levels)


def build_dense_transformer(
    config: ModelConfig,
    lags: LagConfig,
    inputs: NeuronLayout,
    generator: Generator,
    levels: Sequence[float] = (),
) -> TransformerNetwork:
    """Return the dense Transformer with fresh weights, as wide as Forecaster if no width is given.

    Differs from Forecaster in more than its weights: no neuron belongs to a location, so that
    there are no queries to balance (Eq. 10).
    """
    same = inputs.n_locations * config.per_location + config.auxiliary
    layout = NeuronLayout(0, 0, config.width or same, config.heads)
    linear = partial(DenseLinear, generator=generator)
    return TransformerNetwork(config, lags, inputs, layout, linear, levels)
