"""Places renamed, merged and split: their values go on under the new ids, and none is lost."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.errors import DataError
from forecaster.panel.axis import VALUES, SeriesTable
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.panel.tables.renames import (
    Rename,
    add_counts,
    apply_renames,
    divide_counts,
    inherit_opens,
    linked_ids,
    read_renames,
)

NAN = float("nan")
HOUR = 3600


def rows(series: dict[str, list[float]], **layers: dict[str, list[float]]) -> SeriesTable:
    """Hourly rows from 1970 on, one list of values per id."""
    ids = tuple(series)
    steps = len(series[ids[0]])
    matrices = {
        name: np.array([columns[i] for i in ids], dtype=np.float32).T
        for name, columns in {VALUES: series, **layers}.items()
    }
    return SeriesTable(np.arange(steps) * HOUR, False, ids, matrices)


def at(hour: int) -> np.datetime64:
    return np.datetime64(hour * HOUR, "s")


def values_of(table: SeriesTable) -> dict[str, list[float]]:
    return {i: table.layers[VALUES][:, n].tolist() for n, i in enumerate(table.ids)}


def renamed(series: dict[str, list[float]], *renames: Rename, kind: str = "count") -> SeriesTable:
    return apply_renames(rows(series), renames, "count" if kind == "count" else "measurement")


def test_without_renames_the_rows_are_the_same() -> None:
    table = rows({"A": [1, 2]})
    assert apply_renames(table, (), "count") is table


def test_a_renamed_place_goes_on_under_its_new_id() -> None:
    table = renamed({"A": [1, 2, NAN, NAN], "B": [NAN, 0, 3, 4]}, Rename("A", "B", at(2)))
    assert values_of(table) == {"B": [1, 2, 3, 4]}
    assert table.counts == {"renames": 1, "merged_incomplete": 0}


def test_a_new_id_may_have_no_rows_yet() -> None:
    table = renamed({"A": [1, 2, 0], "C": [7, 7, 7]}, Rename("A", "B", at(2)))
    assert table.ids == ("B", "C")
    np.testing.assert_array_equal(table.layers[VALUES][:, 0], [1, 2, NAN])


def test_a_rename_after_the_last_row_is_still_to_come() -> None:
    table = renamed({"A": [1, 2, 3]}, Rename("A", "B", at(3)))
    assert values_of(table) == {"A": [1, 2, 3]}
    assert table.counts["renames"] == 0


def test_merged_counts_are_added() -> None:
    series = {"A": [1, 2, 0], "B": [10, 20, NAN], "C": [0, 0, 33]}
    table = renamed(series, Rename("A", "C", at(2)), Rename("B", "C", at(2)))
    assert values_of(table) == {"C": [11, 22, 33]}


def test_merged_measurements_are_averaged() -> None:
    series = {"A": [1, 2, NAN], "B": [10, NAN, NAN], "C": [NAN, NAN, 5]}
    merge = (Rename("A", "C", at(2)), Rename("B", "C", at(2)))
    assert values_of(renamed(series, *merge, kind="measurement")) == {"C": [5.5, 2, 5]}


def test_a_sum_without_one_of_its_parts_is_missing_and_counted() -> None:
    series = {"A": [1, 2, 3, 0], "B": [10, NAN, 30, 0], "C": [0, 0, 0, 40]}
    table = renamed(series, Rename("A", "C", at(3)), Rename("B", "C", at(3)))
    np.testing.assert_array_equal(table.layers[VALUES][:, 0], [11, NAN, 33, 40])
    assert table.counts["merged_incomplete"] == 1


def test_a_part_that_had_not_opened_adds_nothing() -> None:
    parts = np.array([[1, 2, 3, NAN], [NAN, NAN, 30, NAN]], dtype=np.float32)
    np.testing.assert_array_equal(add_counts(parts), [1, 2, 33, NAN])


def test_a_place_may_be_merged_into_one_that_goes_on() -> None:
    series = {"A": [1, 2, 30], "B": [10, 20, 0]}
    table = renamed(series, Rename("A", "A", at(2)), Rename("B", "A", at(2)))
    assert values_of(table) == {"A": [11, 22, 30]}


def test_the_history_of_a_split_place_is_divided_by_the_sums_after_it() -> None:
    series = {"A": [8, 1, 1, 1, 1, 0], "B": [0, 0, 0, 0, 0, 30], "C": [0, 0, 0, 0, 0, 10]}
    table = renamed(series, Rename("A", "B", at(5)), Rename("A", "C", at(5)))
    divided = values_of(table)
    assert divided["B"][0] == 6
    assert divided["C"][0] == 2
    assert sum(divided["B"][1:5]) == 3  # remainders are carried: three quarters of four ones
    assert [b + c for b, c in zip(divided["B"], divided["C"], strict=True)][:5] == [8, 1, 1, 1, 1]


def test_a_place_may_be_split_off_one_that_goes_on() -> None:
    series = {"A": [8, 4, 5], "B": [NAN, NAN, 5]}
    table = renamed(series, Rename("A", "A", at(2)), Rename("A", "B", at(2)))
    assert values_of(table) == {"A": [4, 2, 5], "B": [4, 2, 5]}


def test_the_parts_of_a_measured_place_inherit_its_values() -> None:
    series = {"A": [8, -4, NAN], "B": [NAN, NAN, 5], "C": [NAN, NAN, 6]}
    split = (Rename("A", "B", at(2)), Rename("A", "C", at(2)))
    table = renamed(series, *split, kind="measurement")
    assert values_of(table) == {"B": [8, -4, 5], "C": [8, -4, 6]}


def test_only_the_first_four_weeks_after_a_split_count() -> None:
    weeks = 28 * 24
    after = [1.0] * weeks + [100.0] * 5
    series = {"A": [4.0, *[0.0] * len(after)], "B": [0.0, *after], "C": [0.0, *[1.0] * len(after)]}
    table = renamed(series, Rename("A", "B", at(1)), Rename("A", "C", at(1)))
    assert table.layers[VALUES][0].tolist() == [2, 2]


def test_chains_are_followed() -> None:
    series = {"A": [1, NAN, NAN], "B": [NAN, 2, NAN], "C": [NAN, NAN, 3]}
    table = renamed(series, Rename("A", "B", at(1)), Rename("B", "C", at(2)))
    assert values_of(table) == {"C": [1, 2, 3]}


def test_ids_may_move_on_by_one_place_at_one_moment() -> None:
    series = {"A": [1, NAN], "B": [2, 10], "C": [NAN, 20]}
    table = renamed(series, Rename("A", "B", at(1)), Rename("B", "C", at(1)))
    assert values_of(table) == {"B": [1, 10], "C": [2, 20]}


def test_covariates_move_with_their_place() -> None:
    series: dict[str, list[float]] = {"A": [1, 2, 0], "B": [3, 4, 0], "C": [0, 0, 9]}
    flag: dict[str, list[float]] = {"A": [0, 1, NAN], "B": [0, 0, NAN], "C": [NAN, NAN, 1]}
    heat: dict[str, list[float]] = {"A": [1, 2, NAN], "B": [3, 4, NAN], "C": [NAN, NAN, 7]}
    merge = (Rename("A", "C", at(2)), Rename("B", "C", at(2)))
    table = apply_renames(rows(series, flag=flag, heat=heat), merge, "count")
    assert table.layers["flag"][:, 0].tolist() == [0, 1, 1]  # any of the two
    assert table.layers["heat"][:, 0].tolist() == [2, 3, 7]


def test_renames_of_places_that_are_not_here_are_left_out() -> None:
    table = renamed({"A": [1, 2]}, Rename("X", "Y", at(1)))
    assert values_of(table) == {"A": [1, 2]}
    assert table.counts["renames"] == 0


def test_values_on_the_wrong_side_are_refused_with_their_number() -> None:
    series = {"A": [1, 2, 5, 0], "B": [0, 7, 3, 4]}
    with pytest.raises(DataError, match=r"renames: 2 faults") as error:
        renamed(series, Rename("A", "B", at(2)))
    assert "A: 1 value after 1970-01-01T02:00:00Z, when it was renamed" in str(error.value)
    assert "B: 1 value before 1970-01-01T02:00:00Z, when it took over" in str(error.value)
    assert "old = new" in str(error.value)


def test_an_old_id_without_rows_is_refused_where_the_new_one_has_some() -> None:
    with pytest.raises(DataError, match="1 old id without a row: AA"):
        renamed({"A": [1, 2], "B": [NAN, 3]}, Rename("AA", "B", at(1)))


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 2000), min_size=1, max_size=50),
    weights=st.lists(st.integers(0, 9), min_size=2, max_size=5),
)
def test_a_division_conserves_every_count(counts: list[int], weights: list[int]) -> None:
    total = sum(weights)
    shares = np.array(weights) / total if total else np.full(len(weights), 1 / len(weights))
    parts = np.array(divide_counts(np.array(counts, dtype=np.float32), shares))
    np.testing.assert_array_equal(parts.sum(axis=0), counts)
    assert (parts >= 0).all()
    assert (parts % 1 == 0).all()
    # Remainders are carried, so each part also has its share of the total.
    assert np.abs(parts.sum(axis=1) - shares * sum(counts)).max() <= len(weights)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_renames_conserve_the_total_of_every_step(data: st.DataObject) -> None:
    steps, moment = 12, data.draw(st.integers(0, 11))
    counts = st.lists(st.integers(0, 500), min_size=steps, max_size=steps)
    old = {name: data.draw(counts) for name in ("A", "B", "C")}
    new = {name: data.draw(counts) for name in ("P", "Q", "R", "S")}
    cut = {n: [*map(float, c[:moment]), *[0.0] * (steps - moment)] for n, c in old.items()}
    cut |= {n: [*[0.0] * moment, *map(float, c[moment:])] for n, c in new.items()}
    rename = [Rename("A", "P", at(moment)), Rename("A", "Q", at(moment))]  # split
    rename += [Rename("B", "R", at(moment)), Rename("C", "R", at(moment))]  # merged
    table = renamed(cut, *rename)
    assert table.ids == ("P", "Q", "R", "S")
    np.testing.assert_array_equal(
        table.layers[VALUES].sum(axis=1), np.array(list(cut.values())).sum(axis=0)
    )


def test_fractions_are_divided_as_they_are() -> None:
    parts = divide_counts(np.array([1.5, NAN, 2], dtype=np.float32), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(parts, [[0.75, NAN, 1], [0.75, NAN, 1]])


# The table.


def test_times_of_the_table_are_local_unless_they_have_an_offset() -> None:
    table = pd.DataFrame({"old": ["A", "B"], "new": ["B", "C"], "from": ["2020-07-01"] * 2})
    assert {r.since for r in read_renames(table, "America/New_York")} == {
        np.datetime64("2020-07-01T04:00", "s")
    }
    table["from"] = "2020-07-01T00:00Z"
    assert read_renames(table, "America/New_York")[0].since == np.datetime64("2020-07-01", "s")


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["A,B,2020-01-01", "B,A,2020-02-01"], "a cycle"),
        (["A,B,2020-01-01", "A,B,2020-01-01"], "1 rename given twice: A → B"),
        (["A,B,2020-01-01", "A,C,2020-02-01"], "A: renamed at several moments"),
        (["A,B,2020-01-01", "A,C,2020-01-01", "D,C,2020-01-01"], "a split and of a merger"),
        (["A,B,"], "without a time in 'from'"),
        (["A,,2020-01-01"], "without an id"),
        (["A,B,tomorrow"], "give e.g. 2014"),
    ],
)
def test_tables_that_cannot_be_meant_are_refused(
    lines: list[str], fault: str, tmp_path: pytest.TempPathFactory
) -> None:
    path = tmp_path / "renames.csv"  # type: ignore[operator]
    path.write_text("\n".join(["old,new,from", *lines]) + "\n")
    with pytest.raises(DataError, match=fault):
        read_renames(path, "UTC")


def test_ids_that_renames_link_belong_together() -> None:
    renames = (Rename("1", "2", at(0)), Rename("3", "2", at(1)), Rename("5", "6", at(1)))
    groups = linked_ids(["1", "2", "3", "4", "5"], renames)
    assert groups[0] == groups[1] == groups[2]
    assert len({*groups}) == 3


def test_a_panel_is_built_with_its_renames() -> None:
    times = pd.date_range("2020-01-01", periods=4, freq="h", tz="UTC")
    early = pd.DataFrame({"unique_id": "A", "ds": times[:2], "y": [1, 2]})
    late = pd.DataFrame({"unique_id": "B", "ds": times[2:], "y": [3, 4]})
    renames = pd.DataFrame({"old": ["A"], "new": ["B"], "from": ["2020-01-01T02:00"]})
    places = pd.DataFrame({"id": ["A", "B"], "lat": [1.0, 2.0], "lon": [0.0, 0.0]})
    events = pd.DataFrame({"unique_id": ["A"] * 2 + ["B"] * 2, "ds": times, "event": [0, 1, 0, 1]})
    panel = Panel.from_long(
        pd.concat([early, late]),
        timezone="UTC",
        locations=places,
        renames=renames,
        local_covariates=events,
    )
    assert panel.locations.ids == ("B",)
    assert panel.locations.lat.tolist() == [2.0]
    assert panel.values[:, 0].tolist() == [1, 2, 3, 4]
    assert panel.local_covariates.values[0, :, 0].tolist() == [0, 1, 0, 1]
    assert panel.counts["renames"] == 1


# Dates.


@pytest.mark.parametrize(
    ("renames", "ends", "begins"),
    [
        ([("12", "112")], ["12"], ["112"]),
        ([("12", "112"), ("7", "112")], ["12", "7"], ["112"]),
        ([("12", "112"), ("12", "113")], ["12"], ["112", "113"]),
        ([("12", "12"), ("12", "113")], [], ["113"]),
    ],
    ids=["renamed", "merged", "split", "split off"],
)
def test_a_table_with_the_dates_of_the_ids_conserves_the_total(
    renames: list[tuple[str, str]], ends: list[str], begins: list[str]
) -> None:
    times = pd.date_range("2021-01-01", periods=24 * 40, freq="h", tz="UTC")
    moment = 24 * 20
    ids = sorted({"7", "12", *ends, *begins})
    lives = {
        i: times[:moment] if i in ends else times[moment:] if i in begins else times for i in ids
    }
    table = pd.concat(
        pd.DataFrame({"unique_id": i, "ds": life, "y": 5.0}) for i, life in lives.items()
    )
    day = "2021-01-21"
    dates = {
        "opens": [day if i in begins else None for i in ids],
        "closes": [day if i in ends else None for i in ids],
    }
    panel = Panel.from_long(
        table,
        timezone="UTC",
        locations=pd.DataFrame({"id": ids, **dates}),
        renames=pd.DataFrame([(*pair, day) for pair in renames], columns=["old", "new", "from"]),
    )
    assert np.nansum(panel.values) == table["y"].sum()
    assert panel.counts.get("values_outside_life", 0) == 0


def opens_of(dates: dict[str, int | None], *renames: Rename) -> dict[str, float]:
    """The hours at which places open, after the renames of the first 100 hours; NaN: unknown."""
    opens = [np.datetime64("NaT", "s") if hour is None else at(hour) for hour in dates.values()]
    places = Locations.of_ids(dates)
    places = Locations(places.ids, places.names, places.lat, places.lon, opens=np.array(opens))
    inherited = inherit_opens(places, renames, 100 * HOUR)
    hours = (inherited.opens - np.datetime64(0, "s")) / np.timedelta64(1, "h")
    return dict(zip(inherited.ids, hours.tolist(), strict=True))


def test_a_successor_opens_when_the_first_of_its_predecessors_did() -> None:
    merger = Rename("A", "C", at(50)), Rename("B", "C", at(50))
    assert opens_of({"A": 3, "B": 2, "C": 50}, *merger)["C"] == 2
    assert np.isnan(opens_of({"A": 3, "B": None, "C": 50}, *merger)["C"])
    assert np.isnan(opens_of({"A": 3, "C": 50}, *merger)["C"])  # nothing is known of B
    later = Rename("C", "D", at(70))
    assert opens_of({"A": 3, "B": 2, "C": 50, "D": 70}, *merger, later)["D"] == 2
    to_come = Rename("A", "B", at(101))
    assert opens_of({"A": 3, "B": 50}, to_come) == {"A": 3, "B": 50}


def test_ids_that_move_on_at_one_moment_inherit_what_was_before_it() -> None:
    moves = Rename("A", "B", at(50)), Rename("B", "C", at(50))
    assert opens_of({"A": 3, "B": 2, "C": 50}, *moves) == {"A": 3, "B": 3, "C": 2}
