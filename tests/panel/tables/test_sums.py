"""Totals of locations, and covariates that hold later values, are found and left out."""

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.panel.axis import SeriesTable
from forecaster.panel.tables.sums import find_leaks, find_totals, leave_out

DAYS = (np.datetime64("2023-01-02") + np.arange(61)).astype("datetime64[s]").astype(np.int64)
VALUES = np.random.default_rng(1).poisson(40, (61, 3)).astype(np.float32)


def rows(values: np.ndarray, **covariates: np.ndarray) -> SeriesTable:
    ids = tuple("abcdefg"[: values.shape[1]])
    layers = {"y": values.astype(np.float32)}
    return SeriesTable(
        DAYS, True, ids, layers | {n: c.astype(np.float32) for n, c in covariates.items()}
    )


def test_the_sum_of_all_other_locations_is_a_total() -> None:
    with_total = np.column_stack([VALUES, VALUES.sum(axis=1)])
    assert find_totals(rows(with_total)) == ("d",)
    with_total[7, 1] = np.nan  # one that is missing counts as nothing
    assert find_totals(rows(with_total)) == ("d",)
    left = leave_out(rows(with_total), ("d",))
    assert (left.ids, left.layers["y"].shape) == (("a", "b", "c"), (61, 3))


def test_other_locations_are_no_totals() -> None:
    assert find_totals(rows(VALUES)) == ()
    assert find_totals(rows(VALUES[:, [0, 0]])) == ()  # two that are equal
    assert find_totals(rows(np.zeros((61, 3)))) == ()
    partly = np.column_stack([VALUES, VALUES[:, :2].sum(axis=1)])
    assert find_totals(rows(partly)) == ()


def test_locations_that_are_not_there_cannot_be_left_out() -> None:
    with pytest.raises(DataError, match="no location 'totl'"):
        leave_out(rows(VALUES), ("totl",))
    with pytest.raises(DataError, match="no location is left"):
        leave_out(rows(VALUES), ("a", "b", "c"))


def by_period(length: int) -> np.ndarray:
    period = np.arange(61) // length
    return np.array([VALUES[period == p].sum(axis=0) for p in period])


@pytest.mark.parametrize(
    ("covariate", "how"),
    [
        (np.vstack([VALUES[1:], VALUES[:1]]), "the value of the next step"),
        (by_period(7), "the sum of the week, later steps included"),
        (by_period(7) / 7, "the mean of the week, later steps included"),
        (np.repeat(VALUES.sum(axis=1)[:, None], 3, axis=1), "the sum of all locations"),
    ],
)
def test_covariates_with_later_values_are_leaks(covariate: np.ndarray, how: str) -> None:
    if "week" in how:
        covariate = covariate.copy()
        covariate[56:] = by_period(7)[56:] / (1 if "sum" in how else 5)  # the last week is cut
    assert find_leaks(rows(VALUES, c=covariate)) == {"c": how}


def test_covariates_of_the_past_and_others_are_no_leaks() -> None:
    covariates = {
        "before": np.vstack([VALUES[:1], VALUES[:-1]]),
        "so_far": VALUES.cumsum(axis=0),
        "same": VALUES,
        "price": np.random.default_rng(2).normal(3, 1, VALUES.shape),
        "constant": np.ones(VALUES.shape),
        "empty": np.full(VALUES.shape, np.nan),
    }
    assert find_leaks(rows(VALUES, **covariates)) == {}
