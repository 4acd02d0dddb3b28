"""What a new user of Python tries first, one test for each habit."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import forecaster as fc

DAYS = 120


def test_one_series_of_days_is_read_fitted_and_forecast_with_nothing_said() -> None:
    days = pd.date_range("2024-09-01", periods=DAYS).strftime("%Y-%m-%d")
    panel = fc.Panel.from_long(pd.DataFrame({"ds": days, "y": np.arange(DAYS) % 7}))
    table = fc.SeasonalNaive().fit(panel).forecast(panel)
    assert [str(day)[:10] for day in table["ds"]] == ["2024-12-30", "2024-12-31", "2025-01-01"]
    assert len(fc.SeasonalNaive().fit(panel).forecast(panel, at="2024-12-01")) == 3


def test_months_of_one_series_work() -> None:
    months = pd.period_range("2012-01", periods=131, freq="M").astype(str)
    panel = fc.Panel.from_long(pd.DataFrame({"ds": months, "y": np.arange(131) % 12}))
    assert (panel.clock.step_text, panel.kind) == ("1 month", "count")


def test_a_frame_of_polars_goes_in_and_comes_out() -> None:
    hours = pd.date_range("2024-09-01", periods=24 * 50, freq="h")
    frame = pl.DataFrame({"zeit": hours, "station": "north", "pm10": np.arange(1200) % 24 + 0.5})
    panel = fc.Panel.from_long(frame)
    assert (panel.kind, panel.locations.ids) == ("measurement", ("north",))
    table = fc.LastValue().fit(panel).forecast(panel)
    forecast = pl.DataFrame(table)
    assert forecast["y_hat"].to_list() == table["y_hat"].tolist()
    assert forecast.schema["ds"].time_zone == "UTC"
    assert pa.table(table).num_rows == 3
