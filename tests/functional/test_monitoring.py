"""What deploy/monitoring holds is what a real Prometheus scrapes, queries and warns of."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pytest

from forecaster.estimators.baselines.naive import LastValue
from forecaster.panel.panel import Panel
from forecaster.serve.data.replay import Replay
from forecaster.serve.data.scores import DayScore
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.shadow import Shadow
from forecaster.serve.http.audit import AuditLog
from forecaster.serve.service import RunVersions, open_replay
from forecaster.versions import Versions
from tests.serve.client import SETTINGS
from tests.serve.conftest import (  # noqa: F401 (fixtures)
    HOURS,
    fit,
    panel,
    run,
    running,
    whole,
)

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana.json").read_text(encoding="utf-8"))
EXPRESSIONS = sorted(
    {target["expr"] for one in DASHBOARD["panels"] for target in one.get("targets", ())}
)
PATIENCE_SECONDS = 60.0
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs prometheus"),
]


def promtool(*words: str) -> None:
    command = ["promtool", *words]
    done = subprocess.run(command, cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_valid_and_warn_when_they_should() -> None:
    promtool("check", "config", "prometheus.yml")
    promtool("test", "rules", "alerts_test.yaml")


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Prometheus:
    """A Prometheus that has been told where a service is."""

    def __init__(self, service_port: str | int, folder: Path) -> None:
        configuration = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
        configuration = configuration.replace(":8000", f":{service_port}").replace("30s", "1s")
        (folder / "prometheus.yml").write_text(configuration)
        shutil.copy(MONITORING / "alerts.yaml", folder)
        self.service, self._port = f"127.0.0.1:{service_port}", free_port()
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", "--log.level=error"]
        command += [f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}"]
        self._process = subprocess.Popen(command)

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(url, timeout=10) as reply:
            return json.load(reply)["data"]

    def query(self, expression: str) -> list[Any]:
        """Return the series of an expression as the dashboard asks for them."""
        expression = expression.replace("$instance", self.service)
        expression = expression.replace("$__rate_interval", "1m")
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def wait_for(self, expression: str) -> list[Any]:
        """Return the series of an expression, once there are any."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if found := self.query(expression):
                    return found
            except OSError:  # it does not listen yet
                pass
            time.sleep(0.2)
        raise AssertionError(f"no series of {expression}")

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture
def replayed(
    run: Path,  # noqa: F811
    whole: Panel,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Engine:
    """Return a replay of an hour in 1.5 seconds, with a naive challenger in the shadow."""
    background = "forecaster.serve.forecasting.background"
    monkeypatch.setattr(f"{background}.QUIET_SECONDS", 0.0)
    monkeypatch.setattr(f"{background}.ACCURACY_HOURS", 24)
    monkeypatch.setattr("forecaster.serve.forecasting.engine.QUALITY_SECONDS", 0.5)
    versions = Versions.begin(tmp_path / "runs")
    versions.add(fit(whole.steps(0, HOURS), 7, tmp_path / "naive", LastValue))
    versions.add(run)
    engine = open_replay(versions.folder, Replay(whole, HOURS, 1.5))
    models = RunVersions(versions.folder)
    engine.shadow = Shadow(models, engine.data, None)
    for name, squares in (("v0002", 160.0), ("v0001", 640.0)):
        asyncio.run(engine.data.record(a_week_of_scores(models.load(name).digest, squares)))
    return engine


def a_week_of_scores(digest: str, squares: float) -> list[DayScore]:
    """Return what a ledger would have of the week before: drift is judged by whole weeks."""
    days = np.arange("2015-10-20", "2015-10-27", dtype="datetime64[D]")
    return [DayScore(digest, str(day), 10, squares, 40.0, 5.0, 400.0, 10, 8) for day in days]


@pytest.fixture
def prometheus(replayed: Engine, tmp_path: Path) -> Iterator[Prometheus]:
    """Return a Prometheus that scrapes that service."""
    settings = replace(SETTINGS, audit=AuditLog(tmp_path / "audit.jsonl"))
    with running(replayed, settings) as service:
        started = Prometheus(service.port, tmp_path)
        yield started
        started.end()


@pytest.mark.slow
def test_every_panel_of_the_dashboard_shows_a_replayed_service(prometheus: Prometheus) -> None:
    places = prometheus.wait_for('forecaster_location_rmse{period="day"}')
    assert 0 < len(places) <= 10
    prometheus.wait_for("rate(forecaster_requests_total[1m])")  # two scrapes
    for expression in EXPRESSIONS:
        assert prometheus.wait_for(expression), expression
    [ready] = prometheus.query("forecaster_ready")
    assert ready["value"][1] == "1"
    advised = prometheus.query("forecaster_drift_advice == 1")
    assert len(advised) == 1
    weeks = prometheus.query("forecaster_drift_weeks")
    assert float(weeks[0]["value"][1]) >= 1
    better = prometheus.query(
        'forecaster_shadow_rmse{run="challenger"} < ignoring(run) '
        'forecaster_shadow_rmse{run="served"}'
    )
    assert better == []  # the challenger is naive
    [known] = prometheus.query('forecaster_values{period="week"}')
    assert float(known["value"][1]) > 0
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == 18
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    metrics = set(re.findall(r"forecaster_\w+", (MONITORING / "alerts.yaml").read_text()))
    names = set(prometheus.ask("label/__name__/values"))
    assert metrics <= names, metrics - names
