"""The inputs of forecasts: origins, their filled history and the covariates ahead."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel, local_texts
from forecaster.splits import MAX_FILLED, history_steps, is_poor

MONTH_HOURS = 12 * 24
DAY_MINUTES = 24 * 60
log = logging.getLogger(__name__)
HOLIDAY = CALENDAR_COLUMNS[-1]  # the one thing of a calendar that may be supposed otherwise
# Arrays of a run with the smallest and largest training value of each covariate.
RANGES = {"covariates": "shared.covariate_range", "local_covariates": "shared.local_range"}

# A step by its beginning: text and datetimes with their offset, datetime64 in UTC.
At: TypeAlias = str | datetime | np.datetime64
# Values of a what-if for the next K steps, by covariate, or `holiday`; NaN: unchanged.
Changes: TypeAlias = Mapping[str, Float32[np.ndarray, " K"]]


@dataclass(frozen=True, eq=False)
class ForecastInputs:
    """The inputs of forecasts from B origins: the filled panel, and the covariates ahead."""

    panel: Panel  # missing values are filled; use none after an origin
    origins: Int64[np.ndarray, " B"]  # the last observed steps
    covariates: Float32[np.ndarray, "B K P"]  # of the steps t+1…t+K
    local_covariates: Float32[np.ndarray, "B K Q N"]  # of the steps t+1…t+K
    holiday: Float32[np.ndarray, " K"] | None = None  # what-if: 1 holiday, 0 none, NaN as it is

    def rows(self, first: int, end: int) -> "ForecastInputs":
        """The inputs of some of the origins."""
        return replace(
            self,
            origins=self.origins[first:end],
            covariates=self.covariates[first:end],
            local_covariates=self.local_covariates[first:end],
        )


def prepare_inputs(
    run: Run,
    panel: Panel,
    origins: Int64[np.ndarray, " B"],
    weather: Weather,
    changes: Changes | None = None,
) -> ForecastInputs:
    """The inputs of a run's forecasts from some origins.

    Args:
        run: whose lags and fill values are used.
        panel: matched to the run.
        origins: the last observed steps.
        weather: what to take for covariates ahead.
        changes: what to change in them.
    """
    part, places = look_back(panel, run.recipe.lags, origins)
    ahead = look_ahead(part, places, run.recipe.lags.horizon)
    inputs = ForecastInputs(fill_missing(part, fill_of(run)), places, *ahead)
    inputs = with_weather(inputs, weather, run.arrays["shared.climatology"])
    inputs = with_changes(inputs, changes or {})
    if np.isnan(inputs.covariates).any() or np.isnan(inputs.local_covariates).any():
        raise DataError("covariates ahead are missing at some origins; leave those out")
    return inputs


def fill_of(run: Run) -> Fill:
    """What a run takes for missing values: means of its training steps by time of the week."""
    names = ("shared.fill", "shared.fill_covariates", "shared.fill_local_covariates")
    return Fill(*(run.arrays[name] for name in names))


def find_origin(panel: Panel, at: At) -> int:
    """Return the step that `at` names: the last observed one, given with its offset."""
    form = "give the last observed step with its offset, as in 2014-06-01T08:00-04:00"
    try:
        moment = datetime.fromisoformat(_spell(at))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"at = {at!r} is not a time; {form}") from error
    if moment.tzinfo is None:
        raise ConfigError(f"at = {at!r} has no offset, and clocks change; {form}")
    seconds = moment.timestamp() - int(panel.start.astype(np.int64))
    step, rest = divmod(seconds, panel.clock.step_minutes * 60)
    if rest:
        raise ConfigError(
            f"at = {at!r} lies between two steps of {panel.clock.step_minutes} min; {form}"
        )
    if not 0 <= step < len(panel.values):
        span = " … ".join(local_texts(panel, panel.times[[0, -1]]))
        raise ConfigError(f"at = {at!r} lies outside the panel ({span}); {form}")
    return int(step)


def _spell(at: At) -> str:
    """Return a time as text; a datetime64 is UTC, as the times of a panel are."""
    if isinstance(at, np.datetime64):
        return f"{at.astype('datetime64[us]')}Z"
    return at.isoformat() if isinstance(at, datetime) else at


def look_back(
    panel: Panel, lags: LagConfig, origins: Int64[np.ndarray, " B"]
) -> tuple[Panel, Int64[np.ndarray, " B"]]:
    """Return the part of a panel that its origins can know of, and the origins as its steps.

    Values end at the last origin, covariates at its horizon. One origin of a large panel then
    costs what its history costs, not what the panel does.
    """
    oldest = int(history_steps(panel, lags, origins).min())  # refuses origins without history
    # A season that is shorter than the horizon is looked for further back, and clocks change.
    first = max(oldest - lags.horizon - DAY_MINUTES // panel.clock.step_minutes, 0)
    end = int(origins.max()) + 1
    part = panel.steps(first, end, end + lags.horizon)
    return part, origins - first


def refuse_missing(panel: Panel, lags: LagConfig, origin: int) -> None:
    """Refuse an origin whose history misses more than the rule allows, naming the steps."""
    steps = history_steps(panel, lags, np.array([origin]))[0]
    if not is_poor(panel, steps[None], np.array([origin]))[0]:
        return
    missing = np.isnan(panel.values).mean(axis=1)
    share = float(missing[steps].mean())
    gaps = np.unique(steps[missing[steps] > 0])
    hours = name_some((f"{panel.times[s]}Z ({100 * missing[s]:.0f} %)" for s in gaps[::-1]), 12)
    what = f"{100 * share:.0f} % of the history and {100 * missing[origin]:.0f} % of the origin"
    message = f"history incomplete: {what} are missing (at most {100 * MAX_FILLED:.0f} % each)"
    raise DataError(f"{message}: {count_of(len(gaps), 'step')}: {hours}")


def tell_missing(
    panel: Panel, seen: Sequence[LagConfig], origin: int, *, allowed: bool
) -> list[str]:
    """Return how much is filled where more is missing than the rule allows; else nothing.

    Args:
        panel: what was observed.
        seen: the lags by which windows are cut, and others that a history is looked at by.
        origin: the last observed step.
        allowed: otherwise such an origin is refused.
    """
    try:
        for lags in seen:
            refuse_missing(panel, lags, origin)
    except DataError:
        if not allowed:
            raise
        history = panel.values[history_steps(panel, seen[0], np.array([origin]))]
        return [f"{count_of(int(np.isnan(history).sum()), 'missing value')} filled"]
    return []


def fit_climatology(panel: Panel, train: np.ndarray) -> Float32[np.ndarray, "288 P"]:
    """Return the training mean of each covariate by month and hour of the local year."""
    values = panel.covariates.values[: len(panel.values)][train]
    bins = _month_hours(panel, np.flatnonzero(train))
    mean = np.nan_to_num(np.nanmean(values, axis=0)) if len(values) else np.zeros(values.shape[1])
    means = np.tile(mean.astype(np.float32), (MONTH_HOURS, 1))
    for one in np.unique(bins):
        rows = values[bins == one]
        seen = np.isfinite(rows)
        here = np.where(seen, rows, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        means[one] = np.where(seen.any(axis=0), here, means[one])
    return means


def look_ahead(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> tuple[Float32[np.ndarray, "B K P"], Float32[np.ndarray, "B K Q N"]]:
    """Return the covariates of the steps after each origin, NaN where nobody knows them."""
    ahead = origins[:, None] + np.arange(1, horizon + 1)
    known = len(panel.covariates.values)
    inside = np.minimum(ahead, known - 1)
    world = np.where((ahead < known)[..., None], panel.covariates.values[inside], np.nan)
    local = panel.local_covariates.values.transpose(1, 0, 2)[inside]  # [B, K, Q, N]
    return world, np.where((ahead < known)[..., None, None], local, np.float32(np.nan))


def refuse_unknown_future(panel: Panel, origin: int, horizon: int) -> None:
    """Refuse to forecast without covariates ahead, naming the steps."""
    world, local = look_ahead(panel, np.array([origin]), horizon)
    names = np.array([*panel.covariates.names, *panel.local_covariates.names])
    lacking = np.concatenate([np.isnan(world[0]), np.isnan(local[0]).any(axis=2)], axis=1)
    if not lacking.any():
        return
    steps = panel.clock.axis(panel.times[origin], horizon + 1)[1:][lacking.any(axis=1)]
    what = f"{name_some(names[lacking.any(axis=0)])} at {name_some(f'{t}Z' for t in steps)}"
    ways = "add them to the panel, or take an earlier step"
    raise DataError(f"covariates ahead are missing: {what}; {ways}")


def with_weather(
    inputs: ForecastInputs, weather: Weather, climatology: Float32[np.ndarray, "288 P"]
) -> ForecastInputs:
    """Return the inputs with another knowledge of the future than the panel has."""
    panel, origins = inputs.panel, inputs.origins
    B, K = inputs.covariates.shape[:2]
    here = panel.covariates.values[origins][:, None, :]
    local = panel.local_covariates.values.transpose(1, 0, 2)[origins][:, None]
    local = np.broadcast_to(local, inputs.local_covariates.shape)
    if weather == "observed":
        return inputs
    if weather == "persist":
        return replace(
            inputs, covariates=np.repeat(here, K, axis=1), local_covariates=local.copy()
        )
    if weather == "climatology":
        ahead = origins[:, None] + np.arange(1, K + 1)
        bins = _month_hours(panel, ahead.reshape(-1)).reshape(B, K)
        return replace(inputs, covariates=climatology[bins], local_covariates=local.copy())
    if weather == "none":
        mean = np.broadcast_to(climatology.mean(axis=0), inputs.covariates.shape)
        return replace(inputs, covariates=mean.copy(), local_covariates=local.copy())
    raise ConfigError(f"weather = {weather!r}; observed, persist, climatology or none is needed")


def with_changes(inputs: ForecastInputs, changes: Changes) -> ForecastInputs:
    """Return the inputs with other covariates ahead, the same at every origin and location."""
    world, own = inputs.covariates.copy(), inputs.local_covariates.copy()
    names, local_names = inputs.panel.covariates.names, inputs.panel.local_covariates.names
    for name, values in changes.items():
        given = ~np.isnan(values)
        if name in names:
            world[:, given, names.index(name)] = values[given]
        elif name in local_names:
            own[:, given, local_names.index(name)] = values[given][:, None]
    holiday = None if HOLIDAY in (*names, *local_names) else changes.get(HOLIDAY)
    return replace(inputs, covariates=world, local_covariates=own, holiday=holiday)


def warn_of_recent(run: Run, panel: Panel, origin: int) -> None:
    """Warn of recent values far beyond anything seen in training."""
    least, most = run.arrays["shared.least"], run.arrays["shared.most"]
    recent = panel.values[max(origin - run.recipe.lags.recent + 1, 0) : origin + 1]
    smallest = 1.0 if run.about["kind"] == "count" else 0.0  # one ride is no surprise
    reach = np.maximum(most - least, smallest)
    far = ((recent > most + reach) | (recent < least - reach)).any(axis=0)
    if far.any():
        ids = name_some(panel.locations.ids[n] for n in np.flatnonzero(far))
        what = count_of(int(far.sum()), "location")
        log.warning("outside training range: recent values of %s (%s)", what, ids)


def _month_hours(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    local = panel.clock.local(panel.start + steps * panel.clock.step)
    month = local.astype("datetime64[M]").astype(np.int64) % 12
    hour = (local - local.astype("datetime64[D]")).astype(np.int64) // 3600
    return np.asarray(month * 24 + hour, dtype=np.int64)
