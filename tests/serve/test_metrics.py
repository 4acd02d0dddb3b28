"""Figures for Prometheus."""

from forecaster.serve.metrics import Metrics, escape


def test_labels_are_escaped() -> None:
    assert escape('a"b\\c\nd') == 'a\\"b\\\\c\\nd'
    metrics = Metrics()
    metrics.count("GET", 'a"b', 200, 0.2)
    assert sum(metrics.requests.values()) == 1
