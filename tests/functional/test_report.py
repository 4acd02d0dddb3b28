"""`forecaster report` as users call it."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster import errors as messages
from forecaster.cli import run as run_command
from forecaster.cli.app import main
from forecaster.errors import ConfigError

Run = Callable[..., tuple[int, str, str]]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
SETTINGS = [
    word
    for text in (
        "lags.recent=3", "lags.seasons=[{days=1, count=2, before=0, after=2}]", "lags.horizon=2",
        'evaluation.models=["SeasonalNaive", "Ridge"]', "training.epochs=1", "training.batch=512",
    )
    for word in ("--set", text)
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `forecaster run` makes of a table of 43 days at three places."""
    folder = tmp_path_factory.mktemp("report")
    generator = np.random.default_rng(0)
    times = pd.date_range("2021-03-01", periods=24 * 43, freq="h", tz="UTC")
    level = 20 + 15 * np.sin(np.arange(len(times)) / 24 * 2 * np.pi)
    counts = generator.poisson(level[:, None], (len(times), 3))
    frame = pd.DataFrame(counts, columns=["a", "<b>", "c"]).assign(time=times)
    frame.to_csv(folder / "rides.csv", index=False)
    words = ["run", folder / "rides.csv", "--out", folder / "out", *SETTINGS]
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert not left.value.code
    return folder / "out"


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """Return the same, to be changed."""
    return Path(shutil.copytree(made, tmp_path / "out"))


def test_a_run_ends_with_its_report(made: Path) -> None:
    assert "&lt;b&gt;" in (made / "report.html").read_text()
    assert (made / "figures" / "02-normal-week.svg").exists()


def test_refits_on_the_way_are_in_the_tables_and_on_the_page(run: Run, copied: Path) -> None:
    words = ("--out", copied, "--panel", copied / "panel", "--refit", "4d", "--models", "Ridge")
    code, text, errors = run("evaluate", copied / "recipe.toml", *words)
    assert code == 0, errors
    assert "Ridge, seed 0: refit 2 of 2, 2021-04-12" in errors
    written = (copied / "table.md").read_text()
    assert "| refit every 4 days | RMSE unchanged | refitted | change |" in written
    assert "Ridge" in text
    assert "--refit 4d" in (copied / "command.txt").read_text()
    again = run("evaluate", copied / "recipe.toml", *words)
    assert "refit 1" not in again[2]
    code, _, errors = run("report", copied)
    assert code == 0, errors
    page = (copied / "report.html").read_text()
    assert "What it is worth to stay up to date" in page
    assert "Refitted every 4 days, Ridge has an RMSE" in page
    assert "Change of RMSE" not in page  # a refit is no ablation


def test_the_page_and_its_figures_are_written(run: Run, copied: Path) -> None:
    shutil.rmtree(copied / "figures")
    (copied / "report.html").unlink()
    code, text, errors = run("report", copied)
    assert code == 0, errors
    assert text == f"{copied / 'report.html'}\n"
    assert "forecasting with" in errors
    names = {path.stem for path in (copied / "figures").iterdir()}
    assert {"02-normal-week", "03-worst-day", "04-hours", "20-coverage-steps"} <= names
    for name in names:
        assert (copied / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (copied / "figures" / f"{name}.svg").read_bytes()


@pytest.mark.slow  # it trains two networks
def test_the_command_that_repeats_it_is_on_the_page(run: Run, made: Path, tmp_path: Path) -> None:
    panel = made / "panel"
    words = ("--panel", panel, "--graph", "own", "--models", "Ridge,Forecaster", "--seeds", "1")
    code, _, errors = run("evaluate", made / "recipe.toml", "--out", tmp_path, *words)
    assert code == 0, errors
    assert run("report", tmp_path)[0] == 2  # its panel lies elsewhere
    assert run("report", tmp_path, "--panel", panel, "--figures", tmp_path / "papers")[0] == 0
    again = f"forecaster evaluate {tmp_path / 'recipe.toml'} --out {tmp_path} --panel {panel}"
    asked = "--models Ridge,Forecaster --graph own --seeds 1"
    assert f"{again} {asked}<" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "papers" / "13-learning.svg").exists()
    assert not (tmp_path / "figures").exists()


def test_a_folder_without_a_comparison_says_what_to_run(run: Run, tmp_path: Path) -> None:
    code, text, errors = run("report", tmp_path)
    assert (code, text) == (2, "")
    assert "`forecaster evaluate RECIPE --out" in errors


def test_damage_is_found(run: Run, copied: Path) -> None:
    (values,) = (copied / "panel").glob("values_0-*.parquet")
    values.write_bytes(values.read_bytes()[:-1] + b"x")
    code, _, errors = run("report", copied)
    assert code == 4
    assert "does not match its manifest" in errors


def test_a_missing_extra_is_named(run: Run, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(messages.importlib, "import_module", lacking)
    code, _, errors = run("report", made)
    assert code == 2
    assert "this needs jinja2, which is not installed: pip install 'forecaster[report]'" in errors


def test_a_run_without_the_extra_still_gives_its_table(
    run: Run, made: Path, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise ConfigError("this needs jinja2")

    monkeypatch.setattr(run_command, "write_report", lacking)
    words = ("--data", made.parent, "--out", copied)
    code, text, errors = run("run", made / "recipe.toml", *words)
    assert code == 0, errors
    assert "RMSE" in text
    assert "no report: this needs jinja2" in errors


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: apt-get install chromium")
@pytest.mark.parametrize("width", [400, 1280])
def test_a_browser_shows_the_page_without_scrolling_sideways(
    made: Path, tmp_path: Path, width: int
) -> None:
    # A frame can be as narrow as a phone, a window cannot; what is in it tells how wide it is.
    asks = """<script>onload = () => parent.postMessage([
        document.documentElement.scrollWidth <= innerWidth,
        performance.getEntriesByType("resource").length, innerWidth].join(), "*")</script>"""
    (tmp_path / "page.html").write_text((made / "report.html").read_text() + asks)
    frame = f"""<title></title><script>onmessage = told => document.title = told.data</script>
        <iframe src="page.html" width="{width}" height="900" frameborder="0"></iframe>"""
    (tmp_path / "frame.html").write_text(frame)
    words = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000"]
    shown = subprocess.run(
        [*words, (tmp_path / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    assert f"<title>true,0,{width}</title>" in shown  # it fits, and nothing was fetched
