import numpy as np
import pytest

from forecaster.config import MONTH_MINUTES
from forecaster.evaluation.bootstrap import RelativeDifference
from forecaster.report.formatting import (
    aligned,
    change,
    date_text,
    duration,
    join_names,
    less_or_more,
    number,
    percent,
    percent_range,
    tenth_percent,
    time_text,
    with_minus,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(5.187, "5.19"), (0.01234, "0.0123"), (99.96, "100"), (1234.5, "1,234"), (-7.0, "-7")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_shares_are_per_cent() -> None:
    assert [percent(0.0521), percent(0.383), percent(12.0)] == ["5.2 %", "38 %", "1,200 %"]


def test_shares_near_each_other_are_told_to_a_tenth() -> None:
    assert tenth_percent(0.80061) == "80.1 %"
    assert percent_range([0.8049, 0.7981, 0.8]) == "79.8 … 80.5 %"
    assert percent_range([0.80061, 0.80102]) == "80.1 %"


def test_a_difference_is_told_on_its_own_side() -> None:
    assert (
        less_or_more(RelativeDifference(-0.05, -0.07, -0.03))
        == "5.0 % lower (95 % interval 3.0 … 7.0 %)"
    )
    assert (
        less_or_more(RelativeDifference(0.05, 0.03, 0.07))
        == "5.0 % higher (95 % interval 3.0 … 7.0 %)"
    )
    assert (
        less_or_more(RelativeDifference(-0.02, -0.05, 0.01))
        == "2.0 % lower (95 % interval −1.0 … 5.0 %)"
    )


def test_only_negative_numbers_get_a_minus() -> None:
    given = "2020-01-06 at -3.5, (-2 … 1), A-1, --2"
    assert with_minus(given) == "2020-01-06 at −3.5, (−2 … 1), A-1, --2"


def test_a_ratio_is_told_as_a_change() -> None:
    ratios = (0.957, 1.0, 0.9999, 1.0001, 1.12, 0.5)
    assert [change(ratio) for ratio in ratios] == [
        "−4.3 %", "±0.0 %", "±0.0 %", "±0.0 %", "+12 %", "−50 %",
    ]  # fmt: skip


def test_durations_have_their_largest_unit() -> None:
    texts = [duration(minutes) for minutes in (5, 60, 90, 180, 1440, 2880)]
    assert texts == ["5 min", "1 hour", "90 min", "3 hours", "1 day", "2 days"]


def test_names_make_a_sentence() -> None:
    assert join_names(["a"]) == "a"
    assert join_names(["a", "b"]) == "a and b"
    assert join_names(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([28.4, 8.23, 48.9], ["28.4", "8.2", "48.9"]),
        ([1234.4, 5.0], ["1,234", "5"]),
        ([0.0123, 0.001], ["0.0123", "0.0010"]),
        ([0.0, float("nan")], ["0", "nan"]),
        ([-3.21, 2.0], ["-3.21", "2.00"]),
    ],
)
def test_numbers_of_a_row_have_the_same_decimals(values: list[float], texts: list[str]) -> None:
    assert aligned(values) == texts


def test_times_are_as_long_as_their_steps() -> None:
    time = np.datetime64("2009-05-31T18:00:00")
    assert date_text(time) == "Sun 31 May 2009"
    assert time_text(time, 60) == "Sun 31 May 2009, 18:00"
    assert time_text(time, 24 * 60) == "Sun 31 May 2009"
    assert time_text(time, MONTH_MINUTES) == "May 2009"
