"""The web application: the endpoints, the page, and one form for everything that goes wrong."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from forecaster import __version__
from forecaster.errors import name_some
from forecaster.serve.forecasting.background import Watch
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http import read, write
from forecaster.serve.http.assets import load_assets
from forecaster.serve.http.limits import Gate
from forecaster.serve.http.metrics import Metrics
from forecaster.serve.http.read import is_known
from forecaster.serve.http.routes import REFUSED, StrictRoute, engine_of, problems
from forecaster.serve.http.schemas import Forecast, ProblemDetails
from forecaster.serve.problems import Problem, fault, to_response

log = logging.getLogger(__name__)
CODES = {404: "not_found", 405: "wrong_method"}


def create_app(engine: Engine, token: str | None = None) -> Gate:
    """Return the application.

    Args:
        engine: answers.
        token: who knows it may write; None: nobody may.
    """
    app = FastAPI(
        title="forecaster", version=__version__, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json", lifespan=_live,
    )  # fmt: skip
    app.router.route_class = StrictRoute
    app.state.engine, app.state.token = engine, token
    app.state.metrics = Metrics()
    app.include_router(read.router)
    app.include_router(write.router)
    _add_health(app)
    _add_page(app)
    app.openapi_schema = _complete(app.openapi(), Forecast, ProblemDetails)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_fault)
    return Gate(app, app.state.metrics)


def _complete(document: dict[str, Any], *models: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI document with schemas that only our own answers refer to."""
    schemas = document["components"]["schemas"]
    for model in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}
    return document


@asynccontextmanager
async def _live(app: FastAPI) -> AsyncIterator[None]:
    engine: Engine = app.state.engine
    jobs = [Watch(engine).run()]
    if engine.feeder is not None:
        jobs.append(engine.feeder(engine.present.live))
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(end, Exception):
                log.error("what runs in the background had failed", exc_info=end)
        engine.close()


def _add_health(app: FastAPI) -> None:
    @app.get("/livez", responses=problems(REFUSED))
    async def livez() -> dict[str, str]:
        """Tell that the service runs."""
        return {"status": "alive"}

    @app.get("/readyz", responses=problems(REFUSED))
    async def readyz(request: Request) -> dict[str, str]:
        """Tell whether forecasts of the moment can be had, or why not."""
        reason = (await engine_of(request)).why_not_ready()
        if reason is not None:
            raise Problem(503, "not_ready", reason)
        return {"status": "ready"}

    @app.get("/metrics", responses=problems(REFUSED), response_class=Response)
    async def metrics(request: Request) -> Response:
        """Return figures for Prometheus."""
        state = request.app.state
        text = state.metrics.render(state.engine)
        return Response(text, media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI) -> None:
    assets = load_assets()

    async def show(request: Request, name: str = "index.html") -> Response:
        if name not in assets:
            raise Problem(404, "not_found", "there is no such file")
        asset = assets[name]
        headers = {"ETag": asset.tag}
        if is_known(request, asset.tag):
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)

    app.add_api_route("/", show, include_in_schema=False)
    app.add_api_route("/page/{name:path}", show, include_in_schema=False)


async def _on_http(request: Request, error: Exception) -> Response:
    """Return any refusal as a problem."""
    if not isinstance(error, HTTPException):
        raise error
    if not isinstance(error, Problem):
        code = CODES.get(error.status_code, "refused")
        headers = dict(error.headers or {})
        error = Problem(error.status_code, code, str(error.detail))
        error.headers = headers
    return to_response(error, request.state.id)


async def _on_invalid(request: Request, error: Exception) -> Response:
    """Return what does not fit the schema: where and why, never what was sent."""
    faults: list[dict[str, Any]] = []
    if isinstance(error, RequestValidationError):
        faults = list(error.errors())
    found = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
    return to_response(Problem(422, "invalid", name_some(map(_plain, found))), request.state.id)


async def _on_fault(request: Request, error: Exception) -> Response:
    """Log a fault of ours by its id, and return what a client is told of it."""
    log.error("request %s failed", request.state.id, exc_info=error)
    return to_response(fault(), request.state.id)


def _plain(text: str) -> str:
    return ascii(text)[1:-1][:300]
