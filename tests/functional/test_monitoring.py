"""What deploy/monitoring holds is what a real Prometheus scrapes, queries and warns of."""

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.replay import Replay
from forecaster.serve.service import open_replay
from tests.serve.conftest import (  # noqa: F401 (fixtures)
    HOURS,
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
def prometheus(
    run: Path,  # noqa: F811
    whole: Panel,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Prometheus]:
    """Return a Prometheus that scrapes a service, which replays an hour in half a second."""
    monkeypatch.setattr("forecaster.serve.forecasting.engine.QUALITY_SECONDS", 0.5)
    with running(open_replay(run, Replay(whole, HOURS, 0.5))) as service:
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
    [known] = prometheus.query('forecaster_values{period="week"}')
    assert float(known["value"][1]) > 0
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == 14
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    metrics = set(re.findall(r"forecaster_\w+", (MONITORING / "alerts.yaml").read_text()))
    names = set(prometheus.ask("label/__name__/values"))
    assert metrics <= names, metrics - names
