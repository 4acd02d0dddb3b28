"""The examples, links and names of README and docs are right as they are printed."""

import json
import os
import re
from pathlib import Path

import pytest

from forecaster.config import (
    DCRNNConfig,
    EvaluationConfig,
    GraphConfig,
    GraphWaveNetConfig,
    LagConfig,
    MetricConfig,
    MixerConfig,
    ModelConfig,
    STAEformerConfig,
    STIDConfig,
    TrainingConfig,
)
from forecaster.recipe import read_recipe

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code is not None
    names: dict[str, object] = {}
    exec(code[1], names)  # noqa: S102 (our own README)
    columns = list(names["table"].columns)  # type: ignore[attr-defined]
    assert columns == ["unique_id", "ds", "ds_local", "cutoff", "y_hat", "q10", "q50", "q90"]
    assert {path.name for path in tmp_path.iterdir()} == {"panel", "run"}


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = json.loads((ROOT / "examples" / "quickstart.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102 (our own notebook)
    assert len(names["comparison"].tested) == 4  # type: ignore[attr-defined]
    assert {path.name for path in tmp_path.iterdir()} == {"quickstart-run"}


def test_the_readme_stays_short_and_narrow() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert max(len(line) for line in lines) <= 100


def test_every_link_of_a_document_leads_somewhere() -> None:
    for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not target.startswith(("http", "mailto")):
                assert os.path.exists(document.parent / target), f"{document.name}: {target}"  # noqa: PTH110


def test_every_package_is_in_the_architecture() -> None:
    page = (ROOT / "docs" / "understand" / "architecture.md").read_text(encoding="utf-8")
    for path in (ROOT / "src" / "forecaster").iterdir():
        if path.name.startswith("_") or path.name == "py.typed":
            continue
        name = path.name + "/" if path.is_dir() else path.name
        assert f"`{name}`" in page, f"{name} is not in docs/understand/architecture.md"


def test_every_file_that_the_docs_name_exists() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|js|toml))`", text):
            places = (ROOT, ROOT / "src" / "forecaster", ROOT / "docs")
            assert any((place / name).exists() for place in places), f"{page.name}: {name}"


def test_every_symbol_of_the_paper_map_exists() -> None:
    text = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")
    symbols = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_.]+)`", text)
    assert len(symbols) > 5
    for symbol in symbols:
        parts = symbol.split(".")
        file = next(
            ROOT / "src" / "forecaster" / Path(*parts[:n]).with_suffix(".py")
            for n in range(len(parts), 0, -1)
            if (ROOT / "src" / "forecaster" / Path(*parts[:n]).with_suffix(".py")).exists()
        )
        assert re.search(rf"\b{parts[-1]}\b", file.read_text(encoding="utf-8")), symbol
    for test in re.findall(r"`(tests/[^`]+)`", text):
        assert (ROOT / test).exists(), test


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.name)
def test_every_recipe_can_be_read(path: Path) -> None:
    assert read_recipe(path).digest()


def test_the_commented_recipe_shows_the_defaults() -> None:
    recipe = read_recipe(ROOT / "recipes" / "hourly_counts.toml")
    assert recipe.lags == LagConfig()
    assert recipe.metrics == MetricConfig()
    assert recipe.graph == GraphConfig()
    assert recipe.model == ModelConfig()
    assert recipe.mixer == MixerConfig()
    assert recipe.training == TrainingConfig()
    assert recipe.dcrnn == DCRNNConfig()
    assert recipe.stid == STIDConfig()
    assert recipe.graph_wavenet == GraphWaveNetConfig()
    assert recipe.staeformer == STAEformerConfig()
    assert recipe.evaluation == EvaluationConfig()
