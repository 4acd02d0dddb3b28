"""Text files with delimited columns, such as CSV, as Arrow tables."""

import codecs
import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from forecaster.choices import DecimalMark
from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.reading.compressed import open_bytes
from forecaster.reading.dialect import (
    SAMPLE_BYTES,
    Dialect,
    find_dialect,
    find_encoding,
    is_ruling,
)
from forecaster.reading.numerals import convert_numerals
from forecaster.reading.times import looks_like_time

NULL_TEXTS = ["", "NA", "N/A", "n/a", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan",
              "?", "#N/A", "#NV", "#DIV/0!", "#WERT!", "#VALUE!"]  # fmt: skip
_CHUNK = 1 << 20
_HEXADECIMAL = re.compile(r"(^|[\s,;|\t\"'])[+-]?0[xX][0-9a-fA-F]")
_PADDED = re.compile(r"[+-]?0\d+")  # an id such as 007
_BAD_WIDTHS = 5
MAX_COLUMNS = 20_000
_END = 1 << 14  # characters in which notes are looked for


def read_delimited(
    path: Path, texts: Sequence[str], decimal: DecimalMark | None, missing: Sequence[str]
) -> tuple[pa.Table, Dialect]:
    """Return the table of a text file, and how it is written.

    Args:
        path: the file, which may be compressed.
        texts: columns that are read as text, in any case.
        decimal: the mark in numbers; None: as found.
        missing: texts for missing values, beside the usual ones.
    """
    scan = _scan(path)
    dialect = find_dialect(scan.beginning, scan.encoding, str(path), decimal)
    refuse_wide(path, len(dialect.names))
    dialect = replace(dialect, notes=_find_notes(scan.end, dialect))
    kept = {*texts} | ({n.lower() for n in dialect.names} if scan.hexadecimal else set())
    table = _read(path, dialect, kept | _text_columns(scan.beginning, dialect))
    if any(pa.types.is_binary(field.type) for field in table.schema):
        raise DataError(f"{path}: cannot be read as a table (a text is not {dialect.encoding})")
    table, repeated = _drop_headers(_clocks_as_text(_name_columns(table)), dialect)
    dialect = replace(dialect, repeated=repeated)
    table, placeholders = convert_numerals(table, dialect.decimal, missing, {*texts})
    return table, replace(dialect, placeholders=placeholders)


def refuse_wide(path: Path, columns: int) -> None:
    """Refuse a table of more columns than can be read in little memory."""
    if columns > MAX_COLUMNS:
        told = f"{columns:,} columns; at most {MAX_COLUMNS:,} are read"
        raise DataError(f"{path}: {told}: give a row for each value, with id, time and value")


@dataclass(frozen=True)
class _Scan:
    """What a first pass over a file finds."""

    encoding: str
    beginning: str  # its first lines
    end: str  # its last ones
    hexadecimal: bool  # whether it has such numbers


def _scan(path: Path) -> _Scan:
    """Return what a first pass finds.

    A file that expands without bound is refused here, before anything of it is kept.
    """
    with open_bytes(path) as stream:
        head = stream.read(SAMPLE_BYTES)
        encoding = find_encoding(head)
        decoder = codecs.getincrementaldecoder(encoding)()
        text = sample = decoder.decode(head)
        hexadecimal, cut, end = False, False, text[-_END:]
        while True:
            hexadecimal = hexadecimal or ("0x" in text and _HEXADECIMAL.search(text) is not None)
            if not (chunk := stream.read(_CHUNK)):
                break
            cut = True
            try:
                text = decoder.decode(chunk)
            except UnicodeDecodeError:  # the first letter beyond ASCII comes late
                encoding = "cp1252"
                decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
                text = decoder.decode(chunk)
            end = (end + text)[-_END:]
    beginning = sample[: sample.rfind("\n") + 1] if cut else sample
    return _Scan(encoding, beginning, end, hexadecimal)


