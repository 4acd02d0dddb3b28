"""The endpoints that read: locations, graph, forecast, history, accuracy, explanation."""

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from forecaster.errors import ConfigError, name_some
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Locations
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting import encode
from forecaster.serve.forecasting.engine import ACCURACY_HOURS, Engine
from forecaster.serve.forecasting.forecast import Forecast, ServedModel
from forecaster.serve.forecasting.json_rows import JsonRows
from forecaster.serve.forecasting.new_locations import why_not_forecast
from forecaster.serve.http import arrow, content, schemas
from forecaster.serve.http.routes import (
    READ_ERRORS,
    EngineParameter,
    ReadRoute,
    problem_responses,
)
from forecaster.serve.http.schemas import read_time
from forecaster.serve.http.selection import (
    After,
    Area,
    Box,
    DataVersion,
    Limit,
    LocationId,
    Selection,
)
from forecaster.serve.problems import Problem

Format = Literal["json", "csv", "geojson", "arrow"]
StepTime = Annotated[
    str, Query(max_length=40, description="a step by its beginning, with its offset")
]
MAX_HISTORY_HOURS = 24 * 7 * 12
MAX_HISTORY_STEPS = 10_000
MAX_POLL_SECONDS = 15  # until a page polls again
JSON = "application/json"
LOCATIONS = "locations"  # the list in their answer
FORECAST_CONTENT = {
    JSON: {"schema": {"$ref": f"#/components/schemas/{schemas.ForecastResponse.__name__}"}},
    "text/csv": {"schema": {"type": "string"}},
    "application/geo+json": {"schema": {"type": "object"}},
    arrow.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
}

router = APIRouter(prefix="/v1", route_class=ReadRoute, responses=problem_responses(READ_ERRORS))


