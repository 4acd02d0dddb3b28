"""A forecast as JSON, CSV, GeoJSON and Arrow."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
from jaxtyping import Float, Float32

from forecaster.estimators.table import mark_closed, quantile_name
from forecaster.estimators.totals.totals import Span
from forecaster.panel.panel import Panel, local_texts
from forecaster.serve.forecasting.forecast import Forecast

SIGNIFICANT_DIGITS = 6
BASIS_COLUMNS = ("model", "data_version", "stale", "degraded")  # in every row of a CSV
BASIS_METADATA = b"forecaster.basis"  # of the schema of an Arrow stream
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would run such a text


def utc_text(time: np.datetime64) -> str:
    """Return an instant as 2014-06-01T12:00:00Z."""
    return f"{time}Z"


def local_text(panel: Panel, time: np.datetime64) -> str:
    """Return an instant on the wall clock with its offset: 2014-06-01T08:00:00-04:00."""
    return local_texts(panel, np.array([time]))[0]


def step_times(panel: Panel, times: np.ndarray) -> list[dict[str, str]]:
    """Return steps as `ds` (UTC) and `ds_local`."""
    pairs = zip(times, local_texts(panel, times), strict=True)
    return [{"ds": utc_text(time), "ds_local": local} for time, local in pairs]


def to_numbers(values: Float[np.ndarray, "*shape"]) -> Any:
    """Return numbers as nested lists with six significant digits, None for NaN.

    Rounded numbers keep their order, so that an interval still contains its forecast.
    """
    exact = values.astype(np.float64)
    finite = np.isfinite(exact)
    magnitude = np.zeros_like(exact)
    np.log10(np.abs(exact), out=magnitude, where=finite & (exact != 0))
    decimals = SIGNIFICANT_DIGITS - 1 - np.floor(magnitude)
    digits = np.round(exact * 10.0**decimals)
    carried = np.abs(digits) == 10.0**SIGNIFICANT_DIGITS  # 9.999999 is written as 10.0000
    rounded = np.where(carried, digits / 10, digits) / 10.0 ** (decimals - carried)
    if finite.all():
        return rounded.tolist()
    numbers = rounded.astype(object)
    numbers[~finite] = None
    return numbers.tolist()


def to_json(forecast: Forecast, columns: Sequence[int] | None = None) -> bytes:
    """Return `steps` and `forecasts` as the content of a JSON object without its braces.

    Args:
        forecast: the forecast.
        columns: of the locations; None: all.
    """
    content = _content(forecast, columns)
    return json.dumps(content, separators=(",", ":"))[1:-1].encode()


def to_csv(
    forecast: Forecast, basis: Mapping[str, Any], columns: Sequence[int] | None = None
) -> bytes:
    """Return the long table; texts that a spreadsheet would run as a formula are quoted.

    Not `estimators.table`: its CSV has pandas' times and all digits, this one RFC 4180 lines, ISO
    times and the basis of the forecast in every row; programs read both.

    Args:
        forecast: the forecast.
        basis: model, data and origin; its BASIS_COLUMNS are in every row, `degraded` together
            with the location's own reason.
        columns: of the locations; None: all.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    numbers = {name: to_numbers(values) for name, values in _named_numbers(forecast).items()}
    simple = ["fallback"] if forecast.fallback else []
    names = ["unique_id", "ds", "ds_local", "cutoff", *numbers, *simple, *BASIS_COLUMNS]
    writer.writerow(names)
    steps = step_times(forecast.panel, forecast.times)
    cutoff = utc_text(forecast.origin)
    for n in _columns(forecast, columns):
        identity = forecast.locations.ids[n]
        location, served = escape_formula(identity), forecast.fallback.get(identity, "")
        reasons = filter(None, (basis["degraded"], forecast.doubts.get(identity)))
        own = {**basis, "degraded": "; ".join(reasons)}
        basis_cells = [escape_formula(plain_text(own[name])) for name in BASIS_COLUMNS]
        closed_cells = [*basis_cells[:-1], escape_formula(mark_closed(own["degraded"]))]
        for k, step in enumerate(steps):
            is_closed = forecast.closed is not None and bool(forecast.closed[k, n])
            cells = [*(values[k][n] for values in numbers.values()), *(served for _ in simple)]
            times = step["ds"], step["ds_local"], cutoff
            own_cells = closed_cells if is_closed else basis_cells
            writer.writerow([location, *times, *cells, *own_cells])
    return out.getvalue().encode()


def to_geojson(forecast: Forecast, columns: Sequence[int] | None = None) -> dict[str, Any]:
    """Return one feature per location; without coordinates it has no geometry."""
    locations, content = forecast.locations, _content(forecast, columns)
    features = []
    for n, row in zip(_columns(forecast, columns), content["forecasts"], strict=True):
        properties = {"name": locations.names[n], **row}
        geometry = locations.point(n)
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    shared = {name: value for name, value in content.items() if name != "forecasts"}
    return {"type": "FeatureCollection", **shared, "features": features}


