"""Seasonal decomposition: each location's weekly profile at the level of a window."""

from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from forecaster.models.layers.neurons import State
from forecaster.models.mixer.hiding import HiddenMasks
from forecaster.models.network import Network, Outputs
from forecaster.windows.profile import SPREAD_FLOOR

DAY_HOURS = 24
MIN_LEVEL = 1e-3  # of counts
ZERO_WIDTH = 0.05  # of the usual count: forecasts below about this bend towards zero
TINY = 1e-12
MAX_LOG_LEVEL, MAX_OFFSET = 0.25, 1.0  # a network's input log m, or m, is clipped here
# The axis along which a buffer of a profile has an entry for each location.
LOCATION_AXES = {
    "profile": 0,
    "one_count": 0,
    "unit": 0,
    "offset": 0,
    "known": 0,
    "value_bounds": 1,
    "deviation_bounds": 1,
}


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A window as expected values u and deviations r: x = u + spread · r, all scaled."""

    past: Float[Tensor, "N B L"]  # r_s
    bounded: Float[Tensor, "N B R"]  # r_s of the last steps, as other locations may see them
    level: Float[Tensor, "N B 1"]  # log m, or m, clipped
    ahead: Float[Tensor, "N B K"]  # u_{t+k}, scaled
    shape: Float[Tensor, "N B K"]  # the same as an input; at a mean level, where x̄ is not known
    spread: Float[Tensor, "N B K"]  # of a deviation of 1, scaled
    observed: Bool[Tensor, "N B L"]  # which past values are neither missing nor hidden
    known: Float[Tensor, "N b 1"] | None  # how well training knows a location; None: all fully

    def select(self, rows: Int64[Tensor, " n"]) -> "Decomposition":
        """The part of some locations."""
        known = None if self.known is None else self.known.index_select(0, rows)
        names = (f.name for f in fields(self) if f.name != "known")
        parts = {name: getattr(self, name).index_select(0, rows) for name in names}
        return Decomposition(**parts, known=known)

    def restore(self, deviation: Float[Tensor, "N *Q B K"]) -> Float[Tensor, "N *Q B K"]:
        """Values x = u + spread · r of the coming steps."""
        expected, spread = self.ahead, self.spread
        if deviation.ndim > expected.ndim:  # of quantiles
            expected, spread = expected[:, None], spread[:, None]
        return (spread * deviation).add_(expected)

    def deviations(self, x: Float[Tensor, "N B T"]) -> Float[Tensor, "N B T"]:
        """Deviations r = (x − u) / spread of the first coming steps."""
        T = x.shape[2]
        return (x - self.ahead[:, :, :T]) / self.spread[:, :, :T]


@dataclass(frozen=True, eq=False)
class DeviationBounds:
    """What training has seen of each location: its values by hour of the day, its deviations."""

    values: Float[Tensor, "2 N H"]  # the smallest and the largest, in the values' units
    deviations: Float[Tensor, "2 N"]  # of r
    known: Float[Tensor, " N"]  # the share of counts that are enough to know a location by
    # The city's shape by step of the season, which an unknown location has: relative to the mean
    # of counts, in deviations of measurements. None: runs of earlier versions, which fill gaps.
    city: Float[Tensor, " W"] | None = None
    # The hour of the day of each step of the season; None: those of a week of hours.
    hours: Int64[Tensor, " W"] | None = None


class SeasonalProfile(nn.Module):
    """Decomposes the values of a window: x_s = u_s + spread_s · r_s, all scaled.

    p(s) is what is usual at a location at the step of the season (`State.slots`) of s: of a week,
    by the panel's own step. Counts rise and fall together:
    u_s = m p(s) with m = (Σ_s x_s + 1) / (Σ_s p(s) + 1) over the window, and a busy hour deviates
    more, by √(u_s / x̄ + 1/20) deviations. Measurements shift: u_s = p(s) + m with
    m = Σ_s (x_s − p(s)) / (L + 1), and all hours deviate alike. One expected count, or
    one expected step, is added to the observed ones, so that a few cannot set the level alone;
    of an unknown location, only as much as a scale needs. Sums are over observed steps; a missing
    value does not deviate.

    Other locations see r bounded: by the deviation that the smallest and the largest training
    value at that hour of the day would have, and by the extreme deviations of training. So no
    value can reach others further than training has seen, and a location whose values at that
    hour never varied in training, being closed, does not reach them at all. At levels below all of
    training, half of the lowest deviation is still seen: a city that falls silent falls together.

    A location with too few counts in training to know its spread has that of Poisson counts while
    it is quiet, and the city's spread in relation to its level once it is busy. While a network
    is trained, known locations are hidden at random: they have the city's profile then, and others
    do not see them, as if they had opened after training.
    """

    profile: Float[Tensor, "N W"]
    city: Float[Tensor, "1 W"] | None
    # In units of the profile, which are means of counts or deviations of measurements:
    one_count: Float[Tensor, "N 1 1"]
    unit: Float[Tensor, "N 1 1"]  # a deviation
    offset: Float[Tensor, "N 1 1"]  # the mean, of counts
    city_spread: Float[Tensor, ""]  # of counts, in relation to the mean
    known: Float[Tensor, "N 1 1"] | None
    hours: Int64[Tensor, " W"]  # of the day
    value_bounds: Float[Tensor, "2 N H"] | None
    deviation_bounds: Float[Tensor, "2 N"] | None

    def __init__(
        self,
        profile: Float[Tensor, "N W"],
        mean: Float[Tensor, " N"],
        deviation: Float[Tensor, " N"],
        *,
        counts: bool,
        bounds: DeviationBounds | None = None,
        recent: int | None = None,
    ) -> None:
        """Scale the profile.

        Args:
            profile: in the values' units, the first step of the season first.
            mean: of the scaled values, by location.
            deviation: of the scaled values, by location.
            counts: whether the level multiplies the profile; else it is added.
            bounds: of the deviations that others see; None: no bounds (runs of earlier versions).
            recent: the last steps that others see; None: all.
        """
        super().__init__()
        self.counts, self.recent = counts, recent
        size = torch.where(mean > 0, mean, deviation) if counts else deviation
        zero = torch.zeros_like(mean) if counts else mean
        self.register_buffer(
            "profile", (profile - zero[:, None]) / size[:, None], persistent=False
        )
        value_bounds = deviation_bounds = known = city = None
        city_spread, hours = torch.ones(()), torch.arange(profile.shape[1]) % DAY_HOURS
        if bounds is not None:
            hours = hours if bounds.hours is None else bounds.hours
            city = None if bounds.city is None else bounds.city[None]
            if (bounds.known >= 1).any():
                city_spread = (deviation / size)[bounds.known >= 1].median()
            known = bounds.known[:, None, None]
            value_bounds = (bounds.values - zero[:, None]) / size[:, None]
            deviation_bounds = bounds.deviations
        self.register_buffer("city", city, persistent=False)
        self.register_buffer("city_spread", city_spread, persistent=False)
        self.register_buffer("known", known, persistent=False)
        self.register_buffer("hours", hours, persistent=False)
        self.register_buffer("value_bounds", value_bounds, persistent=False)
        self.register_buffer("deviation_bounds", deviation_bounds, persistent=False)
        self.register_buffer("one_count", (1 / size)[:, None, None], persistent=False)
        self.register_buffer("unit", (deviation / size)[:, None, None], persistent=False)
        self.register_buffer("offset", ((mean - zero) / size)[:, None, None], persistent=False)

    def select(self, locations: Int64[Tensor, " n"]) -> "SeasonalProfile":
        """The profile of some locations."""
        part = copy(self)
        part._buffers = {
            name: buffer
            if buffer is None or name not in LOCATION_AXES
            else buffer.index_select(LOCATION_AXES[name], locations)
            for name, buffer in self._buffers.items()
        }
        return part

    def forward(
        self, history: State, ahead: State, hidden: HiddenMasks | None = None
    ) -> Decomposition:
        """Decompose a window.

        Args:
            history: the past steps; NaN: missing.
            ahead: the coming steps.
            hidden: past steps and locations that are hidden, while a network is trained.
        """
        signal, known = history.signal[:, 0], self.known
        observed = self._since_opening(signal)
        past, coming = self._profile_at(history), self._profile_at(ahead)
        if hidden is not None and known is not None and self.city is not None:
            observed, places = observed & ~hidden.lags, hidden.places[..., None]
            past = torch.where(places, _at_slots(self.city, history), past)
            coming = torch.where(places, _at_slots(self.city, ahead), coming)
            known = torch.where(places, 0.0, known)
        x = torch.where(observed, signal, 0.0) * self.unit + self.offset  # in means, or deviations
        decompose = self._decompose_counts if self.counts else self._decompose_measurements
        parts = decompose(x, past, coming, observed, known)
        bounded = self._bound(parts.past, parts.usual, parts.past_spread, history)
        if hidden is not None:
            bounded = bounded * ~hidden.places[..., None]
        return Decomposition(
            parts.past,
            bounded,
            parts.level,
            parts.ahead,
            parts.shape,
            parts.spread,
            observed,
            known,
        )

    def _since_opening(self, signal: Float[Tensor, "N B L"]) -> Bool[Tensor, "N B L"]:
        """Which values are observed; of a location that training knew as closed, since it opened.

        Zeros before its first count in a window say nothing about its level. If there is no
        count, it is still closed, and its zeros are observed.
        """
        observed = torch.isfinite(signal)
        if not self.counts or self.known is None or self.city is None:
            return observed
        counted = signal * self.unit + self.offset > self.one_count / 2  # False where missing
        opened = counted.cumsum(dim=2) > 0
        since = (self.known > 0) | opened | ~opened[..., -1:]
        return observed & since

    def _decompose_counts(
        self,
        x: Float[Tensor, "N B L"],
        past: Float[Tensor, "N B L"],
        coming: Float[Tensor, "N B K"],
        observed: Bool[Tensor, "N B L"],
        known: Float[Tensor, "N b 1"] | None,
    ) -> "_Parts":
        """Decompose counts: u = m p, in means."""
        count, expected = (
            torch.where(observed, part, 0.0).sum(dim=2, keepdim=True) for part in (x, past)
        )
        added = self.one_count
        if known is not None and self.city is not None:
            added = torch.where(known > 0, added, added.clamp(max=1.0))
        level = ((count + added) / (expected + added)).clamp(min=MIN_LEVEL)
        usual, coming = level * past, level * coming
        spread = self._spread(usual, level, known)
        deviation = torch.where(observed, (x - usual).div_(self.unit * spread), 0.0)
        scaled = (coming - self.offset).div_(self.unit)
        shape, log_level = scaled, level.log().clamp(-MAX_LOG_LEVEL, MAX_LOG_LEVEL)
        if known is not None:
            relative = (coming / level).sub_(self.offset).div_(self.city_spread)
            shape = torch.where(known >= 1, scaled, relative)
            if self.city is not None:
                log_level = torch.where(known > 0, log_level, 0.0)
        return _Parts(
            past=deviation,
            usual=usual,
            past_spread=self.unit * spread,
            level=log_level,
            ahead=scaled,
            shape=shape,
            spread=self._spread(coming, level, known),
        )

    def _decompose_measurements(
        self,
        x: Float[Tensor, "N B L"],
        past: Float[Tensor, "N B L"],
        coming: Float[Tensor, "N B K"],
        observed: Bool[Tensor, "N B L"],
        known: Float[Tensor, "N b 1"] | None,
    ) -> "_Parts":
        """Decompose measurements: u = p + m, in deviations."""
        differences = torch.where(observed, x - past, 0.0)
        steps: Tensor = observed.sum(dim=2, keepdim=True).to(x.dtype)
        weight, level_known = steps + 1, torch.ones_like(steps)
        if known is not None and self.city is not None:
            level_known = torch.where(known > 0, level_known, 0.0)
            weight = (steps + level_known).clamp(min=1.0)
        level = differences.sum(dim=2, keepdim=True) / weight
        usual, ahead = past + level, coming + level
        shape = torch.where(level_known >= 1, ahead, coming)
        return _Parts(
            past=torch.where(observed, x - usual, 0.0),
            usual=usual,
            past_spread=self.unit,
            level=level.clamp(-MAX_OFFSET, MAX_OFFSET) * level_known,
            ahead=ahead,
            shape=shape,
            spread=torch.ones_like(coming),
        )

    def _spread(
        self,
        usual: Float[Tensor, "N B T"],
        level: Float[Tensor, "N B 1"],
        known: Float[Tensor, "N b 1"] | None,
    ) -> Float[Tensor, "N B T"]:
        """The spread of counts around the usual ones u, in deviations σ.

        √(u + 1/20). Where σ is not known, it is that of Poisson counts at a low level m, and in
        proportion to m at a high one: √(s² m (u + 1/20) + u / x̄) / σ with the city's s = σ / x̄.
        The scale of an unknown location is arbitrary: there m/20 stands for 1/20.
        """
        own = (usual + SPREAD_FLOOR).sqrt_()  # in place: at long horizons memory takes longest
        if known is None:
            return own
        is_unknown = (known <= 0) & (self.city is not None)
        floor = SPREAD_FLOOR * torch.where(is_unknown, level, torch.ones_like(level))
        assumed = (usual + floor).mul_(self.city_spread.square() * level)
        assumed = assumed.add_((usual + TINY).mul_(self.one_count)).sqrt_() / self.unit
        return torch.where(known >= 1, own, assumed)

    def keep_positive(
        self, x: Float[Tensor, "N B K"], usual: Float[Tensor, "N B K"]
    ) -> Float[Tensor, "N B K"]:
        """Scaled forecasts of counts above zero: y ← (y + √(y² + 4 w²)) / 2 with w = u / 20.

        Cutting off what is below zero after training would make the mean of rare counts too high.
        A forecast near the usual count u is left as it is.
        """
        inputs = x, usual, -self.offset / self.unit
        positive: Tensor = _Positive.apply(*inputs)  # type: ignore[no-untyped-call]
        return positive

    def _bound(
        self,
        deviation: Float[Tensor, "N B L"],
        usual: Float[Tensor, "N B L"],
        spread: Float[Tensor, "N b l"],
        history: State,
    ) -> Float[Tensor, "N B R"]:
        """The deviations of the last steps, bounded by what training has seen."""
        last = slice(-self.recent if self.recent else None, None)
        r = deviation[..., last]
        if self.value_bounds is None or self.deviation_bounds is None:
            return r
        slots = slots_of(history)[:, last]
        hours = self.hours.index_select(0, slots.flatten())
        least, most = self.value_bounds.index_select(2, hours).view(2, len(r), *slots.shape)
        lowest, highest = self.deviation_bounds[..., None, None]
        low = torch.minimum((least - usual[..., last]) / spread[..., last], lowest / 2)
        low = torch.maximum(low, lowest)
        high = torch.minimum((most - usual[..., last]) / spread[..., last], highest)
        low, high = (torch.where(most > least, bound, 0.0) for bound in (low, high))
        return flatten_beyond(r.clamp(min=0), high) - flatten_beyond(-r.clamp(max=0), -low)

    def _profile_at(self, steps: State) -> Float[Tensor, "N B T"]:
        return _at_slots(self.profile, steps)


@dataclass(frozen=True, eq=False)
class _Parts:
    """A decomposition before others' view of it is bounded; fields as in `Decomposition`."""

    past: Float[Tensor, "N B L"]
    usual: Float[Tensor, "N B L"]  # u_s
    past_spread: Float[Tensor, "N b l"]  # of a deviation of 1
    level: Float[Tensor, "N B 1"]
    ahead: Float[Tensor, "N B K"]
    shape: Float[Tensor, "N B K"]
    spread: Float[Tensor, "N B K"]


