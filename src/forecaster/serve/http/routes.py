"""Routes that read requests strictly, and that need a token to write."""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, ClassVar

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http.access import Scope
from forecaster.serve.http.arrow import ArrowRequest, is_arrow
from forecaster.serve.http.audit import AuditLog
from forecaster.serve.http.schemas import ProblemDetails, read_json
from forecaster.serve.problems import MEDIA_TYPE, Problem

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
ERRORS = (400, 408, 413, 414, 415, 421, 422, 431, 500, 503)  # of any request
READ_ERRORS = (401, 403, *ERRORS, 429, 504)
WRITE_ERRORS = (401, 403, *ERRORS, 429, 507)


class StrictRequest(Request):
    """A request whose JSON has one meaning only."""

    async def json(self) -> Any:
        """Return the content of the body."""
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route that checks the token before a body, and refuses unknown and repeated parameters.

    Not query models with `extra="forbid"`: they take the last of repeated parameters, and every
    route without parameters would need an empty model.
    """

    scope: ClassVar[Scope | None] = None  # that a token needs; None: no token

    def get_route_handler(self) -> Handler:
        """Return the handler of a request."""
        handle = super().get_route_handler()
        allowed = {field.alias for field in self.dependant.query_params}

        async def handle_strictly(request: Request) -> Response:
            if self.scope is not None:
                authorization = request.headers.get("authorization", "")
                access = request.app.state.settings.access
                request.state.token = access.authorize(authorization, self.scope)
            counts = Counter(name for name, _ in request.query_params.multi_items())
            if not allowed.issuperset(counts):
                listed = ", ".join(sorted(allowed)) or "none"
                raise Problem(422, "unknown_parameter", f"allowed parameters: {listed}")
            if counts and max(counts.values()) > 1:
                raise Problem(422, "doubled_parameter", "give each parameter once")
            if is_arrow(request.headers.get("content-type", "")):
                return await handle(ArrowRequest(request))
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


class ReadRoute(StrictRoute):
    """A route that reads; where reading is closed, it needs a token that may read."""

    scope: ClassVar[Scope | None] = "read"


class WriteRoute(StrictRoute):
    """A route that writes: it needs a token that may, and leaves a line in the audit log."""

    scope: ClassVar[Scope | None] = "write"

    def get_route_handler(self) -> Handler:
        """Return the handler of a request."""
        handle = super().get_route_handler()

        async def handle_audited(request: Request) -> Response:
            settings, status = request.app.state.settings, 500
            try:
                response = await handle(request)
                status = response.status_code
            except HTTPException as refusal:
                status = refusal.status_code
                raise
            except RequestValidationError:
                status = 422
                raise
            finally:
                if settings.audit is not None:
                    audit_write(settings.audit, request, status)
            return response

        return handle_audited


class AdminRoute(WriteRoute):
    """A route that changes what is served."""

    scope: ClassVar[Scope | None] = "admin"


def audit_write(audit: AuditLog, request: Request, status: int) -> None:
    """Record a request that writes, and the status of its response."""
    state, client = request.state, request.client
    audit.write(
        request=state.id,
        token=getattr(state, "token", None),
        client=None if client is None else client.host,
        path=request.url.path,
        status=status,
        **getattr(state, "written", {}),
    )


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
