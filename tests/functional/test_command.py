"""Drives the installed command end to end."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.cli import main
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import MANIFEST

COMMAND = Path(sys.executable).with_name("forecaster")
HEAVY = ("torch", "pandas", "pyarrow", "pydantic", "numpy", "matplotlib", "duckdb", "scipy")


@pytest.fixture
def panel_folder(tmp_path: Path) -> Path:
    times = pd.date_range("2015-01-01", periods=24 * 41, freq="h", tz="UTC")
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.poisson(23.0, (len(times), 5)), columns=list("abcde"))
    frame.insert(0, "time", times)
    Panel.from_wide(frame, timezone="Europe/Berlin").save(tmp_path / "panel")
    return tmp_path / "panel"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command in this process: exit code, output, errors."""

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call


Run = Callable[..., tuple[int, str, str]]


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from forecaster.cli import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_installed_command_tells_its_version() -> None:
    done = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "forecaster 0.1.0\n"


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    code, _, errors = run("chekc")
    assert code == 2
    assert "chekc" in errors


def test_check_says_what_it_found(panel_folder: Path, run: Run) -> None:
    code, output, _ = run("check", panel_folder)
    assert code == 0
    assert "panel (format 1, " in output
    assert "100.00 % observed" in output


def test_check_prints_data_when_asked(panel_folder: Path, run: Run) -> None:
    code, output, _ = run("check", panel_folder, "--json")
    (report,) = json.loads(output)
    assert code == 0
    assert report["kind"] == "panel"
    assert report["hash"] == Panel.open(panel_folder).digest
    assert report["observed"] == 1.0


def test_check_looks_into_a_folder_of_artifacts(panel_folder: Path, run: Run) -> None:
    code, output, _ = run("check", panel_folder.parent, "--json")
    assert code == 0
    assert [report["path"] for report in json.loads(output)] == [str(panel_folder)]


def test_check_of_something_else_is_an_artifact_error(tmp_path: Path, run: Run) -> None:
    code, _, errors = run("check", tmp_path)
    assert code == 4
    assert "not a forecaster artifact" in errors
    assert "Traceback" not in errors


def test_debug_shows_the_traceback_wherever_it_stands(tmp_path: Path, run: Run) -> None:
    _, _, errors = run("check", tmp_path, "--debug")
    assert "Traceback" in errors


def test_S1_any_flipped_byte_is_found_by_check(
    panel_folder: Path, run: Run, rounds: Callable[[int, int], int]
) -> None:
    originals = {path: path.read_bytes() for path in panel_folder.iterdir()}
    generator = random.Random(1)  # noqa: S311 (which byte, not a secret)
    for _ in range(rounds(200, 1_000)):
        path = generator.choice(sorted(originals))
        content = bytearray(originals[path])
        content[generator.randrange(len(content))] ^= generator.randrange(1, 256)
        path.write_bytes(content)
        code, output, _ = run("check", panel_folder)
        assert (code, output) == (4, "")
        path.write_bytes(originals[path])
    assert run("check", panel_folder)[0] == 0


def test_S12_prune_removes_old_files_only_when_told(panel_folder: Path, run: Run) -> None:
    panel = Panel.open(panel_folder)
    moved = Panel(**{**vars(panel), "values": panel.values + 1})
    moved.save(panel_folder)
    _, output, _ = run("check", panel_folder)
    assert "1 old or unfinished file; --prune removes them" in output
    code, output, _ = run("check", panel_folder, "--prune")
    assert code == 0
    assert "removed values-" in output
    assert np.array_equal(Panel.open(panel_folder).values, panel.values + 1)


def test_doctor_writes_a_page_that_needs_nothing_else(
    panel_folder: Path, run: Run, tmp_path: Path
) -> None:
    code, output, errors = run("doctor", panel_folder, "--out", tmp_path / "page")
    assert code == 0
    assert "history" in output
    assert str(tmp_path / "page" / "doctor.html") in errors
    page = (tmp_path / "page" / "doctor.html").read_text()
    assert "http" not in page.replace("http-equiv", "")
    assert (tmp_path / "page" / "doctor.png").read_bytes().startswith(b"\x89PNG")


def test_doctor_prints_data_when_asked(
    panel_folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, _ = run("doctor", panel_folder, "--json")
    topics = [finding["topic"] for finding in json.loads(output)["findings"]]
    assert code == 0
    assert topics[:2] == ["gaps", "clock changes"]
    assert not (tmp_path / "panel-doctor").exists()


def test_doctor_follows_the_recipe(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[metrics]\nmape_cut = 1000.0\n[lags]\nseasons = []\n")
    _, output, _ = run("doctor", panel_folder, "--recipe", recipe, "--json")
    findings = {f["topic"]: f for f in json.loads(output)["findings"]}
    assert findings["MAPE targets"]["level"] == "warning"
    assert "looks back 6 steps" in findings["history"]["text"]


def test_a_wrong_recipe_is_a_usage_error(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[metrics]\nmape_cuts = 3.0\n")
    code, _, errors = run("doctor", panel_folder, "--recipe", recipe)
    assert code == 2
    assert "metrics.mape_cuts: unknown key; did you mean 'mape_cut'?" in errors


def test_a_missing_extra_is_one_line(
    panel_folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, output, errors = run("doctor", panel_folder, "--out", tmp_path / "page")
    assert code == 0
    assert "history" in output
    assert "pip install 'forecaster[report]'" in errors


def test_a_fault_of_ours_is_said_to_be_one(
    panel_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Panel, "open", broken)
    code, _, errors = run("doctor", panel_folder)
    assert code == 5
    assert "ZeroDivisionError: oops" in errors
    assert "--debug shows where" in errors


def test_a_pipe_shows_no_progress_bar(panel_folder: Path, tmp_path: Path) -> None:
    words = [COMMAND, "doctor", str(panel_folder), "--out", str(tmp_path / "page"), "--quiet"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_S9_a_hostile_folder_is_refused_by_the_command(tmp_path: Path, run: Run) -> None:
    (tmp_path / MANIFEST).symlink_to("/etc/passwd")
    code, _, errors = run("check", tmp_path)
    assert code == 4
    assert "root:" not in errors
