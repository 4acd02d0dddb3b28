"""The inputs of forecasts: origins, their filled history and the covariates ahead."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float32, Int64

from forecaster.artifact import Run
from forecaster.choices import Weather
from forecaster.clock.clock import CALENDAR_COLUMNS
from forecaster.clock.zone import to_utc
from forecaster.config import LagConfig
from forecaster.errors import ConfigError, DataError, count_of, name_some
from forecaster.estimators.closed import Closings
from forecaster.estimators.wrong_values.degraded import describe_outage
from forecaster.estimators.wrong_values.plausible import Plausibility, day_steps
from forecaster.panel.fill import Fill, fill_missing
from forecaster.panel.panel import Panel, local_texts
from forecaster.splits import MAX_FILLED, YEAR_MINUTES, history_steps, is_incomplete

MONTH_HOURS = 12 * 24
DAY_MINUTES = 24 * 60
PERSISTED = "covariates: unknown ahead, so the values at the origin are used"
log = logging.getLogger(__name__)
HOLIDAY = CALENDAR_COLUMNS[-1]  # the only calendar column that may be changed
# The arrays of a run with the smallest and largest value of each covariate in training.
RANGES = {"covariates": "shared.covariate_range", "local_covariates": "shared.local_range"}

# The start of a step: text and datetimes with their UTC offset, datetime64 in UTC.
At: TypeAlias = str | date | np.datetime64
_MONTH = re.compile(r"\d{4}-\d\d")
# Of the coming steps, shared by all locations and local: Float32[B K P], Float32[B K Q N].
CovariatesAhead: TypeAlias = tuple[np.ndarray, np.ndarray]
CANNOT_CHANGE = "past-only, so that no value ahead of the origin enters a forecast; leave it out"
# Values of the K coming steps to replace, by covariate or `holiday`; NaN: unchanged.
Changes: TypeAlias = Mapping[str, Float32[np.ndarray, " K"]]


@dataclass(frozen=True, eq=False)
class ForecastInputs:
    """The inputs of forecasts from B origins: the filled panel, and the covariates ahead."""

    panel: Panel  # every missing value filled
    origins: Int64[np.ndarray, " B"]
    covariates: Float32[np.ndarray, "B K P"]  # of t+1…t+K
    local_covariates: Float32[np.ndarray, "B K Q N"]
    holiday: Float32[np.ndarray, " K"] | None = None  # changed: 1 or 0; NaN: as in the calendar
    # Spreads by which intervals are widened, for implausible and repeated values; None: unknown.
    doubt: Float32[np.ndarray, "B N"] | None = None
    # The values before they were filled, for networks that mask missing ones; None: as filled.
    observed: Float32[np.ndarray, "T N"] | None = None
    whole_hours: bool = False  # whether the calendar knows no minutes, as in earlier versions

    def rows(self, first: int, end: int) -> "ForecastInputs":
        """The inputs of some of the origins."""
        return replace(
            self,
            origins=self.origins[first:end],
            covariates=self.covariates[first:end],
            local_covariates=self.local_covariates[first:end],
            doubt=None if self.doubt is None else self.doubt[first:end],
        )

    def locations(self, count: int) -> "ForecastInputs":
        """The inputs of the first locations, such as those that a run was fitted to."""
        if count == len(self.panel.locations):
            return self
        return replace(
            self,
            panel=self.panel.select(self.panel.locations.ids[:count]),
            local_covariates=self.local_covariates[..., :count],
            doubt=None if self.doubt is None else self.doubt[:, :count],
            observed=None if self.observed is None else self.observed[:, :count],
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
        weather: the source of covariates ahead.
        changes: covariates ahead to replace.
    """
    recent, origins, doubt = bounded_history(run, panel, origins)
    ahead = look_ahead(recent, origins, run.recipe.lags.horizon)
    fill = fill_of(run)
    filled = carry_forward(run, fill_missing(recent, fill))
    ahead = hold_past_only(filled, origins, fill_closed_gaps(recent, fill, origins, ahead))
    inputs = ForecastInputs(
        filled,
        origins,
        *ahead,
        doubt=doubt,
        observed=recent.values,
        whole_hours=knows_whole_hours(run),
    )
    inputs = with_weather(inputs, weather, run.arrays["shared.climatology"])
    inputs = with_changes(inputs, changes or {})
    if np.isnan(inputs.covariates).any() or np.isnan(inputs.local_covariates).any():
        raise DataError("covariates ahead are missing at some origins; leave those out")
    return inputs


