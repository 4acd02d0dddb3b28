from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.errors import ConfigError, DataError
from forecaster.ingest.station import (
    QUANTITIES,
    MeasuredColumn,
    WeatherMapping,
    fixed_offset,
    flags_by_rule,
    parse_mapping,
    read_reports,
    to_instants,
)

ROWS = 29
NEW_YORK = "America/New_York"
METRIC = "time=time,temperature=t:C,wind=w:m/s,precipitation=p:mm,visibility=v:km"


def table(rows: int = ROWS, start: str = "2014-06-01T00:51", **columns: object) -> pd.DataFrame:
    """Return mild, dry, clear hours in naive local time, but for the columns given."""
    times = pd.date_range(start, periods=rows, freq="h")
    return pd.DataFrame({"time": times, "t": 15.0, "w": 3.0, "p": 0.0, "v": 16.0}).assign(
        **columns
    )


def with_unit(field: str, unit: str) -> WeatherMapping:
    """Return the mapping of the table above with another unit for one field."""
    metric = parse_mapping(METRIC)
    changed = MeasuredColumn(metric.measured[field].column, unit)
    return WeatherMapping(metric.time, {**metric.measured, field: changed})


# ------------------------------------------------------------------------------ the mapping


def test_a_mapping_names_a_column_for_each_field_and_a_unit_where_one_is_needed() -> None:
    mapping = parse_mapping(
        "time=time, temperature=temp_f:°F,wind=wind_speed_mph:mph,precipitation=precip_in:in,"
        "visibility=a:b:mi,codes=present_weather"
    )
    assert mapping.time == "time"
    assert mapping.measured == {
        "temperature": MeasuredColumn("temp_f", "F"),
        "wind": MeasuredColumn("wind_speed_mph", "mph"),
        "precipitation": MeasuredColumn("precip_in", "in"),
        "visibility": MeasuredColumn("a:b", "mi"),
    }
    assert mapping.columns == (
        "time", "temp_f", "wind_speed_mph", "precip_in", "a:b", "present_weather"
    )  # fmt: skip


def test_codes_may_be_left_out() -> None:
    mapping = parse_mapping(METRIC)
    assert (mapping.codes, mapping.columns) == (None, ("time", "t", "w", "p", "v"))


def test_all_faults_of_a_mapping_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mapping("tim=time,temperature=temp_f,wind=w:knots,wind=x:kn,precipitation=p:in,foo")
    assert str(caught.value).splitlines() == [
        "columns: 7 faults",
        "  tim: unknown field; did you mean 'time'?",
        "  wind: given twice, as 'w:knots' and 'x:kn'",
        "  'foo' is not a mapping; give e.g. temperature=temp_f:F",
        "  time: no column given; all but codes are needed",
        "  visibility: no column given; all but codes are needed",
        "  temperature: column 'temp_f' has no unit; give temp_f:C or temp_f:F",
        "  wind: unknown unit 'knots'; known: m/s, mph, kn",
    ]


def test_a_field_like_no_other_gets_the_list_of_fields() -> None:
    with pytest.raises(ConfigError, match="zzz: unknown field; known: time, temperature, wind,"):
        parse_mapping(f"{METRIC},zzz=a")


# -------------------------------------------------------------------------------- the units

# By hand: 1 in = 25.4 mm, 1 mi = 1609.344 m, 1 mph = 1609.344 m / 3600 s, 1 kn = 1852 m / 3600 s,
# °C = (°F − 32) · 5/9.
BY_HAND = [
    ("temperature", "C", 21.5, 21.5),
    ("temperature", "F", 32.0, 0.0),
    ("temperature", "F", 212.0, 100.0),
    ("temperature", "F", -40.0, -40.0),
    ("wind", "m/s", 7.0, 7.0),
    ("wind", "mph", 10.0, 4.4704),
    ("wind", "kn", 36.0, 18.52),
    ("precipitation", "mm", 3.0, 3.0),
    ("precipitation", "in", 0.5, 12.7),
    ("visibility", "km", 11.0, 11.0),
    ("visibility", "mi", 10.0, 16.09344),
]


@pytest.mark.parametrize(("field", "unit", "raw", "converted"), BY_HAND)
def test_units_convert_as_by_hand(field: str, unit: str, raw: float, converted: float) -> None:
    values = QUANTITIES[field].convert(np.array([raw]), unit)
    np.testing.assert_allclose(values, [converted], atol=1e-12)


def test_every_unit_was_converted_by_hand() -> None:
    known = {(field, unit) for field, q in QUANTITIES.items() for unit in q.units}
    assert {(field, unit) for field, unit, _, _ in BY_HAND} == known


