"""Records in a store of MLflow, written by the commands."""

import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from forecaster.errors import ConfigError
from forecaster.pipeline.mlflow_record import LIMITS, MlflowEntry, MlflowRecord
from forecaster.recipe import Recipe


def test_numbers_are_recorded_and_nothing_else() -> None:
    entry = MlflowEntry("a", "b", Recipe())
    entry.add_epochs([{"epoch": 2, "rmse": 1.5, "mape": None, "loss": float("nan"), "ok": True}])
    entry.add("RMSE of ä@b", 3)
    assert entry.metrics == [("rmse", 1.5, 2), ("RMSE of ä_b", 3.0, 0)]


@pytest.mark.parametrize(
    "address",
    [
        "https://user:geheim@host/",
        "https://geheim@host/",
        "https://host/?token=geheim",
        "mysql+pymysql://u@h/db?ssl_key=geheim",
        "sqlite:///a.db?key=geheim",
        "https://host/#geheim",
    ],
)
def test_an_address_with_a_password_is_refused(
    address: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_PASSWORD") as refused:
        MlflowRecord(address)
    printed = capsys.readouterr()
    assert "geheim" not in f"{refused.value}{caplog.text}{printed.out}{printed.err}"


def test_a_silent_server_is_refused_at_the_start_and_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    assert int(LIMITS["MLFLOW_HTTP_REQUEST_TIMEOUT"]) * 2 < 30  # seconds
    assert LIMITS["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "geheim")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        script = (
            "from forecaster.pipeline.mlflow_record import MlflowRecord\n"
            f"MlflowRecord({address!r})"
        )
        words = [sys.executable, "-W", "ignore", "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    last = done.stderr.splitlines()[-1]
    assert "RunError: --mlflow http://127.0.0.1" in last
    assert last.endswith("see that it answers and can be written; nothing was computed")
    assert "geheim" not in done.stderr


def test_a_missing_extra_is_named_and_none_is_imported_unasked() -> None:
    script = (
        "import sys\nfrom forecaster.cli.models import evaluate, train\n"
        "from forecaster.cli.operation import update\n"
        "from forecaster.pipeline.mlflow_record import MlflowRecord\n"
        "assert 'mlflow' not in sys.modules\nsys.modules['mlflow'] = None\n"
        "MlflowRecord('sqlite:///a.db')"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "pip install 'forecaster[mlflow]'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_an_entry_is_written_once(tmp_path: Path) -> None:
    pytest.importorskip("alembic", reason="alembic is not installed")
    script = """
from forecaster.pipeline.mlflow_record import MlflowEntry, MlflowRecord
from forecaster.recipe import Recipe
record = MlflowRecord("sqlite:///mlflow.db")
entry = MlflowEntry("run", "abc", Recipe(), tags={"verdict": "promote"})
entry.add_epochs([{"epoch": n, "rmse": 1 / n} for n in range(1, 151)])
print(record.write(entry), record.write(entry))
"""
    words = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["True", "False"]
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        assert store.execute("SELECT count(*) FROM metrics WHERE key = 'rmse'").fetchone() == (
            150,
        )
        assert store.execute("SELECT count(*) FROM runs WHERE name = 'run'").fetchone() == (1,)
        query = "SELECT value FROM params WHERE key = 'training.epochs'"
        assert store.execute(query).fetchone() == (str(Recipe().training.epochs),)
    assert list(tmp_path.rglob("recipe.toml"))
