from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from forecaster.choices import Weather
from forecaster.config import LagConfig
from forecaster.errors import ConfigError
from forecaster.estimators.areas import add_areas, read_areas, total_areas
from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.intervals.calibration import RESIDUALS, Calibration
from forecaster.estimators.totals.totals import (
    HORIZON,
    Residuals,
    Span,
    calibrate_totals,
    find_spans,
    sum_residuals,
    sum_table,
    total_forecasts,
)
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe
from forecaster.splits import Splits

LEVELS = (0.1, 0.5, 0.9)
WINDOWS, PLACES, AHEAD = 601, 5, 47


@pytest.fixture(scope="module")
def noise() -> Residuals:
    """Residuals whose errors last for hours, so that sums of quantiles are too wide."""
    generator = np.random.default_rng(3)
    series = generator.normal(size=(WINDOWS + AHEAD, PLACES)) * np.array([1, 2, 3, 5, 7])
    steps = np.arange(WINDOWS)[:, None] + np.arange(AHEAD)
    hours = steps % 24
    return Residuals(series[steps].astype(np.float32), hours, np.arange(WINDOWS) // 24)


@pytest.fixture(scope="module")
def still() -> Calibration:
    zeros = np.zeros((3, AHEAD))
    return Calibration(LEVELS, zeros, np.ones((24, PLACES), np.float32), None, -np.inf)


@pytest.fixture(scope="module")
def forecast_a_day() -> tuple[Panel, SeasonalNaive]:
    from forecaster.estimators.checks.sample import small_city  # noqa: PLC0415

    panel = small_city("count")
    lags = LagConfig(recent=1, seasons=({"days": 7, "count": 1},), horizon=31)
    model = SeasonalNaive(Recipe(lags=lags)).fit(panel, Splits.by_share(panel, 0.3, 0.2))
    return panel, model


def span(first: int, last: int, *, whole: bool = True) -> Span:
    return Span("2014-06-01", first, last, is_whole=whole)


def test_spans_are_the_whole_local_days_and_the_horizon(make_panel: Callable[..., Panel]) -> None:
    panel = make_panel(np.ones((200, 3)))  # from midnight in New York, 2015-10-01
    spans = find_spans(panel, 23 + 24, 24 * 2 + 3)
    assert [(s.name, s.first, s.last, s.is_whole) for s in spans] == [
        ("2015-10-03", 1, 24, True),
        ("2015-10-04", 25, 48, True),
        (HORIZON, 1, 51, False),
    ]
    assert [s.name for s in find_spans(panel, 30, 24)] == [HORIZON]
    assert [s.name for s in find_spans(panel, 23, 24)] == ["2015-10-02"]  # the horizon is a day


def test_a_day_of_the_clock_change_has_its_25_hours(make_panel: Callable[..., Panel]) -> None:
    panel = make_panel(np.ones((24 * 31, 3)))
    day = find_spans(panel, 24 * 31 - 1, 30)[0]
    assert (day.name, day.first, day.last) == ("2015-11-01", 1, 25)


def test_days_are_no_totals_of_daily_steps(make_panel: Callable[..., Panel]) -> None:
    hourly = make_panel(np.ones((90, 3)))
    panel = replace(hourly, clock=replace(hourly.clock, step_minutes=24 * 60))
    assert [(s.name, s.last) for s in find_spans(panel, 50, 7)] == [(HORIZON, 7)]


def test_sums_of_residuals_leave_out_closed_steps_and_scale_up_for_missing_ones() -> None:
    values = np.ones((3, 24, 2), np.float32)
    values[:, :6, 1] = np.nan  # closed at night
    values[1, 10, :] = np.nan
    values[2, 10:20, :] = np.nan
    residuals = Residuals(values, np.zeros((3, 24), np.int64), np.arange(3))
    sums = sum_residuals(residuals, [span(1, 24)])[:, 0]
    np.testing.assert_allclose(sums[:2], [[24, 18], [24, 18]], rtol=1e-6)
    assert np.isnan(sums[2]).all()


def test_totals_are_covered_as_often_as_asked(noise: Residuals, still: Calibration) -> None:
    spans = [span(1, 24), span(25, 47, whole=False)]
    intervals = calibrate_totals(noise, spans, np.array([23, 22]), LEVELS, 0.0)
    fresh = np.random.default_rng(5).normal(size=(2000, AHEAD, PLACES)) * [1, 2, 3, 5, 7]
    zeros = np.zeros((AHEAD, PLACES), np.float32)
    steps = np.array([-1.28, 0, 1.28], np.float32)[:, None, None] * np.ones((3, AHEAD, PLACES))
    doubtful = np.zeros(PLACES, bool)
    totals, q = total_forecasts(spans, intervals, still, zeros, steps.astype(np.float32), doubtful)
    np.testing.assert_array_equal(totals, 0)
    for j, each in enumerate(spans):
        truth = fresh[:, each.steps].sum(axis=1)
        inside = (q[0, j] <= truth) & (truth <= q[2, j])
        assert inside.mean() == pytest.approx(0.8, abs=0.06)  # of 25 days of validation
    wide = total_forecasts(spans, intervals, still, zeros, steps.astype(np.float32), ~doubtful)[1]
    np.testing.assert_allclose(wide[2, 0], 24 * 1.28, rtol=1e-5)


def test_closed_days_have_no_total(noise: Residuals, still: Calibration) -> None:
    spans = [span(1, 24), span(25, 47)]
    intervals = calibrate_totals(noise, spans, np.array([23, 22]), LEVELS, 0.0)
    forecast = np.ones((AHEAD, PLACES), np.float32)
    forecast[24:, 1] = forecast[:9, 2] = np.nan
    steps = np.broadcast_to(forecast, (3, AHEAD, PLACES)).copy()
    totals, q = total_forecasts(spans, intervals, still, forecast, steps, np.zeros(PLACES, bool))
    assert np.isnan(totals[1, 1])
    assert np.isnan(q[:, 1, 1]).all()
    assert totals[0, 2] == 15
    assert np.isfinite(q[:, 0]).all()


def test_the_totals_of_a_forecast_add_up(forecast_a_day: tuple[Panel, SeasonalNaive]) -> None:
    panel, model = forecast_a_day
    at = panel.times[-51]
    table, totals = model.forecast(panel, at), model.forecast_totals(panel, at)
    whole = totals[totals["day"] == HORIZON].set_index("unique_id")
    sums = table.groupby("unique_id", sort=False)[["y_hat", "q10", "q90"]].sum()
    np.testing.assert_allclose(whole["y_hat"], sums["y_hat"].reindex(whole.index), rtol=1e-5)
    assert (whole["steps"] == 31).all()
    assert (totals["q10"] <= totals["y_hat"]).all()
    assert (totals["y_hat"] <= totals["q90"]).all()
    assert ((whole["q90"] - whole["q10"]) < (sums["q90"] - sums["q10"]).reindex(whole.index)).all()
    day = totals[totals["day"] != HORIZON].iloc[0]
    inside = table[
        (table["unique_id"] == day["unique_id"]) & table["ds_local"].str.startswith(day["day"])
    ]
    assert day["steps"] == len(inside) == 24
    assert day["y_hat"] == pytest.approx(inside["y_hat"].sum(), rel=1e-5)


def test_areas_have_totals_too(forecast_a_day: tuple[Panel, SeasonalNaive]) -> None:
    panel, model = forecast_a_day
    at = panel.times[-51]
    frame = pd.DataFrame({"area": ["west"] * 2, "id": list(panel.locations.ids[:2])})
    areas = read_areas(frame, panel.locations)
    table = add_areas(model.forecast(panel, at), areas, model, panel)
    totals = total_areas(table, areas, model, panel)
    alone = model.forecast_totals(panel, at)
    pd.testing.assert_frame_equal(totals.iloc[: len(alone)], alone)
    west = totals[totals["unique_id"] == "west"].set_index("day")
    parts = alone[alone["unique_id"].isin(panel.locations.ids[:2])].groupby("day")["y_hat"].sum()
    np.testing.assert_allclose(west["y_hat"], parts.reindex(west.index), rtol=1e-5)
    assert (west["q10"] <= west["y_hat"]).all()


def test_totals_follow_past_forecasts_of_the_same_weather(
    forecast_a_day: tuple[Panel, SeasonalNaive], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, model = forecast_a_day
    asked: list[str] = []
    past_totals = type(model).past_totals

    def note(self: SeasonalNaive, panel: Panel, origin: int, weather: Weather) -> Any:
        asked.append(weather)
        return past_totals(self, panel, origin, weather)

    monkeypatch.setattr(type(model), "past_totals", note)
    total_areas(model.forecast(panel, panel.times[-51]), None, model, panel, "persist")
    assert asked == ["persist"]


def test_a_run_without_residuals_is_refused_with_a_remedy(
    forecast_a_day: tuple[Panel, SeasonalNaive], monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, model = forecast_a_day
    assert model.run is not None
    monkeypatch.delitem(model.run.arrays, RESIDUALS)
    with pytest.raises(ConfigError, match="train it again"):
        model.forecast_totals(panel, panel.times[-51])


def test_closed_steps_do_not_put_a_total_in_doubt(
    forecast_a_day: tuple[Panel, SeasonalNaive],
) -> None:
    panel, model = forecast_a_day
    assert model.run is not None
    origin = len(panel.times) - 51
    table = model.forecast(panel, panel.times[origin])
    plain = sum_table(table, panel, origin, model.run)
    first = table["unique_id"].eq(table["unique_id"].iloc[0])
    closed = table.assign(degraded=np.where(first & (table.index < 7), "closed", ""))
    pd.testing.assert_frame_equal(sum_table(closed, panel, origin, model.run), plain)
    doubtful = table.assign(degraded=np.where(first, "closed; implausible value", ""))
    wide = sum_table(doubtful, panel, origin, model.run)
    assert wide["degraded"].iloc[0] == "implausible value"
    assert (wide["q90"] > plain["q90"]).tolist() == wide["degraded"].ne("").tolist()
