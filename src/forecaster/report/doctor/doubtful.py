"""Implausible and repeated values of a panel, by the rules of a run trained on its first part."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32

from forecaster.errors import count_of
from forecaster.estimators.closed import LONGEST as LONGEST_SILENCE
from forecaster.estimators.closed import Closings, fit_silence
from forecaster.estimators.wrong_values.plausible import RUN_DAYS, Marks, Plausibility, day_steps
from forecaster.estimators.wrong_values.value_ranges import LONGEST, MIN_WEEKS, RANGE, fit_ranges
from forecaster.panel.fill import slot_means
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.report.doctor.scan import local_time_text, location_label
from forecaster.splits import Splits

TRAIN_SHARE = 0.7  # of the steps, where the recipe has no training periods in the panel
QUANTILE, NORMAL = 0.9, 1.645  # of absolute residuals: a few wrong values do not widen the spread
PART_DAYS = 120  # judged at a time, to bound memory
_DAY_HOURS = 24
_WEEK_MINUTES = 7 * 24 * 60
_COLUMNS = 128  # locations at a time


class Doubtful(NamedTuple):
    """The doubtful values of a panel; each entry is its size and its text."""

    implausible: list[tuple[float, str]]
    repeated: list[tuple[float, str]]  # one per run of equal values


def find_doubtful(panel: Panel, recipe: Recipe) -> Doubtful:
    """Return the implausible values, and the runs of equal values longer than in training.

    A panel with fewer than four weeks of training has none.
    """
    train = _training_steps(panel, recipe)
    if train.sum() * panel.clock.step_minutes < MIN_WEEKS * _WEEK_MINUTES:
        return Doubtful([], [])
    plausibility = _fit(panel, train)
    marks = _judge(panel, plausibility)
    implausible = _describe_implausible(panel, marks, plausibility.spread.mean(axis=0))
    return Doubtful(implausible, _describe_repeated(panel, marks))


def find_silenced(panel: Panel, recipe: Recipe) -> dict[int, str]:
    """Return why a run trained on the panel would take locations as closed at its end."""
    train = _training_steps(panel, recipe)
    closings = Closings(panel.kind, fit_silence(panel, train)[LONGEST_SILENCE])
    return closings.describe(panel, len(panel.values) - 1)


def _training_steps(panel: Panel, recipe: Recipe) -> Bool[np.ndarray, " M"]:
    """Return the steps of the recipe's training periods; without any, the first of the panel."""
    M, ranges = len(panel.values), recipe.splits
    if ranges.train:
        splits = Splits(ranges.train, ranges.validation, ranges.test)
        train = splits.mask("train", panel.clock, panel.times)
        if train.any():
            return train
    return np.arange(M) < round(TRAIN_SHARE * M)


def _fit(panel: Panel, train: Bool[np.ndarray, " M"]) -> Plausibility:
    """Return what a run would know; the spread is that of values around their weekly means.

    Means are of values within the range of their hour, which leaves out the most extreme week: the
    wrong values that are looked for may be in training.
    """
    clock, arrays = panel.clock, fit_ranges(panel, train)
    W, times, (least, most) = clock.season_slots, panel.times[train], arrays[RANGE]
    slots, local = clock.slot_of_season(times), clock.local(times)
    week_hours = slots * len(most) // W
    inside = np.clip(panel.values[train], least[week_hours], most[week_hours])
    means = slot_means(inside, slots, W)
    hours = (local - local.astype("datetime64[D]")).astype(np.int64) // 3600
    spread = np.zeros((_DAY_HOURS, panel.values.shape[1]), dtype=np.float32)
    for start in range(0, panel.values.shape[1], _COLUMNS):
        block = slice(start, start + _COLUMNS)
        residuals = np.abs(inside[:, block] - means[slots, block])
        for hour in np.unique(hours).tolist():
            spread[hour, block] = _typical_size(residuals[hours == hour])
    if panel.kind == "count":
        least = np.zeros_like(least)  # zeros have their own check
    return Plausibility(panel.kind, means, least, most, arrays[LONGEST], spread)


def _typical_size(residuals: Float32[np.ndarray, "T n"]) -> Float32[np.ndarray, " n"]:
    """Return the standard deviation by a quantile of absolute residuals; 0 without any."""
    ordered, count = np.sort(residuals, axis=0), np.isfinite(residuals).sum(axis=0)  # NaN go last
    rank = np.maximum(np.ceil(QUANTILE * count).astype(np.int64) - 1, 0)
    size = np.take_along_axis(ordered, rank[None], axis=0)[0]
    return np.asarray(np.nan_to_num(size) / np.float32(NORMAL))


def _judge(panel: Panel, plausibility: Plausibility) -> Marks:
    """Return the marks of all steps; of counts without zeros."""
    M, size = len(panel.values), PART_DAYS * day_steps(panel.clock)
    parts = []
    for first in range(0, M, size):
        marks = plausibility.judge(panel, first, min(first + size, M)).marks
        parts.append(marks._replace(steps=marks.steps + first))
    found = Marks(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if panel.kind != "count":
        return found
    kept = panel.values[found.steps, found.columns] != 0
    return Marks(*(column[kept] for column in found))


def _describe_implausible(
    panel: Panel, marks: Marks, spread: Float32[np.ndarray, " N"]
) -> list[tuple[float, str]]:
    """Describe each value; its size is its distance from what is plausible.

    Args:
        panel: the values.
        marks: of implausible and repeated values.
        spread: of each location; counts are compared on a square-root scale instead.
    """
    found = []
    for number in np.flatnonzero(marks.lengths == 0).tolist():
        step, column = int(marks.steps[number]), int(marks.columns[number])
        value, limit = float(panel.values[step, column]), float(marks.limits[number])
        side = "at most" if value > limit else "at least"
        digits = ".0f" if panel.kind == "count" else ".4g"
        edge = np.floor(limit) if panel.kind == "count" and value > limit else limit
        place = f"{location_label(panel, column)}, {local_time_text(panel, step)}"
        text = f"{place}: {value:,.6g}, {side} {edge:,{digits}} is plausible"
        far = abs(value - limit) / max(float(spread[column]), 1e-9)
        if panel.kind == "count":
            far = float(abs(np.sqrt(value) - np.sqrt(max(limit, 0))))
        found.append((far, text))
    return found


def _describe_repeated(panel: Panel, marks: Marks) -> list[tuple[float, str]]:
    """Describe each run by its last marked step; its size is its length."""
    repeated = np.flatnonzero(marks.lengths > 0)
    cells = {(int(marks.steps[i]), int(marks.columns[i])): int(marks.lengths[i]) for i in repeated}
    longest = RUN_DAYS * day_steps(panel.clock)  # that is told from longer runs
    found = []
    for (step, column), length in cells.items():
        if (step + 1, column) in cells:
            continue
        value = float(panel.values[step, column])
        at_least = "at least " if length >= longest else ""
        place = f"{location_label(panel, column)}, up to {local_time_text(panel, step)}"
        text = f"{place}: {value:,.6g} for {at_least}{count_of(length, 'step')}"
        found.append((float(length), text))
    return found
