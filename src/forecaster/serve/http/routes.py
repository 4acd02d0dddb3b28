"""Routes that read requests strictly, and that need a token to write."""

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.schemas import ProblemDetails, read_json
from forecaster.serve.problems import MEDIA_TYPE, Problem

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ERRORS = (400, 408, 413, 414, 415, 422, 431, 500, 503)  # of any request
READ_ERRORS = (*ERRORS, 504)
WRITE_ERRORS = (401, 403, *ERRORS, 507)


class StrictRequest(Request):
    """A request whose JSON has one meaning only."""

    async def json(self) -> Any:
        """Return the content of the body."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that refuses unknown query parameters, and repeated ones.

    Not query models with `extra="forbid"`: they take the last of repeated parameters, and every
    route without parameters would need an empty model.
    """

    def get_route_handler(self) -> Handler:
        """Return the handler of a request."""
        handle = super().get_route_handler()
        allowed = {field.alias for field in self.dependant.query_params}

        async def handle_strictly(request: Request) -> Response:
            counts = Counter(name for name, _ in request.query_params.multi_items())
            if not allowed.issuperset(counts):
                listed = ", ".join(sorted(allowed)) or "none"
                raise Problem(422, "unknown_parameter", f"allowed parameters: {listed}")
            if counts and max(counts.values()) > 1:
                raise Problem(422, "doubled_parameter", "give each parameter once")
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


class WriteRoute(StrictRoute):
    """A route that checks the token before it reads a body."""

    def get_route_handler(self) -> Handler:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_authorized(request: Request) -> Response:
            check_token(request.app.state.token, request.headers.get("authorization", ""))
            return await handle(request)

        return handle_authorized


def check_token(token: str | None, authorization: str) -> None:
    """Refuse a request without the token; if none is set, every request."""
    if token is None:
        raise Problem(403, "writes_off", "writing is off: the service was started without a token")
    scheme, _, credentials = authorization.partition(" ")
    # Digests have one length and are compared in constant time.
    same = hmac.compare_digest(_digest(credentials.strip()), _digest(token))
    if scheme.lower() != "bearer" or not same:
        detail = "the header `Authorization: Bearer TOKEN` is needed"
        raise Problem(401, "no_token", detail, WWW_Authenticate="Bearer")


async def get_engine(request: Request) -> Engine:
    """Return the application's engine; async, since FastAPI runs other functions in a thread."""
    engine: Engine = request.app.state.engine
    return engine


EngineParameter = Annotated[Engine, Depends(get_engine)]


def problem_responses(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route for the OpenAPI document."""
    schema = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}
    content = {MEDIA_TYPE: {"schema": schema}}
    return {status: {"description": "a problem", "content": content} for status in statuses}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
