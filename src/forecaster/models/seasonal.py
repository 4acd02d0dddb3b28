"""Seasonal decomposition: each location's weekly profile at the level of a window."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from forecaster.clock.clock import CALENDAR_COLUMNS, WEEKDAYS
from forecaster.models.network import Network
from forecaster.models.neurons import State

DAY_HOURS = 24
MIN_LEVEL = 1e-3  # of counts
FLOOR = 0.05  # of a location's mean, so that hours without demand may deviate too
MAX_LOG_LEVEL, MAX_OFFSET = 0.25, 1.0  # a network's input log m, or m, is clipped here


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A window as expected values u and deviations r: x = u + spread · r, all scaled."""

    past: Float[Tensor, "N B L"]  # r_s
    level: Float[Tensor, "N B 1"]  # log m, or m, clipped
    ahead: Float[Tensor, "N B K"]  # u_{t+k}, scaled
    spread: Float[Tensor, "N B K"]  # of a deviation of 1, scaled

    def restore(self, deviation: Float[Tensor, "N *Q B K"]) -> Float[Tensor, "N *Q B K"]:
        """Values x = u + spread · r of the coming steps."""
        expected, spread = self.ahead, self.spread
        if deviation.ndim > expected.ndim:  # of quantiles
            expected, spread = expected[:, None], spread[:, None]
        return expected + spread * deviation

    def deviations(self, x: Float[Tensor, "N B T"]) -> Float[Tensor, "N B T"]:
        """Deviations r = (x − u) / spread of the first coming steps."""
        T = x.shape[2]
        return (x - self.ahead[:, :, :T]) / self.spread[:, :, :T]


class SeasonalProfile(nn.Module):
    """Decomposes the values of a window: x_s = u_s + spread_s · r_s, all scaled.

    p(s) is a location's mean at the hour of the week of step s. Counts rise and fall together:
    u_s = m p(s) with m = (Σ_s x_s + 1) / (Σ_s p(s) + 1) over the window, and a busy hour deviates
    more, by √(u_s / x̄ + 1/20) deviations. Measurements shift: u_s = p(s) + m with
    m = Σ_s (x_s − p(s)) / (L + 1), and all hours deviate alike. One expected count, or
    one expected step, is added to the observed ones, so that a few cannot set the level alone.
    """

    profile: Float[Tensor, "N W"]
    # In units of the profile, which are means of counts or deviations of measurements:
    one_count: Float[Tensor, "N 1 1"]
    unit: Float[Tensor, "N 1 1"]  # a deviation
    offset: Float[Tensor, "N 1 1"]  # the mean, of counts

    def __init__(
        self,
        profile: Float[Tensor, "N W"],
        mean: Float[Tensor, " N"],
        deviation: Float[Tensor, " N"],
        *,
        counts: bool,
    ) -> None:
        """Scale the profile.

        Args:
            profile: in the values' units, Monday 0:00 first.
            mean: of the scaled values, by location.
            deviation: of the scaled values, by location.
            counts: whether the level multiplies the profile; else it is added.
        """
        super().__init__()
        self.counts = counts
        size = torch.where(mean > 0, mean, deviation) if counts else deviation
        zero = torch.zeros_like(mean) if counts else mean
        self.register_buffer(
            "profile", (profile - zero[:, None]) / size[:, None], persistent=False
        )
        self.register_buffer("one_count", (1 / size)[:, None, None], persistent=False)
        self.register_buffer("unit", (deviation / size)[:, None, None], persistent=False)
        self.register_buffer("offset", ((mean - zero) / size)[:, None, None], persistent=False)

    def forward(self, history: State, ahead: State) -> Decomposition:
        """Decompose a window."""
        x = history.signal[:, 0] * self.unit + self.offset  # in means, or still in deviations
        past, coming = self._profile_at(history), self._profile_at(ahead)
        if not self.counts:
            level = (x - past).sum(dim=2, keepdim=True) / (x.shape[2] + 1)
            usual = past + level
            clipped = level.clamp(-MAX_OFFSET, MAX_OFFSET)
            return Decomposition(x - usual, clipped, coming + level, torch.ones_like(coming))
        observed, expected = x.sum(dim=2, keepdim=True), past.sum(dim=2, keepdim=True)
        level = ((observed + self.one_count) / (expected + self.one_count)).clamp(min=MIN_LEVEL)
        usual, coming = level * past, level * coming
        deviation = (x - usual) / (self.unit * torch.sqrt(usual + FLOOR))
        scaled = (coming - self.offset) / self.unit
        return Decomposition(
            deviation,
            level.log().clamp(-MAX_LOG_LEVEL, MAX_LOG_LEVEL),
            scaled,
            torch.sqrt(coming + FLOOR),
        )

    def _profile_at(self, steps: State) -> Float[Tensor, "N B T"]:
        hours = hour_of_week(steps)
        return self.profile.index_select(1, hours.flatten()).view(-1, *hours.shape)


class DeviationNetwork(Network):
    """Wraps a network that sees and forecasts deviations r of a decomposition instead of x."""

    def __init__(self, core: Network, level: SeasonalProfile) -> None:
        nn.Module.__init__(self)
        self.inputs, self.L, self.K = core.inputs, core.L, core.K
        self.window_numbers = core.window_numbers
        self.level, self.core = level, core

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantile levels of the wrapped network."""
        return self.core.levels

    def reach(self, step: int) -> int | None:
        """The number of graph edges from which values can reach the forecast of a step."""
        return self.core.reach(step)

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        parts: Decomposition = self.level(history, ahead)
        deviations = None if truth is None else parts.deviations(truth)
        signal = torch.cat([parts.past[:, None], history.signal[:, 1:]], dim=1)
        forecast, quantiles = self.core(
            State(signal, history.auxiliary),
            ahead,
            deviations,
            forced,
            with_quantiles=with_quantiles,
        )
        return parts.restore(forecast), parts.restore(quantiles)


def hour_of_week(steps: State) -> Int64[Tensor, "B T"]:
    """The hour since Monday 0:00 of each step, from the calendar columns of a."""
    calendar = steps.auxiliary[-len(CALENDAR_COLUMNS) :]
    weekday = calendar[: len(WEEKDAYS)].argmax(dim=0)
    return weekday * DAY_HOURS + calendar[len(WEEKDAYS) :][:DAY_HOURS].argmax(dim=0)
