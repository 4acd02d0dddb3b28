"""Zones that end and return: how soon they are forecast at zero, and what the others notice.

`python -m benchmarks.closings PANEL RUN` lets four zones, chosen by seed, end at a date of the
test weeks and return three weeks later: with zeros, and with missing values. It prints

- the hours of silence until their forecast is zero (goal: at most 48);
- by how much the forecasts of the other zones move while the four are silent, in spreads, before
  and after the closings are recognised, and what that does to their RMSE;
- RMSE of the four from two days after their return on, against the same hours of the untouched
  panel (goal: at most 1.3 times).
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.intervals.calibration import SPREAD, local_hours
from forecaster.estimators.registry import load_estimator
from forecaster.panel.panel import Panel

ZONES, WEEKS, SETTLED_DAYS, DAY = 4, 3, 2, 24
LARGEST_DELAY, LARGEST_RATIO = 48, 1.3


def main() -> None:
    """Print the three results for every seed and kind of silence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("panel", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--end", default="2020-01-13", help="local date at which the zones end")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    panel, model = Panel.open(arguments.panel), load_estimator(arguments.run)
    local = panel.clock.local(panel.times)
    end = int(np.searchsorted(local, np.datetime64(arguments.end)))
    untouched = Forecasts(model, panel, end)
    for seed in range(arguments.seeds):
        zones = np.random.default_rng(seed).choice(len(panel.locations), ZONES, replace=False)
        for name, value in (("zeros", 0.0), ("nulls", np.nan)):
            values = panel.values.copy()
            values[end : end + WEEKS * 7 * DAY, zones] = value
            changed = Forecasts(model, replace(panel, values=values, digest=None), end)
            print(f"seed {seed}, {name}: " + "; ".join(_compare(changed, untouched, zones)))


class Forecasts:
    """The forecasts from the end of the zones to two weeks after their return."""

    def __init__(self, model: Estimator, panel: Panel, end: int) -> None:
        if model.run is None:
            raise TypeError("the model is not fitted")
        last = end + (WEEKS + 2) * 7 * DAY
        self.origins, self.end = np.arange(end - 1, last), end
        self.mean = model.predict(panel, self.origins)
        ahead = self.origins[:, None] + np.arange(1, self.mean.shape[1] + 1)
        self.truth = panel.values[ahead]
        self.spread = model.run.arrays[SPREAD][local_hours(panel, ahead)]


def _compare(changed: Forecasts, untouched: Forecasts, zones: np.ndarray) -> Iterator[str]:
    """Say how the forecasts of a changed panel differ from those of the untouched one."""
    silent_hours = changed.origins - changed.end + 1
    forecast = changed.mean[..., zones].max(axis=(1, 2))
    still_open = silent_hours[(forecast > 0) & (silent_hours < WEEKS * 7 * DAY)]
    delay = int(still_open.max()) + 1
    yield f"zero after {delay} h ({_met(delay <= LARGEST_DELAY)})"
    moves = np.abs(changed.mean - untouched.mean) / untouched.spread
    moves = np.delete(moves, zones, axis=2).max(axis=1)  # by origin and zone
    spans = {"first two days": (0, 2 * DAY), "then": (2 * DAY, WEEKS * 7 * DAY)}
    for name, (first, last) in spans.items():
        rows = (silent_hours >= first) & (silent_hours < last)
        mean, most = moves[rows].mean(), moves[rows].max()
        yield f"others move, {name}: {mean:.3f} spreads on average, at most {most:.2f}"
    silent = (silent_hours >= 0) & (silent_hours < WEEKS * 7 * DAY)
    others = np.delete(np.arange(changed.mean.shape[2]), zones)
    rmse, usual = (
        _rmse(one.mean, untouched.truth, silent, others) for one in (changed, untouched)
    )
    yield f"RMSE of the others meanwhile {rmse:.2f}, usually {usual:.2f}: {rmse / usual:.3f} ×"
    settled = silent_hours > WEEKS * 7 * DAY + SETTLED_DAYS * DAY
    rmse, usual = (
        _rmse(one.mean, untouched.truth, settled, zones) for one in (changed, untouched)
    )
    ratio = rmse / usual
    met = _met(ratio <= LARGEST_RATIO)
    yield f"RMSE after the return {rmse:.2f}, usually {usual:.2f}: {ratio:.2f} × ({met})"


def _rmse(mean: np.ndarray, truth: np.ndarray, rows: np.ndarray, zones: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(np.square(mean - truth)[rows][..., zones])))


def _met(goal: bool) -> str:
    return "met" if goal else "MISSED"


if __name__ == "__main__":
    main()
