"""Drives the command with files in a bucket: the same panels as from files here."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forecaster import SeasonalNaive, Splits
from forecaster.panel.panel import Panel
from forecaster.synthetic.city import make_city
from tests.stores import SECRET, Bucket

Run = Callable[..., tuple[int, str, str]]


def test_tables_trips_panels_and_runs_are_read_from_a_bucket(
    bucket: Bucket, tmp_path: Path, run: Run
) -> None:
    city = make_city(locations=3, start="2024-01-01", hours=24 * 60, seed=5)
    sales = city.panel.to_long().rename(columns={"unique_id": "shop", "ds": "at", "y": "sold"})
    random = np.random.default_rng(0)
    sales["note"] = [random.bytes(100).hex() for _ in range(len(sales))]
    sales[["shop", "at", "sold", "note"]].to_parquet(tmp_path / "sales.parquet")
    url = bucket.put(tmp_path / "sales.parquet", "sales.parquet")
    words = ("--timezone", "America/New_York", "--columns", "time=at,id=shop,value=sold")
    for source, out in ((tmp_path / "sales.parquet", "here"), (url, "there")):
        code, _, errors = run("ingest", "table", source, "--out", tmp_path / out, *words)
        assert code == 0, errors
    here, there = Panel.open(tmp_path / "here"), Panel.open(tmp_path / "there")
    assert here.values.tobytes() == there.values.tobytes()
    assert bucket.received < (tmp_path / "sales.parquet").stat().st_size / 2
    (recipe,) = (tmp_path / "there").glob("recipe-*.toml")  # says where the values came from
    again = run("ingest", "recipe", recipe, "--data", tmp_path, "--out", tmp_path / "again")
    assert again[0] == 0, again[2]
    assert Panel.open(tmp_path / "again").digest == there.digest

    SeasonalNaive().fit(here, Splits.by_share(here)).save(tmp_path / "run")
    expected = run("forecast", tmp_path / "run", "--panel", tmp_path / "here")
    panel, model = bucket.put(tmp_path / "here", "panel"), bucket.put(tmp_path / "run", "run")
    assert run("forecast", model, "--panel", panel)[:2] == expected[:2]
    code, output, errors = run("run", panel, "--quick", "--out", tmp_path / "compared")
    assert code == 0, errors
    assert "SeasonalNaive" in output
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


def test_trips_of_a_bucket_give_the_panel_of_their_file(
    bucket: Bucket, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / "trips.parquet"
    city = make_city(locations=3, start="2015-10-20", hours=49)
    pq.write_table(pa.concat_tables(city.trips(0, 48)), path)
    words = ("--candidates", "from-trips", "--timezone", "America/New_York", "--min-demand", "0")
    words += ("--covers", "2015-10-20:2015-10-21", "--bbox", "40,-75,41.5,-73")
    panels = []
    for source, out in ((path, "here"), (bucket.put(path, "trips.parquet"), "there")):
        code, _, errors = run("ingest", "trips", source, "--out", tmp_path / out, *words)
        assert code == 0, errors
        panels.append(Panel.open(tmp_path / out))
    assert panels[0].values.tobytes() == panels[1].values.tobytes()


def test_a_remote_table_is_run_to_its_forecast_and_failures_are_told(
    bucket: Bucket, tmp_path: Path, run: Run
) -> None:
    frame = make_city(locations=2, hours=24 * 40, seed=3).panel.to_wide()
    frame.to_csv(tmp_path / "load.csv", index=False)
    url = bucket.put(tmp_path / "load.csv", "load.csv")
    code, output, errors = run("run", url, "--quick", "--out", tmp_path / "out")
    assert code == 0, errors
    assert "Forecast of" in output
    texts = []
    for words in (("run", "s3://bucket/none.csv"), ("forecast", "s3://bucket/x", "--panel", url)):
        code, _, errors = run(*words, "--debug")
        assert (code, "no such file" in errors) == (3, True), errors
        texts.append(errors)
    assert SECRET not in "".join(texts)
