from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.config import PanelConfig, TableConfig
from forecaster.errors import ConfigError, DataError, naming_options
from forecaster.ingest.tables import ingest_table
from forecaster.panel.panel import Panel, write_table
from forecaster.reading.layout import (
    ID_NAMES,
    TIME_NAMES,
    VALUE_NAMES,
    TableLayout,
    guess_layout,
    parse_layout,
)
from forecaster.reading.load import Table, load

STEPS, PLACES = 29, 3
LONG_HINT = "give time, of one series also value, and of a long table also id and value"
NEW_YORK = "America/New_York"
VALUES = np.arange(float(STEPS * PLACES)).reshape(STEPS, PLACES)


def hours(start: str = "2014-06-01", steps: int = STEPS, zone: str | None = "UTC") -> Any:
    return pd.date_range(start, periods=steps, freq="h", tz=zone)


def wide(times: Any = None, values: np.ndarray = VALUES, names: str = "abc") -> pd.DataFrame:
    frame = pd.DataFrame(values, columns=list(names))
    frame.insert(0, "time", hours(steps=len(values)) if times is None else times)
    return frame


def long(
    ids: tuple[object, ...] = ("a", "b", "c"), columns: tuple[str, str, str] = ("id", "time", "y")
) -> pd.DataFrame:
    """Return the values above, hour by hour, under the names of some field."""
    identity, time, value = columns
    return pd.DataFrame(
        {
            identity: list(ids) * STEPS,
            time: np.repeat(hours(), len(ids)),
            value: VALUES[:, : len(ids)].ravel(),
        }
    )


def ingest(
    source: Table,
    panel: dict[str, Any] | None = None,
    locations: Table | None = None,
    **rules: Any,
) -> Panel:
    config = PanelConfig.model_validate({"gaps": "null", **(panel or {})})
    return ingest_table(source, config, TableConfig.model_validate(rules), locations)[0]


def guess(source: Table) -> str:
    return str(guess_layout(*load(source)))


# ------------------------------------------------------------------- what the names suggest

LONG_TABLES = {
    "traffic": (
        "sensor_id,timestamp,flow,occupancy,speed\n"
        "400001,2012-03-01 00:00:00,17,0.01,64.4\n400017,2012-03-01 00:00:00,9,0.02,62.1\n",
        "long: time = timestamp, id = sensor_id, value = flow",
    ),
    "air quality": (
        "datetime,station,pm25\n2016-01-01T00:00+08:00,Dongsi,129\n"
        "2016-01-01T00:00+08:00,Guanyuan,132.5\n2016-01-01T01:00+08:00,Dongsi,\n",
        "long: time = datetime, id = station, value = pm25",
    ),
    "numbered sensors, one number": (
        "node,time,mph\n400001,2012-03-01 00:00:00,64.4\n400017,2012-03-01 00:00:00,62.1\n",
        "long: time = time, id = node, value = mph",
    ),
    "load": (
        "Date_Time,Region,Load,Price\n2020-01-01 00:00,DE,41000,12\n"
        "2020-01-01 00:00,FR,52000,11\n",
        "long: time = Date_Time, id = Region, value = Load",
    ),
    "epidemics": (
        "date,county,cases,deaths\n2020-03-01,Kings,3,0\n2020-03-01,Queens,5,1\n",
        "long: time = date, id = county, value = cases",
    ),
    "trips by zone": (
        "zone,hour,trips\n4,2019-01-01 00:00,7\n13,2019-01-01 00:00,11\n",
        "long: time = hour, id = zone, value = trips",
    ),
    "forecasting users": (
        "unique_id,ds,y\nT1,2014-06-01T00:00Z,1\nT2,2014-06-01T00:00Z,2\n",
        "long: time = ds, id = unique_id, value = y",
    ),
    "one location": (
        "sensor,time,flow\n401,2014-06-01T00:00Z,1\n401,2014-06-01T01:00Z,2\n",
        "long: time = time, id = sensor, value = flow",
    ),
    "spaces in the header": (
        "sensor, time, flow, speed\n1,2014-06-01T00:00Z,1,2\n2,2014-06-01T00:00Z,1,2\n",
        "long: time = time, id = sensor, value = flow",
    ),
}
WIDE_TABLES = {
    "sensors": ("time,400001,400017\n2012-03-01 00:00,1,2\n2012-03-01 00:05,3,4\n", "time"),
    "stations": ("Timestamp,Dongsi,Guanyuan\n2016-01-01,129,\n2016-01-02,,132\n", "Timestamp"),
    "grid": ("ds,r00c0,r00c1\n2010-01-01 00:00,0,17\n2010-01-01 01:00,0,9\n", "ds"),
    "the only column of times": ("when,DE,FR\n2020-01-01 00:00:00,1,2\n", "when"),
    "one row": ("date,Kings,Queens\n2020-03-01,3,5\n", "date"),
}


