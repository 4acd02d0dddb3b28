"""Drives `forecaster train` end to end: a run that is made, interrupted, finished and used."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from forecaster.cli import terminal
from forecaster.cli.models.train import print_departures
from forecaster.cli.options import with_settings
from forecaster.estimators.fallback.served import served_models
from forecaster.estimators.registry import load_estimator
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import save_graph
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

COMMAND = Path(sys.executable).with_name("forecaster")
DATA = os.environ.get("FORECASTER_DATA")
ZONES = Path(__file__).parents[2] / "recipes" / "zone_taxi_2019.toml"
Run = Callable[..., tuple[int, str, str]]
RECIPE = """
[panel]
timezone = "Europe/Berlin"
[table]
file = "counts.csv"
[lags]
recent = 3
horizon = 2
seasons = [{ days = 1, count = 2, before = 0, after = 2 }]
[graph]
kind = "complete"
[model]
per_location = 2
auxiliary = 4
heads = 2
[training]
epochs = 2
batch = 200
"""

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recipe; the file that it names lies in the data folder."""
    times = pd.date_range("2021-03-01", periods=24 * 31, freq="h", tz="UTC")
    counts = np.random.default_rng(0).poisson(13, (len(times), 3))
    table = pd.DataFrame(counts, columns=["a", "b", "c"]).assign(time=times)
    table.to_csv(tmp_path / "counts.csv", index=False)
    monkeypatch.setenv("FORECASTER_DATA", str(tmp_path))
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_a_recipe_becomes_a_run_that_forecasts(recipe: Path, run: Run) -> None:
    out = recipe.parent / "run"
    code, output, errors = run("train", recipe, "--out", out)
    assert code == 0
    assert "run            Forecaster, trained on " in output
    assert "stopped        all 2 epochs done" in output
    assert "building the panel …" in errors
    assert "epoch 1 of 2: loss " in errors
    assert "epoch 2 of 2: loss " in errors
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    words = ("--panel", out / "panel", "--at", "2021-03-28T12:00+02:00")
    code, output, _ = run("forecast", out, *words)
    assert code == 0
    assert len(output.splitlines()) == 1 + 2 * 3
    code, output, _ = run("check", out)
    assert code == 0
    assert "all match the manifest, Forecaster\n" in output
    assert f"{out / 'panel'}: panel" in output
    assert f"{out / 'graph'}: graph" in output


def test_training_says_where_simple_models_are_served(recipe: Path, run: Run) -> None:
    out = recipe.parent / "run"
    days = ("2021-03-01", "2021-03-18"), ("2021-03-19", "2021-03-27"), ("2021-03-28", "2021-03-31")
    for split, (first, last) in zip(("train", "validation", "test"), days, strict=True):
        with recipe.open("a") as file:
            file.write("[splits]\n" if split == "train" else "")
            file.write(f'{split} = [["{first}", "{last}"]]\n')
    code, output, errors = run("train", recipe, "--out", out)
    assert code == 0
    assert "comparing with simple models …" in errors
    line = next(line for line in output.splitlines() if line.startswith("falls back "))
    estimator = load_estimator(out)
    assert estimator.run is not None
    found = estimator.run.about["fallback"]
    assert found["locations"] == len(served_models(estimator.run)) > 0  # two epochs of noise
    assert line.startswith(f"falls back     at {found['locations']} of 3 locations: ")
    code, again, _ = run("train", recipe, "--out", out)
    assert code == 0
    assert line in again
    code, output, _ = run("train", recipe, "--out", out, "--json")
    assert json.loads(output)["fallback"] == found
    words = ("--panel", out / "panel", "--at", "2021-03-28T12:00+02:00")
    code, output, _ = run("forecast", out, *words)
    assert code == 0
    assert output.splitlines()[0].split(",")[-1] == "fallback"


def test_the_same_command_says_that_it_is_done(recipe: Path, run: Run) -> None:
    words = ("train", recipe, "--out", recipe.parent / "run", "--model", "Transformer", "--json")
    code, first, _ = run(*words)
    assert code == 0
    code, again, errors = run(*words)
    assert code == 0
    assert "already trained; nothing to do" in errors
    assert json.loads(again) == json.loads(first)
    known = json.loads(first)
    assert known["estimator"] == "Transformer"
    assert [epoch["epoch"] for epoch in known["epochs"]] == [1, 2]
    assert known["parents"].keys() == {"panel"}


def test_a_value_of_the_recipe_can_be_set(recipe: Path, run: Run) -> None:
    out = recipe.parent / "run"
    words = ("--set", "training.epochs=1", "--set", 'graph.kind="own"', "--json")
    code, output, _ = run("train", recipe, "--out", out, *words)
    assert code == 0
    assert len(json.loads(output)["epochs"]) == 1
    estimator = load_estimator(out)
    assert estimator.recipe.graph.kind == "own"
    assert estimator.recipe.training.batch == 200  # as the file says


