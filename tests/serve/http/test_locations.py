"""Locations that are registered while the service runs: taken, kept, forecast after a day."""

import time
from typing import Any

import numpy as np
import pytest

from forecaster.panel.panel import Panel
from tests.serve.conftest import HOURS, Running, SettableClock

NEUBAU = {"id": "Neubau", "name": "Neubau, Platz 3", "lat": 40.7, "lon": -73.9}


def hours_of(panel: Panel, location: str, first: int, end: int) -> Any:
    """Return a batch with one value an hour: 5, 6, 7, 8, 5, …"""
    rows = [
        {
            "location": location,
            "ds": f"{panel.start + np.timedelta64(step, 'h')}Z",
            "value": 5.0 + step % 4,
        }
        for step in range(first, end)
    ]
    return {"observations": rows}


def city(panel: Panel, whole: Panel, first: int, end: int) -> Any:
    """Return a batch with what came at the panel's own locations."""
    rows = [
        {
            "location": identity,
            "ds": f"{whole.times[step]}Z",
            "value": float(whole.values[step, n]),
        }
        for step in range(first, end)
        for n, identity in enumerate(panel.locations.ids)
    ]
    return {"observations": rows}


def test_L2_a_registered_location_is_forecast_after_its_first_day(
    accepting: Running, panel: Panel, whole: Panel, clock: SettableClock
) -> None:
    reply = accepting.post("/v1/locations", NEUBAU)
    assert reply.status == 201
    assert {**reply.json, "since": None} == {
        **NEUBAU, "covariates": {}, "opens": None, "since": None, "data_version": 1,
    }  # fmt: skip
    clock.pass_hours(23)
    accepting.post("/v1/observations", city(panel, whole, HOURS, HOURS + 23))
    assert (
        accepting.post("/v1/observations", hours_of(panel, "Neubau", HOURS, HOURS + 23)).status
        == 200
    )
    told = accepting.get("/v1/forecast").json
    assert [row["id"] for row in told["forecasts"]] == list(panel.locations.ids)
    waiting = accepting.get("/v1/forecast?location=Neubau")
    assert (waiting.status, waiting.json["code"]) == (409, "waiting")
    assert "registered, 23 of 24 hours observed" in waiting.json["detail"]
    clock.pass_hours(1)
    accepting.post("/v1/observations", city(panel, whole, HOURS + 23, HOURS + 24))
    accepting.post("/v1/observations", hours_of(panel, "Neubau", HOURS + 23, HOURS + 24))
    told = accepting.get("/v1/forecast").json
    assert told["origin"] == f"{whole.times[HOURS + 23]}Z"
    assert [row["id"] for row in told["forecasts"]] == [*panel.locations.ids, "Neubau"]
    (row,) = accepting.get("/v1/forecast?location=Neubau").json["forecasts"]
    assert (row["y_hat"], row["last"], row["degraded"]) == ([5.0] * 3, 5.0, "new location")
    assert row["q10"] <= row["y_hat"] <= row["q90"]
    assert told["degraded"] is None
    csv = accepting.get("/v1/forecast?format=csv&location=Neubau").body.decode()
    assert csv.count("new location") == 3
    (feature,) = accepting.get("/v1/forecast?format=geojson&location=Neubau").json["features"]
    assert feature["geometry"]["coordinates"] == [-73.9, 40.7]
    assert feature["properties"]["degraded"] == "new location"
    before = accepting.get(f"/v1/forecast?location=Neubau&at={whole.times[HOURS + 22]}Z")
    assert before.status == 409


def test_L2_others_are_forecast_as_without_it(
    accepting: Running, panel: Panel, whole: Panel, clock: SettableClock
) -> None:
    clock.pass_hours(24)
    accepting.post("/v1/observations", city(panel, whole, HOURS, HOURS + 24))
    before = accepting.get("/v1/forecast").json["forecasts"]
    accepting.post("/v1/locations", NEUBAU)
    accepting.post("/v1/observations", hours_of(panel, "Neubau", HOURS, HOURS + 24))
    after = accepting.get("/v1/forecast").json["forecasts"]
    assert len(after) == 6
    for old, new in zip(before, after, strict=False):
        assert np.allclose(old["y_hat"], new["y_hat"], rtol=1e-5)


def test_a_registration_is_listed_at_once(accepting: Running, clock: SettableClock) -> None:
    before = accepting.get("/v1/locations")
    assert not any(row["new"] for row in before.json["locations"])
    accepting.post("/v1/locations", NEUBAU)
    *old, new = accepting.get("/v1/locations", If_None_Match=before.headers["etag"]).json[
        "locations"
    ]
    assert old == before.json["locations"]
    since = f"{np.datetime64(int(clock()), 's')}Z"
    about = {"mean": None, "fallback": None, "new": True, "since": since}
    assert new == {**NEUBAU, **about, "opens": None, "closes": None}
    assert accepting.get("/v1/history?location=Neubau&hours=3").json["values"] == [None] * 3


def test_L2_the_same_again_changes_nothing_and_other_data_is_refused(accepting: Running) -> None:
    first = accepting.post("/v1/locations", NEUBAU)
    again = accepting.post("/v1/locations", NEUBAU)
    assert (first.status, again.status) == (201, 200)
    assert first.json == again.json
    for change in ({"lat": 40.8}, {"name": "Altbau"}, {"opens": "2015-11-03T00:00:00Z"}):
        other = accepting.post("/v1/locations", {**NEUBAU, **change})
        assert (other.status, other.json["code"]) == (409, "location_differs")
        assert '"name": "Neubau, Platz 3", "lat": 40.7' in other.json["detail"]
    assert len(accepting.get("/v1/locations").json["locations"]) == 6


