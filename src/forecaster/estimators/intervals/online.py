"""Online intervals: corrections that follow the outcomes already observed at an origin.

After every step, its outcomes are compared with the quantiles issued for it. A level α moves up by
γ · (share above − (1 − α)) spreads where too many outcomes lay above it, and down by
γ · (share below − α) where too many lay below: the quantile tracking of adaptive conformal
inference. A forecast made at s for s + k counts only once s + k is observed.

A count x stands for x ± ½, of which a part may lie above a quantile and the rest below. A
measurement that equals a quantile is on neither side; the two outermost levels move only by the
outcomes beyond them, so that the closed interval between them has its nominal coverage. The
quantiles compared are those before they are widened to contain their forecast: otherwise the
intervals of all locations would shrink to make up for those that are widened.

A pass starts from the static corrections, at the beginning of the cycle before the origin's
cycle. Cycles are counted from 1970, so that an origin's quantiles depend only on the run, the
panel and the origin, not on other requested origins; origins of one cycle share one pass.

Over a long horizon, of more than `SHORT_HORIZON` steps, two things differ. Forecasts are issued
from a horizon before the pass begins to compare, so that every step ahead is corrected by the
outcomes of one to two cycles, also the last one. And an outcome is compared with the quantile as
the corrections of today would have it, not as it was issued: a correction that shows its effect
only 168 steps later would be repeated 168 times and overshoot.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import ArtifactError, RunError
from forecaster.estimators.forecast_inputs import DAY_MINUTES, look_back, missing_ahead
from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.residuals import MIDDLE
from forecaster.panel.panel import Panel
from forecaster.splits import history_steps, is_incomplete

CYCLE = 168  # steps: a week of hours; an origin is corrected by one to two cycles of outcomes
CACHED_PASSES = 3  # cycles whose corrections are kept, if their trackers are small
TRACKER_BYTES = 256 * 2**20  # of all trackers together; the newest one may be larger
FORECAST_BYTES = 256 * 2**20  # of forecasts that are kept after their step was followed
SHORT_HORIZON = 6  # steps; up to here a correction shows its effect soon after it is made
# The step size γ, in spreads. Chosen by the pinball loss on validation windows: 0.05 and 0.1 are
# lowest there, and 0.05 is steadier through the day.
GAMMA = 0.05


class Tracker:
    """Corrections that are updated step by step."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._corrections = calibration.corrections.copy()  # [Q, K]
        (Q, K), N = self._corrections.shape, calibration.spread.shape[1]
        self._levels = np.array(calibration.levels)
        self._ahead = np.arange(1, K + 1)
        # The quantiles that await their outcome: a ring of k rows for k steps ahead.
        self._rings = np.cumsum(self._ahead) - self._ahead  # the first row of each
        self._due = np.full((int(self._ahead.sum()), Q, N), np.nan, dtype=np.float32)
        self._spread = np.zeros((K, N), dtype=np.float32)  # σ at the coming K steps: a ring too
        self._steps, self._is_long = 0, K > SHORT_HORIZON

    @property
    def corrections(self) -> Float64[np.ndarray, "Q K"]:
        """The corrections by the outcomes observed so far."""
        return self._corrections.copy()

    @property
    def nbytes(self) -> int:
        """The memory of the quantiles that await their outcome."""
        return self._due.nbytes

    def observe(self, values: Float32[np.ndarray, " N"]) -> None:
        """Update the corrections by the outcomes of a step; NaN: missing."""
        due = self._due[self._rows]  # [K, Q, N]; NaN: none
        if self._is_long:
            spread = np.broadcast_to(self._spread[self._steps % len(self._ahead)], due[:, 0].shape)
            due = self._correct(due.swapaxes(0, 1), spread).swapaxes(0, 1)
        compared = np.isfinite(values) & ~np.isnan(due[:, 0])  # [K, N]
        count = np.count_nonzero(compared, axis=1)[:, None]
        parts = count_sides(values, due, self._calibration.resolution)
        above, below = (part / np.maximum(count, 1) for part in parts)  # [K, Q]
        push = push_levels(above, below, self._levels)
        self._corrections += GAMMA * (push * (count > 0)).T

    def issue(self, base: Base | None, counts: Bool[np.ndarray, " N"] | None = None) -> None:
        """Issue the quantiles of the step observed last, for comparison with later outcomes.

        Args:
            base: quantiles to correct; None: nothing is issued.
            counts: the locations that are compared; None: all.
        """
        quantiles: np.ndarray | float = np.nan
        if base is not None:
            quantiles = base.quantiles
            if not self._is_long:
                quantiles = self._correct(quantiles, base.spread)
            if base.closed is not None:  # no forecast to learn from
                quantiles = np.where(base.closed, np.float32(np.nan), quantiles)
            if counts is not None:
                quantiles = np.where(counts, quantiles, np.float32(np.nan))
            quantiles = quantiles.swapaxes(0, 1)
            self._spread[(self._steps + self._ahead) % len(self._ahead)] = base.spread
        self._due[self._rows] = quantiles
        self._steps += 1

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that it has from outcomes and forecasts; NaN: no quantile awaits its outcome."""
        return {
            "corrections": self._corrections,
            "due": self._due,
            "spread": self._spread,
            "steps": np.array(self._steps),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from the arrays of another one of the same calibration."""
        for name, array in self.arrays.items():
            stored = arrays.get(name, np.empty(0))
            if (stored.dtype, stored.shape) != (array.dtype, array.shape):
                raise ArtifactError(
                    f"{name} is {stored.dtype} {stored.shape}, not {array.dtype} {array.shape}"
                )
        self._corrections, self._due, self._spread = (
            arrays[name].copy() for name in ("corrections", "due", "spread")
        )
        self._steps = int(arrays["steps"])

    @property
    def _rows(self) -> Int64[np.ndarray, " K"]:
        """The rows that are due at the current step, and free for its own forecast after it."""
        return np.asarray(self._rings + self._steps % self._ahead)

    def _correct(
        self, quantiles: Float32[np.ndarray, "Q K N"], spread: Float32[np.ndarray, "K N"]
    ) -> Float32[np.ndarray, "Q K N"]:
        base = Base(quantiles[0], quantiles, spread)
        return self._calibration.shift(base, self._corrections)


