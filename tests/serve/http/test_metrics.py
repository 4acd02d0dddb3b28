"""Metrics for Prometheus, as its own parser reads them."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import LiveData
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.accuracy import PastForecast, measure_accuracy
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import ServedModel
from forecaster.serve.forecasting.quality import measure_quality
from forecaster.serve.http.audit import AuditLog
from forecaster.serve.http.metrics import FIGURES, STATES, Metrics
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS, Running, SettableClock

Labels = frozenset[tuple[str, str]]


def samples(metrics: Metrics, engine: Engine) -> dict[tuple[str, Labels], float]:
    content, _ = metrics.render(engine, None, "")
    families = text_string_to_metric_families(content.decode())
    return by_labels(sample for family in families for sample in family.samples)


def by_labels(found: Iterable[Sample]) -> dict[tuple[str, Labels], float]:
    return {(one.name, frozenset(one.labels.items())): one.value for one in found}


def test_labels_are_escaped(engine: Engine) -> None:
    metrics = Metrics()
    metrics.count("GET", 'a"b\\c\nd', 200, 0.2)
    labels = frozenset({("method", "GET"), ("route", 'a"b\\c\nd'), ("status", "200")})
    assert samples(metrics, engine)["forecaster_requests_total", labels] == 1


def test_methods_that_nobody_knows_are_counted_as_one(engine: Engine) -> None:
    metrics = Metrics()
    for method in ("GET", *(f"X{n}" for n in range(101))):
        metrics.count(method, "/livez", 200, 0.2)
    found = samples(metrics, engine)
    requests = [value for (name, _), value in found.items() if name == "forecaster_requests_total"]
    assert sorted(requests) == [1, 101]


def test_drift_is_told_as_advice_and_shares_of_an_alarm(engine: Engine) -> None:
    assert not any("drift" in name for name, _ in samples(Metrics(), engine))  # not known yet
    watch = {"name": "errors larger", "alarm_share": 1.5}
    state = {"advice": "update", "weeks": 3, "watches": [watch], "silent_locations": 2}
    engine.drift = state
    found = samples(Metrics(), engine)
    advice = {
        dict(labels).get("advice"): value
        for (name, labels), value in found.items()
        if name == "forecaster_drift_advice"
    }
    assert advice == {"nothing": 0, "look": 0, "update": 1, "unknown": 0}
    errors = frozenset({("score", "errors larger")})
    assert found["forecaster_drift_alarm_share", errors] == 1.5
    assert found["forecaster_drift_weeks", frozenset()] == 3
    assert found["forecaster_drift_silent_locations", frozenset()] == 2


def test_lost_lines_of_an_audit_log_are_counted_where_there_is_one(
    engine: Engine, tmp_path: Path
) -> None:
    name = "forecaster_audit_failures_total", frozenset[tuple[str, str]]()
    assert name not in samples(Metrics(), engine)
    audit = AuditLog(tmp_path / "audit.jsonl")
    audit.failures = 2
    assert samples(Metrics(audit), engine)[name] == 2
    audit.close()


def past_forecasts(panel: Panel, generator: np.random.Generator) -> dict[int, PastForecast]:
    """Return a week of noisy forecasts, the fourth location's the worst."""
    past = {}
    for origin in range(HOURS - 169, HOURS - 1):
        truth = panel.values[origin + 1 : origin + 4]
        truth = np.concatenate([truth, np.zeros((3 - len(truth), 5), np.float32)])
        noise = generator.normal(0, [1, 2, 3, 90, 4], truth.shape).astype(np.float32)
        y_hat = truth + noise
        quantiles = np.stack([y_hat - 3, y_hat, y_hat + 5])
        past[origin] = PastForecast(panel.locations.ids, y_hat, quantiles)
    return past


def test_quality_is_that_of_accuracy(model: ServedModel, panel: Panel) -> None:
    week = past_forecasts(panel, np.random.default_rng(3))
    day = {origin: past for origin, past in week.items() if origin >= HOURS - 25}
    snapshot = Snapshot(panel)
    quality = measure_quality(
        model, snapshot, {"day": day, "week": week}, HOURS - 1, HOURS
    )  # fmt: skip
    for period, past in (("day", day), ("week", week)):
        expected = measure_accuracy(model, snapshot, past, HOURS)
        figures = quality.overall[period]
        for name in ("rmse", "mape", "bias", "coverage", "naive_rmse"):
            assert getattr(figures, name) == pytest.approx(expected[name], rel=1e-5)
        assert figures.values == expected["terms"]
        assert figures.width == pytest.approx(8.0, rel=1e-4)
    assert quality.expected_coverage == pytest.approx(0.8)


