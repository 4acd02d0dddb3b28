import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.errors import ConfigError, DataError
from forecaster.ingest.demand.schemas import KNOWN, Schema, parse_columns, recognise

# The first line of TLC's yellow-taxi files, as published for these months; 2014 has the spaces.
HEADERS = {
    "2009-01": "vendor_name,Trip_Pickup_DateTime,Trip_Dropoff_DateTime,Passenger_Count,"
    "Trip_Distance,Start_Lon,Start_Lat,Rate_Code,store_and_forward,End_Lon,End_Lat,Payment_Type,"
    "Fare_Amt,surcharge,mta_tax,Tip_Amt,Tolls_Amt,Total_Amt",
    "2010-01": "vendor_id,pickup_datetime,dropoff_datetime,passenger_count,trip_distance,"
    "pickup_longitude,pickup_latitude,rate_code,store_and_fwd_flag,dropoff_longitude,"
    "dropoff_latitude,payment_type,fare_amount,surcharge,mta_tax,tip_amount,tolls_amount,"
    "total_amount",
    "2014-01": "vendor_id, pickup_datetime, dropoff_datetime, passenger_count, trip_distance, "
    "pickup_longitude, pickup_latitude, rate_code, store_and_fwd_flag, dropoff_longitude, "
    "dropoff_latitude, payment_type, fare_amount, surcharge, mta_tax, tip_amount, tolls_amount, "
    "total_amount",
    "2015-01": "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,"
    "trip_distance,pickup_longitude,pickup_latitude,RateCodeID,store_and_fwd_flag,"
    "dropoff_longitude,dropoff_latitude,payment_type,fare_amount,extra,mta_tax,tip_amount,"
    "tolls_amount,improvement_surcharge,total_amount",
    "2016-07": "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,"
    "trip_distance,RatecodeID,store_and_fwd_flag,PULocationID,DOLocationID,payment_type,"
    "fare_amount,extra,mta_tax,tip_amount,tolls_amount,improvement_surcharge,total_amount",
    "2025-01": "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,"
    "trip_distance,RatecodeID,store_and_fwd_flag,PULocationID,DOLocationID,payment_type,"
    "fare_amount,extra,mta_tax,tip_amount,tolls_amount,improvement_surcharge,total_amount,"
    "congestion_surcharge,Airport_fee,cbd_congestion_fee",
}
COORDINATES = {
    "2009-01": ("TLC 2009", "Trip_Pickup_DateTime", "Start_Lat", "Start_Lon"),
    "2010-01": ("TLC 2010–2014", "pickup_datetime", "pickup_latitude", "pickup_longitude"),
    "2014-01": ("TLC 2010–2014", "pickup_datetime", "pickup_latitude", "pickup_longitude"),
    "2015-01": ("TLC 2015–2016", "tpep_pickup_datetime", "pickup_latitude", "pickup_longitude"),
}
ZONES = ("2016-07", "2025-01")


def header(month: str) -> list[str]:
    return HEADERS[month].split(",")


def refusal(columns: list[str], zones: bool = False, given_schema: Schema | None = None) -> str:
    with pytest.raises(DataError) as caught:
        recognise("a.csv", columns, zones, given_schema)
    assert caught.value.exit_code == 3
    return str(caught.value)


# ----------------------------------------------------------------------------- known headers


@pytest.mark.parametrize("month", COORDINATES)
def test_I8_the_header_of_each_year_with_coordinates_is_known(month: str) -> None:
    name, time, lat, lon = COORDINATES[month]
    schema = recognise("a.csv", header(month), zones=False, mapped=None)
    assert schema == Schema(name, time, lat=lat, lon=lon)
    assert schema.has_coordinates
    assert schema.columns == (time, lat, lon)


