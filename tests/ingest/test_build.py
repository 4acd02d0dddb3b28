import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from forecaster.clock.zone import to_local
from forecaster.errors import ConfigError, DataError
from forecaster.ingest.build import (
    CHOSEN_BY_ALL_HOURS,
    Sources,
    build_panel,
    find_sources,
    join_weather,
)
from forecaster.ingest.weather import WEATHER_NAMES
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, check_stage, read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
STEPS, PLACES = 29, 3
WEATHER = "time=time,temperature=t:C,wind=w:m/s,precipitation=p:mm,visibility=v:km"


def recipe(**stages: dict[str, Any]) -> Recipe:
    return check_stage(Recipe, stages, source="test")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with a table, its locations and a station's reports, all in UTC."""
    times = pd.date_range("2014-06-01", periods=STEPS, freq="h", tz="UTC")
    values = np.arange(float(STEPS * PLACES)).reshape(STEPS, PLACES)
    table = pd.DataFrame(values, columns=list("abc")).assign(time=times)
    table.to_parquet(tmp_path / "table.parquet")
    pd.DataFrame({"node": list("cab"), "name": list("CAB")}).to_csv(
        tmp_path / "places.csv", index=False
    )
    reports = pd.DataFrame({"time": times, "t": 7.0, "w": 3.0, "p": 0.0, "v": 16.0})
    reports.to_parquet(tmp_path / "station.parquet")
    return tmp_path


# ------------------------------------------------------------------------------ finding files


def test_patterns_are_expanded_in_the_order_of_names(tmp_path: Path) -> None:
    touch(tmp_path, "b/yellow_2.csv", "b/yellow_1.csv", "green_1.csv", "b/red.csv")
    (tmp_path / "b" / "yellow_3.csv").mkdir()
    found = find_sources(recipe(trips={"files": ["green_*.csv", "b/yellow_*.csv"]}), tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in found.values]
    assert names == ["green_1.csv", "b/yellow_1.csv", "b/yellow_2.csv"]
    assert (found.places, found.weather) == (None, None)


def test_a_name_with_brackets_may_be_a_file(tmp_path: Path) -> None:
    touch(tmp_path, "table[1].csv", "table1.csv")
    found = find_sources(recipe(table={"file": "table[1].csv"}), tmp_path)
    assert found.values == [tmp_path / "table[1].csv"]


def test_places_and_weather_lie_in_the_same_folder(data: Path) -> None:
    given = recipe(
        table={"file": "table.parquet", "locations": "places.csv"},
        weather={"file": "station.parquet", "columns": WEATHER},
    )
    found = find_sources(given, data)
    assert found == Sources(
        [data / "table.parquet"], data / "places.csv", data / "station.parquet"
    )


def test_every_lacking_file_is_named_at_once(tmp_path: Path) -> None:
    touch(tmp_path, "here.csv")
    given = recipe(
        trips={"files": ["here.csv", "gone_*.csv", "gone.parquet"], "candidates": "places.csv"},
        weather={"file": "station.csv", "columns": WEATHER},
    )
    with pytest.raises(DataError) as caught:
        find_sources(given, tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no gone_*.csv, gone.parquet, places.csv, station.csv; "
        "give the folder with --data or FORECASTER_DATA"
    )


def test_a_folder_that_is_not_there_lacks_every_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone: no table\.csv; give the folder with --data"):
        find_sources(recipe(table={"file": "table.csv"}), tmp_path / "gone")


@pytest.mark.parametrize(
    "stages",
    [
        {"trips": {}},
        {"trips": {"files": [""]}},
        {"table": {}},
        {"table": {"file": "/etc/*"}},
        {"table": {"file": "table.parquet", "locations": ""}},
        {"table": {"file": "table.parquet"}, "weather": {"columns": WEATHER}},
        {"table": {"file": "table.parquet"}, "weather": {"file": "/w.csv", "columns": WEATHER}},
    ],
)
def test_a_recipe_must_name_files_in_the_folder(data: Path, stages: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match=r"files of the recipe: .*; give names relative to the data fold"
    ):
        find_sources(recipe(**stages), data)


