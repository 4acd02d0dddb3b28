"""The Open Inference Protocol, version 2, beside our own endpoints: the same forecasts as tensors.

Inputs are texts, both optional: `location` (ids; default: all) and `at` (one origin; default: the
newest). Outputs are the numbers of the forecast, location × step, with `location`, `ds` and
`degraded`; `y_relative` is `y_hat` where a run has no such output. Data may lie behind the JSON of
a body, as the binary extension has it.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from forecaster import __version__
from forecaster.errors import name_some
from forecaster.estimators.table import quantile_name
from forecaster.serve.forecasting.encode import utc_text
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.forecast import Forecast
from forecaster.serve.http import content
from forecaster.serve.http.inference.tensors import (
    Content,
    InferenceRequest,
    read_texts,
    write_tensor,
)
from forecaster.serve.http.read import (
    JSON,
    basis_headers,
    find_column,
    find_origin,
    forecast_column,
    to_json,
)
from forecaster.serve.http.routes import (
    ERRORS,
    READ_ERRORS,
    EngineParameter,
    ReadRoute,
    StrictRoute,
    problem_responses,
)
from forecaster.serve.http.schemas import read_json
from forecaster.serve.problems import Problem

MODEL = "forecaster"  # the name of the served run, whichever it is; its hash is the version
HEADER_LENGTH = "Inference-Header-Content-Length"  # of the JSON, if data lies behind it
BINARY_OUTPUT = "binary_data_output"  # parameter of a request: outputs are sent behind the JSON
MAX_DIGITS = 10
BINARY = "application/octet-stream"  # of an answer with data behind its JSON
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"content": {JSON: {}, BINARY: {}}},
    **problem_responses((409,)),
}
REQUEST_BODY = {
    "requestBody": {
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/InferenceRequest"}}}
    }
}

health = APIRouter(prefix="/v2", route_class=StrictRoute, responses=problem_responses(ERRORS))
router = APIRouter(prefix="/v2", route_class=ReadRoute, responses=problem_responses(READ_ERRORS))
ModelName = Annotated[str, Path(description=MODEL, max_length=200)]
Version = Annotated[str, Path(description="hash of the run", max_length=200)]


async def _check_model(name: ModelName) -> None:
    """Refuse another model than the one that is served."""
    if name != MODEL:
        raise Problem(404, "unknown_model", f"the model is {MODEL}")


async def _check_version(engine: EngineParameter, version: Version) -> None:
    """Refuse another version than the one that is served."""
    if version != engine.model.digest:
        raise Problem(404, "unknown_version", f"the version is {engine.model.digest}")


newest = APIRouter(
    prefix="/v2/models/{name}",
    route_class=ReadRoute,
    responses=problem_responses((404, *READ_ERRORS)),
    dependencies=[Depends(_check_model)],
)
versioned = APIRouter(
    prefix="/v2/models/{name}/versions/{version}",
    route_class=ReadRoute,
    responses=problem_responses((404, *READ_ERRORS)),
    dependencies=[Depends(_check_model), Depends(_check_version)],
)


ROUTERS = (health, router, newest, versioned)


@health.get("/health/live")
async def live() -> dict[str, bool]:
    """Return that the service runs."""
    return {"live": True}


@health.get("/health/ready")
async def ready(engine: EngineParameter) -> dict[str, bool]:
    """Return whether there is a forecast of now, or why not."""
    _refuse_unready(engine)
    return {"ready": True}


@router.get("")
async def server() -> dict[str, Any]:
    """Return the name and version of the service, and the extensions that it knows."""
    return {"name": MODEL, "version": __version__, "extensions": ["binary_tensor_data"]}


@versioned.get("")
@newest.get("")
async def model(engine: EngineParameter) -> dict[str, Any]:
    """Return the served run, with its inputs and outputs."""
    served = engine.model
    K, numbers = served.horizon, ["y_hat", "y_relative", *_quantiles(served.quantile_levels)]
    texts = {"location": -1, "ds": K, "degraded": -1}
    return {
        "name": MODEL,
        "versions": [served.digest],
        "platform": f"forecaster_{type(served.estimator).__name__}",
        "inputs": [_describe("location", "BYTES", [-1]), _describe("at", "BYTES", [1])],
        "outputs": [
            *(_describe(name, "FP32", [-1, K]) for name in numbers),
            *(_describe(name, "BYTES", [size]) for name, size in texts.items()),
        ],
    }


@versioned.get("/ready")
@newest.get("/ready")
async def model_ready(engine: EngineParameter) -> dict[str, Any]:
    """Return whether there is a forecast of now, or why not."""
    _refuse_unready(engine)
    return {"name": MODEL, "ready": True}


@versioned.post("/infer", openapi_extra=REQUEST_BODY, responses=ANSWERS)
@newest.post("/infer", openapi_extra=REQUEST_BODY, responses=ANSWERS)
async def infer(request: Request, engine: EngineParameter) -> Response:
    """Return a forecast as tensors."""
    deadline = time.monotonic() + engine.worker.seconds
    asked, texts = _read_request(await request.body(), request.headers.get(HEADER_LENGTH))
    origins, ids = texts.get("at", []), texts.get("location")
    if len(origins) > 1:
        raise Problem(422, "bad_tensor", "at: a forecast has one origin; give a single time")
    for identity in {*(ids or ())} - {*engine.data.snapshot.locations.ids}:
        find_column(engine.data.snapshot, identity)  # refuses it
    origin = find_origin(engine, origins[0]) if origins else None
    result, freshness = await engine.forecast(origin)
    columns = {identity: n for n, identity in enumerate(result.locations.ids)}
    for identity in {*(ids or ())} - columns.keys():
        forecast_column(engine, result, identity)  # refuses it
    chosen = list(columns.values()) if ids is None else [columns[identity] for identity in ids]
    basis = content.forecast_basis(result, freshness)
    job = partial(_encode, asked, result, basis, chosen)
    described, raw = await engine.worker.run(job, deadline)
    headers = basis_headers(basis)
    if raw:
        headers[HEADER_LENGTH] = str(len(described))
    return Response(described + raw, media_type=BINARY if raw else JSON, headers=headers)


def _read_request(
    body: bytes, header_length: str | None
) -> tuple[InferenceRequest, dict[str, list[str]]]:
    """Return the request of a body, and the texts of its inputs."""
    end = len(body) if header_length is None else _to_length(header_length, len(body))
    try:
        asked = InferenceRequest.model_validate(read_json(body[:end]))
    except ValidationError as error:
        faults = [{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]
        raise RequestValidationError(faults) from error
    return asked, read_texts(asked.inputs, body[end:])


def _to_length(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < MAX_DIGITS and int(text) <= most):
        raise Problem(422, "bad_length", f"{HEADER_LENGTH} is not a length within the body")
    return int(text)


def _encode(
    asked: InferenceRequest, forecast: Forecast, basis: dict[str, Any], columns: list[int]
) -> tuple[bytes, bytes]:
    """Return the JSON of an answer, and the data behind it."""
    outputs = _outputs(forecast, columns)
    binary = {output.name: output.parameters.binary_data for output in asked.outputs}
    if unknown := binary.keys() - outputs.keys():
        raise Problem(422, "unknown_output", f"{name_some(sorted(unknown))}: the outputs are "
                      f"{name_some(outputs, len(outputs))}")  # fmt: skip
    if not binary:
        binary = dict.fromkeys(outputs, asked.parameters.get(BINARY_OUTPUT) is True)
    parts = [write_tensor(name, outputs[name], binary=b) for name, b in binary.items()]
    answer = {
        "model_name": MODEL,
        "model_version": forecast.key.model,
        **({} if asked.id is None else {"id": asked.id}),
        "parameters": {name: value for name, value in basis.items() if value is not None},
        "outputs": [described for described, _ in parts],
    }
    return to_json(answer), b"".join(raw for _, raw in parts)


def _outputs(forecast: Forecast, columns: list[int]) -> dict[str, Content]:
    """Return all outputs for some locations; where nothing is measured, numbers are NaN."""
    ids = forecast.locations.ids
    relative = forecast.y_hat if forecast.y_relative is None else forecast.y_relative
    quantiles = zip(_quantiles(forecast.quantile_levels), forecast.quantiles, strict=True)
    numbers = {"y_hat": forecast.y_hat, "y_relative": relative, **dict(quantiles)}
    return {
        **{name: values.T[columns] for name, values in numbers.items()},
        "location": [ids[n] for n in columns],
        "ds": [utc_text(time) for time in forecast.times],
        "degraded": [forecast.doubts.get(ids[n], "") for n in columns],
    }


def _quantiles(levels: Sequence[float]) -> list[str]:
    return [quantile_name(level) for level in levels]


def _describe(name: str, datatype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape}


def _refuse_unready(engine: Engine) -> None:
    reason = engine.why_not_ready()
    if reason is not None:
        raise Problem(503, "not_ready", reason)
