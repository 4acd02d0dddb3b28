"""Rows that are no observations: empty ones, totals, averages, and notes below the last row.

Spreadsheets also write the name of a block in its first row alone; it is filled down.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from forecaster.errors import count_of, name_some
from forecaster.reading.times import looks_like_time

SUMMARY = (
    r"(?i)^\W*((grand|sub|overall|year|month|week|sheet|column|report)[ -]?)?"
    r"(totals?|sum|summe|gesamt|gesamtsumme|gesamtergebnis|insgesamt|zwischensumme|somme|totale|"
    r"suma|subtotal|average|avg|mean|median|durchschnitt|mittelwert|moyenne|promedio|media|"
    r"maximum|max|minimum|min|count|anzahl|ergebnis|razem|ogółem|totaal|celkem|összesen|totalt|"
    r"всего|итого|toplam|yhteensä|合計|总计|總計)\b.{0,40}$|"
    r".*\b(totals?|summe|gesamt|ergebnis)\W*$"
)
_NOTE = re.compile(r"\W*\w+\s*:\s|[*©(]")  # the beginning of `Source: …`
_MIN_TIMES = 3  # columns named as times
_LAST = 20  # rows in which notes are looked for
_ROUNDING = 1e-4  # of a total
_FEW = 3  # rows whose sum may be chance
_SAMPLE = 200  # texts by which a column of times is recognised
_TIMES = 0.9  # of them that are times


def drop_summary_rows(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the table without rows that are no observations, and what was left out."""
    empty = _all_null(table)
    table = table.filter(pa.array(~empty)) if empty.any() else table
    table, filled = _fill_down(table)
    time = next((name for name in table.column_names if holds_times(table[name])), None)
    if time is None:
        table, notes = _drop_notes_below(table)
        return table, (*filled, *notes)
    without = _without_time(table[time])
    summaries = without & _are_summaries(table)
    ends = np.flatnonzero(~without)
    for row in range(ends[-1] + 1 if len(ends) else 0, len(table)):
        is_note = not _is_empty(table[time].slice(row, 1)).any()
        summaries[row] |= is_note or _is_sum(table, row)
    count = int(summaries.sum())
    if not count or count == len(table):
        return table, filled
    shown = name_some(dict.fromkeys(map(_shown, table.filter(pa.array(summaries)).to_pylist())), 3)
    note = f"{count_of(count, 'row')} without a time left out: {shown}"
    return _as_numbers(table.filter(pa.array(~summaries))), (*filled, note)


