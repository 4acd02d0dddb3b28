"""The questions: locations, graph, forecast, history, accuracy, explanation."""

import hashlib
import json
import math
import time
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from forecaster.errors import ConfigError, name_some
from forecaster.serve.forecasting import encode
from forecaster.serve.forecasting.engine import ACCURACY_HOURS, Engine
from forecaster.serve.forecasting.forecast import Answer
from forecaster.serve.http import schemas, views
from forecaster.serve.http.routes import ASKED, StrictRoute, engine_of, problems
from forecaster.serve.http.schemas import read_time
from forecaster.serve.problems import Problem

Form = Literal["json", "csv", "geojson"]
Asked = Annotated[Engine, Depends(engine_of)]
Place = Annotated[str, Query(min_length=1, max_length=200, description="the id of a location")]
At = Annotated[str, Query(max_length=40, description="a step by its beginning, with its offset")]
MAX_HISTORY_HOURS = 24 * 7 * 12
MAX_HISTORY_STEPS = 10_000
LONGEST_SECONDS = 15  # until a page asks again
JSON = "application/json"
FORMS = {
    JSON: {"schema": {"$ref": "#/components/schemas/Forecast"}},
    "text/csv": {"schema": {"type": "string"}},
    "application/geo+json": {"schema": {"type": "object"}},
}

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=problems(ASKED))


@router.get("/locations", response_model=schemas.Places)
async def locations(request: Request, engine: Asked) -> Response:
    """Return the locations, and what the numbers mean."""
    return tagged(request, to_json(views.places(engine.model, engine.present.overlay.base)))


@router.get("/graph", response_model=schemas.Graph)
async def graph(request: Request, engine: Asked) -> Response:
    """Return the dependencies between locations."""
    return tagged(request, to_json(views.graph(engine.model)))


@router.get("/forecast", responses={200: {"content": FORMS}}, response_class=Response)
async def forecast(
    request: Request,
    engine: Asked,
    at: At | None = None,
    location: Place | None = None,
    format: Form = "json",  # noqa: A002 (its name in the URL)
) -> Response:
    """Return the coming steps, from the newest step or from `at`."""
    ends = time.monotonic() + engine.worker.seconds
    columns = None if location is None else [find_column(engine, location)]
    answer, feed = await engine.forecast(None if at is None else find_origin(engine, at))
    shared = views.common(answer, feed)
    minutes = shared["data_age_seconds"] // 60  # else no two would be alike
    tag = make_tag(repr(({**shared, "data_age_seconds": minutes}, columns, format)).encode())
    headers = {"ETag": tag, "Cache-Control": tell_haste(engine)}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    shown = partial(show, answer, shared, columns, format)
    # The JSON of all locations is there already; what takes longer must not hold up the loop.
    body, media = shown() if format == "json" else await engine.worker.run(shown, ends)
    return Response(body, media_type=media, headers=headers | describe(shared))


@router.get("/history", response_model=schemas.History)
async def history(
    request: Request,
    engine: Asked,
    location: Place,
    hours: Annotated[int, Query(ge=1, le=MAX_HISTORY_HOURS)] = 336,
    until: At | None = None,
) -> Response:
    """Return what was observed in the last hours, or in those up to `until`."""
    column = find_column(engine, location)
    end = engine.present.closed() if until is None else find_origin(engine, until) + 1
    steps = engine.present.count_steps(hours)
    if steps > MAX_HISTORY_STEPS:
        raise Problem(
            422, "too_long", f"{steps:,} steps are asked for, {MAX_HISTORY_STEPS:,} told"
        )
    told = partial(views.history, engine.present.overlay, column, end - steps, end)
    return tagged(request, await engine.worker.run(lambda: to_json(told())))


@router.get("/accuracy", response_model=schemas.Accuracy)
async def accuracy(
    engine: Asked, hours: Annotated[int, Query(ge=1, le=ACCURACY_HOURS)] = ACCURACY_HOURS
) -> Response:
    """Return how good the forecasts of the last hours were."""
    answer, feed, figures = await engine.accuracy(hours)
    body = to_json({**views.common(answer, feed), "hours": hours, **figures})
    return Response(body, media_type=JSON)


@router.get("/explanation", response_model=schemas.Explanation, responses=problems((404,)))
async def explanation(engine: Asked, location: Place, at: At | None = None) -> Response:
    """Return why the forecast of a location is what it is."""
    find_column(engine, location)
    try:
        origin = None if at is None else find_origin(engine, at)
        answer, feed, found = await engine.explain(location, origin)
    except ConfigError as error:
        raise Problem(404, "no_explanation", str(error)) from error
    return Response(to_json({**found, **views.common(answer, feed)}), media_type=JSON)


def find_column(engine: Engine, location: str) -> int:
    """Return the place of a location among all."""
    ids = engine.present.overlay.base.locations.ids
    try:
        return ids.index(location)
    except ValueError:
        raise Problem(422, "unknown_location", f"there are {name_some(ids)}") from None


def find_origin(engine: Engine, at: str) -> int:
    """Return the step that a parameter names."""
    try:
        return engine.present.find_origin(read_time(at))
    except ValueError as error:
        raise Problem(422, "bad_time", str(error)) from None


def show(
    answer: Answer, shared: dict[str, Any], columns: list[int] | None, form: Form
) -> tuple[bytes, str]:
    """Return a forecast as it was asked for, and its media type."""
    if form == "csv":
        return encode.to_csv(answer, shared, columns), "text/csv"
    if form == "geojson":
        return to_json({**encode.to_geojson(answer, columns), **shared}), "application/geo+json"
    inside = answer.json if columns is None else encode.to_json(answer, columns)
    return to_json(shared)[:-1] + b"," + inside + b"}", JSON


def tell_haste(engine: Engine) -> str:
    """Return how a forecast may be kept: not unasked, and in a replay not longer than a step."""
    if engine.replay_step_seconds is None:
        return "no-cache"
    return f"no-cache, max-age={min(math.ceil(engine.replay_step_seconds), LONGEST_SECONDS)}"


def describe(shared: dict[str, Any]) -> dict[str, str]:
    """Return what every forecast carries as headers; what is null is left out."""
    told = {name: value for name, value in shared.items() if value is not None}
    return {f"X-Forecast-{n.replace('_', '-')}": encode.plain(told[n]) for n in told}


def to_json(content: dict[str, Any]) -> bytes:
    """Return strict JSON."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def tagged(request: Request, body: bytes) -> Response:
    """Return the body, or that the client has it already."""
    tag = make_tag(body)
    if is_known(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type=JSON, headers={"ETag": tag})


def make_tag(content: bytes) -> str:
    """Return a short name of some content."""
    return f'"{hashlib.sha256(content).hexdigest()[:20]}"'


def is_known(request: Request, tag: str) -> bool:
    """Tell whether the client says that it has this already."""
    given = request.headers.get("if-none-match", "")
    return tag in (one.strip().removeprefix("W/") for one in given.split(","))
