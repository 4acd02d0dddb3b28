"""Conversion of times to a regular axis in UTC.

Times have a UTC offset or are local. Local times that occur twice (end of summer time) or not at
all (start) are treated by the rules of the recipe, and counted.

Steps of months are taken from any day of their month: its first, its last, or a text such as
`2022-12`. Where all days are the last of their month, they end a step, otherwise they begin one.
"""

import logging
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.clock.clock import Clock
from forecaster.clock.zone import Resolved, Times, to_local, to_utc
from forecaster.config import MONTH_MINUTES, PanelConfig
from forecaster.errors import DataError, Faults, count_of, name_some, setting

VALUES = "y"  # the layer of the forecast values; all others are covariates
GAPS = "gaps"  # among the counts: first time and length of each
FOUND_COVERAGE, EMPTY_DAYS = "covers_found", "days_without_events"  # of trips that do not say it
MAX_FUTURE = np.timedelta64(366, "D")  # covariates further ahead are refused

DAY_MINUTES, YEAR_MONTHS = 24 * 60, 12
_USUAL = 0.25  # of the times are one step after another, or they are those of events
_DAY = np.timedelta64(1, "D")
log = logging.getLogger(__name__)

Layers = dict[str, np.ndarray]  # each Float32[U N]; NaN = missing


@dataclass(frozen=True)
class SeriesTable:
    """The parsed rows of a table: one row per time, one column per location (or covariate)."""

    seconds: Int64[np.ndarray, " U"]  # since 1970; unique and sorted
    naive: bool  # local time; False: UTC
    ids: tuple[str, ...]
    layers: Layers
    counts: dict[str, Any] = field(default_factory=dict)  # of rows treated specially
    absent: Bool[np.ndarray, " U"] | None = None  # times added without a row; None: none


@dataclass(frozen=True)
class Step:
    """The length of the steps of a table."""

    minutes: int
    months: int = 0  # 0: `minutes` is exact

    def __str__(self) -> str:
        return Clock("UTC", self.minutes, step_months=self.months).step_text

    def settings(self) -> dict[str, int]:
        """The settings of a panel with such steps."""
        return {"step_months": self.months} if self.months else {"step_minutes": self.minutes}


def guess_step(rows: SeriesTable, name: str) -> Step:
    """Return months, quarters or years, or else the most frequent difference of times.

    Args:
        rows: at least two times.
        name: of the table, for messages.
    """
    if not len(rows.seconds[1:]):
        raise DataError(f"{name}: {count_of(len(rows.seconds), 'time')}; at least two are needed")
    months = _guess_months(rows.seconds.astype("datetime64[s]"))
    if months:
        return Step(months * MONTH_MINUTES, months)
    seconds = _most_frequent(np.diff(rows.seconds))
    minutes, remainder = divmod(seconds, 60)
    if remainder or not minutes or (DAY_MINUTES % minutes and minutes % DAY_MINUTES):
        ask = f"aggregate the values first, or give {setting('combine', 'mean')} (or sum)"
        message = f"{name}: most times are {seconds} s apart; steps must divide a day, be whole"
        raise DataError(f"{message} days, or months; {ask}")
    return Step(minutes)


def is_regular(seconds: Int64[np.ndarray, " U"]) -> bool:
    """Whether times are months, or whole steps of an allowed length apart.

    Args:
        seconds: since 1970; unique and sorted.
    """
    if len(seconds) < 2 or _guess_months(seconds.astype("datetime64[s]")):  # noqa: PLR2004
        return True
    gaps = np.diff(seconds)
    usual = _most_frequent(gaps)
    minutes, remainder = divmod(usual, 60)
    if remainder or not minutes or (DAY_MINUTES % minutes and minutes % DAY_MINUTES):
        return False
    if minutes < DAY_MINUTES and (gaps == usual).mean() < _USUAL:
        return False
    return bool((gaps % usual == 0).all())


def step_settings(minutes: int | None, months: int = 0) -> dict[str, int]:
    """Return the settings of a panel for a step given in minutes or months, empty for neither."""
    return ({} if minutes is None else {"step_minutes": minutes}) | (
        {"step_months": months} if months else {}
    )


def with_step(config: PanelConfig, rows: SeriesTable) -> PanelConfig:
    """Return the settings with the step of a table, unless they name one."""
    if {"step_minutes", "step_months"} & config.model_fields_set:
        return config
    try:
        step = guess_step(rows, "table")
    except DataError:
        return config  # a single time, or times that are refused later
    update = {"step_minutes": step.minutes, "step_months": step.months}
    return config.model_copy(update=update)


