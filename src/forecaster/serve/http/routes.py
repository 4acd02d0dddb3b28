"""How a request is read before anything is done for it: strictly, and with a token to write."""

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.schemas import ProblemDetails, read_json
from forecaster.serve.problems import MEDIA_TYPE, Problem

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
REFUSED = (400, 408, 413, 414, 415, 422, 431, 500, 503)  # what can go wrong with any request
ASKED = (*REFUSED, 504)
WRITTEN = (401, 403, *REFUSED, 507)


class StrictRequest(Request):
    """A request whose JSON means one thing only."""

    async def json(self) -> Any:
        """Return the content of the body."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that refuses parameters it does not know, or that are given twice."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        answer = super().get_route_handler()
        known = {field.alias for field in self.dependant.query_params}

        async def strictly(request: Request) -> Response:
            given = Counter(name for name, _ in request.query_params.multi_items())
            if not known.issuperset(given):
                allowed = ", ".join(sorted(known)) or "none"
                raise Problem(422, "unknown_parameter", f"parameters here: {allowed}")
            if given and max(given.values()) > 1:
                raise Problem(422, "doubled_parameter", "give each parameter once")
            return await answer(StrictRequest(request.scope, request.receive))

        return strictly


class WriteRoute(StrictRoute):
    """A route that needs the token, and asks for it before a body is read."""

    def get_route_handler(self) -> Handler:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            check_token(request.app.state.token, request.headers.get("authorization", ""))
            return await answer(request)

        return guarded


def check_token(token: str | None, authorization: str) -> None:
    """Refuse whoever does not have the token; without one nobody may write."""
    if token is None:
        raise Problem(403, "writes_off", "writing is off: the service was started without a token")
    scheme, _, given = authorization.partition(" ")
    # Hashes of one length are compared, in a time that tells nothing of where they differ.
    same = hmac.compare_digest(_hash(given.strip()), _hash(token))
    if scheme.lower() != "bearer" or not same:
        detail = "Authorization: Bearer TOKEN is needed"
        raise Problem(401, "no_token", detail, WWW_Authenticate="Bearer")


async def engine_of(request: Request) -> Engine:
    """Return what answers; async, since FastAPI would ask a thread for anything else."""
    engine: Engine = request.app.state.engine
    return engine


def problems(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    """Return how a route's errors look, for the OpenAPI document."""
    schema = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}
    content = {MEDIA_TYPE: {"schema": schema}}
    return {status: {"description": "a problem", "content": content} for status in statuses}


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
