"""Rows at odd times and several rows of a step become steps."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from forecaster.errors import DataError
from forecaster.panel.axis import Step
from forecaster.panel.tables.combine import (
    Combination,
    ParsedRows,
    combine_rows,
    explain_combination,
    find_combination,
)

START = pd.Timestamp("2023-03-06")  # a Monday


def parsed(seconds: np.ndarray, ids: list[str], values: np.ndarray) -> ParsedRows:
    times = START + pd.to_timedelta(np.asarray(seconds), unit="s")
    table = pa.table({"unique_id": ids, "ds": times.astype(str), "y": values.astype(float)})
    return ParsedRows.of(table, None)


def readings(jitter: int, whole: bool = False, shift: int = 0) -> ParsedRows:
    """Return 211 readings of two sensors every five minutes, late or early by some seconds."""
    generator = np.random.default_rng(3)
    seconds = np.repeat(np.arange(1, 212) * 300 + shift, 2)
    seconds = seconds + generator.integers(-jitter, jitter + 1, len(seconds))
    values = np.arange(len(seconds)) + (0.0 if whole else 0.5)
    return parsed(seconds, ["a", "b"] * 211, values)


def test_regular_rows_stay_as_they_are() -> None:
    assert find_combination(readings(0), "unknown", None, None) is None


def test_rows_at_nearly_regular_times_belong_to_the_nearest_step() -> None:
    rows = readings(jitter=47)
    combination = find_combination(rows, "unknown", None, None)
    assert combination == Combination("mean", Step(5), nearest=True)
    assert combination is not None
    series = combine_rows(rows, combination, "UTC")
    np.testing.assert_array_equal(series.layers["y"].ravel(), rows.layers["y"])
    assert (series.seconds % 300 == 0).all()
    assert explain_combination(combination, 422, series) == "times rounded to steps of 5 min"


def test_counts_that_meet_in_one_step_are_added_up_and_measurements_averaged() -> None:
    assert find_combination(readings(47, whole=True), "additive", None, None) == Combination(
        "sum", Step(5), nearest=True
    )
    assert find_combination(readings(47, whole=True), "intensive", None, None) == Combination(
        "mean", Step(5), nearest=True
    )


def events(each_day: float) -> ParsedRows:
    """Return sales at any time of 613 days."""
    generator = np.random.default_rng(5)
    seconds = np.sort(generator.integers(0, 613 * 86_400, int(each_day * 613)))
    return parsed(seconds, ["shop"] * len(seconds), np.full(len(seconds), 2.25))


@pytest.mark.parametrize(("each_day", "minutes"), [(97, 60), (3, 1440), (0.2, 10080)])
def test_events_are_added_up_by_the_step_that_suits_their_number(
    each_day: float, minutes: int
) -> None:
    rows = events(each_day)
    combination = find_combination(rows, "additive", None, None)
    assert combination == Combination("sum", Step(minutes))
    assert combination is not None
    series = combine_rows(rows, combination, "UTC")
    assert series.layers["y"].sum() == pytest.approx(rows.layers["y"].sum())
    assert (np.diff(series.seconds) % (minutes * 60) == 0).all()


def test_readings_at_odd_times_are_averaged_over_steps_that_hold_them() -> None:
    generator = np.random.default_rng(7)
    seconds = np.cumsum(generator.integers(40, 400, 1999))
    rows = parsed(seconds, ["room"] * 1999, 20 + generator.normal(size=1999))
    assert find_combination(rows, "intensive", None, None) == Combination("mean", Step(5))


def test_rows_whose_meaning_is_unknown_are_asked_about() -> None:
    with pytest.raises(DataError, match="the times are irregular; to add up or average the rows"):
        find_combination(events(97), "unknown", None, None)
    twice = parsed(np.repeat(np.arange(29) * 3600, 2), ["a"] * 58, np.arange(58.0))
    for meaning in ("unknown", "intensive"):  # two places without a name, perhaps
        with pytest.raises(DataError, match="29 further rows of a location and time; to add up"):
            find_combination(twice, meaning, None, None)  # type: ignore[arg-type]
    assert find_combination(twice, "unknown", "mean", None) == Combination("mean", Step(60))


def test_a_few_rows_that_share_their_time_are_refused_later_and_not_added_up() -> None:
    hours = np.append(np.arange(199) * 3600, 7200)  # as a clock that is set back gives them
    assert find_combination(parsed(hours, ["a"] * 200, hours), "additive", None, None) is None


def test_what_is_said_of_the_steps_counts() -> None:
    rows = events(97)
    for step in (Step(1440), Step(10080), Step(43_830, 1)):
        combination = find_combination(rows, "additive", "sum", step)
        assert combination == Combination("sum", step)
        assert combination is not None
        series = combine_rows(rows, combination, "UTC")
        assert str(series.seconds.astype("M8[s]")[0]) == (
            "2023-03-01T00:00:00" if step.months else "2023-03-06T00:00:00"
        )
        assert series.layers["y"].sum() == pytest.approx(rows.layers["y"].sum())


def test_days_of_times_with_an_offset_are_those_of_the_zone() -> None:
    table = pa.table(
        {"unique_id": ["a"] * 3, "ds": ["2023-01-01T23:30Z", "2023-01-02T10:00Z",
                                        "2023-01-02T23:10:09.250Z"], "y": [1.0, 2.0, 4.0]}
    )  # fmt: skip
    series = combine_rows(
        ParsedRows.of(table, None), Combination("sum", Step(1440)), "Europe/Paris"
    )
    assert series.naive
    assert series.seconds.astype("M8[s]").astype(str).tolist() == [
        "2023-01-02T00:00:00",
        "2023-01-03T00:00:00",
    ]
    assert series.layers["y"].ravel().tolist() == [3.0, 4.0]


def test_a_step_whose_rows_have_no_value_is_missing() -> None:
    times = ["2023-01-01T00:00", "2023-01-01T00:10", "2023-01-01T01:00"]
    table = pa.table({"unique_id": ["a"] * 3, "ds": times, "y": [None, None, 1.0]})
    series = combine_rows(ParsedRows.of(table, None), Combination("sum", Step(60)), "UTC")
    np.testing.assert_array_equal(series.layers["y"].ravel(), [np.nan, 1.0])
