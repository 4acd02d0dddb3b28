"""Values outside a location's life, and censored ones, are missing and counted."""

import numpy as np
import pandas as pd
import pytest

from forecaster.clock.clock import Clock
from forecaster.errors import DataError
from forecaster.panel.observed import absent_as_zero, hide_censored, hide_outside_life
from forecaster.panel.panel import Panel

NAN = float("nan")


def table(**columns: object) -> pd.DataFrame:
    times = pd.date_range("2020-01-01", periods=5, freq="h", tz="UTC")
    frame = {"unique_id": ["a"] * 5 + ["b"] * 5, "ds": [*times, *times], "y": [*range(1, 11)]}
    return pd.DataFrame({**frame, **columns})


def test_values_outside_a_life_are_hidden_and_counted() -> None:
    values = np.array([[1, 2], [3, NAN], [5, 6]], dtype=np.float32)
    alive = np.array([[True, False], [True, False], [False, True]])
    shown, counts = hide_outside_life(values, alive)
    np.testing.assert_array_equal(shown, [[1, NAN], [3, NAN], [NAN, 6]])
    assert counts == {"values_outside_life": 2, "sum_outside_life": 7.0}
    assert values[0, 1] == 2  # the input is not changed


def test_a_panel_of_dated_locations_has_no_values_outside_their_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    places = pd.DataFrame(
        {"id": ["a", "b"], "opens": [None, "2020-01-01T02:00"], "closes": ["2020-01-01T03:00", ""]}
    ).replace({"": None})
    panel = Panel.from_long(table(), timezone="UTC", locations=places)
    np.testing.assert_array_equal(panel.values, [[1, NAN], [2, NAN], [3, 8], [NAN, 9], [NAN, 10]])
    assert panel.counts["values_outside_life"] == 4
    assert panel.counts["sum_outside_life"] == 4 + 5 + 6 + 7
    assert "4 values outside the lives of their locations left out, together 22" in caplog.text


def test_a_panel_tells_which_locations_are_open_also_after_its_end() -> None:
    places = pd.DataFrame({"id": ["a", "b"], "closes": ["2020-01-01T06:00+00:00", None]})
    panel = Panel.from_long(table(), timezone="UTC", locations=places)
    alive = panel.alive(4, 8)
    np.testing.assert_array_equal(alive[:, 0], [True, True, False, False])
    assert alive[:, 1].all()
    assert panel.steps(2, 5).alive(2, 6).tolist() == alive.tolist()  # moved with its start


def test_without_dates_all_locations_are_open() -> None:
    panel = Panel.from_long(table(), timezone="UTC")
    assert panel.alive(0, 9).shape == (9, 2)
    assert panel.alive(0, 9).all()
    assert panel.within_lives() is panel


def test_a_date_is_the_beginning_of_its_local_day() -> None:
    places = pd.DataFrame({"id": ["a", "b"], "opens": ["2020-01-01", "2019-12-31"]})
    panel = Panel.from_long(table(), timezone="America/New_York", locations=places)
    assert panel.locations.opens[0] == np.datetime64("2020-01-01T05:00", "s")
    assert np.isnan(panel.values[:, 0]).all()
    assert not np.isnan(panel.values[:, 1]).any()


def test_censored_values_are_hidden_and_the_covariate_is_no_input() -> None:
    flags = [0, 1, 0, 0, None, 0, 0, 0, 1, 1]
    panel = Panel.from_long(table(sold_out=flags, heat=7), timezone="UTC", censored="sold_out")
    np.testing.assert_array_equal(panel.values, [[1, 6], [NAN, 7], [3, 8], [4, NAN], [5, NAN]])
    assert panel.local_covariates.names == ("heat",)
    assert panel.censored_by == "sold_out"
    assert panel.counts["censored_values"] == 3


def test_a_flag_may_be_a_column_of_truth_values() -> None:
    flags = [False, True] * 5
    panel = Panel.from_long(table(sold_out=flags), timezone="UTC", censored="sold_out")
    assert np.isnan(panel.values).sum() == 5


def test_the_covariate_must_be_there_and_a_flag() -> None:
    panel = Panel.from_long(table(stock=range(10)), timezone="UTC")
    with pytest.raises(DataError, match=r"no such local covariate; the panel has stock"):
        panel.censor("sold_out")
    with pytest.raises(DataError, match=r"other than 0 and 1: 2, 3"):
        panel.censor("stock")


def test_a_value_that_is_missing_anyway_is_not_counted() -> None:
    values, flags = (np.array([[x]], dtype=np.float32) for x in (NAN, 1.0))
    assert hide_censored(values, flags, "full")[1] == {"censored_by": "full", "censored_values": 0}


def test_absent_counts_are_zero_but_before_the_first_and_on_days_that_nobody_counted() -> None:
    clock = Clock("UTC", 720)  # two steps a day
    times = np.datetime64("2024-01-01", "s") + np.arange(10) * clock.step
    nan = np.nan
    values = np.array(
        [
            [nan, 3, nan, nan, nan, nan, 5, nan, nan, 1],  # nobody counted on the third day
            [2, nan, nan, nan, nan, nan, 1, 4, nan, nan],  # closed at the second step of all days
            [1, 1, 1, nan, nan, nan, nan, nan, nan, nan],  # silent for longer than ever before
        ],
        dtype=np.float32,
    ).T
    alive = np.ones(values.shape, dtype=bool)
    alive[1::2, 1] = False
    filled = absent_as_zero(values, times, clock, alive)
    expected = [
        [nan, 3, 0, 0, nan, nan, 5, 0, 0, 1],
        [2, nan, 0, nan, nan, nan, 1, 4, 0, nan],
        [1, 1, 1, nan, nan, nan, nan, nan, nan, nan],
    ]
    np.testing.assert_array_equal(filled.T, expected)
