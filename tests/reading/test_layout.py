"""Which columns are times, locations and values, where several could be meant."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.errors import DataError, naming_options
from forecaster.reading.layout import EVENTS, guess_layout, meaning_of

DAYS = [f"{day:%Y-%m-%d}" for day in pd.date_range("2023-03-01", periods=29)]
ROWS = 2 * len(DAYS)


def table(columns: Mapping[str, object] | None = None, **more: object) -> pa.Table:
    """Return daily rows of two shops, with further columns of numbers."""
    rows: dict[str, object] = {"day": [*DAYS, *DAYS], "shop": ["a"] * 29 + ["b"] * 29}
    return pa.table({**rows, **(columns or {}), **more})


def varying(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(5, 90, ROWS)


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (["PM10", "NO2"], "PM10"),
        (["price", "Umsatz in Euro", "rabatt"], "Umsatz in Euro"),
        (["temp", "ventas_netas"], "ventas_netas"),
        (["orders_total", "orders"], "orders"),
        (["Offered", "Abandoned", "AHT (s)"], "Offered"),
        (["occupancy %", "beds"], "beds"),
        (["gauge", "sales"], "sales"),
    ],
)
def test_the_most_plausible_column_of_values_is_taken(names: Sequence[str], value: str) -> None:
    layout = guess_layout(table({n: varying(i) for i, n in enumerate(names)}), "table")
    assert (layout.id, layout.value) == ("shop", value)
    assert {*layout.further} == {*names} - {value}


def test_columns_that_hardly_vary_are_no_values() -> None:
    layout = guess_layout(table(flags=varying() % 2, same=[7] * ROWS, gauge=varying(1)), "table")
    assert layout.value == "gauge"


def test_another_column_that_could_be_the_values_is_told_with_its_option() -> None:
    with naming_options():
        layout = guess_layout(table({"PM10": varying(), "NO 2": varying(1)}), "table")
    assert layout.notes == (
        "values taken from 'PM10'; for those of 'NO 2' give --columns "
        "'time=day,id=shop,value=NO 2'",
    )
    assert guess_layout(table(count=varying(), temp=varying(1)), "table").notes == ()


@pytest.mark.parametrize("pair", [("inflow", "outflow"), ("People In", "People Out")])
def test_opposites_are_asked_about_with_both_options(pair: tuple[str, str]) -> None:
    with pytest.raises(DataError) as caught, naming_options():
        guess_layout(table({name: varying(n) for n, name in enumerate(pair)}), "table")
    assert f"'{pair[0]}', '{pair[1]}' may be the values: give --columns " in str(caught.value)
    assert f"value={pair[1]}" in str(caught.value)


def test_a_column_that_differs_in_every_row_is_no_id() -> None:
    numbers = table({"id": range(ROWS), "receipt": [f"T{n}" for n in range(ROWS)]}, sold=varying())
    layout = guess_layout(numbers, "table")
    assert (layout.id, layout.value, layout.ignored) == ("shop", "sold", ("id", "receipt"))


def test_numbers_of_stores_are_ids_together_with_what_they_sell() -> None:
    rows = pa.table(
        {
            "date": sorted(DAYS * 4),
            "store_nbr": [1, 1, 2, 2] * 29,
            "family": ["eggs", "milk"] * 58,
            "sales": range(116),
        }
    )
    assert guess_layout(rows, "table").id == "store_nbr+family"


def one_series(*names: str) -> pa.Table:
    columns = {name: varying(n)[:29] for n, name in enumerate(names)}
    return pa.table({"day": DAYS, **columns})


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("Temperature (°C)", "Humidity (%)"), "Temperature (°C)"),
        (("gauge [m3/h]", "level [m]", "other level [m]"), "gauge [m3/h]"),
        (("Global_active_power", "Voltage"), "Global_active_power"),
        (("Registrations", "Change"), "Registrations"),
        (("Guests", "Revenue"), "Guests"),
        (("Orders", "Gross sales", "Discounts"), "Orders"),
    ],
)
def test_several_measures_of_one_place_are_one_series(names: Sequence[str], value: str) -> None:
    layout = guess_layout(one_series(*names), "table")
    assert (layout.id, layout.value) == (None, value)
    assert {*layout.further} == {*names} - {value}
    assert 'if each column is a location give columns="time=day"' in layout.notes[0]


@pytest.mark.parametrize(
    "names",
    [
        ("North", "South"),
        ("Ventas Madrid", "Ventas Sevilla"),
        ("inflow", "outflow"),
        ("entries", "exits"),
        ("T_in [°C]", "T_out [°C]"),
        ("Forecast Total Load [MW]", "Actual Total Load [MW]"),
        ("Lunch covers", "Dinner covers", "Total covers"),
    ],
)
def test_columns_of_one_kind_are_locations(names: Sequence[str]) -> None:
    layout = guess_layout(one_series(*names), "table")
    assert (layout.id, layout.value, layout.notes) == (None, None, ())


def test_of_several_dates_the_earliest_is_the_time() -> None:
    later = [f"{pd.Timestamp(day) + pd.Timedelta(days=3):%m/%d/%Y}" for day in DAYS]
    rows = pa.table({"Ship Date": later, "Order Date": DAYS, "Quantity": range(29)})
    assert guess_layout(rows, "table").time == "Order Date"


def test_whole_numbers_named_as_times_are_times() -> None:
    rows = pa.table({"ts_us": [1_677_628_800_000_000 + 600_000_000 * n for n in range(9)],
                     "cpu": range(9)})  # fmt: skip
    assert guess_layout(rows, "table").time == "ts_us"


def test_rows_without_a_column_of_values_are_events_of_their_places() -> None:
    rows = pa.table(
        {
            "ticket_id": range(58),
            "created_at": [f"{DAYS[n // 2]} 0{n % 7}:41:07" for n in range(58)],
            "queue": ["network", "printer"] * 29,
        }
    )
    layout = guess_layout(rows, "table")
    assert (layout.time, layout.id, layout.value) == ("created_at", "queue", EVENTS)
    assert layout.mapping() == "time=created_at,id=queue"


@pytest.mark.parametrize(
    ("column", "meaning"),
    [
        ("Net sales", "additive"),
        ("kWh", "additive"),
        ("Qty", "additive"),
        ("temp_c", "intensive"),
        ("Occupancy %", "intensive"),
        ("power_kw", "intensive"),
        ("value", "unknown"),
        ("x17", "unknown"),
    ],
)
def test_names_tell_whether_values_add_up(column: str, meaning: str) -> None:
    assert meaning_of(column) == meaning


def test_a_number_that_each_location_keeps_is_not_its_value() -> None:
    rows = table({"capacity": [520] * 29 + [180] * 29, "free": varying()})
    layout = guess_layout(rows, "table")
    assert (layout.id, layout.value, layout.notes) == ("shop", "free", ())
    assert layout.further == ("capacity",)


@pytest.mark.parametrize("texts", [("NO", "SI"), ("OK", "Error"), ("j", "n")])
def test_a_column_that_says_yes_or_no_is_no_id(texts: tuple[str, str]) -> None:
    days = [*DAYS, *DAYS[:3]]  # rows written twice
    flags = [texts[n % 7 == 0] for n in range(29)]
    rows = pa.table({"day": days, "flow": range(32), "Allarme": [*flags, *flags[1:4]]})
    layout = guess_layout(rows, "table")
    assert (layout.id, layout.value, layout.ignored) == (None, "flow", ("Allarme",))


def test_spans_of_the_day_beside_dates_of_a_workbook_are_times() -> None:
    spans = ["08:00 - 08:30", "08:30 - 09:00"]
    rows = pa.table(
        {
            "Date": [f"{day} 00:00:00" for day in DAYS for _ in range(4)],
            "Interval": spans * 58,
            "Queue": ["Billing", "Billing", "Support", "Support"] * 29,
            "Offered": range(116),
        }
    )
    layout = guess_layout(rows, "table")
    assert (layout.time, layout.id, layout.value) == ("Date+Interval", "Queue", "Offered")


def test_of_events_the_column_named_as_places_is_the_id() -> None:
    rows = pa.table(
        {
            "event_id": range(58),
            "scanned_at": [f"{DAYS[n // 2]} 06:41:07" for n in range(58)],
            "gate": ["G1", "G1", "G2", "G2"] * 14 + ["G1"] * 2,
            "result": ["granted", "denied", "unknown", "granted"] * 14 + ["denied"] * 2,
            "ticket_type": ["season", "group", "day"] * 19 + ["day"],
        }
    )
    layout = guess_layout(pa.concat_tables([rows, rows]), "table")
    assert (layout.time, layout.id, layout.value) == ("scanned_at", "gate", EVENTS)


def test_beside_values_named_so_another_named_so_is_offered() -> None:
    layout = guess_layout(table({"Qty": varying(), "Amount": varying(1), "temp": varying(2)}), "t")
    told = "values taken from 'Qty'; for those of 'Amount' give"
    assert (layout.value, len(layout.notes)) == ("Qty", 1)
    assert layout.notes[0].startswith(told)
