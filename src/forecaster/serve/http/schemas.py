"""The schemas of requests and responses, and strict readers of JSON and times."""

import json
import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from forecaster.errors import printable
from forecaster.serve.problems import Problem

MAX_ITEMS = 10_000  # of one request
MAX_VALUE = 1e9
MAX_COVARIATES = 100
MAX_NAME = 200  # characters
SPACED_OFFSET = re.compile(r" (?=\d\d:?\d\d$)")  # a + that a URL has turned into a space


class RequestModel(BaseModel):
    """Content sent by a client: no unknown fields, no text for numbers, no true for 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


def read_time(text: str) -> int:
    """Return an instant in seconds since 1970; a time without an offset is refused."""
    try:
        moment = datetime.fromisoformat(SPACED_OFFSET.sub("+", text))
        if moment.tzinfo is None:
            raise ValueError("a time without an offset is ambiguous when clocks change")
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
Value = Annotated[float, Field(ge=-MAX_VALUE, le=MAX_VALUE)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class Observation(RequestModel):
    """The value of a location in the step that begins at `ds`; null: known to be missing."""

    location: Name
    ds: Time
    value: Value | None


class Observations(RequestModel):
    """A batch, committed whole or not at all."""

    observations: list[Observation] = Field(min_length=1, max_length=MAX_ITEMS)


class Covariate(RequestModel):
    """The covariates of all locations in the step that begins at `ds`, past or to come."""

    ds: Time
    values: dict[Name, Value | None] = Field(min_length=1, max_length=MAX_COVARIATES)


class CovariateBatch(RequestModel):
    """A batch, committed whole or not at all."""

    covariates: list[Covariate] = Field(min_length=1, max_length=MAX_ITEMS)


class NewLocation(RequestModel):
    """A location to register; its observations are taken from then on."""

    id: Name
    name: Annotated[str, Field(max_length=MAX_NAME)] | None = None  # default: the id
    lat: Annotated[float, Field(ge=-90, le=90)] | None = None
    lon: Annotated[float, Field(ge=-180, le=180)] | None = None
    covariates: dict[Name, Value] = Field(default={}, max_length=MAX_COVARIATES)  # local ones
    opens: Time | None = None  # observations of earlier steps are refused


class RegisteredLocation(BaseModel):
    """A location as it is registered."""

    id: str
    name: str
    lat: float | None
    lon: float | None
    covariates: dict[str, float]  # the same at all steps
    since: str | None  # when it was registered, UTC; null: it is in the panel
    opens: str | None  # UTC
    data_version: int  # grows with every write


class LocationInfo(BaseModel):
    """A location."""

    id: str
    name: str
    lat: float | None
    lon: float | None
    mean: float | None  # of its observed values in the panel; null: it is not in the panel
    fallback: str | None  # simple model that is served here; null: the run's own
    new: bool  # the run was not trained on it: it is forecast after a day of observations
    since: str | None  # when it was registered, UTC; null: it is in the panel
    opens: str | None  # when it opens, UTC; null: unknown
    closes: str | None  # when it closes, UTC; null: unknown


class LocationList(BaseModel):
    """All locations, and the meaning of the numbers."""

    zone: str  # IANA time zone
    kind: str  # count or measurement
    step_minutes: int
    horizon: int  # number of steps ahead
    quantiles: list[float]  # quantile levels
    absent: list[str]  # locations of the run that the panel lacks; they are not forecast
    locations: list[LocationInfo]


class DependencyEdge(BaseModel):
    """Two locations that depend on each other, and how strongly.

    With a delay, b depends on the past of a: a is the source, b the target.
    """

    a: str  # id of a location
    b: str  # id of the other
    strength: float  # conditional correlation, or effect on b
    delay: int | None = None  # steps from a to b; absent: the graph is undirected


class DependencyGraphResponse(BaseModel):
    """The dependencies between locations."""

    edges: list[DependencyEdge]


class RefusedRun(BaseModel):
    """A run that should be served, and failed its trial."""

    version: str | None  # its name; null: not one of several versions
    reason: str
    since: str  # UTC


class ShadowRun(BaseModel):
    """The challenger in the shadow: it forecasts and does not answer."""

    model: str | None  # hash of the run; null: there is none
    version: str | None
    refused: RefusedRun | None  # the version that should be in the shadow


class DriftWatch(BaseModel):
    """A score of the ledger's weeks, against validation."""

    name: str
    validation: float  # mean of its days
    last_week: float | None
    alarm_share: float  # of the limit of the cumulative sum; above 1: an alarm
    is_drifting: bool


class DriftState(BaseModel):
    """Whether live data is still as it was on validation."""

    advice: str  # nothing, look, update or unknown
    text: str  # the advice in words
    weeks: int  # of the ledger that were judged
    watches: list[DriftWatch]
    silent: list[str]  # ids of the first silent locations
    silent_locations: int  # number of all of them


class ServedRun(BaseModel):
    """The run that answers."""

    model: str | None  # hash of the run; null: none is loaded
    version: str | None  # its name in the folder of versions; null: a single run
    estimator: str | None
    learned_until: str | None  # the last step of its training and validation, UTC
    refused: RefusedRun | None  # the current version, if it failed its trial
    shadow: ShadowRun | None  # null: none was asked for
    drift: DriftState | None  # null: not known yet


class StepTimes(BaseModel):
    """A step by its beginning, UTC and on the wall clock."""

    ds: str  # UTC
    ds_local: str  # on the wall clock, with its offset


