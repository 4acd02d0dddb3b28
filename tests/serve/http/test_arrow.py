"""Arrow streams, sent and received."""

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.panel.panel import Panel
from forecaster.serve.http import arrow
from forecaster.serve.http.arrow import MEDIA_TYPE, read_rows
from forecaster.serve.problems import Problem
from tests.serve.client import Reply
from tests.serve.conftest import HOURS, Running, SettableClock


def to_stream(table: pa.Table | dict[str, Any], **options: Any) -> bytes:
    table = pa.table(table)
    sink = pa.BufferOutputStream()
    options = {"options": pa.ipc.IpcWriteOptions(**options)}
    with pa.ipc.new_stream(sink, table.schema, **options) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def read(reply: Reply) -> pa.Table:
    assert reply.headers["content-type"] == MEDIA_TYPE
    return pa.ipc.open_stream(reply.body).read_all()


def post(service: Running, body: bytes, path: str = "observations", **headers: Any) -> Reply:
    return service.post(f"/v1/{path}", body, Content_Type=MEDIA_TYPE, **headers)


def test_an_arrow_forecast_has_the_numbers_of_json(shared_service: Running) -> None:
    told = shared_service.get("/v1/forecast").json
    reply = shared_service.get("/v1/forecast", Accept=f"text/html, {MEDIA_TYPE};q=0.9")
    table = read(reply)
    assert table.column_names == ["unique_id", "ds", "y_hat", "q10", "q50", "q90"]
    assert table["unique_id"].to_pylist() == [r["id"] for r in told["forecasts"] for _ in range(3)]
    stamps = [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in table["ds"].to_pylist()]
    assert stamps == [step["ds"] for step in told["steps"]] * 5
    for name in ("y_hat", "q10", "q90"):
        expected = np.ravel([row[name] for row in told["forecasts"]])
        assert np.allclose(table[name].to_numpy(), expected, rtol=1e-5)
    basis = pa.ipc.open_stream(reply.body).schema.metadata[b"forecaster.basis"]
    assert f'"origin": "{told["origin"]}"'.encode() in basis
    assert reply.headers["x-forecast-model"] == told["model"]
    assert reply.headers["vary"] == "Accept"


def test_an_arrow_forecast_of_one_location_is_a_part_of_all(shared_service: Running) -> None:
    whole = read(shared_service.get("/v1/forecast?format=arrow"))
    part = read(shared_service.get("/v1/forecast?format=arrow&location=L0003"))
    assert part.to_pylist() == whole.slice(6, 3).to_pylist()
    etag = shared_service.get("/v1/forecast?format=arrow").headers["etag"]
    again = shared_service.get("/v1/forecast", Accept=MEDIA_TYPE, If_None_Match=etag)
    assert (again.status, again.body) == (304, b"")
    assert shared_service.get("/v1/forecast", If_None_Match=etag).status == 200  # JSON is another
    json = shared_service.get("/v1/forecast?format=json", Accept=MEDIA_TYPE)
    assert json.headers["content-type"] == "application/json"


def test_doubts_are_a_column_of_an_arrow_forecast(service: Running, panel: Panel) -> None:
    odd = {"location": ["L0004"], "ds": [f"{panel.times[-1]}Z"], "value": [4_000]}
    assert post(service, to_stream(odd)).json["accepted"] == 1
    reasons = read(service.get("/v1/forecast", Accept=MEDIA_TYPE))["degraded"].to_pylist()
    assert [reason is None for reason in reasons] == [True] * 9 + [False] * 3 + [True] * 3


@pytest.mark.parametrize("form", ["text", "dictionary", "instants"])
def test_observations_in_arrow_are_those_of_json(
    service: Running, panel: Panel, whole: Panel, clock: SettableClock, form: str
) -> None:
    clock.pass_hours(1)
    ids = pa.array(panel.locations.ids)
    moment = panel.start + np.timedelta64(HOURS, "h")
    times = pa.array([f"{moment}Z"] * 5)
    if form == "dictionary":
        ids, times = ids.dictionary_encode(), times.dictionary_encode()
    if form == "instants":
        instants = pa.array([moment] * 5).cast(pa.timestamp("ns", "UTC"))
        times = instants.cast(pa.timestamp("ns", "America/New_York"))
    values = [*whole.values[HOURS].tolist()[:-1], None]
    stream = to_stream({"location": ids, "ds": times, "value": pa.array(values, pa.float32())})
    reply = post(service, stream, Idempotency_Key="once")
    assert reply.json == {"accepted": 5, "revised": 0, "unchanged": 0, "data_version": 1}
    assert post(service, stream, Idempotency_Key="once").json == reply.json
    history = service.get("/v1/history?location=L0002&hours=1").json
    assert history["values"] == [whole.values[HOURS, 1]]


