"""How a text file writes its table: encoding, delimiter, decimal mark, first row.

Everything is found in the beginning of the file. What fits two readings is asked for.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from forecaster.choices import DecimalMark
from forecaster.errors import ConfigError, DataError, count_of, setting
from forecaster.reading.numerals import without_unit
from forecaster.reading.times import is_calendar_date, looks_like_time

SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 400
_ENCODINGS = ("utf-8", "cp1252", "cp932")  # cp1252 lacks bytes that Japanese letters begin with
_DELIMITERS = ("\t", ";", "|", ",")  # of two that fit alike, the first: commas stand in numbers
_DELIMITER_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
_NUMBER = re.compile(r"[+-]?(?:\d[\d.,'’\u00a0\u202f ]*|[.,]\d+)(?:[eE][+-]?\d+)?")
_RULING = re.compile(r"[-=_+| \t]*")  # a line drawn between rows
_COMMA_DECIMALS = re.compile(r"(?!\d{1,3},\d{3}$|0+,\d{3}$)\d*,\d+|0,\d{3}|\d{1,3}(\.\d{3})+,\d+")
_DOT_DECIMALS = re.compile(r"(?!\d{1,3}\.\d{3}$)\d*\.\d+|0\.\d{3}|\d{1,3}(,\d{3})+\.\d+")
_COMMA_GROUPS = re.compile(r"\d{1,3}(,\d{3}){2,}")
_DOT_GROUPS = re.compile(r"\d{1,3}(\.\d{3}){2,}")
HEADER_JOIN = " › "  # between the names of two rows of headers
_TELLING = 3  # numbers from 100 to 999 that show how a column groups its digits
_EITHER = {",": re.compile(r"[1-9]\d{0,2},\d{3}"), ".": re.compile(r"[1-9]\d{0,2}\.\d{3}")}


@dataclass(frozen=True)
class Dialect:
    """How the rows of a file are written."""

    encoding: str
    delimiter: str
    decimal: DecimalMark
    lines_above: int  # before the header
    names: tuple[str, ...]  # of the columns
    quote: str = '"'  # around cells
    header: bool = True  # False: the first row holds values
    units: bool = False  # whether a row of units follows the header
    spanning: bool = False  # whether that row is a second header, below names that span columns
    notes: tuple[str, ...] = ()  # lines below the last row
    repeated: int = 0  # rows that repeat the header
    placeholders: tuple[str, ...] = ()  # what stands in place of numbers

    def __str__(self) -> str:
        parts = [f"{_DELIMITER_NAMES[self.delimiter]}-separated, {self.encoding}"]
        parts += ["cells in '…'"] if self.quote == "'" else []
        parts += ["decimal comma"] if self.decimal == "," else []
        parts += [f"{self.lines_above} lines above the header left out"] * bool(self.lines_above)
        parts += [f"{count_of(len(self.notes), 'note')} at the end left out"] * bool(self.notes)
        parts += [f"{count_of(self.repeated, 'repeated header')} left out"] * bool(self.repeated)
        parts += ["no header"] * (not self.header) + ["a row of units left out"] * (
            self.units and not self.spanning
        )
        parts += ["a header of two rows"] * self.spanning
        parts += self.placeholders
        return ", ".join(parts)


def find_encoding(sample: bytes) -> str:
    """Return the encoding of a text: by its mark, else the first that fits, else cp1252."""
    if sample.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = sample[: 1 << 12]
    if head.count(0) * 3 > len(head):
        return "utf-16-be" if head[:1] == b"\0" else "utf-16-le"
    return next((name for name in _ENCODINGS if _decodes(sample, name)), "cp1252")


def _decodes(sample: bytes, encoding: str) -> bool:
    """Whether the beginning of a file is text in an encoding."""
    try:
        codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def find_dialect(
    text: str, encoding: str, name: str, decimal: DecimalMark | None = None
) -> Dialect:
    """Return the dialect of the beginning of a file.

    Args:
        text: its first lines.
        encoding: of the file.
        name: of the file, for messages.
        decimal: the mark in numbers; None: as found.
    """
    lines = text.splitlines()[:_SAMPLE_LINES]
    if not any(line.strip() for line in lines):
        raise DataError(f"{name}: cannot be read as a table (it is empty); give a header and rows")
    quote = _find_quote(lines)
    delimiter = _find_delimiter(lines, quote)
    rows = list(_split(lines, delimiter, quote))
    width = _usual_width(rows)
    first = _find_first(rows, width)
    line, names = rows[first]
    below = [cells for _, cells in rows[first + 1 :] if len(cells) == width]
    header = not _is_values(names)
    units = header and _are_units(below)
    spanning = units and spans(names, below[0])
    names = join_headers(names, below[0]) if spanning else names
    return Dialect(
        encoding=encoding,
        delimiter=delimiter,
        quote=quote,
        decimal=decimal or _find_decimal(list(zip(*below, strict=True)), delimiter, name),
        lines_above=line,
        names=tuple(c.strip() for c in names) if header else _numbered(width),
        header=header,
        units=units,
        spanning=spanning,
    )


def spans(upper: Sequence[str], lower: Sequence[str]) -> bool:
    """Whether names of an upper row of headers span several columns of the lower one."""
    blank = [n for n, name in enumerate(upper) if n and not name.strip()]
    return bool(blank) and all(lower[n].strip() for n in blank) and any(map(str.strip, upper))


def join_headers(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Return the names of columns under names that span them: `North › flow`."""
    names, spanning = [], ""
    for above, below in zip(upper, lower, strict=True):
        spanning = above.strip() or spanning
        parts = [part for part in (spanning, below.strip()) if part]
        names.append(HEADER_JOIN.join(parts))
    return names