@pytest.mark.parametrize("month", ZONES)
def test_I8_the_header_of_each_year_with_zones_is_known(month: str) -> None:
    schema = recognise("a.parquet", header(month), zones=True, mapped=None)
    assert schema == Schema("TLC today", "tpep_pickup_datetime", zone="PULocationID")
    assert not schema.has_coordinates
    assert schema.columns == ("tpep_pickup_datetime", "PULocationID")


def test_I8_the_uber_files_are_known() -> None:
    schema = recognise("a.csv", ["Date/Time", "Lat", "Lon", "Base"], zones=False, mapped=None)
    assert schema == Schema("FiveThirtyEight Uber", "Date/Time", lat="Lat", lon="Lon")


@given(data=st.data())
@pytest.mark.parametrize("month", HEADERS)
def test_I8_permuted_columns_are_accepted(month: str, data: st.DataObject) -> None:
    columns = data.draw(st.permutations(header(month)))
    zones = month in ZONES
    expected = recognise("a.csv", header(month), zones, mapped=None)
    assert recognise("a.csv", columns, zones, mapped=None) == expected


# ---------------------------------------------------------------------------- unknown headers


@pytest.mark.parametrize("field", ["time", "lat", "lon"])
@pytest.mark.parametrize("month", COORDINATES)
def test_I8_a_renamed_column_is_refused_not_guessed(month: str, field: str) -> None:
    name = getattr(recognise("a.csv", header(month), zones=False, mapped=None), field)
    columns = [f"{c}_2" if c.strip() == name else c for c in header(month)]
    assert columns != header(month)
    text = refusal(columns)
    assert text.startswith("a.csv: unknown schema: columns [")
    assert f"{name}_2" in text


@pytest.mark.parametrize("month", COORDINATES)
def test_I8_the_nearest_known_schema_is_named(month: str) -> None:
    name, time, lat, lon = COORDINATES[month]
    text = refusal([c for c in header(month) if c.strip() != lat])
    assert f"; the nearest known is {name} ({time}, {lat}, {lon}); known: TLC 2009: " in text
    assert text.endswith("; others by --columns time=…,lat=…,lon=…")
    for schema in KNOWN:
        assert f"{schema.name}: {', '.join(schema.columns)}" in text


@pytest.mark.parametrize("month", ZONES)
def test_I8_zone_files_without_the_option_are_refused_with_it(month: str) -> None:
    text = refusal(header(month))
    assert "unknown schema: columns [VendorID, tpep_pickup_datetime, " in text
    assert text.endswith(
        "]; zone ids, no coordinates (TLC's Parquet files lost them from 2011 on): use --zones"
    )


@pytest.mark.parametrize("month", COORDINATES)
def test_I8_coordinates_with_the_option_for_zones_are_refused(month: str) -> None:
    text = refusal(header(month), zones=True)
    assert text.endswith("; coordinates, no zone ids: leave --zones out")


def test_I8_a_zone_file_with_a_renamed_column_is_refused_either_way() -> None:
    columns = [c.replace("PULocationID", "PUlocation") for c in header("2025-01")]
    for zones in (True, False):
        text = refusal(columns, zones)
        assert "the nearest known is" in text
        assert "use --zones" not in text


def test_I8_a_file_of_both_is_read_as_asked() -> None:
    columns = [*header("2015-01"), "PULocationID"]
    assert recognise("a.csv", columns, zones=False, mapped=None).name == "TLC 2015–2016"
    assert recognise("a.csv", columns, zones=True, mapped=None).name == "TLC today"


NAMES = sorted({name for schema in KNOWN for name in schema.columns} | {"lat", "pickup", ""})


@given(st.lists(st.sampled_from(NAMES), unique=True), st.booleans())
def test_I8_a_header_is_known_only_if_it_holds_a_whole_schema(
    columns: list[str], zones: bool
) -> None:
    fitting = [
        s.name for s in KNOWN if set(s.columns) <= set(columns) and s.has_coordinates != zones
    ]
    if fitting:
        assert recognise("a.csv", columns, zones, mapped=None).name == fitting[0]
    else:
        assert "unknown schema" in refusal(columns, zones)


