"""An origin sees the latest values of covariates that were known when its step ended."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecaster.clock.clock import Clock
from forecaster.errors import ArtifactError, DataError
from forecaster.panel.fill import fill_missing, fit_fill
from forecaster.panel.panel import Panel
from forecaster.panel.vintages import Vintages, first_origins, sort_vintages
from forecaster.publish.manifest import read_manifest
from tests.panel.tables.test_assemble import IDS, STEPS, TIMES, long_table

HOUR = pd.Timedelta(hours=1)
UNKNOWN = float("nan")


def issues(*rows: tuple[int, float, float | None]) -> pd.DataFrame:
    """Return covariates by step, hour at which they were known, and value."""
    return pd.DataFrame(
        {
            "ds": [TIMES[step] for step, _, _ in rows],
            "known_at": [TIMES[0] + hour * HOUR for _, hour, _ in rows],
            "wind": pd.array([wind for _, _, wind in rows], dtype="Float64"),
        }
    )


def build(covariates: pd.DataFrame, **settings: Any) -> Panel:
    return Panel.from_long(long_table(), timezone="UTC", covariates=covariates, **settings)


def vintages_of(panel: Panel) -> Vintages:
    assert panel.covariates.vintages is not None
    return panel.covariates.vintages


def seen(panel: Panel, origin: int, step: int) -> float:
    return float(vintages_of(panel).seen(np.array([origin]), np.array([step]))[0, 0])


def test_an_origin_sees_the_latest_value_known_when_its_step_ended() -> None:
    panel = build(issues((5, 2.0, 10.0), (5, 4.0, 11.0), (5, 4.5, 12.0), (5, 9.0, 13.0)))
    # The step 1 ends at hour 2, and the step 4 at hour 5.
    assert [seen(panel, origin, 5) for origin in (1, 2, 3, 4, 5, 8)] == [10, 10, 11, 12, 12, 13]
    assert np.isnan(seen(panel, 0, 5))
    assert np.isnan(seen(panel, 5, 4))


def test_the_covariate_of_a_step_is_what_was_known_when_it_ended() -> None:
    panel = build(issues((3, 4.0, 10.0), (3, 4.25, 11.0), (4, 6.0, 12.0)))
    assert panel.covariates.values[3] == 10.0
    assert np.isnan(panel.covariates.values[4]).all()  # known an hour after its end


def test_a_value_that_a_vintage_leaves_open_is_that_of_the_vintage_before() -> None:
    table = issues((5, 1.0, 10.0), (5, 2.0, None)).assign(rain=pd.array([None, 3.0], "Float64"))
    panel = build(table)
    assert vintages_of(panel).names == ("rain", "wind")
    both = vintages_of(panel).seen(np.array([0, 1]), np.array([5, 5]))
    assert np.array_equal(both, [[np.nan, 10], [3, 10]], equal_nan=True)


def test_rows_of_one_step_may_come_in_any_order() -> None:
    table = issues((5, 2.0, 10.0), (5, 4.0, 11.0), (2, 1.0, 7.0), (5, 4.5, 12.0))
    first, second = (vintages_of(build(t)) for t in (table, table[::-1]))
    assert np.array_equal(first.keys, second.keys)
    assert np.array_equal(first.values, second.values)


def test_a_local_time_known_twice_is_the_later() -> None:
    table = pd.DataFrame(
        {"ds": ["2015-11-01T03:00"], "known_at": ["2015-11-01T01:30"], "wind": [1.0]}
    )
    times = pd.date_range(
        "2015-11-01T04:00", periods=9, freq="h", tz="UTC"
    )  # midnight in New York
    values = pd.DataFrame({"unique_id": "a", "ds": times, "y": 1.0})
    panel = Panel.from_long(values, timezone="America/New_York", covariates=table)
    assert vintages_of(panel).known.tolist() == [2]  # 06:30Z, in the step from 06:00Z on
    assert vintages_of(panel).steps.tolist() == [4]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(5, 2.0, 1.0), (5, 2.0, 3.0)], "1 row of a time and a known_at given before: row 2"),
    ],
)
def test_two_values_known_at_the_same_moment_are_refused(
    rows: list[tuple[int, float, float]], told: str
) -> None:
    with pytest.raises(DataError, match=told):
        build(issues(*rows))


def test_a_row_without_the_time_at_which_it_was_known_is_refused() -> None:
    table = issues((5, 2.0, 1.0), (5, 3.0, 3.0))
    table.loc[1, "known_at"] = pd.NaT
    with pytest.raises(DataError, match="column 'known_at': 1 row without a time: row 2"):
        build(table)


def test_vintages_of_local_covariates_are_refused() -> None:
    table = pd.DataFrame({"unique_id": IDS, "ds": TIMES[0], "known_at": TIMES[0], "rain": 1.0})
    with pytest.raises(DataError, match="only covariates shared by all locations have vintages"):
        Panel.from_long(long_table(), timezone="UTC", local_covariates=table)


def test_a_saved_panel_has_the_same_vintages(tmp_path: Path) -> None:
    table = issues((0, -1e6, 9.0), (5, 2.0, 10.0), (5, 4.5, 12.0), (STEPS + 3, 4.0, 7.0))
    panel = build(table)
    panel.save(tmp_path / "panel")
    again = Panel.open(tmp_path / "panel")
    for name in ("names", "steps", "known", "values"):
        first, second = (getattr(vintages_of(p), name) for p in (panel, again))
        assert np.array_equal(first, second), name
    assert np.array_equal(panel.covariates.values, again.covariates.values, equal_nan=True)


def test_a_panel_without_vintages_has_no_file_of_them(tmp_path: Path) -> None:
    build(issues((5, 2.0, 10.0)).drop(columns="known_at")).save(tmp_path / "panel")
    manifest = read_manifest(tmp_path / "panel", kind="panel")
    assert "vintages" not in manifest.about
    assert "vintages.parquet" not in manifest.files


def test_a_file_of_vintages_that_does_not_fit_its_panel_is_refused(tmp_path: Path) -> None:
    panel = build(issues((5, 2.0, 10.0), (6, 2.0, 10.0)))
    vintages = vintages_of(panel)
    swapped = Vintages(
        vintages.names, vintages.steps[::-1], vintages.known[::-1], vintages.values[::-1]
    )
    shared = panel.covariates
    object.__setattr__(shared, "vintages", swapped)
    panel.save(tmp_path / "panel")
    with pytest.raises(ArtifactError, match="not in the order of known_at"):
        Panel.open(tmp_path / "panel")


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_is_seen_is_what_a_search_of_all_rows_finds(data: st.DataObject) -> None:
    cell = st.tuples(st.integers(0, 6), st.integers(-9, 9), st.none() | st.integers(0, 99))
    rows = data.draw(st.lists(cell, max_size=30))
    steps, known = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    values = np.array([[UNKNOWN if v is None else v] for _, _, v in rows], dtype=np.float32)
    vintages = sort_vintages(("wind",), steps, known, values.reshape(-1, 1))
    first = data.draw(st.integers(-3, 4))
    part = vintages.between(first, 5)
    for step in range(7):
        for origin in range(-10, 11):
            expected = UNKNOWN
            for row in sorted(rows, key=lambda row: row[1]):
                if row[0] == step and row[1] <= origin and row[2] is not None:
                    expected = float(row[2])
            got = vintages.seen(np.array([origin]), np.array([step]))[0, 0]
            assert np.array_equal(got, expected, equal_nan=True)
            cut = part.seen(np.array([origin - first]), np.array([step - first]))[0, 0]
            inside = expected if first <= step < 5 else UNKNOWN
            assert np.array_equal(cut, inside, equal_nan=True)


def test_steps_that_are_hidden_hide_their_vintages() -> None:
    panel = build(issues((2, 1.0, 10.0), (5, 2.0, 11.0), (STEPS + 2, 2.0, 12.0)))
    hidden = np.zeros(STEPS, dtype=bool)
    hidden[5] = True
    shown = panel.hide_steps(hidden)
    assert vintages_of(shown).steps.tolist() == [2, STEPS + 2]


def test_a_filled_panel_knows_a_usual_value_before_any_vintage() -> None:
    panel = build(issues((2, 1.0, 10.0), (5, 4.0, 11.0)))
    filled = fill_missing(panel, fit_fill(panel, np.ones(STEPS, dtype=bool)))
    assert seen(filled, 4, 5) == 11.0
    assert seen(filled, 1, 4) == pytest.approx(10.5)  # the mean of what steps 2 and 5 ended with


def test_months_are_known_when_they_end() -> None:
    clock, start = Clock("UTC", step_months=1), np.datetime64("2020-01-01", "s")
    instants = np.array(["2020-02-01", "2020-02-02", "2020-03-01"], dtype="datetime64[s]")
    assert first_origins(clock, start, instants).tolist() == [0, 1, 1]
