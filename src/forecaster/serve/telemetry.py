"""OpenTelemetry: traces and metrics of requests, forecasts, the store and reloads, by OTLP."""

import os
import time
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forecaster import __version__
from forecaster.errors import ConfigError
from forecaster.serve.http.metrics import METHODS, Metrics
from forecaster.serve.problems import Problem

NAME = "forecaster"
SEND_SECONDS = 2.0  # for what has not been sent when the service ends, traces and metrics each


class OpenTelemetry:
    """Spans and durations of operations, and of requests."""

    def __init__(self, traces: TracerProvider, metrics: MeterProvider) -> None:
        self._traces, self._metrics = traces, metrics
        self._tracer = traces.get_tracer(NAME, __version__)
        self._meter = metrics.get_meter(NAME, __version__)
        self._durations = self._meter.create_histogram(
            "forecaster.operation.duration", "s", "duration of forecasts, writes and reloads"
        )

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
        """Open a span of an operation; it says whether that was done, refused or failed."""
        named = {f"{NAME}.{key}": value for key, value in attributes.items()}
        began, outcome = time.perf_counter(), "done"
        with self._tracer.start_as_current_span(
            name, attributes=named, record_exception=False, set_status_on_exception=False
        ) as current:
            try:
                yield
            except Problem as refusal:
                outcome = "refused"
                current.set_attribute(f"{NAME}.code", refusal.code)
                raise
            except CancelledError:
                outcome = "cancelled"
                raise
            except Exception as error:
                outcome = "failed"
                current.set_status(trace.StatusCode.ERROR, type(error).__name__)
                raise
            finally:
                current.set_attribute(f"{NAME}.outcome", outcome)
                labels = {"operation": name, "outcome": outcome}
                self._durations.record(time.perf_counter() - began, labels)

    def instrument(self, app: ASGIApp, counts: Metrics) -> ASGIApp:
        """Return the application with a span for every request, refusals included.

        Args:
            app: the application.
            counts: knows the requests that are refused before they are parsed.
        """
        self._meter.create_observable_counter(
            "forecaster.refused", [lambda _: _observe(counts.refused)],
            description="forecasts refused before they were parsed",
        )  # fmt: skip
        os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")  # today's names
        instrumented: ASGIApp = OpenTelemetryMiddleware(
            _named_by_route(app),
            default_span_details=_describe_request,
            tracer_provider=self._traces,
            meter_provider=self._metrics,
            exclude_spans=["receive", "send"],
        )
        return instrumented

    def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""
        milliseconds = int(SEND_SECONDS * 1e3)
        self._traces.force_flush(milliseconds)
        self._traces.shutdown()
        self._metrics.shutdown(milliseconds)


def send_to(address: str) -> OpenTelemetry:
    """Return telemetry that is sent by OTLP over HTTP, as to http://127.0.0.1:4318."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query:
        raise ConfigError(
            f"{address!a}: not the address of a collector; give one such as http://127.0.0.1:4318"
        )
    base = address.rstrip("/")
    name = os.environ.get("OTEL_SERVICE_NAME", NAME)
    resource = Resource.create({"service.name": name, "service.version": __version__})
    traces = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = OTLPSpanExporter(f"{base}/v1/traces", timeout=SEND_SECONDS)
    traces.add_span_processor(BatchSpanProcessor(exporter))
    sender = OTLPMetricExporter(f"{base}/v1/metrics", timeout=SEND_SECONDS)
    reader = PeriodicExportingMetricReader(sender)
    return OpenTelemetry(traces, MeterProvider([reader], resource, shutdown_on_exit=False))


def _describe_request(scope: Scope) -> tuple[str, dict[str, Any]]:
    """Return the name of a request's span until its route is known."""
    method: str = scope.get("method", "")
    return method if method in METHODS else "HTTP", {}


def _named_by_route(app: ASGIApp) -> ASGIApp:
    """Return the application; it names the span of a request by its route, and adds its id."""

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        request = trace.get_current_span()

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":  # the span ends with the response
                request.set_attribute(f"{NAME}.request.id", scope["state"]["id"])
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    request.update_name(f"{_describe_request(scope)[0]} {route}")
                    request.set_attribute("http.route", route)
            await send(message)

        await app(scope, receive, send_named)

    return named


def _observe(value: int) -> list[Observation]:
    return [Observation(value)]
