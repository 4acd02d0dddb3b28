"""Answers with a part of all locations: those in a box, and page after page."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.selection import is_inside, read_box
from tests.serve.client import SETTINGS
from tests.serve.conftest import Running, running


def ids_of(service: Running, path: str) -> list[str]:
    reply = service.get(path)
    assert reply.status == 200
    return [row["id"] for row in reply.json["forecasts"]]


def pages(service: Running, path: str) -> list[list[str]]:
    """Return the ids of every page, by the links from one to the next."""
    found = []
    while path:
        reply = service.get(path)
        assert reply.status == 200
        found.append([row["id"] for row in reply.json["forecasts"]])
        link = re.fullmatch(r'<(.*)>; rel="next"', reply.headers.get("link", ""))
        path = link[1] if link else ""
    return found


def test_a_box_has_the_locations_inside(shared_service: Running, panel: Panel) -> None:
    lat, lon = panel.locations.lat, panel.locations.lon
    box = f"{lon[2] - 1e-6},{lat[2] - 1e-6},{lon[2] + 1e-6},{lat[2] + 1e-6}"
    assert ids_of(shared_service, f"/v1/forecast?box={box}") == [panel.locations.ids[2]]
    assert ids_of(shared_service, "/v1/forecast?box=0,0,1,1") == []
    assert ids_of(shared_service, "/v1/forecast?box=-180,-90,180,90") == [*panel.locations.ids]


def test_a_box_crosses_the_date_line_where_west_is_greater() -> None:
    nan = float("nan")
    lat, lon = np.array([0.0, 0.0, 0.0, nan]), np.array([179.0, -179.0, 0.0, nan])
    locations = Locations(ids=("a", "b", "c", "d"), names=("a", "b", "c", "d"), lat=lat, lon=lon)
    inside = is_inside(read_box("170,-10,-170,10"), locations)
    assert inside.tolist() == [True, True, False, False]


@pytest.mark.parametrize("limit", [1, 2, 4, 5, 7])
def test_pages_have_all_locations_once(shared_service: Running, panel: Panel, limit: int) -> None:
    told = pages(shared_service, f"/v1/forecast?limit={limit}")
    assert [name for page in told for name in page] == [*panel.locations.ids]
    assert all(len(page) == limit for page in told[:-1])
    assert told[-1]


def test_pages_are_of_the_forecast_that_the_first_one_had(service: Running, panel: Panel) -> None:
    whole = service.get("/v1/forecast").json
    first = service.get("/v1/forecast?limit=3")
    row = {"location": panel.locations.ids[0], "ds": f"{panel.times[-1]}Z", "value": 3.0}
    assert service.post("/v1/observations", {"observations": [row]}).status == 200
    path = re.fullmatch(r'<(.*)>; rel="next"', first.headers["link"])[1]  # type: ignore[index]
    second = service.get(path).json
    assert second["data_version"] == whole["data_version"]
    assert first.json["forecasts"] + second["forecasts"] == whole["forecasts"]
    gone = service.get(path.replace("data_version=0", "data_version=77"))
    assert (gone.status, gone.json["code"]) == (409, "data_changed")


def test_a_page_of_a_box_can_be_an_arrow_stream(shared_service: Running, panel: Panel) -> None:
    path = "/v1/forecast?box=-180,-90,180,90&limit=2&format=arrow"
    reply = shared_service.get(path)
    table = pa.ipc.open_stream(reply.body).read_all()
    assert table["unique_id"].unique().to_pylist() == list(panel.locations.ids[:2])
    assert "format=arrow" in reply.headers["link"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("box=1,2,3", "bad_box"),
        ("box=0,10,1,-10", "bad_box"),
        ("box=nan,0,1,1", "bad_box"),
        ("box=-181,0,1,1", "bad_box"),
        ("limit=3&after=nowhere", "unknown_location"),
        ("after=L0001", "bad_selection"),
        ("limit=3&data_version=0", "bad_selection"),
        ("location=L0001&limit=3", "bad_selection"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(
    shared_service: Running, query: str, code: str
) -> None:
    reply = shared_service.get(f"/v1/forecast?{query}")
    assert (reply.status, reply.json["code"]) == (422, code)


@contextmanager
def with_areas(engine: Engine, areas: dict[str, frozenset[str]]) -> Iterator[Running]:
    with running(engine, replace(SETTINGS, areas=areas)) as service:
        yield service


def test_an_area_has_its_locations_in_the_order_of_the_data(engine: Engine, panel: Panel) -> None:
    ids = panel.locations.ids
    with with_areas(engine, {"north": frozenset({ids[3], ids[1], ids[4]})}) as service:
        assert ids_of(service, "/v1/forecast?area=north") == [ids[1], ids[3], ids[4]]
        told = pages(service, "/v1/forecast?area=north&limit=2")
        assert told == [[ids[1], ids[3]], [ids[4]]]
        listed = service.get("/v1/locations?area=north").json["locations"]
        assert [row["id"] for row in listed] == [ids[1], ids[3], ids[4]]
        refused = service.get("/v1/forecast?area=south")
        assert (refused.status, refused.json["code"]) == (422, "unknown_area")
        assert "north" in refused.json["detail"]


@pytest.mark.parametrize("limit", [2, 3, 5])
def test_locations_come_in_pages_too(shared_service: Running, limit: int) -> None:
    whole = shared_service.get("/v1/locations").json
    path, rows = f"/v1/locations?limit={limit}", []
    while path:
        reply = shared_service.get(path)
        assert {**reply.json, "locations": []} == {**whole, "locations": []}
        rows += reply.json["locations"]
        link = re.fullmatch(r'<(.*)>; rel="next"', reply.headers.get("link", ""))
        path = link[1] if link else ""
    assert rows == whole["locations"]


def test_every_page_of_locations_changes_when_one_joins(accepting: Running) -> None:
    path = "/v1/locations?limit=2"
    etag = accepting.get(path).headers["etag"]
    assert accepting.get(path, **{"If-None-Match": etag}).status == 304
    assert accepting.post("/v1/locations", {"id": "later"}).status == 201
    assert accepting.get(path, **{"If-None-Match": etag}).status == 200
