import subprocess
import sys

import pytest

import forecaster


def test_every_public_name_can_be_had() -> None:
    assert len(set(forecaster.__all__)) == len(forecaster.__all__)
    for name in forecaster.__all__:
        assert getattr(forecaster, name).__name__ == name
    assert set(forecaster.__all__) <= set(dir(forecaster))


def test_the_public_surface_stays_small() -> None:
    assert len(forecaster.__all__) <= 32


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No forecaster attribute Forecast"):
        _ = forecaster.Forecast


def test_a_bare_host_needs_no_extra() -> None:
    """Without the optional packages the core still works: a GPU host may have none of them."""
    absent = (
        "duckdb",
        "ibis",
        "fastapi",
        "matplotlib",
        "holidays",
        "jinja2",
        "pyspark",
        "sklearn",
    )
    core = "clock.clock", "panel.panel", "splits", "synthetic.city", "estimators.registry"
    modules = ", ".join(f"forecaster.{name}" for name in (*core, "graph.learn", "pipeline"))
    script = f"import sys\nfor name in {absent}: sys.modules[name] = None\nimport {modules}"
    subprocess.run([sys.executable, "-c", script], check=True)
