"""What can be wrong with a request, as problem+json tells it (RFC 9457)."""

import json
import random
from http import HTTPStatus
from typing import Any

from fastapi import HTTPException
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
IDS = random.Random()  # noqa: S311 (asking the system each time takes longer than all the rest)
RETRY_SECONDS = 1  # after which a refused request may well be accepted


class Problem(HTTPException):
    """A request that is answered with an error; `code` is stable, `detail` is for people."""

    def __init__(self, status: int, code: str, detail: str, **headers: str) -> None:
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers = {"Retry-After": str(RETRY_SECONDS), **headers}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(status, detail, named)
        self.code = code

    def __str__(self) -> str:
        return f"{self.status_code} {self.code}: {self.detail}"


def describe_problem(problem: Problem, identity: str) -> dict[str, Any]:
    """Return what a client is told: nothing of the inside, and an id to ask for it."""
    return {
        "type": f"urn:forecaster:problem:{problem.code}",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "detail": str(problem.detail),
        "code": problem.code,
        "id": identity,
    }


def to_response(problem: Problem, identity: str) -> Response:
    """Return the answer to a request that went wrong."""
    body = json.dumps(describe_problem(problem, identity)).encode()
    return Response(body, problem.status_code, problem.headers, MEDIA_TYPE)


def fault() -> Problem:
    """Return what is told of a fault of the service itself."""
    return Problem(500, "fault", "a fault of the service; its log knows the id")


def new_id() -> str:
    """Return an id that finds a request again in the log; it need not be hard to guess."""
    return f"{IDS.getrandbits(64):016x}"
