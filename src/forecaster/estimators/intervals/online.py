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
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import RunError
from forecaster.estimators.forecast_inputs import DAY_MINUTES, look_ahead, look_back
from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.residuals import MIDDLE
from forecaster.panel.panel import Panel
from forecaster.splits import history_steps, is_incomplete

CYCLE = 168  # steps: a week of hours; an origin is corrected by one to two cycles of outcomes
CACHED_PASSES = 3  # cycles whose corrections are kept
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
        self._issued = np.full((K, Q, K, N), np.nan, dtype=np.float32)  # of the last K steps
        self._steps, self._ahead = 0, np.arange(K)

    @property
    def corrections(self) -> Float64[np.ndarray, "Q K"]:
        """The corrections by the outcomes observed so far."""
        return self._corrections.copy()

    def observe(self, values: Float32[np.ndarray, " N"]) -> None:
        """Update the corrections by the outcomes of a step; NaN: missing."""
        origins = (self._steps - 1 - self._ahead) % len(self._ahead)  # k + 1 steps ago
        due = self._issued[origins, :, self._ahead]  # [K, Q, N]; NaN: none
        compared = np.isfinite(values) & ~np.isnan(due[:, 0])  # [K, N]
        count = np.count_nonzero(compared, axis=1)[:, None]
        parts = count_sides(values, due, self._calibration.resolution)
        above, below = (part / np.maximum(count, 1) for part in parts)  # [K, Q]
        above, below = above - (1 - self._levels), below - self._levels
        push = np.maximum(above, 0) - np.maximum(below, 0)
        if self._levels[0] < MIDDLE:
            push[:, 0] = -below[:, 0]
        if self._levels[-1] > MIDDLE:
            push[:, -1] = above[:, -1]
        self._corrections += GAMMA * (push * (count > 0)).T

    def issue(self, base: Base | None, counts: Bool[np.ndarray, " N"] | None = None) -> None:
        """Issue the quantiles of the step observed last, for comparison with later outcomes.

        Args:
            base: quantiles to correct; None: nothing is issued.
            counts: the locations that are compared; None: all.
        """
        quantiles = np.nan if base is None else self._calibration.shift(base, self._corrections)
        if base is not None and base.closed is not None:  # no forecast to learn from
            quantiles = np.where(base.closed, np.float32(np.nan), quantiles)
        issued = self._issued[self._steps % len(self._ahead)]  # a view
        issued[:] = quantiles if counts is None else np.where(counts, quantiles, np.nan)
        self._steps += 1


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
    second: int  # the first step of the second cycle
    next: int  # the next step to observe
    corrections: dict[int, np.ndarray] = field(default_factory=dict)  # by step: [Q K]


class OnlineCalibration:
    """The corrections of one run at any origin; each step is observed and forecast from once.

    Steps are numbers that stay the same from call to call. For an origin:

        steps = online.unobserved(origin)       # may be observed a few at a time
        online.observe(steps, values, counts)
        steps = online.unforecast(origin)       # may be forecast a few at a time
        online.add(steps, base)
        quantiles = calibration.correct(online.base(origin), online.corrections(origin))
    """

    def __init__(self, calibration: Calibration, first_step: int) -> None:
        """Start without observations.

        Args:
            calibration: of the run.
            first_step: the number of step 0 counted from 1970 (`step_number`).
        """
        self.calibration, self._first_step = calibration, first_step
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
        return [s for s in dict.fromkeys((*counted, origin)) if self._steps[s].base is None]

    def add(self, steps: Sequence[int], base: Base) -> None:
        """Store the base forecasts from some observed steps."""
        for number, step in enumerate(steps):
            self._steps[step].base = base.row(number)

    def base(self, origin: int) -> Base:
        """The base forecast from an origin, as it was added."""
        base = self._steps[origin].base
        if base is None:
            raise RunError(f"step {origin} was not forecast from")
        return base

    def corrections(self, origin: int) -> Float64[np.ndarray, "Q K"]:
        """The corrections by the outcomes observed up to an origin."""
        current = self._open_pass(origin)
        for number in range(current.next, origin + 1):
            step = self._steps.get(number)
            if step is None or (step.counts.any() and step.base is None):
                raise RunError(f"origin {origin}: step {number} lacks its outcome or its forecast")
            current.tracker.observe(step.values)
            if number >= current.second:
                current.corrections[number] = current.tracker.corrections
            current.tracker.issue(step.base if step.counts.any() else None, step.counts)
            current.next = number + 1
        return current.corrections[origin]

    def forget_from(self, first: int) -> None:
        """Drop all data of steps from `first` on, which have changed, and what follows from it."""
        self._steps = {number: step for number, step in self._steps.items() if number < first}
        for cycle in [c for c, opened in self._passes.items() if opened.next > first]:
            del self._passes[cycle]

    def _open_pass(self, origin: int) -> _Pass:
        """The pass of an origin's cycle, new or as far as it has come."""
        cycle = self.cycle(origin)
        current = self._passes.get(cycle)
        if current is None:
            first = max((cycle - 1) * CYCLE - self._first_step, 0)
            second = cycle * CYCLE - self._first_step
            current = self._passes[cycle] = _Pass(Tracker(self.calibration), second, first)
        self._passes.move_to_end(cycle)
        if len(self._passes) > CACHED_PASSES:
            self._passes.popitem(last=False)
            cycles = {c - back for c in self._passes for back in (0, 1)}
            self._steps = {s: step for s, step in self._steps.items() if self.cycle(s) in cycles}
        return current


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
        covariates, local = look_ahead(panel, steps, lags.horizon)
        counts &= ~(np.isnan(covariates).any(axis=(1, 2)) | np.isnan(local).any(axis=(1, 2, 3)))
    return counts


def step_number(panel: Panel) -> int:
    """The number of a panel's first step, counted from 1970."""
    if panel.clock.step_months:
        return int(panel.clock.step_index(np.datetime64("1970-01-01", "s"), panel.times[:1])[0])
    seconds = int(panel.start.astype("datetime64[s]").astype(np.int64))
    return seconds // (panel.clock.step_minutes * 60)
