"""The artifacts of earlier versions open, and their runs forecast the same bits."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.estimators.registry import load_estimator
from forecaster.graph.storage import open_graph
from forecaster.panel.panel import Panel, saved_recipe
from forecaster.publish.manifest import artifacts_below, read_manifest, verify_files
from forecaster.serve.data.database import FORMAT
from forecaster.serve.data.store import Store
from tests.golden import make_format_1 as format_1

GOLDEN = Path(__file__).parent / "golden" / "format-1"
PANELS = {"city": format_1.city, "shop": format_1.shop, "months": format_1.months}
DIGESTS = {
    "graphs/directed": "c4c3aff4f498",
    "graphs/undirected": "5483b5edfdd6",
    "panels/city": "93e319ab27a0",
    "panels/months": "8d3d61a3ce5a",
    "panels/shop": "0a9f55f12114",
    "runs/best": "9ab2da8d38db",
    "runs/boosting": "547063b77a93",
    "runs/dcrnn": "6b8347b817ce",
    "runs/historical-mean": "741de78026b5",
    "runs/paper": "40656742b939",
    "runs/ridge": "3df37af4e4f0",
}
MAX_BYTES = 2_000_000


def test_S10_every_golden_artifact_is_as_its_format_wrote_it() -> None:
    digests = {}
    for folder in artifacts_below(GOLDEN):
        manifest = read_manifest(folder)
        verify_files(folder, manifest)
        digests[str(folder.relative_to(GOLDEN))] = manifest.digest[:12]
    assert digests == DIGESTS


def test_the_golden_artifacts_stay_small() -> None:
    sizes = [path.stat().st_size for path in GOLDEN.parent.rglob("*") if path.is_file()]
    assert sum(sizes) < MAX_BYTES


@pytest.mark.parametrize("name", PANELS)
def test_S10_golden_panels_of_format_1_have_their_values_bit_by_bit(name: str) -> None:
    golden, made = Panel.open(GOLDEN / "panels" / name), PANELS[name]()
    for values, expected in (
        (golden.values, made.values),
        (golden.covariates.values, made.covariates.values),
        (golden.local_covariates.values, made.local_covariates.values),
        (golden.times, made.times),
        (golden.locations.opens, made.locations.opens),
    ):
        np.testing.assert_array_equal(values, expected, strict=True)
    assert golden.locations.ids == made.locations.ids
    assert golden.locations.extra == made.locations.extra
    assert golden.locations.hours == made.locations.hours
    assert (golden.clock.zone, golden.clock.step_text) == (made.clock.zone, made.clock.step_text)
    assert (golden.kind, golden.past_only) == (made.kind, made.past_only)
    assert saved_recipe(GOLDEN / "panels" / name) == format_1.RECIPE


def test_S10_golden_graphs_keep_their_edges() -> None:
    undirected = open_graph(GOLDEN / "graphs" / "undirected")
    directed = open_graph(GOLDEN / "graphs" / "directed")
    assert (len(undirected), undirected.is_directed) == (3, False)
    assert (len(directed), directed.is_directed) == (0, True)


@pytest.mark.parametrize("name", format_1.RUNS)
def test_S10_golden_runs_forecast_the_same_bits(name: str) -> None:
    """On another processor or with other libraries the last bits may differ, and no more."""
    panel = Panel.open(GOLDEN / "panels" / "city")
    table = format_1.forecast(load_estimator(GOLDEN / "runs" / name), panel)
    expected = pd.read_parquet(GOLDEN / "forecasts" / f"{name}.parquet")
    expected = expected.astype(dict(table.dtypes))  # Parquet has no times in seconds
    made_on = json.loads((GOLDEN / "forecasts" / "machine.json").read_text(encoding="utf-8"))
    exact = made_on == format_1.machine()
    pd.testing.assert_frame_equal(table, expected, check_exact=exact, rtol=1e-4, atol=1e-4)


def test_S10_the_golden_store_is_read(tmp_path: Path) -> None:
    copy = tmp_path / "store.sqlite"
    copy.write_bytes((GOLDEN / "store.sqlite").read_bytes())
    panel = Panel.open(GOLDEN / "panels" / "city")
    store = Store(copy, str(panel.digest))
    observations = {(name, time): value for (name, time, value), _ in store.read("observations")}
    first = int(panel.instant(len(panel.values)).astype(np.int64))
    assert len(observations) == 2 * 5
    assert observations["place 0", first] == 5.0
    assert [one.id for one in store.registrations()] == ["place 5"]
    store.close()
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (FORMAT,)