def knows_whole_hours(run: Run) -> bool:
    """Whether the calendar of a run knows no minutes: of earlier versions, at small steps."""
    return "calendar" not in run.about


def carry_forward(run: Run, filled: Panel) -> Panel:
    """The panel with gaps of new locations filled by their last value, for models without masks.

    A value is carried as far as lags reach back; where there is none, it is 0 for counts, and the
    mean of all locations for measurements.
    """
    means = run.arrays["shared.fill"]
    columns = np.flatnonzero(np.isnan(means).any(axis=0))  # which have no fill of their own
    if not len(columns):
        return filled
    most = int(filled.clock.lag_steps(run.recipe.lags, filled.times[-1:]).max())
    values, steps = filled.values[:, columns], np.arange(len(filled.values))[:, None]
    last = np.maximum.accumulate(np.where(np.isfinite(values), steps, -most - 1), axis=0)
    carried = np.take_along_axis(values, np.maximum(last, 0), axis=0)
    empty = 0.0 if run.about["kind"] == "count" else float(np.nanmean(means))
    complete = filled.values.copy(order="K")
    complete[:, columns] = np.where(steps - last <= most, carried, np.float32(empty))
    return filled.with_data(complete)


def bounded_history(
    run: Run, panel: Panel, origins: Int64[np.ndarray, " B"]
) -> tuple[Panel, Int64[np.ndarray, " B"], Float32[np.ndarray, "B N"] | None]:
    """The part of a panel that windows see, with implausible values bounded (`plausible`).

    Values of closed locations are missing (`closed`).

    Returns that part, the origins as its steps, and by how many spreads intervals are widened: by
    one where the last day has an implausible or repeated value (None: the run cannot tell).
    """
    recent, steps = look_back(panel, run.recipe.lags, origins)
    plausibility, closings = Plausibility.of(run), Closings.of(run)
    first = int(origins[0] - steps[0])  # below 0: the history begins before the panel
    begin, end = max(first, 0), first + len(recent.values)
    values, doubt = recent.values[begin - first :], None
    if plausibility is not None:
        judgement = plausibility.judge(panel, begin, end)
        values = judgement.values
        marked = judgement.marked_since(origins - begin, day_steps(panel.clock))
        doubt = marked.astype(np.float32)
    if closings is not None:
        values = closings.hide(panel, begin, values)
    before = recent.values[: begin - first]
    return recent.with_data(np.concatenate([before, values])), steps, doubt


def fill_of(run: Run) -> Fill:
    """A run's substitutes for missing values: means of its training steps by time of the week."""
    names = ("shared.fill", "shared.fill_covariates", "shared.fill_local_covariates")
    return Fill(*(run.arrays[name] for name in names))


