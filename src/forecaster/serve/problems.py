"""Errors of requests as problem+json (RFC 9457)."""

import json
import random
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from forecaster.errors import message_lines

MEDIA_TYPE = "application/problem+json"
INFERENCE = "/v2"  # paths of the Open Inference Protocol
IDS = random.Random()  # noqa: S311 (an id need not be secret, and the system's source is slow)
RETRY_SECONDS = 1  # after which a refused request may be retried


class Problem(HTTPException):
    """An error response; `code` is stable, `detail` is for people."""

    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers = {"Retry-After": str(RETRY_SECONDS), **headers}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(status, message_lines(detail), named)
        self.code = code

    def __str__(self) -> str:
        return f"{self.status_code} {self.code}: {self.detail}"


def problem_fields(problem: Problem, identity: str) -> dict[str, Any]:
    """Return the fields of problem+json; the only internal one is the request's id."""
    return {
        "type": f"urn:forecaster:problem:{problem.code}",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "detail": str(problem.detail),
        "code": problem.code,
        "id": identity,
    }


def to_response(problem: Problem, scope: Scope) -> Response:
    """Return the response to a failed request of an ASGI scope."""
    fields = problem_fields(problem, scope["state"]["id"])
    if scope["path"].startswith(INFERENCE):
        fields["error"] = fields["detail"]  # as its clients look for it
    return Response(json.dumps(fields).encode(), problem.status_code, problem.headers, MEDIA_TYPE)


def internal_error() -> Problem:
    """Return the problem for an internal error."""
    return Problem(500, "fault", "an internal error; the service's log has this id")


def new_id() -> str:
    """Return a new id of a request, which the log contains."""
    return f"{IDS.getrandbits(64):016x}"