def _find_notes(end: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the lines below the last row: a text in a single cell, such as a source."""
    notes: list[str] = []
    for line in reversed(end.splitlines()):
        cells = next(csv.reader([line], delimiter=dialect.delimiter, quotechar=dialect.quote), [])
        filled = [cell for cell in cells if cell.strip(" \"'")]
        if len(filled) > 1 or (filled and (len(dialect.names) == 1 or looks_like_time(filled[0]))):
            break
        notes += [line] if filled and not is_ruling(line) else []
    return tuple(notes)


def _text_columns(sample: str, dialect: Dialect) -> set[str]:
    """Return the columns that begin with padded numbers or times: they are kept as written."""
    lines = sample.splitlines()[dialect.lines_above + dialect.header :][:400]
    columns: set[str] = set()
    for line in lines:
        cells = line.split(dialect.delimiter)
        if len(cells) == len(dialect.names):
            columns |= {
                name.lower()
                for name, cell in zip(dialect.names, cells, strict=True)
                if _PADDED.fullmatch(cell.strip(" \"'")) or _is_written_time(cell.strip(" \"'"))
            }
    return columns


def _is_written_time(text: str) -> bool:
    """Whether a text is a time that is no number."""
    return not text.isdigit() and looks_like_time(text)


def _read(path: Path, dialect: Dialect, texts: set[str]) -> pa.Table:
    faults, bad = Faults(str(path)), 0

    def note(row: pyarrow.csv.InvalidRow) -> str:
        nonlocal bad
        if not is_ruling(row.text) and row.text not in dialect.notes:
            bad += 1
            if bad <= _BAD_WIDTHS:
                faults.add(
                    f"{row.text[:60]!r}: {row.actual_columns} columns in place of "
                    f"{row.expected_columns}"
                )
        return "skip"

    with open_bytes(path) as stream:
        table = pyarrow.csv.read_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(
                encoding=_codec(dialect.encoding),
                skip_rows=dialect.lines_above + dialect.header + dialect.units,
                column_names=list(dialect.names),
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote,
                invalid_row_handler=note,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={n: pa.string() for n in dialect.names if n.strip().lower() in texts},
                null_values=NULL_TEXTS,
                strings_can_be_null=True,
                decimal_point=dialect.decimal,
            ),
        )
    if bad:
        more = f", and {bad - _BAD_WIDTHS} more" if bad > _BAD_WIDTHS else ""
        raise DataError(
            f"{path}: cannot be read as a table: {count_of(bad, 'row')} of another length: "
            f"{name_some(faults.messages)}{more}; mend or remove them"
        )
    return table


def _codec(encoding: str) -> str:
    return "utf8" if encoding in ("utf-8", "utf-8-sig") else encoding


def _name_columns(table: pa.Table) -> pa.Table:
    """Return the table without nameless empty columns, which delimiters at line ends leave.

    Other nameless columns, such as the index of a frame, are numbered.
    """
    names = [n.strip() or f"column {i}" for i, n in enumerate(table.column_names, start=1)]
    kept = [
        index
        for index, name in enumerate(table.column_names)
        if name.strip() or pc.count(table.column(index)).as_py()
    ]
    return table.rename_columns(names).select(kept)


def _clocks_as_text(table: pa.Table) -> pa.Table:
    """Return the table with times of day as they are written."""
    for index, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            texts = table.column(index).cast(pa.string())
            table = table.set_column(index, field.name, texts)
    return table


def _drop_headers(table: pa.Table, dialect: Dialect) -> tuple[pa.Table, int]:
    """Return the table without rows that repeat the header, as files joined have them."""
    if not dialect.header or not all(pa.types.is_string(field.type) for field in table.schema):
        return table, 0
    repeats = [
        pc.equal(column, name)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    repeated = pc.fill_null(reduce(pc.and_, repeats), False)
    count = pc.sum(repeated).as_py() or 0
    return (table.filter(pc.invert(repeated)), count) if count else (table, 0)
