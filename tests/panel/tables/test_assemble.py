from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.config import PanelConfig
from forecaster.errors import ConfigError, DataError
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.panel.tables.assemble import SideTables
from forecaster.panel.tables.readers import read_long

STEPS, PLACES = 7, 3  # M, N
TIMES = pd.date_range("2014-06-30T22:00", periods=13, freq="h", tz="UTC")
IDS = ("a", "b", "c")


def long_table(steps: int = STEPS, **columns: Any) -> pd.DataFrame:
    """Return y = 10 · step + place, for places in another order than that of their ids."""
    rows = [
        {"unique_id": IDS[n], "ds": TIMES[m], "y": 10.0 * m + n}
        for m in range(steps)
        for n in (2, 0, 1)
    ]
    return pd.DataFrame(rows).assign(**columns)


def weather(first: int, last: int) -> pd.DataFrame:
    span = np.arange(first, last)
    return pd.DataFrame({"ds": TIMES[first:last], "wind": span + 0.5, "temperature": -span})


def rain(first: int, last: int, ids: tuple[str, ...] = IDS, name: str = "rain") -> pd.DataFrame:
    rows = [(i, TIMES[m], 100.0 * m + IDS.index(i)) for m in range(first, last) for i in ids]
    return pd.DataFrame(rows, columns=["unique_id", "ds", name])


def build(
    frame: pd.DataFrame | None = None, tables: SideTables | None = None, **fields: Any
) -> Panel:
    config = PanelConfig.model_validate(fields)
    rows = read_long(long_table() if frame is None else frame, config.kind)
    return Panel.from_series(rows, config, tables)


def test_values_alone_make_a_panel_without_covariates() -> None:
    panel = build()
    assert panel.values.shape == (STEPS, PLACES)
    assert panel.values[3].tolist() == [30.0, 31.0, 32.0]
    assert panel.start == np.datetime64("2014-06-30T22:00:00")
    assert panel.covariates.values.shape == (STEPS, 0)
    assert panel.local_covariates.values.shape == (0, STEPS, PLACES)


def test_a_location_table_gives_the_order_of_the_columns() -> None:
    places = pd.DataFrame({"id": ["c", "a", "b"], "name": ["C", "A", "B"]})
    panel = build(long_table(rain=lambda f: f["y"] + 1000), SideTables(locations=places))
    assert panel.locations.names == ("C", "A", "B")
    assert panel.values[3].tolist() == [32.0, 30.0, 31.0]
    assert panel.local_covariates.values[0, 3].tolist() == [1032.0, 1030.0, 1031.0]


def test_locations_may_be_given_as_they_are() -> None:
    places = Locations.of_ids(("b", "c", "a"))
    assert build(tables=SideTables(locations=places)).locations is places


def test_unknown_and_absent_locations_are_named_together() -> None:
    places = pd.DataFrame({"id": ["b", "d", "e"]})
    with pytest.raises(DataError) as caught:
        build(tables=SideTables(locations=places))
    text = str(caught.value)
    assert "locations: 2 faults" in text
    assert "2 unknown ids in the values: a, c; add them to the locations" in text
    assert "2 locations without a row: d, e; drop them or give null rows" in text


@pytest.mark.parametrize("name", ["time", "y", "cutoff"])
def test_a_reserved_id_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"location id {name}: reserved"):
        build(long_table().replace({"unique_id": {"a": name}}))


def test_covariates_may_begin_before_and_reach_past_the_values() -> None:
    frame = long_table().query("ds >= @TIMES[2]")
    panel = build(frame, SideTables(covariates=weather(0, 11)))
    assert panel.covariates.names == ("temperature", "wind")
    assert panel.covariates.values.shape == (9, 2)
    np.testing.assert_array_equal(panel.covariates.values[:, 0], -np.arange(2, 11))


def test_the_time_column_of_covariates_may_be_called_time() -> None:
    table = weather(0, STEPS).rename(columns={"ds": "time"})
    panel = build(tables=SideTables(covariates=table))
    np.testing.assert_array_equal(panel.covariates.values[:, 0], -np.arange(STEPS))


def test_covariates_that_end_early_are_missing_from_there_on() -> None:
    panel = build(tables=SideTables(covariates=weather(0, 5)))
    assert np.isnan(panel.covariates.values[:, 0]).tolist() == [False] * 5 + [True] * 2


def test_local_covariates_may_stand_tables_the_values() -> None:
    panel = build(long_table(rain=lambda f: f["y"] / 2))
    assert panel.local_covariates.names == ("rain",)
    np.testing.assert_array_equal(panel.local_covariates.values[0], panel.values / 2)


