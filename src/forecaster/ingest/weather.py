"""A station's reports → the seven weather covariates of the paper, on the axis of a panel.

**Hours.** Each report belongs to its hour. Of several in one hour, temperature, wind and
visibility are averaged; precipitation is the largest, since airports report the amount since the
last full hour; rain, snow and fog are set if any report has them.

**Gaps** of up to `max_gap` hours between the panel's first step and its last are filled and
counted: temperature, wind, precipitation and visibility on a straight line between the hours
around them, rain, snow and fog as in the hour before; at either end of the panel with the nearest
hour. Longer ones are refused with their list. Nothing is filled after the panel's last value:
the future weather ends at the first gap.

**Steps.** Panels of longer steps get the mean over the hours that begin in a step (precipitation:
the sum; rain, snow, fog: any); those of shorter steps get the weather of the hour in which a step
begins, precipitation in mm of that whole hour.

Differs: the paper took the seven fields from Weather Underground and does not say how.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.ingest.metar import FLAGS
from forecaster.ingest.station import (
    QUANTITIES,
    FlagsFrom,
    Outlier,
    StationReports,
    WeatherMapping,
    read_reports,
)
from forecaster.panel.axis import MAX_FUTURE
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.reading.load import Table

WEATHER_NAMES = (*(quantity.name for quantity in QUANTITIES.values()), *FLAGS)
MAX_GAP = 3  # hours
_HOUR = 3600  # seconds
_MEANS, _AMOUNT = [0, 1, 3], 2  # columns of WEATHER_NAMES

Span = tuple[str, int]  # the first hour in UTC, and the number of hours


@dataclass(frozen=True)
class WeatherReport:
    """Counts of a station's rows: rows_in = used + outside_span + ambiguous."""

    rows_in: int
    used: int
    doubled: int  # used rows in the same hour as an earlier row
    outside_span: int  # before the panel, or after the first gap past its last value
    ambiguous: int  # at local times that occur twice
    outliers: tuple[Outlier, ...]  # impossible values of the whole table; made missing
    filled_spans: Mapping[str, tuple[Span, ...]]  # filled hours by covariate
    filled_hours: int  # hours in which at least one covariate was filled
    future_steps: int  # known after the panel's last value
    flags_from: FlagsFrom  # where rain, snow and fog come from

    @property
    def filled(self) -> dict[str, int]:
        """The number of filled hours of each covariate."""
        return {n: sum(hours for _, hours in spans) for n, spans in self.filled_spans.items()}

    def counts(self) -> dict[str, Any]:
        """Return the counts and the filled spans as the panel's manifest records them."""
        mask = {name: [list(span) for span in s] for name, s in self.filled_spans.items() if s}
        return {
            "weather_rows_in": self.rows_in,
            "weather_used": self.used,
            "weather_doubled": self.doubled,
            "weather_outside_span": self.outside_span,
            "weather_ambiguous_local_time": self.ambiguous,
            "weather_out_of_range": len(self.outliers),
            "weather_filled": self.filled_hours,
            "weather_filled_spans": mask,
        }


@dataclass(frozen=True)
class _Grid:
    """The hours of weather for a panel's steps, past and future."""

    begin: int  # of the first hour, UTC seconds
    first: Int64[np.ndarray, " S"]  # the first hour of each step
    per_step: Int64[np.ndarray, " S"]  # number of hours of each step; short steps share one

    def end(self, steps: int) -> int:
        """Return the number of hours that the first `steps` steps need."""
        return int(self.first[steps - 1] + self.per_step[steps - 1])