def push_levels(
    above: Float64[np.ndarray, "K Q"],
    below: Float64[np.ndarray, "K Q"],
    levels: Float64[np.ndarray, " Q"],
) -> Float64[np.ndarray, "K Q"]:
    """By how much each level moves for these shares of outcomes above and below it, without γ."""
    above, below = above - (1 - levels), below - levels
    push = np.maximum(above, 0) - np.maximum(below, 0)
    if levels[0] < MIDDLE:
        push[:, 0] = -below[:, 0]
    if levels[-1] > MIDDLE:
        push[:, -1] = above[:, -1]
    return np.asarray(push)


def count_sides(
    values: Float32[np.ndarray, " N"], quantiles: Float32[np.ndarray, "K Q N"], resolution: float
) -> tuple[Float64[np.ndarray, "K Q"], Float64[np.ndarray, "K Q"]]:
    """How many outcomes lie above each quantile, and how many below; NaN is on neither side.

    An outcome x that stands for x ± half the resolution lies above with a share of it: on average
    the same as a draw from that interval.
    """
    if not resolution:
        sides = values > quantiles, values < quantiles
    else:
        above = np.clip((values - quantiles) / np.float32(resolution) + np.float32(0.5), 0, 1)
        sides = np.nan_to_num(above), np.nan_to_num(1 - above)
    above, below = (side.sum(axis=2, dtype=np.float64) for side in sides)
    return above, below


@dataclass(eq=False)
class _Step:
    """The outcome of a step, and the forecast from it."""

    values: Float32[np.ndarray, " N"]  # as observed; NaN: missing
    counts: Bool[np.ndarray, " N"]  # whether its forecasts are compared with later outcomes
    base: Base | None = None


@dataclass(eq=False)
class _Pass:
    """A tracker that runs through two cycles; the corrections of the second are kept."""

    tracker: Tracker
    start: int  # the first step to forecast from
    first: int  # the first step of the first cycle, from which outcomes are compared
    second: int  # the first step of the second cycle
    next: int  # the next step to follow
    corrections: dict[int, np.ndarray] = field(default_factory=dict)  # by step: [Q K]