@pytest.mark.parametrize("field", LONG_TABLES)
def test_a_long_table_is_known_by_its_names(tmp_path: Path, field: str) -> None:
    text, layout = LONG_TABLES[field]
    (tmp_path / "a.csv").write_text(text)
    assert guess(tmp_path / "a.csv") == layout


@pytest.mark.parametrize("field", WIDE_TABLES)
def test_a_wide_table_is_known_by_its_times(tmp_path: Path, field: str) -> None:
    text, time = WIDE_TABLES[field]
    (tmp_path / "a.csv").write_text(text)
    assert guess(tmp_path / "a.csv") == f"wide: time = {time}, every other column a location"


@given(st.sampled_from(TIME_NAMES), st.sampled_from(ID_NAMES), st.sampled_from(VALUE_NAMES))
def test_every_known_name_is_understood_in_any_case(time: str, identity: str, value: str) -> None:
    table = pa.table({value.title(): [1, 2], identity.upper(): [7, 8], time: ["2014-06-01"] * 2})
    assert guess_layout(table, "a") == TableLayout(time, identity.upper(), value.title())


def test_what_was_guessed_is_said() -> None:
    config, rules = PanelConfig(), TableConfig()
    panel, rows = ingest_table(long(columns=("site", "date", "load")), config, rules, None)
    assert str(rows.layout) == "long: time = date, id = site, value = load"
    np.testing.assert_array_equal(panel.values, VALUES)
    panel, rows = ingest_table(wide(), config, rules, None)
    assert str(rows.layout) == "wide: time = time, every other column a location"
    np.testing.assert_array_equal(panel.values, VALUES)


def test_a_covariate_of_a_wide_table_is_asked_for_in_a_table_of_its_own() -> None:
    config = PanelConfig(timezone="UTC", past_only=("b",))
    with pytest.raises(DataError) as caught, naming_options():
        ingest_table(wide(), config, TableConfig(), None)
    assert str(caught.value) == (
        "table: the table is wide, so that its column b is a location; give covariates of all "
        "locations in a table of their own (--covariates FILE), or a long table"
    )


EVENTS_HINT = (
    "no column of values is recognised; give --columns time=time,id=id,value=… (if each row is "
    "one event, such as a trip: --combine count counts the rows of a step, and forecaster ingest "
    "trips FILE --zones --columns time=time,zone=id --out PANEL those of many files)"
)
UNCLEAR: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
    "no time": (
        lambda: pd.DataFrame({"x": [1, 2], "y": [1, 2]}),
        "no unique time column; found: x, y; give --columns time=…,id=…,value=… (long) or "
        "--columns time=… (wide)",
    ),
    "two times": (
        lambda: pd.DataFrame({"asked": hours(), "told": hours()[::-1], "a": 1.0}),
        "no unique time column; found: asked, told, a; give --columns time=…,id=…,value=… (long) "
        "or --columns time=… (wide)",
    ),
    "two values": (
        lambda: long(columns=("id", "time", "cars in")).assign(**{"cars out": range(3 * STEPS)}),
        "'cars in', 'cars out' may be the values: give --columns 'time=time,id=id,value=cars in' "
        "or --columns 'time=time,id=id,value=cars out'",
    ),
    "no value": (
        lambda: long(columns=("id", "time", "no2")).drop(columns="no2").assign(a="x", b="y"),
        EVENTS_HINT,
    ),
    "events": (
        lambda: long(columns=("id", "time", "no2")).drop(columns="no2"),
        EVENTS_HINT,
    ),
    "no id": (
        lambda: long(columns=("road", "time", "flow")).drop(columns="road"),
        "58 duplicate rows of an id and time: row 2 (flow, 2014-06-01 00:00:00+00:00), row 3 "
        "(flow, 2014-06-01 00:00:00+00:00), row 5 (flow, 2014-06-01 01:00:00+00:00), row 6 (flow, "
        "2014-06-01 01:00:00+00:00), row 8 (flow, 2014-06-01 02:00:00+00:00), …; where a clock "
        "change doubles an hour, give times with offsets; to add up or average the rows of a step "
        "give --combine sum or --combine mean",
    ),
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_stays_unclear_is_asked_for(case: str) -> None:
    make, question = UNCLEAR[case]
    with pytest.raises(DataError) as caught, naming_options():
        ingest(make())
    assert str(caught.value) == f"table: {question}"