def test_a_location_of_the_panel_is_there_already(accepting: Running, panel: Panel) -> None:
    places = panel.locations
    same = {"id": places.ids[1], "name": places.names[1], "lat": float(places.lat[1])}
    for body in (same, {"id": places.ids[1]}):
        reply = accepting.post("/v1/locations", body)
        assert (reply.status, reply.json["since"], reply.json["data_version"]) == (200, None, 0)
    assert accepting.post("/v1/locations", {**same, "lat": 1.5}).status == 409


def test_L2_a_run_that_cannot_says_what_to_do_next(service: Running, panel: Panel) -> None:
    reply = service.post("/v1/locations", NEUBAU)
    assert (reply.status, reply.json["code"]) == (409, "cannot_forecast")
    assert "forecaster train RECIPE --panel PANEL --out RUN" in reply.json["detail"]
    assert service.post("/v1/locations", {"id": panel.locations.ids[0]}).status == 200


def test_L2_an_unknown_location_is_told_how_to_register(service: Running, panel: Panel) -> None:
    reply = service.post("/v1/observations", hours_of(panel, "Neubau", HOURS - 2, HOURS))
    assert (reply.status, reply.json["code"]) == (422, "unknown_location")
    assert "POST /v1/locations" in reply.json["detail"]
    reply = service.get("/v1/forecast?location=Neubau")
    assert (reply.status, reply.json["code"]) == (422, "unknown_location")
    assert "POST /v1/locations" in reply.json["detail"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": " Neubau"}, "unusable_location"),
        ({"id": "Neu\x1b[2Jbau"}, "unusable_location"),
        ({"id": "y_hat"}, "unusable_location"),
        ({"name": "Neu\x07bau"}, "unusable_location"),
        ({"id": "\ud800"}, "invalid"),
        ({"id": ""}, "invalid"),
        ({"id": "x" * 201}, "invalid"),
        ({"name": "x" * 201}, "invalid"),
        ({"lat": 90.5}, "invalid"),
        ({"lon": 181}, "invalid"),
        ({"lat": "40.7"}, "invalid"),
        ({"opens": "2015-11-03T00:00:00"}, "invalid"),
        ({"colour": "red"}, "invalid"),
        ({"covariates": {"temperature_c": 3.0}}, "wrong_covariates"),
    ],
)
def test_L2_an_unusable_location_is_refused(accepting: Running, change: Any, code: str) -> None:
    reply = accepting.post("/v1/locations", {**NEUBAU, **change})
    assert (reply.status, reply.json["code"]) == (422, code)
    assert reply.body.isascii()
    assert len(accepting.get("/v1/locations").json["locations"]) == 5


def test_V10_only_with_the_token(accepting: Running) -> None:
    assert accepting.post("/v1/locations", NEUBAU, token=None).status == 401
    assert accepting.post("/v1/locations", NEUBAU, token="x" * 30).status == 401


def test_too_many_are_refused(accepting: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecaster.serve.data.live.MIN_ROOM", 7)
    statuses = [accepting.post("/v1/locations", {"id": f"new {n}"}).status for n in range(8)]
    assert statuses == [201] * 7 + [409]
    assert accepting.post("/v1/locations", {"id": "new 3"}).status == 200


def test_no_observation_is_earlier_than_the_opening(accepting: Running, panel: Panel) -> None:
    opens = f"{panel.start + np.timedelta64(HOURS - 3, 'h')}Z"
    accepting.post("/v1/locations", {**NEUBAU, "opens": opens})
    early = accepting.post("/v1/observations", hours_of(panel, "Neubau", HOURS - 4, HOURS))
    assert (early.status, early.json["code"]) == (422, "too_old")
    assert (
        accepting.post("/v1/observations", hours_of(panel, "Neubau", HOURS - 3, HOURS)).status
        == 200
    )
    assert accepting.get("/v1/locations").json["locations"][-1]["opens"] == opens


def test_a_day_of_which_less_than_half_was_observed_does_not_count(
    accepting: Running, panel: Panel
) -> None:
    accepting.post("/v1/locations", NEUBAU)
    rows = hours_of(panel, "Neubau", HOURS - 24, HOURS)["observations"]
    accepting.post("/v1/observations", {"observations": [*rows[:6], *rows[-5:]]})
    detail = accepting.get("/v1/forecast?location=Neubau").json["detail"]
    assert "11 of 24 hours observed; 12 are needed" in detail
    accepting.post("/v1/observations", {"observations": rows[6:7]})
    assert accepting.get("/v1/forecast?location=Neubau").status == 200


def test_accuracy_copes_with_a_location_that_came_in_between(
    accepting: Running, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecaster.serve.forecasting.background.QUIET_SECONDS", 0.0)
    before = wait_for_terms(accepting, 0)
    accepting.post("/v1/locations", NEUBAU)
    accepting.post("/v1/observations", hours_of(panel, "Neubau", 0, HOURS))
    assert len(accepting.get("/v1/forecast").json["forecasts"]) == 6
    after = accepting.get("/v1/accuracy").json
    assert after["terms"] >= before
    assert sum(group["locations"] for group in after["bias_by_size"]) == 5


def wait_for_terms(service: Running, least: int) -> int:
    for _ in range(400):
        terms = int(service.get("/v1/accuracy").json["terms"])
        if terms > least:
            return terms
        time.sleep(0.05)  # past forecasts are made while nobody asks
    raise TimeoutError("no past forecasts")


def test_a_new_location_is_not_explained(accepting: Running) -> None:
    accepting.post("/v1/locations", NEUBAU)
    reply = accepting.get("/v1/explanation?location=Neubau")
    assert (reply.status, reply.json["code"]) == (404, "no_explanation")
