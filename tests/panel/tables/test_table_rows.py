"""Tables read from Python: what is found in them, and what is asked for."""

import logging
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.panel.panel import Panel

STEPS = 53


def hours(freq: str = "h", zone: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range("2022-01-03", periods=STEPS, freq=freq, tz=zone)


def sensors(**columns: Any) -> pd.DataFrame:
    """Return a long table whose columns have names of their own."""
    parts = [
        pd.DataFrame({"when": hours(), "sensor": name, "flow": np.arange(STEPS) + level})
        for name, level in (("b", 7), ("a", 3))
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def named(values: Any, ds: Any) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": "a", "ds": ds, "y": values})


def test_the_kind_is_found_in_the_values() -> None:
    degrees = named(np.linspace(20.5, 52.3, STEPS), hours())
    assert Panel.from_long(degrees).kind == "measurement"
    assert Panel.from_wide(degrees[["ds", "y"]].set_axis(["time", "a"], axis=1)).kind == (
        "measurement"
    )
    assert Panel.from_long(degrees, kind="count").kind == "count"
    assert Panel.from_long(named(np.arange(STEPS), hours())).kind == "count"


def test_a_marker_of_missing_values_is_asked_for_by_the_argument() -> None:
    rows = named([-999, *range(1, STEPS)], hours())
    with pytest.raises(ConfigError, match='give missing="-999", otherwise kind="measurement"'):
        Panel.from_long(rows)
    for missing in (-999, "-999", ["-999", "n/a"], [-999.0]):
        panel = Panel.from_long(rows, missing=missing)
        assert (panel.kind, int(np.isnan(panel.values).sum())) == ("count", 1)


def test_the_time_zone_is_the_one_that_the_times_carry(caplog: Any) -> None:
    rows = named(np.arange(STEPS), hours(zone="Europe/Berlin"))
    for table in (rows, pl.from_pandas(rows), pa.Table.from_pandas(rows)):
        assert Panel.from_long(table).clock.zone == "Europe/Berlin"
    assert Panel.from_long(rows, timezone="Asia/Tokyo").clock.zone == "Asia/Tokyo"
    assert caplog.messages == []
    naive = Panel.from_long(named(np.arange(STEPS), hours()))
    assert naive.clock.zone == "UTC"
    assert caplog.messages == ["no timezone=: times without UTC offset are read as UTC"]


def test_days_without_a_time_are_read_as_utc_where_the_clock_changes(caplog: Any) -> None:
    days = pd.date_range("2022-01-01", periods=120).strftime("%Y-%m-%d")
    panel = Panel.from_long(named(np.arange(120), days), timezone="Europe/Berlin")
    assert (panel.clock.zone, panel.clock.step_minutes) == ("UTC", 24 * 60)
    assert str(panel.start) == "2022-01-01T00:00:00"
    assert caplog.messages == ["days without a time: read as UTC, not as Europe/Berlin"]
    still = Panel.from_long(named(np.arange(120), days), timezone="Asia/Tokyo")
    assert still.clock.zone == "Asia/Tokyo"  # a clock that never changes
    halves = named(np.arange(240), pd.date_range("2022-01-01", periods=240, freq="12h"))
    with pytest.raises(DataError, match="steps of 720 min without an offset cannot follow it"):
        Panel.from_long(halves, timezone="Europe/Berlin")


def test_one_series_needs_no_column_of_ids() -> None:
    panel = Panel.from_long(pd.DataFrame({"ds": hours("D"), "y": np.arange(STEPS)}))
    assert panel.shape == (STEPS, 1)
    assert panel.clock.step_minutes == 24 * 60
    load = pd.DataFrame({"stamp": hours(), "kwh": 0.5 + np.arange(STEPS)})
    assert Panel.from_long(load, columns="time=stamp,value=kwh").locations.ids == ("kwh",)


def test_a_text_that_is_the_same_in_all_rows_is_the_name_of_the_location(tmp_path: Path) -> None:
    rows = pd.DataFrame({"Prüfstand": "Halle Süd", "Messzeit": hours(), "Durchfluss m³/h": 986.5})
    rows.to_csv(tmp_path / "flow.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    assert Panel.from_long(tmp_path / "flow.csv").locations.ids == ("Halle Süd",)
    unit = rows.rename(columns={"Prüfstand": "unit"})  # names no location
    assert Panel.from_wide(unit).locations.ids == ("Durchfluss m³/h",)


@pytest.mark.parametrize("frame", ["pandas", "polars", "arrow", "duckdb", "csv", "parquet"])
def test_columns_of_other_names_are_recognised_in_any_table(tmp_path: Path, frame: str) -> None:
    rows = sensors()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    tables: dict[str, Any] = {
        "pandas": rows,
        "polars": pl.from_pandas(rows),
        "arrow": pa.Table.from_pandas(rows),
        "duckdb": duckdb.sql("select * from rows"),
        "csv": str(tmp_path / "rows.csv"),
        "parquet": tmp_path / "rows.parquet",
    }
    panel = Panel.from_long(tables[frame])
    assert panel.locations.ids == ("a", "b")
    assert panel.values[:2].tolist() == [[3.0, 7.0], [4.0, 8.0]]


def test_what_was_recognised_is_logged(caplog: Any) -> None:
    with caplog.at_level(logging.INFO):
        Panel.from_long(sensors(), timezone="UTC")
    (message,) = caplog.messages
    assert message == ("table: long: time = when, id = sensor, value = flow; a table in memory")


def test_recognised_covariates_are_past_only_unless_the_table_holds_them_ahead() -> None:
    rows = sensors(price=2.5, seen=1.0)
    last = rows["when"] > hours()[-6]
    rows.loc[last, ["flow", "seen"]] = np.nan
    panel = Panel.from_long(rows)
    assert (panel.known_ahead, panel.past_only) == (("price",), ("seen",))
    assert (panel.shape, len(panel.known_times)) == ((STEPS - 5, 2), STEPS)
    assert Panel.from_long(rows, past_only=["price"]).known_ahead == ("seen",)


def test_a_table_with_our_names_is_taken_strictly_and_any_other_as_the_command_reads_it() -> None:
    gap = np.delete(np.arange(STEPS), 11)
    strict = named(gap, hours()[gap])
    with pytest.raises(DataError, match=r'missing 1 step: .* or gaps="null"'):
        Panel.from_long(strict)
    assert Panel.from_long(strict, gaps="null").counts["completed_steps"] == 1
    rows = sensors()
    rows = rows[rows["when"] != hours()[11]]
    assert Panel.from_long(rows).counts["completed_steps"] == 1
    with pytest.raises(DataError, match="missing 1 step"):
        Panel.from_long(rows, gaps="refuse")


def test_a_wide_table_has_any_column_of_times() -> None:
    wide = pd.DataFrame({"Zeit": hours().astype(str), "a": 1, "b": np.arange(STEPS), "of": "x"})
    panel = Panel.from_wide(wide)
    assert panel.locations.ids == ("a", "b")
    with pytest.raises(DataError, match=r"Panel\.from_wide reads such a table"):
        Panel.from_long(wide)
    named_by_clock = pd.DataFrame({"time": hours(), **{str(n): n for n in range(1, 25)}})
    assert Panel.from_wide(named_by_clock).shape == (STEPS, 24)  # locations, no hours across


def test_dates_and_decimals_that_fit_two_readings_are_asked_for_by_the_argument(
    tmp_path: Path,
) -> None:
    rows = named(np.arange(4), ["01/02/2022", "02/02/2022", "03/02/2022", "04/02/2022"])
    with pytest.raises(DataError, match='give dates="day-first" or dates="month-first"'):
        Panel.from_long(rows)
    assert Panel.from_long(rows, dates="day-first").clock.step_minutes == 24 * 60
    (tmp_path / "a.csv").write_text("ds;y\n2022-01-01;1,234\n2022-01-02;2,345\n")
    with pytest.raises(ConfigError, match=r'give decimal="," or decimal="\."'):
        Panel.from_long(tmp_path / "a.csv")
    panel = Panel.from_long(tmp_path / "a.csv", decimal=",")
    assert panel.values.ravel().tolist() == pytest.approx([1.234, 2.345])


def test_negative_values_of_counts_name_the_argument_of_python() -> None:
    with pytest.raises(DataError, match='for measurements give kind="measurement"'):
        Panel.from_long(named(np.arange(STEPS) - 7.0, hours()), kind="count")


def test_a_saved_panel_is_loaded_by_the_usual_name(tmp_path: Path) -> None:
    made = Panel.from_long(sensors()).save(tmp_path)
    assert Panel.load(tmp_path).digest == made.digest