@pytest.mark.slow
def test_the_preset_best_trains_an_ensemble_and_earlier_runs_of_it_go_on(
    recipe: Path, run: Run
) -> None:
    out, words = recipe.parent / "run", ("--set", "preset=best", "--set", "training.epochs=1")
    members = ("--set", 'ensemble.members=["Forecaster", "Ridge"]')
    code, output, errors = run("train", recipe, "--out", out, *words, *members)
    assert code == 0
    assert "run            Ensemble, trained on " in output
    assert re.search(r"^member [12]       Forecaster \(weight ", output, re.MULTILINE)
    assert re.search(r"^member [12]       Ridge \(weight ", output, re.MULTILINE)
    assert "1 network of 2 members: Forecaster …" in errors
    earlier = recipe.parent / "earlier"  # the preset best was one network
    code, output, _ = run("train", recipe, "--out", earlier, *words, "--model", "Forecaster")
    assert "run            Forecaster, trained on " in output
    code, output, errors = run("train", recipe, "--out", earlier, *words)
    assert code == 0
    assert "already trained; nothing to do" in errors
    words = ("--panel", out / "panel", "--at", "2021-03-28T12:00+02:00")
    for folder in (out, earlier):
        code, output, _ = run("forecast", folder, *words)
        assert code == 0
        assert len(output.splitlines()) == 1 + 2 * 3


def test_what_the_recipe_says_itself_of_a_preset_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_departures("quick", Recipe.of({"preset": "best", "training": {"ema": 0.5}}))
    print_departures("Transformer", Recipe.of({"preset": "best", "training": {"ema": 0.5}}))
    print_departures("quick", Recipe.of({"preset": "best"}))
    told = capsys.readouterr().err
    assert told.count("preset best, overridden by the recipe: training.ema = 0.5") == 1


@pytest.mark.parametrize("setting", ['preset="best"', "preset=best", "preset = 'best'"])
def test_a_setting_needs_no_quotes_since_a_shell_takes_them_away(setting: str) -> None:
    assert with_settings(Recipe(), [setting]).preset == "best"


def test_a_setting_is_text_only_where_it_is_nothing_else() -> None:
    changed = with_settings(Recipe(), ["graph.kind=own", "training.ema=0.5", "table.file=é=5"])
    assert (changed.graph.kind, changed.training.ema) == ("own", 0.5)
    assert changed.table is not None
    assert changed.table.file == "é=5"


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("training.epochs", "not a key and a value; give section.key=value"),
        ("=3", "not a key and a value; give section.key=value"),
        ("preset=bset", "preset: Input should be 'paper', 'quick' or 'best'"),
        ("graph.kind=learned", "graph.kind: Input should be 'lasso', 'neighbourhood'"),
        ("training.epochs=many", "training.epochs: Input should be a valid integer"),
        ("intervals.quantiles=[0.1", "intervals.quantiles: Input should be a valid array"),
        ("training.epoch=3", "training.epoch: unknown key; did you mean 'epochs'?"),
        ("training.epochs=0", "training.epochs: Input should be greater than or equal to 1"),
        ("training=3", "training: "),
        ("trainin.epochs=3", "trainin: unknown key; did you mean 'training'?"),
    ],
)
def test_a_wrong_setting_is_a_usage_error(
    recipe: Path, run: Run, setting: str, complaint: str
) -> None:
    code, _, errors = run("train", recipe, "--out", recipe.parent / "run", "--set", setting)
    assert code == 2
    assert complaint in errors
    assert not (recipe.parent / "run").exists()


def test_C9_a_run_tells_nothing_of_the_machine(recipe: Path, run: Run) -> None:
    out = recipe.parent / "run"
    assert run("train", recipe, "--out", out)[0] == 0
    secrets = {str(recipe.parent), str(Path.home()), socket.gethostname(), os.environ["PATH"]}
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        # a host name of few letters occurs by chance in compressed images and weights
        told = {s for s in secrets if len(s) > 6 or path.suffix in {".json", ".jsonl"}}
        assert not [secret for secret in told if secret.encode() in content], path


def test_T7_a_changed_recipe_is_refused_with_both_hashes(recipe: Path, run: Run) -> None:
    out = recipe.parent / "run"
    run("train", recipe, "--out", out)
    recipe.write_text(RECIPE.replace("epochs = 2", "epochs = 3"))
    code, _, errors = run("train", recipe, "--out", out)
    assert code == 4
    assert "recipe.training.epochs: 2, now 3" in errors


def test_a_folder_of_something_else_stays_as_it_is(recipe: Path, run: Run) -> None:
    (recipe.parent / "thesis").mkdir()
    (recipe.parent / "thesis" / "chapter.tex").write_text("mine")
    code, _, errors = run("train", recipe, "--out", recipe.parent / "thesis")
    assert code == 4
    assert "not empty and not a forecaster artifact" in errors
    assert [path.name for path in (recipe.parent / "thesis").iterdir()] == ["chapter.tex"]


