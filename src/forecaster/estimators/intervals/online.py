"""Online intervals: corrections that follow the outcomes already observed at an origin.

After every step, what came is compared with the quantiles issued for it. A level α moves up by
γ · (share above − (1 − α)) spreads where too many outcomes lay above it, and down by
γ · (share below − α) where too many lay below: the quantile tracking of adaptive conformal
inference. Outcomes that equal a quantile, as zeros of quiet places do, are on neither side; the
two outermost levels move by those beyond them alone, so that the interval between them, ends
included, holds as much as it says. A forecast made at s for s + k counts only once s + k is
observed.

The pass begins with the static corrections, at the start of the cycle before the origin's own.
Cycles are counted from 1970, so that an origin's quantiles depend on the run, the panel and the
origin alone, not on what else is asked; origins of one cycle share one pass.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.estimators.forecast_inputs import DAY_MINUTES, look_ahead, look_back
from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.residuals import MIDDLE
from forecaster.panel.panel import Panel
from forecaster.splits import history_steps, is_poor

CYCLE = 168  # steps: a week of hours; one to two cycles of outcomes count
# In spreads, by which a level would move if everything lay beyond it. Chosen by the pinball loss
# on validation windows: 0.05 and 0.1 are lowest there, and 0.05 is steadier through the day.
GAMMA = 0.05

Ask = Callable[[np.ndarray], Base]  # the base quantiles of some steps
Judge = Callable[[np.ndarray], np.ndarray]  # whether forecasts from them count [S]


class Tracker:
    """The corrections as they move from step to step."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration
        self._corrections = calibration.corrections.copy()  # [Q, K]
        (Q, K), N = self._corrections.shape, calibration.spread.shape[1]
        self._levels = np.array(calibration.levels)  # share below each
        self._issued = np.full((K, Q, K, N), np.nan, dtype=np.float32)  # the last K, in turn
        self._steps, self._ahead = 0, np.arange(K)

    @property
    def corrections(self) -> Float64[np.ndarray, "Q K"]:
        """The corrections by what was observed so far."""
        return self._corrections.copy()

    def observe(self, values: Float32[np.ndarray, " N"]) -> None:
        """Move by what came at a step; NaN: missing."""
        count = np.isfinite(values).sum()
        made = (self._steps - 1 - self._ahead) % len(self._ahead)  # k + 1 steps ago
        due = self._issued[made, :, self._ahead]  # [K, Q, N]; NaN: none
        if count:
            high = (values > due).sum(axis=2) / count - (1 - self._levels)  # [K, Q]
            low = (values < due).sum(axis=2) / count - self._levels
            push = np.maximum(high, 0) - np.maximum(low, 0)
            if self._levels[0] < MIDDLE:
                push[:, 0] = -low[:, 0]
            if self._levels[-1] > MIDDLE:
                push[:, -1] = high[:, -1]
            came = ~np.isnan(due[:, :1, 0])  # a forecast was made for this step
            self._corrections += GAMMA * (push * came).T

    def issue(self, base: Base | None, counts: bool) -> Float32[np.ndarray, "Q K N"] | None:
        """Return the quantiles at the step observed last, if there are any.

        Args:
            base: what to correct.
            counts: they will be compared with what comes.
        """
        issued = None if base is None else self._calibration.correct(base, self._corrections)
        kept = issued if counts and issued is not None else np.nan
        self._issued[self._steps % len(self._ahead)] = kept
        self._steps += 1
        return issued


def follow(
    calibration: Calibration,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    base: Base,
    judge: Judge,
    ask: Ask,
) -> Float64[np.ndarray, "B Q K"]:
    """Return the corrections at each origin, by what was observed up to it.

    Args:
        calibration: of the run.
        panel: what was observed, by the run's locations.
        origins: steps of the panel.
        base: their quantiles, so that they are not asked for again.
        judge: tells from which steps a forecast counts, whoever asks.
        ask: gives the base quantiles of other steps.
    """
    asked, rows, place = np.unique(origins, return_index=True, return_inverse=True)
    cycles = _count_cycles(panel)
    own = {s: base.row(n) for s, n in zip(asked.tolist(), rows.tolist(), strict=True)}
    others: dict[int, Base] = {}  # by step
    found = []
    for cycle in np.unique(cycles[asked]):
        mine = asked[cycles[asked] == cycle]
        first = int(np.searchsorted(cycles, cycle - 1))
        steps = np.arange(first, mine[-1] + 1)
        usable = steps[judge(steps)].tolist()
        others = {s: row for s, row in others.items() if s >= first}
        new = [s for s in usable if s not in own and s not in others]
        if new:
            answered = ask(np.array(new))
            others |= {s: answered.row(n) for n, s in enumerate(new)}
        counting = {s: own.get(s, others.get(s)) for s in usable}
        tracker, wanted = Tracker(calibration), set(mine.tolist())
        for step in steps.tolist():
            tracker.observe(panel.values[step])
            if step in wanted:
                found.append(tracker.corrections)
            tracker.issue(counting.get(step), step in counting)
    return np.stack(found)[place]


def can_count(
    panel: Panel,
    lags: LagConfig,
    weather: Weather,
    learned: Bool[np.ndarray, " S"],
    steps: Int64[np.ndarray, " T"],
) -> Bool[np.ndarray, " T"]:
    """Tell from which steps a forecast may be compared with what came.

    They have their history, not too much of it missing, and what has to be known ahead; and what
    came was not learned from, where a forecast errs less than it will.

    Args:
        panel: what was observed, by the run's locations.
        lags: which past steps are seen.
        weather: what is taken for covariates ahead.
        learned: the steps of the panel, and of the horizon after it, that the run was fitted to.
        steps: of the panel.
    """
    reach = panel.clock.lag_steps(lags, panel.times[steps]).max(axis=1)
    spare = lags.horizon + DAY_MINUTES // panel.clock.step_minutes  # as `look_back` keeps
    counts = np.asarray(steps - reach >= spare)
    early = int(np.argmax(counts)) if counts.any() else len(steps)
    if early < len(steps):
        part, own = look_back(panel, lags, steps[early:])
        counts[early:] &= ~is_poor(part, history_steps(part, lags, own), own)
    targets = steps[:, None] + np.arange(1, lags.horizon + 1)
    counts &= ~learned[targets].any(axis=1)
    if weather == "observed":
        world, local = look_ahead(panel, steps, lags.horizon)
        counts &= ~(np.isnan(world).any(axis=(1, 2)) | np.isnan(local).any(axis=(1, 2, 3)))
    return counts


def _count_cycles(panel: Panel) -> Int64[np.ndarray, " M"]:
    """Return the number of the cycle that each step lies in, whenever the panel begins."""
    first = panel.start.astype("datetime64[s]").astype(np.int64) // (panel.clock.step_minutes * 60)
    return np.asarray((first + np.arange(len(panel.values))) // CYCLE)
