"""Drives `forecaster runs` end to end: versions are listed, moved and removed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from forecaster.publish.manifest import MANIFEST, read_manifest
from forecaster.versions import Versions, save_verdict
from tests.test_versions import make_run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def runs(tmp_path: Path) -> Versions:
    """Return three versions, of which the third is current."""
    versions = Versions.begin(tmp_path / "runs")
    for number in (1, 2, 3):
        versions.add(make_run(tmp_path / f"run{number}", number))
    return versions


def test_the_command_lists_versions_with_their_lineage(runs: Versions, run: Command):
    save_verdict(runs.folder / "v0002", {"verdict": "kept", "reason": "worse by 3 %"})
    code, printed, _ = run("runs", runs.folder, "--json")
    listed = json.loads(printed)
    assert (code, listed["current"]) == (0, "v0003")
    assert [row["version"] for row in listed["versions"]] == ["v0001", "v0002", "v0003"]
    assert listed["versions"][1]["reason"] == "worse by 3 %"
    assert listed["versions"][0]["panel"] == "0" * 64
    _, table, _ = run("runs", runs.folder)
    assert "kept: worse by 3 %" in " ".join(table.split())


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_table_is_readable_in_a_terminal_of_usual_width(
    columns: str, runs: Versions, run: Command, monkeypatch: pytest.MonkeyPatch
):
    better = "better: RMSE −5.3 % (95 % interval −7.1 … −3.0 %)"
    worse = "worse: bias at the smallest fifth 4.3 → 12.0 %; MAPE +7.1 % (95 % interval +4.4 …)"
    for version, verdict, reason in (("v0002", "promote", better), ("v0003", "keep", worse)):
        save_verdict(runs.folder / version, {"verdict": verdict, "reason": reason})
    monkeypatch.setenv("COLUMNS", columns)
    _, table, said = run("runs", runs.folder)
    lines = table.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert len([line for line in lines if line.strip()]) <= 6  # one row wraps at most
    row = next(line for line in lines if "v0002" in line)
    assert row.rstrip().split(maxsplit=3) == [
        "v0002", "Ridge", "2020-02-02", "promote: better: RMSE −5.3 %"
    ]  # fmt: skip
    text = " ".join(table.split())
    assert "bias at the smallest fifth 4.3" in text
    assert "1 more" in text
    assert "verdict.html" in said


def test_the_command_moves_the_current_version_and_says_so(runs: Versions, run: Command):
    _, _, said = run("runs", runs.folder, "--promote", "v0001")
    assert "current: v0001 (was v0003)" in said
    _, _, said = run("runs", runs.folder, "--rollback")
    assert "current: v0003 (was v0001)" in said
    _, _, said = run("runs", runs.folder, "--promote", "v0003")
    assert "v0003 is current already; nothing to do" in said
    run("runs", runs.folder, "--remove", "v0001", "--remove", "v0002")
    assert [version.name for version in runs.entries()] == ["v0003"]


def test_the_command_takes_one_action_at_a_time(runs: Versions, run: Command):
    code, _, said = run("runs", runs.folder, "--rollback", "--promote", "v0001")
    assert code == 2
    assert "give one at a time" in said


def test_the_command_makes_a_run_the_first_version(tmp_path: Path, run: Command):
    folder = tmp_path / "new" / "runs"
    run("runs", folder, "--add", make_run(tmp_path / "run", 5))
    manifest = read_manifest(folder)
    assert (manifest.kind, manifest.about["current"]) == ("runs", "v0001")
    assert (folder / "v0001" / MANIFEST).exists()
