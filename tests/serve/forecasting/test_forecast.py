"""What a forecast may see, and what it stands beside."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Model, choose_weather, cut, week_before
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS


@pytest.fixture
def model(run: Path) -> Model:
    return load_model(run)


def test_a_model_tells_its_horizon_and_levels(model: Model) -> None:
    assert (model.horizon, model.levels) == (3, (0.1, 0.5, 0.9))


def test_what_is_cut_out_gives_the_forecast_of_the_whole(model: Model, panel: Panel) -> None:
    for origin in (HOURS - 1, HOURS - 7, 400):
        part, own = cut(model, Overlay(panel), origin)
        assert part.times[own] == panel.times[origin]
        assert len(part.values) == own + 1 < origin  # nothing later, and not all before
        whole = model.estimator.predict(panel, np.array([origin]))
        assert np.allclose(model.estimator.predict(part, np.array([own])), whole, rtol=1e-5)


def test_what_is_cut_out_for_several_origins_serves_the_oldest_too(
    model: Model, panel: Panel
) -> None:
    part, own = cut(model, Overlay(panel), HOURS - 1, oldest=HOURS - 54)
    asked = np.array([own - 53, own])
    whole = model.estimator.predict(panel, np.array([HOURS - 54, HOURS - 1]))
    assert np.allclose(model.estimator.predict(part, asked), whole, rtol=1e-5)


def test_a_week_before_is_at_the_same_time_of_the_clock(panel: Panel) -> None:
    # The clock goes back after the panel's end: 01:00 comes twice, then 02:00.
    found = week_before(panel, HOURS - 1, 3)
    assert np.array_equal(found, panel.values[HOURS + np.arange(3) - [168, 169, 169]])


def test_a_week_before_the_panel_nothing_is_known(panel: Panel) -> None:
    assert np.isnan(week_before(panel, 160, 3)).all()
    found = week_before(panel, 166, 3)
    assert np.isnan(found).all(axis=1).tolist() == [True, False, False]


def test_weather_is_taken_to_stay_where_none_is_known_ahead(panel: Panel) -> None:
    known, origins = panel.covariates.values, np.array([HOURS - 1])
    assert choose_weather(panel, origins, 3) == ("observed", None)
    values = known.copy()
    values[HOURS + 2, 0] = np.nan
    blind = replace(panel, covariates=replace(panel.covariates, values=values))
    weather, worse = choose_weather(blind, origins, 3)
    assert (weather, str(worse).partition(":")[0]) == ("persist", "weather")
    assert choose_weather(blind, origins, 2) == ("observed", None)
