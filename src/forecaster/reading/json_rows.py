"""JSON as Arrow tables: a line for each row, an array of rows, or columns by their names.

Rows are decoded one at a time. Nested objects become columns such as `reading.kwh`.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from forecaster.errors import DataError, count_of
from forecaster.reading.compressed import open_bytes
from forecaster.reading.delimited import refuse_wide
from forecaster.reading.dialect import find_encoding

LINE_SUFFIXES = (".jsonl", ".ndjson")
SUFFIXES = (*LINE_SUFFIXES, ".json")
_CHUNK = 1 << 20
MOST_DOCUMENT = 256 << 20  # characters of a document that is decoded as a whole
_ROWS = 1 << 15  # that are held as objects at a time
FREE_CELLS, SPARSE = 2_000_000, 4  # cells of a table, and of each of its characters
_BETWEEN = " \t\r\n,[]"  # rows, at the top of a document
_NUMBERS = (pa.int64(), pa.float64(), pa.null())
_EXAMPLE = 'give an object for each row, {"time": …, "value": …}'


def read_json(path: Path) -> tuple[pa.Table, str]:
    """Return the table of a file of JSON, and how it is written."""
    size = [0]
    with open_bytes(path) as stream:
        try:
            rows, form = _open_rows(_texts(stream, size), path)
            table = _to_table(rows, path, size)
        except (ValueError, RecursionError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: cannot be read as JSON ({error}); {_EXAMPLE}") from error
    return table, form


def _texts(stream: Any, size: list[int]) -> Iterator[str]:
    """Yield the parts of a text; the number of characters so far is in `size`."""
    head = stream.read(_CHUNK)
    decoder = codecs.getincrementaldecoder(find_encoding(head))()
    while head:
        text = decoder.decode(head)
        size[0] += len(text)
        yield text
        head = stream.read(_CHUNK)


def _open_rows(texts: Iterator[str], path: Path) -> tuple[Iterable[Any], str]:
    """Return the rows, and whether they are lines, an array or a document around them."""
    first = next(texts, "").lstrip()
    if first.startswith("["):
        return _decode(first, texts), "JSON array"
    try:
        _, end = json.JSONDecoder().raw_decode(first)
        is_document = not first[end:].strip() and len(first) < _CHUNK
    except ValueError:
        is_document = True
    if not is_document:
        return _decode(first, texts), "JSON lines"
    parts, length = [first], len(first)
    for text in texts:
        parts.append(text)
        length += len(text)
        if length > MOST_DOCUMENT:
            most = f"more than {MOST_DOCUMENT >> 20} MiB in one object"
            raise DataError(f"{path}: refused: {most}; {_EXAMPLE}, one to a line")
    return _rows_of(json.loads("".join(parts))), "JSON document"


def _decode(text: str, texts: Iterator[str]) -> Iterator[Any]:
    """Yield the values at the top of a document, which commas, brackets or lines divide."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        row = _decode_one(decoder, text, at)
        if row is None or row[1] == len(text):  # a number or an object may be cut
            more = next(texts, None)
            if more is not None:
                text, at = text[at:] + more, 0
                if len(text) > MOST_DOCUMENT:
                    raise ValueError("a row without end")
                continue
            if not text[at:].strip(_BETWEEN):
                return
        value, end = row or decoder.raw_decode(text, at)  # raises the error
        yield value
        at = end


def _decode_one(decoder: json.JSONDecoder, text: str, at: int) -> tuple[Any, int] | None:
    """Return the value that begins at a place and its end; None: it is cut, or none."""
    try:
        return decoder.raw_decode(text, at)
    except ValueError:
        return None


def _rows_of(document: Any) -> Iterable[Any]:
    """Return the rows in a document: its only list of objects, or its columns."""
    if not isinstance(document, dict):
        return [document]
    lists = [v for v in document.values() if _is_rows(v)]
    if not lists:
        inside = (v for v in document.values() if isinstance(v, dict))
        lists = [v for inner in inside for v in inner.values() if _is_rows(v)]
    if len(lists) == 1:
        return list(lists[0])
    columns = list(document.values())
    if columns and all(isinstance(c, list) for c in columns) and len({*map(len, columns)}) == 1:
        return [dict(zip(document, row, strict=True)) for row in zip(*columns, strict=True)]
    if columns and all(isinstance(c, dict) and c.keys() == columns[0].keys() for c in columns):
        return [{name: c[row] for name, c in document.items()} for row in columns[0]]
    return [document]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(r, dict) for r in value)


def _to_table(rows: Iterable[Any], path: Path, size: list[int]) -> pa.Table:
    parts: list[dict[str, pa.Array]] = []
    lengths: list[int] = []
    names: dict[str, None] = {}
    held: list[dict[str, Any]] = []

    def finish() -> None:
        names.update(dict.fromkeys(name for row in held for name in row))
        refuse_wide(path, len(names))
        cells = len(names) * (sum(lengths) + len(held))
        if cells > SPARSE * (FREE_CELLS + size[0]):
            raise DataError(
                f"{path}: refused: {cells:,} cells of {count_of(len(names), 'field')}, most of "
                "them empty; give rows of the same fields"
            )
        present = dict.fromkeys(name for row in held for name in row)
        parts.append({name: _column([row.get(name) for row in held]) for name in present})
        lengths.append(len(held))
        held.clear()

    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} is {str(row)[:40]!r}")
        held.append(dict(_flat(row)))
        if len(held) == _ROWS:
            finish()
    finish()
    if not names:
        raise DataError(f"{path}: cannot be read as a table (it is empty); {_EXAMPLE}")
    return pa.table({name: _join(name, parts, lengths) for name in names})


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a row by name; those of nested objects as `outer.inner`."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _column(values: list[Any]) -> pa.Array:
    """Return numbers as numbers, and all else as text; NaN is null."""
    plain = [None if value != value else value for value in values]  # noqa: PLR0124 (NaN)
    kinds = {type(value) for value in plain if value is not None}
    if kinds <= {int, float}:
        try:
            return pa.array(plain, None if kinds else pa.null())
        except (pa.ArrowException, OverflowError):  # whole numbers beyond 64 bits
            return pa.array([None if v is None else float(v) for v in plain], pa.float64())
    if kinds == {bool}:
        return pa.array(plain, pa.bool_()).cast(pa.int64())
    return pa.array([_text(value) for value in plain], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


def _join(name: str, parts: list[dict[str, pa.Array]], lengths: list[int]) -> pa.ChunkedArray:
    """Return a column of all parts; numbers beside texts are texts."""
    columns = [part.get(name, pa.nulls(n)) for part, n in zip(parts, lengths, strict=True)]
    kinds = {column.type for column in columns}
    kind = max(kinds - {pa.null()}, key=lambda k: k not in _NUMBERS, default=pa.null())
    if kind in _NUMBERS and pa.float64() in kinds:
        kind = pa.float64()
    return pa.chunked_array([column.cast(kind) for column in columns], kind)