def is_ruling(text: str) -> bool:
    """Whether a line only draws a line."""
    return _RULING.fullmatch(text) is not None


def _find_quote(lines: Sequence[str]) -> str:
    """Return the mark around cells: a single quote where most lines, and no others, have it."""
    single, double = (
        sum(
            re.search(rf"(^|[,;|\t])\s*{mark}[^{mark}]*{mark}\s*($|[,;|\t])", line) is not None
            for line in lines
        )
        for mark in ("'", '"')
    )
    filled = sum(bool(line.strip()) for line in lines)
    return "'" if not double and 2 * single > filled else '"'


def _find_delimiter(lines: Sequence[str], quote: str) -> str:
    best, share = None, 0.0
    for delimiter in _DELIMITERS:
        rows = list(_split(lines, delimiter, quote))
        width = _usual_width(rows)
        alike = sum(len(cells) == width for _, cells in rows) / max(len(rows), 1)
        if width > 1 and alike > share + 0.05:
            best, share = delimiter, alike
    return best or ","  # a single column


def _split(lines: Sequence[str], delimiter: str, quote: str) -> Iterable[tuple[int, list[str]]]:
    """Yield the number of lines above each row, and its cells."""
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, skipinitialspace=True)
    above = 0
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells) and not is_ruling(delimiter.join(cells)):
                yield above, cells
            above = reader.line_num
    except csv.Error:  # a field without end: other delimiters may fit
        return


def _usual_width(rows: Sequence[tuple[int, list[str]]]) -> int:
    widths = Counter(len(cells) for _, cells in rows)
    return widths.most_common(1)[0][0] if widths else 1


def _find_first(rows: Sequence[tuple[int, list[str]]], width: int) -> int:
    """Return the first row of the usual width that is no title and no comment.

    A title stands in one cell, and a property of the table in two; a comment begins with # and has
    no values below it.
    """
    usual = [number for number, (_, cells) in enumerate(rows) if len(cells) == width]
    for number, following in pairwise(usual):
        cells = rows[number][1]
        comment = cells[0].startswith("#") and not any(map(_is_value, rows[following][1]))
        is_title = comment or _is_property(cells, rows[following][1])
        if any(cell.strip() for cell in cells[1:]) and not is_title:
            return number
    return usual[0]


