from forecaster.errors import Faults
from forecaster.reading.mapping import parse_pairs, quote_name

FIELDS = ("time", "lat", "lon")


def test_pairs_are_read_in_any_order_with_any_spaces() -> None:
    faults = Faults("x")
    found = parse_pairs(" lon = x , time=when,lat=y", FIELDS, "time=t", faults)
    assert found == {"lon": "x", "time": "when", "lat": "y"}
    assert faults.messages == []


def test_A7_every_part_that_is_no_mapping_is_named() -> None:
    faults = Faults("x")
    parse_pairs("tim=when,lat,lon=,time=a,time=b", FIELDS, "time=t", faults)
    assert faults.messages == [
        "'tim=when' is not a mapping; did you mean 'time'?; give e.g. time=t",
        "'lat' is not a mapping; give e.g. time=t",
        "'lon=' is not a mapping; give e.g. time=t",
        "time: given twice, as 'a' and 'b'",
    ]


def test_a_column_with_a_comma_in_its_name_stands_in_quotes() -> None:
    name = quote_name("Flow, m3/h")
    assert (name, quote_name("flow")) == ('"Flow, m3/h"', "flow")
    faults = Faults("columns")
    assert parse_pairs(f"time=when,value={name}", ("time", "value"), "time=when", faults) == {
        "time": "when",
        "value": "Flow, m3/h",
    }
    assert not faults.messages
