"""Metrics for Prometheus: requests, the service, its data, and the quality of its forecasts.

The number of series is bounded: labels are routes, statuses, periods, states, scores, the served
run and its challenger, and at most ten locations.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from forecaster import __version__
from forecaster.errors import printable
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.quality import Quality
from forecaster.serve.http.audit import AuditLog

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
FIGURES = {
    "rmse": "RMSE of forecasts, in units of the data",
    "mape": "MAPE of forecasts, a fraction",
    "bias": "bias of forecasts, a fraction; above 0: too high",
    "coverage": "share of values inside the interval",
    "width": "mean width of the interval, in units of the data",
    "pinball": "pinball loss, mean over values and levels",
    "naive_rmse": "RMSE of the value a week before, of the same values",
    "values": "number of values that were compared",
}
STATES = {
    "present": "locations of the data",
    "silent": "open locations without a value in the recent steps",
    "closed": "locations that are closed, by their dates or opening hours",
    "implausible": "locations with an implausible or repeated value in the last day",
}
ADVICE = ("nothing", "look", "update", "unknown")  # of drift
COMPARED = {
    "rmse": "RMSE on the days that the served run and the challenger both have",
    "bias": "bias on these days, a fraction; above 0: too high",
    "coverage": "share of values inside the interval on these days",
}
Gauges = Iterator[Metric]


class Metrics:
    """Counts of requests by route and status, and their durations; counts of connections."""

    def __init__(self, audit: AuditLog | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.audit = audit
        self.refused = 0  # before the request was parsed
        self.connections = 0
        labels = ["method", "route", "status"]
        self.requests = Counter("forecaster_requests", "requests", labels, registry=self.registry)
        self.seconds = Histogram(
            "forecaster_request_seconds", "duration of requests", ["route"], registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        label = method if method in METHODS else "other"  # a client may send any method
        self.requests.labels(label, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def render(self, engine: Engine, quality: Quality | None, accept: str) -> tuple[bytes, str]:
        """Return all metrics in the format that a client accepts, and its media type.

        Args:
            engine: the service.
            quality: of its forecasts; None: not known.
            accept: the client's header.
        """
        encode, media_type = choose_encoder(accept)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(self.registry.collect))
        registry.register(_Collected(lambda: _of_service(self, engine)))
        registry.register(_Collected(lambda: _of_data(engine)))
        registry.register(_Collected(lambda: _of_drift(engine.drift)))
        registry.register(_Collected(lambda: _of_shadow(engine)))
        if quality is not None:
            registry.register(_Collected(lambda: _of_quality(quality)))
        content: bytes = encode(registry)
        return content, media_type


class _Collected(Collector):
    """Metrics that are read when they are asked for."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Gauges:
        return iter(self._collect())


def _of_service(metrics: Metrics, engine: Engine) -> Gauges:
    """Yield what the service does."""
    model, worker = engine.loader.model, engine.worker
    yield _counter("refused", "forecasts refused before they were parsed", metrics.refused)
    yield _counter("forecasts_computed", "computed forecasts", engine.computed)
    yield _counter("forecasts_reused", "forecasts from the cache", engine.reused)
    yield _counter("workers_replaced", "computing threads that hung", worker.replaced)
    if metrics.audit is not None:
        lost = "lines of the audit log that could not be written"
        yield _counter("audit_failures", lost, metrics.audit.failures)
    reloads = CounterMetricFamily("forecaster_reloads", "reloads of the run", labels=["outcome"])
    for outcome, count in engine.loader.reloads.items():
        reloads.add_metric([outcome], count)
    yield reloads
    yield _gauge("connections", "open connections", metrics.connections)
    yield _gauge("queue", "jobs that are computed or wait", worker.pending)
    yield _gauge("ready", "1 if there is a forecast of now", engine.why_not_ready() is None)
    yield _labelled("build", "version of the program", {"version": __version__})
    if model is not None:
        served = {"model": model.digest, "version": printable(model.version or "")}
        yield _labelled("run", "the served run, and its name among versions", served)
    refused = engine.loader.refused is not None
    yield _gauge("run_refused", "1 if the run that should be served failed its trial", refused)


