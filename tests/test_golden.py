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
from forecaster.publish.manifest import (
    artifacts_below,
    read_manifest,
    read_versions,
    verify_files,
)
from forecaster.serve.data.database import FORMAT
from forecaster.serve.data.store import Store
from tests.golden import make_format_1 as format_1
from tests.golden import make_format_2 as format_2
from tests.golden import make_format_3 as format_3

EVERY = Path(__file__).parent / "golden"
GOLDEN = EVERY / "format-1"
PANELS = {"city": format_1.city, "shop": format_1.shop, "months": format_1.months}
DIGESTS = {
    "format-1/graphs/directed": "c4c3aff4f498",
    "format-1/graphs/undirected": "5483b5edfdd6",
    "format-1/panels/city": "93e319ab27a0",
    "format-1/panels/months": "8d3d61a3ce5a",
    "format-1/panels/shop": "0a9f55f12114",
    "format-1/runs/best": "9ab2da8d38db",
    "format-1/runs/boosting": "547063b77a93",
    "format-1/runs/dcrnn": "6b8347b817ce",
    "format-1/runs/historical-mean": "741de78026b5",
    "format-1/runs/paper": "40656742b939",
    "format-1/runs/ridge": "3df37af4e4f0",
    "format-2/graphs/delayed": "61f968180cdc",
    "format-2/panels/announced": "365b17f1e127",
    "format-3/panels/grown": "506d00e6b1d0",
    "format-3/runs/delayed": "92acc6f1fb5a",
    "format-3/runs/ensemble": "00441a6090de",
}
MAX_BYTES = 2_000_000


def test_S10_every_golden_artifact_is_as_its_format_wrote_it() -> None:
    digests = {}
    for folder in artifacts_below(EVERY):
        manifest = read_manifest(folder)
        verify_files(folder, manifest)
        digests[str(folder.relative_to(EVERY))] = manifest.digest[:12]
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


def test_S10_a_golden_panel_with_vintages_has_its_values_bit_by_bit() -> None:
    golden, made = Panel.open(EVERY / "format-2" / "panels" / "announced"), format_2.announced()
    assert_same_panel(golden, made)


def test_S10_a_golden_panel_that_has_grown_keeps_every_version_bit_by_bit() -> None:
    folder, made = EVERY / "format-3" / "panels" / "grown", format_2.announced()
    assert_same_panel(Panel.open(folder), format_3.revised(made))
    versions = [manifest.digest for manifest in read_versions(folder)[:-1]]
    ends = [len(Panel.open(folder, version=digest).values) for digest in versions]
    assert sorted(ends) == sorted(format_3.BORDERS[1:])
    whole = next(d for d, end in zip(versions, ends, strict=True) if end == format_3.BORDERS[-1])
    assert_same_panel(Panel.open(folder, version=whole), made)  # before the revision
    week = Panel.open(folder, verify=False).steps(24 * 33, 24 * 40)  # across two blocks
    np.testing.assert_array_equal(week.values, made.values[24 * 33 : 24 * 40], strict=True)


def test_S10_a_golden_graph_with_delays_keeps_its_edges() -> None:
    golden, made = open_graph(EVERY / "format-2" / "graphs" / "delayed"), format_2.directed()
    assert golden.is_directed
    for name in ("pairs", "strengths", "delays"):
        np.testing.assert_array_equal(getattr(golden, name), getattr(made, name), strict=True)


def assert_same_panel(golden: Panel, made: Panel) -> None:
    """Values, covariates and vintages are the same to the bit."""
    np.testing.assert_array_equal(golden.values, made.values, strict=True)
    np.testing.assert_array_equal(golden.covariates.values, made.covariates.values, strict=True)
    np.testing.assert_array_equal(golden.times, made.times, strict=True)
    assert golden.locations.ids == made.locations.ids
    vintages, expected = golden.covariates.vintages, made.covariates.vintages
    assert vintages is not None
    assert expected is not None
    assert vintages.names == expected.names
    for name in ("steps", "known", "values"):
        np.testing.assert_array_equal(getattr(vintages, name), getattr(expected, name))


RUNS = [(GOLDEN, name) for name in format_1.RUNS]
RUNS += [(EVERY / "format-3", name) for name in format_3.RUNS]


@pytest.mark.parametrize(("folder", "name"), RUNS, ids=[name for _, name in RUNS])
def test_S10_golden_runs_forecast_the_same_bits(folder: Path, name: str) -> None:
    """On another processor or with other libraries the last bits may differ, and no more."""
    panel = Panel.open(next((folder / "panels").glob("[cg]*")))  # city or grown
    table = format_1.forecast(load_estimator(folder / "runs" / name), panel)
    for forecasts in sorted(folder.glob("forecasts*")):  # of the same run, on other processors
        expected = pd.read_parquet(forecasts / f"{name}.parquet")
        expected = expected.astype(dict(table.dtypes))  # Parquet has no times in seconds
        made_on = json.loads((forecasts / "machine.json").read_text(encoding="utf-8"))
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
