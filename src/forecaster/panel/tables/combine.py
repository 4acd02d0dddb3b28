"""Several rows of a location in one step: events, or readings at odd times, by step.

Rows that are regular already are left as they are. Rows at nearly regular times are moved to the
nearest step. Rows at other times are added up or averaged over the steps in which they lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int64

from forecaster.choices import Combine, DateOrder
from forecaster.clock.zone import to_local
from forecaster.errors import DataError, Faults, count_of, setting
from forecaster.panel.axis import DAY_MINUTES, VALUES, SeriesTable, Step, is_regular
from forecaster.panel.tables.columns import encode_ids, numbers
from forecaster.panel.tables.readers import sort_ids
from forecaster.reading.layout import Meaning
from forecaster.reading.load import load
from forecaster.reading.times import parse_times

_STEPS = (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440, 10080)
_READING_STEPS = (1, 5, 10, 15, 30, 60)  # minutes, as those above
_NEAR, _MOST_NEAR = 0.2, 0.95  # of a step from its beginning, and of all rows that are so near
_LIKE = 0.1  # of a step that its usual distance may differ
_FILLED = 0.9  # of the steps that have a reading
_EVENTS = 0.5  # of a location and step, on average
_FEW_SHARED = 0.01  # of all rows
_MINUTE = 60


@dataclass(frozen=True)
class Combination:
    """How rows become steps."""

    how: Combine
    step: Step
    nearest: bool = False  # False: rows belong to the step in which they lie


@dataclass(frozen=True, eq=False)
class ParsedRows:
    """Rows before they are laid on steps."""

    ids: Sequence[str]
    codes: Int64[np.ndarray, " rows"]  # of the ids
    seconds: Int64[np.ndarray, " rows"]
    naive: bool
    layers: dict[str, Float64[np.ndarray, " rows"]]
    name: str  # of the table, for messages

    @staticmethod
    def of(table: pa.Table, dates: DateOrder | None) -> "ParsedRows":
        """Return the rows of `unique_id`, `ds` and columns of numbers."""
        table, name = load(table)
        faults = Faults(name)
        codes, ids = encode_ids(table["unique_id"], faults)
        seconds, naive = parse_times(_whole_seconds(table["ds"]), "ds", faults, dates)
        columns = [c for c in table.column_names if c not in ("unique_id", "ds")]
        layers = {c: numbers(table[c], c, faults, digits=np.float64) for c in columns}
        faults.raise_any(DataError)
        return ParsedRows(ids, codes, seconds, naive, layers, name)

    @staticmethod
    def of_wide(table: pa.Table, time: str, dates: DateOrder | None) -> "ParsedRows":
        """Return the rows of a column of times and a column of numbers for each location."""
        table, name = load(table)
        faults = Faults(name)
        seconds, naive = parse_times(_whole_seconds(table[time]), time, faults, dates)
        ids = [c for c in table.column_names if c != time]
        values = [numbers(table[c], c, faults, digits=np.float64) for c in ids]
        faults.raise_any(DataError)
        codes = np.repeat(np.arange(len(ids)), len(seconds))
        layers = {VALUES: np.concatenate(values)}
        return ParsedRows(ids, codes, np.tile(seconds, len(ids)), naive, layers, name)

    def count_shared(self) -> int:
        """Return the number of further rows of a location and time."""
        return len(self.seconds) - _count_distinct(self.codes, self.seconds)

    def are_equally_spaced(self) -> bool:
        """Whether most times are their least distance apart, and all others multiples of it."""
        gaps = np.diff(np.unique(self.seconds))
        if not len(gaps) or gaps.min() < _MINUTE:
            return False
        return bool((gaps % gaps.min() == 0).all() and 2 * (gaps == gaps.min()).sum() > len(gaps))

    def are_regular(self) -> bool:
        """Whether times are whole steps apart, and hardly any row shares its location and time.

        The few that do are no events: they are refused, as a doubled hour of a clock change is.
        """
        few = self.count_shared() <= _FEW_SHARED * len(self.seconds)
        return few and is_regular(np.unique(self.seconds))


def find_combination(
    rows: ParsedRows, meaning: Meaning, how: Combine | None, step: Step | None
) -> Combination | None:
    """Return how rows become steps; None: each is a step of its own.

    Args:
        rows: of the table.
        meaning: of the values, by their name.
        how: what is said of rows in one step; None: as the values suggest.
        step: what is said of the steps; None: as the rows suggest.
    """
    if how is None and rows.are_regular():
        return None
    near = None if step else _find_nearest(rows)
    if near is not None:
        whole = bool((np.nan_to_num(rows.layers[VALUES]) % 1 == 0).all())
        adds = whole and meaning != "intensive"
        return Combination(how or ("sum" if adds else "mean"), Step(near), nearest=True)
    shared = rows.count_shared()
    shared *= shared > _FEW_SHARED * len(rows.seconds)
    if how is None and not shared and rows.are_equally_spaced():
        return None  # of a length that is refused with its own message
    if how is None and (meaning == "unknown" or (shared and meaning != "additive")):
        what = f"{count_of(shared, 'further row')} of a location and time"
        what = what if shared else "the times are irregular"
        either = f"{setting('combine', 'sum')} or {setting('combine', 'mean')}"
        raise DataError(
            f"{rows.name}: {what}; to add up or average the rows of a step give {either}"
        )
    how = how or ("mean" if meaning == "intensive" else "sum")
    step = step or (_find_filled(rows) if how == "mean" else _find_frequent(rows))
    return Combination(how, step)


def _find_nearest(rows: ParsedRows) -> int | None:
    """Return the minutes between rows at nearly regular times; None if they are irregular."""
    order = np.lexsort((rows.seconds, rows.codes))
    gaps = np.diff(rows.seconds[order])[np.diff(rows.codes[order]) == 0]
    gaps = gaps[gaps > 0]
    if not len(gaps):
        return None
    usual = float(np.median(gaps)) / _MINUTE
    for step in _STEPS:
        if abs(usual - step) <= _LIKE * step:
            away = np.abs((rows.seconds / _MINUTE / step + 0.5) % 1 - 0.5)
            rounded = (rows.seconds + step * _MINUTE // 2) // (step * _MINUTE)
            is_each = _count_distinct(rows.codes, rounded) >= _FILLED * len(rounded)
            return step if is_each and (away <= _NEAR).mean() >= _MOST_NEAR else None
    return None


def _count_distinct(codes: Int64[np.ndarray, " rows"], numbers: Int64[np.ndarray, " rows"]) -> int:
    """Return the number of distinct pairs."""
    span = int(numbers.max() - numbers.min()) + 1
    return len(np.unique(codes * span + (numbers - numbers.min())))


def _find_filled(rows: ParsedRows) -> Step:
    """Return the shortest step of which nearly all hold a reading, or else a day."""
    for minutes in _READING_STEPS:
        if _rows_of_steps(rows, minutes)[0] >= _FILLED:
            return Step(minutes)
    return Step(DAY_MINUTES)


def _find_frequent(rows: ParsedRows) -> Step:
    """Return the hour, day or week that is the first with an event at half of the places."""
    are_days = bool((rows.seconds % (DAY_MINUTES * _MINUTE) == 0).all())
    for minutes in (60, DAY_MINUTES):
        is_shorter = are_days and minutes < DAY_MINUTES
        if not is_shorter and _rows_of_steps(rows, minutes)[1] >= _EVENTS:
            return Step(minutes)
    return Step(7 * DAY_MINUTES)


def _rows_of_steps(rows: ParsedRows, minutes: int) -> tuple[float, float]:
    """Return the share of steps with a row, of all locations and steps, and their mean number."""
    number = rows.seconds // (minutes * _MINUTE)
    cells = (int(number.max()) - int(number.min()) + 1) * len(rows.ids)
    return _count_distinct(rows.codes, number) / cells, len(number) / cells


def explain_combination(combination: Combination, rows: int, series: SeriesTable) -> str:
    """Say how rows became steps, and how that is changed."""
    step, how = combination.step, combination.how
    shared = rows - int(np.isfinite(series.layers[VALUES]).sum())
    verb = {"sum": "added up", "mean": "averaged", "count": "counted"}[how]
    if combination.nearest:
        text = f"times rounded to steps of {step}"
        return f"{text}; {count_of(shared, 'further row')} of a step {verb}" if shared else text
    other = setting("combine", "mean" if how == "sum" else "sum")
    change = "" if how == "count" else f"{other}, "
    longer = f"{setting('step', '1d')} for other steps"
    return f"the rows of each step of {step} are {verb}; give {change}{longer}"


def combine_rows(rows: ParsedRows, combination: Combination, zone: str) -> SeriesTable:
    """Return the rows laid on steps; a cell without a row is missing.

    Args:
        rows: of the table.
        combination: how rows become steps.
        zone: whose days and longer steps are meant.
    """
    seconds, naive = _begin_of_steps(rows, combination, zone)
    ids = sort_ids(list(rows.ids))
    position = {identity: n for n, identity in enumerate(ids)}
    column = np.array([position[i] for i in rows.ids], dtype=np.int64)[rows.codes]
    unique, row = np.unique(seconds, return_inverse=True)
    shape = (len(unique), len(ids))
    layers = {}
    for name, values in rows.layers.items():
        known = np.isfinite(values)
        sums, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(sums, (row[known], column[known]), values[known])
        np.add.at(counts, (row[known], column[known]), 1)
        adds = name == VALUES and combination.how != "mean"
        with np.errstate(invalid="ignore", divide="ignore"):
            combined = np.where(counts > 0, sums if adds else sums / counts, np.nan)
        layers[name] = combined.astype(np.float32)
    return SeriesTable(unique, naive, tuple(ids), layers)


def _begin_of_steps(
    rows: ParsedRows, combination: Combination, zone: str
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    """Return the beginning of the step of each row, and whether it is a local time."""
    step, seconds, naive = combination.step, rows.seconds, rows.naive
    if step.minutes >= DAY_MINUTES and not naive:
        local = to_local(zone, seconds.astype("datetime64[s]"))
        seconds, naive = local.astype(np.int64), True
    if step.months:
        months = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        months = months // step.months * step.months
        return months.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64), naive
    length = step.minutes * _MINUTE
    begin = 4 * DAY_MINUTES * _MINUTE if step.minutes % (7 * DAY_MINUTES) == 0 else 0  # a Monday
    shift = length // 2 if combination.nearest else 0
    return (seconds + shift - begin) // length * length + begin, naive


def _whole_seconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times without fractions of a second."""
    if pa.types.is_timestamp(column.type):
        return pc.floor_temporal(column, unit="second")
    if pa.types.is_string(column.type):
        return pc.replace_substring_regex(column, r"(:\d\d)[.,]\d+", r"\1")
    return column
