"""A table from anything that is one: `load`.

Files: text with delimited columns, JSON, Parquet and workbooks, compressed or not. Objects: frames
of pandas and polars, Arrow tables, relations of DuckDB, and all else with Arrow's or the dataframe
interchange protocol.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.interchange
import pyarrow.parquet as pq

from forecaster.choices import DecimalMark
from forecaster.errors import DataError, name_some
from forecaster.reading import compressed, json_rows, workbook
from forecaster.reading.delimited import read_delimited, refuse_wide
from forecaster.reading.json_rows import read_json
from forecaster.reading.numerals import convert_numerals
from forecaster.reading.reshape import join_files
from forecaster.reading.summary_rows import drop_summary_rows
from forecaster.reading.workbook import read_workbook

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".dat", ".psv", ".asc")
PARQUET_SUFFIXES = (".parquet", ".pq")
_PACKED = ("", *compressed.SUFFIXES)
JSON_SUFFIXES = tuple(form + packed for form in json_rows.SUFFIXES for packed in _PACKED)
TABLE_SUFFIXES = (
    *PARQUET_SUFFIXES,
    *workbook.SUFFIXES,
    *(text + packed for text in TEXT_SUFFIXES for packed in _PACKED),
    *JSON_SUFFIXES,
)
_SOURCE, _FORM = b"forecaster.source", b"forecaster.form"
_PARQUET_EXPANSION = 2_000  # a column of one value reaches about that
_BYTES_PER_CELL = 8


@runtime_checkable
class ArrowStream(Protocol):
    """A table with Arrow's protocol (the PyCapsule interface), such as a frame of polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a capsule."""


@runtime_checkable
class Interchange(Protocol):
    """A table with the dataframe interchange protocol."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        """Return the table as an object of the protocol."""


Table: TypeAlias = pd.DataFrame | pa.Table | ArrowStream | Interchange | str | Path
Tables: TypeAlias = Table | Sequence[Table]  # one, or several files of one


@dataclass(frozen=True)
class ReadRules:
    """What a reader is told about a table, where the table itself does not tell."""

    decimal: DecimalMark | None = None  # in numbers
    missing: tuple[str, ...] = ()  # markers, such as -999 or n/a


def load(
    source: Table, texts: Sequence[str] = (), rules: ReadRules | None = None
) -> tuple[pa.Table, str]:
    """Return a table and its name for messages.

    Args:
        source: a file, a frame or another table.
        texts: columns of a text file that are read as text, in any case.
        rules: what the table does not tell.
    """
    rules = rules or ReadRules()
    if isinstance(source, pa.Table):
        return source, (source.schema.metadata or {}).get(_SOURCE, b"table").decode()
    if isinstance(source, pd.DataFrame):
        return _from_pandas(source), "table"
    if isinstance(source, ArrowStream | Interchange):
        return _from_protocol(source), "table"
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a .csv, .xlsx or .parquet table")
    return _read_file(path, texts, rules), str(path)


def form_of(table: pa.Table) -> str:
    """Return how the file of a table is written: `semicolon-separated, cp1252`."""
    return str((table.schema.metadata or {}).get(_FORM, b"a table in memory").decode())


def note_form(table: pa.Table, notes: Sequence[str]) -> pa.Table:
    """Return the table with further notes on how it was read."""
    form = ", ".join((form_of(table), *notes)).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _FORM: form})


def _read_file(path: Path, texts: Sequence[str], rules: ReadRules) -> pa.Table:
    suffix = "".join(path.suffixes[-2:]).lower()
    try:
        if suffix.endswith(PARQUET_SUFFIXES):
            _refuse_large_parquet(path)
            return _named(_read_parquet(path), path, "Parquet")
        if suffix.endswith(workbook.SUFFIXES):
            return _read_sheets(path, rules)
        as_text = {"unique_id", "id", "name", "ds", "time", *(text.lower() for text in texts)}
        if suffix.endswith(JSON_SUFFIXES):
            table, form = read_json(path)
            decimal, missing = rules.decimal or ".", rules.missing
            table, placeholders = convert_numerals(table, decimal, missing, as_text)
            return _named(table, path, ", ".join((form, *placeholders)))
        if suffix.endswith(TABLE_SUFFIXES):
            table, dialect = read_delimited(path, [*as_text], rules.decimal, rules.missing)
            return _named(table, path, str(dialect))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a table ({error})") from error
    raise DataError(
        f"{path}: {path.suffix or 'no suffix'}; give a .csv (also .gz, .zst, .xz), .xlsx, "
        ".jsonl or .parquet file"
    )


def _read_sheets(path: Path, rules: ReadRules) -> pa.Table:
    """Return the table of a workbook; sheets of the same columns are joined as files are."""
    sheets, count = read_workbook(path)
    parts: list[tuple[pa.Table, str]] = []
    notes: dict[str, None] = {}
    for sheet, name in sheets:
        table, placeholders = convert_numerals(sheet, rules.decimal or ".", rules.missing)
        table, left_out = drop_summary_rows(table)
        notes |= dict.fromkeys((*placeholders, *left_out))
        parts.append((table, name))
    names = [name for _, name in parts]
    try:
        table = parts[0][0] if len(parts) == 1 else join_files(parts)[0]
    except (DataError, pa.ArrowException):  # sheets that hold other things
        table, names = parts[0][0], names[:1]
    form = f"sheet{'s' * (len(names) > 1)} {name_some(map(repr, names), 3)}"
    form += f" of {count}" * (count > len(names))
    return _named(table, path, ", ".join((form, *notes)))


def _refuse_large_parquet(path: Path) -> None:
    metadata = pq.read_metadata(path)
    refuse_wide(path, metadata.num_columns)
    need = metadata.num_rows * metadata.num_columns * _BYTES_PER_CELL
    size = path.stat().st_size
    if need > max(_PARQUET_EXPANSION * size, compressed.FREE_BYTES):
        raise DataError(
            f"{path}: refused: {size:,} bytes become {need:,}, more than {_PARQUET_EXPANSION:,} "
            "times as many; give the table in smaller files"
        )


def _read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file; equal texts are held once until it is known what they become."""
    schema = pq.read_schema(path)
    texts = [
        f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)
    ]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()  # read_table holds ten times as much for many columns
    expanded = 0
    for column in table.columns:
        for chunk in column.chunks:
            if pa.types.is_dictionary(chunk.type) and _is_text(chunk.dictionary.type):
                lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
                expanded += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    compressed.refuse_expansion(path, expanded)
    for name in texts:
        column, place = table[name], table.column_names.index(name)
        table = table.set_column(place, name, column.cast(schema.field(name).type))
    return table


