import pyarrow as pa
import pytest

from forecaster.reading.summary_rows import drop_summary_rows, is_summary

DAYS = [f"2023-01-0{day}" for day in range(1, 8)]


def table(*below: tuple[object, ...]) -> pa.Table:
    """Return a week at two shops, and further rows."""
    rows = [(day, shop, n) for n, day in enumerate(DAYS) for shop in ("east", "west")]
    columns = zip(*rows, *below, strict=True)
    return pa.table({n: list(c) for n, c in zip(("day", "shop", "sold"), columns, strict=True)})


@pytest.mark.parametrize(
    "row",
    [
        ("Total", None, 42),
        ("Grand Total", None, 42),
        ("Summe:", "", 42),
        ("Durchschnitt", None, 3),
        (None, "Gesamtergebnis", 42),
        (None, None, 42),  # the sum without a word
        ("Source: cash desks", None, None),
        ("Razem", None, 42),
        ("合計", None, 42),
    ],
)
def test_a_row_below_the_last_time_that_is_no_observation_is_left_out(
    row: tuple[object, ...],
) -> None:
    rows, notes = drop_summary_rows(table(row))
    assert rows.equals(table())
    assert len(notes) == 1
    assert notes[0].startswith("1 row without a time left out: '")


def test_totals_between_the_rows_and_empty_rows_are_left_out() -> None:
    week = table()
    total = pa.table({"day": ["Total east"], "shop": pa.nulls(1, pa.string()), "sold": [21]})
    empty = pa.table({"day": [" "], "shop": [""], "sold": pa.nulls(1, pa.int64())})
    rows, _ = drop_summary_rows(pa.concat_tables([week.slice(0, 5), empty, total, week.slice(5)]))
    assert rows.combine_chunks().equals(week)


def test_an_observation_without_a_time_stays_to_be_refused() -> None:
    for row in ((None, "east", 5), ("2023-13-45", "east", 5)):
        assert drop_summary_rows(table(row)) == (table(row), ())


def test_a_place_named_total_stays() -> None:
    named = table(("2023-01-08", "Total", 42))
    assert drop_summary_rows(named) == (named, ())


def test_names_and_days_of_blocks_are_filled_down() -> None:
    rows = pa.table(
        {
            "shop": ["east", *[None] * 6, "west", *[None] * 6],
            "day": [*DAYS, *DAYS],
            "sold": list(range(14)),
        }
    )
    filled, notes = drop_summary_rows(rows)
    assert filled["shop"].to_pylist() == ["east"] * 7 + ["west"] * 7
    assert notes == ("'shop' filled down",)


def test_a_column_becomes_one_of_numbers_when_its_notes_are_gone() -> None:
    rows = pa.table({"day": [*DAYS, "Source: office"], "sold": [*map(str, range(7)), "traffic"]})
    left, _ = drop_summary_rows(rows)
    assert left["sold"].to_pylist() == list(range(7))


@pytest.mark.parametrize(
    "text", ["Total", "TOTAL", "Leeds Total", "Sub-total", "Summe", "Average"]
)
def test_names_of_totals_are_known(text: str) -> None:
    assert is_summary(text)


@pytest.mark.parametrize(
    "text", ["Totalenergies", "Maxvorstadt", "Summerhill", "Mediapark", "Mina"]
)
def test_names_of_places_are_none_of_totals(text: str) -> None:
    assert not is_summary(text)


def test_a_row_of_sums_beside_which_means_stand_is_left_out() -> None:
    days = [*DAYS, None]
    rows = pa.table(
        {"day": days, "users": [*range(7), 21], "bounce": [*[0.4, 0.5] * 3, 0.4, 0.44]}
    )
    left, notes = drop_summary_rows(rows)
    assert left.equals(rows.slice(0, 7))
    assert notes == ("1 row without a time left out: '21 0.44'",)


def test_notes_below_a_table_with_columns_for_times_are_left_out() -> None:
    months = {f"2023-0{month}": pa.array([month, 2 * month, None, None]) for month in range(1, 8)}
    rows = pa.table({"Linia": ["Linia 3", "Linia 7", "Linia 9", "Źródło: Zakład"], **months})
    left, notes = drop_summary_rows(rows)
    assert left.equals(rows.slice(0, 3))
    assert notes == ("1 note left out: 'Źródło: Zakład'",)
