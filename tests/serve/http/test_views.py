"""What the endpoints answer with."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.present import Feed
from forecaster.serve.data.snapshot import Overlay
from forecaster.serve.forecasting.forecast import Answer, Model
from forecaster.serve.forecasting.predictor import Forecasts
from forecaster.serve.http import views
from forecaster.serve.service import load_model
from tests.serve.conftest import HOURS


@pytest.fixture
def model(run: Path) -> Model:
    return load_model(run)


@pytest.fixture
def answer(model: Model, panel: Panel) -> Answer:
    found = Forecasts().provisional(model, Overlay(panel, version=7), HOURS - 1)
    assert found is not None
    return found


def test_every_forecast_carries_what_it_rests_on(answer: Answer, model: Model) -> None:
    told = views.common(answer, Feed(HOURS - 1, 61, False, None))
    assert told.pop("degraded") == answer.degraded
    assert told == {
        "model": model.digest,
        "data_version": 7,
        "origin": "2015-11-01T04:00:00Z",
        "origin_local": "2015-11-01T00:00:00-04:00",
        "data_age_seconds": 61,
        "stale": False,
    }


def test_all_that_degrades_a_forecast_is_told(answer: Answer) -> None:
    calm, stale = Feed(HOURS - 1, 61, False, None), Feed(HOURS - 1, 9_999, True, None)
    good = replace(answer, degraded=None)
    assert views.common(good, calm)["degraded"] is None
    assert views.common(good, stale)["degraded"] == "data: the last steps have not come"
    assert str(views.common(answer, stale)["degraded"]).count(":") == 2


def test_places_without_a_value_or_a_point_are_null(model: Model, panel: Panel) -> None:
    lat, values = panel.locations.lat.copy(), panel.values.copy()
    lat[3], values[:, 1], values[:5, 2] = np.nan, np.nan, np.nan
    base = replace(panel, locations=replace(panel.locations, lat=lat), values=values)
    told = views.places(model, base)
    rows = told["locations"]
    assert (told["horizon"], told["step_minutes"], len(rows)) == (3, 60, 5)
    assert [row["lat"] is None for row in rows] == [False, False, False, True, False]
    assert rows[1]["mean"] is None
    assert rows[2]["mean"] == pytest.approx(float(np.nanmean(values[:, 2])), rel=1e-5)


def test_a_graph_is_told_by_the_ids_of_its_edges(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert views.graph(model) == {"edges": []}  # a Ridge has learned none
    arrays = {"graph.pairs": np.array([[0, 2]]), "graph.strengths": np.array([0.123456789])}
    run = SimpleNamespace(arrays=arrays, about={"ids": ["a", "b", "c"]})
    monkeypatch.setattr(model.estimator, "run", run)
    assert views.graph(model) == {"edges": [{"a": "a", "b": "c", "strength": 0.123457}]}


def test_history_begins_with_the_panel_at_the_earliest(panel: Panel) -> None:
    told = views.history(Overlay(panel), 2, -5, 3)
    assert told["values"] == panel.values[:3, 2].tolist()
    assert [step["ds"] for step in told["steps"]] == [f"{time}Z" for time in panel.times[:3]]
    assert views.history(Overlay(panel), 2, 9, 4)["values"] == []