def _guess_months(times: Shaped[np.ndarray, " U"]) -> int:
    """Return the months from one time to the next, 0 where times are no months.

    Months have one time each, on the same day, or on the last one.
    """
    months = np.diff(times.astype("datetime64[M]").astype(np.int64))
    days = times.astype("datetime64[D]")
    same_day = len(np.unique(days - days.astype("datetime64[M]"))) == 1
    if (months < 1).any() or not (same_day or _are_month_ends(times)):
        return 0
    step = _most_frequent(months)
    fits_a_year = YEAR_MONTHS % step == 0 or step % YEAR_MONTHS == 0
    return step if fits_a_year else int(np.gcd.reduce(months))


def _are_month_ends(local: Shaped[np.ndarray, " U"]) -> bool:
    next_day = local.astype("datetime64[D]") + _DAY
    return len(local) > 0 and bool((next_day == next_day.astype("datetime64[M]")).all())


def _most_frequent(gaps: Int64[np.ndarray, " K"]) -> int:
    sizes, counts = np.unique(gaps, return_counts=True)
    return int(sizes[np.argmax(counts)])


def clock_of(config: PanelConfig) -> Clock:
    """Return the clock of a panel, without holidays."""
    return Clock(config.timezone, config.step_minutes, step_months=config.step_months)


