"""The application as a whole: its document, its page, its health, its figures."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

import forecaster
from forecaster.panel.panel import Panel
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.app import _lifespan
from forecaster.serve.http.limits import headers_with
from forecaster.serve.http.tiles import Tiles
from tests.serve.client import TOKEN
from tests.serve.conftest import Running, SettableClock

REJECTED = {"expected-statuses": ["4xx", "5xx"]}  # not all of 4xx are known to it, as is 414
CONFIG = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": REJECTED}})
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


@pytest.mark.slow
def test_V4_whatever_the_document_allows_is_answered_as_it_says(
    service: Running, rounds: Callable[[int, int], int]
) -> None:
    """Ten thousand requests in torture: no 5xx, and all answers conform to the document."""
    url = f"http://127.0.0.1:{service.port}/v1/openapi.json"
    schema = schemathesis.openapi.from_url(url, config=CONFIG)
    sent, wanted = 0, rounds(40, 10_000)

    def check(case: schemathesis.Case) -> None:
        nonlocal sent
        sent += 1
        case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {TOKEN}"})

    while sent < wanted:  # again where there is not much that could be sent
        for result in schema.get_all_operations():
            try_out(result.ok(), rounds(6, 1_000), check)


def try_out(
    operation: schemathesis.APIOperation,
    count: int,
    check: Callable[[schemathesis.Case], None],
) -> None:
    """Check a number of requests, as the document wants them and otherwise."""
    cases = st.one_of(operation.as_strategy(), operation.as_strategy(GenerationMode.NEGATIVE))
    calm = settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    calm(given(case=cases)(check))()


def test_the_document_names_every_endpoint(shared_service: Running) -> None:
    document = shared_service.get("/v1/openapi.json").json
    assert set(document["paths"]) == {
        "/v1/locations", "/v1/graph", "/v1/forecast", "/v1/history", "/v1/accuracy",
        "/v1/explanation", "/v1/observations", "/v1/covariates", "/livez", "/readyz", "/metrics",
        "/v1/run",
        "/v2", "/v2/health/live", "/v2/health/ready",
        *(f"/v2/models/{{name}}{version}{path}"
          for version in ("", "/versions/{version}") for path in ("", "/ready", "/infer")),
    }  # fmt: skip
    assert "ProblemDetails" in document["components"]["schemas"]


def test_v1_lists_what_there_is_and_docs_is_a_page_of_our_own(shared_service: Running) -> None:
    index = shared_service.get("/v1").json
    document = shared_service.get("/v1/openapi.json").json
    assert {name.split()[1] for name in index["endpoints"]} == set(document["paths"])
    assert (
        index["endpoints"]["GET /readyz"]
        == "Return whether there is a forecast of now, or why not."
    )
    for name in ("page", "docs", "openapi"):
        assert shared_service.get(index[name]).status == 200
    page = shared_service.get("/docs")
    assert page.body == (PAGE / "api.html").read_bytes()
    assert b"//" not in page.body.replace(b"<!doctype", b"")  # nothing from elsewhere


def test_tiles_widen_the_policy_by_one_origin_and_reach_the_page(shared_service: Running) -> None:
    reply = shared_service.get("/page/settings.json")
    assert reply.json == {"tiles": None}
    policy = reply.headers["content-security-policy"]
    assert "img-src" not in policy
    tiles = Tiles.parse("https://tiles.example.org:8443/a/{z}/{x}/{y}.png?key=k")
    wider = headers_with(tiles)["Content-Security-Policy"]
    assert wider == f"{policy}; img-src 'self' https://tiles.example.org:8443"


def test_problems_have_one_form(shared_service: Running) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("DELETE", "/v1/forecast", 405),
        ("GET", "/v1/observations", 405),
        ("GET", "/v1/history?hours=x", 422),
        ("POST", "/v1/observations", 401),
        ("GET", "/page/none.js", 404),
    ):
        reply = shared_service.send(method, path, None)
        assert reply.status == status
        assert reply.headers["content-type"] == "application/problem+json"
        assert list(reply.json) == ["type", "title", "status", "detail", "code", "id"]
        assert reply.json["id"] == reply.headers["x-request-id"]


PAGE = Path(forecaster.__file__).parent / "serve" / "page"
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def test_the_page_is_served_by_name_alone(shared_service: Running) -> None:
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= set(MEDIA_TYPES)  # no program of Python
    assert shared_service.get("/").body == (PAGE / "index.html").read_bytes()
    for path in files:
        url = f"/page/{path.relative_to(PAGE).as_posix()}"
        reply = shared_service.get(url)
        assert (reply.status, reply.body) == (200, path.read_bytes())
        assert reply.headers["content-type"].startswith(MEDIA_TYPES[path.suffix])
        assert reply.headers["cache-control"] == "no-cache"
        assert "content-security-policy" in reply.headers
        again = shared_service.get(url, If_None_Match=reply.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_figures_are_in_the_format_of_prometheus(service: Running, clock: SettableClock) -> None:
    service.get("/v1/forecast")
    clock.pass_hours(1)
    lines = service.get("/metrics").body.decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert all(float(value) >= 0 for value in values.values())
    label = '{method="GET",route="/v1/forecast",status="200"}'
    assert float(values[f"forecaster_requests_total{label}"]) == 1
    assert float(values["forecaster_data_age_seconds"]) == 3660
    assert float(values["forecaster_ready"]) == 1
    assert float(values['forecaster_request_seconds_count{route="/v1/forecast"}']) == 1


def test_A5_a_clock_that_jumps_stops_nothing_and_loses_nothing(
    service: Running, clock: SettableClock, panel: Panel
) -> None:
    now, ids = clock.seconds, panel.locations.ids
    before = service.get("/v1/forecast").json
    hours = (-1, 1, -48, 24 * 400, -24 * 400, 24 * 365 * 100, 24 * 365 * 236, -now / 3600)
    paths = (
        "/v1/forecast", f"/v1/forecast?at={panel.times[-9]}Z", "/v1/accuracy", "/readyz", "/livez",
        f"/v1/history?location={ids[0]}", "/metrics", "/v1/locations",
    )  # fmt: skip
    for n, jump in enumerate((*hours, -(2**40) / 3600)):
        clock.seconds = now + 3600 * jump
        row = {"location": ids[1], "ds": f"{panel.times[-20 - n]}Z", "value": 7.0 + n}
        replies = [service.get(path) for path in paths]
        replies.append(service.post("/v1/observations", {"observations": [row]}))
        assert all(reply.status < 500 or reply.status == 503 for reply in replies), jump
    clock.seconds = now
    deadline = time.monotonic() + 30
    while service.get("/readyz").status != 200 and time.monotonic() < deadline:
        time.sleep(0.1)  # the next forecast
    assert service.get("/readyz").status == 200
    after = service.get("/v1/forecast").json
    assert after["origin"] == before["origin"]
    assert after["data_version"] > before["data_version"]
    row = {"location": ids[1], "ds": f"{panel.times[-20]}Z", "value": 7.0}
    receipt = service.post("/v1/observations", {"observations": [row]}).json
    assert (receipt["accepted"], receipt["revised"], receipt["unchanged"]) != (0, 0, 0)


def test_unlikely_bytes_anywhere_are_no_fault_of_ours(shared_service: Running) -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.text(max_size=40), st.text(max_size=40))
    def ask(name: str, value: str) -> None:
        for path in ("/v1/forecast", "/v1/history", "/page/" + quote(name, safe="")):
            reply = shared_service.get(f"{path}?{quote(name)}={quote(value)}")
            assert reply.status < 500
            if reply.headers["content-type"] == "application/problem+json":
                json.loads(reply.body)

    ask()


def test_a_feed_that_failed_does_not_keep_the_service_from_ending(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_: object) -> None:
        raise RuntimeError("no more to come")

    async def live() -> None:
        app = FastAPI()
        app.state.engine = engine
        async with _lifespan(app):
            await asyncio.sleep(0.01)

    closed: list[bool] = []
    monkeypatch.setattr(engine, "feed", fail)
    monkeypatch.setattr(engine, "close", lambda: closed.append(True))
    asyncio.run(live())
    assert closed == [True]
    assert "no more to come" in caplog.text
