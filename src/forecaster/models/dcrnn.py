"""DCRNN: a recurrent encoder and decoder whose products are diffusion convolutions.

Li, Yu, Shahabi and Liu, "Diffusion Convolutional Recurrent Neural Network: Data-Driven Traffic
Forecasting", ICLR 2018.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from forecaster.config import DCRNNConfig, LagConfig
from forecaster.models.layers.diffusion import Diffusion, DiffusionConvolution, draw_glorot
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.mixer.shared_inputs import SharedInputs
from forecaster.models.network import (
    NO_HEADS,
    SHORT_HORIZON,
    Heads,
    Network,
    Outputs,
    no_quantiles,
)
from forecaster.models.open_first import feed_back, roll_out_open


@dataclass(frozen=True, eq=False)
class Hidden:
    """The state of a layer and its diffusion, which the layer above and the next step share."""

    value: Float[Tensor, "N B U"]
    terms: Float[Tensor, "N B F"]


Step = Callable[[Float[Tensor, "N B F"], Hidden], Hidden]


class DiffusionCell(nn.Module):
    """One step of a gated recurrent unit, its products replaced by diffusion convolutions.

    [r, u] = σ(Θ_ru ⋆ [x, h] + b_ru), c = tanh(Θ_c ⋆ [x, r ∘ h] + b_c), h ← u ∘ h + (1 − u) ∘ c.
    b_ru starts at 1, so that states are kept at first.
    """

    def __init__(
        self, diffusion: Diffusion, inputs: int, units: int, generator: Generator
    ) -> None:
        super().__init__()
        self.diffusion, parts = diffusion, [inputs, units]
        self.gates = DiffusionConvolution(diffusion, parts, 2 * units, generator, bias=1.0)
        self.candidate = DiffusionConvolution(diffusion, parts, units, generator, bias=0.0)

    def begin(self) -> Step:
        """The step function; its weights are folded once, x comes as diffusion terms."""
        to_gates, to_candidate = self.gates.fold(), self.candidate.fold()

        def step(x: Float[Tensor, "N B F"], before: Hidden) -> Hidden:
            r, u = torch.sigmoid(self.gates((x, before.terms), to_gates)).chunk(2, dim=2)
            reset = self.diffusion(r * before.value)
            c = torch.tanh(self.candidate((x, reset), to_candidate))
            h = torch.lerp(c, before.value, u)  # u ∘ h + (1 − u) ∘ c
            return Hidden(h, self.diffusion(h))

        return step


class DCRNNNetwork(Network):
    """x̂_{t+1…t+K} from the last steps, by a decoder that begins where the encoder ended.

    With `inputs = "recent"` the encoder sees a location's value, local covariates and the time of
    day of each past step, and the decoder the previous value only. With "lags" both also see the
    local covariates and a of every step. The decoder's first value is 0.
    Differs: the time of day is that of the calendar, in whole hours. With opening hours, closed
    steps come last (`open_first`).
    """

    def __init__(
        self,
        config: DCRNNConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        kernel: Float[Tensor, "N N"],
        generator: Generator,
        heads: Heads = NO_HEADS,
    ) -> None:
        """Draw the weights.

        Args:
            config: units, layers and inputs.
            lags: number of past steps and of forecast steps.
            inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
            kernel: weights by the distance between locations.
            generator: of the initial weights.
            heads: an output for relative error, or none; quantiles are not supported.
        """
        super().__init__(inputs, lags)
        self.units, self.sees_ahead = config.units, config.inputs == "lags"
        self.diffusion = Diffusion(kernel, config.diffusion_steps)
        self.shared = SharedInputs(config.inputs, inputs.auxiliary)
        past, coming = count_inputs(config, inputs)
        self.encoder = self._layers(past, config.n_layers, generator)
        self.decoder = self._layers(coming, config.n_layers, generator)
        self.output = draw_glorot((config.units, 1), generator)
        self.has_relative = heads.relative
        self.relative = draw_glorot((config.units, 1), generator) if heads.relative else None
        # Of a step: the terms of x and, in each layer, of h and of r ∘ h; six vectors beside them.
        terms = self.diffusion.terms
        per_step = terms * past + config.n_layers * (2 * terms + 6) * config.units
        self.window_numbers = inputs.n_locations * per_step * (self.L + self.K)

    def horizon_cost(self) -> str:
        """What a long horizon costs, in words: every step follows the one before it."""
        ratio = (self.L + self.K) / (self.L + SHORT_HORIZON)
        return (
            f"rolls out {self.K} steps one after another: a training step, as a forecast, takes "
            f"about {ratio:.1f} × that of {SHORT_HORIZON} steps"
        )

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        """Return x̂_{t+1…t+K}; there is no quantile head."""
        del with_quantiles
        self.check_sizes(history, ahead, truth)
        return roll_out_open(
            ahead, truth, lambda ahead, truth: self._forecast(history, ahead, truth, forced)
        )

    def _forecast(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None,
        forced: Bool[Tensor, " T"] | None,
    ) -> Outputs:
        """The outputs of the coming steps, each from the one before it."""
        hidden, decoder = self._encode(history), _begin(self.decoder)
        previous = torch.zeros_like(history.signal[:, 0, :, 0])  # the symbol GO
        last = history.signal[:, 0, :, -1]
        if not self.sees_ahead:
            ahead = State(ahead.signal[:, :0], ahead.auxiliary[:0], open=ahead.open)
        forecasts, states = [], []
        for k in range(self.K):
            signal = torch.cat([previous[:, None], ahead.signal[..., k]], dim=1)
            hidden = self._advance(decoder, _join(signal, ahead.auxiliary[..., k]), hidden)
            forecast = (hidden[-1].value @ self.output).squeeze(2)
            forecasts.append(forecast)
            states.append(hidden[-1].value)
            previous = last = feed_back(forecast, last, ahead, k)
            if truth is not None and k < truth.shape[2]:
                x = truth[..., k]
                previous = last = x if forced is None else torch.where(forced[k], x, previous)
        result = relative = torch.stack(forecasts, dim=2)
        if self.relative is not None:
            relative = torch.cat([state @ self.relative for state in states], dim=2)
        return Outputs(result, no_quantiles(result), relative)

    def _encode(self, history: State) -> list[Hidden]:
        """The state of each layer after the whole history."""
        seen = self.shared(history.auxiliary)
        N, _, B, L = history.signal.shape
        nothing = history.signal.new_zeros(N, B, self.units)
        hidden = [Hidden(nothing, self.diffusion(nothing))] * len(self.encoder)
        encoder = _begin(self.encoder)
        for s in range(L):
            hidden = self._advance(encoder, _join(history.signal[..., s], seen[..., s]), hidden)
        return hidden

    def _advance(
        self, layers: Sequence[Step], x: Float[Tensor, "N B C"], before: Sequence[Hidden]
    ) -> list[Hidden]:
        """The state of each layer after one more step; each feeds the one above."""
        terms, hidden = self.diffusion(x), list[Hidden]()
        for step, state in zip(layers, before, strict=True):
            hidden.append(step(terms, state))
            terms = hidden[-1].terms
        return hidden

    def _layers(self, inputs: int, count: int, generator: Generator) -> nn.ModuleList:
        widths = [inputs, *[self.units] * (count - 1)]
        cells = (DiffusionCell(self.diffusion, width, self.units, generator) for width in widths)
        return nn.ModuleList(cells)


def count_inputs(config: DCRNNConfig, inputs: NeuronLayout) -> tuple[int, int]:
    """The number of inputs of a location in a past step, and in a coming one."""
    local, shared = inputs.per_location, inputs.auxiliary
    return (local + 1, 1) if config.inputs == "recent" else (local + shared, local + shared)


def count_weights(config: DCRNNConfig, inputs: NeuronLayout) -> int:
    """The number of weights, without building the network."""
    terms, U = 1 + 2 * config.diffusion_steps, config.units

    def cell(width: int) -> int:
        return 3 * U * (terms * (width + U) + 1)

    first = sum(cell(width) for width in count_inputs(config, inputs))
    return first + 2 * (config.n_layers - 1) * cell(U) + U


def _begin(layers: nn.ModuleList) -> list[Step]:
    """The step function of each layer."""
    return [cast(DiffusionCell, cell).begin() for cell in layers]


def _join(signal: Float[Tensor, "N C B"], shared: Float[Tensor, "S B"]) -> Float[Tensor, "N B F"]:
    """The inputs of each location: its own, then the shared ones."""
    return torch.cat([signal.mT, shared.T.expand(len(signal), -1, -1)], dim=2)
