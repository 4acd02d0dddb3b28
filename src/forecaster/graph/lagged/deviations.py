"""The training steps as deviations from what is usual, and the weeks that are held out."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import DataError, count_of
from forecaster.graph.selection import hold_out
from forecaster.paired import block_days
from forecaster.panel.panel import Panel
from forecaster.windows.profile import SPREAD_FLOOR, fit_profile
from forecaster.windows.scaling import fit_scaler

LARGEST = 8.0  # standard deviations: a wrong value must not decide an edge
_COLUMNS = 64  # locations at a time, to save memory


@dataclass(frozen=True, eq=False)
class Segment:
    """Neighbouring training steps that are fitted together, or held out together."""

    start: int  # position among the open steps
    stop: int
    block: int  # of held-out days; −1: fitted


@dataclass(frozen=True, eq=False)
class LaggedSample:
    """The open steps of a panel as deviations; only those of the segments are training steps."""

    steps: Int64[np.ndarray, " T"]  # of the panel, without those at which all is closed
    deviations: Float32[np.ndarray, "N T"]  # of variance 1; 0 where nothing is observed
    observed: Bool[np.ndarray, "N T"]
    constant: Bool[np.ndarray, " N"]  # locations that never deviate
    segments: tuple[Segment, ...]

    @property
    def fitted(self) -> tuple[Segment, ...]:
        """The segments to fit on."""
        return tuple(segment for segment in self.segments if segment.block < 0)

    @property
    def held_out(self) -> tuple[Segment, ...]:
        """The segments that are held out: every fourth week."""
        return tuple(segment for segment in self.segments if segment.block >= 0)


def take_deviations(panel: Panel, train: Bool[np.ndarray, " M"]) -> LaggedSample:
    """The deviations of the training steps from the seasonal profile, as `best` sees them.

    Those of counts are in units of a spread that grows with the root of what is usual. Closed
    steps are left out, so that the first step of a morning follows the last one of the evening.
    """
    steps = np.flatnonzero(panel.clock.is_open(panel.times))
    segments = _cut(panel, steps, train[steps])
    N, T = len(panel.locations), len(steps)
    deviations, observed = np.empty((N, T), np.float32), np.empty((N, T), np.bool_)
    profile, used = fit_profile(panel, train), np.flatnonzero(train[steps])
    mean = fit_scaler(panel, train).values.mean
    slots = panel.clock.slot_of_season(panel.times[steps])
    for first in range(0, N, _COLUMNS):
        block = slice(first, first + _COLUMNS)
        usual = profile[block][:, slots]
        values = panel.values[steps, block].T - usual
        if panel.kind == "count":
            values /= np.sqrt(usual / mean[block, None] + SPREAD_FLOOR)
        observed[block] = np.isfinite(values)
        deviations[block] = np.where(observed[block], values, 0)
    scale = _deviation(deviations, observed, used)
    constant = scale <= 0
    deviations /= np.where(constant, 1, scale)[:, None]
    np.clip(deviations, -LARGEST, LARGEST, out=deviations)
    deviations[constant] = 0
    return LaggedSample(steps, deviations, observed, constant, segments)


def _deviation(
    values: Float32[np.ndarray, "N T"],
    observed: Bool[np.ndarray, "N T"],
    used: Int64[np.ndarray, " t"],
) -> Float64[np.ndarray, " N"]:
    """The standard deviation of the observed training steps of each location."""
    deviation = np.zeros(len(values))
    for n, (row, known) in enumerate(zip(values, observed, strict=True)):
        sample = row[used][known[used]]
        if len(sample) > 1:
            deviation[n] = sample.std(dtype=np.float64)
    return deviation


def _cut(
    panel: Panel, steps: Int64[np.ndarray, " T"], train: Bool[np.ndarray, " T"]
) -> tuple[Segment, ...]:
    """The segments of the training steps; held-out ones end where a block of days ends."""
    used = np.flatnonzero(train)
    if len(used) <= 1:
        raise DataError(f"{count_of(len(used), 'training step')}; two are needed to learn a graph")
    _, held = hold_out(used, panel.clock.season_slots)
    days = panel.clock.local(panel.times[steps[held]]).astype("datetime64[D]").astype(np.int64)
    block = np.full(len(steps), -2)
    block[used] = -1
    block[held] = block_days(days)
    is_held = np.zeros(len(steps), np.bool_)
    is_held[held] = True
    changes = np.flatnonzero((np.diff(block) != 0) | (np.diff(is_held) != 0)) + 1
    bounds = pairwise([0, *changes.tolist(), len(steps)])
    return tuple(Segment(a, b, int(block[a])) for a, b in bounds if block[a] >= -1)
