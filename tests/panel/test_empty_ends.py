"""Long ends of zeros."""

import numpy as np
import pandas as pd
import pytest

from forecaster.panel.empty_ends import describe_empty_ends, find_empty_ends
from forecaster.panel.panel import Panel


def hourly(values: np.ndarray, kind: str = "count") -> Panel:
    times = pd.date_range("2022-01-01", periods=len(values), freq="h")
    return Panel.from_wide(
        pd.DataFrame({"time": times, "a": values, "b": 0.0}),
        timezone="UTC",
        kind=kind,  # type: ignore[arg-type]
        hours="always",
    )


def test_months_of_zeros_after_the_last_count_are_told() -> None:
    values = np.concatenate([np.arange(24 * 30) % 5, np.zeros(24 * 200)])
    panel = hourly(values)
    assert find_empty_ends(panel) == [(24 * 30, 24 * 230)]
    (text,) = describe_empty_ends(panel)
    assert text.startswith(
        "the last 4,800 steps, 2022-01-31 … 2022-08-18, are zero at all locations: if nothing"
    )
    assert describe_empty_ends(hourly(values[::-1].copy()))[0].startswith("the first 4,800 steps")


@pytest.mark.parametrize("zeros", [24 * 2, 24 * 9])
def test_ends_no_longer_than_usual_are_not(zeros: int) -> None:
    quiet = np.concatenate([[3], np.zeros(24 * 5), [7]])  # as for five days inside
    assert find_empty_ends(hourly(np.concatenate([quiet, np.zeros(zeros)]))) == []


def test_missing_ends_measurements_and_panels_without_any_count_are_not() -> None:
    values = np.concatenate([np.full(24 * 9, 3.0), np.zeros(24 * 9)])
    assert find_empty_ends(hourly(values, "measurement")) == []
    assert find_empty_ends(hourly(np.zeros(24 * 9))) == []
    missing = np.where(np.arange(len(values)) < 24 * 9, values, np.nan)
    times = pd.date_range("2022-01-01", periods=len(values), freq="h")
    panel = Panel.from_wide(pd.DataFrame({"time": times, "a": missing}), timezone="UTC")
    assert find_empty_ends(panel) == []