def _drop_notes_below(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Return a table with columns for times without notes below its last row of values."""
    across = [name for name in table.column_names if looks_like_time(name)]
    texts = [name for name in table.column_names if _is_text(table[name])]
    if len(across) < _MIN_TIMES or not texts:
        return table, ()
    without = _all_null(table.select(across))
    end = len(table)
    while end > 1 and without[end - 1] and _is_note(table.slice(end - 1, 1).select(texts)):
        end -= 1
    if end == len(table):
        return table, ()
    shown = name_some(map(_shown, table.slice(end).to_pylist()), 3)
    return table.slice(0, end), (f"{count_of(len(table) - end, 'note')} left out: {shown}",)


def _is_note(row: pa.Table) -> bool:
    """Whether a row has one text alone, which begins as a note does."""
    texts = [str(text) for text in row.to_pylist()[0].values() if text and str(text).strip()]
    return len(texts) == 1 and _NOTE.match(texts[0]) is not None


def _is_sum(table: pa.Table, row: int) -> bool:
    """Whether a row below the last time holds the sum of a column, or no number at all.

    What is beside the sum may be a mean.
    """
    numbers = [c for c in table.columns if pa.types.is_integer(c.type) or _is_float(c)]
    pairs = [(c[row].as_py(), pc.sum(c.slice(0, row)).as_py()) for c in numbers]
    held = [(value, total) for value, total in pairs if value is not None and total is not None]
    sums = [abs(value - total) <= _ROUNDING * abs(total) for value, total in held]
    is_sum = any(same and total for same, (_, total) in zip(sums, held, strict=True))
    return all(sums) or (is_sum and row > _FEW)


def _is_float(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_floating(column.type))


def is_summary(text: str) -> bool:
    """Whether a text is the name of a total or an average."""
    return re.match(SUMMARY, text) is not None


def _shown(row: dict[str, object]) -> str:
    """Return the first texts of a row."""
    texts = [str(v).strip() for v in row.values() if v is not None and str(v).strip()]
    return repr(" ".join(texts)[:40]) if texts else "an empty one"


def _all_null(table: pa.Table) -> Bool[np.ndarray, " rows"]:
    empty = np.ones(len(table), dtype=bool)
    for column in table.columns:
        if not column.null_count and not _is_text(column):
            return np.zeros(len(table), dtype=bool)
        empty &= _is_empty(column)
    return empty


def _is_empty(column: pa.ChunkedArray) -> Bool[np.ndarray, " rows"]:
    """Which cells are null or blank."""
    null = pc.is_null(column)
    if _is_text(column):
        null = pc.or_(null, pc.fill_null(pc.equal(pc.utf8_trim_whitespace(column), ""), True))
    return np.asarray(null.to_numpy(), dtype=bool)


def holds_times(column: pa.ChunkedArray) -> bool:
    """Whether nearly all cells are times, and none is a number."""
    if pa.types.is_temporal(column.type):
        return True
    if not _is_text(column):
        return False
    texts = pc.unique(column.slice(0, _SAMPLE).drop_null()).to_pylist()
    times = sum(map(looks_like_time, texts))
    return len(texts) > 1 and times >= min(_TIMES * len(texts), len(texts) - 1)


def _without_time(column: pa.ChunkedArray) -> Bool[np.ndarray, " rows"]:
    """Which cells are empty, name a total, or are notes among the last ones."""
    without = _is_empty(column)
    if not _is_text(column):
        return without
    named = pc.fill_null(pc.match_substring_regex(column, SUMMARY), False).to_numpy()
    without |= np.asarray(named, dtype=bool)
    first = max(len(column) - _LAST, 0)
    for row, text in enumerate(column.slice(first).to_pylist(), start=first):
        starts_as_time = text is None or text.strip()[:1].isdigit() or looks_like_time(text)
        without[row] |= not starts_as_time
    return without


def _are_summaries(table: pa.Table) -> Bool[np.ndarray, " rows"]:
    """Which rows have a text that names a total."""
    named = np.zeros(len(table), dtype=bool)
    for column in table.columns:
        if _is_text(column):
            matches = pc.fill_null(pc.match_substring_regex(column, SUMMARY), False)
            named |= np.asarray(matches.to_numpy(), dtype=bool)
    return named


def _fill_down(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """Fill down names and times that stand in the first row of their block alone."""
    notes: list[str] = []
    for index, name in enumerate(table.column_names):
        column = table.column(index)
        if not _is_text(column) and not pa.types.is_temporal(column.type):
            continue
        filled = len(column) - column.null_count
        is_block = 0 < filled <= column.null_count and column[0].is_valid
        if is_block and pc.count_distinct(column).as_py() == filled:
            table = table.set_column(index, name, pc.fill_null_forward(column))
            notes.append(f"{name!r} filled down")
    return table, tuple(notes)


def _as_numbers(table: pa.Table) -> pa.Table:
    """Return the table with columns as numbers that only summaries kept from being numbers."""
    for index, name in enumerate(table.column_names):
        column = table.column(index)
        if not _is_text(column) or column.null_count == len(column):
            continue
        plain = pc.match_substring_regex(column, r"^-?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d+)?$")
        digits = pc.match_substring_regex(column, r"\d")
        if pc.all(plain).as_py() and pc.all(digits).as_py():
            whole = pc.all(pc.match_substring_regex(column, r"^-?\d{1,18}$")).as_py()
            kind = pa.int64() if whole else pa.float64()
            table = table.set_column(index, name, column.cast(kind))
    return table


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type))
