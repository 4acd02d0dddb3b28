"""Forecasts of a run when one value is wrong, or one sensor repeats its value for ten days.

`python -m benchmarks.outliers RUN PANEL` draws test origins and locations. At the origin the value
of the location becomes 0, 10 or 50 times what is usual there (measurements: also −1 times), or it
repeats its value of ten days before. Printed are, of each kind of fault: how often the interval
contains the forecast and is no narrower, how often the value is marked where 10 or more is usual,
and how far the forecasts move. The others may move no further than they do when the location has
its largest or smallest training value of that hour.
"""

import argparse
import logging
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.match import match, training_steps
from forecaster.estimators.registry import load_estimator
from forecaster.estimators.wrong_values.plausible import Plausibility, context
from forecaster.estimators.wrong_values.value_ranges import LONGEST, RANGE
from forecaster.panel.panel import Panel
from forecaster.splits import SPLITS, Splits, cut_windows

FACTORS = {"count": (0.0, 10.0, 50.0), "measurement": (0.0, 10.0, 50.0, -1.0)}
REPEATED_DAYS = 10
EXPECTED = 10.0  # from which a fault must be marked
SLACK = 0.05  # spreads
ROUNDING = 1e-4  # spreads: a place that is in doubt without the fault has the same interval
CYCLES = 2 * 168  # steps of outcomes that online quantiles follow
CONTAINED, WIDER, MARKED, OWN, OTHERS, ALLOWED = (
    "contained", "wider", "marked", "own", "others", "allowed",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One wrong value, or a repeated one."""

    origin: int
    column: int
    factor: float | None  # None: the value of ten days before is repeated


class Trials:
    """A run and its panel, with faults put in one at a time."""

    def __init__(self, estimator: Estimator, panel: Panel) -> None:
        if estimator.run is None:
            raise SystemExit("the run is not fitted")
        self.run, self.estimator = estimator.run, estimator
        self.panel, known = match(self.run, panel), Plausibility.of(self.run)
        if known is None:
            raise SystemExit("the run stores no ranges of plausible values; train it again")
        self.known = known
        without = {n: a for n, a in self.run.arrays.items() if n not in (RANGE, LONGEST)}
        self.trusting = type(estimator).from_run(replace(self.run, arrays=without))
        self.train = training_steps(self.run, self.panel)[: len(self.panel.values)]
        self.slots = self.panel.clock.slot_of_season(self.panel.times)
        self.day = 24 * 60 // self.panel.clock.step_minutes

    def draw(self, cases: int, seed: int, split: str) -> list[Fault]:
        """Draw faults at the origins of a split."""
        ranges = {name: [tuple(p) for p in self.run.about["splits"][name]] for name in SPLITS}
        origins = getattr(cut_windows(self.panel, Splits(**ranges), self.run.recipe.lags), split)
        generator = np.random.default_rng(seed)
        factors = [*FACTORS[self.panel.kind], None]
        faults: list[Fault] = []
        while len(faults) < cases:
            origin, column = int(generator.choice(origins)), int(generator.integers(len(self.ids)))
            history = self.panel.values[self._repeated_from(origin) : origin + 1, column]
            if np.isfinite(history[[0, -1]]).all():
                faults.append(Fault(origin, column, factors[len(faults) % len(factors)]))
        return faults

    @property
    def ids(self) -> tuple[str, ...]:
        """The locations of the run."""
        return self.panel.locations.ids

    def _repeated_from(self, origin: int) -> int:
        """The step whose value is repeated up to an origin; short panels begin later."""
        return max(origin - REPEATED_DAYS * self.day, 0)

    def usual(self, fault: Fault) -> float:
        """The training mean of the hour of the week, at the level of the day before."""
        history = self.panel.values[fault.origin - self.day : fault.origin, fault.column]
        means = self.run.arrays["shared.fill"][:, fault.column]
        around = means[self.slots[fault.origin - self.day : fault.origin]]
        mean = float(means[self.slots[fault.origin]])
        if self.panel.kind == "count":
            return float(np.nanmedian((history + 1) / (around + 1)) * (mean + 1) - 1)
        return mean + float(np.nanmedian(history - around))

    def with_fault(self, fault: Fault) -> Panel:
        """The panel up to the origin, with the fault."""
        values = self.panel.values[: fault.origin + 1].copy()
        if fault.factor is None:
            first = self._repeated_from(fault.origin)
            values[first:, fault.column] = values[first, fault.column]
        else:
            mean = self.run.arrays["shared.fill"][self.slots[fault.origin], fault.column]
            size = max(float(values[-1, fault.column]), float(mean), self.usual(fault))
            values[-1, fault.column] = np.round(fault.factor * size)
        return self._cut(values)

    def with_extreme(self, fault: Fault, *, largest: bool) -> Panel:
        """The panel up to the origin, with an extreme training value of that hour of the week."""
        near = np.abs(self.slots - self.slots[fault.origin]) <= self.day // 24
        rows = self.train & near
        seen = self.panel.values[rows if rows.any() else self.train, fault.column]
        values = self.panel.values[: fault.origin + 1].copy()
        values[-1, fault.column] = np.nanmax(seen) if largest else np.nanmin(seen)
        return self._cut(values)

    def clean(self, fault: Fault) -> Panel:
        """The panel up to the origin."""
        return self._cut(self.panel.values[: fault.origin + 1])

    def try_fault(self, fault: Fault, *, online: bool) -> dict[str, float]:
        """The effects of one fault."""
        n, usual = fault.column, self.usual(fault)
        panels = self.clean(fault), self.with_fault(fault)
        origins = np.array([len(panels[0].values) - 1])
        clean, faulty = (self._predict(panel, online=online) for panel in panels)
        (y, q), (y_faulty, q_faulty) = clean, faulty
        spread = self.estimator.predictor(panels[0], "observed").base(origins).spread[0]
        spread = np.maximum(spread, 1e-6)
        moved = np.abs(y_faulty - y) / spread
        others = np.arange(len(self.ids)) != n
        before = self.trusting.predict(panels[0], origins)[0]
        references = [
            np.abs(
                self.trusting.predict(self.with_extreme(fault, largest=side), origins)[0] - before
            )
            for side in (True, False)
        ]
        allowed = float((np.maximum(*references) / spread)[:, others].max(initial=0))
        marked = self.known.judge(panels[1], int(origins[0]), int(origins[0]) + 1).marked[0, n]
        expected = usual >= EXPECTED or self.panel.kind != "count"
        contained = ((q_faulty[0] <= y_faulty) & (y_faulty <= q_faulty[-1])).all()
        width, was = (np.diff(each[[0, -1]], axis=0)[0, :, n] for each in (q_faulty, q))
        wider = (width >= was - ROUNDING * spread[:, n]).all()
        return {
            CONTAINED: float(contained),
            WIDER: float(wider) if marked else np.nan,
            MARKED: float(marked) if expected else np.nan,
            OWN: float(moved[:, n].max()),
            OTHERS: float(moved[:, others].max(initial=0)),
            ALLOWED: allowed,
        }

    def _predict(self, panel: Panel, *, online: bool) -> tuple[np.ndarray, np.ndarray]:
        """The forecast and its quantiles."""
        origins = np.array([len(panel.values) - 1])
        prediction = self.estimator.predictor(panel, "observed")
        if online:
            both = prediction.predict(origins)
            return both.forecast[0], both.online[0]
        base, calibration = prediction.base(origins), prediction.calibration
        return base.forecast[0], calibration.correct(base, calibration.corrections)[0]

    def _cut(self, values: np.ndarray) -> Panel:
        """The panel with these first values, without the steps that no forecast looks at."""
        end, lags = len(values), self.run.recipe.lags
        panel = self.panel.steps(0, end, end + lags.horizon).with_data(values)
        reach = panel.clock.needed_steps(lags, panel.times[-1:]) + lags.horizon + 2 * self.day
        return panel.steps(max(end - reach - context(panel.clock) - CYCLES, 0), end)


def main() -> None:
    """Put in the faults, and print their effects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("panel", type=Path)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--online", type=int, default=10, help="every so many cases, online too")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    trials = Trials(load_estimator(arguments.run), Panel.open(arguments.panel))
    results: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number, fault in enumerate(trials.draw(arguments.cases, arguments.seed, arguments.split)):
        name = "repeated" if fault.factor is None else f"× {fault.factor:g}"
        results[name].append(trials.try_fault(fault, online=number % arguments.online == 0))
        results["all"].append(results[name][-1])
    for name, effects in results.items():
        print(f"{name:9} {summarise(effects)}")


def summarise(effects: list[dict[str, float]]) -> str:
    """One line about the effects of one kind of fault."""
    column = {key: np.array([effect[key] for effect in effects]) for key in effects[0]}
    judged, compared = np.isfinite(column[MARKED]), np.isfinite(column[WIDER])
    beyond = column[OTHERS] > column[ALLOWED] + SLACK
    return (
        f"{len(effects):5,} cases: contained {int(column[CONTAINED].sum()):,}, "
        f"no narrower {int(column[WIDER][compared].sum()):,} of {int(compared.sum()):,} marked, "
        f"marked {int(column[MARKED][judged].sum()):,} of {int(judged.sum()):,}; "
        f"own forecast moves {np.median(column[OWN]):.2f} spreads, at most {column[OWN].max():.2f}"
        f"; others {np.median(column[OTHERS]):.3f}, at most {column[OTHERS].max():.3f}"
        f" (allowed {np.median(column[ALLOWED]):.3f}, at most {column[ALLOWED].max():.3f}; "
        f"beyond it by {SLACK:g}: {int(beyond.sum()):,})"
    )


if __name__ == "__main__":
    main()