def add_weather(
    panel: Panel,
    source: Table,
    mapping: WeatherMapping,
    *,
    timezone: str | None = None,
    max_gap: int = MAX_GAP,
) -> tuple[Panel, WeatherReport]:
    """Return the panel with the seven weather covariates of a station's table.

    Args:
        panel: other covariates are kept; existing weather is replaced.
        source: a DataFrame, an Arrow table, or the path of a CSV or Parquet file.
        mapping: the columns and their units.
        timezone: of the station, needed if its times have no offset: an IANA name, or a fixed
            offset such as `-05:00` for standard time all year.
        max_gap: longest gap that is filled, in hours.
    """
    reports, grid, M = read_reports(source, mapping, timezone), _lay_grid(panel), len(panel.values)
    index = (reports.seconds - grid.begin) // _HOUR
    hours = average_hours(reports.values, index, grid.end(len(grid.first)))
    past = slice(grid.end(M))
    holes = np.isnan(hours[past])
    _refuse_long(holes, max_gap, grid.begin, reports)
    hours[past] = fill_holes(hours[past])
    steps = to_steps(hours, grid.first, grid.per_step)
    future = _count_known(steps[M:])
    used = index[(index >= 0) & (index < grid.end(M + future))]
    report = WeatherReport(
        rows_in=len(index) + reports.ambiguous,
        used=len(used),
        doubled=len(used) - len(np.unique(used)),
        outside_span=len(index) - len(used),
        ambiguous=reports.ambiguous,
        outliers=reports.outliers,
        filled_spans={
            n: find_spans(h, grid.begin) for n, h in zip(WEATHER_NAMES, holes.T, strict=True)
        },
        filled_hours=int(holes.any(axis=1).sum()),
        future_steps=future,
        flags_from=reports.flags_from,
    )
    return _join(panel, steps[: M + future].astype(np.float32), report.counts()), report


def average_hours(
    values: Float64[np.ndarray, "R 7"], index: Int64[np.ndarray, " R"], hours: int
) -> Float64[np.ndarray, "H 7"]:
    """Return the weather of each hour from its reports; NaN where there are none."""
    inside = (index >= 0) & (index < hours)
    values, index = values[inside], index[inside]
    averaged = np.full((hours, len(WEATHER_NAMES)), np.nan)
    np.fmax.at(averaged, index, values)  # fmax ignores NaN
    for column in _MEANS:
        observed = ~np.isnan(values[:, column])
        sums = np.bincount(index[observed], values[observed, column], minlength=hours)
        reports = np.bincount(index[observed], minlength=hours)
        np.divide(sums, reports, out=averaged[:, column], where=reports > 0)
    return averaged


def fill_holes(hours: Float64[np.ndarray, "H 7"]) -> Float64[np.ndarray, "H 7"]:
    """Fill gaps: measured fields linearly, flags from the hour before."""
    filled, at = hours.copy(), np.arange(len(hours))
    for column, name in enumerate(WEATHER_NAMES):
        observed = np.flatnonzero(~np.isnan(hours[:, column]))
        if name in FLAGS:
            last = np.searchsorted(observed, at, side="right") - 1
            filled[:, column] = hours[observed[np.maximum(last, 0)], column]
        else:
            filled[:, column] = np.interp(at, observed, hours[observed, column])
    return filled


def to_steps(
    hours: Float64[np.ndarray, "H 7"],
    first: Int64[np.ndarray, " S"],
    per_step: Int64[np.ndarray, " S"],
) -> Float64[np.ndarray, "S 7"]:
    """Return the weather of each step; NaN if any of its hours is missing."""
    # Where several steps share an hour, `reduceat` takes that hour for each.
    steps = np.maximum.reduceat(hours, first)
    sums = np.add.reduceat(hours, first)
    steps[:, _MEANS] = sums[:, _MEANS] / per_step[:, None]
    steps[:, _AMOUNT] = sums[:, _AMOUNT]
    return steps


