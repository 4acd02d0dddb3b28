"""The sheets of a workbook (.xlsx, .ods, .xls) that hold its table, as Arrow tables."""

import re
import zipfile
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from forecaster.errors import DataError, need_extra
from forecaster.reading.compressed import refuse_expansion
from forecaster.reading.dialect import join_headers, spans
from forecaster.reading.summary_rows import holds_times

SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
_CHUNK = 1 << 20
_OVERLAP = 200  # bytes of a part that the next one begins with: a tag may be cut
CELL = re.compile(rb"<(?:\w+:)?c[ />]")
PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{0,3})(\d{1,9})["']""")  # of a cell or a row
FREE_CELLS, BYTES_PER_CELL = 2_000_000, 2  # of a file: a cell takes two bytes or more of it
SPARSE = 4  # times as many as its cells may be in the rectangle around them


def read_workbook(path: Path) -> tuple[list[tuple[pa.Table, str]], int]:
    """Return the first sheet with times or else with rows, and those of the same columns.

    Returns:
        The tables with the names of their sheets, and the number of sheets in the workbook.
    """
    calamine = need_extra("python_calamine", "excel")
    _refuse_large(path)
    try:
        workbook = calamine.CalamineWorkbook.from_path(str(path))
        sheets: list[tuple[pa.Table, str]] = []
        for name in workbook.sheet_names:
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=True)
            if len(rows) > 1:
                sheets.append((_table(rows), name))
    except calamine.CalamineError as error:
        raise DataError(f"{path}: cannot be read as a workbook ({error})") from error
    if not sheets:
        raise DataError(f"{path}: no sheet has a header and a row")
    first = next((t for t, _ in sheets if any(map(holds_times, t.columns))), sheets[0][0])
    alike = [(t, name) for t, name in sheets if t.column_names == first.column_names]
    return alike, len(workbook.sheet_names)


class _Cells:
    """The cells of a sheet, and the rectangle around them, which is read as a whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._most = path, FREE_CELLS + path.stat().st_size // BYTES_PER_CELL
        self._count, self._height, self._rest = 0, 0, b""
        self._columns = set[bytes]()

    def add(self, chunk: bytes) -> None:
        """Look at the next part of the sheet; too many cells for the file's size are refused."""
        self._count += len(CELL.findall(chunk))
        part = self._rest + chunk
        self._rest = part[-_OVERLAP:]
        places = PLACE.findall(part)
        self._columns.update({letters for letters, _ in places})
        self._height = max([self._height, *(int(number) for _, number in places)])
        width = max(map(_column_number, self._columns), default=1)
        rectangle = width * self._height
        if max(self._count, rectangle // SPARSE) > self._most:
            raise DataError(
                f"{self._path}: refused: {max(self._count, rectangle):,} cells in a file of this "
                "size; remove cells far from the table, or save it as CSV if it is that large"
            )


def _column_number(letters: bytes) -> int:
    """Return the number of a column by its letters, from 1."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _refuse_large(path: Path) -> None:
    """Refuse a workbook that expands without bound; its own sizes are not believed."""
    if not zipfile.is_zipfile(path):
        return
    expanded = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                cells = _Cells(path)
                with archive.open(member) as file:
                    while chunk := file.read(_CHUNK):
                        expanded += len(chunk)
                        refuse_expansion(path, expanded)
                        cells.add(chunk)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path}: damaged ({error}); save it again") from error


def _table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return the rows below the first one that is filled across the sheet."""
    width = max(map(len, rows))
    filled = [sum(_is_filled(cell) for cell in row) for row in rows]
    usual = sorted(filled)[len(filled) // 2]
    first = next(n for n, count in enumerate(filled) if count >= min(usual, width))
    names = [_text(cell).strip() if _is_filled(cell) else "" for cell in rows[first]]
    if first and len({*names}) < len(names):
        upper = [_text(cell).strip() if _is_filled(cell) else "" for cell in rows[first - 1]]
        names = join_headers(upper, names) if spans(upper, names) else names
    columns = [[_value(row[n]) for row in rows[first + 1 :]] for n in range(width)]
    kept = [n for n in range(width) if names[n] or any(v is not None for v in columns[n])]
    table: pa.Table = pa.Table.from_arrays(
        [_column(columns[n]) for n in kept],
        names=[names[n] or f"column {n + 1}" for n in kept],
    )
    return table


def _is_filled(cell: Any) -> bool:
    return cell is not None and cell != ""


def _value(cell: Any) -> Any:
    """Return a cell; a whole number of a workbook is a float there."""
    if isinstance(cell, str):
        return cell.strip() or None
    if isinstance(cell, timedelta):
        return str(datetime.min + cell)[11:]
    return cell


def _column(cells: Sequence[Any]) -> pa.Array:
    filled = [cell for cell in cells if cell is not None]
    kinds = {type(cell) for cell in filled}
    if kinds <= {int, float}:
        whole = all(float(cell).is_integer() and abs(cell) < 2**53 for cell in filled)
        return pa.array(
            [None if c is None else int(c) if whole else float(c) for c in cells],
            pa.int64() if whole and filled else pa.float64(),
        )
    if kinds <= {date, datetime}:
        return pa.array([_moment(cell) for cell in cells], pa.timestamp("s"))
    return pa.array([None if c is None else _text(c) for c in cells], pa.string())


def _moment(cell: date | datetime | None) -> datetime | None:
    """Return a time of a workbook, whose fractions of a day are rounded to the second."""
    if cell is None:
        return None
    if not isinstance(cell, datetime):
        return datetime(cell.year, cell.month, cell.day)
    return (cell + timedelta(microseconds=500_000)).replace(microsecond=0)


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, time):
        return cell.strftime("%H:%M:%S")
    return str(_moment(cell)) if isinstance(cell, date) else str(cell)
