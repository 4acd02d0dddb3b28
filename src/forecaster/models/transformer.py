"""The Transformer of section 2.4, over whichever linear layers it is given."""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecaster.config import LagConfig, ModelConfig
from forecaster.models.attention import Memory
from forecaster.models.layers import DecoderLayer, EncoderLayer
from forecaster.models.network import Network
from forecaster.models.neurons import MakeLinear, NeuronLayout, State
from forecaster.models.positions import Positions

STATES = 20  # held per layer: 14 that the way back needs, and what it works on


class Transformer(Network):
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
        linear: MakeLinear,
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

    def forward(
        self, history: State, ahead: State, truth: Float[Tensor, "N B T"]
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the true signals before it.

        Args:
            history: x with the covariates of each location, and a, of the L past steps.
            ahead: the covariates of each location, and a, of the K coming steps.
            truth: x of the steps t+1…t+K−1.
        """
        self.refuse_misfits(history, ahead, truth)
        previous = torch.cat([history.signal[:, 0, :, -1:], truth], dim=2)
        return self._decode(previous, ahead, self._encode(history), [])[0]

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it; arguments as of `forward`."""
        self.refuse_misfits(history, ahead)
        memories, earlier = self._encode(history), list[Memory]()
        signals = [history.signal[:, 0, :, -1:]]
        for k in range(self.K):
            step = State(ahead.signal[..., k, None], ahead.auxiliary[..., k, None].contiguous())
            forecast, earlier = self._decode(signals[-1], step, memories, earlier)
            signals.append(forecast)
        return torch.cat(signals[1:], dim=2)

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
    ) -> tuple[Float[Tensor, "N B T"], list[Memory]]:
        """Return the forecasts of T steps that follow the earlier ones, and all these steps."""
        inputs = State(torch.cat([previous[:, None], ahead.signal], dim=1), ahead.auxiliary)
        first = self.L + (earlier[0].steps if earlier else 0)
        x: State = self.positions(self.decoder_embedding(inputs), first=first)
        x = x.each(self.dropout)
        seen = []
        for i, layer in enumerate(self._decoder_layers()):
            x, own = layer(x, memories[i], earlier[i] if earlier else None)
            seen.append(own)
        forecast: State = self.output(x)
        return forecast.signal[:, 0], seen

    def _decoder_layers(self) -> Iterable[DecoderLayer]:
        return cast(Iterable[DecoderLayer], self.decoder)
