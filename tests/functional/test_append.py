"""Drives `forecaster append` end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.panel.panel import Panel
from forecaster.publish.manifest import read_versions
from forecaster.serve.data.live import panel_digest
from forecaster.serve.data.store import Store

Run = Callable[..., tuple[int, str, str]]
HOURS = 24 * 12


@pytest.fixture
def folder(tmp_path: Path, run: Run) -> Path:
    """Return a folder with a panel of ten days, and tables of what came later."""
    times = pd.date_range("2022-06-01", periods=HOURS, freq="h")
    values = np.random.default_rng(3).poisson(20, (HOURS, 3))
    table = pd.DataFrame(values, columns=["a", "b", "c"]).assign(time=times.astype(str))
    table[:240].to_csv(tmp_path / "old.csv", index=False)
    table[240:264].to_csv(tmp_path / "new.csv", index=False)
    table[270:].to_csv(tmp_path / "hole.csv", index=False)
    table[200:264].assign(b=table.b + (table.index == 207)).to_csv(
        tmp_path / "revised.csv", index=False
    )
    words = ("ingest", "table", tmp_path / "old.csv", "--timezone", "Europe/Berlin")
    run(*words, "--out", tmp_path / "panel")
    return tmp_path


def test_L14_new_data_becomes_a_version_and_the_same_again_changes_nothing(
    folder: Path, run: Run
) -> None:
    code, output, _ = run("append", folder / "panel", folder / "new.csv")
    lines = output.splitlines()
    assert (code, len(lines)) == (0, 3)
    assert "24 steps more (2022-06-11T00:00:00+02:00 … 2022-06-11T23:00:00+02:00)" in lines[0]
    assert lines[1] == "0 missing filled, 0 revised, 0 withdrawn"
    assert lines[2].endswith("264 steps × 3 locations")
    digest = Panel.open(folder / "panel").digest
    code, output, _ = run("append", folder / "panel", folder / "new.csv")
    assert (code, output.count("\n")) == (0, 1)
    assert f"nothing new; version {str(digest)[:12]} stays" in output
    assert len(read_versions(folder / "panel")) == 2


def test_L14_revisions_are_refused_unless_they_are_asked_for(folder: Path, run: Run) -> None:
    code, _, errors = run("append", folder / "panel", folder / "revised.csv")
    assert code == 3
    assert "differs from the panel at 1 value: b at 2022-06-09T13:00:00Z" in errors
    code, output, _ = run("append", folder / "panel", folder / "revised.csv", "--revise", "--json")
    data = json.loads(output)
    assert (code, data["revised"], data["steps"], data["shape"]) == (0, 1, 24, [264, 3])
    assert data["version"] == Panel.open(folder / "panel").digest


def test_L14_a_hole_is_said(folder: Path, run: Run) -> None:
    _, output, _ = run("append", folder / "panel", folder / "hole.csv")
    assert "a hole of 30 steps before them: all missing" in output


def test_L14_the_store_of_a_running_service_is_appended_once(folder: Path, run: Run) -> None:
    panel = Panel.open(folder / "panel")
    store = Store(folder / "panel.sqlite", panel_digest(panel))  # held, as by a service

    def observe(step: int, value: float, received: int) -> None:
        begins = int(panel.instant(step).astype(np.int64))
        entries = [(name, begins, value) for name in panel.locations.ids]
        store.write("observations", entries, begins + received * 3600)

    observe(240, 4.0, received=1)
    observe(241, 5.0, received=0)  # too early: it may still grow
    words = ("append", folder / "panel", "--store", folder / "panel.sqlite")
    _, output, said = run(*words)
    assert "1 step more" in output
    assert "3 values received before their step was over: left out" in said
    assert "nothing new" in run(*words)[1]
    observe(241, 6.0, received=2)
    observe(239, 6.0, received=9)
    code, _, errors = run(*words)
    assert (code, "differs from the panel at 3 values" in errors) == (3, True)
    assert "3 revised" in run(*words, "--revise")[1]
    store.close()
    # What another source has revised since, the store does not take back.
    later = pd.DataFrame({"time": ["2022-06-11 00:00:00"], "a": [9], "b": [9], "c": [9]})
    later.to_csv(folder / "later.csv", index=False)
    assert "3 revised" in run("append", folder / "panel", folder / "later.csv", "--revise")[1]
    assert "nothing new" in run(*words)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to append; give tables or trips"),
        (("new.csv", "--store", "s.sqlite"), "--store: what a service received is appended alone"),
        (("gone.csv",), "gone.csv: no such file"),
        (("new.csv", "--covers", "2022-06-01:2022-06-02"), "was made of table; leave --covers"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    folder: Path, run: Run, words: tuple[str, ...], message: str
) -> None:
    given = [word if word.startswith(("--", "2")) else folder / word for word in words]
    code, _, errors = run("append", folder / "panel", *given)
    assert (code, message in errors) == (2, True)