@pytest.mark.parametrize(
    "names", [("unique_id", "ds", "y"), ("road", "time", "flow"), ("id", "time", "no2")]
)
def test_texts_among_the_values_are_named_and_do_not_hide_their_column(
    tmp_path: Path, names: tuple[str, str, str]
) -> None:
    frame = long(columns=names).astype({names[2]: object})
    frame.iloc[[5, 8], frame.columns.get_loc(names[2])] = ["zu", "<1"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    fault = r"t\.csv: 1 fault\n.*2 values not a number: row 6 \('zu'\), row 9 \('<1'\)"
    with pytest.raises(DataError, match=fault):
        ingest(tmp_path / "t.csv")


def test_a_wide_table_with_a_missing_time_names_the_row() -> None:
    times = [*hours(steps=STEPS - 1), None]
    with pytest.raises(DataError, match="1 row without a time: row 29"):
        ingest(pa.Table.from_pandas(wide(pd.Series(times))))


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,time,a\n2014-06-01,1,2\n")
    with pytest.raises(DataError, match=r"a\.csv: columns given twice: time"):
        ingest(tmp_path / "a.csv")


# ---------------------------------------------------------------------------------- mappings


def test_a_mapping_counts_more_than_names() -> None:
    frame = long(columns=("id", "time", "y")).assign(ds="2001-01-01", detector=lambda f: f["id"])
    frame["volume"] = frame.pop("y") * 2
    panel = ingest(frame, columns="time=time, id = detector ,value=volume")
    np.testing.assert_array_equal(panel.values, VALUES * 2)


def test_a_mapping_of_the_time_alone_is_of_a_wide_table() -> None:
    frame = wide().rename(columns={"time": "site", "a": "flow"})
    assert ingest(frame, columns="time=site").locations.ids == ("b", "c", "flow")
    assert ingest(wide().assign(id=1.0), columns="time=time").locations.ids == (*"abc", "id")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is not a mapping; give e.g. time=when,id=sensor,value=flow"),
        ("when", "'when' is not a mapping"),
        ("time=", "'time=' is not a mapping"),
        ("tim=when", "'tim=when' is not a mapping; did you mean 'time'?"),
        ("id=a,value=b", LONG_HINT),
        ("id=a", LONG_HINT),
        ("time=t,time=u", "time: given twice, as 't' and 'u'"),
    ],
)
def test_a_faulty_mapping_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_layout(text)
    assert f"columns {text!r}: " in str(caught.value)
    assert f"\n  {fault}" in str(caught.value)


def test_mapped_columns_that_are_lacking_are_named_with_the_nearest() -> None:
    with pytest.raises(DataError) as caught:
        ingest(long(), columns="time=tiem,id=road,value=y")
    assert str(caught.value) == (
        "table: no column tiem, road; did you mean 'time'?; found: id, time, y"
    )


# ----------------------------------------------------------------------------- from any field


def test_five_minute_speeds_are_measurements() -> None:
    times = pd.date_range("2012-03-01", periods=STEPS, freq="5min")
    panel = ingest(
        wide(times, VALUES - 40),
        {"timezone": "America/Los_Angeles", "step_minutes": 5, "kind": "measurement"},
    )
    assert (panel.kind, panel.clock.step_minutes) == ("measurement", 5)
    assert str(panel.start) == "2012-03-01T08:00:00"
    assert panel.values.min() == -40


def test_daily_cases_keep_their_days() -> None:
    days = pd.date_range("2020-03-01", periods=STEPS, freq="D").strftime("%Y-%m-%d")
    frame = wide(days.to_numpy()).drop(index=[7, 8, 9, 13])
    panel = ingest(frame, {"step_minutes": 1440})
    assert panel.values.shape == (STEPS, PLACES)
    assert panel.counts["completed_steps"] == 4
    assert panel.counts["gaps"] == [["2020-03-08T00:00:00Z", 3], ["2020-03-14T00:00:00Z", 1]]


