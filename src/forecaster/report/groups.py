"""Groups of target steps (by hour, weekday, step ahead, weather) and figures by group."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.clock.clock import WEEKDAYS
from forecaster.evaluation.backtest import BacktestResult
from forecaster.evaluation.step_groups import group_steps
from forecaster.panel.panel import Panel

DAY_MINUTES = 24 * 60
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FEWEST_STEPS = 24  # a weather group with fewer target steps is not shown
NO_GROUP = -1  # the group index of target steps that belong to no group

GroupIndex = Int64[np.ndarray, "B K"]  # of each window and step ahead


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each target step, and the labels of the groups."""

    labels: tuple[str, ...]
    groups: GroupIndex

    @property
    def steps(self) -> Int64[np.ndarray, " G"]:
        """The number of target steps in each group."""
        inside = self.groups[self.groups != NO_GROUP]
        return np.bincount(inside, minlength=len(self.labels))

    def sum(self, part: np.ndarray) -> Float64[np.ndarray, " G"]:
        """Sum an array of shape [B, K] within each group."""
        inside = self.groups != NO_GROUP
        sums = np.bincount(self.groups[inside], weights=part[inside], minlength=len(self.labels))
        return np.asarray(sums, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Breakdown:
    """A figure of several models by group of target steps; NaN where nothing was observed."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # number of target steps in each group
    values: Mapping[str, Float64[np.ndarray, " G"]]  # by model, mean over its trainings

    @property
    def first(self) -> Float64[np.ndarray, " G"]:
        """The figures of the first model, which is the recommended one."""
        return next(iter(self.values.values()))

    @property
    def contrast(self) -> float:
        """The ratio of the largest to the smallest figure of the first model."""
        return float(np.nanmax(self.first) / max(np.nanmin(self.first), 1e-9))


def target_times(assessment: BacktestResult, panel: Panel) -> Shaped[np.ndarray, "B K"]:
    """Return the UTC time of every target step."""
    steps = _target_steps(assessment, panel)
    return panel.instants(steps.reshape(-1)).reshape(steps.shape)


def group_by_hour(assessment: BacktestResult, panel: Panel) -> Grouping | None:
    """Group by hour of the local day; None where a step is a day or longer."""
    if panel.clock.step_minutes >= DAY_MINUTES:
        return None
    hours = _local_times(assessment, panel).astype("datetime64[h]").astype(np.int64) % 24
    return Grouping(tuple(f"{hour}:00" for hour in range(24)), hours)


def group_by_weekday(assessment: BacktestResult, panel: Panel) -> Grouping:
    """Group by local day of the week."""
    days = _local_times(assessment, panel).astype("datetime64[D]").astype(np.int64)
    weekday = (days + 3) % 7  # 1970 began on a Thursday
    return Grouping(tuple(day.capitalize() for day in WEEKDAYS), weekday)


def group_by_month(assessment: BacktestResult, panel: Panel) -> Grouping:
    """Group by local month of the year."""
    months = _local_times(assessment, panel).astype("datetime64[M]").astype(np.int64) % 12
    return Grouping(MONTHS, months)


def group_by_step(assessment: BacktestResult) -> Grouping:
    """Group by step ahead."""
    B, K = assessment.errors[assessment.weather].squares.shape
    steps = np.broadcast_to(np.arange(K), (B, K))
    return Grouping(tuple(f"+{k}" for k in range(1, K + 1)), steps)


def group_by_steps(assessment: BacktestResult, panel: Panel) -> Grouping:
    """Group by step ahead, many steps by groups of them: `+2–6 h`, `day 2`."""
    B, K = assessment.errors[assessment.weather].squares.shape
    groups = group_steps(K, panel.clock.step_minutes)
    numbers = [n for n, g in enumerate(groups) for _ in range(g.first, g.last + 1)]
    steps = np.broadcast_to(np.array(numbers), (B, K))
    return Grouping(tuple(group.label for group in groups), steps)


def group_by_weather(assessment: BacktestResult, panel: Panel) -> Mapping[str, Grouping]:
    """Group by low and high values of each covariate; by covariate name."""
    step = _target_steps(assessment, panel)
    local_means = panel.local_covariates.values.mean(axis=2)  # over the locations
    covariates = zip(
        (*panel.covariates.names, *panel.local_covariates.names),
        (*panel.covariates.values.T, *local_means),
        strict=True,
    )
    return {name: _group_values(values[step].astype(np.float64)) for name, values in covariates}


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> Float64[np.ndarray, "*shape"]:
    """Divide elementwise; NaN where the denominator is 0."""
    quotient = np.full(numerator.shape, np.nan)
    return np.asarray(np.divide(numerator, denominator, out=quotient, where=denominator > 0))


def _target_steps(assessment: BacktestResult, panel: Panel) -> Int64[np.ndarray, "B K"]:
    K = assessment.errors[assessment.weather].squares.shape[1]
    return panel.step_index(assessment.origins)[:, None] + np.arange(1, K + 1)


def _local_times(assessment: BacktestResult, panel: Panel) -> Shaped[np.ndarray, "B K"]:
    return panel.clock.local(target_times(assessment, panel))


def _group_values(values: Float64[np.ndarray, "B K"]) -> Grouping:
    """Group values as no/yes (0 and 1 only), none/some (mostly 0), or by terciles."""
    finite = values[np.isfinite(values)]
    distinct = np.unique(finite)
    if np.isin(distinct, (0.0, 1.0)).all():
        cuts, labels = [0.5], ["no", "yes"]
    else:
        low, high = np.quantile(finite, [1 / 3, 2 / 3])
        if low == distinct[0] and finite.min() == 0:  # mostly none, as precipitation is
            cuts, labels = [0.0], ["none", "some"]
        else:
            cuts = [float(low), float(high)]
            labels = [f"≤ {low:.3g}", f"{low:.3g} … {high:.3g}", f"> {high:.3g}"]
    groups = np.searchsorted(cuts, values)
    return Grouping(tuple(labels), np.where(np.isfinite(values), groups, NO_GROUP))