def test_the_files_of_a_table_are_those_that_match(tmp_path: Path) -> None:
    touch(tmp_path, "table_1.csv", "table_2.csv", "other.csv")
    expected = [tmp_path / "table_1.csv", tmp_path / "table_2.csv"]
    for names in ({"file": "table_*.csv"}, {"files": ["table_1.csv", "table_2.csv"]}):
        assert find_sources(recipe(table=names), tmp_path).values == expected


def test_a_recipe_without_a_source_is_refused(data: Path) -> None:
    for call in (
        lambda: find_sources(recipe(), data),
        lambda: build_panel(recipe(), Sources([data / "table.parquet"])),
    ):
        with pytest.raises(ConfigError, match=r"neither \[trips\] nor \[table\]; nothing to inge"):
            call()


def test_a_recipe_with_two_sources_is_refused() -> None:
    with pytest.raises(ConfigError, match="trips and table: both are given"):
        recipe(trips={"files": ["a.csv"]}, table={"file": "a.csv"})


# ------------------------------------------------------------------------------------ building


def test_a_table_becomes_a_panel_and_its_layout_is_said(data: Path) -> None:
    given = recipe(
        table={
            "file": "table.parquet",
            "locations": "places.csv",
            "location_columns": "id=node",
            "min_demand": 43.0,
        }
    )
    said: list[str] = []
    panel = build_panel(given, find_sources(given, data), say=said.append)
    layout = "read as wide: time = time, every other column a location; Parquet"
    assert said == [CHOSEN_BY_ALL_HOURS, layout]
    assert panel.locations.names == ("C", "B")  # a: mean 42
    assert panel.values[0].tolist() == [2.0, 1.0]
    assert panel.covariates.names == ()


def test_A10_a_choice_by_test_hours_too_is_told(data: Path) -> None:
    table = {"file": "table.parquet", "min_demand": 1.0}
    first = str(pd.read_parquet(data / "table.parquet")["time"].iloc[0])[:10]
    for more, is_told in (
        ({}, True),
        ({"demand_hours": f"{first}:{first}"}, False),
        ({"min_demand": None}, False),
    ):
        said: list[str] = []
        given = recipe(table={**table, **more})
        build_panel(given, find_sources(given, data), say=said.append)
        assert (CHOSEN_BY_ALL_HOURS in said) == is_told


@pytest.mark.parametrize("source", ["table", "trips"])
def test_A10_busy_locations_are_chosen_on_the_training_days_of_a_recipe(
    tmp_path: Path, source: str
) -> None:
    hours = pd.date_range("2022-01-01", periods=24 * 9, freq="h")
    early = (hours < "2022-01-04").astype(int)  # a is busy in training, b afterwards
    if source == "table":
        wide = pd.DataFrame({"time": hours, "a": 5 * early, "b": 5 * (1 - early)})
        wide.to_csv(tmp_path / "table.csv", index=False)
        stages: dict[str, Any] = {"table": {"file": "table.csv", "min_demand": 4.0}}
    else:
        rows = [(t, 7 if e else 11) for t, e in zip(hours, early, strict=True) for _ in range(5)]
        table = pd.DataFrame(rows, columns=["when", "place"])
        table.to_parquet(tmp_path / "trips.parquet")
        stages = {
            "trips": {
                "files": ["trips.parquet"],
                "columns": "time=when,zone=place",
                "covers": "2022-01-01:2022-01-09",
                "min_demand": 4.0,
            }
        }
    splits = {
        "train": [["2022-01-01", "2022-01-01"], ["2022-01-03", "2022-01-03"]],
        "validation": [["2022-01-04", "2022-01-05"]],
        "test": [["2022-01-06", "2022-01-09"]],
    }
    said: list[str] = []
    chosen = {}
    for name, more in (("training", {}), ("said", {"demand_hours": "2022-01-06:2022-01-09"})):
        (section,) = stages
        given = recipe(**{section: {**stages[section], **more}}, splits=splits)
        panel = build_panel(given, find_sources(given, tmp_path), say=said.append)
        chosen[name] = panel.locations.ids
    busy, late = (("a",), ("b",)) if source == "table" else (("7",), ("11",))
    assert chosen == {"training": busy, "said": late}
    assert CHOSEN_BY_ALL_HOURS not in said


