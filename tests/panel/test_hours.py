import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.clock.clock import Clock
from forecaster.clock.holidays import Holidays
from forecaster.errors import ConfigError, DataError
from forecaster.panel.hours import find_hours
from forecaster.panel.panel import HOURS_FOUND, Panel, describe_hours

PLACES = 5
OPEN = "Mon-Fri 05:00-23:00; Sat-Sun off"


def hourly(days: int, start: str = "2019-06-03") -> pd.DataFrame:  # a Monday
    times = pd.date_range(start, periods=24 * days, freq="h")
    values = np.random.default_rng(1).poisson(7, (len(times), PLACES)).astype(float)
    return pd.DataFrame(values, columns=[f"p{n}" for n in range(PLACES)]).assign(time=times)


def working_hours(frame: pd.DataFrame) -> pd.DataFrame:
    time = frame["time"].dt
    return frame[(time.day_of_week < 5) & (time.hour >= 5) & (time.hour < 23)]


def panel_of(frame: pd.DataFrame, **settings: object) -> Panel:
    return Panel.from_wide(frame, timezone="UTC", **settings)  # type: ignore[arg-type]


def test_L10_nights_and_weekends_without_rows_are_closed_and_no_gaps() -> None:
    panel = panel_of(working_hours(hourly(17)))
    assert panel.clock.hours == (OPEN,)
    assert set(panel.locations.hours) == {OPEN}
    assert panel.counts[HOURS_FOUND]
    assert np.array_equal(panel.alive(0, len(panel.values)), np.isfinite(panel.values))


def test_days_that_are_absent_once_are_gaps_and_refused() -> None:
    frame = working_hours(hourly(17))
    with pytest.raises(DataError, match=r"missing 18 steps: 2019-06-06T05:00:00Z"):
        panel_of(frame[frame["time"].dt.date != pd.Timestamp("2019-06-06").date()])


def test_gaps_are_no_closings_if_places_are_always_open() -> None:
    with pytest.raises(DataError, match="missing 102 steps"):
        panel_of(working_hours(hourly(12)), hours="always")


def test_weekdays_absent_in_a_single_week_are_not_closed() -> None:
    with pytest.raises(DataError, match="missing 36 steps"):
        panel_of(working_hours(hourly(12)))  # nights are closed, one weekend is not enough


def test_public_holidays_are_closed_if_all_of_them_are_absent() -> None:
    values = np.ones((24 * 17, 2), dtype=np.float32)
    times = np.arange("2019-06-03", "2019-06-20", dtype="datetime64[h]").astype("datetime64[s]")
    dates = ("2019-06-06", "2019-06-12")
    values[np.isin(times.astype("datetime64[D]"), np.array(dates, dtype="datetime64[D]"))] = np.nan
    clock = Clock("UTC", holidays=Holidays("XX", 2019, 2019, dates))
    assert find_hours(values, times, clock) == ("PH off",) * 2
    more = replace(clock, holidays=Holidays("XX", 2019, 2019, (*dates, "2019-06-18")))
    assert find_hours(values, times, more) == ("", "")  # one holiday is open


def test_what_is_mostly_absent_has_no_hours() -> None:
    values = np.full((24 * 80, 2), np.nan, dtype=np.float32)
    values[:48], values[-1] = 1, 1
    times = np.datetime64("2019-06-03", "s") + np.arange(len(values)) * np.timedelta64(3600, "s")
    assert find_hours(values, times, Clock("UTC")) == ("", "")


def test_one_absent_holiday_is_a_gap() -> None:
    values = np.ones((24 * 17, 2), dtype=np.float32)
    values[24 * 3 : 24 * 4] = np.nan
    times = np.datetime64("2019-06-03", "s") + np.arange(len(values)) * np.timedelta64(3600, "s")
    clock = Clock("UTC", holidays=Holidays("XX", 2019, 2019, ("2019-06-06",)))
    assert find_hours(values, times, clock) == ("", "")


def test_a_place_with_hours_of_its_own_is_found_by_its_values() -> None:
    frame = hourly(29)
    frame.loc[frame["time"].dt.hour < 9, "p1"] = np.nan
    frame.loc[(frame["time"].dt.hour == 3) & (frame["time"].dt.day < 20), "p2"] = np.nan
    frame.loc[frame.index[50:400], "p3"] = np.nan  # an outage
    panel = panel_of(frame)
    assert panel.locations.hours == ("", "09:00-24:00", "", "", "")
    assert panel.clock.hours == ()  # someone is always open
    assert describe_hours(panel) == "always (4 locations), 09:00-24:00 (1 location)"


def test_daily_shops_are_closed_on_sundays() -> None:
    days = pd.date_range("2019-06-03", periods=47, freq="D")
    frame = pd.DataFrame({"time": days, "a": 7.0, "b": 11.0})
    frame = frame[frame["time"].dt.day_of_week < 6]
    panel = panel_of(frame, step_minutes=1440)
    assert describe_hours(panel) == "Sun off"


def test_values_outside_given_hours_are_hidden_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = hourly(9)
    night = frame["time"].dt.hour < 5
    frame.loc[night, [f"p{n}" for n in range(PLACES)]] = 0.0
    with caplog.at_level(logging.WARNING):
        panel = panel_of(frame, hours="05:00-24:00")
    assert not caplog.messages  # zeros are what one expects
    assert panel.counts["values_at_closed_hours"] == 5 * 9 * PLACES
    assert np.isnan(panel.values[night.to_numpy()]).all()
    frame.loc[3, "p2"] = 13.0
    with caplog.at_level(logging.WARNING):
        panel = panel_of(frame, hours="05:00-24:00")
    assert "outside opening hours left out, together 13; check the hours" in caplog.text


def test_hours_of_places_come_from_their_table_and_from_all() -> None:
    morning = "06:00-12:00"
    hours = [morning, None, "", "always", morning]
    places = pd.DataFrame({"id": [f"p{n}" for n in range(PLACES)], "hours": hours})
    panel = panel_of(hourly(9), locations=places)
    assert panel.locations.hours == (morning, "", "", "", morning)
    panel = panel_of(hourly(9), locations=places, hours="05:00-13:00")
    assert panel.locations.hours[:2] == (morning, "05:00-13:00")
    assert panel.clock.hours == ("05:00-13:00", morning)


def test_all_unreadable_hours_of_a_table_are_named_at_once() -> None:
    places = pd.DataFrame(
        {"id": [f"p{n}" for n in range(PLACES)], "hours": ["x", "y", "", "", ""]}
    )
    with pytest.raises(DataError, match=r"(?s)'x'.*'y'"):
        panel_of(hourly(9), locations=places)
    with pytest.raises(ConfigError, match="no country is given"):
        panel_of(hourly(9), hours="PH off")


def test_a_saved_panel_keeps_its_hours(tmp_path: Path) -> None:
    saved = panel_of(working_hours(hourly(17))).save(tmp_path / "panel")
    opened = Panel.open(tmp_path / "panel")
    assert opened.clock == saved.clock
    assert opened.locations.hours == saved.locations.hours
    assert opened.select(("p3", "p1")).locations.hours == (OPEN, OPEN)


def test_a_further_column_of_an_older_panel_is_not_taken_for_hours(tmp_path: Path) -> None:
    panel = panel_of(hourly(9))
    extra = {"hours": tuple(f"Mo-Fr {n}" for n in range(PLACES))}
    replace(panel, locations=replace(panel.locations, extra=extra)).save(tmp_path / "panel")
    opened = Panel.open(tmp_path / "panel")
    assert opened.locations.extra == extra
    assert not opened.locations.has_hours