def test_covariates_in_arrow_have_a_column_each(service: Running, panel: Panel) -> None:
    name = panel.covariates.names[0]
    ahead = f"{panel.times[-1] + np.timedelta64(2, 'h')}Z"
    reply = post(service, to_stream({"ds": [ahead], name: [1.5]}), "covariates")
    assert reply.json["accepted"] == 1
    assert post(service, to_stream({"ds": [ahead]}), "locations").json["code"] == "no_arrow"


def test_arrow_is_refused_as_json_is(service: Running, panel: Panel) -> None:
    now = f"{panel.times[-1]}Z"

    def refuse(column: str, value: Any, text: str) -> None:
        row = {"location": "L0001", "ds": now, "value": 1.0, column: value}
        reply = post(service, to_stream({name: [item] for name, item in row.items()}))
        assert (reply.status, text in reply.json["detail"]) == (422, True), reply.json

    refuse("location", "nowhere", "no such location")
    refuse("value", -1.0, "a count is never below 0")
    refuse("value", float("nan"), "finite number")
    refuse("ds", panel.times[-1].astype(object), "give a time with its offset")
    refuse("ds", now.replace("00Z", "07Z"), "not the start of a step")
    refuse("speed", 3, "Extra inputs are not permitted")
    assert service.post("/v1/observations", b"", None, Content_Type=MEDIA_TYPE).status == 401
    assert service.get("/v1/history?location=L0001&hours=1").json["values"] != [None]


def refusal(body: bytes) -> Problem:
    with pytest.raises(Problem) as refused:
        read_rows(body, "observations")
    return refused.value


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_compressed_stream_is_refused_before_it_unfolds(codec: str, encoded: bool) -> None:
    column = pa.array(["x" * 700] * 9_000)
    column = column.dictionary_encode() if encoded else column
    assert refusal(to_stream({"location": column}, compression=codec)).code == "compressed"


def test_a_long_text_that_all_rows_share_is_refused() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 9_000), pa.array(["x" * 1_000_000]))
    assert "longer than 200 characters" in str(refusal(to_stream({"location": column})))


def test_too_many_rows_messages_or_columns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"value": pa.nulls(10_001)})
    assert refusal(to_stream(rows)).code == "too_many"
    assert "102 columns" in str(refusal(to_stream({f"c{n}": [1] for n in range(102)})))
    monkeypatch.setattr(arrow, "MAX_MESSAGES", 3)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        for _ in range(4):
            stream.write_table(rows.slice(0, 1))
    assert "more than 3 messages" in str(refusal(sink.getvalue().to_pybytes()))


@pytest.mark.parametrize(
    "column",
    [
        [[1, 2]], [{"a": 1}], [b"x"],
        pa.RunEndEncodedArray.from_arrays([10_000], ["x" * 10]),
    ],
)  # fmt: skip
def test_other_types_are_refused(column: Any) -> None:
    assert "give numbers, texts, times" in str(refusal(to_stream({"location": column})))


def test_damaged_streams_are_refused() -> None:
    stream = to_stream(
        {"location": pa.array(["a", "b"]).dictionary_encode(), "ds": ["x", "y"], "value": [1, 2]}
    )
    assert refusal(b"").code == refusal(b"[]").code == refusal(stream[:200]).code == "not_arrow"

    @given(st.integers(0, len(stream) - 4), st.integers(0, 2**32 - 1))
    def damage(place: int, value: int) -> None:
        damaged = bytearray(stream)
        struct.pack_into("<I", damaged, place, value)
        with suppress(Problem):
            assert len(read_rows(bytes(damaged), "observations")["observations"]) <= 10_000

    damage()