def test_a_long_header_is_shown_in_part() -> None:
    text = refusal([f"c{n}" for n in range(100_000)])
    assert "columns [c0, c1, " in text
    assert "c29, …]" in text
    assert len(text) < 1000


# ---------------------------------------------------------------------------------- mappings


def test_I8_a_mapping_makes_any_table_readable() -> None:
    given_schema = parse_columns("time=when, lat = y ,lon=x")
    assert given_schema == Schema("given", "when", lat="y", lon="x")
    found = recognise("a.csv", ["x", " y", "when", "z"], zones=False, mapped=given_schema)
    assert found == given_schema


def test_I8_a_mapping_of_zones_needs_no_coordinates() -> None:
    given_schema = parse_columns("time=when,zone=area")
    assert given_schema == Schema("given", "when", zone="area")
    for zones in (True, False):
        assert recognise("a.csv", ["area", "when"], zones, given_schema) == given_schema


def test_I8_a_mapping_counts_more_than_a_known_header() -> None:
    given_schema = parse_columns(
        "time=dropoff_datetime,lat=dropoff_latitude,lon=dropoff_longitude"
    )
    found = recognise("a.csv", header("2014-01"), zones=False, mapped=given_schema)
    assert found.time == "dropoff_datetime"


def test_I8_a_mapped_column_that_is_lacking_is_named_with_the_nearest() -> None:
    given_schema = parse_columns("time=pickup_time,lat=y,lon=x")
    text = refusal(["x", "y", "pickup_times"], given_schema=given_schema)
    assert text == (
        "a.csv: unknown schema: columns [x, y, pickup_times]; "
        "the mapping needs pickup_time; did you mean 'pickup_times'?"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is not a mapping; give e.g. time=pickup,lat=y,lon=x"),
        ("time", "'time' is not a mapping"),
        ("time=", "'time=' is not a mapping"),
        ("=t", "'=t' is not a mapping"),
        ("time=t,lan=y,lon=x", "'lan=y' is not a mapping; did you mean '"),
        ("time=t", "give time, and either lat and lon, or zone"),
        ("lat=y,lon=x", "give time, and either lat and lon, or zone"),
        ("time=t,lat=y", "give time, and either lat and lon, or zone"),
        ("time=t,zone=z,lat=y", "give time, and either lat and lon, or zone"),
        ("time=t,lat=y,lon=x,zone=z", "give time, and either lat and lon, or zone"),
        ("time=t,lat=y,lon=x,time=u", "time: given twice, as 't' and 'u'"),
        ("time=t,lat=y,lon=x,", "'' is not a mapping"),
    ],
)
def test_I8_a_faulty_mapping_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_columns(text)
    assert f"columns {text!r}: " in str(caught.value)
    assert f"\n  {fault}" in str(caught.value)
    assert caught.value.exit_code == 2


def test_I8_all_faults_of_a_mapping_are_named_at_once() -> None:
    with pytest.raises(ConfigError, match="4 faults") as caught:
        parse_columns("tme=t,latitude=y,x")
    assert "did you mean 'time'?" in str(caught.value)


FIELD = st.sampled_from(["time", "lat", "lon", "zone", "id", ""])
PARTS = st.lists(st.tuples(FIELD, st.text("ab =", max_size=3)), max_size=5)


@given(PARTS)
def test_I8_any_mapping_makes_a_schema_or_an_error_that_explains(
    parts: list[tuple[str, str]],
) -> None:
    text = ",".join(f"{field}={column}" for field, column in parts)
    try:
        schema = parse_columns(text)
    except ConfigError:
        return
    fields = {field for field, _ in parts}
    assert fields in ({"time", "lat", "lon"}, {"time", "zone"})
    assert len(parts) == len(fields) == len(schema.columns)
    assert all(column == column.strip() != "" for column in schema.columns)
