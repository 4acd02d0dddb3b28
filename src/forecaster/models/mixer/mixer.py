"""The Mixer, Forecaster's `best` network over deviations from the seasonal profile."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor, nn
from torch.nn.functional import gelu, linear, pad

from forecaster.clock.clock import CALENDAR_COLUMNS, WEEK_HOURS, WEEKDAYS
from forecaster.config import LagConfig, MixerConfig
from forecaster.kernels.pattern import BlockPattern
from forecaster.kernels.product import block_product
from forecaster.kernels.sample import LocationSample
from forecaster.models.layers.linear import SparseLinear, draw_dense
from forecaster.models.layers.neurons import NeuronLayout, State
from forecaster.models.layers.randomness import Dropout
from forecaster.models.mixer.hiding import HiddenInputs
from forecaster.models.mixer.linear_forecast import LinearForecast, steps_ahead
from forecaster.models.mixer.seasonal import DAY_HOURS, Decomposition, SeasonalProfile, slots_of
from forecaster.models.mixer.step_context import LONG_HORIZON, StepContext
from forecaster.models.network import (
    NO_HEADS,
    CrossLocationModule,
    Heads,
    Network,
    Outputs,
    no_quantiles,
)
from forecaster.models.quantiles import LocationQuantileHead


@dataclass(frozen=True)
class PastOnlyInputs:
    """Which covariates are unknown ahead: their recent steps enter in place of the coming ones."""

    local: tuple[int, ...] = ()  # numbers of local covariates
    shared: tuple[int, ...] = ()  # numbers of entries of a


NONE_PAST_ONLY = PastOnlyInputs()
MOST_AT_ONCE = 5_000  # locations; more are forecast in blocks
PAIRS_AT_ONCE = 2**16  # locations times windows of a block
QUANTILE_SHARE = 4  # at long horizons, quantiles learn from this fraction of a batch's windows


@dataclass(frozen=True, eq=False)
class MixerPrerequisites:
    """Fitted before the network: the seasonal profile and the dependency graph."""

    profile: SeasonalProfile
    pattern: BlockPattern
    past_only: PastOnlyInputs = NONE_PAST_ONLY
    repeats: bool = True  # whether training has seen more than one week, or year of long steps
    yearly: bool = False  # whether the season is a year, where training has seen one only


class Mixer(Network):
    """x̂_{t+1…t+K}, all at once, from the deviations r of `SeasonalProfile`.

    z_i = W_r r_i + W_g Σ_{j ∈ N(i) ∪ {i}} w_ij r_j + W_c F r + W_a a_{t+1…t+K} + e_i + d_w
    z_i ← z_i + V gelu(U z_i), some times; r̂_i = O z_i, x̂_i = u_i + spread_i · r̂_i

    The mean and the lowest relative error have an output O each. Over a directed graph, a linear
    forecast from recent deviations is added to r̂ and enters z in place of W_g (`LinearForecast`).

    All locations share one set of weights. A location's own are its embedding e_i and a few
    strengths w_ij for each of its edges. F r are a few factors of the whole city, d_w belongs to
    the time of the week (`hour_weights`). Neighbours and the city enter with their recent steps
    only, and with deviations bounded by what training has seen (`DeviationBounds`).

    A missing value deviates by 0, and r_i says which are missing. Training hides values and
    locations (`HiddenInputs`); a location that it does not know has the embedding of an unknown
    one, e_0, in place of its own.

    With more than twelve coming steps, the weather and calendar of each also act on its own
    forecast: r̂_ik = (O z_i)_k + (S z_i) · e_k (`StepContext`). Quantiles then learn from a
    quarter of each batch, whose targets are many, in a quarter of the time.

    Where training is shorter than two seasons, what is special about a weekday (or a month) cannot
    be told from what happened on that day: d and the calendar then know the time of day only.
    """

    samples = True
    hour_weights: Float[Tensor, "W rows"]
    calendar: Float[Tensor, "A 1 1"] | None  # 0: left out; None: all of a enters

    def __init__(
        self,
        config: MixerConfig,
        lags: LagConfig,
        inputs: NeuronLayout,
        fitted: MixerPrerequisites,
        generator: Generator,
        heads: Heads = NO_HEADS,
    ) -> None:
        super().__init__(inputs, lags)
        N, L, K, R, H = inputs.n_locations, self.L, self.K, lags.recent, config.hidden
        self.recent, self.level = R, fitted.profile
        self.masks = fitted.profile.city is not None
        self.hiding = HiddenInputs(R) if self.masks else None
        self.past_only = fitted.past_only
        self.neighbours = self.linear = None
        if config.edges and fitted.pattern.is_directed:
            self.linear = LinearForecast(fitted.pattern, lags, config.factors)
        elif config.edges:
            channels = NeuronLayout(N, 1, 0), NeuronLayout(N, config.edges, 0)
            self.neighbours = SparseLinear(*channels, fitted.pattern, generator, bias=False)
        per_location, shared = input_widths(config, lags, inputs, fitted)
        per_location += L if self.masks else 0
        self.city = CityFactors(N, config.factors, generator)
        self.from_location = draw_dense(per_location, H, False, generator)
        self.from_all = draw_dense(shared, H, False, generator)
        self.place = nn.Parameter(torch.zeros(N, 1, H))  # e, a location's embedding
        self.unknown = nn.Parameter(torch.zeros(1, 1, H)) if self.masks else None  # e_0
        self.slots = fitted.profile.profile.shape[1]
        weights = hour_weights(self.slots, repeats=fitted.repeats, yearly=fitted.yearly)
        self.register_buffer("hour_weights", weights, persistent=False)
        calendar = (
            None if fitted.repeats else time_of_day_only(inputs.auxiliary, yearly=fitted.yearly)
        )
        self.register_buffer("calendar", calendar, persistent=False)
        self.hour = nn.Parameter(torch.zeros(weights.shape[1], H))  # d
        self.blocks = nn.ModuleList(ResidualBlock(H, generator) for _ in range(config.blocks))
        self.dropout = Dropout(config.dropout)
        self.output = nn.Parameter(torch.zeros(K, H))
        self.has_relative = heads.relative
        self.is_positive = heads.relative and fitted.profile.counts
        self.relative = nn.Parameter(torch.zeros(K, H)) if heads.relative else None
        is_long, A = K > LONG_HORIZON, inputs.auxiliary
        self.context = StepContext(H, A, K, generator) if is_long else None
        self.relative_context = (
            StepContext(H, A, K, generator) if is_long and heads.relative else None
        )
        self.window_numbers = N * (6 * L + H * (4 + 4 * config.blocks))
        self.quantiles = (
            LocationQuantileHead(heads.levels, H, K, generator) if heads.levels else None
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
        """Return x̂_{t+1…t+K} and its quantiles; all steps at once, so `truth` is not used."""
        del forced
        self.check_sizes(history, ahead, truth)
        if self.calendar is not None:
            ahead = replace(ahead, auxiliary=ahead.auxiliary * self.calendar)
        hidden = None if self.hiding is None else self.hiding(history.signal[:, 0])
        place: Tensor = self.place
        sample, level = history.sample, self.level
        if self._exceeds_block(history):
            return self._forecast_blocks(history, ahead, with_quantiles)
        if sample is not None:
            level = level.select(sample.locations)
        parts: Decomposition = level(history, ahead, hidden)
        others = self._hear(parts.bounded, parts.known, sample)
        if sample is not None:
            history, parts = _take_rows(history, sample.rows), parts.select(sample.rows)
            level, place = level.select(sample.rows), place.index_select(0, sample.targets)
        return self._forecast(
            history, ahead, parts, others, _LocationWeights(level, place), with_quantiles
        )

    def _exceeds_block(self, history: State) -> bool:
        """Whether locations are forecast in blocks: many, without gradients."""
        many = len(history.signal) > MOST_AT_ONCE
        return many and history.sample is None and not (self.training or torch.is_grad_enabled())

    def _forecast_blocks(self, history: State, ahead: State, with_quantiles: bool) -> Outputs:
        """The forecasts of all locations, a block at a time, so that this bounds the memory.

        What they are told of each other is small, and computed first.
        """
        N, _, B, _ = history.signal.shape
        every, size = torch.arange(N, device=history.signal.device), max(PAIRS_AT_ONCE // B, 1)
        blocks = [every[first : first + size] for first in range(0, N, size)]
        bounded = []
        for rows in blocks:
            parts: Decomposition = self.level.select(rows)(_take_rows(history, rows), ahead)
            bounded.append(parts.bounded)
        others = self._hear(torch.cat(bounded), self.level.known, None)
        outputs = [
            self._forecast_block(history, ahead, others, rows, with_quantiles) for rows in blocks
        ]
        return Outputs(*(torch.cat(each) for each in zip(*outputs, strict=True)))

    def _forecast_block(
        self,
        history: State,
        ahead: State,
        others: "_Others",
        rows: Int64[Tensor, " n"],
        with_quantiles: bool,
    ) -> Outputs:
        """The forecasts of a block of all locations, whose history and others these are."""
        history, ahead, level = (
            _take_rows(history, rows),
            _take_rows(ahead, rows),
            self.level.select(rows),
        )
        parts: Decomposition = level(history, ahead)
        weights = _LocationWeights(level, self.place.index_select(0, rows))
        return self._forecast(history, ahead, parts, others.at(rows), weights, with_quantiles)

    def _forecast(
        self,
        history: State,
        ahead: State,
        parts: Decomposition,
        others: "_Others",
        weights: "_LocationWeights",
        with_quantiles: bool,
    ) -> Outputs:
        """The forecasts of some locations, from their windows and what they hear of others."""
        z = self._embed(history, ahead, parts, others, weights.place)
        for block in self.blocks:
            z = self.dropout(block(z))
        deviation = _add(linear(z, self.output), others.first)
        if self.context is not None:
            deviation = deviation + self.context(z, ahead.auxiliary)
        forecast = relative = self._restore(deviation, parts, weights.level)
        if self.relative is not None:
            deviation = _add(linear(z, self.relative), others.first)
            if self.relative_context is not None:
                deviation = deviation + self.relative_context(z, ahead.auxiliary)
            relative = self._restore(deviation, parts, weights.level)
        if self.quantiles is None or not with_quantiles:
            return Outputs(forecast, no_quantiles(forecast), relative)
        windows = slice(self._quantile_windows(z.shape[1]))
        z, spread = z[:, windows], parts.spread[:, windows]
        return Outputs(forecast, self.quantiles(z, forecast[:, windows], spread), relative)

    def _quantile_windows(self, windows: int) -> int:
        """How many windows of a batch have quantiles: all, but in training of long horizons."""
        is_long = self.context is not None
        return -(-windows // QUANTILE_SHARE) if self.training and is_long else windows

    def _embedding(
        self, known: Float[Tensor, "N b 1"] | None, place: Float[Tensor, "N 1 H"]
    ) -> Float[Tensor, "N b H"]:
        """e; of a location that training hardly knows, little of it, and e_0 for the rest."""
        if known is None:
            return place
        if self.unknown is None:
            return place * known
        return place * known + self.unknown * (1 - known)

    def _restore(
        self, deviation: Float[Tensor, "N B K"], parts: Decomposition, level: SeasonalProfile
    ) -> Float[Tensor, "N B K"]:
        """Forecasts of the coming steps, of counts above zero."""
        forecast = parts.restore(deviation)
        return level.keep_positive(forecast, parts.ahead) if self.is_positive else forecast

    def sample(self, targets: Int64[np.ndarray, " n"]) -> LocationSample:
        """Some locations to forecast, with their neighbours in the graph."""
        layer = self.neighbours if self.linear is None else self.linear
        if layer is None:
            return super().sample(targets)
        return LocationSample.along(layer.pattern, targets)

    def reach(self, step: int) -> int:
        """The number of graph edges from which values can reach a forecast: one, if any."""
        del step
        return 0 if self.neighbours is None and self.linear is None else 1

    def _hear(
        self,
        bounded: Float[Tensor, "N B R"],
        known: Float[Tensor, "N b 1"] | None,
        sample: LocationSample | None,
    ) -> "_Others":
        """What locations are told of others; of a sample, what its targets are.

        The city's factors are sums over all locations. Those of a sample are estimated from its
        targets, which are drawn alike: the sum over them, divided by their share.

        Args:
            bounded: recent deviations, as others see them.
            known: how well training knows each location; None: all fully.
            sample: whose these are; None: of all locations.
        """
        recent = bounded.contiguous()
        if sample is None:
            factors = self.city(recent)
        else:
            factors = self.city(recent.index_select(0, sample.rows), sample)
            known = None if known is None else known.index_select(0, sample.rows)
        neighbours = self._from_neighbours(recent, sample)
        first = neighbours[..., :0]
        if self.linear is not None:
            first = self.linear(recent, factors, known, sample)
        return _Others(factors, neighbours, first)

    def _embed(
        self,
        history: State,
        ahead: State,
        parts: Decomposition,
        others: "_Others",
        place: Float[Tensor, "N 1 H"],
    ) -> Float[Tensor, "N B H"]:
        """The hidden state z of each location, before the residual blocks.

        Args:
            history: the past steps.
            ahead: the coming steps.
            parts: the deviations of the past.
            others: what the locations are told of others.
            place: their embeddings.
        """
        local = [parts.past, parts.shape, parts.level, *self._local_covariates(history, ahead)]
        if self.masks:
            local.append((~parts.observed).to(parts.past.dtype))
        local += [others.neighbours, others.first]
        sources = (*self._shared_covariates(history, ahead), others.factors)
        shared = torch.cat([part.transpose(0, 1).flatten(1) for part in sources], dim=1)
        # A product with a one-hot matrix: a lookup would sum its gradient in no fixed order.
        one_hot = self.hour_weights.index_select(0, slots_of(history)[:, -1]).to(self.hour.dtype)
        common = linear(shared, self.from_all) + one_hot @ self.hour
        state = linear(torch.cat(local, dim=2), self.from_location)
        return state + common + self._embedding(parts.known, place)

    def _from_neighbours(
        self, recent: Float[Tensor, "m B R"], sample: LocationSample | None
    ) -> Float[Tensor, "n B c"]:
        """The recent deviations of neighbours, with a strength per edge."""
        if sample is None:
            if self.neighbours is None:
                return recent[..., :0]
            empty = recent.new_zeros(0, recent.shape[1], self.recent)
            state: State = self.neighbours(State(recent[:, None], empty))
            weighted = state.signal  # [N, edges, B, R]
        elif self.neighbours is None or sample.edges is None or sample.pattern is None:
            return recent.index_select(0, sample.rows)[..., :0]
        else:
            weight = self.neighbours.weight.index_select(0, sample.edges)
            columns = block_product(weight, recent.flatten(1)[:, None], sample.pattern)
            weighted = columns.index_select(0, sample.rows)
            weighted = weighted.view(*weighted.shape[:2], *recent.shape[1:])
        return weighted.transpose(1, 2).flatten(2)

    def _local_covariates(self, history: State, ahead: State) -> list[Float[Tensor, "N B c"]]:
        """Local covariates of the last and coming steps; of past-only ones the recent steps."""
        signal = history.signal[:, 1:]
        covariates = torch.cat([signal[..., -1:], ahead.signal], dim=3)
        if not self.past_only.local:
            return [covariates.transpose(1, 2).flatten(2)]
        known_ahead = _leave_out(covariates, 1, self.past_only.local)
        recent = _take(signal[..., -self.recent :], 1, self.past_only.local)
        return [part.transpose(1, 2).flatten(2) for part in (known_ahead, recent)]

    def _shared_covariates(self, history: State, ahead: State) -> list[Float[Tensor, "a B T"]]:
        """The coming a, and of past-only covariates the recent steps."""
        if not self.past_only.shared:
            return [ahead.auxiliary]
        recent = _take(history.auxiliary[..., -self.recent :], 0, self.past_only.shared)
        return [_leave_out(ahead.auxiliary, 0, self.past_only.shared), recent]


@dataclass(frozen=True, eq=False)
class _Others:
    """What each location is told of others."""

    factors: Float[Tensor, "F B R"]  # of the city
    neighbours: Float[Tensor, "N B c"]  # their recent deviations
    first: Float[Tensor, "N B k"]  # the linear forecast of the first coming steps

    def at(self, rows: Int64[Tensor, " n"]) -> "_Others":
        """What some of the locations are told."""
        neighbours, first = (part.index_select(0, rows) for part in (self.neighbours, self.first))
        return _Others(self.factors, neighbours, first)


@dataclass(frozen=True, eq=False)
class _LocationWeights:
    """What belongs to each location by itself."""

    level: SeasonalProfile
    place: Float[Tensor, "N 1 H"]


class CityFactors(CrossLocationModule):
    """F r: weighted sums over all locations, or their estimate from a sample."""

    def __init__(self, n_locations: int, factors: int, generator: Generator) -> None:
        super().__init__()
        self.weight = draw_dense(n_locations, factors, False, generator)

    def forward(
        self, last: Float[Tensor, "N B R"], sample: LocationSample | None = None
    ) -> Float[Tensor, "F B R"]:
        weight: Tensor = self.weight
        if sample is not None:
            weight = weight.index_select(1, sample.targets) / sample.share
        return (weight @ last.flatten(1)).view(-1, *last.shape[1:])


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


def _add(
    deviation: Float[Tensor, "N B K"], first: Float[Tensor, "N B k"]
) -> Float[Tensor, "N B K"]:
    """The deviations with the linear forecast of the first steps added, if there is one."""
    k = first.shape[2]
    return deviation + pad(first, (0, deviation.shape[2] - k)) if k else deviation


def _take_rows(state: State, rows: Int64[Tensor, " n"]) -> State:
    """The state of some locations."""
    return replace(state, signal=state.signal.index_select(0, rows))


def _take(
    inputs: Float[Tensor, "*shape"], dim: int, numbers: Sequence[int]
) -> Float[Tensor, "*taken"]:
    """Some entries along a dimension, without an index tensor: CUDA graphs can record it."""
    empty = inputs.narrow(dim, 0, 0)
    return torch.cat([empty, *(inputs.narrow(dim, n, 1) for n in numbers)], dim=dim)


def _leave_out(
    inputs: Float[Tensor, "*shape"], dim: int, numbers: Sequence[int]
) -> Float[Tensor, "*taken"]:
    return _take(inputs, dim, [n for n in range(inputs.shape[dim]) if n not in numbers])


def input_widths(
    config: MixerConfig, lags: LagConfig, inputs: NeuronLayout, fitted: MixerPrerequisites
) -> tuple[int, int]:
    """The numbers that enter z per location (W_r, W_g), without masks, and for all (W_c, W_a)."""
    L, K, R = lags.length, lags.horizon, lags.recent
    local, shared = len(fitted.past_only.local), len(fitted.past_only.shared)
    covariates = (inputs.per_location - 1 - local) * (K + 1)  # of the last and the coming steps
    neighbours = config.edges * R
    if config.edges and fitted.pattern.is_directed:
        neighbours = steps_ahead(lags)
    per_location = L + K + 1 + covariates + local * R + neighbours
    return per_location, (inputs.auxiliary - shared) * K + (config.factors + shared) * R


def hour_weights(
    slots: int, *, repeats: bool = True, yearly: bool = False
) -> Float[Tensor, "W rows"]:
    """The weight of each row of d at each step of the season: one row a step, if they are few.

    Steps below an hour lie between two hours of the week and have a share of both.

    Args:
        slots: W, the number of steps of the season.
        repeats: whether training has seen two seasons; otherwise the steps of all days share rows.
        yearly: whether the season is a year, whose steps then share one row.
    """
    period = slots if repeats else 1 if yearly else slots // len(WEEKDAYS)
    rows = min(period, WEEK_HOURS if repeats else DAY_HOURS)
    hours = torch.arange(slots, dtype=torch.float64) % period * rows / period
    share, first = hours.frac().float()[:, None], hours.floor().long()
    one_hot = torch.eye(rows)
    return (1 - share) * one_hot[first] + share * one_hot[(first + 1) % rows]


def time_of_day_only(auxiliary: int, *, yearly: bool) -> Float[Tensor, "A 1 1"]:
    """1 for entries of a that are used, 0 for weekdays, or the place in the year of long steps."""
    mask = torch.ones(auxiliary, 1, 1)
    first = auxiliary - len(CALENDAR_COLUMNS)
    weekdays = slice(first, first + len(WEEKDAYS))
    mask[slice(weekdays.stop, auxiliary - 1) if yearly else weekdays] = 0
    return mask


def count_weights(
    config: MixerConfig, lags: LagConfig, inputs: NeuronLayout, fitted: MixerPrerequisites
) -> int:
    """The number of weights, but for the output and quantile heads, biases and masks."""
    N, of_edge, of_location = inputs.n_locations, config.edges, config.hidden + config.factors
    if config.edges and fitted.pattern.is_directed:
        of_edge = steps_ahead(lags) * lags.recent
        of_location += of_edge * config.factors
    slots = fitted.profile.profile.shape[1]
    rows = hour_weights(slots, repeats=fitted.repeats, yearly=fitted.yearly).shape[1]  # of d
    inner = (
        rows + 2 * config.blocks * config.hidden + sum(input_widths(config, lags, inputs, fitted))
    )
    return N * of_location + fitted.pattern.n_edges * of_edge + config.hidden * inner