def test_reports_come_in_the_units_of_the_covariates() -> None:
    mapping = parse_mapping(
        "time=time,temperature=t:F,wind=w:kn,precipitation=p:in,visibility=v:mi"
    )
    one = table(1, t=50.0, w=36.0, p=0.5, v=10.0)
    values = read_reports(one, mapping, "UTC").values
    np.testing.assert_allclose(values, [[10.0, 18.52, 12.7, 16.09344, 1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("field", "column", "unit", "raw", "fitting"),
    [
        ("temperature", "t", "C", np.linspace(30, 90, 1_009), "F would fit"),
        ("precipitation", "p", "in", np.linspace(0, 30, 1_009), "mm would fit"),
        ("wind", "w", "kn", np.linspace(0, 170, 1_009), "mph would fit"),
        ("visibility", "v", "mi", np.linspace(0, 190, 1_009), "km would fit"),
        ("visibility", "v", "mi", np.linspace(0, 16_000, 1_009), "no known unit fits"),
        ("wind", "w", "mph", np.where(np.arange(1_009) % 7, 5.0, 9_999.0), "no known unit fits"),
    ],
)
def test_I21_the_unit_range_check_fires_and_names_the_unit_that_fits(
    field: str, column: str, unit: str, raw: np.ndarray, fitting: str
) -> None:
    mapping = with_unit(field, unit)
    with pytest.raises(DataError, match=rf"column '{column}': .* of 1,009 values in {unit} outs"):
        read_reports(table(1_009, **{column: raw}), mapping, "UTC")
    with pytest.raises(DataError, match=fitting):
        read_reports(table(1_009, **{column: raw}), mapping, "UTC")


def test_I21_wrong_units_are_named_together() -> None:
    wrong = table(t=np.linspace(61, 90, ROWS), p=np.linspace(1, 30, ROWS))
    mapping = WeatherMapping("time", {**with_unit("precipitation", "in").measured})
    with pytest.raises(DataError) as caught:
        read_reports(wrong, mapping, "UTC")
    assert str(caught.value).splitlines() == [
        "table: 2 faults",
        "  column 't': 29 of 29 values in C outside -60…60 of temperature_c: 61, 62.0357, 63.0714,"
        " 64.1071, 65.1429, …; the unit is probably wrong: F would fit",
        "  column 'p': 22 of 29 values in in outside 0…200 of precipitation_mm: 8.25, 9.28571,"
        " 10.3214, 11.3571, 12.3929, …; the unit is probably wrong: mm would fit",
    ]


def test_I21_dry_hours_say_nothing_about_the_unit_of_precipitation() -> None:
    amounts = np.zeros(10_007)
    amounts[:7] = 9.0  # under 0.1 % of the hours, all of the wet ones
    with pytest.raises(DataError, match=r"9, 9, 9, 9, 9, …; .* mm would fit"):
        read_reports(table(10_007, p=amounts), with_unit("precipitation", "in"), "UTC")


def test_I21_a_few_impossible_values_are_missing_and_named() -> None:
    gusts = np.full(2_003, 3.0)
    gusts[[5, 1_999]] = 468.7, -1.0
    reports = read_reports(table(2_003, w=gusts), parse_mapping(METRIC), "UTC")
    assert [tuple(outlier) for outlier in reports.outliers] == [
        ("wind_mps", "2014-06-01T05:51:00Z", 468.7),
        ("wind_mps", "2014-08-23T07:51:00Z", -1.0),
    ]
    assert np.argwhere(np.isnan(reports.values)).tolist() == [[5, 1], [1_999, 1]]


def test_I21_one_impossible_value_is_an_error_of_its_own_even_in_a_short_table() -> None:
    reports = read_reports(table(t=[99.0, *[15.0] * (ROWS - 1)]), parse_mapping(METRIC), "UTC")
    assert len(reports.outliers) == 1


# --------------------------------------------------------------------------------- the zone


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("-05:00", -5),
        ("UTC-5", -5),
        ("-5", -5),
        ("UTC+05:30", 5.5),
        ("+0545", 5.75),
        ("+14:00", 14),
    ],
)
def test_a_fixed_offset_is_hours_east_of_greenwich(text: str, hours: float) -> None:
    assert fixed_offset(text) == hours * 3600


@pytest.mark.parametrize("text", [NEW_YORK, "UTC", "Etc/GMT+5", "-25:00", "05:00", "-05:99", ""])
def test_other_texts_are_no_fixed_offset(text: str) -> None:
    assert fixed_offset(text) is None


def test_I21_times_without_an_offset_ask_for_the_zone() -> None:
    with pytest.raises(ConfigError) as caught:
        read_reports(table(), parse_mapping(METRIC), None)
    assert "standard time all year" in str(caught.value)
    assert "-05:00" in str(caught.value)
    assert NEW_YORK in str(caught.value)


def test_times_with_an_offset_refuse_another_zone() -> None:
    aware = table().assign(time=lambda f: f["time"].dt.tz_localize("UTC"))
    assert read_reports(aware, parse_mapping(METRIC), None).seconds[0] % 3600 == 51 * 60
    with pytest.raises(ConfigError, match=r"carry their offset, so a time zone \(-05:00\) is not"):
        read_reports(aware, parse_mapping(METRIC), "-05:00")


def test_an_unknown_zone_is_refused_with_both_forms() -> None:
    with pytest.raises(
        ConfigError, match=r"did you mean 'America/New_York'\?; a fixed offset such"
    ):
        read_reports(table(), parse_mapping(METRIC), "America/NewYork")


