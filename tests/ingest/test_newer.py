"""New files of a panel: appended in parts they give the panel that is built at once."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.ingest.build import Sources, build_panel
from forecaster.ingest.newer import newer_recipe, read_newer
from forecaster.panel.append import Appended, append_panel
from forecaster.panel.panel import Panel, saved_recipe
from forecaster.recipe import Recipe

HOURS, DAY = 24 * 17, 24
STATION = "time=time,temperature=t:C,wind=w:m/s,precipitation=p:mm,visibility=v:km"


def write_days(folder: Path, first: int, end: int, **also: Any) -> Path:
    """Write a long table of the hours of some days."""
    times = pd.date_range("2021-03-01", periods=HOURS, freq="h")
    generator = np.random.default_rng(7)
    rows = pd.DataFrame({
        "time": np.tile(times, 3), "id": np.repeat(["a", "b", "c"], HOURS),
        "value": generator.poisson(9.0, 3 * HOURS).astype(float),
        "price": generator.integers(1, 9, 3 * HOURS),
    }).assign(**also)  # fmt: skip
    rows.loc[rows.index % 31 == 5, "value"] = None
    part = rows[
        (rows.time >= times[first * DAY]) & (rows.time < times[0] + end * times.freq * DAY)
    ]
    path = folder / f"days_{first}_{end}.csv"
    part.to_csv(path, index=False)
    return path


def write_weather(folder: Path, first: int, end: int) -> Path:
    times = pd.date_range("2021-03-01", periods=HOURS, freq="h", tz="UTC")
    number = np.arange(HOURS)
    reports = pd.DataFrame({
        "time": times + pd.Timedelta("51min"), "t": number % 19 - 3.0, "w": number % 7,
        "p": number % 3 * 0.5, "v": 8.0,
    })  # fmt: skip
    path = folder / f"weather_{first}_{end}.csv"
    reports[first * DAY : end * DAY].to_csv(path, index=False)
    return path


def recipe_of(path: Path, **table: Any) -> Recipe:
    return Recipe.of({
        "panel": {"timezone": "Europe/Berlin", "gaps": "null", "hours": "always",
                  "nonexistent": "null", "step_minutes": 60},
        "table": {"file": path.name, "known_ahead": ["price"], **table},
        "weather": {"columns": STATION, "file": "weather.csv"},
    })  # fmt: skip


def build(folder: Path, values: Path, weather: Path, recipe: Recipe) -> Panel:
    """Save the panel of some files."""
    panel = build_panel(recipe, Sources([values], weather=weather))
    return panel.save(folder, recipe)


def append_files(folder: Path, sources: Sources, **settings: Any) -> tuple[Panel, Appended]:
    panel = Panel.open(folder, verify=False)
    recipe = newer_recipe(panel, saved_recipe(folder), settings)
    return append_panel(folder, read_newer(panel, recipe, sources))


def assert_same(panel: Panel, expected: Panel) -> None:
    np.testing.assert_array_equal(panel.values, expected.values)
    assert panel.covariates.names == expected.covariates.names
    np.testing.assert_array_equal(panel.covariates.values, expected.covariates.values)
    np.testing.assert_array_equal(panel.local_covariates.values, expected.local_covariates.values)
    assert (panel.locations.ids, panel.start) == (expected.locations.ids, expected.start)


def test_L14_tables_and_weather_in_parts_give_the_panel_built_at_once(tmp_path: Path) -> None:
    first = write_days(tmp_path, 0, 9)
    recipe = recipe_of(first)
    folder = tmp_path / "panel"
    build(folder, first, write_weather(tmp_path, 0, 9), recipe)
    append_files(folder, Sources([], weather=write_weather(tmp_path, 9, 11)))  # ahead of values
    append_files(
        folder, Sources([write_days(tmp_path, 8, 12)], weather=write_weather(tmp_path, 11, 13))
    )
    _, appended = append_files(
        folder, Sources([write_days(tmp_path, 12, 17)], weather=write_weather(tmp_path, 0, 17))
    )
    assert (appended.steps, appended.revised, appended.completed) == (5 * DAY, 0, 0)
    expected = build(
        tmp_path / "once", write_days(tmp_path, 0, 17), write_weather(tmp_path, 0, 17), recipe
    )
    assert_same(Panel.open(folder), expected)
    assert append_files(folder, Sources([write_days(tmp_path, 16, 17)]))[1] == Appended()


def test_covariates_of_all_locations_come_with_when_they_were_known(tmp_path: Path) -> None:
    days = pd.date_range("2021-03-01", periods=40, freq="D")
    values = pd.DataFrame({"time": days, "a": np.arange(40.0), "b": 2.0})
    issues = pd.DataFrame({
        "time": days.repeat(2), "known_at": np.repeat(days, 2) - pd.to_timedelta([3, 1] * 40, "D"),
        "rain": np.arange(80.0),
    })  # fmt: skip
    parts = {"old": slice(0, 30), "new": slice(30, 40)}
    for name, part in parts.items():
        values[part].to_csv(tmp_path / f"{name}.csv", index=False)
        issues[2 * part.start : 2 * part.stop].to_csv(tmp_path / f"{name}_rain.csv", index=False)
    values.to_csv(tmp_path / "all.csv", index=False)
    issues.to_csv(tmp_path / "all_rain.csv", index=False)

    def built(name: str) -> Panel:
        recipe = Recipe.of({
            "panel": {"timezone": "UTC", "step_minutes": 1440, "hours": "always", "gaps": "null"},
            "table": {"file": f"{name}.csv", "covariates": f"{name}_rain.csv"},
        })  # fmt: skip
        sources = Sources([tmp_path / f"{name}.csv"], covariates=tmp_path / f"{name}_rain.csv")
        return build_panel(recipe, sources).save(tmp_path / name, recipe)

    built("old")
    folder = tmp_path / "old"
    append_files(folder, Sources([], covariates=tmp_path / "new_rain.csv"))
    panel, _ = append_files(folder, Sources([tmp_path / "new.csv"]))
    expected = built("all")
    assert_same(panel, expected)
    assert panel.covariates.vintages is not None
    assert expected.covariates.vintages is not None
    for name in ("steps", "known", "values"):
        ours, theirs = (getattr(p.covariates.vintages, name) for p in (panel, expected))
        np.testing.assert_array_equal(ours, theirs)


def test_numbers_of_locations_go_on_and_new_locations_are_described(tmp_path: Path) -> None:
    places = pd.DataFrame({"id": ["a", "b", "c"], "lat": 50.0, "lon": [7.0, 8.0, 9.0],
                           "beds": [11, 13, 17]})  # fmt: skip
    places[:2].to_csv(tmp_path / "places.csv", index=False)
    places.to_csv(tmp_path / "new_places.csv", index=False)
    first = write_days(tmp_path, 0, 9)
    table = pd.read_csv(first)
    table[table.id != "c"].to_csv(first, index=False)
    recipe = recipe_of(
        first, static=["beds"], locations="places.csv", columns="time=time,id=id,value=value"
    )
    recipe = recipe.model_copy(update={"weather": None})
    sources = Sources([first], tmp_path / "places.csv")
    build_panel(recipe, sources).save(tmp_path / "panel", recipe)
    newer = write_days(tmp_path, 9, 10)
    with pytest.raises(DataError, match=r"1 location of the values .*: c; add"):
        append_files(tmp_path / "panel", Sources([newer], tmp_path / "places.csv"))
    panel, appended = append_files(
        tmp_path / "panel", Sources([newer], tmp_path / "new_places.csv")
    )
    assert appended.locations == ("c",)
    assert panel.locations.lon.tolist() == [7.0, 8.0, 9.0]
    beds = panel.local_covariates.values[panel.local_covariates.names.index("beds")]
    assert beds[-1].tolist() == [11.0, 13.0, 17.0]


def test_only_selected_locations_of_a_table_go_on(tmp_path: Path) -> None:
    first = write_days(tmp_path, 0, 9)
    recipe = recipe_of(first, min_demand=9.0).model_copy(update={"weather": None})
    panel = build_panel(recipe, Sources([first])).save(tmp_path / "panel", recipe)
    assert 0 < len(panel.locations) < 3
    newer, appended = append_files(tmp_path / "panel", Sources([write_days(tmp_path, 9, 10)]))
    assert newer.locations.ids == panel.locations.ids
    assert appended.locations == ()


def test_a_panel_without_recipe_takes_tables_as_they_are_read_alone(tmp_path: Path) -> None:
    times = pd.date_range("2021-03-01", periods=99, freq="15min", tz="UTC")
    long = pd.DataFrame({"unique_id": "x1", "ds": times, "y": np.arange(99.0)})
    whole = Panel.from_long(long, timezone="UTC", hours="always")
    whole.steps(0, 90).save(tmp_path / "panel")
    long[90:].to_csv(tmp_path / "new.csv", index=False)
    panel, _ = append_files(tmp_path / "panel", Sources([tmp_path / "new.csv"]))
    np.testing.assert_array_equal(panel.values, whole.values)


def test_what_a_panel_cannot_take_is_refused(tmp_path: Path) -> None:
    first = write_days(tmp_path, 0, 9)
    recipe = recipe_of(first).model_copy(update={"weather": None})
    build_panel(recipe, Sources([first])).save(tmp_path / "panel", recipe)
    weather = write_weather(tmp_path, 9, 10)
    with pytest.raises(ConfigError, match="no weather of a station; `forecaster ingest weather`"):
        append_files(tmp_path / "panel", Sources([], weather=weather))
    with pytest.raises(ConfigError, match="nothing to append"):
        append_files(tmp_path / "panel", Sources([]))
    other = write_days(tmp_path, 9, 10)
    other.write_text(
        other.read_text().replace(",a,", ",s1,").replace(",b,", ",s2,").replace(",c,", ",s3,")
    )
    with pytest.raises(DataError, match=r"none of its locations \(s1, s2, s3\) is in the panel"):
        append_files(tmp_path / "panel", Sources([other]))


# -------------------------------------------------------------------------------------- trips


def write_trips(folder: Path, days: Iterable[int], month: int) -> Path:
    """Write trips at four points, one of which is near a candidate that is in no demand."""
    points = ((40.70, -74.00), (40.72, -74.00), (40.7201, -74.0001), (40.74, -74.00))
    lines = ["pickup_datetime,pickup_longitude,pickup_latitude"]
    for day in days:
        for hour in range(24):
            for n, (lat, lon) in enumerate(points[: 3 if hour % 5 else 4]):
                at = f"2015-{month:02d}-{day:02d} {hour:02d}:{7 * n:02d}:00"
                lines += [f"{at},{lon},{lat}"] * (1 + (day * hour + n) % 3 if n < 3 else 1)
    path = folder / f"trips_{month}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("candidates", ["file", "trips"])
def test_L14_trips_in_parts_give_the_panel_built_at_once(tmp_path: Path, candidates: str) -> None:
    april, may = write_trips(tmp_path, range(1, 31), 4), write_trips(tmp_path, range(1, 5), 5)
    places = tmp_path / "places.csv"
    places.write_text("id,lat,lon\n7,40.70,-74.00\n8,40.72,-74.00\n9,40.7405,-74.00\n")
    rules = {"min_demand": 1.0, "bbox": [40.0, -75.0, 41.0, -73.0],
             "demand_hours": "2015-04-01:2015-04-30"}  # fmt: skip
    if candidates == "file":
        rules["candidates"] = places.name

    def built(files: list[Path], covers: str) -> tuple[Panel, Recipe]:
        recipe = Recipe.of({
            "panel": {"timezone": "America/New_York"},
            "trips": {**rules, "files": [f.name for f in files], "covers": covers},
        })  # fmt: skip
        file = places if candidates == "file" else None
        return build_panel(recipe, Sources(files, file)), recipe

    first, recipe = built([april], "2015-04-01:2015-04-30")
    folder = tmp_path / "panel"
    first.save(folder, recipe)
    given = Sources([may], places if candidates == "file" else None)
    if candidates == "file":
        with pytest.raises(
            ConfigError, match=r"give the candidates again: --locations places.csv"
        ):
            append_files(folder, Sources([may]), trips={"covers": "2015-05-01:2015-05-04"})
    panel, appended = append_files(folder, given, trips={"covers": "2015-05-01:2015-05-04"})
    assert (appended.steps, appended.locations) == (96, ())
    both = tmp_path / "both.csv"
    both.write_text(april.read_text() + may.read_text().partition("\n")[2])
    once, _ = built([both], "2015-04-01:2015-05-04")
    np.testing.assert_array_equal(panel.values, once.values)
    again = append_files(folder, given, trips={"covers": "2015-05-01:2015-05-04"})[1]
    assert not again


def test_coverage_that_was_found_grows_with_the_panel(tmp_path: Path) -> None:
    april = write_trips(tmp_path, range(27, 31), 4)
    may = write_trips(tmp_path, [1, 3, 4], 5)
    rules = {"files": [april.name], "min_demand": 0.0, "bbox": [40.0, -75.0, 41.0, -73.0]}
    recipe = Recipe.of({"panel": {"timezone": "America/New_York"}, "trips": rules})
    build_panel(recipe, Sources([april])).save(tmp_path / "panel", recipe)
    panel, appended = append_files(tmp_path / "panel", Sources([may]))
    assert appended.steps == 96
    assert panel.counts["covers_found"] == "2015-04-27 00:00 … 2015-05-04 23:00"
    assert panel.counts["days_without_events"] == ["2015-05-02"]
    unknown = np.isnan(panel.values).any(axis=1)
    days = panel.clock.local(panel.times[unknown]).astype("datetime64[D]")
    assert [str(day) for day in days] == ["2015-05-02"] * 24
    june = write_trips(tmp_path, [9], 6)
    panel, _ = append_files(tmp_path / "panel", Sources([june]))
    assert panel.counts["covers_found"] == (
        "2015-04-27 00:00 … 2015-05-04 23:00, 2015-06-09 00:00 … 2015-06-09 23:00"
    )


def test_zones_without_a_trip_count_zero(tmp_path: Path) -> None:
    def write(name: str, zones: list[int]) -> Path:
        path = tmp_path / name
        rows = [
            f"2019-03-0{2 + ('new' in name)} {h:02d}:10:00,{z}" for h in range(24) for z in zones
        ]
        path.write_text("pickup_datetime,PULocationID\n" + "\n".join(rows) + "\n")
        return path

    old = write("old.csv", [4, 5])
    columns = "time=pickup_datetime,zone=PULocationID"
    recipe = Recipe.of({
        "panel": {"timezone": "America/New_York"},
        "trips": {"files": [old.name], "zones": True, "min_demand": 0.5, "columns": columns,
                  "covers": "2019-03-02:2019-03-02"},
    })  # fmt: skip
    build_panel(recipe, Sources([old])).save(tmp_path / "panel", recipe)
    covers = {"trips": {"covers": "2019-03-03:2019-03-03"}}
    panel, _ = append_files(tmp_path / "panel", Sources([write("new.csv", [5, 6])]), **covers)
    assert panel.locations.ids == ("4", "5")
    assert panel.values[24:].tolist() == [[0.0, 1.0]] * 24
    with pytest.raises(DataError, match=r"none of the zones 77 is in the panel \(4, 5\)"):
        append_files(tmp_path / "panel", Sources([write("new2.csv", [77])]), **covers)


def test_locations_that_describe_nothing_new_change_nothing(tmp_path: Path) -> None:
    first = write_days(tmp_path, 0, 9)
    recipe = recipe_of(first).model_copy(update={"weather": None})
    saved = build_panel(recipe, Sources([first])).save(tmp_path / "panel", recipe)
    described = replace(saved.locations, names=("A", "B", "C"))
    pd.DataFrame({"id": described.ids, "name": described.names}).to_csv(
        tmp_path / "places.csv", index=False
    )
    newer = Sources([write_days(tmp_path, 9, 10)], tmp_path / "places.csv")
    panel, _ = append_files(tmp_path / "panel", newer)
    assert panel.locations.names == ("a", "b", "c")
