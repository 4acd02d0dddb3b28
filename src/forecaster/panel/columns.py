"""Parsing of table columns into ids, times and numbers; all faults are reported.

Missing is null, not zero or NaN; only in pandas' plain float columns, which have no null, is it
NaN.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Bool, Int64, Shaped

from forecaster.errors import DataError, Faults, count_of, name_some
from forecaster.panel.axis import VALUES

Table: TypeAlias = pd.DataFrame | pa.Table | str | Path

_ISO = (
    r"^(?P<clock>\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?)?)?)"
    r"(?P<offset>Z|[+-](?:0\d|1[0-5]):?[0-5]\d)?$"  # all UTC offsets are below 16 hours
)
_QUARTER = r"^(\d{4})[- ]?Q([1-4])$"  # 2022Q4, 2022-Q4
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SOURCE = b"forecaster.source"
_NULL_TEXTS = ["", "NA", "N/A", "NULL", "null", "None"]
_SEPARATORS = ";\t|"  # of some tables named .csv
_MEASURED = '; for measurements use --kind measurement, or kind = "measurement"'


def load(source: Table, texts: Sequence[str] = ()) -> tuple[pa.Table, str]:
    """Return a table and its name for messages; columns in `texts` are read as text."""
    if isinstance(source, pa.Table):
        return source, (source.schema.metadata or {}).get(_SOURCE, b"table").decode()
    if isinstance(source, pd.DataFrame):
        return _from_pandas(source), "table"
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: no such file; give a .csv or .parquet table")
    try:
        if path.suffix == ".parquet":
            return _named(pq.read_table(path), path), str(path)
        if path.suffix in (".csv", ".gz"):
            return _named(_read_csv(path, texts), path), str(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a table ({error})") from error
    raise DataError(f"{path}: {path.suffix or 'no suffix'}; give a .csv, .csv.gz or .parquet file")


def _named(table: pa.Table, path: Path) -> pa.Table:
    """Return the table with the file's name in its metadata, which select and rename keep."""
    return table.replace_schema_metadata({_SOURCE: str(path).encode()})


def need_columns(table: pa.Table, needed: tuple[str, ...], source: str) -> None:
    """Refuse a table with missing or repeated columns."""
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        present = name_some(table.column_names, 20)
        raise DataError(f"{source}: no column {name_some(map(repr, missing))}; found: {present}")
    _refuse_doubled(table.column_names, source)


def encode_ids(
    column: pa.ChunkedArray, faults: Faults
) -> tuple[Int64[np.ndarray, " rows"], list[str]]:
    """Return the index of each row's id, and the ids in order of appearance."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (_is_text(column.type) or pa.types.is_integer(column.type)):
        faults.add(f"ids are {column.type}; give text or integers")
        return np.zeros(len(column), dtype=np.int64), [""]
    nulls = np.flatnonzero(pc.is_null(column).to_numpy())
    if len(nulls):
        faults.add(f"{count_of(len(nulls), 'row')} without an id: {_rows(nulls)}")
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, 0).to_numpy().astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def numbers(
    column: pa.ChunkedArray,
    name: str,
    faults: Faults,
    minimum: float | None = None,
    digits: type[np.floating[Any]] = np.float32,
) -> np.ndarray:
    """Return a column as floats with NaN for null; other values are added to the faults."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        column = _numbers_from_text(column, name, faults)
    null = pc.is_null(column).to_numpy()
    values = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy()
    faulty = {"NaN (missing must be null)": np.isnan(values), "infinite": np.isinf(values)}
    if minimum is not None:
        faulty[f"below {minimum:g}, impossible for a count"] = values < minimum
    too_large = np.abs(values) > np.finfo(digits).max
    faulty["too large"] = too_large & ~np.isinf(values)
    for reason, rows in faulty.items():
        if rows.any():
            at = np.flatnonzero(rows)
            first = name_some(f"row {i + 1} ({values[i]:g})" for i in at)
            remedy = _MEASURED if "count" in reason else ""
            faults.add(f"column {name!r}: {count_of(len(at), 'value')} {reason}: {first}{remedy}")
    with np.errstate(over="ignore"):  # overflow is already a fault
        values = values.astype(digits)
    values[null] = np.nan
    return np.asarray(values)


