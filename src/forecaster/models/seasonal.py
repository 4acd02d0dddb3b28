"""What is usual for a location at each hour of the week, at the level of a window's own weeks."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from forecaster.clock.clock import CALENDAR_COLUMNS, WEEKDAYS
from forecaster.models.network import Network
from forecaster.models.neurons import State

DAY_HOURS = 24
LEAST = 1e-3  # level: below it a window says nothing
FLOOR = 0.05  # of a location's mean: hours without demand may deviate too
FAR, FAR_OFF = 0.25, 1.0  # log m, or m: what a network is told of a level further from usual


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Deviations r of L past steps, and how to make K coming steps of such deviations."""

    past: Float[Tensor, "N B L"]  # r_s
    level: Float[Tensor, "N B 1"]  # log m, or m, cut at what a network is told
    ahead: Float[Tensor, "N B K"]  # u_{t+k}, scaled
    spread: Float[Tensor, "N B K"]  # of a deviation of 1, scaled

    def take(self, deviation: Float[Tensor, "N *Q B K"]) -> Float[Tensor, "N *Q B K"]:
        """Return x = u + spread · r."""
        return (
            self._beside(self.ahead, deviation) + self._beside(self.spread, deviation) * deviation
        )

    def deviate(self, x: Float[Tensor, "N B T"]) -> Float[Tensor, "N B T"]:
        """Return r = (x − u) / spread of the first coming steps."""
        T = x.shape[2]
        return (x - self.ahead[:, :, :T]) / self.spread[:, :, :T]

    @staticmethod
    def _beside(own: Tensor, other: Tensor) -> Tensor:
        return own if own.ndim == other.ndim else own[:, None]


class SeasonalProfile(nn.Module):
    """Takes the values of a window apart: x_s = u_s + spread_s · r_s, all scaled.

    p(s) is a location's mean at the hour of the week of step s. Counts rise and fall together:
    u_s = m p(s) with m = (Σ_s x_s + 1) / (Σ_s p(s) + 1) over the window, and a busy hour deviates
    more, by √(u_s / x̄ + 1/20) deviations. Measurements shift: u_s = p(s) + m with
    m = Σ_s (x_s − p(s)) / (L + 1), and all hours deviate alike. One count, or one step, as usual
    is added to what was seen, so that little of it does not make a level.
    """

    profile: Float[Tensor, "N W"]
    one: Float[Tensor, "N 1 1"]  # a count, in means
    unit: Float[Tensor, "N 1 1"]
    offset: Float[Tensor, "N 1 1"]

    def __init__(
        self,
        profile: Float[Tensor, "N W"],
        mean: Float[Tensor, " N"],
        deviation: Float[Tensor, " N"],
        *,
        counts: bool,
    ) -> None:
        """Hold what is usual.

        Args:
            profile: in the values' units, Monday 0:00 first.
            mean: by which the values are scaled, as by the deviation.
            deviation: see above.
            counts: whether levels multiply.
        """
        super().__init__()
        self.counts = counts
        one = torch.where(mean > 0, mean, deviation) if counts else deviation
        zero = torch.zeros_like(mean) if counts else mean
        self.register_buffer("profile", (profile - zero[:, None]) / one[:, None], persistent=False)
        self.register_buffer("one", (1 / one)[:, None, None], persistent=False)
        self.register_buffer("unit", (deviation / one)[:, None, None], persistent=False)
        self.register_buffer("offset", ((mean - zero) / one)[:, None, None], persistent=False)

    def forward(self, history: State, ahead: State) -> Decomposition:
        """Return what is usual in a window, and how its past deviates from it."""
        x = history.signal[:, 0] * self.unit + self.offset  # in means, or still in deviations
        past, coming = self._profile_at(history), self._profile_at(ahead)
        if not self.counts:
            level = (x - past).sum(dim=2, keepdim=True) / (x.shape[2] + 1)
            usual = past + level
            known = level.clamp(-FAR_OFF, FAR_OFF)
            return Decomposition(x - usual, known, coming + level, torch.ones_like(coming))
        seen, expected = x.sum(dim=2, keepdim=True), past.sum(dim=2, keepdim=True)
        level = ((seen + self.one) / (expected + self.one)).clamp(min=LEAST)
        usual, coming = level * past, level * coming
        deviation = (x - usual) / (self.unit * torch.sqrt(usual + FLOOR))
        scaled = (coming - self.offset) / self.unit
        return Decomposition(
            deviation, level.log().clamp(-FAR, FAR), scaled, torch.sqrt(coming + FLOOR)
        )

    def _profile_at(self, steps: State) -> Float[Tensor, "N B T"]:
        hours = hour_of_week(steps)
        return self.profile.index_select(1, hours.flatten()).view(-1, *hours.shape)


class DeviationNetwork(Network):
    """A network that sees and forecasts deviations from what is usual, and nothing else of x."""

    def __init__(self, core: Network, level: SeasonalProfile) -> None:
        nn.Module.__init__(self)
        self.inputs, self.L, self.K = core.inputs, core.L, core.K
        self.window_numbers = core.window_numbers
        self.level, self.core = level, core

    @property
    def levels(self) -> tuple[float, ...]:
        """Which quantiles there are beside the forecast."""
        return self.core.levels

    def reach(self, step: int) -> int | None:
        """Return from how many edges of the graph values can reach the forecast of a step."""
        return self.core.reach(step)

    def forward(
        self, history: State, ahead: State, truth: Float[Tensor, "N B T"]
    ) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the true signals before it."""
        usual: Decomposition = self.level(history, ahead)
        deviation = self.core(_show(usual, history), ahead, usual.deviate(truth))
        return usual.take(deviation)

    def teach(
        self, history: State, ahead: State, truth: Tensor, *shown: Tensor
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `forward` does, and the quantiles of `levels`."""
        usual = self.level(history, ahead)
        truth = usual.deviate(truth)
        forecast, quantiles = self.core.teach(_show(usual, history), ahead, truth, *shown)
        return usual.take(forecast), usual.take(quantiles)

    def roll_out(self, history: State, ahead: State) -> Float[Tensor, "N B K"]:
        """Return x̂_{t+1…t+K}, each from the forecasts before it."""
        usual: Decomposition = self.level(history, ahead)
        deviation = self.core.roll_out(_show(usual, history), ahead)
        return usual.take(deviation)

    def spread_out(
        self, history: State, ahead: State
    ) -> tuple[Float[Tensor, "N B K"], Float[Tensor, "N Q B K"]]:
        """Return what `roll_out` does, and the quantiles of `levels`."""
        usual = self.level(history, ahead)
        forecast, quantiles = self.core.spread_out(_show(usual, history), ahead)
        return usual.take(forecast), usual.take(quantiles)


def _show(usual: Decomposition, history: State) -> State:
    """Return the history with deviations in place of values."""
    signal = torch.cat([usual.past[:, None], history.signal[:, 1:]], dim=1)
    return State(signal, history.auxiliary)


def hour_of_week(steps: State) -> Int64[Tensor, "B T"]:
    """Return the hour since Monday 0:00 of each step, which ends its auxiliary information."""
    calendar = steps.auxiliary[-len(CALENDAR_COLUMNS) :]
    weekday = calendar[: len(WEEKDAYS)].argmax(dim=0)
    return weekday * DAY_HOURS + calendar[len(WEEKDAYS) :][:DAY_HOURS].argmax(dim=0)