def to_arrow(
    forecast: Forecast, basis: Mapping[str, Any], columns: Sequence[int] | None = None
) -> bytes:
    """Return the long table as an Arrow stream, with all digits and the basis in its metadata.

    Args:
        forecast: the forecast.
        basis: model, data and origin.
        columns: of the locations; None: all.
    """
    batch, K = forecast.batch or to_batch(forecast), len(forecast.y_hat)
    if columns is not None:
        rows = np.add.outer(np.array(columns, dtype=np.int64) * K, np.arange(K))
        batch = batch.take(pa.array(rows.ravel()))
    schema = batch.schema.with_metadata({BASIS_METADATA: json.dumps(basis).encode()})
    is_whole = columns is None and forecast.arrow
    return bytes(schema.serialize()) + (forecast.arrow if is_whole else without_schema(batch))


def without_schema(batch: pa.RecordBatch) -> bytes:
    """Return an Arrow stream without the message of its schema, which differs by answer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())[batch.schema.serialize().size :]


def to_batch(forecast: Forecast) -> pa.RecordBatch:
    """Return the columns of the long table, one location after the other.

    `fallback`, `degraded` and `closed` are left out where no location has them.
    """
    (K, N), ids = forecast.y_hat.shape, forecast.locations.ids
    location = np.repeat(np.arange(N, dtype=np.int32), K)
    step = np.tile(np.arange(K), N)
    times = pa.array(forecast.times.astype("datetime64[s]")).cast(pa.timestamp("s", "UTC"))
    columns = {
        "unique_id": pa.DictionaryArray.from_arrays(location, pa.array(ids, pa.string())),
        "ds": times.take(pa.array(step)),
    }
    for name, values in _named_numbers(forecast).items():
        columns[name] = pa.array(values.T.reshape(-1), from_pandas=True)
    for name, texts in (("fallback", forecast.fallback), ("degraded", forecast.doubts)):
        if texts:
            each = pa.array([texts.get(identity) for identity in ids], pa.string())
            columns[name] = each.dictionary_encode().take(pa.array(location))
    if forecast.closed is not None:
        columns["closed"] = pa.array(forecast.closed.T.reshape(-1))
    return pa.RecordBatch.from_pydict(columns)


def plain_text(value: object) -> str:
    """Return a JSON value as text outside JSON: true, false, empty for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def escape_formula(text: str) -> str:
    """Return a text that no spreadsheet runs as a formula (OWASP ASVS 1.2.10)."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _content(forecast: Forecast, columns: Sequence[int] | None) -> dict[str, Any]:
    chosen = list(_columns(forecast, columns))
    fields = {
        name: to_numbers(values.T[chosen]) for name, values in _named_numbers(forecast).items()
    }
    fields["last"] = to_numbers(forecast.last[chosen])
    fields["usual"] = to_numbers(forecast.usual.T[chosen])
    rows: list[dict[str, Any]] = [
        {"id": forecast.locations.ids[n], **{name: column[i] for name, column in fields.items()}}
        for i, n in enumerate(chosen)
    ]
    for row in rows:
        for name, texts in (("fallback", forecast.fallback), ("degraded", forecast.doubts)):
            if row["id"] in texts:
                row[name] = texts[row["id"]]
    if forecast.closed is not None:
        for row, is_closed in zip(rows, forecast.closed.T[chosen], strict=True):
            if is_closed.any():
                row["closed"] = is_closed.tolist()
    days = _add_totals(forecast, chosen, rows)
    return {"steps": step_times(forecast.panel, forecast.times), **days, "forecasts": rows}


def _add_totals(
    forecast: Forecast, chosen: Sequence[int], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Add the totals over days to the rows of some locations; return the days, if there are any.

    Args:
        forecast: whose totals are added.
        chosen: the columns of the rows.
        rows: one for each location.
    """
    if forecast.totals is None:
        return {}
    spans, y_hat, quantiles = forecast.totals
    names = map(quantile_name, forecast.quantile_levels)
    sums = {"y_hat": y_hat, **dict(zip(names, quantiles, strict=True))}
    by_location = {name: to_numbers(values.T[chosen]) for name, values in sums.items()}
    for i, row in enumerate(rows):
        row["days"] = {name: column[i] for name, column in by_location.items()}
    return {"days": _span_times(forecast, spans)}


def _span_times(forecast: Forecast, spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Return the days of the totals, each with its first step and its number of steps."""
    starts = step_times(forecast.panel, forecast.times[[span.first - 1 for span in spans]])
    return [
        {"day": span.name, **start, "steps": span.last - span.first + 1}
        for span, start in zip(spans, starts, strict=True)
    ]


def _named_numbers(forecast: Forecast) -> dict[str, Float32[np.ndarray, "K N"]]:
    """The forecast numbers by their names: y_hat, y_relative if the run has it, quantiles."""
    relative = {} if forecast.y_relative is None else {"y_relative": forecast.y_relative}
    levels = map(quantile_name, forecast.quantile_levels)
    quantiles = dict(zip(levels, forecast.quantiles, strict=True))
    return {"y_hat": forecast.y_hat, **relative, **quantiles}


def _columns(forecast: Forecast, columns: Sequence[int] | None) -> Sequence[int]:
    return range(len(forecast.locations)) if columns is None else columns
