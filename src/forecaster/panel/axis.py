"""Conversion of times to a regular axis in UTC.

Times have a UTC offset or are local. Local times that occur twice (end of summer time) or not at
all (start) are treated by the rules of the recipe, and counted.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from forecaster.clock.zone import Resolved, to_utc
from forecaster.config import PanelConfig
from forecaster.errors import DataError, Faults, count_of, name_some

VALUES = "y"  # the layer of the forecast values; all others are covariates
MAX_FUTURE = np.timedelta64(366, "D")  # covariates further ahead are refused

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


def place_on_axis(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Return the rows on a regular axis in UTC; gaps are refused or completed, by the recipe."""
    placed = complete_axis(rows, config)
    return settle_gaps(placed, np.ones(len(placed.seconds), dtype=bool), config)


def complete_axis(rows: SeriesTable, config: PanelConfig) -> SeriesTable:
    """Return the rows on a regular axis in UTC, with times without a row added."""
    if rows.naive:
        _refuse_changing_clock(rows, config)
    placed = _complete(resolve_local_times(rows, config), config.step_minutes * 60)
    check_axis(placed.seconds, config.step_minutes, "time axis")
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
        check_axis(placed.seconds[~absent], config.step_minutes, "time axis")
        return placed
    starts = np.flatnonzero(np.diff(absent.astype(np.int8), prepend=0) == 1)
    ends = np.flatnonzero(np.diff(absent.astype(np.int8), append=0) == -1)
    stamps = placed.seconds[starts].astype("datetime64[s]")
    lengths = (ends - starts + 1).tolist()
    gaps = [[f"{stamp}Z", length] for stamp, length in zip(stamps, lengths, strict=True)]
    counts = {**placed.counts, "completed_steps": int(absent.sum()), "gaps": gaps}
    return replace(placed, counts=counts)


def _refuse_changing_clock(rows: SeriesTable, config: PanelConfig) -> None:
    """Refuse steps that are regular in local time but not in UTC."""
    resolved = to_utc(config.timezone, rows.seconds.astype("datetime64[s]"))
    instants = resolved.first[~resolved.nonexistent].astype(np.int64)
    shown, passed = (np.unique(s % (config.step_minutes * 60)) for s in (rows.seconds, instants))
    if len(shown) == 1 < len(passed):
        problem = f"time axis: the clock in {config.timezone} changes, and steps of"
        problem += f" {config.step_minutes} min without an offset cannot follow it"
        raise DataError(f"{problem}; give timezone UTC to keep the times unchanged")


def _complete(rows: SeriesTable, step: int) -> SeriesTable:
    """Return the rows with a null row for every missing step."""
    seconds = rows.seconds
    regular = len(seconds) > 0 and bool((np.diff(seconds) % step == 0).all())
    wild = np.diff(seconds).astype("timedelta64[s]") > MAX_FUTURE  # wrong years such as 9999
    if not regular or (np.diff(seconds) <= 0).any() or wild.any():
        return rows  # check_axis reports the fault
    axis = np.arange(seconds[0], seconds[-1] + step, step)
    if len(axis) == len(seconds):
        return rows
    index = (seconds - seconds[0]) // step
    layers = {}
    for name, layer in rows.layers.items():
        layers[name] = np.full((len(axis), layer.shape[1]), np.nan, dtype=np.float32)
        layers[name][index] = layer
    absent = np.ones(len(axis), dtype=bool)
    absent[index] = False
    return SeriesTable(axis, False, rows.ids, layers, rows.counts, absent)


def align_to_axis(
    rows: SeriesTable, config: PanelConfig, start: np.datetime64, steps: int
) -> Layers:
    """Return covariates on an axis that begins at `start`, `steps` long or as far as they reach.

    Rows before the axis are left out; steps without a row are missing.
    """
    placed = resolve_local_times(rows, config)
    step, begin = config.step_minutes * 60, int(start.astype(np.int64))
    index = (placed.seconds - begin) // step
    faults = Faults("covariates")
    off = placed.seconds[(placed.seconds - begin) % step != 0]
    if len(off):
        problem = (
            f"{count_of(len(off), 'time')} off the panel's steps of {config.step_minutes} min"
        )
        faults.add(f"{problem}: {_stamps(off)}; round them to the step")
    far = placed.seconds[index >= steps + int(MAX_FUTURE.astype(np.int64)) * 86400 // step]
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


def check_axis(seconds: Int64[np.ndarray, " M"], step_minutes: int, source: str) -> None:
    """Refuse an axis that is empty, unsorted, doubled, off its step or has gaps."""
    if not len(seconds):
        raise DataError(f"{source}: no rows; at least one time is needed")
    faults, step = Faults(source), step_minutes * 60
    phases, share = np.unique(seconds % step, return_counts=True)
    off = np.flatnonzero(seconds % step != phases[np.argmax(share)])
    gaps = np.diff(seconds)
    if len(off):
        problem = f"{count_of(len(off), 'time')} off the step of {step_minutes} min"
        faults.add(f"{problem}: {_stamps(seconds[off])}; give the right step or round the times")
    elif (gaps > step).any():
        missing = count_of(int((gaps[gaps > 0] // step - 1).sum()), "step")
        remedy = "give rows without a value for steps that were not observed"
        faults.add(f"missing {missing}: {_stamps(_missing(seconds, step))}; {remedy}")
    if (gaps <= 0).any():
        at = np.flatnonzero(gaps <= 0) + 1
        faults.add(f"{count_of(len(at), 'time')} doubled or unsorted: {_stamps(seconds[at])}")
    faults.raise_any(DataError)


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


def _missing(seconds: Int64[np.ndarray, " M"], step: int) -> Int64[np.ndarray, " K"]:
    """Return the first few missing steps of an axis."""
    gaps = np.flatnonzero(np.diff(seconds) > step)[:6]
    ends = np.minimum(seconds[gaps + 1], seconds[gaps] + 7 * step)  # limits the size of long gaps
    each = [np.arange(a + step, b, step) for a, b in zip(seconds[gaps], ends, strict=True)]
    return np.concatenate(each)


def _stamps(seconds: Shaped[np.ndarray, " K"], zone: str = "Z") -> str:
    return name_some(f"{time}{zone}" for time in seconds[:6].astype("datetime64[s]"))