class OnlineCalibration:
    """The corrections of one run at any origin; each step is observed and forecast from once.

    Steps are numbers that stay the same from call to call. For an origin:

        steps = online.unobserved(origin)       # may be observed a few at a time
        online.observe(steps, values, counts)
        while steps := online.unforecast(origin):
            online.add(steps[:16], base)        # a few at a time, in this order
            online.follow(origin)               # as far as it can
        quantiles = calibration.correct(online.base(origin), online.corrections(origin))
    """

    def __init__(
        self, calibration: Calibration, first_step: int, *, looks_ahead: bool = False
    ) -> None:
        """Start without observations.

        Args:
            calibration: of the run.
            first_step: the number of step 0 counted from 1970 (`step_number`).
            looks_ahead: whether passes of later cycles begin as soon as they can, so that the
                first step of a cycle needs no earlier forecasts either (`trackers`).
        """
        self.calibration, self._first_step = calibration, first_step
        self._looks_ahead = looks_ahead
        self._steps: dict[int, _Step] = {}
        self._passes: OrderedDict[int, _Pass] = OrderedDict()  # by cycle, most recently used last

    def cycle(self, step: int) -> int:
        """The number of a step's cycle."""
        return (self._first_step + step) // CYCLE

    def unobserved(self, origin: int) -> list[int]:
        """The steps whose outcomes still have to be observed for an origin."""
        steps = range(self._open_pass(origin).next, origin + 1)
        return [step for step in steps if step not in self._steps]

    def observe(
        self,
        steps: Iterable[int],
        values: Float32[np.ndarray, "S N"],
        counts: Bool[np.ndarray, " S"] | Bool[np.ndarray, "S N"],
    ) -> None:
        """Store the outcomes of some steps.

        Args:
            steps: their numbers.
            values: observed values, by the run's locations; NaN: missing.
            counts: whether the forecast from a step is compared with later outcomes (`can_count`),
                for all locations alike or for each.
        """
        by_location = np.broadcast_to(counts if counts.ndim > 1 else counts[:, None], values.shape)
        for step, row, count in zip(steps, values, by_location, strict=True):
            self._steps[step] = _Step(row, count)

    def unforecast(self, origin: int) -> list[int]:
        """The observed steps from which forecasts are still needed for an origin."""
        steps = range(self._open_pass(origin).next, origin + 1)
        counted = [step for step in steps if self._steps[step].counts.any()]
        needed = dict.fromkeys((*counted, origin))
        # A restored pass may have followed the origin, which then was not observed here.
        return [s for s in needed if s in self._steps and self._steps[s].base is None]

    def add(self, steps: Sequence[int], base: Base) -> None:
        """Store the base forecasts from some observed steps."""
        for number, step in enumerate(steps):
            self._steps[step].base = base.row(number)

    def follow(self, origin: int) -> None:
        """Follow the outcomes up to an origin, or to the first step without its forecast.

        Forecasts from followed steps are then kept only as far as memory allows.
        """
        for cycle in self._following(origin):
            current = self._open_cycle(cycle)
            while current.next <= origin:
                step = self._steps.get(current.next)
                if step is None or (step.counts.any() and step.base is None):
                    break
                self._follow_step(current, step)
        self._drop_forecasts(self._open_pass(origin), origin)

    def base(self, origin: int) -> Base:
        """The base forecast from an origin, as it was added."""
        base = self._steps[origin].base
        if base is None:
            raise RunError(f"step {origin} was not forecast from")
        return base

    def corrections(self, origin: int) -> Float64[np.ndarray, "Q K"]:
        """The corrections by the outcomes observed up to an origin."""
        self.follow(origin)
        current = self._open_pass(origin)
        if current.next <= origin:
            raise RunError(
                f"origin {origin}: step {current.next} lacks its outcome or its forecast"
            )
        return current.corrections[origin]

    def trackers(self, origin: int) -> dict[int, Tracker]:
        """The trackers that have followed an origin, by cycle: with them another one goes on."""
        return {
            cycle: self._passes[cycle].tracker
            for cycle in self._following(origin)
            if cycle in self._passes and self._passes[cycle].next == origin + 1
        }

    def restore(self, origin: int, trackers: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Go on from the trackers that had followed an origin.

        Args:
            origin: an earlier step than those to come, or the same.
            trackers: their arrays, by cycle.
        """
        for cycle, arrays in trackers.items():
            current = self._open_cycle(cycle)
            current.tracker.restore(arrays)
            current.next = origin + 1
            if origin >= current.second:
                current.corrections[origin] = current.tracker.corrections

    def _following(self, origin: int) -> list[int]:
        """The cycles whose passes follow an origin: its own and, if asked for, later ones."""
        cycle = self.cycle(origin)
        cycles = [cycle]
        while self._looks_ahead and self._span(cycle + 1)[0] <= origin:
            cycle += 1
            cycles.append(cycle)
        return cycles

    def forget_from(self, first: int) -> None:
        """Drop all data of steps from `first` on, which have changed, and what follows from it."""
        self._steps = {number: step for number, step in self._steps.items() if number < first}
        for cycle in [c for c, opened in self._passes.items() if opened.next > first]:
            del self._passes[cycle]

    def _follow_step(self, current: _Pass, step: _Step) -> None:
        """Compare a step's outcome with earlier forecasts of it, and issue its own."""
        number = current.next
        if number >= current.first:
            current.tracker.observe(step.values)
        if number >= current.second:
            current.corrections[number] = current.tracker.corrections
        current.tracker.issue(step.base if step.counts.any() else None, step.counts)
        current.next = number + 1

    def _drop_forecasts(self, current: _Pass, origin: int) -> None:
        """Drop the oldest forecasts that were followed; a later pass asks for them again."""
        size = next((step.base.nbytes for step in self._steps.values() if step.base), 0)
        if len(self._steps) * size <= FORECAST_BYTES:
            return
        with_forecast = sorted(number for number, step in self._steps.items() if step.base)
        followed = [number for number in with_forecast if number < min(current.next, origin)]
        for number in followed[: max(len(with_forecast) - FORECAST_BYTES // size, 0)]:
            self._steps[number].base = None

    def _span(self, cycle: int) -> tuple[int, int, int]:
        """The steps from which the pass of a cycle forecasts, compares, and keeps corrections."""
        first = max((cycle - 1) * CYCLE - self._first_step, 0)
        second = cycle * CYCLE - self._first_step
        horizon = self.calibration.corrections.shape[1]
        start = max(first - horizon, 0) if horizon > SHORT_HORIZON else first
        return start, first, second

    def _open_pass(self, origin: int) -> _Pass:
        """The pass of an origin's cycle, new or as far as it has come."""
        return self._open_cycle(self.cycle(origin))

    def _open_cycle(self, cycle: int) -> _Pass:
        current = self._passes.get(cycle)
        if current is None:
            start, first, second = self._span(cycle)
            tracker = Tracker(self.calibration)
            current = self._passes[cycle] = _Pass(tracker, start, first, second, start)
        self._passes.move_to_end(cycle)
        allowed = max(min(CACHED_PASSES, TRACKER_BYTES // max(current.tracker.nbytes, 1)), 1)
        if len(self._passes) > allowed and not self._looks_ahead:
            self._passes.popitem(last=False)
            self._drop_steps()
        return current

    def _drop_steps(self) -> None:
        """Drop the steps that no pass needs."""
        spans = [(p.start, p.second + CYCLE) for p in self._passes.values()]
        self._steps = {
            number: step
            for number, step in self._steps.items()
            if any(start <= number < end for start, end in spans)
        }


def can_count(
    panel: Panel,
    lags: LagConfig,
    weather: Weather,
    training: Bool[np.ndarray, " S"],
    steps: Int64[np.ndarray, " T"],
) -> Bool[np.ndarray, " T"]:
    """Whether a forecast from each step may be compared with its outcomes.

    Such a step has its history, with few values missing, and known covariates ahead. Its targets
    are no training steps, where forecasts err less than later.

    Args:
        panel: observed values, by the run's locations.
        lags: the past steps of a window.
        weather: the source of covariates ahead.
        training: the training steps among those of the panel and of the horizon after it.
        steps: of the panel.
    """
    reach = panel.clock.lag_steps(lags, panel.times[steps]).max(axis=1)
    spare = lags.horizon + DAY_MINUTES // panel.clock.step_minutes  # as `look_back` keeps
    counts = np.asarray(steps - reach >= spare)
    early = int(np.argmax(counts)) if counts.any() else len(steps)
    if early < len(steps):
        recent, origins = look_back(panel, lags, steps[early:])
        counts[early:] &= ~is_incomplete(recent, history_steps(recent, lags, origins), origins)
    targets = steps[:, None] + np.arange(1, lags.horizon + 1)
    counts &= ~training[targets].any(axis=1)
    if weather == "observed":
        counts &= ~missing_ahead(panel, steps, lags.horizon).any(axis=(1, 2))
    return counts


def step_number(panel: Panel) -> int:
    """The number of a panel's first step, counted from 1970."""
    if panel.clock.step_months:
        return int(panel.clock.step_index(np.datetime64("1970-01-01", "s"), panel.times[:1])[0])
    seconds = int(panel.start.astype("datetime64[s]").astype(np.int64))
    return seconds // (panel.clock.step_minutes * 60)
