"""The training steps as deviations from what is usual, in four quarters of weeks."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import DataError, count_of
from forecaster.graph.selection import HELD_OUT, quarters
from forecaster.paired import block_days
from forecaster.panel.panel import Panel
from forecaster.windows.profile import SPREAD_FLOOR, fit_profile
from forecaster.windows.scaling import fit_values

LARGEST = 8.0  # standard deviations
WRONG = 0.25  # of a location's variance: one value with more is wrong, and decides no edge
SPAN = 4  # of what a block of held-out steps must reach over, so that it has many origins
_COLUMNS = 64  # locations at a time, to save memory

Bounds = Int64[np.ndarray, "S 2"]  # the first of neighbouring steps, and the one after the last


@dataclass(frozen=True, eq=False)
class LaggedSample:
    """The open steps of a panel as deviations; only those of `runs` are training steps."""

    deviations: Float32[np.ndarray, "N T"]  # of variance 1; 0 where nothing is observed
    observed: Bool[np.ndarray, "N T"]
    scale: Float64[np.ndarray, " N"]  # of a deviation of 1; 0 at locations of one value
    runs: tuple[Bounds, ...]  # the neighbouring training steps of each quarter
    blocks: Int64[np.ndarray, " T"]  # of whole days; 0 outside of training

    @property
    def constant(self) -> Bool[np.ndarray, " N"]:
        """The locations that never deviate."""
        return self.scale <= 0

    @property
    def whole_runs(self) -> Bounds:
        """The neighbouring training steps, whatever their quarters."""
        runs = np.concatenate(self.runs)
        runs = runs[np.argsort(runs[:, 0])]
        begins = np.concatenate([[True], runs[1:, 0] != runs[:-1, 1]])
        return np.column_stack([runs[begins, 0], runs[np.roll(begins, -1), 1]])

    @property
    def steps(self) -> int:
        """The number of training steps."""
        return int(sum(np.diff(bounds, axis=1).sum() for bounds in self.runs))


def take_deviations(panel: Panel, train: Bool[np.ndarray, " M"], reach: int = 0) -> LaggedSample:
    """The deviations of the training steps from the seasonal profile.

    Those of counts are in units of a spread that grows with the root of what is usual. Closed
    steps are left out, so that the first step of a morning follows the last one of the evening.
    Wrong values count as missing, also for what is usual.

    Args:
        panel: values of all locations.
        train: the training steps.
        reach: how many steps one forecast reaches over, from its oldest lag to its last step. The
            quarters are of weeks, or of longer blocks where a forecast takes more room.
    """
    steps = np.flatnonzero(panel.clock.is_open(panel.times))
    used = np.flatnonzero(train[steps])
    if len(used) < HELD_OUT:
        message = f"graph: {count_of(len(used), 'training step')}"
        raise DataError(f"{message}; at least {HELD_OUT} are needed to hold some out")
    while True:
        deviations, observed, scale = _deviate(panel, train, steps)
        places, wrong = _find_wrong(deviations, observed, used)
        if not len(wrong):
            break
        del deviations, observed  # before others take their memory
        values = panel.values.copy()
        values[steps[wrong], places] = np.nan
        panel = replace(panel, values=values)
    np.clip(deviations, -LARGEST, LARGEST, out=deviations)
    runs = _cut(used, quarters(len(used), max(panel.clock.season_slots, SPAN * reach)))
    return LaggedSample(deviations, observed, scale, runs, _blocks(panel, steps, used))


def at_steps(sample: LaggedSample, panel: Panel, chosen: Bool[np.ndarray, " M"]) -> LaggedSample:
    """The same deviations, with other steps in place of the training steps, all in one part.

    Args:
        sample: of the panel.
        panel: whose steps are chosen.
        chosen: the steps.
    """
    steps = np.flatnonzero(panel.clock.is_open(panel.times))
    used = np.flatnonzero(chosen[steps])
    runs = _cut(used, np.zeros(len(used), np.int64))[:1]
    return replace(sample, runs=runs, blocks=_blocks(panel, steps, used))


def _blocks(
    panel: Panel, steps: Int64[np.ndarray, " T"], used: Int64[np.ndarray, " t"]
) -> Int64[np.ndarray, " T"]:
    """The blocks of whole days of the used steps; 0 elsewhere."""
    days = panel.clock.local(panel.times[steps[used]]).astype("datetime64[D]").astype(np.int64)
    blocks = np.zeros(len(steps), np.int64)
    blocks[used] = block_days(days)
    return blocks


def _deviate(
    panel: Panel, train: Bool[np.ndarray, " M"], steps: Int64[np.ndarray, " T"]
) -> tuple[Float32[np.ndarray, "N T"], Bool[np.ndarray, "N T"], Float64[np.ndarray, " N"]]:
    """The deviations at some steps, where there are values, and the scale of each location."""
    N, T = len(panel.locations), len(steps)
    used = np.flatnonzero(train[steps])
    deviations, observed = np.empty((N, T), np.float32), np.empty((N, T), np.bool_)
    constant = np.empty(N, np.bool_)
    profile, mean = fit_profile(panel, train), fit_values(panel, train).mean
    slots = panel.clock.slot_of_season(panel.times[steps])
    for first in range(0, N, _COLUMNS):
        block = slice(first, first + _COLUMNS)
        usual = profile[block][:, slots]
        values = panel.values[steps, block].T
        seen = values[:, used]
        constant[block] = ~(np.fmax.reduce(seen, axis=1) > np.fmin.reduce(seen, axis=1))
        values = values - usual
        if panel.kind == "count":
            values /= np.sqrt(usual / mean[block, None] + SPREAD_FLOOR)
        observed[block] = np.isfinite(values)
        deviations[block] = np.where(observed[block], values, 0)
    scale = np.where(constant, 0, _scale(deviations, observed, used))
    deviations /= np.where(scale > 0, scale, np.inf)[:, None]
    return deviations, observed, scale


def _scale(
    values: Float32[np.ndarray, "N T"],
    observed: Bool[np.ndarray, "N T"],
    used: Int64[np.ndarray, " t"],
) -> Float64[np.ndarray, " N"]:
    """The root mean square of the observed training steps of each location."""
    squares, counts = np.zeros(len(values)), observed[:, used].sum(axis=1)
    for n, row in enumerate(values):
        squares[n] = np.square(row[used], dtype=np.float64).sum()
    return np.asarray(np.sqrt(squares / np.maximum(counts, 1)))


def _find_wrong(
    deviations: Float32[np.ndarray, "N T"],
    observed: Bool[np.ndarray, "N T"],
    used: Int64[np.ndarray, " t"],
) -> tuple[Int64[np.ndarray, " wrong"], Int64[np.ndarray, " wrong"]]:
    """The location and the step of each wrong value in the training steps."""
    wrong = []
    for n, row in enumerate(deviations):
        limit = max(WRONG * np.count_nonzero(observed[n, used]), LARGEST**2)
        wrong += [(n, step) for step in used[np.square(row[used]) > limit].tolist()]
    places, steps = np.array(wrong, np.int64).reshape(-1, 2).T
    return places, steps


def _cut(
    used: Int64[np.ndarray, " M"], quarter: Int64[np.ndarray, " M"]
) -> tuple[Int64[np.ndarray, "S 2"], ...]:
    """The runs of neighbouring steps of each quarter."""
    changes = np.flatnonzero((np.diff(used) != 1) | (np.diff(quarter) != 0)) + 1
    ends = [0, *changes.tolist(), len(used)]
    runs = [(int(used[a]), int(used[b - 1]) + 1, int(quarter[a])) for a, b in pairwise(ends)]
    return tuple(
        np.array([run[:2] for run in runs if run[2] == part], np.int64).reshape(-1, 2)
        for part in range(HELD_OUT)
    )
