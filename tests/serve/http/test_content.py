"""What the endpoints answer with."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from forecaster.serve.data.live import Freshness
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.forecast import Forecast, ServedModel
from forecaster.serve.forecasting.predictor import SnapshotPredictor
from forecaster.serve.http import content, schemas
from tests.serve.conftest import HOURS


@pytest.fixture
def answer(model: ServedModel, panel: Panel) -> Forecast:
    found = SnapshotPredictor().predict_provisional(model, Snapshot(panel, version=7), HOURS - 1)
    assert found is not None
    return found


def test_every_forecast_carries_what_it_rests_on(answer: Forecast, model: ServedModel) -> None:
    told = content.forecast_basis(answer, Freshness(HOURS - 1, 61, False, None))
    assert told.pop("degraded") == answer.degraded
    assert told == {
        "model": model.digest,
        "data_version": 7,
        "origin": "2015-11-01T04:00:00Z",
        "origin_local": "2015-11-01T00:00:00-04:00",
        "data_age_seconds": 61,
        "stale": False,
    }


def test_all_that_degrades_a_forecast_is_told(answer: Forecast) -> None:
    calm, stale = Freshness(HOURS - 1, 61, False, None), Freshness(HOURS - 1, 9_999, True, None)
    good = replace(answer, degraded=None)
    assert content.forecast_basis(good, calm)["degraded"] is None
    stale_reason = content.forecast_basis(good, stale)["degraded"]
    assert stale_reason == "data: too few observations in the last 2 steps"
    assert str(content.forecast_basis(answer, stale)["degraded"]).count(":") == 2
    silent = replace(stale, outage="feed outage: 3 of 5 locations silent since noon")
    assert content.forecast_basis(good, silent)["degraded"] == f"{stale_reason}; {silent.outage}"


def test_places_without_a_value_or_a_point_are_null(model: ServedModel, panel: Panel) -> None:
    lat, values = panel.locations.lat.copy(), panel.values.copy()
    lat[3], values[:, 1], values[:5, 2] = np.nan, np.nan, np.nan
    base = replace(panel, locations=replace(panel.locations, lat=lat), values=values)
    told = content.location_list(model, base, base.locations)
    rows = told["locations"]
    assert (told["horizon"], told["step_minutes"], len(rows)) == (3, 60, 5)
    assert [row["lat"] is None for row in rows] == [False, False, False, True, False]
    assert rows[1]["mean"] is None
    assert rows[2]["mean"] == pytest.approx(float(np.nanmean(values[:, 2])), rel=1e-5)


def test_each_location_tells_which_model_is_served_there(model: ServedModel, panel: Panel) -> None:
    run = model.estimator.run
    assert run is not None
    numbers = {"fallback.model": np.array([0, 2, 0, 4, 0])}
    estimator = type(model.estimator)(model.estimator.recipe)
    estimator.run = replace(run, arrays={**run.arrays, **numbers})
    served = ServedModel(estimator, "0123456789ab")
    rows = content.location_list(served, panel, panel.locations)["locations"]
    assert [row["fallback"] for row in rows] == [None, "Ridge", None, "LastValue", None]
    assert {
        row["fallback"]
        for row in content.location_list(model, panel, panel.locations)["locations"]
    } == {None}


def test_a_graph_is_told_by_the_ids_of_its_edges(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert content.dependency_graph(model) == {"edges": []}  # a Ridge has learned none
    arrays = {"graph.pairs": np.array([[0, 2]]), "graph.strengths": np.array([0.123456789])}
    run = SimpleNamespace(arrays=arrays, about={"ids": ["a", "b", "c"]})
    monkeypatch.setattr(model.estimator, "run", run)
    assert content.dependency_graph(model) == {
        "edges": [{"a": "a", "b": "c", "strength": 0.123457}]
    }


def test_edges_of_a_directed_graph_lead_from_a_to_b_with_a_delay(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(
        arrays={
            "graph.pairs": np.array([[0, 2], [0, 2], [2, 0]]),
            "graph.strengths": np.array([0.5, -0.25, 0.125]),
            "graph.delays": np.array([1, 3, 2]),
        },
        about={"ids": ["a", "b", "c"]},
    )
    monkeypatch.setattr(model.estimator, "run", run)
    told = content.dependency_graph(model)
    assert told == {
        "edges": [
            {"a": "a", "b": "c", "strength": 0.5, "delay": 1},
            {"a": "a", "b": "c", "strength": -0.25, "delay": 3},
            {"a": "c", "b": "a", "strength": 0.125, "delay": 2},
        ]
    }
    schemas.DependencyGraphResponse.model_validate(told)


def test_history_begins_with_the_panel_at_the_earliest(model: ServedModel, panel: Panel) -> None:
    told = content.history(model, Snapshot(panel), 2, (-5, 3))
    assert told["values"] == panel.values[:3, 2].tolist()
    assert [step["ds"] for step in told["steps"]] == [f"{time}Z" for time in panel.times[:3]]
    assert content.history(model, Snapshot(panel), 2, (9, 4))["values"] == []


def test_the_dependencies_of_one_location_are_those_of_the_graph_that_have_it(
    model: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert content.neighbours(model, "b") == {"edges": []}  # a Ridge has learned none
    pairs, strengths = np.array([[0, 2], [1, 2], [0, 1]]), np.array([0.5, -0.25, 0.125])
    arrays = {"graph.pairs": pairs, "graph.strengths": strengths}
    run = SimpleNamespace(arrays=arrays, about={"ids": ["a", "b", "c"]})
    monkeypatch.setattr(model.estimator, "run", run)
    whole = content.dependency_graph(model)["edges"]
    assert content.neighbours(model, "b")["edges"] == whole[1:]
    assert content.neighbours(model, "new") == {"edges": []}
