"""The web application: endpoints, page, health checks, and one form for all errors."""

import asyncio
import logging
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from forecaster import __version__
from forecaster.errors import name_some
from forecaster.serve.forecasting.background import BackgroundForecasts, follow_versions
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http import content, read, write
from forecaster.serve.http.inference import endpoints as inference
from forecaster.serve.http.inference.tensors import InferenceRequest
from forecaster.serve.http.limits import RequestLimits
from forecaster.serve.http.metrics import Metrics
from forecaster.serve.http.routes import (
    ERRORS,
    READ_ERRORS,
    EngineParameter,
    ReadRoute,
    StrictRoute,
    problem_responses,
)
from forecaster.serve.http.schemas import ForecastResponse, ProblemDetails
from forecaster.serve.http.settings import HttpSettings
from forecaster.serve.http.tiles import Tiles
from forecaster.serve.problems import Problem, internal_error, to_response

log = logging.getLogger(__name__)
CODES = {404: "not_found", 405: "wrong_method"}
mimetypes.add_type("text/javascript", ".js")  # some systems' tables have another type, or none


def create_app(engine: Engine, settings: HttpSettings | None = None) -> RequestLimits:
    """Return the application around an engine."""
    settings = settings or HttpSettings()
    app = FastAPI(
        title="forecaster", version=__version__, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json", lifespan=_lifespan,
        redirect_slashes=False,  # a redirect would repeat the client's Host
    )  # fmt: skip
    app.router.route_class = StrictRoute
    app.state.engine, app.state.settings = engine, settings
    app.state.metrics = Metrics(settings.audit)
    app.include_router(read.router)
    app.include_router(write.router)
    app.include_router(write.administration)
    app.include_router(_health())
    for router in inference.ROUTERS:
        app.include_router(router)
    _add_page(app, settings.tiles)
    app.add_api_route("/v1", _list_endpoints, include_in_schema=False)
    app.openapi_schema = _add_schemas(
        app.openapi(), ForecastResponse, ProblemDetails, InferenceRequest
    )
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_error)
    routes = (*write.router.routes, *write.administration.routes)
    writes = frozenset(route.path for route in routes if isinstance(route, APIRoute))
    return RequestLimits(app, app.state.metrics, settings, writes)


def _add_schemas(document: dict[str, Any], *models: type[BaseModel]) -> dict[str, Any]:
    """Add schemas to the OpenAPI document that only manually written responses refer to."""
    schemas = document["components"]["schemas"]
    for model in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}
    return document


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Run the background tasks while the application runs."""
    engine: Engine = app.state.engine
    jobs = [BackgroundForecasts(engine).run(), follow_versions(engine)]
    if engine.feed is not None:
        jobs.append(engine.feed(engine.data))
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                log.error("a background task failed", exc_info=result)
        engine.close()


def _health() -> APIRouter:
    """Return the endpoints for probes and for Prometheus."""
    router = APIRouter(route_class=StrictRoute)
    guarded = APIRouter(route_class=ReadRoute)

    @router.get("/livez", responses=problem_responses(ERRORS))
    async def livez() -> dict[str, str]:
        """Return that the service runs."""
        return {"status": "alive"}

    @router.get("/readyz", responses=problem_responses(ERRORS))
    async def readyz(engine: EngineParameter) -> dict[str, str]:
        """Return whether there is a forecast of now, or why not."""
        reason = engine.why_not_ready()
        if reason is not None:
            raise Problem(503, "not_ready", reason)
        refused = engine.loader.refused
        return {"status": "ready"} | (
            {"detail": content.describe_refusal(refused)} if refused else {}
        )

    @guarded.get("/metrics", responses=problem_responses(READ_ERRORS), response_class=Response)
    async def metrics(request: Request, engine: EngineParameter) -> Response:
        """Return metrics for Prometheus, with the quality of the last day and week."""
        metrics, accept = request.app.state.metrics, request.headers.get("accept", "")
        content, media_type = metrics.render(engine, await engine.quality(), accept)
        return Response(content, headers={"Content-Type": media_type})

    router.include_router(guarded)
    return router


def _add_page(app: FastAPI, tiles: Tiles | None) -> None:
    """Add the page of forecasts, and at /docs the page about the HTTP API."""
    files = StaticFiles(packages=[("forecaster.serve", "page")])

    async def page(request: Request, name: str = "index.html") -> Response:
        return await files.get_response(name, request.scope)

    async def api_page(request: Request) -> Response:
        return await files.get_response("api.html", request.scope)

    async def settings() -> dict[str, Any]:
        return {"tiles": None if tiles is None else asdict(tiles)}

    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/docs", api_page, include_in_schema=False)
    app.add_api_route("/page/settings.json", settings, include_in_schema=False)
    app.add_api_route("/page/{name:path}", page, include_in_schema=False)


async def _list_endpoints(request: Request) -> dict[str, Any]:
    """Return where the pages and the endpoints are."""
    endpoints = {
        f"{method.upper()} {path}": operation["description"].partition("\n")[0]
        for path, operations in request.app.openapi()["paths"].items()
        for method, operation in operations.items()
    }
    pages = {"page": "/", "docs": "/docs", "openapi": "/v1/openapi.json"}
    return {"name": "forecaster", "version": __version__, **pages, "endpoints": endpoints}


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Return any refused request as a problem."""
    if not isinstance(error, HTTPException):
        raise error
    if not isinstance(error, Problem):
        code = CODES.get(error.status_code, "refused")
        headers = dict(error.headers or {})
        error = Problem(error.status_code, code, str(error.detail))
        error.headers = headers
    return to_response(error, request.scope)


async def _on_invalid(request: Request, error: Exception) -> Response:
    """Return the location and reason of each schema fault, without the request's content."""
    faults: list[dict[str, Any]] = []
    if isinstance(error, RequestValidationError):
        faults = list(error.errors())
    texts = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
    detail = name_some(texts)
    return to_response(Problem(422, "invalid", detail), request.scope)


async def _on_error(request: Request, error: Exception) -> Response:
    """Log an internal error by the id of its request, and return only that id."""
    log.error("request %s failed", request.state.id, exc_info=error)
    return to_response(internal_error(), request.scope)
