"""Tables of other shapes, as long or wide ones: several files, times across, joined columns."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from forecaster.errors import DataError, name_some
from forecaster.reading.dialect import HEADER_JOIN
from forecaster.reading.layout import (
    PERIODS_OF_DAY,
    QUARTER_NAMES,
    WEEK_NAMES,
    TableLayout,
    are_days,
    guess_layout,
    is_year,
    normal_name,
    parts_of,
)
from forecaster.reading.numerals import convert_numerals
from forecaster.reading.times import as_texts, looks_like_time, month_number

PLACE = "location"  # the column of places that stood across
FILE = "file"  # the column that tells apart the series of several files
TIME, MONTH, CLOCK, VALUE = "time", "month", "clock", "value"  # the columns of what stood across
_MIN_TIMES = 3  # columns named as times that make a table one of times across
_DAY = 24 * 60  # minutes
_COUNTS = (24, 48, 96)  # columns of a day, hours to quarters of them
_CLOCK = re.compile(r"\D*?(\d{1,2})[:.h](\d\d)(?::00)?(?:\s*-\s*\d{1,2}[:.h]\d\d)?", re.ASCII)
_HOUR_WORDS = ("", "h", "hr", "hour", "he", "std", "stunde", "heure", "hora")
_SPAN_END = r"\s*[-–]\s*\d{1,2}[:.h]\d\d(:\d\d)?\s*$"  # of 08:00-08:30
_NUMBERED = re.compile(r"([^\d]*)(\d{1,2})(\s*(?:[hH]s?|[uU]hr|時))?")


def join_files(parts: Sequence[tuple[pa.Table, str]]) -> tuple[pa.Table, str]:
    """Return one table of several files with the same columns.

    Files that hold a series each, of the same times, are told apart by their names.
    """
    tables, names = [table for table, _ in parts], [name for _, name in parts]
    columns = set(tables[0].column_names)
    for table, name in parts[1:]:
        if set(table.column_names) != columns:
            apart = name_some(sorted(columns ^ set(table.column_names)))
            raise DataError(
                f"{name}: other columns than {names[0]} ({apart}); give files of the same columns"
            )
    layout = guess_layout(tables[0], names[0])
    if layout.id is None and _share_times(tables, layout.time):
        tables = [
            table.append_column(FILE, pa.array([_stem(name)] * len(table)))
            for table, name in parts
        ]
    plain = [table.replace_schema_metadata(None) for table in tables]
    joined = pa.concat_tables(plain, promote_options="permissive")
    return joined.replace_schema_metadata(tables[0].schema.metadata), name_some(names, 3)


def _share_times(tables: Sequence[pa.Table], time: str) -> bool:
    """Whether two files have a time in common."""
    seen: set[tuple[object, ...]] = set()
    for table in tables:
        columns = (table[column].to_pylist() for column in parts_of(table, time))
        times = set(zip(*columns, strict=True))
        if seen & times:
            return True
        seen |= times
    return False


def _stem(name: str) -> str:
    return Path(name).name.split(".")[0]


def unpivot(table: pa.Table) -> pa.Table:
    """Return a table with columns for times, or for times of day, as one with a row for each.

    So are the places of a header of two rows, each with the same measures below it.
    """
    times = [n for n in table.column_names if looks_like_time(n)]
    other = [n for n in table.column_names if n not in times]
    across = (
        len(times) >= max(_MIN_TIMES, len(other))
        and len({re.sub(r"\d+", "9", n) for n in times}) == 1
    )
    if across and not any(_holds_times(table[name]) for name in other):
        return _stack(table, {name: name for name in times}, TIME)
    if places := _places_across(table):
        return _stack_places(table, places)
    clocks = _clocks_across(table)
    if clocks:
        return _stack(table, clocks, CLOCK)
    months = _months_across(table)
    return _stack(table, months, MONTH) if months else table


def _stack(table: pa.Table, texts: Mapping[str, str], name: str) -> pa.Table:
    """Return a table with a row for each of some columns, whose text is in a column `name`."""
    other = [n for n in table.column_names if n not in texts]
    is_text = any(table[column].type == pa.string() for column in texts)
    parts = [
        table.select(other)
        .append_column(name, pa.array([text] * len(table), pa.string()))
        .append_column(VALUE, table[column].cast(pa.string()) if is_text else table[column])
        for column, text in texts.items()
    ]
    joined = pa.concat_tables(parts, promote_options="permissive")
    if is_text:
        joined, _ = convert_numerals(joined, ".", texts={n.strip().lower() for n in other})
    return joined.replace_schema_metadata(table.schema.metadata)


def _places_across(table: pa.Table) -> dict[str, dict[str, str]]:
    """Return the columns of each place of a header of two rows, by their measures."""
    places: dict[str, dict[str, str]] = {}
    for name in table.column_names:
        place, joint, measure = name.partition(HEADER_JOIN)
        if joint:
            places.setdefault(place, {})[measure] = name
    measures = {frozenset(columns) for columns in places.values()}
    alike = len(places) > 1 and len(measures) == 1
    rest = len(table.column_names) - sum(map(len, places.values()))
    return places if alike and rest else {}


def _stack_places(table: pa.Table, places: Mapping[str, Mapping[str, str]]) -> pa.Table:
    """Return a table with a row for each time and place, and a column for each measure."""
    spread = {name for columns in places.values() for name in columns.values()}
    other = [name for name in table.column_names if name not in spread]
    parts = []
    for place, columns in places.items():
        part = table.select(other).append_column(PLACE, pa.array([place] * len(table)))
        for measure, column in columns.items():
            part = part.append_column(measure, table[column])
        parts.append(part)
    joined = pa.concat_tables(parts, promote_options="permissive")
    return joined.replace_schema_metadata(table.schema.metadata)


def _clocks_across(table: pa.Table) -> dict[str, str]:
    """Return the columns that are the times of a day, each with its clock: `H01` is 00:00."""
    if not any(_holds_times(table[n]) and are_days(table, n) for n in table.column_names):
        return {}
    minutes = {n: m for n in table.column_names if (m := _minutes_of(n)) is not None}
    if len(minutes) not in _COUNTS:
        minutes = _numbered_minutes(table)
    step = _DAY // max(len(minutes), 1)
    first = min(minutes.values(), default=0)  # 1:00 … 24:00 are the ends of hours
    begins = {name: minute - first for name, minute in minutes.items()}
    if first not in (0, step) or sorted(begins.values()) != list(range(0, _DAY, step)):
        return {}
    return {name: f"{minute // 60:02d}:{minute % 60:02d}" for name, minute in begins.items()}


def _months_across(table: pa.Table) -> dict[str, str]:
    """Return the columns named as the months of a year, beside one of years."""
    months = {n: m for n in table.column_names if (m := month_number(n.strip().rstrip(".")))}
    years = any(is_year(table, n) for n in table.column_names if n not in months)
    if not years or sorted(months.values()) != list(range(1, 13)):
        return {}
    return {name: str(month) for name, month in months.items()}


def _minutes_of(name: str) -> int | None:
    match = _CLOCK.fullmatch(name.strip())
    return None if match is None else 60 * int(match[1]) + int(match[2])


def _numbered_minutes(table: pa.Table) -> dict[str, int]:
    """Return the minutes of columns numbered as the parts of a day: h1 … h24, 0h … 23h, 0 … 23."""
    matches = [(n, m) for n in table.column_names if (m := _NUMBERED.fullmatch(n.strip()))]
    affixes = {(match[1], match[3]) for _, match in matches}
    if len(matches) not in _COUNTS or len(affixes) != 1:
        return {}
    numbers = {name: int(match[2]) for name, match in matches}
    is_hour = matches[0][1][1].strip(" _-.").lower() in _HOUR_WORDS
    is_plain = not matches[0][1][1] and not matches[0][1][3]
    if not is_hour or (is_plain and min(numbers.values()) != 0):
        return {}  # such as stations 1 … 24
    step = _DAY // len(numbers)
    return {name: step * number for name, number in numbers.items()}


def _holds_times(column: pa.ChunkedArray) -> bool:
    texts = as_texts(column.slice(0, 9).drop_null())
    if texts is None:
        return bool(pa.types.is_temporal(column.type))
    return len(texts) > 0 and all(map(looks_like_time, texts.to_pylist()))


def join_columns(table: pa.Table, layout: TableLayout) -> pa.Table:
    """Return the table with the columns that its layout joins.

    A time is joined of a day and a clock, or of a year, a month, a day and an hour.
    """
    for column, between in ((layout.time, "T"), (layout.id, " / ")):
        if column is None or column in table.column_names:
            continue
        parts = parts_of(table, column)
        texts = [_piece(table[part]) for part in parts]
        if column == layout.time and is_year(table, parts[0]):
            texts = _calendar(texts, normal_name(parts[1]))
        elif column == layout.time:
            texts = [_days(texts[0]), *(_clocks(text) for text in texts[1:])]
        skip = "emit_null" if column == layout.time else "skip"
        joined = pc.binary_join_element_wise(*texts, between, null_handling=skip)
        table = table.append_column(column, joined)
    return table


def _calendar(texts: Sequence[pa.ChunkedArray], second: str) -> list[pa.ChunkedArray]:
    """Return years, months, days and hours as days, and as clocks if there are hours.

    Args:
        texts: of the columns.
        second: the name of what follows the year: a month, a quarter or a week.
    """
    year, month, *rest = texts
    if second in (*QUARTER_NAMES, *WEEK_NAMES):
        number = pc.utf8_lpad(pc.replace_substring_regex(month, r"\D", ""), 2, "0")
        if second in WEEK_NAMES:
            return [pc.binary_join_element_wise(year, number, "-W")]
        return [pc.binary_join_element_wise(year, pc.utf8_ltrim(number, "0"), "-Q")]
    if pc.any(pc.match_substring_regex(month, r"\pL")).as_py():  # such as March
        day = pc.binary_join_element_wise(*rest[:1], month, year, " ")
    else:
        numbers = [year, *(pc.utf8_lpad(text, 2, "0") for text in (month, *rest[:1]))]
        day = pc.binary_join_element_wise(*numbers, "-")
    return [day, *(_clocks(text) for text in rest[1:])]


def _piece(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = as_texts(column)
    return column.cast(pa.string()) if texts is None else texts


def _days(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return days without a time of day at midnight, as frames and workbooks have it."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"[T ]00:00(:00)?$", "")


def _clocks_of_periods(numbers: pa.ChunkedArray, step: int) -> pa.ChunkedArray:
    """Return the beginnings of periods that are numbered from 1, of so many minutes each."""
    minutes = pc.multiply(pc.subtract(numbers, 1), step)
    hour = pc.divide(minutes, 60)
    parts = (hour, pc.subtract(minutes, pc.multiply(hour, 60)))
    return pc.binary_join_element_wise(
        *(pc.utf8_lpad(part.cast(pa.string()), 2, "0") for part in parts), ":"
    )


def _clocks(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of day as 13:05, the first of a span; hours from 1 to 24 end then."""
    texts = pc.replace_substring_regex(texts, _SPAN_END, "")
    if pc.any(pc.match_substring(texts, ":")).as_py():
        return pc.utf8_trim_whitespace(texts)
    hours = pc.replace_substring_regex(texts, r"[.:]00$", "").cast(pa.int64())
    ends = (pc.min(hours).as_py(), pc.max(hours).as_py())
    if ends in PERIODS_OF_DAY:
        return _clocks_of_periods(hours, _DAY // ends[1])
    if ends == (1, 24):
        hours = pc.subtract(hours, 1)
    return pc.binary_join_element_wise(
        pc.utf8_lpad(hours.cast(pa.string()), 2, "0"), pa.scalar("00"), ":"
    )