@router.get("/locations", response_model=schemas.LocationList)
async def locations(
    request: Request,
    engine: EngineParameter,
    box: Box | None = None,
    area: Area | None = None,
    limit: Limit | None = None,
    after: After | None = None,
) -> Response:
    """Return the locations, and the meaning of the numbers.

    With `limit` the header Link leads from page to page, until it is missing. The ETag is that of
    all locations: where one has joined, every page has another.
    """
    selection, areas = Selection(box=box, area=area, limit=limit, after=after), areas_of(request)
    selection.check(areas)
    snapshot = engine.data.snapshot
    listed, etag = await run_in_threadpool(  # the first time it takes a second of 100,000
        _encode_locations, engine.model, snapshot.base, snapshot.locations, snapshot.registered
    )
    columns = selection.columns(snapshot.locations, areas)
    if columns is not None:
        etag = make_etag(repr((etag, columns)).encode())
    headers = {"ETag": etag}
    query = selection.next_page(snapshot.locations, areas, columns)
    headers |= {"Link": f'</v1/locations?{query}>; rel="next"'} if query else {}
    if has_etag(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(b"{" + listed.join(columns) + b"}", media_type=JSON, headers=headers)


@router.get("/run", response_model=schemas.ServedRun)
async def run(request: Request, engine: EngineParameter) -> Response:
    """Return which run answers, its challenger, and whether it has drifted."""
    return with_etag(request, to_json(content.served_run(engine)))


@router.get("/graph", response_model=schemas.DependencyGraphResponse)
async def graph(
    request: Request, engine: EngineParameter, location: LocationId | None = None
) -> Response:
    """Return the dependencies between locations, all or those of one location."""
    if location is not None:
        find_column(engine.data.snapshot, location)
        return with_etag(request, to_json(content.neighbours(engine.model, location)))
    body, etag = await run_in_threadpool(_encode_graph, engine.model)
    headers = {"ETag": etag}
    if has_etag(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=JSON, headers=headers)


@router.get(
    "/forecast",
    responses={200: {"content": FORECAST_CONTENT}, **problem_responses((409,))},
    response_class=Response,
)
async def forecast(  # noqa: PLR0913, PLR0917 (the parameters of its URL)
    request: Request,
    engine: EngineParameter,
    at: StepTime | None = None,
    location: LocationId | None = None,
    box: Box | None = None,
    area: Area | None = None,
    limit: Limit | None = None,
    after: After | None = None,
    data_version: DataVersion | None = None,
    format: Format | None = None,  # noqa: A002 (its name in the URL)
) -> Response:
    """Return the coming steps, from the newest origin or from `at`.

    A location that the run was not trained on is there after its first day of observations.
    Without `format` it is JSON, or an Arrow stream if the header Accept names one. With `limit`
    the header Link leads from page to page of the same forecast, until it is missing.
    """
    form = format or choose_format(request)
    deadline = time.monotonic() + engine.worker.seconds
    selection = Selection(location, box, area, limit, after, data_version)
    areas = areas_of(request)
    selection.check(areas)
    if location is not None:
        find_column(engine.data.snapshot, location)
    origin = None if at is None else find_origin(engine, at)
    if data_version is None:
        result, freshness = await engine.forecast(origin)
    elif origin is None:
        raise Problem(422, "bad_selection", "data_version goes with at, as in the header Link")
    else:
        result, freshness = engine.kept_forecast(origin, data_version)
    if location is None:
        columns = selection.columns(result.locations, areas)
    else:
        columns = [forecast_column(engine, result, location)]
    basis = content.forecast_basis(result, freshness)
    age_minutes = basis["data_age_seconds"] // 60  # with seconds, every response would differ
    etag = make_etag(repr(({**basis, "data_age_seconds": age_minutes}, columns, form)).encode())
    headers = {"ETag": etag, "Cache-Control": cache_control(engine), "Vary": "Accept"}
    query = selection.next_page(
        result.locations,
        areas,
        columns,
        data_version=None if result.provisional else result.key.version,  # those are not kept
        at=encode.utc_text(result.origin),
        format=format,
    )
    headers |= {"Link": f'</v1/forecast?{query}>; rel="next"'} if query else {}
    if has_etag(request, etag):
        return Response(status_code=304, headers=headers)
    job = partial(encode_forecast, result, basis, columns, form)
    # JSON and table exist already; slow encodings must not block the event loop.
    body, media_type = (
        job() if form in ("json", "arrow") else await engine.worker.run(job, deadline)
    )
    return Response(body, media_type=media_type, headers=headers | basis_headers(basis))


@router.get("/history", response_model=schemas.History)
async def history(
    request: Request,
    engine: EngineParameter,
    location: LocationId,
    hours: Annotated[
        int, Query(ge=1, le=MAX_HISTORY_HOURS, description="how many hours, up to the last")
    ] = 336,
    until: StepTime | None = None,
) -> Response:
    """Return the observations of the last hours, or of those up to `until`."""
    snapshot = engine.data.snapshot
    column = find_column(snapshot, location)
    end = engine.data.closed_steps() if until is None else find_origin(engine, until) + 1
    steps = engine.data.count_steps(hours)
    if steps > MAX_HISTORY_STEPS:
        detail = f"{steps:,} steps are requested; at most {MAX_HISTORY_STEPS:,} are sent"
        raise Problem(422, "too_long", detail)
    read = partial(content.history, engine.model, snapshot, column, (end - steps, end))
    return with_etag(request, await engine.worker.run(lambda: to_json(read())))


@router.get("/accuracy", response_model=schemas.Accuracy)
async def accuracy(
    engine: EngineParameter,
    hours: Annotated[
        int, Query(ge=1, le=ACCURACY_HOURS, description="how many of the last hours")
    ] = ACCURACY_HOURS,
) -> Response:
    """Return the accuracy of the forecasts of the last hours."""
    newest, freshness, figures = await engine.accuracy(hours)
    basis = content.forecast_basis(newest, freshness)
    return Response(to_json({**basis, "hours": hours, **figures}), media_type=JSON)


@router.get(
    "/explanation",
    response_model=schemas.ExplanationResponse,
    responses=problem_responses((404,)),
)
async def explanation(
    engine: EngineParameter, location: LocationId, at: StepTime | None = None
) -> Response:
    """Return the explanation of a location's forecast."""
    find_column(engine.data.snapshot, location)
    try:
        origin = None if at is None else find_origin(engine, at)
        explained, freshness, reasons = await engine.explain(location, origin)
    except ConfigError as error:
        raise Problem(404, "no_explanation", str(error)) from error
    basis = content.forecast_basis(explained, freshness)
    return Response(to_json({**reasons, **basis}), media_type=JSON)


def find_column(snapshot: Snapshot, location: str) -> int:
    """Return the column of a location."""
    try:
        return snapshot.locations.columns[location]
    except KeyError:
        ids = snapshot.locations.ids
        detail = f"the locations are {name_some(ids)}; POST /v1/locations registers a new one"
        raise Problem(422, "unknown_location", detail) from None


def forecast_column(engine: Engine, result: Forecast, location: str) -> int:
    """Return the column of a location in a forecast; a Problem says why it is not there yet."""
    try:
        return result.locations.columns[location]
    except KeyError:
        snapshot, origin = engine.data.snapshot, result.key.origin
        problem = why_not_forecast(engine.model, snapshot, location, origin)
        retry = Problem(503, "busy", "the data has just changed; try again")
        raise problem or retry from None


def find_origin(engine: Engine, at: str) -> int:
    """Return the step that begins at a time."""
    try:
        return engine.data.find_origin(read_time(at))
    except ValueError as error:
        raise Problem(422, "bad_time", str(error)) from None


def encode_forecast(
    result: Forecast, basis: dict[str, Any], columns: Sequence[int] | None, form: Format
) -> tuple[bytes, str]:
    """Return a forecast in the requested format, and its media type."""
    if form == "arrow":
        return encode.to_arrow(result, basis, columns), arrow.MEDIA_TYPE
    if form == "csv":
        return encode.to_csv(result, basis, columns), "text/csv"
    if form == "geojson":
        return to_json({**encode.to_geojson(result, columns), **basis}), "application/geo+json"
    return b"".join((to_json(basis)[:-1], b",", encode.to_json(result, columns), b"}")), JSON


def choose_format(request: Request) -> Format:
    """Return the format that the header Accept asks for."""
    return "arrow" if arrow.accepts_arrow(request.headers.get("accept", "")) else "json"


def cache_control(engine: Engine) -> str:
    """Return the Cache-Control of a forecast; `max-age` tells a page how fast a replay runs."""
    if engine.replay_step_seconds is None:
        return "no-cache"
    return f"no-cache, max-age={min(math.ceil(engine.replay_step_seconds), MAX_POLL_SECONDS)}"


def basis_headers(basis: dict[str, Any]) -> dict[str, str]:
    """Return the basis of a forecast as headers, without null values."""
    present = {name: value for name, value in basis.items() if value is not None}
    return {
        f"X-Forecast-{name.replace('_', '-')}": encode.plain_text(value)
        for name, value in present.items()
    }


@lru_cache(maxsize=2)  # every page asks again after each write, and they are mostly the same
def _encode_locations(
    model: ServedModel,
    base: Panel,
    locations: Locations,
    registrations: tuple[Registration, ...],
) -> tuple[JsonRows, str]:
    """The list of all locations, and its ETag."""
    listed = content.location_list(model, base, locations, registrations)
    rows = JsonRows.of(listed, LOCATIONS, listed.pop(LOCATIONS))
    return rows, make_etag(b"{" + rows.join() + b"}")


@lru_cache(maxsize=2)
def _encode_graph(model: ServedModel) -> tuple[bytes, str]:
    """All dependencies, and their ETag."""
    body = to_json(content.dependency_graph(model))
    return body, make_etag(body)


def areas_of(request: Request) -> Mapping[str, frozenset[str]]:
    """The ids of the locations of each area."""
    areas: Mapping[str, frozenset[str]] = request.app.state.settings.areas
    return areas


def to_json(value: dict[str, Any]) -> bytes:
    """Return strict JSON."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def with_etag(request: Request, body: bytes) -> Response:
    """Return JSON with its ETag, or 304 if the client has it already."""
    etag = make_etag(body)
    if has_etag(request, etag):
        return Response(status_code=304, headers={"ETag": etag})
    return Response(body, media_type=JSON, headers={"ETag": etag})


def make_etag(body: bytes) -> str:
    """Return the ETag of a body."""
    return f'"{hashlib.sha256(body).hexdigest()[:20]}"'


def has_etag(request: Request, etag: str) -> bool:
    """Whether the client already has the response of this ETag."""
    tags = request.headers.get("if-none-match", "").split(",")
    return etag in (tag.strip().removeprefix("W/") for tag in tags)
