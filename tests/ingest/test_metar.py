import pyarrow as pa
import pytest

from forecaster.errors import Faults
from forecaster.ingest.metar import FLAGS, decode_flags


def decode(*texts: str | None) -> list[set[str]]:
    """Return the flags that are set in each row, refusing faults."""
    faults = Faults("table")
    rows = decode_flags(pa.chunked_array([pa.array(texts, pa.string())]), "wx", faults)
    assert not faults.messages
    return [{flag for flag, value in zip(FLAGS, row, strict=True) if value} for row in rows]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("RA", {"rain"}),
        ("-DZ", {"rain"}),
        ("+TSRA", {"rain"}),
        ("FZRA", {"rain"}),
        ("-SN", {"snow"}),
        ("SHSN", {"snow"}),
        ("SG", {"snow"}),
        ("PL", {"snow"}),
        ("RASN", {"rain", "snow"}),
        ("FG", {"fog"}),
        ("FZFG", {"fog"}),
        ("-RA FG", {"rain", "fog"}),
        ("-RA:02 BR:1 |FG:30 |RA:61", {"rain", "fog"}),  # as NOAA's tables write them
        ("BR", set()),
        ("HZ", set()),
        ("TS GR UP", set()),
    ],
)
def test_each_code_says_what_fell_or_hung_in_the_air(text: str, flags: set[str]) -> None:
    assert decode(text) == [flags]


@pytest.mark.parametrize("text", ["VCSH", "VCFG", "RERA", "MIFG", "BCFG", "PRFG", "BLSN", "DRSN"])
def test_what_is_not_in_the_air_over_the_station_counts_for_nothing(text: str) -> None:
    assert decode(text, f"{text} SN") == [set(), {"snow"}]


def test_a_row_without_a_code_had_none() -> None:
    assert decode(None, "RA", "", "RA", " ") == [set(), {"rain"}, set(), {"rain"}, set()]


def test_an_empty_column_has_none() -> None:
    rows = decode_flags(pa.chunked_array([pa.nulls(3)]), "wx", Faults("table"))
    assert rows.tolist() == [[0.0] * 3] * 3


@pytest.mark.parametrize("text", ["Light Rain", "RAX", "XX", "ra", "//", "61"])
def test_other_texts_are_refused_by_name(text: str) -> None:
    faults = Faults("table")
    decode_flags(pa.chunked_array([pa.array(["RA", text])]), "wx", faults)
    assert faults.messages == [
        f"column 'wx': 1 text without METAR-style codes: {text!r}; "
        "valid are e.g. -RA, +TSRA BR, FG, or null for none"
    ]