class ForecastBasis(BaseModel):
    """The model, the data and the origin of a forecast."""

    model: str  # hash of the run
    data_version: int  # grows with every write
    origin: str  # the last observed step, UTC
    origin_local: str  # on the wall clock
    data_age_seconds: int  # since the end of the newest step
    stale: bool  # no data for two steps or more
    degraded: str | None  # what makes it less certain than usual


class SpanTimes(BaseModel):
    """A local day that the horizon covers, or the whole horizon."""

    day: str  # local date, or `horizon`
    ds: str  # its first step, UTC
    ds_local: str  # on the wall clock, with its offset
    steps: int  # number of steps


class LocationTotals(BaseModel):
    """Totals over the days of a location; quantiles of the totals are further fields."""

    model_config = ConfigDict(extra="allow")

    y_hat: list[float | None]  # sums of the forecast means; null: closed


class LocationForecast(BaseModel):
    """The coming steps of a location; its quantiles are further fields: q10, q50, q90."""

    model_config = ConfigDict(extra="allow")

    id: str
    y_hat: list[float | None]  # forecast mean of each step ahead; null: closed, nothing to measure
    y_relative: list[
        float | None
    ] = []  # with the lowest relative error; only of runs with such an output
    last: float | None  # value at the origin
    usual: list[float | None]  # values of the same times a week before
    days: LocationTotals | None = None  # totals; only of horizons of a day or longer
    fallback: str | None = None  # simple model that is served here; absent: the run's own
    degraded: str | None = (
        None  # `new location`, why it is closed, missing, implausible or repeated values
    )
    closed: list[bool] | None = None  # steps outside opening hours; absent: none of them is


class ForecastResponse(ForecastBasis):
    """The coming steps of all locations, or of one."""

    steps: list[StepTimes]
    days: list[SpanTimes] = []  # of the totals; only of horizons of a day or longer
    forecasts: list[LocationForecast]


class History(BaseModel):
    """The observations of a location; null: missing."""

    id: str
    name: str
    steps: list[StepTimes]
    values: list[float | None]
    implausible: list[bool]  # whether each value is far from what the run has learned


class StepAccuracy(BaseModel):
    """Errors k steps ahead."""

    step: int  # number of steps ahead
    rmse: float | None
    mape: float | None  # a fraction
    bias: float | None  # a fraction; > 0: too high
    naive_rmse: float | None  # of the value a week before
    last_value_rmse: float | None  # of the value at the origin
    coverage: float | None  # share of values inside the interval


class BiasBySize(BaseModel):
    """The bias of forecasts of the locations of one fifth, by their mean value in training."""

    locations: int  # number of locations
    size: float  # their mean value in training
    bias: float | None  # a fraction; > 0: too high


class LedgerFigures(BaseModel):
    """What forecasts of some days were worth."""

    terms: int  # values, each once for every forecast of it
    rmse: float | None
    bias: float | None  # a fraction; > 0: too high
    coverage: float | None


class LedgerDay(LedgerFigures):
    """The forecasts of a run, and what was observed on a local day."""

    day: str  # local date
    model: str  # hash of the run


class ComparedRuns(BaseModel):
    """The served run and its challenger on the days that both have."""

    days: int
    served: LedgerFigures
    challenger: LedgerFigures


class ShadowAccuracy(BaseModel):
    """The challenger in the shadow, beside the served run."""

    model: str  # hash of the run
    version: str | None
    compared: ComparedRuns | None  # null: no day of both is over


class Accuracy(ForecastBasis):
    """The accuracy of the forecasts of the last hours, beside that of two simple forecasts.

    These are the value a week before and the value at the origin. RMSE and bias are of `y_hat`.
    """

    hours: int  # length of the period
    rmse: float | None
    mape: float | None  # a fraction
    mape_of: str  # the number that MAPE is of: y_relative if the run has it, else y_hat
    bias: float | None  # Σ (y_hat − value) / Σ |value|; > 0: too high
    bias_by_size: list[BiasBySize]  # by fifth of the locations, the smallest first
    bias_by_hour: list[float | None]  # by hour of the local day, 0 to 23; empty for daily steps
    naive_rmse: float | None  # of the value a week before
    naive_mape: float | None  # of the value a week before
    last_value_rmse: float | None  # of the value at the origin, repeated
    last_value_mape: float | None  # of the value at the origin, repeated
    coverage: float | None  # share of values inside the interval
    expected_coverage: float | None  # of a calibrated interval
    terms: int  # number of values compared
    by_step: list[StepAccuracy]
    shadow: ShadowAccuracy | None  # null: there is none
    ledger: list[LedgerDay]  # of the served run and its challenger, the last 28 days


class ExplanationResponse(ForecastBasis):
    """The explanation of a forecast."""

    model_config = ConfigDict(extra="allow")


class ProblemDetails(BaseModel):
    """The error of a request (RFC 9457)."""

    type: str
    title: str  # the status in words
    status: int
    detail: str  # what is wrong with this request
    code: str  # name of the error for programs
    id: str  # of the request, as in the log


def read_json(body: bytes) -> Any:
    """Return the content of a body; JSON that readers understand differently is refused."""
    try:
        return json.loads(body, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise Problem(422, "too_deep", "the JSON is nested too deeply") from error
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise Problem(
            422, "not_json", f"the body is not valid JSON: {printable(error)}"
        ) from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("an object has the same key twice")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number; use null for a missing value")
