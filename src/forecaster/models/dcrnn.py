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

from forecaster.choices import DiffusionInputs
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import DCRNNConfig, LagConfig
from forecaster.models.diffusion import Diffusion, DiffusionConvolution, draw_glorot
from forecaster.models.network import Network
from forecaster.models.neurons import NeuronLayout, State

DAY_HOURS = 24


@dataclass(frozen=True, eq=False)
class Hidden:
    """The state of a layer and its diffusion: the layer above and the next step both need that."""

    value: Float[Tensor, "N B U"]
    terms: Float[Tensor, "N B F"]


Step = Callable[[Float[Tensor, "N B F"], Hidden], Hidden]


class DiffusionCell(nn.Module):
    """One step of a gated recurrent unit, its products replaced by diffusion convolutions.

    [r, u] = σ(Θ_ru ⋆ [x, h] + b_ru), c = tanh(Θ_c ⋆ [x, r ∘ h] + b_c), h ← u ∘ h + (1 − u) ∘ c.
    b_ru begins at 1: at first a state is kept.
    """

    def __init__(
        self, diffusion: Diffusion, inputs: int, units: int, generator: Generator
    ) -> None:
        super().__init__()
        self.diffusion, parts = diffusion, [inputs, units]
        self.gates = DiffusionConvolution(diffusion, parts, 2 * units, generator, bias=1.0)
        self.candidate = DiffusionConvolution(diffusion, parts, units, generator, bias=0.0)

    def begin(self) -> Step:
        """Return the step, to be taken many times; x comes as the terms of its diffusion."""
        to_gates, to_candidate = self.gates.fold(), self.candidate.fold()

        def step(x: Float[Tensor, "N B F"], before: Hidden) -> Hidden:
            r, u = torch.sigmoid(self.gates((x, before.terms), to_gates)).chunk(2, dim=2)
            kept = self.diffusion(r * before.value)
            c = torch.tanh(self.candidate((x, kept), to_candidate))
            h = torch.lerp(c, before.value, u)  # u ∘ h + (1 − u) ∘ c
            return Hidden(h, self.diffusion(h))

        return step


class DCRNNNetwork(Network):
    """x̂_{t+1…t+K} from the last steps, by a decoder that begins where the encoder ended.

    With `inputs = "recent"` a location sees, of each past step, its value, its own covariates and
    the time of day; the decoder sees its previous value alone. With "lags" both see all that is
    known of a step: own covariates and a. The decoder's first value is 0.
    Differs: the time of day is that of the calendar, in whole hours.
    """

    def __init__(
        self,
        config: DCRNNConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        kernel: Float[Tensor, "N N"],
        generator: Generator,
    ) -> None:
        """Draw the weights.

        Args:
            config: units, layers and what is seen.
            lags: how many steps are seen and forecast.
            inputs: the neurons of a step: 1 + Q of each location, P auxiliary ones.
            kernel: how near the locations are to each other.
            generator: what the weights are drawn from.
        """
        super().__init__(inputs, lags)
        self.units, self.sees_ahead = config.units, config.inputs == "lags"
        self.diffusion = Diffusion(kernel, config.diffusion_steps)
        view = look_at(config.inputs, inputs.auxiliary)
        self.register_buffer("view", view.to(kernel.dtype), persistent=False)
        past, coming = count_inputs(config, inputs)
        self.encoder = self._layers(past, config.n_layers, generator)
        self.decoder = self._layers(coming, config.n_layers, generator)
        self.output = draw_glorot((config.units, 1), generator)
        # Of a step: the terms of x and, in each layer, of h and of r ∘ h; six vectors beside them.
        terms = self.diffusion.terms
        held = terms * past + config.n_layers * (2 * terms + 6) * config.units
        self.window_numbers = inputs.n_locations * held * (self.L + self.K)

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"],
        shown: Bool[Tensor, " T"],
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the value before it: the true one where that is shown.

        Args:
            history: x with the covariates of each location, and a, of the L past steps.
            ahead: the covariates of each location, and a, of the K coming steps.
            truth: x of the steps t+1…t+K−1.
            shown: which of them are shown; its own forecast stands for the others.
        """
        self.refuse_misfits(history, ahead, truth)
        return self._forecast(history, ahead, list(zip(truth.unbind(dim=2), shown, strict=True)))

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it; arguments as of `forward`."""
        self.refuse_misfits(history, ahead)
        return self._forecast(history, ahead, [])

    def _forecast(
        self, history: State, ahead: State, taught: Sequence[tuple[Tensor, Tensor]]
    ) -> Float[Tensor, "N B K"]:
        """Return all forecasts; `taught` are true values, each with whether it is shown."""
        hidden, decoder = self._encode(history), _begin(self.decoder)
        previous = torch.zeros_like(history.signal[:, 0, :, 0])  # the symbol GO
        if not self.sees_ahead:
            ahead = State(ahead.signal[:, :0], ahead.auxiliary[:0])
        forecasts = []
        for k in range(self.K):
            signal = torch.cat([previous[:, None], ahead.signal[..., k]], dim=1)
            hidden = self._advance(decoder, _join(signal, ahead.auxiliary[..., k]), hidden)
            forecast = (hidden[-1].value @ self.output).squeeze(2)
            forecasts.append(forecast)
            previous = (
                torch.where(taught[k][1], taught[k][0], forecast) if taught[k:] else forecast
            )
        return torch.stack(forecasts, dim=2)

    def _encode(self, history: State) -> list[Hidden]:
        """Return the state of each layer after the whole history."""
        seen = torch.tensordot(self.view, history.auxiliary, dims=1)  # [S, B, L]
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
        """Return the state of each layer after one more step; each feeds the one above."""
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
    """Return how many inputs a location has in a past step, and in a coming one."""
    own, shared = inputs.per_location, inputs.auxiliary
    return (own + 1, 1) if config.inputs == "recent" else (own + shared, own + shared)


def count_weights(config: DCRNNConfig, inputs: NeuronLayout) -> int:
    """Return how many weights the network has, without building it."""
    terms, U = 1 + 2 * config.diffusion_steps, config.units

    def cell(width: int) -> int:
        return 3 * U * (terms * (width + U) + 1)

    first = sum(cell(width) for width in count_inputs(config, inputs))
    return first + 2 * (config.n_layers - 1) * cell(U) + U


def look_at(kind: DiffusionInputs, auxiliary: int) -> Float[Tensor, "S A"]:
    """Return the matrix that makes of a what each location sees of it: all, or the time of day."""
    if kind == "lags":
        return torch.eye(auxiliary)
    view = torch.zeros(1, auxiliary)
    first = auxiliary - len(CALENDAR_COLUMNS) + CALENDAR_COLUMNS.index("hour_00")
    view[0, first : first + DAY_HOURS] = torch.arange(DAY_HOURS) / DAY_HOURS  # as a share of a day
    return view


def _begin(layers: nn.ModuleList) -> list[Step]:
    """Return the step of each layer."""
    return [cast(DiffusionCell, cell).begin() for cell in layers]


def _join(signal: Float[Tensor, "N C B"], shared: Float[Tensor, "S B"]) -> Float[Tensor, "N B F"]:
    """Return what each location knows of itself, with what all of them share."""
    return torch.cat([signal.mT, shared.T.expand(len(signal), -1, -1)], dim=2)
