"""Arrow streams that clients send, read as the content that JSON of the same rows has.

A stream of two megabytes could unfold to gigabytes: by compressed buffers, by one long text that
all rows share, or by types that repeat values. Such streams are refused before they are unfolded.
"""

import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from fastapi import Request

from forecaster.errors import name_some, printable
from forecaster.serve.http.schemas import MAX_COVARIATES, MAX_ITEMS, MAX_NAME
from forecaster.serve.problems import Problem

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
MAX_MESSAGES = 1_000
MAX_TEXT_BYTES = 4 * MAX_NAME  # of UTF-8
TABLES = ("observations", "covariates")  # the last parts of paths that take streams
_RECORD_BATCH, _COMPRESSION = 1, 3  # fields of the tables DictionaryBatch and RecordBatch


def is_arrow(media_type: str) -> bool:
    """Whether a header `Content-Type` names an Arrow stream."""
    return media_type.partition(";")[0].strip().lower() == MEDIA_TYPE


def accepts_arrow(accept: str) -> bool:
    """Whether a header `Accept` names Arrow streams."""
    return any(is_arrow(part) for part in accept.split(","))


class ArrowRequest(Request):
    """A request with an Arrow stream, which is checked like the JSON of the same rows."""

    def __init__(self, request: Request) -> None:
        kept = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        headers = [*kept, (b"content-type", b"application/json")]
        super().__init__({**request.scope, "headers": headers}, request.receive)

    async def json(self) -> Any:
        """Return the content of the body."""
        return read_rows(await self.body(), self.url.path.rpartition("/")[2])


def read_rows(body: bytes, table: str) -> dict[str, Any]:
    """Return a stream as the content of JSON.

    Args:
        body: with the columns `location`, `ds` and `value`, or `ds` and a column per covariate.
        table: `observations` or `covariates`.
    """
    if table not in TABLES:
        raise Problem(415, "no_arrow", f"Arrow streams are taken for {' and '.join(TABLES)} only")
    try:
        rows = _read_stream(body)
    except (pa.ArrowException, struct.error, ValueError, OSError) as error:
        detail = f"the body is not a valid Arrow stream: {printable(error)}"
        raise Problem(422, "not_arrow", detail) from error
    if table == "covariates":
        return {table: [{"ds": row.pop("ds", None), "values": row} for row in rows]}
    return {table: rows}


def _read_stream(body: bytes) -> list[dict[str, Any]]:
    _refuse_compressed(body)
    rows: list[dict[str, Any]] = []
    with pa.ipc.open_stream(pa.BufferReader(body)) as stream:
        names = stream.schema.names
        if len(names) > MAX_COVARIATES + 1 or len({*names}) < len(names):
            raise ValueError(f"{len(names)} columns; at most {MAX_COVARIATES + 1}, each once")
        for batch in stream:
            if len(rows) + batch.num_rows > MAX_ITEMS:
                raise Problem(422, "too_many", f"a stream has at most {MAX_ITEMS:,} rows")
            batch.validate(full=True)
            columns = [_to_plain(n, c) for n, c in zip(names, batch.columns, strict=True)]
            rows += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _to_plain(name: str, column: pa.Array) -> list[Any]:
    """Return a column as JSON would have it: numbers, texts, and times as ISO 8601."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        times = column.cast(pa.timestamp("us", kind.tz))
        return [None if time is None else time.isoformat() for time in times.to_pylist()]
    texts = column.dictionary if pa.types.is_dictionary(kind) else column
    if _is_text(texts.type):
        if (pc.max(pc.binary_length(texts.cast(pa.large_string()))).as_py() or 0) > MAX_TEXT_BYTES:
            raise ValueError(f"column {name}: a text is longer than {MAX_NAME} characters")
        return list(column.to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return list(column.to_pylist())
    raise ValueError(f"column {name}: {kind}; give {name_some(('numbers', 'texts', 'times'))}")


def _is_text(kind: pa.DataType) -> bool:
    is_plain = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_plain or pa.types.is_string_view(kind))


def _refuse_compressed(body: bytes) -> None:
    """Refuse compressed buffers, whose size is known when they are unfolded only."""
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(body))
    for number, message in enumerate(messages):
        if number >= MAX_MESSAGES:
            raise ValueError(f"more than {MAX_MESSAGES:,} messages")
        if _is_compressed(message):
            raise Problem(415, "compressed", "send the Arrow stream without compressed buffers")


def _is_compressed(message: Any) -> bool:
    """Whether the metadata of a message, a flatbuffer, tells a compression of its buffers."""
    metadata = message.metadata.to_pybytes()
    (root,) = struct.unpack_from("<I", metadata)
    batch = _follow(metadata, root, 2)  # the header of the message
    if message.type == "dictionary":
        batch = _follow(metadata, batch, _RECORD_BATCH)
    elif message.type != "record batch":
        return False
    return _field(metadata, batch, _COMPRESSION) != 0


def _follow(buffer: bytes, table: int, field: int) -> int:
    """Return the position of the table that a field refers to."""
    place = table + _field(buffer, table, field)
    return int(place + struct.unpack_from("<I", buffer, place)[0])


def _field(buffer: bytes, table: int, field: int) -> int:
    """Return where a field lies in its table; 0: it is not there."""
    slots = table - struct.unpack_from("<i", buffer, table)[0]
    slot = 4 + 2 * field
    if slot >= struct.unpack_from("<H", buffer, slots)[0]:
        return 0
    return int(struct.unpack_from("<H", buffer, slots + slot)[0])
