"""What comes in and goes out, as the OpenAPI document says it; bad input ends here."""

import json
import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from forecaster.serve.problems import Problem

MAX_ITEMS = 10_000  # of one request
MAX_SIZE = 1e9  # of a number
MAX_COVARIATES = 100
SPACED_OFFSET = re.compile(r" (?=\d\d:?\d\d$)")  # a + that a URL has turned into a space


class Given(BaseModel):
    """What a client sends: nothing unknown, no text for numbers, no true for 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


def read_time(text: str) -> int:
    """Return an instant in seconds since 1970; without an offset it is refused."""
    try:
        moment = datetime.fromisoformat(SPACED_OFFSET.sub("+", text))
        if moment.tzinfo is None:
            raise ValueError("it has no offset, and clocks change")
        seconds = moment.timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError("give a time with its offset, as 2014-06-01T08:00:00-04:00") from error
    if seconds != int(seconds):
        raise ValueError("give a whole second")
    return int(seconds)


def _check_time(text: str) -> str:
    read_time(text)
    return text


Time = Annotated[
    str,
    AfterValidator(_check_time),
    Field(
        max_length=40,
        description="ISO 8601 with an offset or Z",
        json_schema_extra={"format": "date-time"},
    ),
]
Size = Annotated[float, Field(ge=-MAX_SIZE, le=MAX_SIZE)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Observation(Given):
    """What was seen at a location in the step that begins at `ds`; null: known to be missing."""

    location: Name
    ds: Time
    value: Size | None


class Observations(Given):
    """A batch, committed whole or not at all."""

    observations: list[Observation] = Field(min_length=1, max_length=MAX_ITEMS)


class Covariate(Given):
    """What is known of the whole city in the step that begins at `ds`, past or to come."""

    ds: Time
    values: dict[Name, Size | None] = Field(min_length=1, max_length=MAX_COVARIATES)


class CovariateBatch(Given):
    """A batch, committed whole or not at all."""

    covariates: list[Covariate] = Field(min_length=1, max_length=MAX_ITEMS)


class Receipt(BaseModel):
    """What became of a batch, once it is safe on disk."""

    accepted: int
    revised: int
    unchanged: int
    data_version: int


class Place(BaseModel):
    """A location."""

    id: str
    name: str
    lat: float | None
    lon: float | None
    mean: float | None


class Places(BaseModel):
    """All locations, and what the numbers mean."""

    zone: str
    kind: str
    step_minutes: int
    horizon: int
    quantiles: list[float]
    locations: list[Place]


class Edge(BaseModel):
    """Two locations that tell of each other, and how much."""

    a: str
    b: str
    strength: float


class Graph(BaseModel):
    """The dependencies between locations."""

    edges: list[Edge]


class Step(BaseModel):
    """A step by its beginning, UTC and on the wall clock."""

    ds: str
    ds_local: str


class Common(BaseModel):
    """What every forecast rests on."""

    model: str
    data_version: int
    origin: str
    origin_local: str
    data_age_seconds: int
    stale: bool
    degraded: str | None


class LocationForecast(BaseModel):
    """The coming steps of a location; its quantiles are further fields: q10, q50, q90."""

    model_config = ConfigDict(extra="allow")

    id: str
    y_hat: list[float]
    last: float | None
    usual: list[float | None]


class Forecast(Common):
    """The coming steps of all locations, or of one."""

    steps: list[Step]
    forecasts: list[LocationForecast]


class History(BaseModel):
    """What was observed at a location; null: missing."""

    id: str
    name: str
    steps: list[Step]
    values: list[float | None]


class StepAccuracy(BaseModel):
    """Errors k steps ahead."""

    step: int
    rmse: float | None
    mape: float | None
    naive_rmse: float | None
    coverage: float | None


class Accuracy(Common):
    """How good the forecasts of the last hours were, beside the value a week before."""

    hours: int
    rmse: float | None
    mape: float | None
    naive_rmse: float | None
    naive_mape: float | None
    coverage: float | None
    expected_coverage: float | None
    terms: int
    by_step: list[StepAccuracy]


class Explanation(Common):
    """Why a forecast is what it is."""

    model_config = ConfigDict(extra="allow")


class ProblemDetails(BaseModel):
    """What was wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    id: str


def read_json(body: bytes) -> Any:
    """Return the content of a body; what other readers would take differently is refused."""
    try:
        return json.loads(body, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise Problem(422, "too_deep", "the JSON is nested too deeply") from error
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise Problem(
            422, "not_json", f"the body is not JSON that can be used: {_short(error)}"
        ) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON; use null for what is missing")


def _short(error: Exception) -> str:
    return ascii(str(error))[1:-1][:200]
