"""Figures for Prometheus."""

from forecaster.serve.http.metrics import Metrics, escape


def test_labels_are_escaped() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    metrics = Metrics()
    metrics.count("GET", 'a"b', 200, 0.2)
    assert sum(metrics.requests.values()) == 1


def test_methods_that_nobody_knows_are_counted_as_one() -> None:
    metrics = Metrics()
    for method in ("GET", *(f"X{n}" for n in range(101))):
        metrics.count(method, "/livez", 200, 0.2)
    assert len(metrics.requests) == 2
    assert sum(metrics.requests.values()) == 102
