"""Drives the installed command end to end."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.artifact import load_run, save_run
from forecaster.config import MetricConfig
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.publish.manifest import MANIFEST
from forecaster.recipe import Recipe
from forecaster.splits import Splits

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


Run = Callable[..., tuple[int, str, str]]


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from forecaster.cli.app import main\n"
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


def test_the_package_itself_is_the_command() -> None:
    words = [sys.executable, "-m", "forecaster", "check", "nowhere"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stderr.startswith("forecaster: nowhere: 1 fault\n")


def test_an_unknown_command_is_a_usage_error(run: Run) -> None:
    code, _, errors = run("chekc")
    assert code == 2
    assert "chekc" in errors


def test_check_says_what_it_found(panel_folder: Path, run: Run) -> None:
    code, output, _ = run("check", panel_folder)
    assert code == 0
    assert "panel (format 3, " in output
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
    assert "2 versions, the newest last" in output
    assert str(panel.digest)[:12] in output
    code, output, _ = run("check", panel_folder, "--prune")
    assert code == 0
    assert "removed values_0-" in output
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
    assert {"gaps", "clock changes"} < {*topics}
    assert not (tmp_path / "panel-doctor").exists()


def test_doctor_follows_the_recipe(panel_folder: Path, run: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[metrics]\nmape_cut = 1000.0\n[lags]\nseasons = []\n")
    _, output, _ = run("doctor", panel_folder, "--recipe", recipe, "--json")
    findings = {f["topic"]: f for f in json.loads(output)["findings"]}
    assert findings["MAPE targets"]["level"] == "warning"
    assert "needs 6 past steps" in findings["history"]["text"]


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
    assert "--debug shows the traceback" in errors


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


@pytest.fixture
def run_folder(panel_folder: Path) -> Path:
    panel = Panel.open(panel_folder)
    folder = panel_folder.parent / "run"
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(folder)
    return folder


def test_forecast_prints_a_table(panel_folder: Path, run_folder: Path, run: Run) -> None:
    at = "2015-02-08T12:00+01:00"
    code, output, _ = run("forecast", run_folder, "--panel", panel_folder, "--at", at)
    lines = output.splitlines()
    assert code == 0
    assert lines[0] == "unique_id,ds,ds_local,cutoff,y_hat,q10,q50,q90"
    assert lines[1].startswith(
        "a,2015-02-08T12:00:00+0000,2015-02-08T13:00:00+01:00,2015-02-08T11"
    )
    assert len(lines) == 1 + 5 * 3


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_forecast_writes_what_the_suffix_says(
    panel_folder: Path, run_folder: Path, run: Run, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"next.{suffix}"
    words = ("--panel", panel_folder, "--at", "2015-02-08T11:00Z", "--out", out)
    code, output, errors = run("forecast", run_folder, *words)
    assert (code, output) == (0, "")
    assert f"15 rows in {out}" in errors
    assert out.stat().st_size > 0


def test_forecast_prints_data_when_asked(panel_folder: Path, run_folder: Path, run: Run) -> None:
    words = ("--panel", panel_folder, "--at", "2015-02-08T11:00Z", "--json")
    _, output, _ = run("forecast", run_folder, *words)
    rows = json.loads(output)
    assert len(rows) == 15
    assert rows[0]["ds"].startswith("2015-02-08T12:00:00")


def test_P7_an_origin_without_an_offset_is_a_usage_error(
    panel_folder: Path, run_folder: Path, run: Run
) -> None:
    words = ("--panel", panel_folder, "--at", "2015-02-08T11:00")
    code, _, errors = run("forecast", run_folder, *words)
    assert code == 2
    assert "has no offset" in errors


def test_P1_too_little_history_is_a_data_error_or_labelled(
    panel_folder: Path, run_folder: Path, run: Run
) -> None:
    panel = Panel.open(panel_folder)
    values = panel.values.copy()
    values[-5:] = np.nan
    replace(panel, values=values).save(panel_folder)
    words = ("forecast", run_folder, "--panel", panel_folder, "--at", f"{panel.times[-1]}Z")
    code, _, errors = run(*words)
    assert code == 3
    assert "history incomplete" in errors
    assert f"{panel.times[-1]}Z (100 %)" in errors
    assert "allow_missing (--allow-missing)" in errors
    code, output, _ = run(*words, "--allow-missing")
    assert code == 0
    assert "25 missing values filled" in output


def test_P2_an_unknown_future_is_refused_or_labelled(
    panel_folder: Path, run: Run, tmp_path: Path
) -> None:
    bare = Panel.open(panel_folder)
    weather = Covariates(("rain",), np.ones((len(bare.values), 1), dtype=np.float32))
    panel = replace(bare, covariates=weather).save(panel_folder)
    SeasonalNaive().fit(panel, Splits.by_share(panel)).save(tmp_path / "wet")
    words = ("forecast", tmp_path / "wet", "--panel", panel_folder, "--at", f"{panel.times[-1]}Z")
    code, _, errors = run(*words)
    assert code == 3
    assert "covariates ahead are missing: rain at" in errors
    assert "weather (--weather) to persist, climatology or none" in errors
    code, output, _ = run(*words, "--weather", "persist")
    assert code == 0
    assert output.count("weather persist") == 15
    code, _, errors = run(*words, "--weather", "sunny")
    assert code == 2


def test_a_damaged_run_is_an_artifact_error(
    panel_folder: Path, run_folder: Path, run: Run
) -> None:
    next(run_folder.glob("arrays-*.safetensors")).write_bytes(b"x")
    words = ("--panel", panel_folder, "--at", "2015-02-08T11:00Z")
    code, _, errors = run("forecast", run_folder, *words)
    assert code == 4
    assert "run damaged" in errors


def test_check_names_every_damaged_artifact(panel_folder: Path, run: Run) -> None:
    for name in ("one", "two"):
        Panel.open(panel_folder).save(panel_folder.parent / name)
        next((panel_folder.parent / name).glob("values_0-*")).write_bytes(b"x")
    code, output, errors = run("check", panel_folder.parent)
    assert code == 4
    assert "all match the manifest" in output  # the whole one is told of all the same
    assert "one: panel damaged" in errors
    assert "two: panel damaged" in errors


def test_doctor_judges_by_the_recipe_beside_the_panel(panel_folder: Path, run: Run) -> None:
    recipe = Recipe(metrics=MetricConfig(mape_cut=1_000.0))
    Panel.open(panel_folder).save(panel_folder, recipe)
    _, output, _ = run("doctor", panel_folder, "--json")
    findings = {f["topic"]: f for f in json.loads(output)["findings"]}
    assert "≥ 1000" in findings["MAPE targets"]["text"]


def test_an_interrupted_command_says_so(
    panel_folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Panel, "open", interrupted)
    code, _, errors = run("doctor", panel_folder)
    assert code == 5
    assert "interrupted; no incomplete file was left" in errors


def test_a_run_that_does_not_hold_together_is_an_artifact_error(
    panel_folder: Path, run_folder: Path, run: Run
) -> None:
    known = load_run(run_folder)
    words = ("--panel", panel_folder, "--at", "2015-02-08T11:00Z")
    for about, arrays in (
        ({**known.about, "kind": 7}, known.arrays),
        ({k: v for k, v in known.about.items() if k != "ids"}, known.arrays),
        (known.about, {k: v for k, v in known.arrays.items() if k != "shared.fill"}),
        (known.about, {**known.arrays, "shared.least": np.zeros(3, dtype=np.float32)}),
    ):
        save_run(run_folder, replace(known, about=about, arrays=arrays))
        code, _, errors = run("forecast", run_folder, *words)
        assert code == 4
        assert "not a forecaster run of a SeasonalNaive" in errors


def test_a_forecast_loads_nothing_that_only_learning_needs() -> None:
    script = (
        "import sys; import forecaster.estimators.registry as registry\n"
        "for name in ('Ridge', 'Forecaster', 'Ensemble'): registry.find_estimator(name)\n"
        "learning = ('forecaster.graph.learn', 'scipy.stats', 'scipy.optimize')\n"
        "print([m for m in learning if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