def test_weather_is_joined_to_the_panel(data: Path) -> None:
    given = recipe(
        table={"file": "table.parquet"},
        weather={"file": "station.parquet", "columns": WEATHER},
    )
    panel = build_panel(given, find_sources(given, data))
    assert panel.covariates.names == WEATHER_NAMES
    assert panel.covariates.values[-1].tolist() == [7, 3, 0, 16, 0, 0, 0]
    assert panel.counts["weather_used"] == STEPS


def test_gaps_in_the_weather_follow_the_recipe(data: Path) -> None:
    reports = pd.read_parquet(data / "station.parquet").drop(index=range(7, 12))
    reports.to_parquet(data / "station.parquet")
    stages: dict[str, Any] = {"table": {"file": "table.parquet"}}
    station = {"file": "station.parquet", "columns": WEATHER}
    given = recipe(**stages, weather={**station, "max_gap": 5})
    panel, report = join_weather(
        build_panel(recipe(**stages), find_sources(given, data)), given, data / "station.parquet"
    )
    assert report.filled_hours == panel.counts["weather_filled"] == 5
    given = recipe(**stages, weather=station)
    with pytest.raises(DataError, match="1 gap over 3 h"):
        build_panel(given, find_sources(given, data))


def test_weather_needs_its_part_of_the_recipe(data: Path) -> None:
    given = recipe(table={"file": "table.parquet"})
    panel = build_panel(given, find_sources(given, data))
    with pytest.raises(ConfigError, match=r"the recipe has no \[weather\]"):
        join_weather(panel, given, data / "station.parquet")


def test_I5_a_truncated_file_of_trips_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "yellow_tripdata_2014-04.csv").write_text("pickup_datetime,PULo")
    given = recipe(trips={"files": ["yellow_*.csv"], "zones": True})
    with pytest.raises(DataError, match=r"yellow_tripdata_2014-04\.csv: truncated, have 20 bytes"):
        build_panel(given, find_sources(given, tmp_path))


