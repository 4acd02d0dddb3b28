import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.reading.layout import TableLayout, guess_layout
from forecaster.reading.reshape import join_columns, unpivot

DAYS = pd.date_range("2023-03-01", periods=5).strftime("%Y-%m-%d")


def across(names: list[str], step: str = "date") -> pa.Table:
    """Return a table with a row for each day, and so many columns of numbers."""
    values = np.arange(len(DAYS) * len(names)).reshape(len(DAYS), len(names))
    frame = pd.DataFrame(values, columns=names)
    frame.insert(0, step, DAYS)
    return pa.Table.from_pandas(frame, preserve_index=False)


HOURS_ACROSS = {
    "clocks": [f"{hour}:00" for hour in range(24)],
    "ends of hours": [f"{hour:02d}:00" for hour in range(1, 25)],
    "hours from one": [f"H{hour}" for hour in range(1, 25)],
    "hours from zero": [f"hour_{hour:02d}" for hour in range(24)],
    "hours with a letter": [f"{hour}h" for hour in range(24)],
    "plain hours": [f"{hour:02d}" for hour in range(24)],
    "spans": [f"{hour:02d}:00-{hour + 1:02d}:00" for hour in range(24)],
}


@pytest.mark.parametrize("names", HOURS_ACROSS.values(), ids=HOURS_ACROSS)
def test_the_hours_of_a_day_across_become_rows(names: list[str]) -> None:
    table = unpivot(across(names))
    layout = guess_layout(table, "table")
    assert layout == TableLayout("date+clock", None, "value")
    joined = join_columns(table, layout).to_pandas().set_index("date+clock")["value"]
    assert joined["2023-03-01T00:00"] == 0
    assert joined["2023-03-05T23:00"] == len(joined) - 1 == 5 * 24 - 1


@pytest.mark.parametrize("count", [48, 96])
def test_parts_of_hours_across_become_rows(count: int) -> None:
    table = unpivot(across([f"h{number}" for number in range(1, count + 1)]))
    assert table["clock"][-1].as_py() == {48: "23:30", 96: "23:45"}[count]


@pytest.mark.parametrize(
    "names",
    [
        [str(number) for number in range(1, 25)],
        [f"zone {number}" for number in range(24)],
        [f"H{number}" for number in range(23)],
        [f"{hour:02d}:00" for hour in range(12)],
    ],
)
def test_locations_with_numbers_stay_columns(names: list[str]) -> None:
    table = across(names)
    assert unpivot(table) is table


def test_columns_numbered_as_hours_beside_times_of_day_stay_columns() -> None:
    table = across([f"h{number}" for number in range(1, 25)]).drop_columns("date")
    times = pa.array(pd.date_range("2023-03-01", periods=5, freq="h"))
    assert unpivot(table.append_column("time", times)).num_rows == 5


@pytest.mark.parametrize(
    "words",
    [
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
        "janv févr mars avr mai juin juil août sept oct nov déc",
    ],
)
def test_the_months_of_a_year_across_become_rows(words: str) -> None:
    frame = pd.DataFrame(np.arange(24.0).reshape(2, 12), columns=words.split())
    frame.insert(0, "Year", [2001, 2002])
    table = unpivot(pa.Table.from_pandas(frame, preserve_index=False))
    layout = guess_layout(table, "table")
    assert layout == TableLayout("Year+month", None, "value")
    joined = join_columns(table, layout).to_pandas().set_index("Year+month")["value"]
    assert joined["2002-03"] == 14.0


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        (
            {"year": [2013, 2013], "month": [3, 3], "day": [1, 1], "hour": [0, 21]},
            "2013-03-01T00:00",
        ),
        ({"Jahr": [2013, 2013], "Monat": ["März", "April"]}, "März 2013"),
        ({"Year": [2013, 2013], "Month": ["Mar", "Mar"], "Day": [1, 2]}, "1 Mar 2013"),
        ({"Year": [2013, 2013], "Month": [3, 4]}, "2013-03"),
    ],
)
def test_years_months_days_and_hours_in_columns_are_one_time(
    columns: dict[str, list[object]], first: str
) -> None:
    table = pa.table({**columns, "pm2.5": [1.5, 2.5]})
    layout = guess_layout(table, "table")
    assert layout.time == "+".join(columns)
    assert join_columns(table, layout)[layout.time][0].as_py() == first


