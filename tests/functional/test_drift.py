"""Drives `forecaster drift` end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evaluation.drift.conftest import DriftCase, drift_case

Command = Callable[..., tuple[int, str, str]]
__all__ = ["drift_case"]  # the fixture


@pytest.fixture
def saved(drift_case: DriftCase, tmp_path: Path) -> Path:
    drift_case.estimator.save(tmp_path / "run")
    drift_case.panel.save(tmp_path / "panel")
    return tmp_path


def test_the_command_prints_what_to_do_and_writes_a_page(saved: Path, run: Command):
    code, printed, said = run(
        "drift", saved / "run", "--panel", saved / "panel", "--out", saved / "out"
    )
    assert code == 0
    assert "Nothing to do" in printed
    assert max(map(len, printed.splitlines())) <= 100
    assert "drift since training" in (saved / "out" / "drift.html").read_text(encoding="utf-8")
    assert "drift.html" in said


def test_the_command_prints_json_alone(saved: Path, run: Command):
    code, printed, _ = run("drift", saved / "run", "--panel", saved / "panel", "--json")
    assert (code, json.loads(printed)["advice"]) == (0, "nothing")
    assert len(printed.splitlines()) == 1


def test_a_panel_without_what_came_since_is_refused(
    saved: Path, drift_case: DriftCase, run: Command
):
    drift_case.panel.steps(0, 24 * 7 * 30).save(saved / "old")
    code, _, said = run("drift", saved / "run", "--panel", saved / "old")
    assert code == 3
    assert "append what came since" in said