def _is_property(cells: Sequence[str], below: Sequence[str]) -> bool:
    """Whether a row says one thing of the table, as `Meter:;DE0003;;` does, and is no header."""
    if len(cells) < 3 or any(cell.strip() for cell in cells[2:]) or not cells[0].strip():  # noqa: PLR2004
        return False
    is_above_texts = bool(below[0].strip()) and not any(map(_is_value, below))
    return cells[0].strip().endswith(":") or is_above_texts


def _is_values(cells: Sequence[str]) -> bool:
    """Whether a first row holds values: one or two dates, and else numbers only."""
    dates = sum(is_calendar_date(cell) for cell in cells)
    plain = [c for c in cells if c.strip() and not looks_like_time(c) and not _is_number(c)]
    return 0 < dates <= 2 and len(cells) > dates and not plain  # noqa: PLR2004 (begin and end)


def _are_units(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has texts where all that follow have numbers or times."""
    if len(rows) < 3:  # noqa: PLR2004 (rows below must tell)
        return False
    values = [_is_value(cell) for cell in rows[0]]
    return not any(values) and all(any(map(_is_value, row)) for row in rows[1:3])


def _is_value(cell: str) -> bool:
    return _is_number(cell) or looks_like_time(cell)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(without_unit(cell)) is not None


def _numbered(width: int) -> tuple[str, ...]:
    return tuple(f"column {number}" for number in range(1, width + 1))


def _bare(number: str) -> str:
    """Return a number without unit, sign, exponent and spaces between thousands."""
    return re.sub(r"^[+-]|[eE].*$|['’\s]", "", without_unit(number))


def _find_decimal(columns: Sequence[Sequence[str]], delimiter: str, name: str) -> DecimalMark:
    """Return the decimal mark of all numbers; what fits both is asked for."""
    by_column = [{_bare(cell) for cell in cells if _is_number(cell)} for cells in columns]
    numbers = set().union(*by_column)
    commas = {n for n in numbers if _COMMA_DECIMALS.fullmatch(n) or _DOT_GROUPS.fullmatch(n)}
    dots = {n for n in numbers if _DOT_DECIMALS.fullmatch(n) or _COMMA_GROUPS.fullmatch(n)}
    ask = f"give {setting('decimal', ',')} or {setting('decimal', '.')}"
    if commas and dots:
        shown = f"{min(commas)!r} and {min(dots)!r}"
        raise ConfigError(f"{name}: numbers are written both as {shown}; {ask}")
    if commas or dots:
        return "," if commas else "."
    unclear = {mark: {n for n in numbers if p.fullmatch(n)} for mark, p in _EITHER.items()}
    if delimiter == "," or _are_grouped(by_column, _EITHER[","]):
        return "."
    if unclear["."] and _are_grouped(by_column, _EITHER["."]):
        return ","
    if unclear["."] and (unclear[","] or delimiter == ";"):
        unclear[","] |= unclear["."]
    if unclear[","]:
        shown = min(unclear[","])
        raise ConfigError(f"{name}: {shown!r} may have thousands or decimals; {ask}")
    return "."


def _are_grouped(columns: Iterable[set[str]], grouped: re.Pattern[str]) -> bool:
    """Whether a column has its mark in every number from 1,000 on, and in none below."""
    return any(
        any(map(grouped.fullmatch, numbers)) and _end_below_a_thousand(numbers)
        for numbers in columns
    )


def _end_below_a_thousand(numbers: set[str]) -> bool:
    plain = [number for number in numbers if number.isdigit()]
    return max(map(len, plain), default=0) == 3 and sum(len(n) == 3 for n in plain) >= _TELLING  # noqa: PLR2004