def test_I20_a_negative_count_is_refused_and_a_negative_load_is_not() -> None:
    frame = wide(values=VALUES - 1)
    with pytest.raises(DataError, match=r"column 'a': 1 value below 0, impossible for a count"):
        ingest(frame)
    assert ingest(frame, {"kind": "measurement"}).values[0, 0] == -1
    tall = long().assign(y=lambda f: f["y"] - 1)
    with pytest.raises(DataError, match="1 value below 0, impossible for a count: row 1"):
        ingest(tall)
    assert ingest(tall, {"kind": "measurement"}).values[0, 0] == -1


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint16", "int32", "int64", "float32"])
def test_I20_the_width_of_a_number_does_not_change_it(kind: str) -> None:
    largest = min(np.iinfo(kind).max if "int" in kind else 2**24, 2**24)
    counts = np.array([[256, 0, 32_767]] * STEPS).clip(0, largest)
    panel = ingest(wide(values=counts.astype(kind)))
    np.testing.assert_array_equal(panel.values, counts)


def test_I20_sums_of_narrow_counts_do_not_overflow() -> None:
    counts = np.full((STEPS, PLACES), 60_001, dtype=np.uint16)
    assert ingest(wide(values=counts), min_demand=60_001.0).values.shape == (STEPS, PLACES)
    with pytest.raises(DataError, match="the largest is 60001: lower min_demand"):
        ingest(wide(values=counts), min_demand=60_002.0)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_long_and_wide_files_give_one_panel(tmp_path: Path, suffix: str) -> None:
    write_table(wide(), tmp_path / f"wide.{suffix}")
    write_table(long().sample(frac=1, random_state=7), tmp_path / f"long.{suffix}")
    one, two = (ingest(tmp_path / f"{name}.{suffix}") for name in ("wide", "long"))
    assert one.locations.ids == two.locations.ids == ("a", "b", "c")
    np.testing.assert_array_equal(one.values, VALUES)
    np.testing.assert_array_equal(two.values, VALUES)
    assert one.start == two.start


def test_further_columns_of_a_long_table_are_left_out() -> None:
    panel = ingest(long().assign(note="x", speed=1.0))
    np.testing.assert_array_equal(panel.values, VALUES)
    assert panel.local_covariates.names == ()


def test_holidays_follow_the_country() -> None:
    assert ingest(wide()).clock.holidays is None
    holidays = ingest(wide(), {"country": "DE"}).clock.holidays
    assert holidays is not None
    assert holidays.country == "DE"


# --------------------------------------------------------------------- naive local clock axes


def test_I2_a_naive_axis_has_both_hours_of_the_autumn_change_unknown() -> None:
    values = np.ones((24, PLACES)) * 10
    panel = ingest(wide(hours("2015-11-01", 24, None), values), {"timezone": NEW_YORK})
    assert panel.values.shape == (25, PLACES)
    assert np.isnan(panel.values[[1, 2]]).all()
    assert panel.counts["ambiguous_local_time"] == PLACES
    assert panel.counts["completed_steps"] == 0  # the two are unknown, not missing rows
    split = ingest(
        wide(hours("2015-11-01", 24, None), values), {"timezone": NEW_YORK, "ambiguous": "split"}
    )
    assert np.nansum(split.values) == values.sum()


def test_I3_a_naive_axis_has_no_hour_at_the_spring_change() -> None:
    values = np.ones((24, PLACES))
    values[2] = 0  # as a table that counts events has it
    frame = wide(hours("2015-03-08", 24, None), values)
    panel = ingest(frame, {"timezone": NEW_YORK})
    assert (panel.values == 1).all()
    assert panel.values.shape == (23, PLACES)
    frame.loc[2, "a"] = 7.0
    with pytest.raises(
        DataError, match="1 value at local times that do not occur in America/New_Yo"
    ):
        ingest(frame, {"timezone": NEW_YORK})
    counts = ingest(frame, {"timezone": NEW_YORK, "nonexistent": "null"}).counts
    assert counts["nonexistent_local_time"] == 1


def test_I3_an_axis_that_leaves_the_hour_out_has_no_gap() -> None:
    frame = wide(hours("2015-03-08", 24, None), np.ones((24, PLACES))).drop(index=2)
    panel = ingest(frame, {"timezone": NEW_YORK, "gaps": "refuse"})
    assert panel.values.shape == (23, PLACES)


# -------------------------------------------------------------------------------------- gaps


