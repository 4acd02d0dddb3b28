"""Forecaster's `best` network: what each location, its neighbours and the city deviate by."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, linear

from forecaster.clock.clock import WEEK_HOURS
from forecaster.config import LagConfig, MixerConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.models.linear import SparseLinear, draw_dense
from forecaster.models.network import CrossLocationModule, Network
from forecaster.models.neurons import NeuronLayout, State
from forecaster.models.quantiles import median_index, stack_quantiles
from forecaster.models.seasonal import Decomposition, SeasonalProfile, hour_of_week


@dataclass(frozen=True, eq=False)
class MixerPrerequisites:
    """What was learned before the network: what is usual, and who depends on whom."""

    level: SeasonalProfile
    pattern: BlockPattern


class Mixer(Network):
    """x̂_{t+1…t+K}, all at once, from the deviations r of `SeasonalProfile`.

    z_i = W_r r_i + W_g Σ_{j ∈ N(i) ∪ {i}} w_ij r_j + W_c F r + W_a a_{t+1…t+K} + e_i + d_w
    z_i ← z_i + V gelu(U z_i), some times; r̂_i = O z_i, x̂_i = u_i + spread_i · r̂_i

    One set of weights serves every location. Its own are an embedding e_i and the
    strengths w_ij of its edges, some for each edge. F r are a few factors of the whole
    city, d_w belongs to the hour of the week. Of neighbours and the city the last steps count.
    """

    def __init__(
        self,
        config: MixerConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        ground: MixerPrerequisites,
        generator: Generator,
        levels: Sequence[float] = (),
    ) -> None:
        super().__init__(inputs, lags)
        N, L, K, R, H = inputs.n_locations, self.L, self.K, lags.recent, config.hidden
        self.recent, self.level = R, ground.level
        own = inputs.per_location - 1  # covariates of each location
        seen = L + K + 1 + own * (K + 1) + config.edges * R
        shared = inputs.auxiliary * K + config.factors * R
        self.neighbours = None
        if config.edges:
            channels = NeuronLayout(N, 1, 0), NeuronLayout(N, config.edges, 0)
            self.neighbours = SparseLinear(*channels, ground.pattern, generator, bias=False)
        self.city = CityFactors(N, config.factors, generator)
        self.from_location = draw_dense(seen, H, False, generator)
        self.from_all = draw_dense(shared, H, False, generator)
        self.place = nn.Parameter(torch.zeros(N, 1, H))
        self.hour = nn.Parameter(torch.zeros(WEEK_HOURS, H))
        self.blocks = nn.ModuleList(ResidualBlock(H, generator) for _ in range(config.blocks))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Parameter(torch.zeros(K, H))
        self.window_numbers = N * (6 * L + H * (4 + 4 * config.blocks))
        self.quantiles = MixerQuantileHead(levels, H, K, generator) if levels else None

    def forward(
        self, history: State, ahead: State, truth: Float[Tensor, "N B T"]
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}; true signals between them are not looked at."""
        self.refuse_misfits(history, ahead, truth)
        return self._forecast(history, ahead)[0]

    def teach(
        self, history: State, ahead: State, truth: Tensor, *shown: Tensor
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `forward` does, and the quantiles of `levels`."""
        del truth, shown
        return self.spread_out(history, ahead)

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}; arguments as of `forward`."""
        self.refuse_misfits(history, ahead)
        return self._forecast(history, ahead)[0]

    def spread_out(
        self, history: State, ahead: State
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `roll_out` does, and the quantiles of `levels`."""
        self.refuse_misfits(history, ahead)
        forecast, z, usual = self._forecast(history, ahead)
        if self.quantiles is None:
            return forecast, forecast[:, None][:, :0]
        return forecast, self.quantiles(z, forecast, usual)

    def reach(self, step: int) -> int:
        """Return from how many edges away values can reach a forecast: neighbours alone."""
        del step
        return 0 if self.neighbours is None else 1

    def _forecast(
        self, history: State, ahead: State
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N B H"], Decomposition]:
        """Return the forecasts, the last hidden state, and what was usual."""
        usual = self.level(history, ahead)
        z = self._mix(history, ahead, usual)
        for block in self.blocks:
            z = self.dropout(block(z))
        return usual.take(linear(z, self.output)), z, usual

    def _mix(self, history: State, ahead: State, usual: Decomposition) -> Float[Tensor, "N B H"]:
        """Return z of each location, before the blocks."""
        last = usual.past[:, :, -self.recent :].contiguous()
        B = last.shape[1]
        covariates = torch.cat([history.signal[:, 1:, :, -1:], ahead.signal], dim=3)
        seen = [usual.past, usual.ahead, usual.level, covariates.transpose(1, 2).flatten(2)]
        if self.neighbours is not None:
            empty = last.new_zeros(0, B, self.recent)
            around = self.neighbours(State(last[:, None], empty)).signal  # [N, edges, B, R]
            seen.append(around.transpose(1, 2).flatten(2))
        factors = self.city(last)
        shared = torch.cat(
            [part.transpose(0, 1).flatten(1) for part in (ahead.auxiliary, factors)], dim=1
        )
        hours = hour_of_week(history)[:, -1:]
        # A product: looked up, its gradient would be summed in no fixed order.
        now = (hours == torch.arange(WEEK_HOURS, device=hours.device)).to(self.hour.dtype)
        everywhere = linear(shared, self.from_all) + now @ self.hour
        return linear(torch.cat(seen, dim=2), self.from_location) + everywhere + self.place


class CityFactors(CrossLocationModule):
    """F r: weighted sums over all locations."""

    def __init__(self, n_locations: int, factors: int, generator: Generator) -> None:
        super().__init__()
        self.weight = draw_dense(n_locations, factors, False, generator)

    def forward(self, last: Float[Tensor, "N B R"]) -> Float[Tensor, "F B R"]:
        return (self.weight @ last.flatten(1)).view(-1, *last.shape[1:])


class ResidualBlock(nn.Module):
    """z + V gelu(U z + b) + c."""

    def __init__(self, hidden: int, generator: Generator) -> None:
        super().__init__()
        self.inner = draw_dense(hidden, hidden, True, generator)
        self.outer = draw_dense(hidden, hidden, False, generator)
        self.inner_bias = nn.Parameter(torch.zeros(hidden))
        self.outer_bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, z: Float[Tensor, "N B H"]) -> Float[Tensor, "N B H"]:
        inner = gelu(linear(z, self.inner, self.inner_bias))
        return z + linear(inner, self.outer, self.outer_bias)


class MixerQuantileHead(nn.Module):
    """q_α from the last hidden state and the forecast, in steps of what is usual to deviate."""

    def __init__(
        self, levels: Sequence[float], hidden: int, horizon: int, generator: Generator
    ) -> None:
        super().__init__()
        self.levels, self.horizon = tuple(levels), horizon
        self.middle = median_index(levels)
        self.inner = draw_dense(hidden, hidden, True, generator)
        # First the forecast and as wide as usual, not chance.
        self.outer = nn.Parameter(torch.zeros(len(levels) * horizon, hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(
        self, z: Float[Tensor, "N B H"], forecast: Float[Tensor, "N B K"], usual: Decomposition
    ) -> Float[Tensor, "N Q B K"]:
        inner = gelu(linear(z.detach(), self.inner, self.bias))
        h = linear(inner, self.outer).view(*z.shape[:2], len(self.levels), self.horizon)
        return stack_quantiles(forecast.detach(), h.transpose(1, 2), self.middle, usual.spread)


def count_weights(config: MixerConfig, lags: LagConfig, inputs: NeuronLayout, edges: int) -> int:
    """Return how many weights the network has at least: those of locations, edges and blocks."""
    around = (config.edges + config.factors) * lags.recent
    seen = lags.length + inputs.auxiliary * lags.horizon + around
    inner = WEEK_HOURS + 2 * config.blocks * config.hidden
    own = inputs.n_locations * (config.hidden + config.factors) + edges * config.edges
    return own + config.hidden * (seen + inner)