def test_standard_time_all_year_and_the_wall_clock_differ_in_summer_only() -> None:
    clock = np.array(["2014-01-15T12:51", "2014-07-15T12:51"], "datetime64[s]").astype(np.int64)
    fixed, certain = to_instants(clock, True, "-05:00", "table")
    local, _ = to_instants(clock, True, NEW_YORK, "table")
    assert certain.all()
    assert (fixed - clock).tolist() == [5 * 3600, 5 * 3600]
    assert (fixed - local).tolist() == [0, 3600]


def test_I21_a_table_of_standard_time_is_told_from_one_of_the_wall_clock_in_spring() -> None:
    spring = table(start="2014-03-09T00:51")
    with pytest.raises(DataError) as caught:
        read_reports(spring, parse_mapping(METRIC), NEW_YORK)
    assert str(caught.value) == (
        "table: 1 report at local times that do not occur in America/New_York: "
        "2014-03-09T02:51:00; if the table uses standard time all year, give its offset (-05:00)"
    )
    assert len(read_reports(spring, parse_mapping(METRIC), "-05:00").seconds) == ROWS


def test_rows_at_times_shown_twice_are_dropped_and_counted() -> None:
    utc = pd.date_range("2014-11-02T03:51", periods=ROWS, freq="h", tz="UTC")
    wall = table(time=utc.tz_convert(NEW_YORK).tz_localize(None))
    reports = read_reports(wall, parse_mapping(METRIC), NEW_YORK)
    kept = utc[~utc.hour.isin([5, 6]) | (utc.day != 2)]
    assert reports.ambiguous == 2
    np.testing.assert_array_equal(reports.seconds, kept.as_unit("s").asi8)


# -------------------------------------------------------------------------- rain, snow, fog


@pytest.mark.parametrize(
    ("temperature", "precipitation", "visibility", "flags"),
    [
        (15.0, 0.0, 16.0, [0, 0, 0]),
        (15.0, 0.1, 16.0, [1, 0, 0]),
        (1.01, 0.1, 16.0, [1, 0, 0]),
        (1.0, 0.1, 16.0, [0, 1, 0]),
        (-9.0, 0.1, 16.0, [0, 1, 0]),
        (-9.0, 0.0, 0.99, [0, 0, 1]),
        (15.0, 2.0, 1.0, [1, 0, 0]),
        (np.nan, 0.0, 16.0, [0, 0, 0]),
        (np.nan, 0.1, 0.5, [np.nan, np.nan, 1]),
        (15.0, np.nan, np.nan, [np.nan] * 3),
    ],
)
def test_rain_snow_and_fog_follow_the_rule(
    temperature: float, precipitation: float, visibility: float, flags: list[float]
) -> None:
    fields = (np.array([value]) for value in (temperature, precipitation, visibility))
    np.testing.assert_array_equal(flags_by_rule(*fields), [flags])


def test_codes_go_before_the_rule() -> None:
    codes = ["-SN", None, "FG", *[None] * (ROWS - 3)]
    coded = table(p=[0.3, 0.3, *[0.0] * (ROWS - 2)], wx=codes)
    reports = read_reports(coded, parse_mapping(f"{METRIC},codes=wx"), "UTC")
    assert reports.flags_from == "codes"
    assert reports.values[:4, 4:].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert read_reports(coded, parse_mapping(METRIC), "UTC").flags_from == "rule"


def test_a_mute_column_of_codes_is_refused_if_something_fell() -> None:
    mapping = parse_mapping(f"{METRIC},codes=wx")
    with pytest.raises(DataError, match="column 'wx': no code of rain, snow or fog, though"):
        read_reports(table(p=0.3, wx=None), mapping, "UTC")
    assert not read_reports(table(wx=None), mapping, "UTC").values[:, 4:].any()


# --------------------------------------------------------------------------------- the table


def test_values_that_are_null_stay_missing() -> None:
    frame = table(w=pd.array([None, *[3.0] * (ROWS - 1)], "Float64"))
    reports = read_reports(pa.Table.from_pandas(frame), parse_mapping(METRIC), "UTC")
    assert np.argwhere(np.isnan(reports.values)).tolist() == [[0, 1]]


def test_every_fault_of_the_table_is_named_at_once() -> None:
    mapping = parse_mapping(f"{METRIC},codes=wx")
    with pytest.raises(DataError) as caught:
        read_reports(table(w="calm", p=np.inf, wx="drizzle"), mapping, "UTC")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines] == [
        "table", "column 'w'", "column 'p'", "column 'wx'"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="v"), "no column 'v'; found: time, t, w, p"),
        (lambda f: f.head(0), "table: no rows; a table of reports is needed"),
        (
            lambda f: pd.concat([f] * 3),
            "58 of 87 rows repeat the time of another; if it has sev",
        ),
    ],
)
def test_tables_that_cannot_be_one_station_are_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_reports(change(table()), parse_mapping(METRIC), "UTC")
