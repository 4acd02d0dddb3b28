"""Metrics in the text format of Prometheus."""

from collections import Counter
from collections.abc import Iterable, Mapping

from forecaster.serve.forecasting.engine import Engine

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts of requests by route and status, and their durations."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.refused = 0  # before the request was parsed
        self.connections = 0
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        label = method if method in METHODS else "other"  # a client may send any method
        self.requests[("method", label), ("route", route), ("status", str(status))] += 1
        self._buckets[min((b for b in BUCKETS if seconds <= b), default=float("inf"))] += 1
        self._seconds += seconds

    def render(self, engine: Engine) -> str:
        """Return all metrics as text."""
        freshness, model = engine.data.freshness(), engine.loader.model
        lines = [
            *_lines("forecaster_requests_total", "counter", self.requests),
            *self._histogram(),
            *_lines("forecaster_refused_total", "counter", {(): self.refused}),
            *_lines("forecaster_connections", "gauge", {(): self.connections}),
            *_lines("forecaster_forecasts_computed_total", "counter", {(): engine.computed}),
            *_lines("forecaster_forecasts_reused_total", "counter", {(): engine.reused}),
            *_lines("forecaster_queue", "gauge", {(): engine.worker.pending}),
            *_lines("forecaster_workers_replaced_total", "counter", {(): engine.worker.replaced}),
            *_lines("forecaster_ready", "gauge", {(): int(engine.why_not_ready() is None)}),
            *_lines("forecaster_data_version", "gauge", {(): engine.data.snapshot.version}),
        ]
        if model is not None:
            lines += _lines("forecaster_run", "gauge", {(("model", model.digest),): 1})
        for outcome, count in engine.loader.reloads.items():
            lines += _lines(f"forecaster_reloads_{outcome}_total", "counter", {(): count})
        if freshness.age_seconds is not None:
            lines += _lines("forecaster_data_age_seconds", "gauge", {(): freshness.age_seconds})
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name, total = "forecaster_request_seconds", 0
        counts: dict[Labels, int] = {}
        for bound in (*BUCKETS, float("inf")):
            total += self._buckets[bound]
            counts[(("le", "+Inf" if bound == float("inf") else f"{bound:g}"),)] = total
        lines = _lines(f"{name}_bucket", "histogram", counts)
        lines[0] = f"# TYPE {name} histogram"
        return [*lines, f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]


def _lines(name: str, kind: str, values: Mapping[Labels, int]) -> list[str]:
    return [f"# TYPE {name} {kind}", *(f"{name}{_labels(k)} {v}" for k, v in values.items())]


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    pairs = ",".join(f'{name}="{escape(text)}"' for name, text in labels)
    return f"{{{pairs}}}" if pairs else ""


def escape(text: str) -> str:
    """Return the text of a label, escaped for Prometheus."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
