"""Records in a store of MLflow, written by the commands."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from forecaster.errors import ConfigError
from forecaster.pipeline.mlflow_record import MlflowEntry, MlflowRecord
from forecaster.recipe import Recipe


def test_numbers_are_recorded_and_nothing_else() -> None:
    entry = MlflowEntry("a", "b", Recipe())
    entry.add_epochs([{"epoch": 2, "rmse": 1.5, "mape": None, "loss": float("nan"), "ok": True}])
    entry.add("RMSE of ä@b", 3)
    assert entry.metrics == [("rmse", 1.5, 2), ("RMSE of ä_b", 3.0, 0)]


def test_an_address_with_a_password_is_refused() -> None:
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_PASSWORD") as refused:
        MlflowRecord("https://user:geheim@host/")
    assert "geheim" not in str(refused.value)


def test_a_missing_extra_is_named_and_none_is_imported_unasked() -> None:
    script = (
        "import sys\nimport forecaster.cli.train, forecaster.cli.evaluate, forecaster.cli.update\n"
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
