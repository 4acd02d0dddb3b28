"""The target steps in groups: by hour, weekday, step ahead and weather."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.clock.clock import WEEKDAYS
from forecaster.evaluation.backtest import Assessment
from forecaster.panel.panel import Panel

DAY_MINUTES = 24 * 60
FEWEST = 24  # steps that a kind of weather must have to be told of
NOWHERE = -1  # the group of steps that belong to none

Groups = Int64[np.ndarray, "B K"]  # of each window and step ahead


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which group each target step belongs to, and what the groups are called."""

    labels: tuple[str, ...]
    groups: Groups

    @property
    def steps(self) -> Int64[np.ndarray, " G"]:
        """How many target steps there are in each group."""
        inside = self.groups[self.groups != NOWHERE]
        return np.bincount(inside, minlength=len(self.labels))

    def sum(self, part: np.ndarray) -> Float64[np.ndarray, " G"]:
        """Return the sums of something over the steps of each group."""
        inside = self.groups != NOWHERE
        sums = np.bincount(self.groups[inside], weights=part[inside], minlength=len(self.labels))
        return np.asarray(sums, dtype=np.float64)


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


def target_times(found: Assessment, panel: Panel) -> Shaped[np.ndarray, "B K"]:
    """Return the instant of every step that was forecast."""
    K = found.errors[found.weather].squares.shape[1]
    origins = found.origins.astype("datetime64[s]")
    return np.asarray(origins[:, None] + np.arange(1, K + 1) * panel.clock.step)


def group_hours(found: Assessment, panel: Panel) -> Grouping | None:
    """Return the hours of the local day; None where a step is a day or longer."""
    if panel.clock.step_minutes >= DAY_MINUTES:
        return None
    hours = _local(found, panel).astype("datetime64[h]").astype(np.int64) % 24
    return Grouping(tuple(f"{hour}:00" for hour in range(24)), hours)


def group_weekdays(found: Assessment, panel: Panel) -> Grouping:
    """Return the days of the week."""
    days = _local(found, panel).astype("datetime64[D]").astype(np.int64)
    weekday = (days + 3) % 7  # 1970 began on a Thursday
    return Grouping(tuple(day.capitalize() for day in WEEKDAYS), weekday)


def group_steps(found: Assessment) -> Grouping:
    """Return the steps ahead."""
    B, K = found.errors[found.weather].squares.shape
    steps = np.broadcast_to(np.arange(K), (B, K))
    return Grouping(tuple(f"+{k}" for k in range(1, K + 1)), steps)


def group_weather(found: Assessment, panel: Panel) -> Mapping[str, Grouping]:
    """Return little and much of each covariate, by its name."""
    times = target_times(found, panel)
    step = ((times - panel.start) // panel.clock.step).astype(np.int64)
    everywhere = panel.local_covariates.values.mean(axis=2)  # one figure for all locations
    named = zip(
        (*panel.covariates.names, *panel.local_covariates.names),
        (*panel.covariates.values.T, *everywhere),
        strict=True,
    )
    return {name: _sort_values(values[step].astype(np.float64)) for name, values in named}


def ratio(above: np.ndarray, below: np.ndarray) -> Float64[np.ndarray, "*shape"]:
    """Return a ratio, NaN where there is nothing below."""
    whole = np.full(above.shape, np.nan)
    return np.asarray(np.divide(above, below, out=whole, where=below > 0))


def _local(found: Assessment, panel: Panel) -> Shaped[np.ndarray, "B K"]:
    return panel.clock.local(target_times(found, panel))


def _sort_values(values: Float64[np.ndarray, "B K"]) -> Grouping:
    """Return the group of each value: no or yes, none or some, or thirds of what there is."""
    known = values[np.isfinite(values)]
    kinds = np.unique(known)
    if np.isin(kinds, (0.0, 1.0)).all():
        cuts, labels = [0.5], ["no", "yes"]
    else:
        low, high = np.quantile(known, [1 / 3, 2 / 3])
        if low == kinds[0] and known.min() == 0:  # mostly none, as precipitation is
            cuts, labels = [0.0], ["none", "some"]
        else:
            cuts = [float(low), float(high)]
            labels = [f"≤ {low:.3g}", f"{low:.3g} … {high:.3g}", f"> {high:.3g}"]
    groups = np.searchsorted(cuts, values)
    return Grouping(tuple(labels), np.where(np.isfinite(values), groups, NOWHERE))
