"""Drives the ingest and download commands end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.panel.panel import Panel, saved_recipe
from forecaster.publish.manifest import read_manifest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    lines = ["pickup_datetime,pickup_longitude,pickup_latitude"]
    lines += [f"2015-10-{d:02d} {h:02d}:30:00,-74.0,40.7" for d in range(1, 32) for h in range(24)]
    lines += ["2015-10-05 08:00:00,0,0", "2015-11-05 08:00:00,-74.0,40.7"]
    path = tmp_path / "yellow_tripdata_2015-10.csv"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "places.csv").write_text("node,y,x\n7,40.7,-74.0\n")
    return path


def test_trips_become_a_panel_with_row_counts(trips: Path, run: Run) -> None:
    out = trips.parent / "panel"
    words = ("ingest", "trips", trips, "--out", out, "--timezone", "America/New_York",
             "--candidates", trips.parent / "places.csv",
             "--candidate-columns", "id=node,lat=y,lon=x", "--min-demand", "1")  # fmt: skip
    code, output, _ = run(*words)
    assert code == 0
    assert "rows in                    746" in output
    assert "counted                    744" in output
    assert "rejected out_of_area" in output
    panel = Panel.open(out)
    assert panel.locations.ids == ("7",)
    assert (panel.values == 1).all()
    assert panel.counts["rejected"]["time_outside_file"] == 1
    code, output, _ = run(*words, "--json")
    data = json.loads(output)
    assert data["hash"] == panel.digest  # the same files give the same bytes
    assert data["rows_in"] == data["counted"] + sum(data["rejected"].values())


def test_the_recipe_lies_beside_the_panel(trips: Path, run: Run) -> None:
    out = trips.parent / "panel"
    run("ingest", "trips", trips, "--out", out, "--timezone", "America/New_York", "--candidates",
        trips.parent / "places.csv", "--candidate-columns", "id=node,lat=y,lon=x",
        "--min-demand", "1", "--hours", "05:00-23:00")  # fmt: skip
    again = trips.parent / "again"
    (recipe,) = out.glob("recipe-*.toml")
    code, _, _ = run("ingest", "recipe", recipe, "--data", trips.parent, "--out", again)
    assert code == 0
    assert Panel.open(again).digest == Panel.open(out).digest
    assert Panel.open(again).locations.hours == ("05:00-23:00",)


def test_trips_without_places_ask_for_them(trips: Path, run: Run) -> None:
    code, _, errors = run("ingest", "trips", trips, "--out", "x", "--timezone", "UTC")
    assert code == 2
    assert "no locations given; give --candidates FILE" in errors


def test_an_unknown_schema_is_a_data_error(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.csv").write_text("when,where\n2015-01-01 00:00:00,here\n")
    words = ("--timezone", "UTC", "--zones", "--covers", "2015-01-01:2015-01-01")
    code, _, errors = run("ingest", "trips", tmp_path / "t.csv", "--out", tmp_path / "p", *words)
    assert code == 3
    assert "unknown schema: columns [when, where]" in errors
    assert not (tmp_path / "p").exists()


def test_a_table_becomes_a_panel_and_gets_weather(tmp_path: Path, run: Run) -> None:
    times = pd.date_range("2015-01-01", periods=24 * 9, freq="h")
    values = np.random.default_rng(0).poisson(20, (len(times), 3))
    table = pd.DataFrame(values, columns=["a", "b", "c"]).assign(time=times.astype(str))
    table.drop(index=[50, 51]).to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "panel"
    words = (
        "ingest",
        "table",
        tmp_path / "table.csv",
        "--timezone",
        "Europe/Berlin",
        "--out",
        out,
    )
    code, output, errors = run(*words)
    assert code == 0
    assert "read as wide: time = time" in errors
    assert "completed steps            2" in output
    assert "gaps                       1, the longest 2 steps" in output
    assert np.isnan(Panel.open(out).values[50:52]).all()
    reports = pd.DataFrame({
        "time": times.astype(str), "t": 41.0, "w": 10.0, "p": 0.1, "v": 5.0,
    })  # fmt: skip
    reports.to_csv(tmp_path / "weather.csv", index=False)
    mapping = "time=time,temperature=t:F,wind=w:mph,precipitation=p:in,visibility=v:mi"
    words = ("ingest", "weather", tmp_path / "weather.csv", "--into", out, "--columns", mapping)
    code, _, errors = run(*words)
    assert code == 2  # naive times: ask, never guess
    code, output, _ = run(*words, "--timezone", "+01:00")
    assert code == 0
    panel = Panel.open(out)
    assert panel.covariates.values[0].tolist() == pytest.approx(
        [5, 4.4704, 2.54, 8.04672, 1, 0, 0]
    )
    assert panel.counts["completed_steps"] == 2  # what was known before is kept
    recipe = saved_recipe(out)
    assert recipe is not None
    assert recipe.table is not None  # how the values came, and now the weather too
    assert recipe.weather is not None
    assert read_manifest(out).parents.keys() == {"panel"}


def test_a_daily_table_becomes_a_panel_that_can_be_examined(tmp_path: Path, run: Run) -> None:
    days = pd.date_range("2021-01-01", periods=99, freq="D")
    table = pd.DataFrame({"date": days.astype(str), "station": "007", "cases": range(99)})
    twice = pd.concat([table, table.assign(station="010")])
    twice.to_csv(tmp_path / "t.csv", index=False)
    words = ("--timezone", "UTC", "--out", tmp_path / "p")
    code, output, errors = run("ingest", "table", tmp_path / "t.csv", *words)
    assert code == 0
    assert "no --step-minutes: 1 day" in errors
    assert "99 steps × 2 locations" in output
    assert "gaps" not in output
    assert "id = station, value = cases" in errors
    assert Panel.open(tmp_path / "p").locations.ids == ("007", "010")
    code, output, _ = run("doctor", tmp_path / "p", "--json")
    findings = {f["topic"]: f for f in json.loads(output)["findings"]}
    assert code == 0
    assert "a window needs 30 past steps" in findings["history"]["text"]  # four weeks


def test_a_wrong_mapping_names_every_fault(tmp_path: Path, run: Run) -> None:
    (tmp_path / "w.csv").write_text("time\n")
    (tmp_path / "t.csv").write_text("time,a\n2015-01-01 00:00,1\n2015-01-01 01:00,1\n")
    run("ingest", "table", tmp_path / "t.csv", "--timezone", "UTC", "--out", tmp_path / "p")
    words = ("--into", tmp_path / "p", "--columns", "time=time,temprature=t:F,wind=w:furlong")
    code, _, errors = run("ingest", "weather", tmp_path / "w.csv", *words)
    assert code == 2
    assert "temperature" in errors
    assert "furlong" in errors


def test_wrong_months_are_a_usage_error(tmp_path: Path, run: Run) -> None:
    code, _, errors = run("download", "nyc-taxi", "--months", "2009-13", "--to", tmp_path)
    assert code == 2
    assert "2009-13" in errors


def test_a_recipe_without_its_files_names_them(tmp_path: Path, run: Run) -> None:
    recipe = Path(__file__).parents[2] / "recipes" / "zone_taxi_2019.toml"
    code, _, errors = run("ingest", "recipe", recipe, "--data", tmp_path, "--out", tmp_path / "p")
    assert code == 3
    assert "pickups.parquet" in errors
    assert "FORECASTER_DATA" in errors


def test_a_table_with_renames_dates_and_censored_hours_becomes_a_panel(
    tmp_path: Path, run: Run
) -> None:
    times = pd.date_range("2015-01-01", periods=8, freq="h")
    rows = pd.concat(
        [
            pd.DataFrame({"id": "old", "time": times[:4], "y": 10, "sold_out": 0}),
            pd.DataFrame({"id": "new", "time": times[4:], "y": 20, "sold_out": [0, 1, 0, 0]}),
            pd.DataFrame({"id": "later", "time": times, "y": 30, "sold_out": 0}),
        ]
    )
    rows.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "renames.csv").write_text("old,new,from\nold,new,2015-01-01T04:00\n")
    (tmp_path / "places.csv").write_text(
        "id,opens,closes\nnew,,\nlater,2015-01-01T03:00,2015-01-02\n"
    )
    out = tmp_path / "panel"
    words = ("--locations", tmp_path / "places.csv", "--renames", tmp_path / "renames.csv",
             "--censored", "sold_out", "--timezone", "UTC", "--out", out)  # fmt: skip
    code, output, _ = run("ingest", "table", tmp_path / "table.csv", *words)
    assert code == 0
    assert "renames                    1" in output
    assert "values outside life        3" in output
    assert "censored values            1" in output
    panel = Panel.open(out)
    nan = float("nan")
    new, later = ([10, 10, 10, 10, 20, nan, 20, 20], [nan, nan, nan, 30, 30, 30, 30, 30])
    np.testing.assert_array_equal(panel.values, np.array([new, later]).T)
    assert panel.locations.ids == ("new", "later")
    assert panel.locations.closes[1] == np.datetime64("2015-01-02", "s")
    (recipe,) = out.glob("recipe-*.toml")
    code, _, _ = run("ingest", "recipe", recipe, "--data", tmp_path, "--out", tmp_path / "again")
    assert code == 0
    assert Panel.open(tmp_path / "again").digest == panel.digest


def test_zones_that_were_merged_are_counted_together(tmp_path: Path, run: Run) -> None:
    lines = ["pickup_datetime,zone"]
    for day in range(1, 11):
        early = day <= 5
        for hour in range(24):
            time = f"2015-10-{day:02d} {hour:02d}:30:00"
            lines += [f"{time},{zone}" for zone in ([1, 2] if early else [3, 3])]
    path = tmp_path / "trips.csv"
    path.write_text("\n".join(lines) + "\n")
    (tmp_path / "renames.csv").write_text("old,new,from\n1,3,2015-10-06\n2,3,2015-10-06\n")
    words = ("--zones", "--columns", "time=pickup_datetime,zone=zone", "--min-demand", "1.5",
             "--covers", "2015-10-01:2015-10-10", "--timezone", "UTC",
             "--renames", tmp_path / "renames.csv", "--out", tmp_path / "panel")  # fmt: skip
    code, _, errors = run("ingest", "trips", path, *words)
    assert code == 0, errors
    panel = Panel.open(tmp_path / "panel")
    assert panel.locations.ids == ("3",)
    assert (panel.values == 2).all()


def test_a_table_with_past_only_columns_becomes_a_panel(tmp_path: Path, run: Run) -> None:
    times = pd.date_range("2015-01-01", periods=7, freq="h")
    rows = pd.DataFrame({"id": "a", "time": times, "y": 5, "dropoffs": range(7), "noise": 1})
    rows.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "panel"
    words = ("ingest", "table", tmp_path / "table.csv", "--timezone", "UTC", "--out", out)
    code, _, errors = run(*words, "--past-only", "dropofs")
    assert code == 3
    assert "did you mean 'dropoffs'?" in errors
    code, _, _ = run(*words, "--past-only", "dropoffs")
    assert code == 0
    panel = Panel.open(out)
    assert panel.past_only == panel.local_covariates.names == ("dropoffs",)
    assert panel.local_covariates.values[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