def find_spans(mask: Bool[np.ndarray, " H"], begin: int) -> tuple[Span, ...]:
    """Return the runs of set hours; hour 0 begins at `begin`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    first, end = edges[::2], edges[1::2]
    return tuple((_stamp(begin + f * _HOUR), int(e - f)) for f, e in zip(first, end, strict=True))


def _lay_grid(panel: Panel) -> _Grid:
    start = int(panel.start.astype(np.int64))
    step = panel.clock.step_minutes * 60
    steps = np.arange(len(panel.values) + int(MAX_FUTURE // panel.clock.step) + 1)
    if step < _HOUR:
        begin = start - start % _HOUR
        shared = (start - begin + steps[:-1] * step) // _HOUR
        return _Grid(begin, shared, np.ones_like(shared))
    # The first hour that begins in a step, e.g. of 90 minutes.
    first = -(-(panel.instants(steps).astype(np.int64) - start) // _HOUR)
    return _Grid(start, first[:-1], np.diff(first))


def _refuse_long(
    holes: Bool[np.ndarray, "H 7"], max_gap: int, begin: int, reports: StationReports
) -> None:
    """Refuse gaps that are too long to fill; equal gaps of several covariates are listed once."""
    lacking: dict[tuple[Span, ...], list[str]] = {}
    for name, mask in zip(WEATHER_NAMES, holes.T, strict=True):
        spans = tuple(s for s in find_spans(mask, begin) if s[1] > max_gap or mask.all())
        if spans:
            lacking.setdefault(spans, []).append(name)
    faults = Faults(f"{reports.source} ({_reach(reports)})")
    for spans, names in lacking.items():
        total = count_of(sum(hours for _, hours in spans), "hour")
        gaps = f"{count_of(len(spans), 'gap')} over {max_gap} h, {total} in total"
        first = name_some(f"{time} ({hours} h)" for time, hours in spans)
        remedy = "give a table that covers the panel, check its zone, or raise max_gap"
        if names[0] == WEATHER_NAMES[_AMOUNT]:
            remedy = (
                "if a blank means dry, write 0; else give a more complete table, or raise max_gap"
            )
        faults.add(f"{', '.join(names)}: {gaps}: {first}; {remedy}")
    faults.raise_any(DataError)


def _reach(reports: StationReports) -> str:
    if not len(reports.seconds):
        return "no report at an unambiguous time"
    return f"{_stamp(reports.seconds.min())} to {_stamp(reports.seconds.max())}"


def _count_known(steps: Float64[np.ndarray, "S 7"]) -> int:
    """Return the number of leading steps at which every covariate is known."""
    complete = ~np.isnan(steps).any(axis=1)
    return int(np.argmin(np.append(complete, False)))


def _join(panel: Panel, weather: Float32[np.ndarray, "T 7"], counts: dict[str, Any]) -> Panel:
    """Return the panel with the weather added, all covariates padded to the longest."""
    names, local = panel.covariates.names, panel.local_covariates
    other_columns = [column for column, name in enumerate(names) if name not in WEATHER_NAMES]
    length = len(panel.covariates.values) if other_columns or local.names else len(panel.values)
    S = max(length, len(weather))
    other_values = _lengthen(panel.covariates.values[:length, other_columns], S, axis=0)
    vintages = panel.covariates.vintages
    return replace(
        panel,
        covariates=Covariates(
            names=(*(names[column] for column in other_columns), *WEATHER_NAMES),
            values=np.concatenate([other_values, _lengthen(weather, S, axis=0)], axis=1),
            past_only=panel.covariates.past_only,
            vintages=vintages and vintages.select([names[column] for column in other_columns]),
        ),
        local_covariates=replace(local, values=_lengthen(local.values[:, :length], S, axis=1)),
        counts={**panel.counts, **counts},
        digest=None,  # differs from the stored panel
    )


def _lengthen(values: np.ndarray, steps: int, axis: int) -> np.ndarray:
    """Return an array padded with missing values to a number of steps."""
    width = [(0, 0)] * values.ndim
    width[axis] = (0, steps - values.shape[axis])
    return np.pad(values, width, constant_values=np.nan)


def _stamp(seconds: int | np.int64) -> str:
    return f"{np.datetime64(int(seconds), 's')}Z"