def test_S5_gaps_are_completed_with_null_and_listed() -> None:
    panel = ingest(wide().drop(index=[2, 3, 11]))
    assert panel.values.shape == (STEPS, PLACES)
    assert np.flatnonzero(np.isnan(panel.values).any(axis=1)).tolist() == [2, 3, 11]
    assert panel.counts == {
        "completed_steps": 3,
        "gaps": [["2014-06-01T02:00:00Z", 2], ["2014-06-01T11:00:00Z", 1]],
    }


def test_S5_a_pair_without_a_row_is_missing_but_no_gap() -> None:
    panel = ingest(long().drop(index=[4, 11]))
    assert np.argwhere(np.isnan(panel.values)).tolist() == [[1, 1], [3, 2]]
    assert panel.counts == {"completed_steps": 0, "gaps": []}


def test_S5_gaps_are_refused_where_the_recipe_says_so() -> None:
    with pytest.raises(DataError, match=r"missing 2 steps: 2014-06-01T02:00:00Z, 2014-06-01T03"):
        ingest(wide().drop(index=[2, 3]), {"gaps": "refuse"})


def last_moved(by: str) -> pd.DataFrame:
    times = hours().to_series().reset_index(drop=True)
    times.iloc[-1] += pd.Timedelta(by)
    return wide(times)


def test_S5_a_time_off_the_step_is_refused() -> None:
    with pytest.raises(DataError, match="1 time off the step of 60 min: 2014-06-02T04:30:00Z"):
        ingest(last_moved("30min"))


def test_S5_a_time_months_later_is_a_gap() -> None:
    assert ingest(last_moved("74D")).counts["completed_steps"] == 74 * 24


def test_I11_a_time_of_another_century_does_not_make_a_huge_panel() -> None:
    with pytest.raises(DataError, match=r"missing 648,696 steps: 2014-06-02T04:00:00Z, "):
        ingest(last_moved("27029D"))  # to 2088


@given(st.sets(st.integers(0, STEPS - 1), min_size=1))
def test_S6_missing_rows_are_never_zero(kept: set[int]) -> None:
    panel = ingest(wide().iloc[sorted(kept)])
    first, last = min(kept), max(kept)
    expected = np.full((STEPS, PLACES), np.nan)
    expected[sorted(kept)] = VALUES[sorted(kept)]
    np.testing.assert_array_equal(panel.values, expected[first : last + 1])
    assert panel.counts["completed_steps"] == last - first + 1 - len(kept)
    assert sum(count for _, count in panel.counts["gaps"]) == panel.counts["completed_steps"]


# ------------------------------------------------------------------------------ busy locations


def test_locations_below_the_minimum_are_dropped() -> None:
    values = np.tile([9.0, 10.0, 11.0], (STEPS, 1))
    panel = ingest(wide(values=values), min_demand=10.0)
    assert panel.locations.ids == ("b", "c")
    np.testing.assert_array_equal(panel.values, values[:, 1:])


