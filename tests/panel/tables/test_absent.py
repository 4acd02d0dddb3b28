"""Steps without a row are missing, unless rows are events or zeros were left out."""

import numpy as np
import pandas as pd
import pytest

from forecaster.errors import DataError
from forecaster.panel.panel import Panel

DAYS = pd.date_range("2023-01-02", periods=211)


def sold(mean: float, drop_zeros: bool, lost: float = 0.0) -> pd.DataFrame:
    """Return daily sales of two shops; days without one, and a share of all, have no row."""
    generator = np.random.default_rng(11)
    frame = pd.DataFrame({"day": [*DAYS, *DAYS], "shop": ["a"] * 211 + ["b"] * 211})
    frame["sold"] = generator.poisson(mean, 422)
    frame = frame[(frame["sold"] > 0) | (not drop_zeros)]
    return frame[generator.random(len(frame)) >= lost]


def test_zeros_that_were_left_out_of_counts_are_zeros(caplog: pytest.LogCaptureFixture) -> None:
    panel = Panel.from_long(sold(1.3, drop_zeros=True))
    assert not np.isnan(panel.values[3:]).any()
    assert np.nanmean(panel.values) == pytest.approx(1.3, abs=0.2)
    assert 'are 0, not missing: no value is 0, and many are 1 (or give gaps="null")' in caplog.text


@pytest.mark.parametrize("frame", [sold(60, False, 0.2), sold(1.3, False, 0.2)])
def test_rows_that_were_lost_are_missing_and_it_is_said(
    frame: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    panel = Panel.from_long(frame)
    assert np.isnan(panel.values).any()
    assert 'are missing; if nothing happened there give gaps="zero"' in caplog.text
    assert not np.isnan(Panel.from_long(frame, gaps="zero").values[3:]).any()


def test_days_that_are_always_without_a_row_are_closed_and_not_spoken_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    frame = sold(60, False)
    panel = Panel.from_long(frame[frame["day"].dt.day_of_week < 5])
    assert panel.locations.has_hours
    assert "without a row" not in caplog.text


def test_events_are_counted_and_hours_without_one_are_zero(
    caplog: pytest.LogCaptureFixture,
) -> None:
    generator = np.random.default_rng(13)
    seconds = np.sort(generator.integers(0, 41 * 86_400, 1801))
    frame = pd.DataFrame(
        {
            "ticket_id": range(1801),
            "created_at": pd.Timestamp("2023-01-02") + pd.to_timedelta(seconds, unit="s"),
            "queue": generator.choice(["network", "printer"], 1801),
        }
    )
    panel = Panel.from_long(frame)
    assert (panel.clock.step_minutes, panel.locations.ids) == (60, ("network", "printer"))
    assert panel.values.min() == 0
    assert np.nansum(panel.values) == 1801
    assert "the rows of each step of 60 min are counted" in caplog.text
    daily = Panel.from_long(frame, step_minutes=1440)
    assert (len(daily.values), np.nansum(daily.values)) == (41, 1801)


def test_rows_without_a_value_and_steps_that_are_zero_are_refused_together() -> None:
    frame = sold(1.3, drop_zeros=True).astype({"sold": float})
    frame.iloc[5, 2] = np.nan
    with pytest.raises(DataError, match='1 row without a value, which gaps="zero" would make 0'):
        Panel.from_long(frame, gaps="zero")
    assert np.isnan(Panel.from_long(frame).values).any()