@pytest.mark.parametrize("name", ["table.parquet", "places.csv", "station.parquet"])
def test_I5_a_truncated_file_is_refused_wherever_the_recipe_names_it(
    data: Path, name: str
) -> None:
    given = recipe(
        table={
            "file": "table.parquet",
            "locations": "places.csv",
            "location_columns": "id=node",
        },
        weather={"file": "station.parquet", "columns": WEATHER},
    )
    sources = find_sources(given, data)
    assert build_panel(given, sources).values.shape == (STEPS, PLACES)
    content = (data / name).read_bytes()
    (data / name).write_bytes(content[: len(content) * 3 // 4])
    with pytest.raises(DataError, match=rf"{name}: truncated, have \d|1 unknown id"):
        build_panel(given, sources)


def test_trips_become_a_panel_at_the_candidates_of_a_file(tmp_path: Path) -> None:
    lines = ["tpep_pickup_datetime,pickup_latitude,pickup_longitude"]
    lines += [f"2014-04-01 {hour:02d}:07:00,40.7,-74.0" for hour in range(24)]
    (tmp_path / "trips.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "places.csv").write_text("node,lat,lon\n7,40.7001,-74.0\n8,40.9,-74.0\n")
    given = recipe(
        panel={"timezone": "America/New_York"},
        trips={
            "files": ["trips.csv"],
            "covers": "2014-04-01:2014-04-01",
            "candidates": "places.csv",
            "candidate_columns": "id=node",
            "min_demand": 1.0,
        },
    )
    seen: list[int] = []
    panel = build_panel(given, find_sources(given, tmp_path), progress=seen.append)
    assert panel.locations.ids == ("7",)
    assert panel.values.ravel().tolist() == [1.0] * 24
    assert str(panel.start) == "2014-04-01T04:00:00"
    assert sum(seen) == (tmp_path / "trips.csv").stat().st_size


# ---------------------------------------------------------------------------------- real data


def folder_with(name: str) -> Path:
    folder = os.environ.get("FORECASTER_DATA")
    if not folder:
        pytest.skip(f"FORECASTER_DATA is not set; this test needs {name}")
    return Path(folder)


def build(name: str, data_folder: Path) -> Panel:
    given = read_recipe(RECIPES / f"{name}.toml")
    return build_panel(given, find_sources(given, data_folder))


def raw(path: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return the clock times, ids and numbers of a wide file, read without our code."""
    frame = pq.read_table(path).to_pandas()
    times = frame.pop("time").to_numpy("datetime64[s]")
    return times, list(frame.columns), frame.to_numpy(np.float64)


@pytest.fixture(scope="module")
def zones() -> Panel:
    return build("zone_taxi_2019", folder_with("nyc_taxi_manhattan69_2019_2020"))


@pytest.fixture(scope="module")
def grid() -> Panel:
    return build("grid_taxi_2010", folder_with("nyc_taxi_grid_2010_2014"))


def clock(panel: Panel) -> np.ndarray:
    return to_local(panel.clock.zone, panel.times)


@pytest.mark.data
def test_the_zone_taxi_recipe_keeps_57_of_69_zones(zones: Panel) -> None:
    path = folder_with("nyc_taxi_manhattan69_2019_2020") / "nyc_taxi_manhattan69_2019_2020"
    times, ids, values = raw(path / "pickups.parquet")
    training = times < np.datetime64("2019-10-25")
    busy = [i for i, mean in zip(ids, values[training].mean(axis=0), strict=True) if mean >= 10]
    assert (len(ids), len(busy)) == (69, 57)
    assert zones.locations.ids == tuple(sorted(busy, key=int))
    assert zones.locations.names[0] == "Alphabet City"
    assert zones.locations.placed.all()


@pytest.mark.data
def test_the_zone_taxi_axis_is_complete_in_utc(zones: Panel) -> None:
    assert zones.values.shape == (17_544, 57)
    assert (str(zones.times[0]), str(zones.times[-1])) == (
        "2019-01-01T05:00:00",
        "2021-01-01T04:00:00",
    )
    assert zones.counts == {
        "ambiguous_local_time": 138,  # 69 zones × 2 autumns
        "nonexistent_local_time": 0,  # the false zeros of two springs
        "completed_steps": 0,
        "gaps": [],
    }
    assert zones.clock.holidays is not None


@pytest.mark.data
def test_I2_the_zone_taxi_hours_shown_twice_are_unknown_and_no_others(zones: Panel) -> None:
    unknown = np.isnan(zones.values)
    assert (unknown.all(axis=1) == unknown.any(axis=1)).all()
    assert [str(t)[:13] for t in zones.times[unknown.all(axis=1)]] == [
        "2019-11-03T05",
        "2019-11-03T06",
        "2020-11-01T05",
        "2020-11-01T06",
    ]


@pytest.mark.data
@pytest.mark.parametrize("day", ["2019-03-10", "2020-03-08"])
def test_I3_the_zone_taxi_false_zeros_of_spring_are_dropped(zones: Panel, day: str) -> None:
    of_day = clock(zones).astype("datetime64[D]") == np.datetime64(day)
    assert of_day.sum() == 23
    assert zones.values[of_day].sum(axis=1).min() > 100  # an hour of the whole island


@pytest.mark.data
@pytest.mark.parametrize("name", ["zones", "grid"])
def test_every_value_of_the_real_tables_stands_at_its_clock_time(
    name: str, request: pytest.FixtureRequest
) -> None:
    panel: Panel = request.getfixturevalue(name)
    file = {"zones": "nyc_taxi_manhattan69_2019_2020", "grid": "nyc_taxi_grid_2010_2014"}[name]
    times, ids, values = raw(folder_with(file) / file / "pickups.parquet")
    column = [ids.index(identity) for identity in panel.locations.ids]
    known = ~np.isnan(panel.values).all(axis=1)
    row = np.searchsorted(times, clock(panel)[known])
    assert (times[row] == clock(panel)[known]).all()
    np.testing.assert_array_equal(panel.values[known], values[np.ix_(row, column)])
    assert known.sum() == len(times) - 2 * (5 if name == "grid" else 2)  # an autumn and a spring


@pytest.mark.data
def test_the_grid_taxi_recipe_keeps_19_of_128_cells(grid: Panel) -> None:
    path = folder_with("nyc_taxi_grid_2010_2014") / "nyc_taxi_grid_2010_2014"
    _, ids, _ = raw(path / "pickups.parquet")
    assert len(ids) == 128
    assert grid.values.shape == (43_824, 19)
    assert not grid.locations.placed.any()
    assert (str(grid.times[0]), str(grid.times[-1])) == (
        "2010-01-01T05:00:00",
        "2015-01-01T04:00:00",
    )


@pytest.mark.data
def test_S5_the_grid_taxi_septembers_are_five_gaps_of_3600_hours(grid: Panel) -> None:
    assert grid.counts["completed_steps"] == 3600
    gaps = [[f"{year}-09-01T04:00:00Z", 720] for year in range(2010, 2015)]
    assert grid.counts["gaps"] == gaps
    september = clock(grid).astype("datetime64[M]").astype(np.int64) % 12 == 8
    assert september.sum() == 3600
    assert np.isnan(grid.values[september]).all()


@pytest.mark.data
def test_I2_the_grid_taxi_hours_shown_twice_are_unknown(grid: Panel) -> None:
    assert grid.counts["ambiguous_local_time"] == 128 * 5
    unknown = np.isnan(grid.values)
    assert (unknown.all(axis=1) == unknown.any(axis=1)).all()
    assert unknown.all(axis=1).sum() == 3600 + 2 * 5


@pytest.mark.data
def test_I3_the_grid_taxi_values_that_no_clock_showed_are_counted(grid: Panel) -> None:
    path = folder_with("nyc_taxi_grid_2010_2014") / "nyc_taxi_grid_2010_2014"
    times, _, pickups = raw(path / "pickups.parquet")
    _, _, dropoffs = raw(path / "dropoffs.parquet")
    days = ["2010-03-14", "2011-03-13", "2012-03-11", "2013-03-10", "2014-03-09"]
    at_two = np.isin(times, [np.datetime64(f"{day}T02:00", "s") for day in days])
    assert (pickups + dropoffs)[at_two].sum(axis=1).tolist() == [8357, 0, 0, 0, 0]
    assert (pickups[at_two] > 0).sum() == grid.counts["nonexistent_local_time"] == 29


@pytest.mark.data
def test_the_grid_taxi_panel_has_the_weather_of_jfk(grid: Panel) -> None:
    assert grid.covariates.names == WEATHER_NAMES
    assert not np.isnan(grid.covariates.values[: len(grid.values)]).any()
    counts = grid.counts
    assert counts["weather_rows_in"] == 75_083
    assert counts["weather_filled"] == 4 + 2 + 4 + 8 + 5  # the hours that 2010 to 2014 lack
    july = clock(grid).astype("datetime64[M]").astype(np.int64) % 12 == 6
    temperature = grid.covariates.values[: len(grid.values), 0]
    assert 22 < temperature[july].mean() < 28