def test_the_mean_is_of_what_was_observed() -> None:
    values = np.tile([9.0, 12.0, 11.0], (STEPS, 1))
    values[: STEPS // 2] = [np.nan, np.nan, 0.0]
    assert ingest(wide(values=values), min_demand=10.0).locations.ids == ("b",)


def test_the_mean_is_taken_over_the_demand_hours_of_the_local_clock() -> None:
    local = hours("2014-06-01", 72, NEW_YORK)
    values = np.ones((72, PLACES))
    values[24:48, 0] = 10.0  # June 2 by the clock on the wall, 04:00Z to 04:00Z
    values[:24, 1] = values[48:, 1] = 100.0
    panel = ingest(
        wide(local.tz_convert("UTC"), values),
        {"timezone": NEW_YORK},
        min_demand=10.0,
        demand_hours="2014-06-02:2014-06-02",
    )
    assert panel.locations.ids == ("a",)
    assert panel.values.shape == (72, 1)  # the rest of the table stays


def test_a_minimum_that_nobody_reaches_names_the_largest() -> None:
    with pytest.raises(DataError) as caught:
        ingest(wide(values=np.tile([1.0, 2.5, 2.0], (STEPS, 1))), min_demand=10.0)
    assert str(caught.value) == (
        "none of 3 locations has a mean of 10; the largest is 2.5: lower min_demand"
    )


def test_A7_demand_hours_without_a_minimum_are_refused() -> None:
    with pytest.raises(ConfigError, match="those of min_demand, which is not set; give both"):
        ingest(wide(), demand_hours="2014-06-02:2014-06-02")


def test_demand_hours_outside_the_table_are_refused() -> None:
    with pytest.raises(ConfigError, match="demand hours 2015-01-01:2015-01-02: not in the table"):
        ingest(wide(), min_demand=1.0, demand_hours="2015-01-01:2015-01-02")


@pytest.mark.parametrize("span", ["2014-06:2014-07", "2014-06-02", ":", "2014-06-02:2014-06-01"])
def test_demand_hours_that_are_no_span_are_refused(span: str) -> None:
    with pytest.raises(ConfigError, match=r"give e\.g\. 2014-04-01:2014-06-30"):
        ingest(wide(), min_demand=1.0, demand_hours=span)


# ----------------------------------------------------------------------------------- locations


def test_a_table_of_locations_gives_names_places_and_order() -> None:
    places = pd.DataFrame({"id": list("cab"), "name": list("CAB"), "lat": 1.0, "lon": 2.0})
    panel = ingest(wide(), locations=places)
    assert panel.locations.names == ("C", "A", "B")
    np.testing.assert_array_equal(panel.values, VALUES[:, [2, 0, 1]])


def test_busy_locations_keep_their_names() -> None:
    places = pd.DataFrame({"id": list("cab"), "name": list("CAB"), "lat": [3.0, 1.0, 2.0]})
    values = np.tile([9.0, 10.0, 11.0], (STEPS, 1))
    panel = ingest(wide(values=values), locations=places, min_demand=10.0)
    assert (panel.locations.names, panel.locations.lat.tolist()) == (("C", "B"), [3.0, 2.0])
    np.testing.assert_array_equal(panel.values, values[:, [2, 1]])


def test_I23_locations_that_do_not_fit_the_table_are_named() -> None:
    places = pd.DataFrame({"id": ["a", "b", "d", "e"]})
    with pytest.raises(DataError) as caught:
        ingest(wide(), locations=places)
    assert "1 unknown id in the values: c; add them to the locations" in str(caught.value)
    assert "2 locations without a row: d, e; drop them or give null rows" in str(caught.value)


WILD_IDS = ["=cmd()", "+1+1", "@x", "<script>alert(1)</script>", "a,b", '"', "💧", "007", "7"]


def test_I23_wild_ids_come_through_long_and_wide_tables(tmp_path: Path) -> None:
    values = np.arange(float(STEPS * len(WILD_IDS))).reshape(STEPS, -1)
    frame = pd.DataFrame(values, columns=WILD_IDS)
    frame.insert(0, "time", hours())
    tall = frame.melt("time", var_name="id", value_name="y")
    for name, table in (("wide", frame), ("long", tall)):
        for suffix in ("csv", "parquet"):
            write_table(table, tmp_path / f"{name}.{suffix}")
            panel = ingest(tmp_path / f"{name}.{suffix}")
            assert sorted(panel.locations.ids) == sorted(WILD_IDS)
            np.testing.assert_array_equal(panel.select(tuple(WILD_IDS)).values, values)


@given(st.text(max_size=5))
def test_I23_any_id_is_kept_or_refused_with_a_reason(identity: str) -> None:
    table = pa.table({"time": hours(), "y": np.ones(STEPS)})
    try:
        column = pa.array([identity] * STEPS)
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    try:
        panel = ingest(table.append_column("id", column))
    except DataError as error:
        reason = str(error)
        assert "location id" in reason or "without an id" in reason
        return
    assert panel.locations.ids == (identity,)


def test_I23_one_location_is_enough_and_none_is_not() -> None:
    assert ingest(long(ids=("a",))).values.shape == (STEPS, 1)
    with pytest.raises(DataError, match="no column of values is recognised"):
        ingest(wide()[["time"]])


def test_a_header_alone_is_told_that_it_has_no_rows(tmp_path: Path) -> None:
    for header in ("ds,unique_id,y", "time,a,b"):
        (tmp_path / "t.csv").write_text(f"{header}\n")
        with pytest.raises(DataError, match=r"t\.csv: no rows; at least one time is needed"):
            ingest(tmp_path / "t.csv")


def test_a_table_without_rows_is_refused() -> None:
    for frame in (wide(), long()):
        with pytest.raises(DataError, match="no rows; at least one time is needed"):
            ingest(frame.iloc[:0])


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv: no such file"):
        ingest(tmp_path / "a.csv")