def _of_data(engine: Engine) -> Gauges:
    """Yield how old the data is."""
    freshness = engine.data.freshness()
    yield _gauge("data_version", "grows with every write", engine.data.snapshot.version)
    yield _gauge("stale", "1 if the newest data is old", freshness.stale)
    yield _gauge("writable", "0 if observations cannot be stored", engine.data.broken is None)
    if freshness.age_seconds is not None:
        about = "age of the newest step with enough observations, in seconds"
        yield _gauge("data_age_seconds", about, freshness.age_seconds)


def _of_drift(state: dict[str, Any] | None) -> Gauges:
    """Yield how far the last weeks are from validation; nothing while that is not known."""
    if state is None:
        return
    advice = GaugeMetricFamily(
        "forecaster_drift_advice", "1 for what should be done about drift", labels=["advice"]
    )
    for name in ADVICE:
        advice.add_metric([name], float(state["advice"] == name))
    yield advice
    share = GaugeMetricFamily(
        "forecaster_drift_alarm_share",
        "cumulated deviation from validation, in units of the limit of its alarm",
        labels=["score"],
    )
    for watch in state["watches"]:
        share.add_metric([watch["name"]], watch["alarm_share"])
    yield share
    yield _gauge("drift_weeks", "whole weeks that were compared with validation", state["weeks"])
    about = "locations without a value for two days, though they had some before"
    yield _gauge("drift_silent_locations", about, state["silent_locations"])


def _of_shadow(engine: Engine) -> Gauges:
    """Yield the challenger, and how it compares with the served run."""
    shadow, model = engine.shadow, engine.loader.model
    if shadow is None:
        return
    refused = shadow.refused is not None
    yield _gauge("shadow_refused", "1 if the challenger cannot forecast", refused)
    if shadow.model is not None:
        named = {"model": shadow.model.digest, "version": printable(shadow.model.version or "")}
        yield _labelled("shadow", "the challenger, and its name among versions", named)
    compared = None if model is None else engine.compare_challenger(model)
    if compared is None:
        return
    yield _gauge("shadow_days", "days that both runs have", compared["days"])
    for name, about in COMPARED.items():
        family = GaugeMetricFamily(f"forecaster_shadow_{name}", about, labels=["run"])
        for run in ("served", "challenger"):
            _add(family, [run], compared[run][name])
        yield family


def _of_quality(quality: Quality) -> Gauges:
    """Yield the quality of the last forecasts, overall and at the worst locations."""
    if quality.expected_coverage is not None:
        about = "coverage of calibrated intervals"
        yield _gauge("expected_coverage", about, quality.expected_coverage)
    for name, about in FIGURES.items():
        overall = GaugeMetricFamily(f"forecaster_{name}", about, labels=["period"])
        for period, figures in quality.overall.items():
            _add(overall, [period], getattr(figures, name))
        yield overall
        worst = GaugeMetricFamily(
            f"forecaster_location_{name}",
            f"{about}, at the locations with the largest RMSE of a week",
            labels=["period", "location"],
        )
        for location, by_period in quality.worst.items():
            for period, figures in by_period.items():
                _add(worst, [period, printable(location)], getattr(figures, name))
        yield worst
    counts = asdict(quality.locations)
    for state, about in STATES.items():
        yield _gauge(f"locations_{state}", about, counts[state])


def _add(family: GaugeMetricFamily, labels: list[str], value: float | int | None) -> None:
    if value is not None:  # else there is nothing to measure
        family.add_metric(labels, value)


def _gauge(name: str, about: str, value: float | int) -> Metric:
    return GaugeMetricFamily(f"forecaster_{name}", about, value=float(value))


def _counter(name: str, about: str, value: int) -> Metric:
    return CounterMetricFamily(f"forecaster_{name}", about, value=value)


def _labelled(name: str, about: str, labels: dict[str, str]) -> Metric:
    family = GaugeMetricFamily(f"forecaster_{name}", about, labels=list(labels))
    family.add_metric(list(labels.values()), 1)
    return family
