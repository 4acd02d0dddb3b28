"""Where errors come from: hours, weekdays, weather, steps ahead and locations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.comparison import Row
from forecaster.metrics import Errors
from forecaster.panel.panel import Panel
from forecaster.report.groups import (
    FEWEST,
    Grouping,
    group_hours,
    group_steps,
    group_weather,
    group_weekdays,
    ratio,
)

MOST_COVARIATES = 6  # in one picture


@dataclass(frozen=True, eq=False)
class Breakdown:
    """A figure of some models in groups of target steps; NaN where nothing was observed."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # how many target steps there are in each group
    values: Mapping[str, Float64[np.ndarray, " G"]]  # by model, the mean over its trainings

    @property
    def first(self) -> Float64[np.ndarray, " G"]:
        """The figures of the first model: the one to use."""
        return next(iter(self.values.values()))

    @property
    def contrast(self) -> float:
        """How many times larger the largest figure of the first model is than its smallest."""
        return float(np.nanmax(self.first) / max(np.nanmin(self.first), 1e-9))


def by_hour(rows: Sequence[Row], panel: Panel) -> Breakdown | None:
    """Return the errors of each hour of the day; None where a step is a day or longer."""
    hours = group_hours(rows[0].first, panel)
    return None if hours is None else _drop_empty(group_errors(rows, hours))


def by_weekday(rows: Sequence[Row], panel: Panel) -> Breakdown:
    """Return the errors of each day of the week."""
    return _drop_empty(group_errors(rows, group_weekdays(rows[0].first, panel)))


def by_step(rows: Sequence[Row]) -> Breakdown:
    """Return the errors of each step ahead."""
    return group_errors(rows, group_steps(rows[0].first))


def by_weather(rows: Sequence[Row], panel: Panel) -> dict[str, Breakdown]:
    """Return the errors with little and much of each covariate, what differs most first."""
    found = {}
    for name, grouping in group_weather(rows[0].first, panel).items():
        parted = _drop_empty(group_errors(rows, grouping))
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def group_errors(rows: Sequence[Row], grouping: Grouping) -> Breakdown:
    """Return RMSE = √(Σ squares / Σ values) of every group, the mean over trainings."""
    rmse = {}
    for row in rows:
        each = [_group(_errors(found), grouping) for found in row.found.values()]
        rmse[row.name] = np.mean(each, axis=0)
    return Breakdown(grouping.labels, grouping.steps, rmse)


def place_errors(row: Row, panel: Panel) -> tuple[str, Float64[np.ndarray, " N"]]:
    """Return what is said of each location's errors, and their figure; NaN without any value.

    Counts: WAPE = Σ |x̂ − x| / Σ |x|, alike for busy and quiet places. Measurements: RMSE, since
    around zero a share means nothing.
    """
    if panel.kind != "count":
        return "RMSE", place_rmse(row)
    sums = [found.places for found in row.found.values()]
    each = [ratio(e.absolutes.sum(axis=0), e.sizes.sum(axis=0)) for e in sums]
    return "WAPE", np.asarray(np.mean(each, axis=0))


def place_rmse(row: Row) -> Float64[np.ndarray, " N"]:
    """Return the RMSE of each location, the mean over trainings; NaN without any value."""
    sums = [found.places for found in row.found.values()]
    each = [np.sqrt(ratio(e.squares.sum(axis=0), e.values.sum(axis=0))) for e in sums]
    return np.asarray(np.mean(each, axis=0))


def _errors(found: Assessment) -> Errors:
    return found.errors[found.weather]


def _group(errors: Errors, grouping: Grouping) -> Float64[np.ndarray, " G"]:
    squares, values = (grouping.sum(part) for part in (errors.squares, errors.values))
    return np.asarray(np.sqrt(ratio(squares, values)))


def _drop_empty(given: Breakdown) -> Breakdown:
    """Return the groups in which something was observed."""
    kept = np.flatnonzero(np.isfinite(given.first))
    values = {name: figures[kept] for name, figures in given.values.items()}
    return Breakdown(tuple(given.labels[g] for g in kept), given.steps[kept], values)