class _Positive(torch.autograd.Function):
    """(y + √(y² + 4 w²)) / 2 above the zero of scaled counts, and its slope (1 + y / √ …) / 2."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        x, usual, zero = inputs
        y: Tensor = x - zero
        width: Tensor = (usual - zero).mul_(2 * ZERO_WIDTH)
        root = y.square().add_(width.square_()).add_(TINY).sqrt_()
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward((y / root).add_(1).div_(2))
        return y.add_(root).div_(2).add_(zero)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return grads[0] * slope, None, None


class DeviationNetwork(Network):
    """Wraps a network that sees and forecasts deviations r of a decomposition instead of x."""

    def __init__(self, core: Network, level: SeasonalProfile) -> None:
        nn.Module.__init__(self)
        self.inputs, self.L, self.K = core.inputs, core.L, core.K
        self.window_numbers = core.window_numbers
        self.level, self.core, self.slots = level, core, level.profile.shape[1]
        self.has_relative = core.has_relative

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantile levels of the wrapped network."""
        return self.core.levels

    def reach(self, step: int) -> int | None:
        """The number of graph edges from which values can reach the forecast of a step."""
        return self.core.reach(step)

    def horizon_cost(self) -> str:
        """What a long horizon costs, in words."""
        return self.core.horizon_cost()

    def forward(
        self,
        history: State,
        ahead: State,
        truth: Float[Tensor, "N B T"] | None = None,
        forced: Bool[Tensor, " T"] | None = None,
        *,
        with_quantiles: bool = True,
    ) -> Outputs:
        parts: Decomposition = self.level(history, ahead)
        deviations = None if truth is None else parts.deviations(truth)
        signal = torch.cat([parts.bounded[:, None], history.signal[:, 1:]], dim=1)
        outputs: Outputs = self.core(
            State(signal, history.auxiliary),
            ahead,
            deviations,
            forced,
            with_quantiles=with_quantiles,
        )
        return Outputs(*(parts.restore(deviation) for deviation in outputs))


def flatten_beyond(
    r: Float[Tensor, "N B R"], bound: Float[Tensor, "N B R"]
) -> Float[Tensor, "N B R"]:
    """R ≥ 0 up to half of the bound, then less and less of it; the same for all beyond the bound.

    The slope is 1 up to the half and falls evenly to 0 at the bound; without a bound above 0
    nothing is left.
    """
    half = bound.clamp(min=0) / 2
    beyond = torch.minimum((r - half).clamp(min=0), half)
    return torch.minimum(r, half) + beyond - beyond.square() / (2 * half).clamp(min=TINY)


def _at_slots(profile: Float[Tensor, "n W"], steps: State) -> Float[Tensor, "n B T"]:
    """The profile at each step."""
    slots = slots_of(steps)
    return profile.index_select(1, slots.flatten()).view(-1, *slots.shape)


def slots_of(steps: State) -> Int64[Tensor, "B T"]:
    """The step of the season of each step, without which nothing is usual."""
    if steps.slots is None:
        raise ValueError("what is usual depends on the step of the season; give State its slots")
    return steps.slots