def test_quality_at_the_worst_locations_is_that_of_each_alone(
    model: ServedModel, panel: Panel
) -> None:
    week = past_forecasts(panel, np.random.default_rng(3))
    quality = measure_quality(
        model, Snapshot(panel), {"day": {}, "week": week}, HOURS - 1, HOURS
    )  # fmt: skip
    ids = panel.locations.ids
    assert list(quality.worst) == [ids[n] for n in (3, 4, 2, 1, 0)]
    figures = quality.worst[ids[3]]["week"]
    origins = np.array(sorted(week))
    steps = origins[:, None] + np.arange(1, 4)
    known = steps < HOURS
    truth = panel.values[np.minimum(steps, HOURS - 1), 3][known].astype(np.float64)
    y_hat = np.stack([week[o].y_hat[:, 3] for o in origins])[known]
    assert figures.rmse == pytest.approx(np.sqrt(np.mean((y_hat - truth) ** 2)), rel=1e-4)
    assert figures.bias == pytest.approx((y_hat - truth).sum() / truth.sum(), rel=1e-4)
    inside = (y_hat - 3 <= truth) & (truth <= y_hat + 5)
    assert figures.coverage == pytest.approx(inside.mean())
    losses = [
        np.mean(np.maximum(level * (truth - y_hat - d), (level - 1) * (truth - y_hat - d)))
        for level, d in zip(model.quantile_levels, (-3, 0, 5), strict=True)
    ]
    assert figures.pinball == pytest.approx(np.mean(losses), rel=1e-4)
    assert quality.worst[ids[3]]["day"].rmse is None


def test_silent_closed_and_implausible_locations_are_counted(
    model: ServedModel, panel: Panel
) -> None:
    silent = [(step, 1, None) for step in range(HOURS - 2, HOURS)]
    wild = [(HOURS - 1, 2, 1e6)]
    snapshot = Snapshot(panel).with_observations([*silent, *wild], 1)
    counts = measure_quality(
        model, snapshot, {"day": {}, "week": {}}, HOURS - 1, HOURS
    ).locations  # fmt: skip
    assert (counts.present, counts.silent, counts.closed, counts.implausible) == (5, 1, 0, 1)


def test_a_service_tells_its_quality_to_prometheus(
    service: Running, clock: SettableClock, panel: Panel
) -> None:
    engine = service.engine
    week = past_forecasts(panel, np.random.default_rng(3))
    for origin, past in week.items():
        engine.past_forecasts._keep((engine.model.digest, origin), past)
    accept = "application/openmetrics-text; version=1.0.0"
    reply = service.get("/metrics", Accept=accept)
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    families = list(openmetrics(reply.body.decode()))
    found = by_labels(sample for family in families for sample in family.samples)
    assert {family.unit for family in families} <= {"", "seconds", "bytes"}
    for name in FIGURES:
        for period in ("day", "week"):
            assert (f"forecaster_{name}", frozenset({("period", period)})) in found
    for state in STATES:
        assert (f"forecaster_locations_{state}", frozenset()) in found
    worst = {
        dict(labels)["location"] for name, labels in found if name == "forecaster_location_rmse"
    }
    assert worst == set(panel.locations.ids)
    run = {("model", engine.model.digest), ("version", "")}
    assert found["forecaster_run", frozenset(run)] == 1
    assert found["process_open_fds", frozenset()] > 0
    clock.pass_hours(1)  # measured once a minute: these are those of before
    assert service.get("/metrics").status == 200


def test_series_stay_bounded_whatever_is_asked(service: Running) -> None:
    for n in range(37):
        service.get(f"/nowhere-{n}?x={n}")
        service.get(f"/page/nothing-{n}")
        service.send(f"METHOD{n}", f"/v1/{n}", None)
    lines = service.get("/metrics").body.decode().splitlines()
    counted = [line for line in lines if line.startswith("forecaster_requests_total")]
    assert len(counted) <= 6, counted


def test_quality_is_not_told_without_a_model_or_while_it_cannot_be_measured(
    run: Path, live: LiveData, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio  # noqa: PLC0415

    engine = Engine(partial(load_model, run), live)
    assert asyncio.run(engine.quality()) is not None
    monkeypatch.setattr(engine.worker, "limit", 0)
    assert asyncio.run(engine.quality()) is not None  # of the last time
    engine.loader.model = None
    assert asyncio.run(engine.quality()) is None
    engine.worker.close()
    engine.explainer.close()
