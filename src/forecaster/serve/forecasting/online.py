"""Online intervals, step by step: what earlier origins were forecast is kept, not asked again.

The quantiles of an origin rest on the outcomes of forecasts from weeks of origins before it
(estimators.tracking). Here they are kept for as long as the data they saw is what it was, so that
the next origin costs one answer of the model.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.errors import RunError
from forecaster.estimators.asking import learned_steps
from forecaster.estimators.intervals.calibration import Base, Calibration, local_hours
from forecaster.estimators.intervals.online import CYCLE, Tracker, can_count
from forecaster.estimators.match import match
from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Model, cut

KEPT_PASSES = 3
# Earlier origins that are forecast before others have their turn: so many, or fewer if large.
MAX_AT_ONCE, VALUES_AT_ONCE = 16, 8_000


class Row(NamedTuple):
    """What was forecast from a step, by the run's locations."""

    counts: bool  # compared with what came
    y_hat: Float32[np.ndarray, "K N"] | None
    base: Base | None


@dataclass
class Pass:
    """The corrections on their way through two cycles; quantiles of the second are kept."""

    tracker: Tracker
    second: int  # where the second begins
    next: int  # the step that comes next
    issued: dict[int, np.ndarray] = field(default_factory=dict)  # by step: [Q K N]


class Track:
    """The quantiles of one model, with one knowledge of the weather; for one thread."""

    def __init__(self, model: Model, weather: Weather) -> None:
        if model.estimator.run is None:
            raise RunError("the model is not fitted")
        self._model, self._weather, self._run = model, weather, model.estimator.run
        self._calibration = Calibration.from_arrays(self._run.arrays, self._run.about["kind"])
        self._rows: dict[int, Row] = {}  # by step
        self._passes: OrderedDict[int, Pass] = OrderedDict()  # by cycle
        self._seen: Overlay | None = None  # the state of the data that was asked for last

    def ask(
        self, overlay: Overlay, origin: int
    ) -> tuple[Float32[np.ndarray, "K N"], Float32[np.ndarray, "Q K N"]] | None:
        """Return forecast and quantiles from a step; None: ask again, earlier ones are on the way.

        Nothing is forecast here that a run and a panel would not give alone.
        """
        self._forget(overlay)
        run = self._pass(overlay, origin)
        self._judge(overlay, run.next, origin)
        steps = range(run.next, origin + 1)
        lacking = [s for s in steps if self._rows[s].counts and self._rows[s].base is None]
        if self._rows[origin].base is None and origin not in lacking:
            lacking.append(origin)
        at_once = max(min(MAX_AT_ONCE, VALUES_AT_ONCE // len(overlay.base.locations)), 1)
        self._forecast(overlay, lacking[:at_once])
        if len(lacking) > at_once:
            return None
        self._advance(run, overlay, origin)
        order = _order(self._run, overlay.base)
        y_hat = self._rows[origin].y_hat
        if y_hat is None or origin not in run.issued:
            raise RunError(f"step {origin} was not forecast")
        return y_hat[:, order], run.issued[origin][..., order]

    def _forget(self, overlay: Overlay) -> None:
        """Drop what saw data that is another now; an earlier state may come after a later one."""
        earlier, later = sorted((self._seen or overlay, overlay), key=lambda one: one.version)
        self._seen = overlay
        if earlier.version == later.version:
            return
        first = later.changed_since(earlier.version, self._model.horizon)
        self._rows = {step: row for step, row in self._rows.items() if step < first}
        for cycle in [c for c, run in self._passes.items() if run.next > first]:
            del self._passes[cycle]

    def _pass(self, overlay: Overlay, origin: int) -> Pass:
        """Return the pass that an origin belongs to, before or at it."""
        offset = overlay.start_seconds // overlay.step_seconds
        cycle = (offset + origin) // CYCLE
        found = self._passes.get(cycle)
        if found is None or (found.next > origin and origin not in found.issued):
            first = max((cycle - 1) * CYCLE - offset, 0)
            found = Pass(Tracker(self._calibration), cycle * CYCLE - offset, first)
            self._passes[cycle] = found
        self._passes.move_to_end(cycle)
        while len(self._passes) > KEPT_PASSES:
            self._passes.popitem(last=False)
        kept = {c - back for c in self._passes for back in (0, 1)}
        self._rows = {s: r for s, r in self._rows.items() if (offset + s) // CYCLE in kept}
        return found

    def _judge(self, overlay: Overlay, first: int, origin: int) -> None:
        """Tell of steps that are new which of them count."""
        new = [step for step in range(first, origin + 1) if step not in self._rows]
        if new:
            panel, shift = self._see(overlay, new[-1], new[0])
            places = np.array(new) - shift
            learned = learned_steps(self._run, panel)
            lags, weather = self._run.recipe.lags, self._weather
            counts = can_count(panel, lags, weather, learned, places)
            for step, count in zip(new, counts.tolist(), strict=True):
                self._rows[step] = Row(count, None, None)

    def _forecast(self, overlay: Overlay, steps: list[int]) -> None:
        """Forecast from some steps, all at once."""
        if not steps:
            return
        panel, shift = self._see(overlay, steps[-1], steps[0])
        places = np.array(steps) - shift
        answer = self._model.estimator.answer_all
        forecast, own = answer(self._run, panel, places, self._weather)
        hours = local_hours(panel, places[:, None] + np.arange(1, self._model.horizon + 1))
        base = self._calibration.base(forecast, own, hours)
        for number, step in enumerate(steps):
            self._rows[step] = Row(self._rows[step].counts, forecast[number], base.row(number))

    def _advance(self, run: Pass, overlay: Overlay, origin: int) -> None:
        """Take the corrections on to an origin."""
        if run.next > origin:
            return
        order = {identity: n for n, identity in enumerate(overlay.base.locations.ids)}
        columns = [order[identity] for identity in self._run.about["ids"]]
        values = overlay.values(run.next, origin + 1)[:, columns]
        for step, seen in zip(range(run.next, origin + 1), values, strict=True):
            run.tracker.observe(seen)
            issued = run.tracker.issue(self._rows[step].base, self._rows[step].counts)
            if issued is not None and step >= run.second:
                run.issued[step] = issued
        run.next = origin + 1

    def _see(self, overlay: Overlay, newest: int, oldest: int) -> tuple[Panel, int]:
        """Return the part of the data that some steps rest on, and the step it begins with."""
        part, place = cut(self._model, overlay, newest, oldest)
        return match(self._run, part), newest - place


def _order(run: Run, panel: Panel) -> list[int]:
    """Return the run's place of each of the panel's locations."""
    place = {identity: n for n, identity in enumerate(run.about["ids"])}
    return [place[identity] for identity in panel.locations.ids]
