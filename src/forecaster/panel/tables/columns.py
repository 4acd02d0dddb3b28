"""Parsing of table columns into ids and numbers; all faults are reported.

Missing is null, not zero or NaN; only in pandas' plain float columns, which have no null, is it
NaN.
"""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from forecaster.errors import DataError, Faults, count_of, name_some, setting
from forecaster.panel.axis import VALUES
from forecaster.reading.load import refuse_doubled
from forecaster.reading.times import name_rows


def need_columns(table: pa.Table, needed: tuple[str, ...], source: str) -> None:
    """Refuse a table with missing or repeated columns."""
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        present = name_some(table.column_names, 20)
        raise DataError(f"{source}: no column {name_some(map(repr, missing))}; found: {present}")
    refuse_doubled(table.column_names, source)


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
        faults.add(f"{count_of(len(nulls), 'row')} without an id: {name_rows(nulls)}")
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, 0).to_numpy().astype(np.int64)
    ids = encoded.dictionary.to_pylist()
    return codes, ids if ids or not len(column) else [""]


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
            measured = f"; for measurements give {setting('kind', 'measurement')}"
            remedy = measured if "count" in reason else ""
            faults.add(f"column {name!r}: {count_of(len(at), 'value')} {reason}: {first}{remedy}")
    with np.errstate(over="ignore"):  # overflow is already a fault
        values = values.astype(digits)
    values[null] = np.nan
    return np.asarray(values)


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
            marker = setting("missing", str(texts.iloc[bad[0]]))
            remedy = (
                f"; if {'it stands' if len(bad) == 1 else 'they stand'} for missing give {marker}"
            )
            count = count_of(len(bad), "value")
            faults.add(f"column {name!r}: {count} not a number: {first}{remedy}")
        return pa.chunked_array([pa.array(parsed.to_numpy(np.float64), from_pandas=True)])
    faults.add(f"column {name!r}: {column.type} instead of numbers; drop or convert it")
    return pa.chunked_array([pa.nulls(len(column), pa.float64())])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
