"""Traces and metrics, as the in-memory exporter of OpenTelemetry receives them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from forecaster.errors import ArtifactError, ConfigError
from forecaster.panel.panel import Panel
from forecaster.serve import tracing
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.connection import Connection
from forecaster.serve.telemetry import OpenTelemetry, send_to
from tests.serve.conftest import Running
from tests.serve.test_following import wait_until

PARENT = "0af7651916cd43dd8448eb211c80319c"


class Memory:
    """What was exported."""

    def __init__(self) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = OpenTelemetry(traces, MeterProvider([self._reader]))

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def await_spans(self, name: str) -> list[ReadableSpan]:
        """Wait for a span, which ends just after the client has its answer."""
        wait_until(lambda: bool(self.spans(name)))
        return self.spans(name)

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], Any]]]:
        """Return the points of each metric: attributes, and a value or a count."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [
                (dict(point.attributes), getattr(point, "value", getattr(point, "count", None)))
                for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def memory() -> Iterator[Memory]:
    """Return what is exported while telemetry is on."""
    memory = Memory()
    tracing.use(memory.telemetry)
    yield memory
    tracing.use(None)


def observe(service: Running, panel: Panel, value: float = 7.0) -> None:
    row = {"location": panel.locations.ids[0], "ds": f"{panel.times[-3]}Z", "value": value}
    assert service.post("/v1/observations", {"observations": [row]}).status == 200


def test_a_request_its_forecast_and_its_write_are_traced(
    memory: Memory, engine: Engine, start: Callable[..., Running], panel: Panel
) -> None:
    service = start(engine)
    at = f"{panel.times[-30]}Z"
    header = f"00-{PARENT}-b7ad6b7169203331-01"
    reply = service.get(f"/v1/forecast?at={at}", traceparent=header)
    observe(service, panel)
    [request] = memory.await_spans("GET /v1/forecast")
    assert f"{request.context.trace_id:032x}" == PARENT  # it goes on with the client's trace
    assert request.attributes["http.route"] == "/v1/forecast"
    assert request.attributes["http.response.status_code"] == 200
    assert request.attributes["forecaster.request.id"] == reply.headers["x-request-id"]
    [forecast] = [
        span
        for span in memory.spans("forecast")
        if span.context.trace_id == request.context.trace_id
    ]
    assert forecast.parent.span_id == request.context.span_id
    assert forecast.attributes["forecaster.model"] == engine.model.digest
    assert forecast.attributes["forecaster.outcome"] == "done"
    predicted = [
        span
        for span in memory.spans("predict")  # in the computing thread
        if span.parent is not None and span.parent.span_id == forecast.context.span_id
    ]
    assert predicted
    [written] = memory.await_spans("store.write")  # in the writing thread
    [post] = memory.await_spans("POST /v1/observations")
    assert written.parent.span_id == post.context.span_id
    assert written.attributes["forecaster.entries"] == 1


def test_refusals_are_traced_and_counted(
    memory: Memory, engine: Engine, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(engine)
    assert service.post("/v1/observations", {}, token=None).status == 401
    assert service.get("/v1/forecast?at=x").status == 422
    assert service.get(f"/{'x' * 5_000}").status == 414
    monkeypatch.setattr(engine.worker, "limit", 0)
    assert service.get("/v1/forecast?at=2015-10-20T08:00Z").status == 503
    monkeypatch.setattr(Connection, "limit", 0)
    assert service.get("/v1/forecast?at=2015-10-20T08:00Z").status == 503  # not even parsed
    statuses = [
        (span.name, span.attributes["http.response.status_code"])
        for name in ("POST /v1/observations", "GET /v1/forecast", "GET")
        for span in memory.spans(name)
    ]
    assert ("POST /v1/observations", 401) in statuses
    assert ("GET /v1/forecast", 422) in statuses
    assert ("GET", 414) in statuses
    assert statuses.count(("GET /v1/forecast", 503)) == 1
    refused = [s for s in memory.spans("forecast") if s.attributes.get("forecaster.code")]
    assert {s.attributes["forecaster.code"] for s in refused} == {"busy"}
    metrics = memory.metrics()
    assert metrics["forecaster.refused"] == [({}, 1)]
    counted = {
        (point["http.request.method"], point["http.response.status_code"])
        for point, _ in metrics["http.server.request.duration"]
    }
    assert {("POST", 401), ("GET", 422), ("GET", 414), ("GET", 503)} <= counted
    outcomes = {
        (point["operation"], point["outcome"])
        for point, _ in metrics["forecaster.operation.duration"]
    }
    assert ("forecast", "refused") in outcomes


def test_a_reload_is_traced_whether_it_is_done_or_fails(memory: Memory, engine: Engine) -> None:
    def fail() -> Any:
        raise ArtifactError("damaged")

    asyncio.run(engine.loader.reload())
    engine.loader.load = fail
    asyncio.run(engine.loader.reload())
    done, failed = memory.spans("reload")
    assert done.attributes["forecaster.outcome"] == "done"
    assert failed.attributes["forecaster.outcome"] == "failed"
    assert failed.status.description == "ArtifactError"


def test_nothing_is_traced_by_default(engine: Engine, start: Callable[..., Running]) -> None:
    assert tracing.current() is None
    with tracing.span("forecast", origin="x"):
        pass
    assert start(engine).get("/v1/forecast").status == 200


def test_an_address_that_is_none_is_refused() -> None:
    for address in ("localhost:4318", "ftp://x", "http://", "http://x/?a=b"):
        with pytest.raises(ConfigError, match="not the address of a collector"):
            send_to(address)


def test_what_is_left_is_sent_in_the_end() -> None:
    received: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            received.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    telemetry = send_to(f"http://127.0.0.1:{server.server_port}/")
    with telemetry.span("reload", {}):
        pass
    telemetry.close()
    server.shutdown()
    server.server_close()
    assert sorted(received) == ["/v1/metrics", "/v1/traces"]
