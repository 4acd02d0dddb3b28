"""Where errors come from: hours, weekdays, weather, steps ahead and locations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from forecaster.clock.clock import WEEKDAYS
from forecaster.evaluation.backtest import Assessment
from forecaster.evaluation.comparison import Row
from forecaster.metrics import Errors
from forecaster.panel.panel import Panel

DAY_MINUTES = 24 * 60
FEWEST = 24  # steps that a kind of weather must have to be told of
MOST_COVARIATES = 6  # in one picture
NOWHERE = -1  # the group of steps that belong to none

Groups = Int64[np.ndarray, "B K"]  # of each window and step ahead


@dataclass(frozen=True, eq=False)
class Breakdown:
    """The RMSE of some models in groups of target steps; NaN where nothing was observed."""

    labels: tuple[str, ...]
    steps: Int64[np.ndarray, " G"]  # how many target steps there are in each group
    rmse: Mapping[str, Float64[np.ndarray, " G"]]  # by model, the mean over its trainings

    @property
    def first(self) -> Float64[np.ndarray, " G"]:
        """The errors of the first model: the one to use."""
        return next(iter(self.rmse.values()))

    @property
    def contrast(self) -> float:
        """How many times larger the largest error of the first model is than its smallest."""
        return float(np.nanmax(self.first) / max(np.nanmin(self.first), 1e-9))


def target_times(found: Assessment, panel: Panel) -> Shaped[np.ndarray, "B K"]:
    """Return the instant of every step that was forecast."""
    K = found.errors[found.weather].squares.shape[1]
    origins = found.origins.astype("datetime64[s]")
    return np.asarray(origins[:, None] + np.arange(1, K + 1) * panel.clock.step)


def by_hour(rows: Sequence[Row], panel: Panel) -> Breakdown | None:
    """Return the errors of each hour of the day; None where a step is a day or longer."""
    if panel.clock.step_minutes >= DAY_MINUTES:
        return None
    hours = _local(rows, panel).astype("datetime64[h]").astype(np.int64) % 24
    return _drop_empty(group_errors(rows, hours, [f"{hour}:00" for hour in range(24)]))


def by_weekday(rows: Sequence[Row], panel: Panel) -> Breakdown:
    """Return the errors of each day of the week."""
    days = _local(rows, panel).astype("datetime64[D]").astype(np.int64)
    weekday = (days + 3) % 7  # 1970 began on a Thursday
    return _drop_empty(group_errors(rows, weekday, [day.capitalize() for day in WEEKDAYS]))


def by_step(rows: Sequence[Row]) -> Breakdown:
    """Return the errors of each step ahead."""
    B, K = _errors(rows[0].first).squares.shape
    steps = np.broadcast_to(np.arange(K), (B, K))
    return group_errors(rows, steps, [f"+{k}" for k in range(1, K + 1)])


def by_weather(rows: Sequence[Row], panel: Panel) -> dict[str, Breakdown]:
    """Return the errors with little and much of each covariate, what differs most first."""
    times = target_times(rows[0].first, panel)
    step = ((times - panel.start) // panel.clock.step).astype(np.int64)
    everywhere = panel.local_covariates.values.mean(axis=2)  # one figure for all locations
    named = zip(
        (*panel.covariates.names, *panel.local_covariates.names),
        (*panel.covariates.values.T, *everywhere),
        strict=True,
    )
    found = {}
    for name, values in named:
        groups, labels = _sort_values(values[step].astype(np.float64))
        parted = _drop_empty(group_errors(rows, groups, labels))
        if len(parted.labels) > 1 and parted.steps.min() >= FEWEST:
            found[name] = parted
    ranked = sorted(found, key=lambda name: -found[name].contrast)
    return {name: found[name] for name in ranked[:MOST_COVARIATES]}


def group_errors(rows: Sequence[Row], groups: Groups, labels: Sequence[str]) -> Breakdown:
    """Return RMSE = √(Σ squares / Σ values) of every group, the mean over trainings."""
    chosen = groups[groups != NOWHERE]
    rmse = {}
    for row in rows:
        each = [_group(_errors(found), groups, len(labels)) for found in row.found.values()]
        rmse[row.name] = np.mean(each, axis=0)
    return Breakdown(tuple(labels), np.bincount(chosen, minlength=len(labels)), rmse)


def place_errors(row: Row, panel: Panel) -> tuple[str, Float64[np.ndarray, " N"]]:
    """Return what is said of each location's errors, and their figure; NaN without any value.

    Counts: WAPE = Σ |x̂ − x| / Σ |x|, alike for busy and quiet places. Measurements: RMSE, since
    around zero a share means nothing.
    """
    if panel.kind != "count":
        return "RMSE", place_rmse(row)
    sums = [found.places for found in row.found.values()]
    each = [_ratio(e.absolutes.sum(axis=0), e.sizes.sum(axis=0)) for e in sums]
    return "WAPE", np.asarray(np.mean(each, axis=0))


def place_rmse(row: Row) -> Float64[np.ndarray, " N"]:
    """Return the RMSE of each location, the mean over trainings; NaN without any value."""
    sums = [found.places for found in row.found.values()]
    each = [np.sqrt(_ratio(e.squares.sum(axis=0), e.values.sum(axis=0))) for e in sums]
    return np.asarray(np.mean(each, axis=0))


def _errors(found: Assessment) -> Errors:
    return found.errors[found.weather]


def _local(rows: Sequence[Row], panel: Panel) -> Shaped[np.ndarray, "B K"]:
    return panel.clock.local(target_times(rows[0].first, panel))


def _group(errors: Errors, groups: Groups, count: int) -> Float64[np.ndarray, " G"]:
    inside = groups != NOWHERE
    squares, values = (
        np.bincount(groups[inside], weights=part[inside], minlength=count)
        for part in (errors.squares, errors.values)
    )
    return np.asarray(np.sqrt(_ratio(squares, values)))


def _sort_values(values: Float64[np.ndarray, "B K"]) -> tuple[Groups, list[str]]:
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
    return np.where(np.isfinite(values), groups, NOWHERE), labels


def _drop_empty(given: Breakdown) -> Breakdown:
    """Return the groups in which something was observed."""
    kept = np.flatnonzero(np.isfinite(given.first))
    rmse = {name: values[kept] for name, values in given.rmse.items()}
    return Breakdown(tuple(given.labels[g] for g in kept), given.steps[kept], rmse)


def _ratio(above: np.ndarray, below: np.ndarray) -> Float64[np.ndarray, "*shape"]:
    """Return a ratio, NaN where there is nothing below."""
    whole = np.full(above.shape, np.nan)
    return np.asarray(np.divide(above, below, out=whole, where=below > 0))
