"""Every name on the page of artifact formats is the name in artifacts that are written here."""

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from forecaster.artifact import begin_run
from forecaster.cli.app import main
from forecaster.config import PanelConfig, TableConfig, TrainingConfig
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.fallback.served import NAMES
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.estimators.registry import load_estimator
from forecaster.evaluation.challenge import Challenge, Knowledge
from forecaster.graph.learn import learn_graph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates
from forecaster.panel.vintages import sort_vintages
from forecaster.serve.data.store import Store
from forecaster.splits import Splits
from forecaster.versions import Versions, save_verdict

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "artifacts.md"
TABLE = re.compile(r"^\| ([^|\n]+) \|[^\n]*\n\| ---[^\n]*\n((?:\|[^\n]*\n)+)", re.MULTILINE)
NAME = re.compile(r"`([^`]+)`")
LATER_BLOCK = re.compile(r"^(values|covariates|local_covariates_\d+)_\d+\.parquet$")
Manifest = dict[str, Any]
Page = dict[str, dict[str, dict[str, str]]]  # section, head of a table, first cell


@pytest.fixture(scope="module")
def page() -> Page:
    """The tables of the page."""
    text = PAGE.read_text(encoding="utf-8")
    sections: Page = {}
    for section in text.split("\n## ")[1:]:
        tables = sections[section.splitlines()[0]] = {}
        for head, rows in TABLE.findall(f"{section}\n"):
            cells = [row.strip("| ").split(" | ", 1) for row in rows.splitlines()]
            tables[head.replace("`", "")] = {NAME.findall(a)[0]: b for a, b in cells}
    return sections


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a panel, a comparison, a training with checkpoints and a store."""
    folder = tmp_path_factory.mktemp("artifacts")
    plain = small_city()
    shape = (1, len(plain.known_times), len(plain.locations))
    zeros = np.zeros(shape, dtype=np.float32)
    closed = LocalCovariates(("closed",), zeros, past_only=("closed",))
    opens = np.full(len(plain.locations), plain.start)
    locations = replace(plain.locations, opens=opens)
    panel = replace(plain, local_covariates=closed, locations=locations)
    panel = panel.save(folder / "panel", RECIPE)
    steps = np.arange(len(plain.known_times))
    vintages = sort_vintages(plain.covariates.names, steps, steps - 3, plain.covariates.values)
    replace(panel, covariates=replace(plain.covariates, vintages=vintages)).save(folder / "dated")
    _compare(folder, panel)
    recipe = RECIPE.model_copy(
        update={"training": TrainingConfig(epochs=2, checkpoint_steps=1, ema=0.9)}
    )
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    graph = learn_graph(panel, splits, RECIPE.graph)
    begin_run(folder / "begun", "Forecaster", recipe)
    Forecaster(graph, recipe).fit(panel, splits, folder=folder / "training")
    Store(folder / "store.sqlite", str(panel.digest)).close()
    run = load_estimator(next(folder.glob("comparison/cells/*")))
    run.forecast(panel.steps(0, 1_000), weather="persist", state=folder / "corrections")
    version = Versions.begin(folder / "runs").add(next(folder.glob("comparison/cells/*")))
    names = {"champion": "v0001", "challenger": "v0002", "held_out": ["", ""]}
    outcome = Challenge((), Knowledge(0, 0.0), 0, 0, {}, None)
    save_verdict(version.folder, {**names, **outcome.to_json()})
    return folder


def _compare(folder: Path, panel: Panel) -> None:
    panel.to_wide().to_parquet(folder / "counts.parquet")
    sources = {
        "panel": PanelConfig(timezone="Europe/Berlin"),
        "table": TableConfig(file="counts.parquet"),
    }
    (folder / "given.toml").write_text(RECIPE.model_copy(update=sources).to_toml())
    words = ["evaluate", folder / "given.toml", "--data", folder, "--out", folder / "comparison"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--models", "Ridge,Forecaster", "--seeds", "1"])
    assert not ended.value.code


def read(folder: Path) -> Manifest:
    manifest: Manifest = json.loads((folder / "manifest.json").read_text())
    return manifest


def test_every_manifest_has_the_keys_of_the_page(page: Page, artifacts: Path) -> None:
    keys, kinds = page["Every artifact"]["key of the manifest"], set()
    for path in artifacts.rglob("manifest.json"):
        manifest = read(path.parent)
        assert set(manifest) == set(keys)
        version = 3 if manifest["kind"] == "panel" else 1
        assert (manifest["layout"], manifest["version"]) == (1, version)
        kinds.add(manifest["kind"])
        for logical, file in manifest["files"].items():
            stem, suffix = logical.rsplit(".", 1)
            assert file["name"] == f"{stem}-{file['sha256'][:12]}.{suffix}"
            assert all(f"`{key}`" in keys["files"] for key in file)
    assert kinds == set(NAME.findall(keys["kind"]))


@pytest.mark.parametrize(
    ("section", "folders"),
    [
        ("Panel", ["panel", "dated"]),
        ("Graph", ["comparison/graphs/*"]),
        ("Run", ["comparison/cells/*", "begun"]),
        ("Runs in versions", ["runs"]),
        ("Verdict on a version", ["runs/*/verdict"]),
        ("Checkpoint", ["training/checkpoint-a", "training/checkpoint-b"]),
        ("Online corrections", ["corrections"]),
        ("Backtest result", ["comparison/cells/*/test"]),
    ],
)
def test_files_and_metadata_are_those_of_the_page(
    section: str, folders: list[str], page: Page, artifacts: Path
) -> None:
    manifests = [read(path) for pattern in folders for path in artifacts.glob(pattern)]
    assert len(manifests) >= len(folders)
    for head, part in (("file", "files"), ("key of about", "about")):
        names = {name for manifest in manifests for name in manifest[part]}
        written = {LATER_BLOCK.sub(r"\1_0.parquet", name) for name in names}
        assert written == set(page[section].get(head, ()))


def test_columns_of_tables_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    for section, pattern in (
        ("Panel", "panel"),
        ("Panel", "dated"),
        ("Graph", "comparison/graphs/*"),
    ):
        folder = next(artifacts.glob(pattern))
        for logical, file in read(folder)["files"].items():
            if logical.endswith(".parquet"):
                columns = pq.read_schema(folder / file["name"]).names
                name = LATER_BLOCK.sub(r"\1_0.parquet", logical)
                names = NAME.findall(page[section]["file"][name])
                assert columns[: len(names)] == names


def test_arrays_of_runs_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").split("## Run")[1].split("## Checkpoint")[0]
    own = set(NAME.findall(text.split("The other arrays")[1])) - {"Ridge", "Forecaster", "model."}
    arrays = {
        name
        for path in artifacts.glob("comparison/cells/*")
        for name in read(path)["about"]["arrays"]
    }
    weights = {name for name in arrays if name.startswith("model.")}
    assert weights
    assert arrays - weights == set(page["Run"]["array"]) | own


def test_arrays_of_a_fallback_are_those_of_the_page() -> None:
    panel = small_city()
    splits = Splits.by_share(panel, validation=0.25, test=0.2)
    run = Forecaster(recipe=RECIPE).fit(panel, splits).run  # one epoch: worse than simple models
    assert run is not None
    arrays = {name for name in run.arrays if name.startswith("fallback.")}
    text = PAGE.read_text(encoding="utf-8")
    named = {name for name in NAME.findall(text) if name.startswith("fallback.")}
    assert named - {"fallback.relative"} <= arrays  # of models with `y_relative`
    own = {name for name in arrays if name.count(".") == 1}
    assert own <= named
    assert ", ".join(f"{n} {name}" for n, name in enumerate(NAMES, start=1)) in text


def test_arrays_of_checkpoints_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    arrays = read(artifacts / "training" / "checkpoint-b")["about"]["arrays"]
    assert list(page["Checkpoint"]["file"]) == ["arrays.safetensors"]
    assert set(arrays) == set(NAME.findall(page["Checkpoint"]["file"]["arrays.safetensors"]))
    assert (artifacts / "training" / "log.jsonl").exists()


def test_arrays_of_online_corrections_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    arrays = read(artifacts / "corrections")["about"]["arrays"]
    text = page["Online corrections"]["file"]["arrays.safetensors"]
    named = set(NAME.findall(text)) - {"due.missing"}  # only where something is missing
    assert {name.partition(".")[2] for name in arrays} == named


def test_arrays_of_backtest_results_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    listed = set(page["Backtest result"]["array"])
    errors = {name for name in listed if name.startswith("observed.")}
    intervals = {name for name in listed if name.startswith("static.")}
    expected = listed | {name.replace("observed.", "places.") for name in errors}
    for mode in ("static.places.", "online.", "online.places."):
        expected |= {name.replace("static.", mode) for name in intervals}
    for path in artifacts.glob("comparison/cells/*/test"):
        assert set(read(path)["about"]["arrays"]) == expected


def test_tables_of_the_store_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    connection = sqlite3.connect(artifacts / "store.sqlite")
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    names = [row[0] for row in connection.execute(query)]
    tables = page["The service's store"]["table"]
    assert set(names) == set(tables)
    for name, text in tables.items():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        assert columns == NAME.findall(text)
    connection.close()


def test_paths_of_a_comparison_are_those_of_the_page(page: Page, artifacts: Path) -> None:
    paths = page["A comparison"]["path"]
    for path in paths:
        assert list((artifacts / "comparison").glob(path)), path
    written = {path.name for path in (artifacts / "comparison").iterdir()}
    assert written - {"panel.json"} == {path.split("/")[0] for path in paths}