@pytest.mark.parametrize(("periods", "clock"), [(48, "23:30"), (96, "23:45")])
def test_numbered_periods_of_a_day_are_clocks(periods: int, clock: str) -> None:
    numbers = [*range(1, periods + 1)]
    table = pa.table(
        {"DATE": ["01-JAN-2023"] * periods, "SETTLEMENT_PERIOD": numbers, "ND": numbers}
    )
    layout = guess_layout(table, "table")
    assert layout.time == "DATE+SETTLEMENT_PERIOD"
    assert join_columns(table, layout)[layout.time][-1].as_py() == f"01-JAN-2023T{clock}"


def test_places_of_a_header_of_two_rows_become_rows_with_their_measures() -> None:
    table = across(
        [f"{place} › {measure}" for place in ("N", "S") for measure in ("cars", "temp")]
    )
    rows = unpivot(table)
    assert rows.column_names == ["date", "location", "cars", "temp"]
    assert rows["location"].to_pylist() == ["N"] * 5 + ["S"] * 5
    assert rows["temp"].to_pylist() == [1, 5, 9, 13, 17, 3, 7, 11, 15, 19]
    uneven = table.drop_columns(["S › temp"])
    assert unpivot(uneven) is uneven


def test_days_of_any_width_across_become_rows() -> None:
    table = pa.table({"place": ["a", "b"], "12/31/22": [1, 2], "1/1/23": [3, 4], "1/2/23": [5, 6]})
    assert unpivot(table)["time"].to_pylist() == ["12/31/22"] * 2 + ["1/1/23"] * 2 + ["1/2/23"] * 2


def test_numbers_and_texts_across_are_numbers_with_their_flags_left_out() -> None:
    table = pa.table({"geo": ["AT"], "2020": ["12 p"], "2021": [13], "2022": ["14 "]})
    assert unpivot(table)["value"].to_pylist() == [12, 13, 14]


@pytest.mark.parametrize(
    ("name", "cells", "expected"),
    [
        ("Quarter", ["Q1", "Q4"], ["2022-Q1", "2023-Q4"]),
        ("Quartal", [1, 4], ["2022-Q1", "2023-Q4"]),
        ("KW", [5, 52], ["2022-W05", "2023-W52"]),
    ],
)
def test_quarters_and_weeks_beside_years_are_times(
    name: str, cells: list[object], expected: list[str]
) -> None:
    table = pa.table({"Fiscal Year": [2022, 2023], name: cells, "value": [1, 2]})
    layout = guess_layout(table, "table")
    assert join_columns(table, layout)[layout.time].to_pylist() == expected


def test_the_first_clock_of_a_span_is_its_time() -> None:
    table = pa.table(
        {"Date": ["01.02.2023"] * 2, "Interval": ["08:00-08:30", "15:30 – 16:00"], "calls": [1, 2]}
    )
    layout = guess_layout(table, "table")
    joined = join_columns(table, layout)[layout.time].to_pylist()
    assert joined == ["01.02.2023T08:00", "01.02.2023T15:30"]


def test_a_part_of_an_id_that_is_empty_is_left_out() -> None:
    table = pa.table({"time": ["2023"], "state": ["Hubei"], "country": ["China"], "value": [1]})
    table = pa.concat_tables([table, table.set_column(1, "state", pa.array([None], pa.string()))])
    layout = TableLayout("time", "state+country", "value")
    assert join_columns(table, layout)[layout.id].to_pylist() == ["Hubei / China", "China"]