def _named(table: pa.Table, path: Path, form: str) -> pa.Table:
    """Return the table with its file and form in its metadata, which select and rename keep."""
    return table.replace_schema_metadata({_SOURCE: str(path).encode(), _FORM: form.encode()})


def _from_protocol(source: ArrowStream | Interchange) -> pa.Table:
    try:
        table = (
            pa.table(source)
            if isinstance(source, ArrowStream)
            else pa.interchange.from_dataframe(source)
        )
        return pa.table({n: _plain(table[n]) for n in table.column_names})
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"table: columns must be numbers, texts or times ({error})") from error


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column whose texts are Arrow's plain ones; polars and DuckDB have others."""
    if pa.types.is_dictionary(column.type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.string()))
            for chunk in column.chunks
            if _is_text(chunk.dictionary.type)
        ]
        return pa.chunked_array(chunks) if len(chunks) == column.num_chunks else column
    return column.cast(pa.string()) if _is_text(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    is_string = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_string or pa.types.is_string_view(kind))


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    try:
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        frame = frame.rename(columns=str)
        refuse_doubled(list(frame.columns), "table")
        # Objects (mixed offsets, Python datetimes) become text, so that there is one parser.
        as_text = {c: frame[c].map(_as_text) for c in frame.columns if frame[c].dtype == object}
        table = pa.Table.from_pandas(frame.assign(**as_text), preserve_index=False)
        return pa.table({n: _plain(table[n]) for n in table.column_names})
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"table: columns must be numbers, texts or times ({error})") from error


def refuse_doubled(names: list[str], source: str) -> None:
    """Refuse columns given twice."""
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise DataError(f"{source}: columns given twice: {name_some(doubled)}")


def _as_text(value: Any) -> str | None:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(value)
