"""Online quantiles of the served model: earlier forecasts are kept, not computed again.

The quantiles of an origin rest on the outcomes of forecasts from weeks of origins before it
(estimators.intervals.online). They are kept for as long as the data they saw is unchanged, so
that the next origin costs one forecast of the model.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.estimators.intervals.calibration import Base, Calibration
from forecaster.estimators.intervals.online import CYCLE, Tracker

KEPT_PASSES = 3


class StepForecast(NamedTuple):
    """The forecast from a step, by the run's locations."""

    counts: bool  # it is compared with its outcome
    base: Base | None  # None: not forecast yet


@dataclass
class CyclePass:
    """The corrections on their way through two cycles; quantiles of the second are kept."""

    tracker: Tracker
    second: int  # the step at which the second cycle begins
    next: int  # the step that comes next
    issued: dict[int, np.ndarray] = field(default_factory=dict)  # by step: [Q K N]


class OnlineIntervals:
    """The online quantiles of one calibration, by step number, kept from origin to origin."""

    def __init__(self, calibration: Calibration, offset: int) -> None:
        """Begin with the static corrections.

        Args:
            calibration: of the run.
            offset: steps from 1970 to step 0; cycles are counted from there.
        """
        self._calibration, self._offset = calibration, offset
        self._steps: dict[int, StepForecast] = {}
        self._passes: OrderedDict[int, CyclePass] = OrderedDict()  # by cycle

    def forget(self, first: int) -> None:
        """Drop everything that rests on the data of a step or of later ones."""
        self._steps = {step: row for step, row in self._steps.items() if step < first}
        for cycle in [cycle for cycle, run in self._passes.items() if run.next > first]:
            del self._passes[cycle]

    def open(self, origin: int) -> list[int]:
        """Return the steps up to an origin that must be marked first; begin its pass."""
        first = self._pass(origin).next
        return [step for step in range(first, origin + 1) if step not in self._steps]

    def mark(self, steps: Sequence[int], counts: Bool[np.ndarray, " S"]) -> None:
        """Note from which steps a forecast is compared with its outcome."""
        for step, count in zip(steps, counts.tolist(), strict=True):
            self._steps[step] = StepForecast(count, None)

    def missing(self, origin: int) -> list[int]:
        """Return the steps to forecast before the quantiles of an origin can be issued."""
        steps = [*range(self._pass(origin).next, origin), origin]
        rows = [(step, self._steps[step]) for step in steps]
        return [s for s, row in rows if row.base is None and (row.counts or s == origin)]

    def add(self, steps: Sequence[int], base: Base) -> None:
        """Take in the forecasts from some steps."""
        for number, step in enumerate(steps):
            self._steps[step] = self._steps[step]._replace(base=base.row(number))

    def first_unobserved(self, origin: int) -> int:
        """Return the first step whose observation has yet to correct the quantiles."""
        return self._pass(origin).next

    def issue(
        self, origin: int, values: Float32[np.ndarray, "T N"]
    ) -> tuple[Float32[np.ndarray, "K N"], Float32[np.ndarray, "Q K N"]]:
        """Return the forecast and the online quantiles of an origin.

        Args:
            origin: a step of which nothing is missing.
            values: observed at the steps from `first_unobserved` to the origin.
        """
        run = self._pass(origin)
        for step, observed in enumerate(values, start=run.next):
            run.tracker.observe(observed)
            quantiles = run.tracker.issue(self._steps[step].base, self._steps[step].counts)
            if quantiles is not None and step >= run.second:
                run.issued[step] = quantiles
        run.next = max(run.next, origin + 1)
        base = self._steps[origin].base
        if base is None:
            raise ValueError(f"step {origin} has not been forecast")
        return base.forecast, run.issued[origin]

    def _pass(self, origin: int) -> CyclePass:
        """Return the pass of an origin, which is before the origin or has issued it."""
        cycle = (self._offset + origin) // CYCLE
        run = self._passes.get(cycle)
        if run is None or (run.next > origin and origin not in run.issued):
            first = max((cycle - 1) * CYCLE - self._offset, 0)
            run = CyclePass(Tracker(self._calibration), cycle * CYCLE - self._offset, first)
            self._passes[cycle] = run
            self._drop_old(cycle)
        self._passes.move_to_end(cycle)
        return run

    def _drop_old(self, cycle: int) -> None:
        """Drop the pass used least recently, and the steps that no pass goes through."""
        self._passes.move_to_end(cycle)
        while len(self._passes) > KEPT_PASSES:
            self._passes.popitem(last=False)
        kept = {c - back for c in self._passes for back in (0, 1)}
        rows = self._steps.items()
        self._steps = {step: row for step, row in rows if (self._offset + step) // CYCLE in kept}