def test_local_covariates_of_their_own_table_reach_past_the_values() -> None:
    panel = build(tables=SideTables(local_covariates=rain(0, 11, ids=("c", "a"))))
    assert panel.local_covariates.values.shape == (1, 11, PLACES)
    layer = panel.local_covariates.values[0]
    assert layer[10, [0, 2]].tolist() == [1000.0, 1002.0]
    assert np.isnan(layer[:, 1]).all()


def test_every_covariate_reaches_as_far_as_the_longest() -> None:
    tables = SideTables(covariates=weather(0, 11), local_covariates=rain(0, 13))
    panel = build(long_table(snow=0.0), tables)
    assert panel.values.shape == (STEPS, PLACES)
    assert panel.covariates.values.shape == (13, 2)
    assert panel.local_covariates.values.shape == (2, 13, PLACES)
    assert np.isnan(panel.covariates.values[11:]).all()
    assert np.isnan(panel.local_covariates.values[1, STEPS:]).all()


def test_a_covariate_may_have_its_past_in_one_table_and_its_future_in_another() -> None:
    past = long_table(rain=lambda f: f["y"])
    panel = build(past, SideTables(local_covariates=rain(STEPS, 11)))
    layer = panel.local_covariates.values[0]
    np.testing.assert_array_equal(layer[:STEPS], panel.values)
    assert layer[10].tolist() == [1000.0, 1001.0, 1002.0]


def test_a_covariate_that_two_tables_tell_differently_is_refused() -> None:
    past = long_table(rain=lambda f: f["y"])
    with pytest.raises(DataError, match="local covariates: 3 values of 'rain' differ from those"):
        build(past, SideTables(local_covariates=rain(STEPS - 1, 11)))


def test_local_covariates_of_an_unknown_location_are_refused() -> None:
    places = SideTables(local_covariates=rain(0, 3).replace({"unique_id": {"b": "x"}}))
    with pytest.raises(DataError, match="local covariates: 1 unknown id: x; the panel lacks them"):
        build(tables=places)


@pytest.mark.parametrize("name", ["y", "cutoff"])
def test_a_reserved_covariate_is_refused(name: str) -> None:
    for tables in (
        SideTables(covariates=weather(0, 3).rename(columns={"wind": name})),
        SideTables(local_covariates=rain(0, 3, name=name)),
    ):
        with pytest.raises(DataError, match=f"covariate {name}: reserved"):
            build(tables=tables)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_covariates_are_refused(value: float) -> None:
    for tables in (
        SideTables(covariates=weather(0, 3).assign(wind=value)),
        SideTables(local_covariates=rain(0, 3).assign(rain=value)),
    ):
        with pytest.raises(DataError, match="values infinite: row 1"):
            build(tables=tables)


def test_S5_an_hour_that_no_location_has_is_refused() -> None:
    with pytest.raises(DataError, match="missing 1 step: 2014-07-01T01:00:00Z"):
        build(long_table().query("ds != @TIMES[3]"))


def test_holidays_are_written_down_for_the_local_years_and_ten_more() -> None:
    new_year = pd.date_range("2014-12-31T23:00", periods=7, freq="h", tz="UTC")
    frame = long_table().assign(ds=np.repeat(new_year, PLACES))
    kolkata = build(frame, timezone="Asia/Kolkata", country="US").clock
    assert kolkata.holidays is not None
    assert (kolkata.holidays.first_year, kolkata.holidays.last_year) == (2015, 2025)
    los_angeles = build(frame, timezone="America/Los_Angeles", country="US").clock
    assert los_angeles.holidays is not None
    assert (los_angeles.holidays.first_year, los_angeles.holidays.last_year) == (2014, 2024)
    assert "2024-07-04" in los_angeles.holidays.dates


def test_without_a_country_there_are_no_holidays() -> None:
    assert build().clock.holidays is None


def test_a_country_without_a_calendar_is_refused() -> None:
    with pytest.raises(ConfigError, match="country 'Atlantis' has no holiday calendar"):
        build(country="Atlantis")


@pytest.mark.parametrize("time", ["9999-12-31T00:00Z", "0001-01-01T00:00Z", "9999-12-31T00:00"])
def test_I13_a_year_that_no_calendar_has_is_refused(time: str) -> None:
    with pytest.raises(DataError, match="check for placeholders"):
        build(pd.DataFrame({"unique_id": ["a"], "ds": [time], "y": [1.0]}))


def test_what_the_clock_change_did_is_counted() -> None:
    times = pd.date_range("2015-11-01", periods=STEPS, freq="h")
    frame = long_table().assign(ds=np.repeat(times, PLACES))
    panel = build(frame, timezone="America/New_York")
    assert panel.counts == {"ambiguous_local_time": PLACES, "nonexistent_local_time": 0}
    assert len(panel.values) == STEPS + 1