def parse_times(
    column: pa.ChunkedArray, name: str, faults: Faults
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    """Return seconds since 1970 and whether they are local times (without offset)."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(column.type):
        nulls = np.flatnonzero(pc.is_null(column).to_numpy())
        if len(nulls):
            faults.add(
                f"column {name!r}: {count_of(len(nulls), 'row')} without a time: {_rows(nulls)}"
            )
        ticks = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
        _refuse_fractions(ticks % _PER_SECOND[column.type.unit] != 0, name, faults)
        return ticks // _PER_SECOND[column.type.unit], column.type.tz is None
    if _is_text(column.type):
        return _parse_texts(column, name, faults)
    faults.add(f"column {name!r}: {column.type} is not a time; give e.g. 2014-06-01T08:00-04:00")
    return np.zeros(len(column), dtype=np.int64), False


def _from_pandas(frame: pd.DataFrame) -> pa.Table:
    try:
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        frame = frame.rename(columns=str)
        _refuse_doubled(list(frame.columns), "table")
        # Objects (mixed offsets, Python datetimes) become text, so that there is one parser.
        as_text = {c: frame[c].map(_as_text) for c in frame.columns if frame[c].dtype == object}
        return pa.Table.from_pandas(frame.assign(**as_text), preserve_index=False)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"table: columns must be numbers, texts or times ({error})") from error


def _refuse_doubled(names: list[str], source: str) -> None:
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise DataError(f"{source}: columns given twice: {name_some(doubled)}")


def _as_text(value: Any) -> str | None:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(value)


def _read_csv(path: Path, texts: Sequence[str]) -> pa.Table:
    """Read a CSV with ids and times as text, so that `007` and offsets are kept."""
    names = _read_header(path)
    as_text = {"unique_id", "id", "name", "ds", "time", *(text.lower() for text in texts)}
    convert = pyarrow.csv.ConvertOptions(
        column_types={n: pa.string() for n in names if n.strip().lower() in as_text},
        null_values=_NULL_TEXTS,
        strings_can_be_null=True,
    )
    return pyarrow.csv.read_csv(path, convert_options=convert)


def _read_header(path: Path) -> list[str]:
    """Return the names of the columns; a table that is not separated by commas is refused."""
    # Rows of another length are skipped here; read_csv reports them.
    lenient = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _: "skip")
    with pyarrow.csv.open_csv(path, parse_options=lenient) as head:
        names: list[str] = head.schema.names
    separators = [mark for mark in _SEPARATORS if len(names) == 1 and mark in names[0]]
    if separators:
        problem = f"{path}: one column, {names[0]!r}, apparently separated by {separators[0]!r}"
        raise DataError(f"{problem}; save the table with commas as separators and decimal points")
    return names


def _numbers_from_text(column: pa.ChunkedArray, name: str, faults: Faults) -> pa.ChunkedArray:
    if pa.types.is_null(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.float64())
    if pa.types.is_boolean(column.type) and name != VALUES:
        return column.cast(pa.int8())
    if _is_text(column.type):
        texts = column.to_pandas()
        parsed = pd.to_numeric(texts, errors="coerce")
        bad = np.flatnonzero((parsed.isna() & texts.notna()).to_numpy())
        first = name_some(f"row {i + 1} ({texts.iloc[i]!r})" for i in bad)
        if len(bad):
            faults.add(f"column {name!r}: {count_of(len(bad), 'value')} not a number: {first}")
        return pa.chunked_array([pa.array(parsed.to_numpy(np.float64), from_pandas=True)])
    faults.add(f"column {name!r}: {column.type} instead of numbers; drop or convert it")
    return pa.chunked_array([pa.nulls(len(column), pa.float64())])


def _parse_texts(
    column: pa.ChunkedArray, name: str, faults: Faults
) -> tuple[Int64[np.ndarray, " rows"], bool]:
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pandas()
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    spelled = texts.str.strip().str.replace(
        _QUARTER, lambda match: f"{match[1]}-{3 * int(match[2]) - 2:02d}", regex=True
    )
    parts = spelled.str.extract(_ISO)
    clock = pd.to_datetime(parts["clock"], format="ISO8601", errors="coerce")
    bad = np.append(clock.isna().to_numpy(dtype=bool), True)[codes]  # the last is for null
    if bad.any():
        at = np.flatnonzero(bad)
        first = name_some(f"row {i + 1} ({column[int(i)]})" for i in at)
        problem = f"column {name!r}: {count_of(len(at), 'row')} without a time: {first}"
        faults.add(f"{problem}; give e.g. 2014-06-01T08:00-04:00")
    offset = _offset_seconds(parts["offset"])
    naive = np.append(parts["offset"].isna().to_numpy(dtype=bool), False)[codes] & ~bad
    aware = ~naive & ~bad
    if naive.any() and aware.any():
        problem = f"column {name!r}: {count_of(int(naive.sum()), 'time')} without an offset"
        first = f"{int(aware.sum()):,} with one (row {int(np.argmax(aware)) + 1})"
        faults.add(f"{problem}, {first}; give all times with an offset, or none")
    micros = clock.to_numpy("datetime64[us]").astype(np.int64)
    micros[clock.isna().to_numpy(dtype=bool)] = 0
    _refuse_fractions(np.append(micros % 1_000_000 != 0, False)[codes], name, faults)
    seconds = np.append(micros // 1_000_000 - offset, 0)[codes]
    return seconds, bool(naive.any())


def _offset_seconds(texts: "pd.Series[str]") -> Int64[np.ndarray, " K"]:
    digits = texts.fillna("+0000").replace("Z", "+0000").str.replace(":", "")
    sign = np.where(digits.str[0] == "-", -1, 1)
    hours, minutes = (digits.str[a:b].to_numpy().astype(np.int64) for a, b in ((1, 3), (3, 5)))
    return np.asarray(sign * (hours * 3600 + minutes * 60), dtype=np.int64)


def _refuse_fractions(wrong: Bool[np.ndarray, " rows"], name: str, faults: Faults) -> None:
    if wrong.any():
        at = np.flatnonzero(wrong)
        faults.add(
            f"column {name!r}: {count_of(len(at), 'time')} with fractions of a second: {_rows(at)}"
        )


def _rows(at: Shaped[np.ndarray, " K"]) -> str:
    return name_some(f"row {i + 1}" for i in at)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