def test_what_is_given_is_taken_as_it_is(recipe: Path, run: Run) -> None:
    run("ingest", "recipe", recipe, "--data", recipe.parent, "--out", recipe.parent / "panel")
    panel = Panel.open(recipe.parent / "panel")
    graph = save_graph(learn_graph(panel, Splits.by_share(panel)), recipe.parent / "graph")
    words = ("--panel", recipe.parent / "panel", "--graph", recipe.parent / "graph", "--json")
    code, output, _ = run("train", recipe, "--out", recipe.parent / "run", *words)
    assert code == 0
    assert json.loads(output)["parents"] == {"panel": panel.digest, "graph": graph.digest}


def test_without_panel_or_data_it_asks_for_one(
    recipe: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORECASTER_DATA")
    code, _, errors = run("train", recipe, "--out", recipe.parent / "run")
    assert code == 2
    assert "no panel given" in errors


def test_without_the_extra_there_is_a_run_and_no_picture(
    recipe: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = recipe.parent / "run"
    code, _, errors = run("train", recipe, "--out", out)
    assert code == 0
    assert "no figure: this needs matplotlib" in errors
    assert load_estimator(out).run is not None


def test_a_terminal_shows_a_live_bar(
    recipe: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    code, output, errors = run("train", recipe, "--out", recipe.parent / "run")
    assert code == 0
    assert "epoch 2/2" in errors
    assert re.search(
        r"loss \S+, validation RMSE \S+, MAPE \S+ %, \S+ windows/s, \d+:\d\d left", errors
    )
    assert "\x1b" not in output


def test_what_the_screen_is_told_is_not_logged_as_well() -> None:
    logger = logging.getLogger("forecaster.training.loop")
    with terminal.training():
        assert not logger.isEnabledFor(logging.WARNING)
    assert logger.isEnabledFor(logging.WARNING)


def test_tensorboard_is_told_too_where_there_is_one(
    recipe: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("train", recipe, "--out", recipe.parent / "run", "--tensorboard", recipe.parent / "b")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, _, errors = run(*words)
    assert code == 2
    assert "TensorBoard is not installed" in errors
    assert not (recipe.parent / "run").exists()
    told: list[tuple[str, int]] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            told.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            assert np.isfinite(value)
            told.append((name, step))

        def close(self) -> None:
            told.append(("close", 0))

    there = SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", there)
    code, _, errors = run(*words)
    assert code == 0
    assert "epoch 2 of 2: loss" in errors  # the screen is told as well
    assert told[0][0] == str(recipe.parent / "b")
    assert {name for name, _ in told[1:-1]} == {"loss", "rmse", "mape"}
    assert told[-1] == ("close", 0)


def test_quiet_prints_the_result_alone(recipe: Path, run: Run) -> None:
    code, output, errors = run("train", recipe, "--out", recipe.parent / "run", "--quiet")
    assert (code, errors) == (0, "")
    assert "best " in output


def interrupt(words: list[str], number: signal.Signals) -> str:
    """Run the command, send it a signal after an epoch, and return what it said before exit 5."""
    environment, said = {**os.environ, "OMP_NUM_THREADS": "1"}, ""
    with subprocess.Popen(
        [COMMAND, *words], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        for line in process.stderr or ():
            if line.startswith("epoch ") and "epoch " not in said:
                process.send_signal(number)
            said += line
    assert process.returncode == 5, said
    return said


@pytest.mark.slow
def test_T2_an_interrupted_training_exits_5_and_the_same_command_finishes_it(
    recipe: Path, run: Run
) -> None:
    out = recipe.parent / "run"
    words = ["train", str(recipe), "--out", str(out), "--model", "Transformer"]
    words += ["--set", "training.epochs=30", "--set", "training.patience=30"]
    assert "by SIGTERM, saved; the same command resumes" in interrupt(words, signal.SIGTERM)
    code, output, _ = run("check", out)
    assert code == 0
    assert "Transformer: not finished" in output
    said = interrupt(words, signal.SIGINT)
    assert "resuming from step " in said
    assert "by SIGINT, saved; the same command resumes" in said
    code, output, _ = run(*words, "--json")
    assert code == 0
    _, whole, _ = run(*words[:3], str(out) + "-whole", *words[4:], "--json")
    assert json.loads(whole)["hash"] == json.loads(output)["hash"]  # to the last bit


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(
    DATA is None, reason="FORECASTER_DATA is not set; this test needs the taxi zones"
)
def test_the_recipe_of_the_zones_trains_on_real_rides(run: Run, tmp_path: Path) -> None:
    small = ("model.per_location=2", "model.auxiliary=4", "model.heads=2", "training.batch=512")
    settings = [word for text in ("training.epochs=1", *small) for word in ("--set", text)]
    code, output, _ = run("train", ZONES, "--data", DATA, "--out", tmp_path / "run", *settings)
    assert code == 0
    panel = Panel.open(tmp_path / "run" / "panel")
    assert len(panel.locations) == 57  # zones with a mean of at least 10
    windows = load_estimator(tmp_path / "run").run.about["windows"]  # type: ignore[union-attr]
    total = sum(windows.values())
    assert windows["test"] / total == pytest.approx(0.2, abs=0.03)  # the last fifth
    assert "best           epoch 1 of 1" in output