def place_on_axis(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Return the rows on a regular axis in UTC; gaps are refused or completed, by the recipe."""
    placed = complete_axis(rows, config)
    return settle_gaps(placed, np.ones(len(placed.seconds), dtype=bool), config)


def complete_axis(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Return the rows on a regular axis in UTC, with times without a row added."""
    clock = clock_of(config)
    if rows.naive and not config.step_months:
        _refuse_changing_clock(rows, config)
    placed = _complete(to_instants(rows, config), clock)
    check_axis(placed.seconds, clock, "time axis")
    return placed


def settle_gaps(
    placed: SeriesTable, is_open: Bool[np.ndarray, " U"], config: PanelConfig
) -> SeriesTable:
    """Refuse or count, by the recipe, the times without a row at which any place is open.

    Args:
        placed: from `complete_axis`.
        is_open: at which of its times any place is open; others need no row.
        config: whose `gaps` is the rule.
    """
    absent = is_open & (False if placed.absent is None else placed.absent)
    if config.gaps == "refuse":
        check_axis(placed.seconds[~absent], clock_of(config), "time axis")
        return placed
    gaps = count_gaps(placed.seconds.astype("datetime64[s]"), absent)
    return replace(placed, counts={**placed.counts, **gaps})


def count_gaps(times: Times, absent: Bool[np.ndarray, " U"]) -> dict[str, Any]:
    """Return the number of steps without a row, and the first time and length of each gap."""
    starts = np.flatnonzero(np.diff(absent.astype(np.int8), prepend=0) == 1)
    ends = np.flatnonzero(np.diff(absent.astype(np.int8), append=0) == -1)
    lengths = (ends - starts + 1).tolist()
    gaps = [[f"{time}Z", length] for time, length in zip(times[starts], lengths, strict=True)]
    return {"completed_steps": int(absent.sum()), GAPS: gaps}


def to_instants(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Return the rows with their times in UTC; those of months at the beginning of their step."""
    if not config.step_months:
        return resolve_local_times(rows, config)
    times = rows.seconds.astype("datetime64[s]")
    local = times if rows.naive else to_local(config.timezone, times)
    months = local.astype("datetime64[M]")
    if _are_month_ends(local):
        months = months - (config.step_months - 1)
    begin = to_utc(config.timezone, months.astype("datetime64[s]")).first
    return replace(rows, seconds=begin.astype(np.int64), naive=False)


def days_as_utc(rows: SeriesTable, config: PanelConfig) -> PanelConfig:
    """Return the settings, with UTC for days without an offset that the clock makes irregular."""
    if not rows.naive or config.step_months or config.step_minutes % DAY_MINUTES:
        return config
    if not clock_changes(rows, config):
        return config
    log.warning("days without a time: read as UTC, not as %s", config.timezone)
    return config.model_copy(update={"timezone": "UTC"})


def _refuse_changing_clock(rows: SeriesTable, config: PanelConfig) -> None:
    """Refuse steps that are regular in local time but not in UTC."""
    if clock_changes(rows, config):
        step = Clock("UTC", config.step_minutes).step_text
        problem = f"time axis: the clock in {config.timezone} changes, and steps of {step}"
        problem += " without an offset cannot follow it"
        raise DataError(f"{problem}; give timezone UTC to keep the times unchanged")


def clock_changes(rows: SeriesTable, config: PanelConfig) -> bool:
    """Whether steps are regular in local time but not in UTC."""
    resolved = to_utc(config.timezone, rows.seconds.astype("datetime64[s]"))
    instants = resolved.first[~resolved.nonexistent].astype(np.int64)
    shown, passed = (np.unique(s % (config.step_minutes * 60)) for s in (rows.seconds, instants))
    return len(shown) == 1 < len(passed)


def _complete(rows: SeriesTable, clock: Clock) -> SeriesTable:
    """Return the rows with a null row for every missing step."""
    times = rows.seconds.astype("datetime64[s]")
    if not len(times):
        return rows
    index = clock.step_index(times[0], times)
    regular = np.array_equal(clock.instants(times[0], index), times)
    wild = np.diff(times) > max(MAX_FUTURE, 2 * clock.step)  # wrong years such as 9999
    if not regular or (np.diff(index) <= 0).any() or wild.any():
        return rows  # check_axis reports the fault
    axis = clock.axis(times[0], int(index[-1]) + 1)
    if len(axis) == len(times):
        return rows
    layers = {}
    for name, layer in rows.layers.items():
        layers[name] = np.full((len(axis), layer.shape[1]), np.nan, dtype=np.float32)
        layers[name][index] = layer
    absent = np.ones(len(axis), dtype=bool)
    absent[index] = False
    return SeriesTable(axis.astype(np.int64), False, rows.ids, layers, rows.counts, absent)


def align_to_axis(
    rows: SeriesTable, config: PanelConfig, start: np.datetime64, steps: int
) -> Layers:
    """Return covariates on an axis that begins at `start`, `steps` long or as far as they reach.

    Rows before the axis are left out; steps without a row are missing.
    """
    placed, clock = to_instants(rows, config), clock_of(config)
    index = clock.step_index(start, placed.seconds.astype("datetime64[s]"))
    faults = Faults("covariates")
    off = placed.seconds[clock.instants(start, index).astype(np.int64) != placed.seconds]
    if len(off):
        problem = f"{count_of(len(off), 'time')} off the panel's steps of {clock.step_text}"
        faults.add(f"{problem}: {_stamps(off)}; round them to the step")
    far = placed.seconds[index >= steps + MAX_FUTURE // clock.step]
    if len(far):
        limit = f"{MAX_FUTURE.astype(int)} days past the last value"
        faults.add(f"{count_of(len(far), 'time')} over {limit}: {_stamps(far)}; check the years")
    faults.raise_any(DataError)
    inside = index >= 0
    length = max(steps, int(index.max(initial=-1)) + 1)
    laid = {}
    for name, layer in placed.layers.items():
        laid[name] = np.full((length, layer.shape[1]), np.nan, dtype=np.float32)
        laid[name][index[inside]] = layer[inside]
    return laid


def check_axis(seconds: Int64[np.ndarray, " M"], clock: Clock, source: str) -> None:
    """Refuse an axis that is empty, unsorted, doubled, off its step or has gaps."""
    if not len(seconds):
        raise DataError(f"{source}: no rows; at least one time is needed")
    faults, times = Faults(source), seconds.astype("datetime64[s]")
    off, gaps = _find_off(times, clock), np.diff(seconds)
    index = clock.step_index(times[0], times)
    if len(off):
        problem = f"{count_of(len(off), 'time')} off the step of {clock.step_text}"
        faults.add(f"{problem}: {_stamps(seconds[off])}; give the right step or round the times")
    elif (np.diff(index) > 1).any():
        jumps = np.diff(index)
        missing = count_of(int((jumps[jumps > 0] - 1).sum()), "step")
        remedy = 'give rows without a value for steps that were not observed, or gaps="null"'
        faults.add(f"missing {missing}: {_stamps(_missing(times[0], index, clock))}; {remedy}")
    if (gaps <= 0).any() and clock.step_months:
        at = seconds[np.flatnonzero(gaps <= 0) + 1]
        problem = f"{count_of(len(at), 'further time')} in one step of {clock.step_text}"
        faults.add(f"{problem}: {_stamps(at)}; add the values up by step, or give the right step")
    elif (gaps <= 0).any():
        at = np.flatnonzero(gaps <= 0) + 1
        faults.add(f"{count_of(len(at), 'time')} doubled or unsorted: {_stamps(seconds[at])}")
    faults.raise_any(DataError)


def _find_off(times: Shaped[np.ndarray, " M"], clock: Clock) -> Int64[np.ndarray, " K"]:
    """Return the times that are not whole steps apart from most others."""
    if clock.step_months:
        whole = clock.local(times).astype("datetime64[M]").astype(np.int64) % clock.step_months
    else:
        whole = times.astype(np.int64) % (clock.step_minutes * 60)
    return np.flatnonzero(whole != _most_frequent(whole))


def resolve_local_times(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Convert local times to UTC; times that occur twice or never follow the recipe's rule."""
    if not rows.naive:
        return rows
    resolved = to_utc(config.timezone, rows.seconds.astype("datetime64[s]"))
    counts = _count_odd(rows, resolved, config)
    first, second = (t.astype(np.int64) for t in (resolved.first, resolved.second))
    twice, once = resolved.ambiguous, ~(resolved.ambiguous | resolved.nonexistent)
    instants = np.concatenate([first[once], first[twice], second[twice]])
    order = np.argsort(instants, kind="stable")
    layers = {}
    for name, layer in rows.layers.items():
        early, late = _share(layer[twice], config) if name == VALUES else (layer[twice],) * 2
        layers[name] = np.concatenate([layer[once], early, late])[order]
    if config.nonexistent == "next" and VALUES in layers:
        never = resolved.nonexistent
        into = np.searchsorted(instants[order], first[never])
        moved = np.nan_to_num(rows.layers[VALUES][never])
        inside = np.isin(first[never], instants)  # false at the end, or before a gap
        if moved[~inside].any():
            stamps = _stamps(rows.seconds[never][~inside], zone="")
            raise DataError(
                f"time axis: no row past {stamps} to add its values to; add such a row"
            )
        np.add.at(layers[VALUES], into[inside], moved[inside])
    return SeriesTable(instants[order], False, rows.ids, layers, counts)


def _count_odd(rows: SeriesTable, resolved: Resolved, config: PanelConfig) -> dict[str, int]:
    """Count values at local times that occur twice or not at all, and refuse the latter."""
    values = rows.layers.get(VALUES)
    if values is None:
        return {}
    holds = ~np.isnan(values)
    never = resolved.nonexistent[:, None] & holds & (values != 0)  # zeros are dropped
    counts = {
        "ambiguous_local_time": int(holds[resolved.ambiguous].sum()),
        "nonexistent_local_time": int(never.sum()),
    }
    if counts["nonexistent_local_time"] and config.nonexistent == "refuse":
        count = count_of(counts["nonexistent_local_time"], "value")
        stamps = _stamps(rows.seconds[never.any(axis=1)], zone="")
        message = f"time axis: {count} at local times that do not occur in {config.timezone}"
        raise DataError(f'{message}: {stamps}; give offsets, or nonexistent="null" or "next"')
    return counts


def _share(
    doubled: Float32[np.ndarray, "K N"], config: PanelConfig
) -> tuple[Float32[np.ndarray, "K N"], Float32[np.ndarray, "K N"]]:
    """Return the values of the two hours that share a local time: half each, or missing."""
    if config.ambiguous == "split":
        is_integer = doubled % 1 == 0
        early = np.where(
            is_integer, np.ceil(doubled / 2), doubled / 2
        )  # odd counts: the first has one more
        return early, doubled - early
    unknown = np.full_like(doubled, np.nan)
    return unknown, unknown


def _missing(
    start: np.datetime64, index: Int64[np.ndarray, " M"], clock: Clock
) -> Int64[np.ndarray, " K"]:
    """Return the first few missing steps of an axis."""
    gaps = np.flatnonzero(np.diff(index) > 1)[:6]
    ends = np.minimum(index[gaps + 1], index[gaps] + 7)  # limits the size of long gaps
    each = [np.arange(a + 1, b) for a, b in zip(index[gaps], ends, strict=True)]
    return clock.instants(start, np.concatenate(each)).astype(np.int64)


def _stamps(seconds: Shaped[np.ndarray, " K"], zone: str = "Z") -> str:
    return name_some(f"{time}{zone}" for time in seconds[:6].astype("datetime64[s]"))