def find_origin(panel: Panel, at: At | None) -> int:
    """The number of the step that starts at `at`; None: the last step with a value.

    Of steps of days and longer a day needs no offset, and of months 2024-12 is enough.
    """
    if at is None:
        return int(np.flatnonzero(np.isfinite(panel.values).any(axis=1))[-1:].sum())
    last = local_texts(panel, panel.times[-1:])[0]
    form = f"give the last observed step with its offset, as in {last}"
    try:
        moment = datetime.fromisoformat(_spell(at))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"at = {at!r} is not a time; {form}") from error
    if moment.tzinfo is None and panel.clock.step_minutes >= DAY_MINUTES:
        local = np.array([np.datetime64(moment, "s")])
        moment = to_utc(panel.clock.zone, local).first[0].item().replace(tzinfo=UTC)
    if moment.tzinfo is None:
        raise ConfigError(f"at = {at!r} has no offset from UTC; {form}")
    instant = np.array([np.datetime64(int(moment.timestamp() // 1), "s")])
    step = int(panel.clock.step_index(panel.start, instant)[0])
    if panel.instant(step) != instant[0] or moment.microsecond:
        raise ConfigError(f"at = {at!r} lies between two steps of {panel.clock.step_text}; {form}")
    if not 0 <= step < len(panel.values):
        span = " … ".join(local_texts(panel, panel.times[[0, -1]]))
        raise ConfigError(f"at = {at!r} lies outside the panel ({span}); {form}")
    return step


def await_opening(panel: Panel, horizon: int) -> tuple[Panel, int]:
    """The origin of a forecast of the next steps, and the panel, which reaches it.

    It is the last step with a value. If no place is open at any step of the horizon after it (a
    metro at night), it is the last closed step before places open.
    """
    origin = find_origin(panel, None)
    if not panel.clock.hours:
        return panel, origin
    year = YEAR_MINUTES // panel.clock.step_minutes
    ahead = panel.instants(np.arange(origin + 1, origin + 1 + horizon + year))
    is_open = panel.clock.is_open(ahead)
    if is_open[:horizon].any() or not is_open.any():
        return panel, origin
    last_closed = origin + int(is_open.argmax())
    return panel.with_later(last_closed + 1 - len(panel.values)), last_closed


def choose_origin(panel: Panel, at: At | None, horizon: int) -> tuple[Panel, int]:
    """The step that starts at `at`, or `await_opening`; and the panel, which reaches it."""
    if at is None:
        return await_opening(panel, horizon)
    return panel, find_origin(panel, at)


def reach_origin(panel: Panel, cutoff: pd.Timestamp) -> tuple[Panel, int]:
    """The origin of a forecast that was made, and the panel, which reaches it."""
    step = int(panel.step_index(np.array([cutoff.tz_convert(None)], dtype="datetime64[s]"))[0])
    return panel.with_later(step + 1 - len(panel.values)), step


def _spell(at: At) -> str:
    """A time as ISO text; a datetime64 is UTC, as the times of a panel are."""
    if isinstance(at, np.datetime64):
        return f"{at.astype('datetime64[us]')}Z"
    if isinstance(at, date):  # and datetime
        return at.isoformat()
    return f"{at.strip()}-01" if _MONTH.fullmatch(at.strip()) else at


def look_back(
    panel: Panel, lags: LagConfig, origins: Int64[np.ndarray, " B"]
) -> tuple[Panel, Int64[np.ndarray, " B"]]:
    """The part of a panel that forecasts from some origins may use, and the origins as its steps.

    Values end at the last origin, covariates at its horizon. The cost of one origin then depends
    on its history, not on the length of the panel. Steps before the panel's beginning are missing.
    """
    starts = origins
    if panel.clock.hours:  # from some origins before these, lags reach across closed weeks
        starts = np.unique(origins[:, None] - np.arange(lags.horizon))
    needed = panel.clock.lag_steps(lags, panel.instants(starts)).max(axis=1)
    # Seasons shorter than the horizon reach further back, and so may changes of the clock.
    spare = lags.horizon + DAY_MINUTES // panel.clock.step_minutes
    first, end = int((starts - needed).min()) - spare, int(origins.max()) + 1
    earlier = max(-first, 0)
    part = panel.steps(max(first, 0), end, end + lags.horizon)
    return part.with_earlier(earlier), origins - first


def refuse_missing(panel: Panel, lags: LagConfig, origin: int) -> None:
    """Refuse an origin with too many missing values in its history; the error names the steps."""
    steps = history_steps(panel, lags, np.array([origin]))[0]
    if not is_incomplete(panel, steps[None], np.array([origin]))[0]:
        return
    alive = panel.alive(0, len(panel.values))
    missing = (np.isnan(panel.values) & alive).sum(axis=1) / np.maximum(alive.sum(axis=1), 1)
    share = float(missing[steps].mean())
    gaps = np.unique(steps[missing[steps] > 0])
    names = name_some((f"{panel.times[s]}Z ({100 * missing[s]:.0f} %)" for s in gaps[::-1]), 12)
    outage = describe_outage(panel, origin)
    raise DataError(
        f"history incomplete: {100 * share:.0f} % of the history and "
        f"{100 * missing[origin]:.0f} % of the origin are missing "
        f"(at most {100 * MAX_FILLED:.0f} % each): {count_of(len(gaps), 'step')}: {names}"
        + (f"; {outage}" if outage else "")
        + "; use a later origin, or add these values"
    )


def label_missing(
    panel: Panel, all_lags: Sequence[LagConfig], origin: int, *, allowed: bool
) -> list[str]:
    """The label of a forecast whose history has too many missing values: how many are filled.

    Args:
        panel: observed values.
        all_lags: the lags by which windows are cut, and those that the model sees.
        origin: the last observed step.
        allowed: whether such an origin is labelled; otherwise it is refused.
    """
    try:
        for lags in all_lags:
            refuse_missing(panel, lags, origin)
    except DataError:
        if not allowed:
            raise
        steps = history_steps(panel, all_lags[0], np.array([origin]))
        missing = np.isnan(panel.values) & panel.alive(0, len(panel.values))
        return [f"{count_of(int(missing[steps].sum()), 'missing value')} filled"]
    return []


def fit_climatology(panel: Panel, train: np.ndarray) -> Float32[np.ndarray, "288 P"]:
    """The training mean of each covariate by month and hour of the local day."""
    values = panel.covariates.values[: len(panel.values)][train]
    bins = _month_hours(panel, np.flatnonzero(train))
    mean = np.nan_to_num(np.nanmean(values, axis=0)) if len(values) else np.zeros(values.shape[1])
    means = np.tile(mean.astype(np.float32), (MONTH_HOURS, 1))
    for month_hour in np.unique(bins):
        rows = values[bins == month_hour]
        observed = np.isfinite(rows)
        mean = np.where(observed, rows, 0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
        means[month_hour] = np.where(observed.any(axis=0), mean, means[month_hour])
    return means


def look_ahead(panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int) -> CovariatesAhead:
    """The covariates and local covariates of the steps after each origin; NaN: unknown."""
    return known_covariates(panel, origins, origins[:, None] + np.arange(1, horizon + 1))


def known_covariates(
    panel: Panel, origins: Int64[np.ndarray, " B"], ahead: Int64[np.ndarray, "B K"]
) -> CovariatesAhead:
    """The covariates and local covariates of steps as each origin knows them; NaN: unknown.

    Past-only ones are those of the origin (`hold_past_only`). A location that is not open needs
    none: in place of missing ones it has the mean of the others.

    Args:
        panel: whose covariates may have vintages.
        origins: of which each knows what was known when its step ended.
        ahead: steps after each origin.
    """
    end = len(panel.covariates.values)
    inside = np.minimum(ahead, end - 1)
    covariates = panel.covariates.ahead(np.broadcast_to(origins[:, None], ahead.shape), ahead)
    local = panel.local_covariates.values.transpose(1, 0, 2)[inside]  # [B, K, Q, N]
    local = np.where((ahead < end)[..., None, None], local, np.float32(np.nan))
    if panel.locations.can_close and local.size:
        first = int(ahead.min())
        alive = panel.alive(first, int(ahead.max()) + 1)[ahead - first]
        finite = np.isfinite(local)
        mean = np.where(finite, local, 0).sum(axis=-1) / np.maximum(finite.sum(axis=-1), 1)
        absent = np.isnan(local) & ~alive[:, :, None] & finite.any(axis=-1, keepdims=True)
        local = np.where(absent, mean[..., None].astype(np.float32), local)
    return hold_past_only(panel, origins, (covariates, local))


def hold_past_only(
    panel: Panel, origins: Int64[np.ndarray, " B"], ahead: CovariatesAhead
) -> CovariatesAhead:
    """The covariates ahead, with past-only ones as they are at each origin of a panel."""
    covariates, local = ahead
    for column in panel.covariates.past_columns:
        covariates[:, :, column] = panel.covariates.values[origins, column][:, None]
    for layer in panel.local_covariates.past_layers:
        local[:, :, layer] = panel.local_covariates.values[layer, origins][:, None]
    return covariates, local


def missing_ahead(
    panel: Panel, origins: Int64[np.ndarray, " B"], horizon: int
) -> Bool[np.ndarray, "B K n"]:
    """Which covariates, shared and then local, are unknown ahead though they are to be known."""
    covariates, local = look_ahead(panel, origins, horizon)
    missing = np.concatenate([np.isnan(covariates), np.isnan(local).any(axis=3)], axis=2)
    names = (*panel.covariates.names, *panel.local_covariates.names)
    missing &= ~np.isin(names, panel.past_only)
    if panel.clock.hours:  # where all places are closed, nothing is needed
        steps = origins[:, None] + np.arange(1, horizon + 1)
        is_open = panel.clock.is_open(panel.instants(steps.reshape(-1))).reshape(steps.shape)
        missing &= is_open[..., None]
    return np.asarray(missing)


def fill_closed_gaps(
    panel: Panel, fill: Fill, origins: Int64[np.ndarray, " B"], ahead: CovariatesAhead
) -> CovariatesAhead:
    """The covariates ahead, missing ones usual where all places are closed, as in training."""
    if not panel.clock.hours:
        return ahead
    covariates, local = ahead
    steps = origins[:, None] + np.arange(1, covariates.shape[1] + 1)
    times = panel.instants(steps.reshape(-1))
    closed = ~panel.clock.is_open(times).reshape(steps.shape)
    slots = panel.clock.slot_of_season(times).reshape(steps.shape)
    usual_local = np.moveaxis(fill.local_covariates[:, slots], 0, 2)  # [B, K, Q, N]
    return (
        np.where(closed[..., None] & np.isnan(covariates), fill.covariates[slots], covariates),
        np.where(closed[..., None, None] & np.isnan(local), usual_local, local),
    )


def choose_weather(panel: Panel, origin: int, horizon: int) -> tuple[Weather, str | None]:
    """The source of covariates ahead of an origin, and why its forecast is degraded."""
    if missing_ahead(panel, np.array([origin]), horizon).any():
        return "persist", PERSISTED
    return "observed", None


def refuse_unknown_future(panel: Panel, origin: int, horizon: int) -> None:
    """Refuse to forecast without covariates ahead; the error names the steps."""
    names = np.array([*panel.covariates.names, *panel.local_covariates.names])
    lacking = missing_ahead(panel, np.array([origin]), horizon)[0]
    if not lacking.any():
        return
    steps = panel.clock.axis(panel.times[origin], horizon + 1)[1:][lacking.any(axis=1)]
    raise DataError(
        f"covariates ahead are missing: {name_some(names[lacking.any(axis=0)])} at "
        f"{name_some(f'{t}Z' for t in steps)}; add them to the panel, or take an earlier step"
    )


def with_weather(
    inputs: ForecastInputs, weather: Weather, climatology: Float32[np.ndarray, "288 P"]
) -> ForecastInputs:
    """The inputs with covariates ahead that need no knowledge of the future, or as observed.

    Local and past-only covariates keep their last values.
    """
    if weather == "observed":
        return inputs
    panel, origins = inputs.panel, inputs.origins
    B, K = inputs.covariates.shape[:2]
    if weather == "persist":
        covariates = np.repeat(panel.covariates.values[origins][:, None, :], K, axis=1)
    elif weather == "climatology":
        ahead = origins[:, None] + np.arange(1, K + 1)
        covariates = climatology[_month_hours(panel, ahead.reshape(-1)).reshape(B, K)]
    elif weather == "none":
        covariates = np.broadcast_to(climatology.mean(axis=0), inputs.covariates.shape).copy()
    else:
        raise ConfigError(
            f"weather = {weather!r}; observed, persist, climatology or none is needed"
        )
    local = panel.local_covariates.values.transpose(1, 0, 2)[origins][:, None]
    local = np.broadcast_to(local, inputs.local_covariates.shape).copy()
    covariates, local = hold_past_only(panel, origins, (covariates, local))
    return replace(inputs, covariates=covariates, local_covariates=local)


def with_changes(inputs: ForecastInputs, changes: Changes) -> ForecastInputs:
    """The inputs with other covariates ahead, the same at every origin and location."""
    covariates, local = inputs.covariates.copy(), inputs.local_covariates.copy()
    names, local_names = inputs.panel.covariates.names, inputs.panel.local_covariates.names
    unchangeable = [name for name in changes if name in inputs.panel.past_only]
    if unchangeable:
        raise ConfigError(f"what if: {name_some(unchangeable)}: {CANNOT_CHANGE}")
    for name, values in changes.items():
        changed = ~np.isnan(values)
        if name in names:
            covariates[:, changed, names.index(name)] = values[changed]
        elif name in local_names:
            local[:, changed, local_names.index(name)] = values[changed][:, None]
    holiday = None if HOLIDAY in (*names, *local_names) else changes.get(HOLIDAY)
    return replace(inputs, covariates=covariates, local_covariates=local, holiday=holiday)


def warn_extreme_history(run: Run, panel: Panel, origin: int) -> None:
    """Warn of recent values far outside the training range."""
    least, most = run.arrays["shared.least"], run.arrays["shared.most"]
    recent = panel.values[max(origin - run.recipe.lags.recent + 1, 0) : origin + 1]
    smallest = 1.0 if run.about["kind"] == "count" else 0.0  # a single count is not extreme
    margin = np.maximum(most - least, smallest)
    far = ((recent > most + margin) | (recent < least - margin)).any(axis=0)
    if far.any():
        ids = name_some(panel.locations.ids[n] for n in np.flatnonzero(far))
        count = count_of(int(far.sum()), "location")
        log.warning("outside training range: recent values of %s (%s)", count, ids)


def _month_hours(panel: Panel, steps: Int64[np.ndarray, " T"]) -> Int64[np.ndarray, " T"]:
    local = panel.clock.local(panel.instants(steps))
    month = local.astype("datetime64[M]").astype(np.int64) % 12
    hour = (local - local.astype("datetime64[D]")).astype(np.int64) // 3600
    return np.asarray(month * 24 + hour, dtype=np.int64)
